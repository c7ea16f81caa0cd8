"""What one cycle of the runner does about all campaigns."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Set
from dataclasses import dataclass, replace

from gridbridge.decisions.campaigns import predictor
from gridbridge.decisions.campaigns.failures.blacklist import bars, may_go_on, note_probes, opened
from gridbridge.decisions.campaigns.failures.event_messages import log_message
from gridbridge.decisions.campaigns.failures.event_rules import note
from gridbridge.decisions.campaigns.failures.open_events import OpenEvents
from gridbridge.decisions.campaigns.failures.retries import to_run_again
from gridbridge.decisions.campaigns.prologue_rules import PrologueProgress
from gridbridge.decisions.campaigns.prologue_rules import sentences as of_steps
from gridbridge.decisions.campaigns.slot_distribution import sends
from gridbridge.decisions.campaigns.speculation_rules import (
    ByTask,
    by_task,
    is_dropped,
    last_ends,
    losers,
    numbered,
    settled,
)
from gridbridge.decisions.campaigns.straggler_tail import CycleDecisions, copies
from gridbridge.model.campaigns.campaign import (
    Array,
    ArrayState,
    Campaign,
    CampaignState,
    TaskOutcome,
    clusters_of,
)
from gridbridge.model.campaigns.campaign_events import EventChanges
from gridbridge.model.campaigns.cycle_plan import AttemptOutcome, CyclePlan, CycleSituation, Retry
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.speculation import SupersededAttempts
from gridbridge.model.status_report import count

INTENDED = ArrayState.INTENDED
BEGUN = (INTENDED, ArrayState.SUBMITTED)  # what another cycle has to go on with


@dataclass(frozen=True, slots=True, kw_only=True)
class _CycleEnds:
    """What a cycle has found ended, and what that leaves."""

    seen: CycleSituation  # with what ended settled, and the arrays of tasks
    steps: PrologueProgress
    rivals: ByTask
    again: tuple[Retry, ...]
    over: Counter[int]  # tasks of each campaign
    lasting: tuple[Array, ...]  # arrays, with those of steps
    lost: tuple[SupersededAttempts, ...]

    @property
    def reached(self) -> tuple[Array, ...]:
        """The arrays at clusters that answered.

        At others a call for each would only wait in vain, in every cycle and one after the other.
        """
        return tuple(array for array in self.lasting if array.cluster in self.seen.room)

    @property
    def busy(self) -> frozenset[int]:
        """The campaigns of which a task may live."""
        return frozenset(array.campaign for array in self.steps.of_tasks(self.lasting))


def plan(situation: CycleSituation) -> CyclePlan:
    """Decide from what is seen; the same rows give the same plan."""
    ends = _ends(situation)
    steps, situation = ends.steps, ends.seen
    at_end = _finished(ends)
    finished, after = steps.last(at_end)
    wound_up, epilogues = steps.last(_wound_up(ends))
    book, records = note(
        situation, ends.again, (*finished, *wound_up), steps.noted(OpenEvents(situation.events))
    )
    unsent = tuple(array for array in steps.unsent(at_end) if array in ends.reached)
    sending = _sending(ends, book, unsent)
    deleted = tuple(array for array in ends.reached if not steps.is_wanted(array))
    ending = {(attempt.campaign, attempt.array) for attempt in situation.ended}
    return replace(
        sending,
        ended=situation.ended,
        arrays=tuple(
            array for array in situation.arrays if (array.campaign, array.number) in ending
        ),
        again=ends.again,
        over=situation.over,
        finished=finished,
        wound_up=wound_up,
        deleted=deleted,
        unneeded=steps.unneeded(at_end),
        unsent=unsent,
        gone=_count_gone(deleted, situation),
        losers=ends.lost,
        stepped=situation.stepped,
        steps=(*sending.steps, *after, *epilogues),
        missed=situation.missed,
        changes=EventChanges(events=book.changed, records=records),
        behind=situation.behind,
    )


def _ends(situation: CycleSituation) -> _CycleEnds:
    rivals, steps = by_task(situation.rivals), PrologueProgress(situation)
    over = {(array.campaign, array.number) for array in situation.over}
    lasting = tuple(
        array for array in situation.arrays if (array.campaign, array.number) not in over
    )
    tasks = steps.of_tasks(situation.arrays)
    situation = replace(situation, ended=settled(situation.ended, rivals), arrays=tasks)
    alive = {
        campaign.number
        for campaign in situation.campaigns
        if campaign.state is not CampaignState.CANCELLED
    }
    reached = (array for array in lasting if array.cluster in situation.room)
    living = (array for array in steps.of_tasks(reached) if array.campaign in alive)
    again = numbered(_again(situation, alive), rivals)
    return _CycleEnds(
        seen=situation,
        steps=steps,
        rivals=rivals,
        again=again,
        over=Counter(attempt.campaign for attempt in last_ends(situation.ended, again)),
        lasting=lasting,
        lost=losers(situation.ended, rivals, living),
    )


def _sending(ends: _CycleEnds, book: OpenEvents, unsent: Container[Array]) -> CyclePlan:
    """Decide what is sent, and which submissions go on: none of `unsent`."""
    situation, steps = ends.seen, ends.steps
    barred, predicted = (
        bars(book.open, situation.at, situation.failures),
        predictor.predict(situation),
    )
    reachable = opened(situation, barred | steps.preparing())
    resumed = tuple(
        array
        for array in _begun(ends)
        if array not in unsent and may_go_on(array, book.open, situation.at, situation.failures)
    )
    begun = steps.of_tasks(resumed)
    allotted = sends(reachable, predicted, situation.campaigns, begun, barred)
    note_probes(allotted, situation, barred, book)
    sent, before = steps.first(allotted)
    decided = CycleDecisions(
        ended=situation.ended,
        over=ends.over,
        again=ends.again,
        sends=sent,
        barred=barred.keys() | steps.unready(),
        rivals=ends.rivals,
    )
    return CyclePlan(
        resumed=resumed,
        sends=sent,
        steps=before,
        copies=copies(reachable, decided),
        predicted=predictor.changed_ratios(predicted, situation.ratios, sent),
    )


def _begun(ends: _CycleEnds) -> Iterator[Array]:
    """Return the arrays whose submission goes on.

    None begins of a paused campaign, or at a cluster that is drained or under stress; what is there
    is released, and ends with its epilogue.
    """
    situation = ends.seen
    paused = {
        campaign.number
        for campaign in situation.campaigns
        if campaign.state is CampaignState.PAUSED
    }
    closed = {name for name, room in situation.room.items() if room.is_closed}
    dropped = {
        (loser.array.campaign, loser.array.number) for loser in ends.lost if is_dropped(loser)
    }
    for array in ends.reached:
        is_wanted = ends.steps.is_wanted(array) and (array.campaign, array.number) not in dropped
        is_begin = array.state is INTENDED and not ends.steps.is_epilogue(array)
        is_held_back = is_begin and (array.campaign in paused or array.cluster in closed)
        if is_wanted and array.state in BEGUN and not is_held_back:
            yield array


def _finished(ends: _CycleEnds) -> tuple[int, ...]:
    """Return the campaigns that end: no task of them is left but copies that have lost.

    Those are ended later, and a cluster that is away keeps no campaign from its end.
    """
    runs, busy = {retry.campaign for retry in ends.again}, ends.busy
    return tuple(
        campaign.number
        for campaign in ends.seen.campaigns
        if campaign.state.is_alive
        and campaign.number not in runs
        and _is_sent(campaign, ends.seen)
        and (
            campaign.number not in busy
            or campaign.ended + ends.over[campaign.number] >= campaign.tasks
        )
    )


def _wound_up(ends: _CycleEnds) -> tuple[int, ...]:
    """Return the cancelled campaigns of which no task lives, whose epilogues may run."""
    busy, campaigns = ends.busy, ends.seen.campaigns
    return tuple(
        campaign.number
        for campaign in campaigns
        if campaign.is_winding_up and campaign.number not in busy
    )


def _count_gone(arrays: Iterable[Array], situation: CycleSituation) -> int:
    """Count those whose cluster lists no task of their campaign: nothing is left to delete."""
    listed = {(view.campaign, view.cluster) for view in situation.there}
    steps = {(phase.campaign, phase.array) for phase in situation.steps}
    return sum(
        array.state is ArrayState.RELEASED
        and array.cluster in situation.room
        and (array.campaign, array.cluster) not in listed
        and (array.campaign, array.number) not in steps
        for array in arrays
    )


def _again(situation: CycleSituation, alive: Set[int]) -> tuple[Retry, ...]:
    """Return the tasks that are tried once more; those of a test are tried once.

    Clusters that are too small for a task are none to which it could go. What its cluster has lost
    may run on: only a task that may run twice at the same time is tried again then.
    """
    twice = {campaign.number for campaign in situation.campaigns if campaign.jdl.may_be_copied}
    clusters = {
        campaign.number: {
            name
            for name, request in campaign.jdl.clusters.items()
            if name not in situation.room or not situation.room[name].is_too_small(request.slots)
        }
        for campaign in situation.campaigns
        if campaign.number in alive and campaign.jdl.type is not CampaignType.TEST
    }
    where = clusters_of(situation.arrays)
    surely = (
        attempt
        for attempt in situation.ended
        if not attempt.forgotten_job or attempt.campaign in twice
    )
    ended = tuple(
        AttemptOutcome.of(attempt, where.get((attempt.campaign, attempt.array), ""))
        for attempt in surely
    )
    return to_run_again(ended, situation.earlier, clusters, situation.failures)


def _is_sent(campaign: Campaign, situation: CycleSituation) -> bool:
    """Say whether no task of a campaign will be sent any more; a test drops the rest of them."""
    is_test = campaign.jdl.type is CampaignType.TEST
    tried = situation.tried.get(campaign.number, frozenset())
    is_tried = is_test and tried >= campaign.jdl.clusters.keys()
    return is_tried or not situation.waiting.get(campaign.number)


def sentences(plan: CyclePlan) -> list[str]:
    """Tell what a cycle does, a sentence for each kind of thing.

    Nothing is sent of a campaign of which root's ledger knows more: that is taken over first.
    """
    plan = replace(
        plan,
        sends=tuple(send for send in plan.sends if send.campaign not in plan.behind),
        steps=tuple(step for step in plan.steps if step.campaign not in plan.behind),
        copies=tuple(copies for copies in plan.copies if copies.campaign not in plan.behind),
    )
    sent = ", ".join(
        f"{send.tasks} of campaign {send.campaign} to {send.cluster}" for send in plan.sends
    )
    lines = [
        f"campaign {number}: root's ledger has arrays of it; they are taken over"
        for number in plan.behind
    ]
    lines += _of_ends(plan)
    undeleted = len(plan.deleted) - plan.gone
    lines += [count(undeleted, "array is deleted", "arrays are deleted") if undeleted else ""]
    lines += predictor.sentences(plan.predicted)
    lines += [f"sent: {sent}" if sent else ""]
    lines += of_steps(plan.steps)
    lines += [
        f"copied to {copies.cluster}: {len(copies.tasks)} of campaign {copies.campaign}, which have"
        f" run longer than {copies.beyond_s} s"
        for copies in plan.copies
    ]
    lines += [
        f"not sent: the prologue of campaign {array.campaign} at {array.cluster}: no task is left"
        for array in plan.unsent
    ]
    lines += [f"campaign {number} has ended" for number in plan.finished]
    lines += [log_message(event) for event in plan.changes.events]
    return [line for line in lines if line]


def _of_ends(plan: CyclePlan) -> list[str]:
    copies = sum(attempt.outcome is TaskOutcome.COPY for attempt in plan.ended)
    tasks = len(plan.ended) - copies
    again = f", {count(len(plan.again), 'of them runs', 'of them run')} again" if plan.again else ""
    lines = [f"{count(tasks, 'task')} ended{again}" if tasks else ""]
    lines += [f"{count(copies, 'copy', 'copies')} ended" if copies else ""]
    return lines + [
        f"not wanted any more: {sum(map(len, loser.places))} of campaign {loser.array.campaign} at"
        f" {loser.array.cluster}"
        for loser in plan.losers
    ]
