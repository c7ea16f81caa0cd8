"""Submits, releases and deletes arrays of campaign tasks, in limited time for each owner and cluster."""

import logging
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

from gridbridge.campaigns.runner.array_commands_as_owner import (
    EndedCampaignRefusal,
    PermanentArrayRefusal,
    RootCampaignRefusal,
)
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.errors import ArrayTasksAlreadyInLedger, GridbridgeError
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionResult,
    ArraySubmissionState,
    CampaignArray,
    RootLedgerArray,
    TaskAttempt,
    TaskGroupSize,
)
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection
from gridbridge.model.campaigns.campaign_cycle_plan import (
    PlannedCampaignTaskSend,
    TaskCountByExclusions,
    TimedInputCarry,
)
from gridbridge.model.campaigns.grouped_tasks import TasksForRunningJob
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import BackgroundProgram, CompletedProgram


class CampaignArrayCommands(Protocol):
    """Commands on arrays at clusters, from the module `array_commands_as_owner`; most may be repeated."""

    def submit_arrays(
        self, arrays: tuple[tuple[CampaignArray, tuple[TaskAttempt, ...]], ...], /
    ) -> tuple[ArraySubmissionResult, ...]: ...

    def add_tasks_to_jobs(self, array: CampaignArray, attempts: tuple[TaskAttempt, ...], /) -> None: ...

    def release_array(self, array: CampaignArray, /) -> None: ...

    def delete_array(self, array: CampaignArray, /) -> int: ...

    def delete_array_tasks(self, array: CampaignArray, indices: tuple[range, ...], /) -> None: ...

    def delete_waiting_array_tasks(self, array: CampaignArray, indices: tuple[range, ...], /) -> tuple[range, ...]: ...

    def close_campaign_in_root_ledger(self, campaign: int, /) -> None: ...

    def start_input_carry(
        self, array: CampaignArray, attempts: tuple[TaskAttempt, ...], at_cluster: tuple[TaskAttempt, ...], /
    ) -> BackgroundProgram: ...

    def timed_input_carry(self, answer: CompletedProgram, /) -> TimedInputCarry | None: ...

    def start_input_removal(self, campaign: int, cluster: str, /) -> BackgroundProgram: ...

    def start_checkpoint_carry(
        self, campaign: int, source: str, cluster: str, attempts: Iterable[tuple[int, int]], /
    ) -> BackgroundProgram: ...

    def start_checkpoint_removal(
        self, campaign: int, cluster: str, attempts: Iterable[tuple[int, int]], /
    ) -> BackgroundProgram: ...

    def start_output_carry(
        self, campaign: int, cluster: str, attempts: Iterable[tuple[int, int]], /
    ) -> BackgroundProgram: ...

    def tasks_without_outputs(self, answer: CompletedProgram, /) -> tuple[dict[int, str], frozenset[int]] | None: ...

    def list_root_ledger_arrays(self, campaign: int, /) -> tuple[RootLedgerArray, ...]: ...


# largest number of tasks in an array whose jobs run several tasks, because one transaction records the array
MOST_GROUPED_TASKS = 5000
TURN_S = 60.0  # in a cycle no call starts once an owner's calls to a cluster have taken this long
# gridbridge-as-user reports these errors itself, so a call with such an error did not hang
ANSWERS = (ArrayTasksAlreadyInLedger, PermanentArrayRefusal, EndedCampaignRefusal, RootCampaignRefusal)
T = TypeVar("T")
ArrayAndAttempts = tuple[CampaignArray, tuple[TaskAttempt, ...]]  # an array, and its unfinished attempts
Pair = tuple[int, str]  # uid of a campaign's owner, and name of a cluster
_log = logging.getLogger(__name__)


class OwnerCallPostponement(GridbridgeError):
    """The call is postponed to a later cycle; no command was run."""


class PauseAfterHungOwnerCall(OwnerCallPostponement):
    """The call is postponed because the owner's last call to this cluster hung."""


class CampaignOwnerUids:
    """The uids of campaigns' owners, each read once from the state file."""

    def __init__(self, campaigns: CampaignRows) -> None:
        self._campaigns = campaigns
        self._owners: dict[int, int] = {}

    def uid_of_owner(self, campaign: int) -> int:
        """Return the uid of a campaign's owner, -1 if the campaign is missing."""
        if campaign not in self._owners:
            stored_campaign = self._campaigns.find_campaign(campaign)
            self._owners[campaign] = stored_campaign.uid if stored_campaign else -1
        return self._owners[campaign]


class OwnerCallTimeBudget:
    def __init__(self, owners: CampaignOwnerUids, clock: Clock, failures: CampaignFailuresSection) -> None:
        self._owners = owners
        self._clock = clock
        self._failures = failures
        self._taken_s: dict[Pair, float] = {}  # {pair: seconds that an owner's calls took in this cycle}
        self._pause_s: dict[Pair, float] = {}  # length of the last pause after a hung call, in seconds
        self._paused_until_s: dict[Pair, float] = {}

    def reset_owner_call_times(self) -> None:
        """Start a new cycle: forget the time that each owner's calls took."""
        self._taken_s.clear()

    def run_owner_call(
        self, array: CampaignArray, act: Callable[[], T], has_failed: Callable[[T], bool] = lambda _: False
    ) -> T:
        """Run a call for an array; raises OwnerCallPostponement if the array's owner has no time left."""
        pair, began_s = (self._owners.uid_of_owner(array.campaign), array.cluster), self._clock.steady_s()
        if began_s < self._paused_until_s.get(pair, began_s):
            raise PauseAfterHungOwnerCall(f"a call to {array.cluster} as this owner took too long, so later calls wait")
        if self._taken_s.get(pair, 0.0) >= TURN_S:
            raise OwnerCallPostponement(f"calls to {array.cluster} as this owner took {TURN_S:.0f} s in this cycle")
        is_bad = True
        try:
            result = act()
            is_bad = has_failed(result)
        except ANSWERS:
            is_bad = False
            raise
        finally:
            self._record_owner_call_time(pair, self._clock.steady_s() - began_s, is_bad=is_bad)
        return result

    def _record_owner_call_time(self, pair: Pair, took_s: float, *, is_bad: bool) -> None:
        self._taken_s[pair] = self._taken_s.get(pair, 0.0) + took_s
        before_s = self._pause_s.pop(pair, self._failures.probe_s / 2)
        # a failed call of this length counts as hung: most calls take less than 1 s
        if is_bad and took_s >= 5.0:
            self._pause_s[pair] = pause_s = min(2 * before_s, self._failures.probe_max_s)
            self._paused_until_s[pair] = self._clock.steady_s() + pause_s
            message = "event=held_up uid=%d cluster=%s took_s=%.0f pause_s=%.0f"
            _log.warning(message, *pair, took_s, pause_s)


@dataclass(eq=False)
class CampaignArraySubmitter:
    """Records new arrays in the state file, then submits them to clusters."""

    _campaigns: CampaignRows
    _acts: CampaignArrayCommands
    _clock: Clock
    _settle: Callable[[CampaignArray, ArraySubmissionResult], None]
    _most: int  # an array has at most this many jobs
    _turns: OwnerCallTimeBudget
    _require_inputs: Callable[[CampaignArray, tuple[TaskAttempt, ...]], None]
    _remote_clusters: Container[str]  # clusters that don't see the files of this host
    begun: list[TaskAttempt] = field(default_factory=list)

    def submit_planned_tasks(self, send: PlannedCampaignTaskSend) -> None:
        """Split tasks into arrays, record the arrays, and submit all arrays of the same kind by one call."""
        jobs, arrays = min(self._most, send.array_tasks or self._most), list[CampaignArray | None]()
        most = send.group.tasks * max(1, min(jobs, MOST_GROUPED_TASKS // send.group.tasks))
        unshared = send.unshared_first if send.cluster in self._remote_clusters else None
        create = partial(
            self._campaigns.create_array,
            checkpoint_s=send.checkpoint_s,
            group=send.group,
            unshared_first=unshared,
        )
        for part in _split_planned_tasks_into_arrays(send, most):
            pair, now = (part.campaign, part.cluster), self._clock.now()
            arrays.append(create(*pair, part.tasks, now, part.kept_off, is_ordinary=part.ordinary > 0))
        for is_ordinary in (True, False):
            self.submit_new_arrays(array for array in arrays if array and array.is_ordinary is is_ordinary)

    def submit_new_arrays(self, arrays: Iterable[CampaignArray | None]) -> None:
        """Submit new arrays; None stands for an array that was not created."""
        new = [(array, self._campaigns.unfinished_attempts(array)) for array in arrays if array]
        for _, attempts in new:
            self.begun += attempts
        self._submit_recorded_arrays([pair for pair in new if self._are_inputs_at_cluster(*pair)])

    def add_tasks_to_running_jobs(self, added: Iterable[TasksForRunningJob]) -> None:
        """Record further tasks of running jobs, then give them to the jobs; the calls are not repeated.

        Tasks that a job does not begin, for example after a failed call, are sent again when the job has ended.
        """
        of_array = defaultdict[tuple[int, int], list[TasksForRunningJob]](list)
        for more in added:
            of_array[more.campaign, more.array].append(more)
        for (campaign, number), jobs in of_array.items():
            wanted = {more.index: more.tasks for more in jobs}
            array, attempts = self._campaigns.add_tasks_to_jobs(campaign, number, wanted)
            if not attempts:
                continue
            self.begun += attempts
            try:
                self._turns.run_owner_call(array, partial(self._acts.add_tasks_to_jobs, array, attempts))
            except GridbridgeError as error:
                _log.warning(
                    "event=tasks_not_added array=%d.%d at=%s why=%r", campaign, number, array.cluster, str(error)
                )

    def resume_interrupted_arrays(self, arrays: Iterable[CampaignArray]) -> None:
        """Submit or release arrays whose submission was interrupted, if an array has unfinished attempts."""
        begun: dict[tuple[int, str, bool, bool, TaskGroupSize], list[ArrayAndAttempts]] = {}
        for array in arrays:
            if array.state is ArraySubmissionState.INTENDED:
                attempts = self._campaigns.unfinished_attempts(array)
                if attempts and not self._are_inputs_at_cluster(array, attempts):
                    continue
                self._campaigns.record_possible_second_submission(array)
                if not attempts:
                    self._campaigns.set_array_state(array, ArraySubmissionState.RELEASED)
                    continue
                kind = array.is_of_copies, array.is_ordinary, array.group
                begun.setdefault((array.campaign, array.cluster, *kind), []).append((array, attempts))
            else:
                error = None
                try:
                    self._turns.run_owner_call(array, partial(self._acts.release_array, array))
                except GridbridgeError as failure:
                    error = failure
                self._settle(array, ArraySubmissionResult(job_id=array.job_id, error=error))
        for group in begun.values():
            for few in [[pair] for pair in group] if group[0][0].is_of_copies else [group]:
                self._submit_recorded_arrays(few)

    def _submit_recorded_arrays(self, intended: list[ArrayAndAttempts]) -> None:
        if not intended:
            return
        try:
            sent = self._turns.run_owner_call(
                intended[0][0],
                lambda: self._acts.submit_arrays(tuple(intended)),
                lambda results: any(result.error and not isinstance(result.error, ANSWERS) for result in results),
            )
        except GridbridgeError as error:
            sent = (ArraySubmissionResult(error=error),) * len(intended)
        for (array, _), result in zip(intended, sent, strict=False):
            self._settle(array, result)

    def _are_inputs_at_cluster(self, array: CampaignArray, attempts: tuple[TaskAttempt, ...]) -> bool:
        """Say whether an array may be submitted; record why not, unless its inputs are being carried."""
        try:
            self._require_inputs(array, attempts)
        except GridbridgeError as error:
            self._settle(array, ArraySubmissionResult(error=error))
            return False
        return True


def _split_planned_tasks_into_arrays(send: PlannedCampaignTaskSend, most: int) -> Iterator[PlannedCampaignTaskSend]:
    for first, last in ((0, send.ordinary), (send.ordinary, send.tasks)):
        for begin in range(first, last, most):
            end = min(begin + most, last)
            kept_off = tuple(_exclusions_of_task_range(send.kept_off, begin, end))
            ordinary = end - begin if end <= send.ordinary else 0
            unshared = max(0, send.unshared_first - begin)
            yield replace(send, tasks=end - begin, ordinary=ordinary, kept_off=kept_off, unshared_first=unshared)


def _exclusions_of_task_range(
    kinds: Iterable[TaskCountByExclusions], begin: int, end: int
) -> Iterator[TaskCountByExclusions]:
    first = 0
    for kind in kinds:
        tasks = min(end, first + kind.tasks) - max(begin, first)
        first += kind.tasks
        if tasks > 0:
            yield replace(kind, tasks=tasks)
