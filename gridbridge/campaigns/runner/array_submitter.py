"""Submits, releases and deletes arrays of campaign tasks, in limited time for each owner and cluster."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
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
)
from gridbridge.model.campaigns.campaign_sections import CampaignFailuresSection
from gridbridge.model.campaigns.cycle_plan import PlannedCampaignTaskSend, TaskCountByExclusions
from gridbridge.shell.clock import Clock


class CampaignArrayCommands(Protocol):
    """Commands on campaign arrays at clusters; each command is repeatable.

    campaigns/runner/array_commands_as_owner implements the protocol.
    """

    def send(
        self, arrays: tuple[tuple[CampaignArray, tuple[TaskAttempt, ...]], ...], /
    ) -> tuple[ArraySubmissionResult, ...]:
        """Submit arrays of one campaign to one cluster, and release the arrays' tasks.

        Raises or returns PermanentArrayRefusal if the cluster will never accept an array, RootCampaignRefusal if root
        will never accept the campaign, and ArrayTasksAlreadyInLedger if root's ledger of submitted tasks has other
        tasks under the array's number.
        """
        ...

    def release(self, array: CampaignArray, /) -> None:
        """Release the tasks of an array that is submitted on hold."""
        ...

    def delete(self, array: CampaignArray, /) -> int:
        """Delete an array at its cluster; return the array's job id, or 0 if the array was never submitted."""
        ...

    def delete_places(self, array: CampaignArray, indices: tuple[range, ...], /) -> None:
        """Delete the tasks with these indices in an array."""
        ...

    def end(self, campaign: int, /) -> None:
        """Close a campaign in root's ledger of submitted tasks, so that root submits no more tasks of the campaign."""
        ...

    def ledger_arrays(self, campaign: int, /) -> tuple[RootLedgerArray, ...]:
        """Return a campaign's arrays in root's ledger of submitted tasks."""
        ...


# A failed call counts as hung after this time; other calls take less than a second.
HANGS_S = 5.0
TURN_S = 60.0  # time for an owner's calls to a cluster in one cycle: as long as the longest call
# errors that the called program itself returns: the call did not hang
ANSWERS = (ArrayTasksAlreadyInLedger, PermanentArrayRefusal, EndedCampaignRefusal, RootCampaignRefusal)
T = TypeVar("T")
Pair = tuple[int, str]  # uid of an owner, name of a cluster
_log = logging.getLogger(__name__)


class OwnerCallPostponement(GridbridgeError):
    """The call is postponed to a later cycle; no command was run."""


class PauseAfterHungOwnerCall(OwnerCallPostponement):
    """The call is postponed because the owner's last call to this cluster hung."""


@dataclass(slots=True)
class _Pause:
    until_s: float
    for_s: float


class OwnerCallTimeBudget:
    """Limits the time of each owner's calls to each cluster."""

    def __init__(self, campaigns: CampaignRows, clock: Clock, failures: CampaignFailuresSection) -> None:
        self._campaigns = campaigns
        self._clock = clock
        self._failures = failures
        self._taken_s: dict[Pair, float] = {}  # seconds of an owner's calls to a cluster in this cycle
        self._pauses: dict[Pair, _Pause] = {}
        self._owners: dict[int, int] = {}

    def begin(self) -> None:
        """Start a new cycle: forget the time that each owner's calls took."""
        self._taken_s.clear()

    def take(self, array: CampaignArray, act: Callable[[], T], has_failed: Callable[[T], bool] = lambda _: False) -> T:
        """Run a call for an array; raises OwnerCallPostponement if the array's owner has no time left."""
        pair = self._owner(array.campaign), array.cluster
        self._require(pair)
        began_s = self._clock.steady_s()
        is_bad = True
        try:
            result = act()
            is_bad = has_failed(result)
        except ANSWERS:
            is_bad = False
            raise
        finally:
            self._note(pair, self._clock.steady_s() - began_s, is_bad=is_bad)
        return result

    def _require(self, pair: Pair) -> None:
        pause = self._pauses.get(pair)
        if pause and self._clock.steady_s() < pause.until_s:
            raise PauseAfterHungOwnerCall(f"a call to {pair[1]} as this owner took too long, so later calls wait")
        if self._taken_s.get(pair, 0.0) >= TURN_S:
            raise OwnerCallPostponement(f"calls to {pair[1]} as this owner took {TURN_S:.0f} s in this cycle")

    def _note(self, pair: Pair, took_s: float, *, is_bad: bool) -> None:
        self._taken_s[pair] = self._taken_s.get(pair, 0.0) + took_s
        if not is_bad or took_s < HANGS_S:
            self._pauses.pop(pair, None)
            return
        before, limits = self._pauses.get(pair), self._failures
        pause_s = min(2 * before.for_s if before else limits.probe_s, limits.probe_max_s)
        self._pauses[pair] = _Pause(until_s=self._clock.steady_s() + pause_s, for_s=pause_s)
        message = "event=held_up uid=%d cluster=%s took_s=%.0f pause_s=%.0f"
        _log.warning(message, *pair, took_s, pause_s)

    def _owner(self, campaign: int) -> int:
        if campaign not in self._owners:
            stored_campaign = self._campaigns.find(campaign)
            self._owners[campaign] = stored_campaign.uid if stored_campaign else -1
        return self._owners[campaign]


class CampaignArraySubmitter:
    """Records new arrays in the state file, then submits them to clusters."""

    def __init__(
        self,
        campaigns: CampaignRows,
        acts: CampaignArrayCommands,
        clock: Clock,
        settle: Callable[[CampaignArray, ArraySubmissionResult], None],
        most: int,
        turns: OwnerCallTimeBudget,
    ) -> None:
        self._campaigns = campaigns
        self._acts = acts
        self._clock = clock
        self._settle = settle
        self._most = most  # at most this many tasks of one array
        self._turns = turns
        self.begun: list[TaskAttempt] = []

    def send(self, send: PlannedCampaignTaskSend) -> None:
        """Split tasks into arrays, record the arrays, and submit all arrays by one call."""
        most = min(self._most, send.array_tasks or self._most)
        self.begin([self._intended(part) for part in _parts(send, most)])

    def _intended(self, part: PlannedCampaignTaskSend) -> CampaignArray | None:
        now = self._clock.now()
        return self._campaigns.intend(part.campaign, part.cluster, part.tasks, now, part.kept_off)

    def begin(self, arrays: Iterable[CampaignArray | None]) -> None:
        """Submit new arrays; entries that are None are skipped."""
        new = [array for array in arrays if array]
        for array in new:
            self.begun += self._campaigns.pending(array)
        self._submit(new)

    def resume(self, arrays: Iterable[CampaignArray]) -> None:
        """Submit or release arrays whose submission was interrupted.

        An array without unfinished attempts is marked as released, because later attempts have replaced all of its
        attempts.
        """
        begun: dict[tuple[int, str, bool], list[CampaignArray]] = {}
        for array in arrays:
            if array.state is ArraySubmissionState.INTENDED:
                self._campaigns.is_repeated(array)
                if not self._campaigns.pending(array):
                    self._campaigns.array_is(array, ArraySubmissionState.RELEASED)
                    continue
                key = array.campaign, array.cluster, array.is_of_copies
                begun.setdefault(key, []).append(array)
            else:
                self._settle(array, self._released(array))
        for group in begun.values():
            for few in [[array] for array in group] if group[0].is_of_copies else [group]:
                self._submit(few)

    def _released(self, array: CampaignArray) -> ArraySubmissionResult:
        try:
            self._turns.take(array, lambda: self._acts.release(array))
        except GridbridgeError as error:
            return ArraySubmissionResult(job_id=array.job_id, error=error)
        return ArraySubmissionResult(job_id=array.job_id)

    def _submit(self, arrays: list[CampaignArray]) -> None:
        if not arrays:
            return
        intended = tuple((array, self._campaigns.pending(array)) for array in arrays)
        try:
            sent = self._turns.take(arrays[0], lambda: self._acts.send(intended), _has_failed)
        except GridbridgeError as error:
            sent = (ArraySubmissionResult(error=error),) * len(arrays)
        for array, sent_task in zip(arrays, sent, strict=False):
            self._settle(array, sent_task)


def _has_failed(sent: Iterable[ArraySubmissionResult]) -> bool:
    return any(sent_task.error and not isinstance(sent_task.error, ANSWERS) for sent_task in sent)


def _parts(send: PlannedCampaignTaskSend, most: int) -> Iterator[PlannedCampaignTaskSend]:
    for begin in range(0, send.tasks, most):
        end = min(begin + most, send.tasks)
        kept_off = tuple(_between(send.kept_off, begin, end))
        yield replace(send, tasks=end - begin, kept_off=kept_off)


def _between(kinds: Iterable[TaskCountByExclusions], begin: int, end: int) -> Iterator[TaskCountByExclusions]:
    first = 0
    for kind in kinds:
        tasks = min(end, first + kind.tasks) - max(begin, first)
        first += kind.tasks
        if tasks > 0:
            yield replace(kind, tasks=tasks)
