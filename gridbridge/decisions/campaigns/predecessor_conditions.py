"""Decide which campaigns and tasks still wait for predecessors, and what a predecessor's failure causes."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import groupby
from operator import attrgetter, itemgetter

from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import OpenCampaignEventsInCycle, new_campaign_event
from gridbridge.model.campaigns.campaign import Campaign, CampaignState, WaitingTaskRange
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.campaign_predecessors import (
    AwaitedPredecessor,
    CampaignPredecessor,
    PredecessorCondition,
    PredecessorFailureAction,
    PredecessorProgress,
    describe_predecessor_progress,
)
from gridbridge.model.published_status_and_reports import number_with_noun

# all fields except the task numbers; attrgetter compares them faster than `replace` does
_kind_of_tasks = attrgetter(*(field.name for field in fields(WaitingTaskRange) if field.name not in ("first", "last")))


def unmet_predecessors(
    campaign: Campaign, progress: Mapping[int, PredecessorProgress], awaiting: int
) -> tuple[AwaitedPredecessor, ...]:
    """Return the predecessors for which a campaign waits.

    `awaiting` counts the campaign's tasks that wait for the predecessor's task with the same number.
    """
    if not campaign.state.is_alive:
        return ()
    unmet = (
        AwaitedPredecessor(
            condition=predecessor.condition,
            # a predecessor is missing only in a restored state file
            progress=progress.get(predecessor.number)
            or PredecessorProgress(number=predecessor.number, name=predecessor.name, is_cancelled=True),
        )
        for predecessor in campaign.jdl.after
    )
    return tuple(predecessor for predecessor in unmet if not predecessor.is_met(awaiting))


def apply_predecessor_conditions(situation: CampaignCycleSituation) -> CampaignCycleSituation:
    """Cancel campaigns by `on_failure`, and leave out the unsent tasks of campaigns that wait for a whole predecessor.

    A waiting campaign then has no task to send, so no slot is kept for the campaign. Returns the changed situation.
    """
    cancelled = frozenset(list_campaigns_to_cancel(situation))
    waiting, awaiting = dict(situation.waiting), dict(situation.awaiting)
    for campaign in situation.campaigns:
        if campaign.number in cancelled:
            waiting.pop(campaign.number, None)
            awaiting.pop(campaign.number, None)
        elif _is_held_back(campaign, situation) and (tasks := waiting.pop(campaign.number, 0)):
            awaiting[campaign.number] = awaiting.get(campaign.number, 0) + tasks
    return replace(
        situation,
        campaigns=tuple(
            replace(
                campaign, state=CampaignState.CANCELLED, ended_at=None if campaign.jdl.has_epilogue else situation.at
            )
            if campaign.number in cancelled
            else campaign
            for campaign in situation.campaigns
        ),
        waiting=waiting,
        awaiting=awaiting,
    )


def _is_held_back(campaign: Campaign, situation: CampaignCycleSituation) -> bool:
    return any(predecessor.holds_whole_campaign for predecessor in unmet_predecessors_in_situation(situation, campaign))


def unmet_predecessors_in_situation(
    situation: CampaignCycleSituation, campaign: Campaign
) -> tuple[AwaitedPredecessor, ...]:
    return unmet_predecessors(campaign, situation.predecessors, situation.awaiting.get(campaign.number, 0))


def list_campaigns_to_cancel(situation: CampaignCycleSituation) -> Iterator[int]:
    """Yield the campaigns that `on_failure` cancels.

    A paused campaign is not cancelled until it is resumed, because a restored state file may lack its predecessor's
    retries.
    """
    for campaign in situation.campaigns:
        is_to_cancel = campaign.jdl.on_failure is PredecessorFailureAction.CANCEL
        if (is_to_cancel and campaign.state is CampaignState.IN_TREATMENT) and any(
            predecessor.has_failed for predecessor in unmet_predecessors_in_situation(situation, campaign)
        ):
            yield campaign.number


def update_predecessor_failure_events(book: OpenCampaignEventsInCycle, situation: CampaignCycleSituation) -> None:
    """Open an event for each campaign with a failed predecessor; close the event once no predecessor has failed.

    `situation` is the situation before `apply_predecessor_conditions`.
    """
    code = CampaignEventCode.PREDECESSOR_FAILED
    for campaign in (campaign for campaign in situation.campaigns if campaign.jdl.after and campaign.state.is_alive):
        unmet = unmet_predecessors_in_situation(situation, campaign)
        failed = [predecessor.progress for predecessor in unmet if predecessor.has_failed]
        event = book.find_event(code, campaign.number)
        if not failed:
            book.close_event(event, situation.at)
        elif not event:
            event = new_campaign_event(CampaignEventSubject.CAMPAIGN, code, campaign.number, "", situation.at)
            book.add_or_replace_event(replace(event, why=", ".join(map(describe_predecessor_progress, failed))))


def explain_unusable_predecessor(
    predecessor: CampaignPredecessor, progress: PredecessorProgress, tasks: int, on_failure: PredecessorFailureAction
) -> str:
    """Say why a campaign with `tasks` tasks can't wait for a predecessor; an empty text if the campaign can."""
    unmet = AwaitedPredecessor(condition=predecessor.condition, progress=progress)
    if predecessor.condition is PredecessorCondition.SAME and progress.tasks != tasks:
        return f"its {number_with_noun(progress.tasks, 'task')} and these {tasks} differ; expected equal numbers"
    needs_success = predecessor.condition is not PredecessorCondition.ENDED
    is_cancelled = needs_success and (progress.is_cancelled or progress.cancelled > 0)
    if is_cancelled or (unmet.has_failed and on_failure is PredecessorFailureAction.CANCEL):
        return f"{describe_predecessor_progress(progress)}, so this campaign would never start"
    return ""


def waiting_ranges_of_new_tasks(tasks: int, succeeded: Mapping[int, Iterable[range]]) -> Iterator[WaitingTaskRange]:
    """Yield a new campaign's tasks as ranges that await the same predecessors, in one pass over all ranges.

    `succeeded` has the succeeded tasks of each predecessor, as ranges of which none overlap or adjoin.
    """
    parts = ((part, number) for number, ranges in succeeded.items() for part in ranges)
    edges = sorted((edge, number) for part, number in parts for edge in (part.start, part.stop) if edge < tasks)
    awaits, first = {*succeeded}, 0
    for last, changes in groupby((*edges, (tasks, 0)), key=itemgetter(0)):
        if first < last:
            ordered = tuple(number for number in succeeded if number in awaits)
            yield WaitingTaskRange(first=first, last=last - 1, awaits=ordered)
        first = last
        awaits ^= {number for _, number in changes}


def release_tasks_from_predecessor(
    waiting: Iterable[WaitingTaskRange], predecessor: int, succeeded: Iterable[range]
) -> tuple[WaitingTaskRange, ...]:
    """Return ranges of waiting tasks in which the `succeeded` tasks no longer wait for a predecessor.

    `waiting` and `succeeded` are in ascending order. Adjoining ranges that are otherwise equal are joined.
    """
    merged: list[WaitingTaskRange] = []
    parts = deque(succeeded)
    for span in waiting:
        while parts and parts[0].stop <= span.first:
            parts.popleft()
        for piece in _cut_waiting_range_at_borders(span, predecessor, parts) if predecessor in span.awaits else (span,):
            merged[-1:] = _join_adjoining_ranges(merged[-1:], piece)
    return tuple(merged)


def _join_adjoining_ranges(before: list[WaitingTaskRange], piece: WaitingTaskRange) -> list[WaitingTaskRange]:
    """Join a range and the next piece if only their task numbers differ; otherwise return both."""
    if before and before[0].last + 1 == piece.first and _kind_of_tasks(before[0]) == _kind_of_tasks(piece):
        return [replace(before[0], last=piece.last)]
    return [*before, piece]


def _cut_waiting_range_at_borders(
    span: WaitingTaskRange, predecessor: int, parts: Iterable[range]
) -> Iterator[WaitingTaskRange]:
    """Cut a range at the borders of `parts`; pieces inside `parts` no longer wait for the predecessor."""
    awaits = tuple(number for number in span.awaits if number != predecessor)
    begin = span.first
    for part in parts:
        if part.start > span.last:
            break
        low, high = max(part.start, begin), min(part.stop - 1, span.last)
        if begin < low:
            yield replace(span, first=begin, last=low - 1)
        yield replace(span, first=low, last=high, awaits=awaits)
        begin = high + 1
    if begin <= span.last:
        yield replace(span, first=begin)
