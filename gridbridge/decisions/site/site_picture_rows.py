"""Make the tables of `gridbridge top` from a picture of the site: rows, selection, order, and columns that fit."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatchcase

from gridbridge.decisions.transfer.transfer_status_explanation import why_cluster_gets_nothing
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    CampaignProgressAtCluster,
    PublishedCampaign,
    PublishedClusterSlots,
)
from gridbridge.model.job_and_queue_states import JobState
from gridbridge.model.published_status_and_reports import (
    PublishedFilesSnapshot,
    SiteStatusReport,
    TransferAndAwaitedEvent,
    format_duration,
    replace_control_characters,
)
from gridbridge.model.site.site_picture import (
    ClusterInPicture,
    LastGoodPicture,
    PictureChoice,
    PictureColumn,
    PictureRow,
    PictureTable,
    SitePicture,
    SortValue,
)
from gridbridge.model.transfer_name import parse_local_job_and_task

GAP = 2  # blank columns between two columns of a table
LEAST_LAST = 12  # to this width the last column, a sentence, may be cut
BAR = 10  # width of a campaign's bar
FULL, EMPTY = "█", "░"
COLUMNS: Mapping[PictureTable, tuple[PictureColumn, ...]] = {
    PictureTable.JOBS: (
        PictureColumn(title="JOB", rank=0, is_number=True),
        PictureColumn(title="NAME", rank=3),
        PictureColumn(title="USER", rank=2),
        PictureColumn(title="CLUSTER", rank=1),
        PictureColumn(title="THERE", rank=1),
        PictureColumn(title="SINCE", rank=4, is_number=True),
        PictureColumn(title="HERE", rank=6),
        PictureColumn(title="ID", rank=7, is_number=True),
        PictureColumn(title="HOST", rank=8),
        PictureColumn(title="WAITS FOR", rank=5),
    ),
    PictureTable.CAMPAIGNS: (
        PictureColumn(title="ID", rank=0, is_number=True),
        PictureColumn(title="NAME", rank=2),
        PictureColumn(title="USER", rank=3),
        PictureColumn(title="STATE", rank=1),
        PictureColumn(title="PROGRESS", rank=1),
        PictureColumn(title="ENDED", rank=4, is_number=True),
        PictureColumn(title="RUN", rank=5, is_number=True),
        PictureColumn(title="WAIT", rank=5, is_number=True),
        PictureColumn(title="FAILED", rank=4, is_number=True),
        PictureColumn(title="ENDS IN", rank=6, is_number=True),
        PictureColumn(title="EVENTS", rank=7, is_number=True),
        PictureColumn(title="CLUSTERS", rank=8),
    ),
    PictureTable.CLUSTERS: (
        PictureColumn(title="CLUSTER", rank=0),
        PictureColumn(title="ANSWERS", rank=1),
        PictureColumn(title="SLOTS", rank=4, is_number=True),
        PictureColumn(title="USED", rank=2, is_number=True),
        PictureColumn(title="FREE", rank=1, is_number=True),
        PictureColumn(title="WAIT", rank=2, is_number=True),
        PictureColumn(title="JOBS", rank=3, is_number=True),
        PictureColumn(title="TASKS RUN", rank=5, is_number=True),
        PictureColumn(title="TASKS WAIT", rank=6, is_number=True),
        PictureColumn(title="REASON", rank=3),
    ),
}
UNKNOWN = "-"
STATE_WORDS = {CampaignState.IN_TREATMENT: ("running", "ok"), CampaignState.PAUSED: ("paused", "warning")}


def keep_last_good_picture(last: LastGoodPicture, picture: SitePicture) -> LastGoodPicture:
    """Return the new picture; keep the last picture if the new one lacks what the service has published before."""
    if last.picture and last.picture.published_at and not picture.published_at:
        return LastGoodPicture(picture=last.picture, trouble="the service's published files are gone")
    return LastGoodPicture(picture=picture)


def describe_picture_age(last: LastGoodPicture, now: datetime) -> str:
    """Say how old the shown values are; a picture that can't be renewed is called the last one."""
    published = last.picture.published_at if last.picture else None
    age = f"published {format_duration(now - published)} ago" if published else "nothing published yet"
    return f"last picture, {age}" if last.trouble and last.picture else age


def choose_from_status_report(report: SiteStatusReport, user: str, cluster: str) -> SiteStatusReport:
    """Return the transfers of a user (a name or pattern), and what concerns a cluster; '' chooses all."""
    return replace(
        report,
        clusters=tuple(row for row in report.clusters if cluster in ("", row.cluster)),
        queues=tuple(row for row in report.queues if cluster in ("", row.cluster)),
        transfers=tuple(
            row
            for row in report.transfers
            if cluster in ("", row.transfer.remote) and fnmatchcase(row.transfer.owner, user or "*")
        ),
        drained=tuple(line for line in report.drained if cluster in ("", line.partition(":")[0])),
    )


def needs_attention(report: SiteStatusReport) -> bool:
    """Say whether a warning is shown, a cluster gets no jobs, or a program is late."""
    return bool(report.alarm or report.drained or report.late or any(row.closed_by for row in report.clusters))


def say_each_reason_once(report: SiteStatusReport) -> SiteStatusReport:
    """Leave the reason of a closed cluster to the cluster's row: rows of queues and transfers only point to it."""
    closed = {row.cluster for row in report.clusters if row.closed_by}
    silent = {row.cluster for row in report.clusters if not row.answers}
    return replace(
        report,
        queues=tuple(
            replace(row, why=f"{row.cluster} gets no jobs") if row.cluster in closed and not row.is_open else row
            for row in report.queues
        ),
        transfers=tuple(
            replace(row, waits_for=f"{row.transfer.remote} to answer; the job counts as alive")
            if row.transfer.remote in silent and row.transfer.needs_answer_of_cluster
            else row
            for row in report.transfers
        ),
    )


def describe_clusters(
    published_files: PublishedFilesSnapshot, campaign_clusters: Iterable[PublishedClusterSlots], now: datetime
) -> tuple[ClusterInPicture, ...]:
    """Join what the poller and the runner have published of each cluster; the poller's numbers come first."""
    by_runner = {cluster.name: cluster for cluster in campaign_clusters}
    jobs = Counter(transfer.remote for transfer in published_files.transfers)
    described = []
    for name in sorted({*published_files.clusters, *by_runner}):
        polled, run = published_files.clusters.get(name), by_runner.get(name)
        slots = polled if polled and polled.slots is not None else run
        free = polled.free_slots if polled else None
        described.append(
            ClusterInPicture(
                name=name,
                answers=not polled.trouble if polled else bool(run and run.answered_at),
                slots=slots.slots if slots else None,
                used=slots.used if slots else None,
                free=free if free is not None or run is None else run.free,
                waiting=polled.pending if polled else None,
                jobs=jobs[name],
                tasks_running=run.running if run else 0,
                tasks_waiting=run.waiting if run else 0,
                reason=why_cluster_gets_nothing(name, published_files, now) if polled else "",
            )
        )
    return tuple(described)


def rows_of_table(table: PictureTable, picture: SitePicture, now: datetime) -> tuple[PictureRow, ...]:
    if table is PictureTable.JOBS:
        return tuple(_job_row(report, now) for report in picture.status.transfers)
    if table is PictureTable.CAMPAIGNS:
        return tuple(_campaign_row(campaign, now) for campaign in picture.campaigns)
    return tuple(map(_cluster_row, picture.clusters))


def choose_and_sort_rows(
    table: PictureTable, rows: Iterable[PictureRow], choice: PictureChoice
) -> tuple[PictureRow, ...]:
    """Return the chosen rows in order; rows with an unknown value come last; parts follow their row."""
    chosen = [row for row in rows if is_row_chosen(row, choice)]
    titles = [column.title for column in COLUMNS[table]]
    place = titles.index(choice.sort_titles.get(table, titles[0]))
    known = [row for row in chosen if row.sort_values[place] is not None]
    known.sort(key=lambda row: _comparable(row.sort_values[place]), reverse=choice.is_reversed)
    ordered = (*known, *(row for row in chosen if row.sort_values[place] is None))
    if not choice.has_parts:
        return ordered
    return tuple(row for whole in ordered for row in (whole, *whole.parts))


def is_row_chosen(row: PictureRow, choice: PictureChoice) -> bool:
    """Say whether a table shows a row; a user selects no clusters, and a campaign no jobs."""
    return (
        (not choice.user or not row.user or fnmatchcase(row.user, choice.user))
        and (not choice.cluster or choice.cluster in row.clusters)
        and (choice.campaign is None or row.campaign in (None, choice.campaign))
        and choice.text.lower() in " ".join(row.cells).lower()
    )


def find_row_with_text(rows: Sequence[PictureRow], text: str, start: int) -> int | None:
    """Return the place of the first row from `start` on that contains a text; continue at the top."""
    places = (*range(start, len(rows)), *range(min(start, len(rows))))
    return next((n for n in places if text.lower() in " ".join(rows[n].cells).lower()), None)


def column_widths(columns: Sequence[PictureColumn], rows: Sequence[PictureRow], width: int) -> dict[int, int]:
    """Return the places and widths of the columns that fit into `width`; the last column may be cut."""
    widths = [max([len(column.title) + 1, *(len(row.cells[n]) for row in rows)]) for n, column in enumerate(columns)]
    wanted, widths[-1] = widths[-1], min(widths[-1], LEAST_LAST)
    left = sorted(range(len(columns)), key=lambda n: (columns[n].rank, n))
    while len(left) > 1 and sum(widths[n] + GAP for n in left) > width:
        left.pop()
    room = width - sum(widths[n] + GAP for n in left)
    if len(columns) - 1 in left:
        widths[-1] = min(wanted, widths[-1] + max(0, room))
    return {n: widths[n] for n in sorted(left)}


def _comparable(value: SortValue) -> tuple[float, str]:
    return (0.0, value.lower()) if isinstance(value, str) else (float(value or 0), "")


def _job_row(report: TransferAndAwaitedEvent, now: datetime) -> PictureRow:
    transfer = report.transfer
    job, task = parse_local_job_and_task(report.job)
    since_s = (now - transfer.since).total_seconds() if transfer.since else None
    cells = (
        *(report.job, transfer.name or UNKNOWN, transfer.owner, transfer.remote, transfer.remote_state or UNKNOWN),
        format_duration(now - transfer.since) if transfer.since else UNKNOWN,
        *(transfer.local_state or UNKNOWN, str(transfer.remote_id or UNKNOWN), transfer.remote_host or UNKNOWN),
        report.waits_for,
    )
    return PictureRow(
        key=transfer.transfer,
        cells=cells,
        sort_values=(job + task / 1e9, *cells[1:5], since_s, cells[6], transfer.remote_id, *cells[8:]),
        user=transfer.owner,
        clusters=frozenset({transfer.remote}),
        mood=_mood_of_job_state(transfer.remote_job_state),
    )


def _mood_of_job_state(state: JobState) -> str:
    if state.is_error:
        return "broken"
    if state.is_held or state.is_suspended:
        return "warning"
    return "ok" if state.is_running else "note"


def _campaign_row(campaign: PublishedCampaign, now: datetime) -> PictureRow:
    word, mood = STATE_WORDS.get(campaign.state, (campaign.state.value, ""))
    if campaign.is_held_back and campaign.state is CampaignState.IN_TREATMENT:
        word, mood = "held back", "note"
    share = campaign.ended / campaign.tasks if campaign.tasks else 1.0
    left = campaign.p50_at - now if campaign.p50_at and campaign.state.is_alive else None
    numbers = (campaign.ended, campaign.tasks_running, campaign.tasks_waiting, campaign.failed)
    name = replace_control_characters(campaign.name)
    return PictureRow(
        key=str(campaign.number),
        cells=(
            *(str(campaign.number), name, campaign.owner, word, f"{_progress_bar(share)} {int(100 * share):3}%"),
            *(f"{campaign.ended}/{campaign.tasks}", *map(str, numbers[1:])),
            *(format_duration(left) if left else UNKNOWN, str(campaign.events), ",".join(campaign.clusters)),
        ),
        sort_values=(
            *(campaign.number, name, campaign.owner, word, share, *numbers),
            *(left.total_seconds() if left else None, campaign.events, ",".join(campaign.clusters)),
        ),
        user=campaign.owner,
        clusters=frozenset(campaign.clusters),
        campaign=campaign.number,
        mood="warning" if campaign.events and campaign.state.is_alive else mood,
        parts=tuple(_campaign_parts(campaign)),
    )


def _campaign_parts(campaign: PublishedCampaign) -> Iterator[PictureRow]:
    by_name = {at.cluster: at for at in campaign.at}
    for name in campaign.clusters:
        at = by_name.get(name, CampaignProgressAtCluster(cluster=name))
        counts = (UNKNOWN if at.ended is None else str(at.ended), str(at.running), str(at.waiting))
        failed = UNKNOWN if at.failed is None else str(at.failed)
        cells = ("", f"└ {name}", "", "", "", *counts, failed, "", "", name)
        yield PictureRow(key=f"{campaign.number}@{name}", cells=cells, sort_values=cells, campaign=campaign.number)


def _progress_bar(share: float) -> str:
    full = int(BAR * share)
    return FULL * full + EMPTY * (BAR - full)


def _cluster_row(cluster: ClusterInPicture) -> PictureRow:
    work = (cluster.waiting, cluster.jobs, cluster.tasks_running, cluster.tasks_waiting)
    numbers = (cluster.slots, cluster.used, cluster.free, *work)
    shown = (UNKNOWN if number is None else str(number) for number in numbers)
    answers = "yes" if cluster.answers else "no"
    return PictureRow(
        key=cluster.name,
        cells=(cluster.name, answers, *shown, cluster.reason),
        sort_values=(cluster.name, answers, *numbers, cluster.reason),
        clusters=frozenset({cluster.name}),
        mood="" if cluster.answers and not cluster.reason else "warning" if cluster.answers else "broken",
    )
