"""What one cycle of the runner does about all campaigns."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Set
from dataclasses import dataclass, replace

from gridbridge.decisions.campaigns import predictor
from gridbridge.decisions.campaigns.failures.blacklist import bars, may_go_on, note_probes, opened
from gridbridge.decisions.campaigns.failures.event_messages import said
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
        return tuple(one for one in self.lasting if one.cluster in self.seen.room)

    @property
    def busy(self) -> frozenset[int]:
        """The campaigns of which a task may live."""
        return frozenset(one.campaign for one in self.steps.of_tasks(self.lasting))


def plan(seen: CycleSituation) -> CyclePlan:
    """Decide from what is seen; the same rows give the same plan."""
    ends = _ends(seen)
    steps, seen = ends.steps, ends.seen
    at_end = _finished(ends)
    finished, after = steps.last(at_end)
    wound_up, epilogues = steps.last(_wound_up(ends))
    book, records = note(
        seen, ends.again, (*finished, *wound_up), steps.noted(OpenEvents(seen.events))
    )
    unsent = tuple(one for one in steps.unsent(at_end) if one in ends.reached)
    sending = _sending(ends, book, unsent)
    deleted = tuple(one for one in ends.reached if not steps.is_wanted(one))
    ending = {(one.campaign, one.array) for one in seen.ended}
    return replace(
        sending,
        ended=seen.ended,
        arrays=tuple(one for one in seen.arrays if (one.campaign, one.number) in ending),
        again=ends.again,
        over=seen.over,
        finished=finished,
        wound_up=wound_up,
        deleted=deleted,
        unneeded=steps.unneeded(at_end),
        unsent=unsent,
        gone=_gone(deleted, seen),
        losers=ends.lost,
        stepped=seen.stepped,
        steps=(*sending.steps, *after, *epilogues),
        missed=seen.missed,
        changes=EventChanges(events=book.changed, records=records),
        behind=seen.behind,
    )


def _ends(seen: CycleSituation) -> _CycleEnds:
    rivals, steps = by_task(seen.rivals), PrologueProgress(seen)
    over = {(one.campaign, one.number) for one in seen.over}
    lasting = tuple(one for one in seen.arrays if (one.campaign, one.number) not in over)
    tasks = steps.of_tasks(seen.arrays)
    seen = replace(seen, ended=settled(seen.ended, rivals), arrays=tasks)
    alive = {one.number for one in seen.campaigns if one.state is not CampaignState.CANCELLED}
    there = (one for one in lasting if one.cluster in seen.room)
    left = (one for one in steps.of_tasks(there) if one.campaign in alive)
    again = numbered(_again(seen, alive), rivals)
    return _CycleEnds(
        seen=seen,
        steps=steps,
        rivals=rivals,
        again=again,
        over=Counter(one.campaign for one in last_ends(seen.ended, again)),
        lasting=lasting,
        lost=losers(seen.ended, rivals, left),
    )


def _sending(ends: _CycleEnds, book: OpenEvents, unsent: Container[Array]) -> CyclePlan:
    """Decide what is sent, and which submissions go on: none of `unsent`."""
    seen, steps = ends.seen, ends.steps
    barred, predicted = bars(book.open, seen.at, seen.failures), predictor.predict(seen)
    there = opened(seen, barred | steps.preparing())
    resumed = tuple(
        one
        for one in _begun(ends)
        if one not in unsent and may_go_on(one, book.open, seen.at, seen.failures)
    )
    begun = steps.of_tasks(resumed)
    given = sends(there, predicted, seen.campaigns, begun, barred)
    note_probes(given, seen, barred, book)
    sent, before = steps.first(given)
    decided = CycleDecisions(
        ended=seen.ended,
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
        copies=copies(there, decided),
        predicted=predictor.kept(predicted, seen.ratios, sent),
    )


def _begun(ends: _CycleEnds) -> Iterator[Array]:
    """Return the arrays whose submission goes on.

    None begins of a paused campaign, or at a cluster that is drained or under stress; what is there
    is released, and ends with its epilogue.
    """
    seen = ends.seen
    paused = {one.number for one in seen.campaigns if one.state is CampaignState.PAUSED}
    closed = {name for name, room in seen.room.items() if room.is_closed}
    dropped = {(one.array.campaign, one.array.number) for one in ends.lost if is_dropped(one)}
    for one in ends.reached:
        is_wanted = ends.steps.is_wanted(one) and (one.campaign, one.number) not in dropped
        is_begin = one.state is INTENDED and not ends.steps.is_epilogue(one)
        is_held_back = is_begin and (one.campaign in paused or one.cluster in closed)
        if is_wanted and one.state in BEGUN and not is_held_back:
            yield one


def _finished(ends: _CycleEnds) -> tuple[int, ...]:
    """Return the campaigns that end: no task of them is left but copies that have lost.

    Those are ended later, and a cluster that is away keeps no campaign from its end.
    """
    runs, busy = {one.campaign for one in ends.again}, ends.busy
    return tuple(
        one.number
        for one in ends.seen.campaigns
        if one.state.is_alive
        and one.number not in runs
        and _is_sent(one, ends.seen)
        and (one.number not in busy or one.ended + ends.over[one.number] >= one.tasks)
    )


def _wound_up(ends: _CycleEnds) -> tuple[int, ...]:
    """Return the cancelled campaigns of which no task lives, whose epilogues may run."""
    busy, campaigns = ends.busy, ends.seen.campaigns
    return tuple(one.number for one in campaigns if one.is_winding_up and one.number not in busy)


def _gone(arrays: Iterable[Array], seen: CycleSituation) -> int:
    """Count those whose cluster lists no task of their campaign: nothing is left to delete."""
    listed = {(one.campaign, one.cluster) for one in seen.there}
    steps = {(one.campaign, one.array) for one in seen.steps}
    return sum(
        one.state is ArrayState.RELEASED
        and one.cluster in seen.room
        and (one.campaign, one.cluster) not in listed
        and (one.campaign, one.number) not in steps
        for one in arrays
    )


def _again(seen: CycleSituation, alive: Set[int]) -> tuple[Retry, ...]:
    """Return the tasks that are tried once more; those of a test are tried once.

    Clusters that are too small for a task are none to which it could go. What its cluster has lost
    may run on: only a task that may run twice at the same time is tried again then.
    """
    twice = {one.number for one in seen.campaigns if one.jdl.may_be_copied}
    clusters = {
        one.number: {
            name
            for name, wish in one.jdl.clusters.items()
            if name not in seen.room or not seen.room[name].is_too_small(wish.slots)
        }
        for one in seen.campaigns
        if one.number in alive and one.jdl.type is not CampaignType.TEST
    }
    where = clusters_of(seen.arrays)
    surely = (one for one in seen.ended if not one.forgotten_job or one.campaign in twice)
    ended = tuple(
        AttemptOutcome.of(one, where.get((one.campaign, one.array), "")) for one in surely
    )
    return to_run_again(ended, seen.earlier, clusters, seen.failures)


def _is_sent(campaign: Campaign, seen: CycleSituation) -> bool:
    """Say whether no task of a campaign will be sent any more; a test drops the rest of them."""
    is_test = campaign.jdl.type is CampaignType.TEST
    tried = seen.tried.get(campaign.number, frozenset())
    is_tried = is_test and tried >= campaign.jdl.clusters.keys()
    return is_tried or not seen.waiting.get(campaign.number)


def sentences(plan: CyclePlan) -> list[str]:
    """Tell what a cycle does, a sentence for each kind of thing.

    Nothing is sent of a campaign of which root's ledger knows more: that is taken over first.
    """
    plan = replace(
        plan,
        sends=tuple(one for one in plan.sends if one.campaign not in plan.behind),
        steps=tuple(one for one in plan.steps if one.campaign not in plan.behind),
        copies=tuple(one for one in plan.copies if one.campaign not in plan.behind),
    )
    sent = ", ".join(
        f"{one.tasks} of campaign {one.campaign} to {one.cluster}" for one in plan.sends
    )
    told = [
        f"campaign {number}: root's ledger has arrays of it; they are taken over"
        for number in plan.behind
    ]
    told += _of_ends(plan)
    there = len(plan.deleted) - plan.gone
    told += [count(there, "array is deleted", "arrays are deleted") if there else ""]
    told += predictor.sentences(plan.predicted)
    told += [f"sent: {sent}" if sent else ""]
    told += of_steps(plan.steps)
    told += [
        f"copied to {one.cluster}: {len(one.tasks)} of campaign {one.campaign}, which have run"
        f" longer than {one.beyond_s} s"
        for one in plan.copies
    ]
    told += [
        f"not sent: the prologue of campaign {one.campaign} at {one.cluster}: no task is left"
        for one in plan.unsent
    ]
    told += [f"campaign {number} has ended" for number in plan.finished]
    told += [said(one) for one in plan.changes.events]
    return [each for each in told if each]


def _of_ends(plan: CyclePlan) -> list[str]:
    copies = sum(one.outcome is TaskOutcome.COPY for one in plan.ended)
    tasks = len(plan.ended) - copies
    again = f", {count(len(plan.again), 'of them runs', 'of them run')} again" if plan.again else ""
    told = [f"{count(tasks, 'task')} ended{again}" if tasks else ""]
    told += [f"{count(copies, 'copy', 'copies')} ended" if copies else ""]
    return told + [
        f"not wanted any more: {sum(map(len, one.places))} of campaign {one.array.campaign} at"
        f" {one.array.cluster}"
        for one in plan.losers
    ]
