"""Reads the records of running jobs that get further tasks, between two cycles of the runner."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping

from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.array_submitter import Pair
from gridbridge.campaigns.runner.background_readings import MOST_JOBS, ProgramsForAttempts, StartReading
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import CampaignArray, CampaignCluster
from gridbridge.model.campaigns.grouped_tasks import JobRecord, PullingJob
from gridbridge.shell.clock import Clock

RunningJobs = Mapping[CampaignArray, Iterable[int]]  # array indices of running jobs
_log = logging.getLogger(__name__)


class RecordsOfPullingJobs:
    """Reads each record at most once a cycle; no state is stored, because a lost reading only delays a task."""

    def __init__(
        self,
        clock: Clock,
        tries: TaskAttemptRows,
        programs: ProgramsForAttempts,
        start: StartReading = array_commands_as_owner.start_job_record_reading,
    ) -> None:
        self._clock = clock
        self._tries = tries
        self._programs = programs
        self._start = start
        self._last: dict[Pair, CampaignCluster] = {}  # read last; other campaigns of the owner come first
        self._next: dict[CampaignCluster, int] = {}  # position of the first job to read, if there are many

    def describe_pulling_jobs(self, jobs: RunningJobs, owners: Mapping[int, int]) -> tuple[PullingJob, ...]:
        """Return the jobs whose records have been read, and start to read the others."""
        arrays = {array.campaign_and_array_number: array for array in jobs}
        indices = {key: frozenset(jobs[array]) for key, array in arrays.items()}
        pulling = list[PullingJob]()
        for owner, reading, answer in self._programs.pop_ended():
            campaign, _ = reading.campaign_and_cluster
            try:
                records = array_commands_as_owner.records_of_jobs(answer)
            except GridbridgeError as error:
                _log.warning("event=records_unread campaign=%d at=%s why=%r", campaign, owner[1], str(error))
                continue
            age_s = self._clock.steady_s() - reading.began_s
            for (index, number), record in records.items():
                if index in indices.get((campaign, number), ()):
                    pulling.append(self._describe_job(arrays[campaign, number], index, record, age_s))
        self._start_readings(jobs, owners)
        return tuple(pulling)

    def _describe_job(self, array: CampaignArray, index: int, record: JobRecord, age_s: float) -> PullingJob:
        given = {(attempt.task, attempt.attempt) for attempt in self._tries.unfinished_attempts_at(array, {index})}
        ended = [run for key, run in record.items() if key in given and run.ended_cs is not None]
        return PullingJob(
            campaign=array.campaign,
            cluster=array.cluster,
            array=array.number,
            index=index,
            begin_s=array.group_s,
            wait_s=array.group_wait_s,
            tasks=len(given),
            begun=len(given & record.keys()),
            ended=len(ended),
            failed=sum(run.exit_status != 0 for run in ended),
            last_end_s=max((run.ended_cs or 0 for run in ended), default=0) / 100,
            age_s=age_s,
        )

    def _start_readings(self, jobs: RunningJobs, owners: Mapping[int, int]) -> None:
        of_owner = defaultdict[Pair, dict[CampaignCluster, list[tuple[int, int]]]](lambda: defaultdict(list))
        for array, indices in jobs.items():
            of_pair = of_owner[owners[array.campaign], array.cluster]
            of_pair[array.campaign, array.cluster] += ((index, array.number) for index in sorted(indices))
        for owner, pairs in of_owner.items():
            if not self._programs.may_start(owner):
                continue
            last = self._last.get(owner, (0, ""))
            pair = min((pair for pair in pairs if pairs[pair]), key=lambda pair: (pair <= last, pair), default=None)
            if pair:
                first = self._next.get(pair, 0) % len(pairs[pair])
                self._next[pair] = first + MOST_JOBS
                self._start_reading(owner, pair, (*pairs[pair][first:], *pairs[pair][:first])[:MOST_JOBS])

    def _start_reading(self, owner: Pair, pair: CampaignCluster, jobs: tuple[tuple[int, int], ...]) -> None:
        self._last[owner] = pair
        try:
            self._programs.add(owner, self._start(*pair, jobs), pair, jobs, self._clock.steady_s())
        except GridbridgeError as error:
            _log.warning("event=records_unread campaign=%d at=%s why=%r", *pair, str(error))
