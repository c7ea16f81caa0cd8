"""Reads the records of ended jobs that ran several tasks, before the runner records how the tasks ended."""

import logging
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from typing import Protocol

from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.array_submitter import Pair
from gridbridge.campaigns.runner.background_input_carries import may_start_owner_program, pop_ended_programs
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.campaign import CampaignArray, CampaignCluster
from gridbridge.model.campaigns.grouped_tasks import JobRecord
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import BackgroundProgram, CompletedProgram

FIRST_WAIT_S, LOOK_S = 20.0, 0.05  # cron runs a single cycle, which then waits for the programs that read records
LONGEST_WAIT_S = 900.0  # without a successful reading; afterwards all unfinished tasks of the job count as lost
PAUSE_S = 30.0  # after a failed reading
MOST_AT_ONCE = 100  # jobs in one call
Key = tuple[int, int, int]  # campaign, array number, array index
_log = logging.getLogger(__name__)


class JobRecordCommands(Protocol):
    """The commands of module `array_commands_as_owner` that read the records of jobs."""

    def start_job_record_reading(
        self, campaign: int, cluster: str, jobs: Iterable[tuple[int, int]], /
    ) -> BackgroundProgram:
        """Start to read the records of jobs, pairs (array index, array number), at a cluster."""

    def records_of_jobs(self, answer: CompletedProgram, /) -> dict[tuple[int, int], JobRecord]:
        """Return the records by (array index, array number)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJobRecordReading:
    program: BackgroundProgram
    campaign_and_cluster: CampaignCluster
    jobs: tuple[tuple[int, int], ...]  # pairs (array index, array number)
    begun: Container[int]  # array indices of jobs that must have a record
    began_s: float  # steady time at which the program was started


class RecordsOfEndedJobs:
    """Gives the records of jobs once a program has read them; at most one program runs for each owner and cluster.

    No state is stored: after a kill the runner finds the same jobs and reads their records again.
    """

    def __init__(
        self,
        clock: Clock,
        running: dict[Pair, RunningJobRecordReading],
        acts: JobRecordCommands = array_commands_as_owner,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        """Take the running programs, which outlive this object; wait `first_wait_s` for the first programs."""
        self._clock = clock
        self._running = running
        self._acts = acts
        self._records: dict[Key, JobRecord] = {}
        self._since_s: dict[Key, float] = {}  # when a job's record was first needed
        self._missing_since_s: dict[Key, float] = {}  # when a record that must exist was first missing
        self._failing_since_s: dict[CampaignCluster, float] = {}  # begin of the first reading since the last success
        self._paused_until_s: dict[Pair, float] = {}
        # campaigns and arrays whose reading was refused since an owner's last program began, and so go first
        self._refused: dict[Pair, set[tuple[int, int]]] = {}
        self._looks = int(first_wait_s / LOOK_S)  # how often a started program may be waited for

    def take_ended_record_readings(self) -> bool:
        """Store the answers of ended programs; say whether there are any, so that a cycle may start early."""
        ended = pop_ended_programs(self._running)
        for owner, reading, answer in ended:
            self._take_answer(owner, reading, answer)
        return bool(ended)

    def take_job_records(
        self, array: CampaignArray, uid: int, indices: Collection[int], begun: Container[int]
    ) -> dict[int, JobRecord | None]:
        """Return the records of an array's jobs that have been read, by array index; start to read the others.

        A record is empty if the job began no task, and None if it could not be read for a long time. Jobs in `begun`
        have begun tasks: a missing record is read again, because the home may not be mounted.
        """
        keys = {index: (array.campaign, array.number, index) for index in indices}
        owner = uid, array.cluster
        unread = [index for index, key in keys.items() if not self._may_use_record(owner, key)]
        if unread:
            jobs = tuple((index, array.number) for index in sorted(unread)[:MOST_AT_ONCE])
            self._start_reading(uid, (array.campaign, array.cluster), jobs, begun)
            unread = [index for index in unread if not self._may_use_record(owner, keys[index])]
        known = {index: key for index, key in keys.items() if index not in unread}
        for key in known.values():
            self._since_s.pop(key)
            self._missing_since_s.pop(key, None)
        return {index: self._records.pop(key, None) for index, key in known.items()}

    def _may_use_record(self, owner: Pair, key: Key) -> bool:
        """Say whether a record was read or can't be read; a record that only waits for its turn is not late."""
        now_s, running = self._clock.steady_s(), self._running.get(owner)
        needed_s = self._since_s.setdefault(key, now_s)
        failing_s = self._missing_since_s.get(key, self._failing_since_s.get((key[0], owner[1]), now_s))
        hung_s = running.began_s if running else now_s  # the program may read for another campaign of the owner
        is_late = now_s - max(needed_s, min(failing_s, hung_s)) >= LONGEST_WAIT_S
        return is_late or key in self._records

    def _start_reading(
        self, uid: int, pair: CampaignCluster, jobs: tuple[tuple[int, int], ...], begun: Container[int]
    ) -> None:
        owner = uid, pair[1]
        is_paused = self._clock.steady_s() < self._paused_until_s.get(owner, 0.0)
        refused, of_array = self._refused.setdefault(owner, set()), (pair[0], jobs[0][1])
        if not may_start_owner_program(owner, self._running) or (refused and of_array not in refused):
            refused.add(of_array)
            return
        if is_paused:
            return
        refused.clear()
        began_s = self._clock.steady_s()
        self._failing_since_s.setdefault(pair, began_s)
        try:
            program = self._acts.start_job_record_reading(*pair, jobs)
        except GridbridgeError as error:
            self._pause_readings(owner, pair[0], error)
            return
        self._running[owner] = RunningJobRecordReading(
            program=program, campaign_and_cluster=pair, jobs=jobs, begun=begun, began_s=began_s
        )
        while self._looks and not self.take_ended_record_readings():
            self._looks -= 1
            self._clock.sleep(LOOK_S)

    def _take_answer(self, owner: Pair, reading: RunningJobRecordReading, answer: CompletedProgram) -> None:
        campaign, _ = reading.campaign_and_cluster
        try:
            records = self._acts.records_of_jobs(answer)
        except GridbridgeError as error:
            self._pause_readings(owner, campaign, error)
            return
        self._failing_since_s.pop(reading.campaign_and_cluster, None)
        for index, array in reading.jobs:
            key, record = (campaign, array, index), records.get((index, array), {})
            if record or index not in reading.begun:
                self._records[key] = record
            else:
                self._missing_since_s.setdefault(key, self._clock.steady_s())
                missing = f"no file group.{array}.{index} in the campaign's folder; expected the record of an ended job"
                self._pause_readings(owner, campaign, StateError(missing))

    def _pause_readings(self, owner: Pair, campaign: int, error: GridbridgeError) -> None:
        self._paused_until_s[owner] = self._clock.steady_s() + PAUSE_S
        _log.warning("event=records_unread campaign=%d at=%s why=%r", campaign, owner[1], str(error))
