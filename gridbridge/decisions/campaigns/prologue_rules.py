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

    def __init__(self, situation: CycleSituation) -> None:
        ended = {(attempt.campaign, attempt.array): attempt for attempt in situation.stepped}
        self._clusters = {
            campaign.number: campaign.jdl.clusters for campaign in situation.campaigns
        }
        self._situation = situation
        self._now = [_ended(phase, ended) for phase in situation.steps]
        self._last = {(phase.campaign, phase.cluster, phase.step): phase for phase in self._now}
        self._arrays = {(phase.campaign, phase.array) for phase in situation.steps}
        self._just = {(attempt.campaign, attempt.array) for attempt in situation.stepped}
        self._alive = {
            campaign.number
            for campaign in situation.campaigns
            if campaign.state is not CampaignState.CANCELLED
        }
        self._winding_up = {
            campaign.number for campaign in situation.campaigns if campaign.is_winding_up
        }
        self._over = {
            campaign.number
            for campaign in situation.campaigns
            if campaign.state is CampaignState.TERMINATED
        }
        self._of_epilogues = {
            (phase.campaign, phase.array) for phase in situation.steps if phase.step == EPILOGUE
        }

    def of_tasks(self, arrays: Iterable[Array]) -> tuple[Array, ...]:
        """Return the arrays that are of tasks."""
        return tuple(
            array for array in arrays if (array.campaign, array.number) not in self._arrays
        )

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
            _pair(phase): BlacklistEntry.CLOSED
            for phase in self._now
            if phase.outcome is TaskOutcome.PENDING
        }

    def unready(self) -> frozenset[Pair]:
        """Return where prologues have to be before tasks: no copy is sent there."""
        pairs = ((number, name) for number, of in self._clusters.items() for name in of)
        return frozenset(pair for pair in pairs if not self._is_ready(*pair))

    def first(
        self, sends: Iterable[TaskSend]
    ) -> tuple[tuple[TaskSend, ...], tuple[PrologueStep, ...]]:
        """Return what is sent now, and the prologues that have to be before the rest."""
        going, steps = [], []
        for send in sends:
            if self._is_ready(send.campaign, send.cluster):
                going.append(send)
            else:
                steps.append(self._next(send.campaign, send.cluster, PROLOGUE))
        return tuple(going), tuple(steps)

    def last(self, campaigns: Iterable[int]) -> tuple[tuple[int, ...], tuple[PrologueStep, ...]]:
        """Return which of these campaigns end, and the epilogues that have to be before others.

        A prologue that runs still, of which no task had need, is waited for.
        """
        ending, steps = [], []
        for number in campaigns:
            unfinished = [
                name for name in self._epilogues(number) if not self._is_over(number, name)
            ]
            ending += [] if unfinished else [number]
            steps += [
                self._next(number, name, EPILOGUE)
                for name in unfinished
                if not any(self._is_pending(number, name, step) for step in STEPS)
            ]
        return tuple(ending), tuple(steps)

    def unneeded(self, campaigns: Iterable[int]) -> tuple[Array, ...]:
        """Return the prologues of these campaigns that wait, though no task is left for them."""
        needless = self._in_vain(campaigns)
        return tuple(
            array
            for array in needless
            if (array.campaign, array.number) in self._situation.idle_steps
        )

    def unsent(self, campaigns: Iterable[int]) -> tuple[Array, ...]:
        """Return those that their clusters have not taken, as far as is known."""
        return tuple(
            array for array in self._in_vain(campaigns) if array.state is ArrayState.INTENDED
        )

    def _in_vain(self, campaigns: Iterable[int]) -> Iterator[Array]:
        """Give the prologues that have not ended of these campaigns, and of those that have."""
        ended = self._over.union(campaigns)
        pending = {
            (phase.campaign, phase.array)
            for phase in self._now
            if phase.step == PROLOGUE
            and phase.outcome is TaskOutcome.PENDING
            and phase.campaign in ended
        }
        return (
            array for array in self._situation.arrays if (array.campaign, array.number) in pending
        )

    def noted(self, book: OpenEvents) -> OpenEvents:
        """Tell of those that failed, and close what a prologue that went well has healed."""
        campaigns = {
            campaign.number
            for campaign in self._situation.campaigns
            if campaign.state.is_alive or campaign.is_winding_up
        }
        for phase in self._now:
            if (phase.campaign, phase.array) not in self._just or phase.campaign not in campaigns:
                continue
            if phase.step == PROLOGUE and phase.campaign in self._alive:
                self._note_prologue(book, phase)
            elif (
                phase.step == EPILOGUE
                and phase.outcome is not TaskOutcome.SUCCESS
                and _is_over(phase)
            ):
                event = opened_now(
                    EventKind.CAMPAIGN,
                    EventCode.EPILOG_EXIT_ERROR,
                    *_pair(phase),
                    self._situation.at,
                )
                why = BY_CLUSTER.get(phase.outcome, "")
                book.put(replace(event, exit_status=phase.exit_status, why=why))
        return book

    def _note_prologue(self, book: OpenEvents, phase: ProloguePhaseResult) -> None:
        event, at = book.find(EventCode.SETUP_ERROR, *_pair(phase)), self._situation.at
        if phase.outcome is TaskOutcome.SUCCESS:
            book.close(event, at)
        elif phase.outcome not in BY_CLUSTER:
            begun = event or happened(
                None, EventCode.SETUP_ERROR, _pair(phase), at, self._situation.failures
            )
            book.put(replace(begun, last_at=at))

    def _is_ready(self, campaign: int, cluster: str) -> bool:
        if not self._clusters[campaign][cluster].prologue:
            return True
        prologue = self._last.get((campaign, cluster, PROLOGUE))
        after = self._last.get((campaign, cluster, EPILOGUE))
        is_undone = prologue is not None and after is not None and after.array > prologue.array
        return prologue is not None and prologue.outcome is TaskOutcome.SUCCESS and not is_undone

    def _next(self, campaign: int, cluster: str, step: str) -> PrologueStep:
        previous = self._last.get((campaign, cluster, step))
        attempt = previous.attempt + 1 if previous else 1
        return PrologueStep(campaign=campaign, cluster=cluster, step=step, attempt=attempt)

    def _epilogues(self, campaign: int) -> Iterator[str]:
        """Give the clusters at which a campaign's epilogue has to run."""
        visited = self._situation.last_arrays.get(campaign, {})
        for name, request in self._clusters[campaign].items():
            is_there = request.epilogue and name in visited and name in self._situation.asked
            if is_there and not self._never_began(campaign, name):
                yield name

    def _never_began(self, campaign: int, cluster: str) -> bool:
        """Say whether all that was sent there is a prologue that was taken away as it waited."""
        prologue = self._last.get((campaign, cluster, PROLOGUE))
        if prologue is None or prologue.outcome is not TaskOutcome.MOVED:
            return False
        return (
            prologue.attempt == 1
            and prologue.array >= self._situation.last_arrays[campaign][cluster]
        )

    def _is_over(self, campaign: int, cluster: str) -> bool:
        """Say whether an epilogue has ended there, and nothing was sent after it."""
        epilogue = self._last.get((campaign, cluster, EPILOGUE))
        last = self._situation.last_arrays[campaign][cluster]
        return epilogue is not None and _is_over(epilogue) and epilogue.array >= last

    def _is_pending(self, campaign: int, cluster: str, step: str) -> bool:
        phase = self._last.get((campaign, cluster, step))
        return phase is not None and phase.outcome is TaskOutcome.PENDING


def _ended(
    phase: ProloguePhaseResult, ended: Mapping[tuple[int, int], Attempt]
) -> ProloguePhaseResult:
    now = ended.get((phase.campaign, phase.array))
    return (
        phase if now is None else replace(phase, outcome=now.outcome, exit_status=now.exit_status)
    )


def _is_over(phase: ProloguePhaseResult) -> bool:
    if phase.outcome is TaskOutcome.PENDING:
        return False
    return phase.outcome not in BY_CLUSTER or phase.attempt >= TIMES


def _pair(phase: ProloguePhaseResult) -> Pair:
    return phase.campaign, phase.cluster


def sentences(steps: Iterable[PrologueStep]) -> list[str]:
    """Tell which are begun."""
    return [f"{step.step} of campaign {step.campaign} at {step.cluster} begins" for step in steps]
