"""When prologues and epilogues run: once at a cluster, before and after a campaign's tasks there.

They are CiGri's (v3, keys prologue and epilogue of its JDL). A prologue begins where tasks would be
sent, which wait for its end; one that fails closes the cluster as what can't start a task does, and
is tried again as its next probe. An epilogue begins once all tasks of the campaign have ended, also
of a cancelled campaign, to remove what its prologue made. What the cluster did to either is no
failure of it. Tasks that are tried again later find both anew. A prologue that still waits when no
task is left is deleted, and no epilogue follows.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gridbridge.decisions.campaigns.failures.blacklist import (
    BlacklistEntry,
    Pair,
    happened,
    opened_now,
)
from gridbridge.decisions.campaigns.failures.open_events import OpenEvents
from gridbridge.model.campaigns.campaign import (
    Array,
    ArrayState,
    Attempt,
    CampaignState,
    TaskOutcome,
)
from gridbridge.model.campaigns.campaign_events import EventCode, EventKind
from gridbridge.model.campaigns.cycle_plan import (
    CycleSituation,
    ProloguePhaseResult,
    PrologueStep,
    TaskSend,
)
from gridbridge.model.campaigns.prologues import EPILOGUE, PROLOGUE, STEPS

TIMES = 3  # that an epilogue is begun which its cluster ended
BY_CLUSTER = {  # and why, where that was the last of its times
    TaskOutcome.WIPED: "at last it was deleted there",
    TaskOutcome.MOVED: "",
    TaskOutcome.PREEMPTED: "at last its place was needed",
    TaskOutcome.SITE_FAULT: "at last its host was lost",
}


class PrologueProgress:
    """How far prologues and epilogues are, with those that have ended now."""

    def __init__(self, seen: CycleSituation) -> None:
        ended = {(one.campaign, one.array): one for one in seen.stepped}
        self._clusters = {one.number: one.jdl.clusters for one in seen.campaigns}
        self._seen = seen
        self._now = [_ended(one, ended) for one in seen.steps]
        self._last = {(one.campaign, one.cluster, one.step): one for one in self._now}
        self._arrays = {(one.campaign, one.array) for one in seen.steps}
        self._just = {(one.campaign, one.array) for one in seen.stepped}
        self._alive = {
            one.number for one in seen.campaigns if one.state is not CampaignState.CANCELLED
        }
        self._winding_up = {one.number for one in seen.campaigns if one.is_winding_up}
        self._over = {one.number for one in seen.campaigns if one.state is CampaignState.TERMINATED}
        self._of_epilogues = {
            (one.campaign, one.array) for one in seen.steps if one.step == EPILOGUE
        }

    def of_tasks(self, arrays: Iterable[Array]) -> tuple[Array, ...]:
        """Return the arrays that are of tasks."""
        return tuple(one for one in arrays if (one.campaign, one.number) not in self._arrays)

    def is_wanted(self, array: Array) -> bool:
        """Say whether an array goes on: of a cancelled campaign only its epilogues do."""
        is_winding_up = array.campaign in self._winding_up
        return array.campaign in self._alive or (is_winding_up and self.is_epilogue(array))

    def is_epilogue(self, array: Array) -> bool:
        """Say whether an array is an epilogue: it ends what was begun there."""
        return (array.campaign, array.number) in self._of_epilogues

    def preparing(self) -> dict[Pair, BlacklistEntry]:
        """Return where prologues or epilogues run or wait: no task is sent there."""
        return {
            _pair(one): BlacklistEntry.CLOSED
            for one in self._now
            if one.outcome is TaskOutcome.PENDING
        }

    def unready(self) -> frozenset[Pair]:
        """Return where prologues have to be before tasks: no copy is sent there."""
        every = ((number, name) for number, of in self._clusters.items() for name in of)
        return frozenset(pair for pair in every if not self._is_ready(*pair))

    def first(
        self, sends: Iterable[TaskSend]
    ) -> tuple[tuple[TaskSend, ...], tuple[PrologueStep, ...]]:
        """Return what is sent now, and the prologues that have to be before the rest."""
        going, steps = [], []
        for one in sends:
            if self._is_ready(one.campaign, one.cluster):
                going.append(one)
            else:
                steps.append(self._next(one.campaign, one.cluster, PROLOGUE))
        return tuple(going), tuple(steps)

    def last(self, campaigns: Iterable[int]) -> tuple[tuple[int, ...], tuple[PrologueStep, ...]]:
        """Return which of these campaigns end, and the epilogues that have to be before others.

        A prologue that runs still, of which no task had need, is waited for.
        """
        ending, steps = [], []
        for number in campaigns:
            left = [name for name in self._epilogues(number) if not self._is_over(number, name)]
            ending += [] if left else [number]
            steps += [
                self._next(number, name, EPILOGUE)
                for name in left
                if not any(self._is_pending(number, name, step) for step in STEPS)
            ]
        return tuple(ending), tuple(steps)

    def unneeded(self, campaigns: Iterable[int]) -> tuple[Array, ...]:
        """Return the prologues of these campaigns that wait, though no task is left for them."""
        found = self._in_vain(campaigns)
        return tuple(one for one in found if (one.campaign, one.number) in self._seen.idle_steps)

    def unsent(self, campaigns: Iterable[int]) -> tuple[Array, ...]:
        """Return those that their clusters have not taken, as far as is known."""
        return tuple(one for one in self._in_vain(campaigns) if one.state is ArrayState.INTENDED)

    def _in_vain(self, campaigns: Iterable[int]) -> Iterator[Array]:
        """Give the prologues that have not ended of these campaigns, and of those that have."""
        left = self._over.union(campaigns)
        pending = {
            (one.campaign, one.array)
            for one in self._now
            if one.step == PROLOGUE and one.outcome is TaskOutcome.PENDING and one.campaign in left
        }
        return (one for one in self._seen.arrays if (one.campaign, one.number) in pending)

    def noted(self, book: OpenEvents) -> OpenEvents:
        """Tell of those that failed, and close what a prologue that went well has healed."""
        known = {
            one.number for one in self._seen.campaigns if one.state.is_alive or one.is_winding_up
        }
        for one in self._now:
            if (one.campaign, one.array) not in self._just or one.campaign not in known:
                continue
            if one.step == PROLOGUE and one.campaign in self._alive:
                self._note_prologue(book, one)
            elif one.step == EPILOGUE and one.outcome is not TaskOutcome.SUCCESS and _is_over(one):
                event = opened_now(
                    EventKind.CAMPAIGN, EventCode.EPILOG_EXIT_ERROR, *_pair(one), self._seen.at
                )
                why = BY_CLUSTER.get(one.outcome, "")
                book.put(replace(event, exit_status=one.exit_status, why=why))
        return book

    def _note_prologue(self, book: OpenEvents, one: ProloguePhaseResult) -> None:
        event, at = book.find(EventCode.SETUP_ERROR, *_pair(one)), self._seen.at
        if one.outcome is TaskOutcome.SUCCESS:
            book.close(event, at)
        elif one.outcome not in BY_CLUSTER:
            begun = event or happened(
                None, EventCode.SETUP_ERROR, _pair(one), at, self._seen.failures
            )
            book.put(replace(begun, last_at=at))

    def _is_ready(self, campaign: int, cluster: str) -> bool:
        if not self._clusters[campaign][cluster].prologue:
            return True
        known = self._last.get((campaign, cluster, PROLOGUE))
        after = self._last.get((campaign, cluster, EPILOGUE))
        is_undone = known is not None and after is not None and after.array > known.array
        return known is not None and known.outcome is TaskOutcome.SUCCESS and not is_undone

    def _next(self, campaign: int, cluster: str, step: str) -> PrologueStep:
        known = self._last.get((campaign, cluster, step))
        attempt = known.attempt + 1 if known else 1
        return PrologueStep(campaign=campaign, cluster=cluster, step=step, attempt=attempt)

    def _epilogues(self, campaign: int) -> Iterator[str]:
        """Give the clusters at which a campaign's epilogue has to run."""
        visited = self._seen.last_arrays.get(campaign, {})
        for name, wish in self._clusters[campaign].items():
            is_there = wish.epilogue and name in visited and name in self._seen.asked
            if is_there and not self._never_began(campaign, name):
                yield name

    def _never_began(self, campaign: int, cluster: str) -> bool:
        """Say whether all that was sent there is a prologue that was taken away as it waited."""
        known = self._last.get((campaign, cluster, PROLOGUE))
        if known is None or known.outcome is not TaskOutcome.MOVED:
            return False
        return known.attempt == 1 and known.array >= self._seen.last_arrays[campaign][cluster]

    def _is_over(self, campaign: int, cluster: str) -> bool:
        """Say whether an epilogue has ended there, and nothing was sent after it."""
        known = self._last.get((campaign, cluster, EPILOGUE))
        last = self._seen.last_arrays[campaign][cluster]
        return known is not None and _is_over(known) and known.array >= last

    def _is_pending(self, campaign: int, cluster: str, step: str) -> bool:
        known = self._last.get((campaign, cluster, step))
        return known is not None and known.outcome is TaskOutcome.PENDING


def _ended(
    one: ProloguePhaseResult, ended: Mapping[tuple[int, int], Attempt]
) -> ProloguePhaseResult:
    now = ended.get((one.campaign, one.array))
    return one if now is None else replace(one, outcome=now.outcome, exit_status=now.exit_status)


def _is_over(one: ProloguePhaseResult) -> bool:
    if one.outcome is TaskOutcome.PENDING:
        return False
    return one.outcome not in BY_CLUSTER or one.attempt >= TIMES


def _pair(one: ProloguePhaseResult) -> Pair:
    return one.campaign, one.cluster


def sentences(steps: Iterable[PrologueStep]) -> list[str]:
    """Tell which are begun."""
    return [f"{one.step} of campaign {one.campaign} at {one.cluster} begins" for one in steps]
