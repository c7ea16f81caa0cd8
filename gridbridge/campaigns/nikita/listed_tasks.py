"""What clusters list of campaigns' arrays, as nikita looks at it."""

from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby

from gridbridge.campaigns.store.cancellation_marks import Marked
from gridbridge.decisions.campaigns.failures.clock_jumps import moved
from gridbridge.model.campaigns.campaign import Array, Campaign, CampaignState
from gridbridge.model.campaigns.cancellation import (
    HELD,
    IF_WAITING,
    CancellationMark,
    ClockJump,
    ListedArray,
    WipedFor,
)
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus

TO_GO = (
    *IF_WAITING,
    *HELD,
    WipedFor.UNWANTED,
)  # also held tasks, for the hold may be ours


def parts(
    arrays: Iterable[Array],
    answers: Mapping[str, ClusterSnapshot],
    campaigns: Mapping[int, Campaign],
    marks: Marked,
    leaps: Iterable[ClockJump] = (),
    steps: Container[tuple[int, int]] = (),
) -> Iterator[ListedArray]:
    """Give the tasks that wait or run at clusters that answered; those being deleted are left.

    So are prologues and epilogues, `steps`, that wait and are not marked to go: each has one
    cluster where it may run. Their ages are right though this host's clock leapt.
    """
    jumps = tuple(leaps)
    for array in arrays:
        campaign = campaigns.get(array.campaign)
        if campaign is None:
            continue
        of_array = marks.get((array.campaign, array.number), {})
        for row in answers[array.cluster].jobs.get(array.job_id, ()):
            is_kept = row.state.is_waiting and (array.campaign, array.number) in steps
            if not is_kept and (since := _since(array, row, campaign)):
                yield from _split(array, campaign, row, moved(since, jumps), of_array)
            elif of_array and (is_kept or row.state.is_put_back or _is_held(row)):
                split = _split(array, campaign, row, array.intended_at, of_array)
                yield from (part for part in split if part.marked in TO_GO)


def _since(array: Array, row: JobStatus, campaign: Campaign) -> datetime | None:
    """Return since when tasks wait or run; None for those that somebody else sees to.

    That they wait is by our clock. One that was put back began to wait at a time that no list has.
    None began before it was sent, whatever the clock of its cluster says.
    """
    if campaign.state is CampaignState.CANCELLED and not row.state.is_deleting:
        return array.intended_at
    if row.state.is_deleting or row.state.is_put_back:
        return None
    if row.state.is_waiting:
        return None if row.state.is_held else array.intended_at
    if row.state.is_running and row.since:
        return max(row.since, array.intended_at)
    return None


def _is_held(row: JobStatus) -> bool:
    return row.state.is_waiting and row.state.is_held


def _split(
    array: Array,
    campaign: Campaign,
    row: JobStatus,
    since: datetime,
    marks: Mapping[int, CancellationMark],
) -> Iterator[ListedArray]:
    """Give the tasks of a row, those that are marked apart from the others."""
    by_mark: dict[WipedFor | None, list[range]] = {}
    for task_range in row.tasks or (range(1, array.size + 1),):
        for wiped_for, indices in _runs(task_range, marks):
            by_mark.setdefault(wiped_for, []).append(indices)
    for marked, ranges in by_mark.items():
        yield ListedArray(
            campaign=array.campaign,
            array=array.number,
            cluster=array.cluster,
            places=tuple(ranges),
            since=since,
            is_waiting=row.state.is_waiting,
            walltime_s=_walltime_s(campaign, array),
            is_test=campaign.jdl.type is CampaignType.TEST,
            slots=campaign.jdl.clusters[array.cluster].slots,
            marked=marked,
            is_cancelled=campaign.state is CampaignState.CANCELLED,
        )


def _walltime_s(campaign: Campaign, array: Array) -> int:
    """Return the longest time that tasks of an array may take; a prologue is one task alone."""
    request = campaign.jdl.clusters[array.cluster]
    if array.size > 1 or not (request.prologue or request.epilogue):
        return request.walltime_s
    return max(request.walltime_s, request.prologue_walltime_s, request.epilogue_walltime_s)


def _runs(
    indices: range, marks: Mapping[int, CancellationMark]
) -> Iterator[tuple[WipedFor | None, range]]:
    """Split places into runs of the same mark."""
    if not marks:
        yield None, indices
        return
    named = ((marks[index].wiped_for if index in marks else None, index) for index in indices)
    for wiped_for, group in groupby(named, key=lambda pair: pair[0]):
        run = [index for _, index in group]
        yield wiped_for, range(run[0], run[-1] + 1)
