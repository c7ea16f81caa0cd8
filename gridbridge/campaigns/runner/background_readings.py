"""The programs that work for campaigns' owners beside the runner's cycles, and what they read about ended attempts."""

import logging
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar

from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.array_submitter import CampaignOwnerUids, Pair
from gridbridge.decisions.campaigns.task_usage_warnings import COUNTED, FAILURES
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.campaign import CampaignArray, CampaignCluster, TaskAttempt
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointCarry
from gridbridge.model.campaigns.grouped_tasks import JobRecord
from gridbridge.model.campaigns.task_resource_usage import MeasuredTaskAttempt
from gridbridge.model.fixed_paths import NOT_NOW
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import BackgroundProgram, CompletedProgram

MOST_PROGRAMS = 50  # of a kind at once
PAUSE_S = 30.0  # after a failed reading, because a person's programs may fail in each cycle
USAGE_PAUSE_S = 30.0  # between two readings of usage, so that each reads many attempts; no end waits for them
LONGEST_WAIT_S = 900.0  # without a successful reading; afterwards all unfinished tasks of a job count as lost
LONGEST_USAGE_WAIT_S = 300.0  # afterwards usage stays unknown
MOST_JOBS, MOST_ATTEMPTS = 100, 1000  # that a program reads
NO_JOB_RECORD = "no file group.{1}.{0} in the campaign's folder; expected the record of an ended job"
TaskAndAttempt = tuple[int, int]  # of jobs: array index and array number
Key = tuple[int, int, int]  # the campaign before them
StartReading = Callable[[int, str, Iterable[TaskAndAttempt]], BackgroundProgram]  # campaign, cluster, what to read
Work = TypeVar("Work")
Value = TypeVar("Value")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class OwnerProgram(Generic[Work]):
    program: BackgroundProgram
    campaign_and_cluster: CampaignCluster
    work: Work
    began_s: float  # steady time
    is_reported: bool = False  # whether the program's end has been reported


class OwnerPrograms(Generic[Work]):
    """The running programs of a kind, at most one for each owner and cluster."""

    def __init__(self) -> None:
        self._running: dict[Pair, OwnerProgram[Work]] = {}

    def may_start(self, owner: Pair) -> bool:
        """Say whether no program of the owner works at the cluster, and fewer than MOST_PROGRAMS run."""
        return owner not in self._running and len(self._running) < MOST_PROGRAMS

    def add(
        self, owner: Pair, program: BackgroundProgram, pair: CampaignCluster, work: Work, began_s: float = 0.0
    ) -> None:
        self._running[owner] = OwnerProgram(program, pair, work, began_s)

    def find(self, owner: Pair) -> OwnerProgram[Work] | None:
        return self._running.get(owner)

    def pop_ended(self) -> list[tuple[Pair, OwnerProgram[Work], CompletedProgram]]:
        """Remove the ended programs; return each with its owner and cluster, and its result."""
        ended = [
            (owner, run, answer) for owner, run in self._running.items() if (answer := run.program.result_if_ended())
        ]
        for owner, _, _ in ended:
            del self._running[owner]
        return ended

    def has_new_end(self) -> bool:
        """Say whether a program has done its work since the last call, so that a cycle may start early."""
        has_new = False
        for run in self._running.values():
            if not run.is_reported and (answer := run.program.result_if_ended()):
                run.is_reported = True
                has_new |= answer.status != NOT_NOW
        return has_new

    @property
    def are_in_use(self) -> bool:
        """Whether a program works, or the next cycle uses what an ended program did."""
        answers = [run.program.result_if_ended() for run in self._running.values()]
        return any(answer is None or answer.status != NOT_NOW for answer in answers)


ProgramsForAttempts = OwnerPrograms[tuple[TaskAndAttempt, ...]]
CheckpointWork = tuple[CampaignArray | None, tuple[CheckpointCarry, ...]]  # None: a removal


@dataclass(frozen=True, slots=True)
class BackgroundPrograms:
    """All programs that carry or read files of tasks; they outlive a failed cycle, unlike the objects that use them."""

    inputs: OwnerPrograms[CampaignArray | None] = field(default_factory=OwnerPrograms)  # None: a removal
    outputs: ProgramsForAttempts = field(default_factory=OwnerPrograms)
    checkpoints: ProgramsForAttempts = field(default_factory=OwnerPrograms)
    checkpoint_carries: OwnerPrograms[CheckpointWork] = field(default_factory=OwnerPrograms)
    jobs: ProgramsForAttempts = field(default_factory=OwnerPrograms)
    usages: ProgramsForAttempts = field(default_factory=OwnerPrograms)
    pulling: ProgramsForAttempts = field(default_factory=OwnerPrograms)
    unmeasured: dict[Key, tuple[TaskAttempt, str]] = field(default_factory=dict)  # each with its cluster

    def has_new_end(self) -> bool:
        """Say whether a cycle may start early; read usage and records of running jobs start none."""
        kinds = (self.inputs, self.outputs, self.checkpoints, self.checkpoint_carries, self.jobs)
        return any(kind.has_new_end() for kind in kinds)

    @property
    def are_in_use(self) -> bool:
        carries = (self.inputs, self.outputs, self.checkpoint_carries)
        kinds = (*carries, self.checkpoints, self.jobs, self.usages, self.pulling)
        return any(kind.are_in_use for kind in kinds)


class BackgroundReadings(Generic[Value]):
    """Gives values of attempts or jobs once a program of their owner has read them.

    No state is stored: after a kill the runner wants the same values, and reads them again.
    """

    def __init__(
        self,
        failure: str,
        programs: ProgramsForAttempts,
        start: StartReading,
        parse: Callable[[CompletedProgram], Mapping[TaskAndAttempt, Value]],
        clock: Clock,
        *,
        without: Value | None = None,
        lacking: str = "",
        most: int = MOST_ATTEMPTS,
        longest_wait_s: float = LONGEST_WAIT_S,
        pause_s: float = 0.0,
    ) -> None:
        """Take the log line of a failure, the value of what an answer lacks, and the pause after each reading."""
        self._failure = failure
        self._programs = programs
        self._start = start
        self._parse = parse
        self._clock = clock
        self._without = without
        self._lacking = lacking
        self._most = most
        self._longest_wait_s = longest_wait_s
        self._pause_s = pause_s
        self._values: dict[Key, Value | None] = {}
        self._since_s: dict[Key, float] = {}  # when a value was first wanted
        self._missing_since_s: dict[Key, float] = {}  # when an answer first lacked a required value
        self._failing_since_s: dict[CampaignCluster, float] = {}  # begin of the first reading since the last success
        self._last_begun_s: dict[CampaignCluster, float] = {}  # when the last program began
        self._last_read_s: dict[Key, float] = {}  # when the last program that reads the value began
        self._paused_until_s: dict[Pair, float] = {}

    def read_values(
        self, wanted: Mapping[Key, str], uid_of_owner: Callable[[int], int], required: Container[Key] = ()
    ) -> dict[Key, Value | None]:
        """Take values, each with its cluster, and start to read those that have not been read."""
        values = self.take_values(wanted, uid_of_owner, required)
        unread = {key: cluster for key, cluster in wanted.items() if key not in values}
        self.start_readings(unread, uid_of_owner)
        return values

    def take_values(
        self, wanted: Mapping[Key, str], uid_of_owner: Callable[[int], int], required: Container[Key] = ()
    ) -> dict[Key, Value | None]:
        """Return and forget the values that have been read; forget unwanted values.

        A value is None if it can't be read for the longest wait, during which a value that only waits for its turn is
        not late. A `required` value that an answer lacks is read again, because the home may not be mounted.
        """
        for owner, run, answer in self._programs.pop_ended():
            self._store_answer(owner, run, answer, required)
        now_s = self._clock.steady_s()
        since_s = {key: self._since_s.get(key, now_s) for key in wanted}
        values: dict[Key, Value | None] = {}
        for key, cluster in wanted.items():
            failing_s = self._missing_since_s.get(key, self._failing_since_s.get((key[0], cluster), now_s))
            running = self._programs.find((uid_of_owner(key[0]), cluster))
            hung_s = running.began_s if running else now_s  # the program may read for another campaign of the owner
            is_late = now_s - max(since_s[key], min(failing_s, hung_s)) >= self._longest_wait_s
            if is_late or key in self._values:
                values[key] = self._values.get(key)
        self._values.clear()
        self._since_s = {key: wanted_s for key, wanted_s in since_s.items() if key not in values}
        self._missing_since_s = {key: at_s for key, at_s in self._missing_since_s.items() if key in self._since_s}
        self._last_read_s = {key: at_s for key, at_s in self._last_read_s.items() if key in self._since_s}
        pairs = {(key[0], cluster) for key, cluster in wanted.items()}
        self._failing_since_s = {pair: at_s for pair, at_s in self._failing_since_s.items() if pair in pairs}
        self._last_begun_s = {pair: at_s for pair, at_s in self._last_begun_s.items() if pair in pairs}
        return values

    def start_readings(self, unread: Mapping[Key, str], uid_of_owner: Callable[[int], int]) -> None:
        """Start to read values, each with its cluster; an owner's campaigns, and the values of each, take turns."""
        now_s = self._clock.steady_s()
        by_pair = defaultdict[CampaignCluster, list[Key]](list)
        for key, cluster in unread.items():
            self._since_s.setdefault(key, now_s)
            by_pair[key[0], cluster].append(key)
        for pair in sorted(by_pair, key=lambda pair: self._last_begun_s.get(pair, -inf)):
            owner = uid_of_owner(pair[0]), pair[1]
            if self._paused_until_s.get(owner, now_s) <= now_s and self._programs.may_start(owner):
                self._paused_until_s[owner] = now_s + self._pause_s
                keys = sorted(by_pair[pair], key=lambda key: self._last_read_s.get(key, -inf))[: self._most]
                self._last_read_s |= dict.fromkeys(keys, now_s)
                self._start_reading(owner, pair, tuple(key[1:] for key in keys))

    def _start_reading(self, owner: Pair, pair: CampaignCluster, work: tuple[TaskAndAttempt, ...]) -> None:
        began_s = self._last_begun_s[pair] = self._clock.steady_s()
        self._failing_since_s.setdefault(pair, began_s)
        try:
            self._programs.add(owner, self._start(*pair, work), pair, work, began_s)
        except GridbridgeError as error:
            self._pause_readings(owner, pair, error)

    def _store_answer(
        self,
        owner: Pair,
        run: OwnerProgram[tuple[TaskAndAttempt, ...]],
        answer: CompletedProgram,
        required: Container[Key],
    ) -> None:
        campaign, _ = run.campaign_and_cluster
        try:
            values = self._parse(answer)
        except GridbridgeError as error:
            self._pause_readings(owner, run.campaign_and_cluster, error)
            return
        self._failing_since_s.pop(run.campaign_and_cluster, None)
        for numbers in run.work:
            key = campaign, *numbers
            if numbers not in values and key in required:
                self._missing_since_s.setdefault(key, self._clock.steady_s())
                self._pause_readings(owner, run.campaign_and_cluster, StateError(self._lacking.format(*numbers)))
            else:
                self._values[key] = values.get(numbers, self._without)

    def _pause_readings(self, owner: Pair, pair: CampaignCluster, error: GridbridgeError) -> None:
        self._paused_until_s[owner] = self._clock.steady_s() + PAUSE_S
        _log.warning(self._failure, *pair, str(error))


class RecordsOfEndedJobs:
    """Gives the records of ended jobs that ran several tasks, before the runner records how the tasks ended."""

    def __init__(
        self,
        clock: Clock,
        programs: ProgramsForAttempts,
        start: StartReading = array_commands_as_owner.start_job_record_reading,
    ) -> None:
        parse = array_commands_as_owner.records_of_jobs
        self._readings = BackgroundReadings[JobRecord](
            "event=records_unread campaign=%d at=%s why=%r",
            programs,
            start,
            parse,
            clock,
            without={},
            lacking=NO_JOB_RECORD,
            most=MOST_JOBS,
        )

    def take_job_records(
        self, ended: Mapping[CampaignArray, Mapping[int, bool]], owners: Mapping[int, int]
    ) -> dict[CampaignArray, dict[int, JobRecord | None]]:
        """Return the records of jobs that have been read, by array and index; start to read the others.

        `ended` has for each array index whether the job must have a record. A record is empty if the job began no task,
        and None if it could not be read for a long time.
        """
        arrays = {
            (array.campaign, index, array.number): array
            for array, indices in ended.items()
            for index in sorted(indices)
        }
        clusters = {key: array.cluster for key, array in arrays.items()}
        required = {key for key, array in arrays.items() if ended[array][key[1]]}
        records: dict[CampaignArray, dict[int, JobRecord | None]] = {array: {} for array in ended}
        for key, record in self._readings.read_values(clusters, owners.__getitem__, required).items():
            records[arrays[key]][key[1]] = record
        return records


class UsageOfEndedAttempts:
    """Reads memory and written bytes of ended attempts, at clusters whose accounting lacks them.

    Usage is read after the ends of attempts were recorded, so that a slow or failed reading delays no end. What was not
    read before a kill stays unknown.
    """

    def __init__(
        self,
        owners: CampaignOwnerUids,
        clusters: Container[str],
        clock: Clock,
        programs: BackgroundPrograms,
        start: StartReading = array_commands_as_owner.start_record_reading,
    ) -> None:
        """Take the clusters whose accounting lacks memory."""
        self._owners = owners
        self._clusters = clusters
        self._unmeasured = programs.unmeasured
        parse = array_commands_as_owner.usage_of_attempts
        self._readings = BackgroundReadings[tuple[int, int]](
            "event=usage_unread campaign=%d at=%s why=%r",
            programs.usages,
            start,
            parse,
            clock,
            longest_wait_s=LONGEST_USAGE_WAIT_S,
            pause_s=USAGE_PAUSE_S,
        )

    def take_measured_attempts(self) -> tuple[MeasuredTaskAttempt, ...]:
        """Return the attempts that have been read since the last call."""
        clusters = {key: cluster for key, (_, cluster) in self._unmeasured.items()}
        values = self._readings.take_values(clusters, self._owners.uid_of_owner)
        attempts = {key: self._unmeasured.pop(key) for key in values}
        return tuple(
            MeasuredTaskAttempt(
                campaign=attempt.campaign,
                task=attempt.task,
                attempt=attempt.attempt,
                cluster=cluster,
                has_failed=attempt.outcome in FAILURES,
                max_rss_kb=usage[0],
                written_kb=usage[1],
            )
            for key, (attempt, cluster) in attempts.items()
            if (usage := values[key])
        )

    def start_readings(self, ended: Iterable[tuple[TaskAttempt, str]]) -> None:
        """Start to read the usage of ended attempts, each with its cluster, and of earlier ones that still wait."""
        for attempt, cluster in ended:
            if cluster in self._clusters and attempt.outcome in COUNTED and attempt.max_rss_kb is None:
                self._unmeasured[attempt.campaign, attempt.task, attempt.attempt] = attempt, cluster
        clusters = {key: cluster for key, (_, cluster) in self._unmeasured.items()}
        self._readings.start_readings(clusters, self._owners.uid_of_owner)
