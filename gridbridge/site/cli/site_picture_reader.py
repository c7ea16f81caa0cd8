"""Reads the picture of the site that `gridbridge top` shows, and explains single rows of it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from gridbridge.campaigns.cli import campaign_explanation, campaign_table
from gridbridge.campaigns.store import campaign_client
from gridbridge.decisions.site import site_picture_rows
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.fixed_paths import CONFIG, PUBLISHED
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site.site_picture import LastGoodPicture, PictureRow, PictureTable, SitePicture
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program import status_and_why_reports
from gridbridge.state import published_json


def read_site_picture(now: datetime, folder: str = PUBLISHED, path: str = CONFIG) -> SitePicture:
    """Read all published files that a picture needs; raise StateError or OSError if they can't be read."""
    shown = published_json.read_all_published_files(folder)
    report = status_and_why_reports.report_on_published_files(shown, now, folder, path)
    return SitePicture(
        read_at=now,
        published_at=shown.load.taken_at if shown.load else None,
        home=shown.service.cluster if shown.service else "",
        status=site_picture_rows.say_each_reason_once(report),
        clusters=site_picture_rows.describe_clusters(shown, campaign_client.published_campaign_clusters(folder), now),
        campaigns=campaign_client.published_campaigns(folder),
    )


def read_picture_or_keep_last(
    last: LastGoodPicture, now: datetime, folder: str = PUBLISHED, path: str = CONFIG
) -> LastGoodPicture:
    """Return the present picture; if the files can't be read, return the last picture with the reason."""
    try:
        return site_picture_rows.keep_last_good_picture(last, read_site_picture(now, folder, path))
    except (OSError, GridbridgeError) as error:
        return replace(last, trouble=describe_error(error))


def explain_picture_row(
    table: PictureTable, row: PictureRow, picture: SitePicture, now: datetime, folder: str, path: str
) -> tuple[str, ...]:
    """Return what is known about a job, campaign or cluster, as lines for people."""
    try:
        if table is PictureTable.JOBS:
            return tuple(_job_lines(row.key, now, folder, path))
        if table is PictureTable.CAMPAIGNS:
            return tuple(_campaign_lines(row.campaign or 0, folder))
        return tuple(_cluster_lines(row.key, picture))
    except (OSError, GridbridgeError) as error:
        return (describe_error(error),)


def _job_lines(transfer: str, now: datetime, folder: str, path: str) -> Iterator[str]:
    job = parse_transfer_name(transfer).local_job_or_task_id
    alarm, tasks = status_and_why_reports.explain_transfers_of_local_job(job, now, folder, path)
    yield from filter(None, (alarm,))
    for attempt in (attempt for task in tasks for attempt in task.attempts):
        facts = {"name": attempt.transfer.name, "here": attempt.here, "there": attempt.there}
        yield attempt.where
        for title, text in {**facts, "waits for": attempt.waits_for}.items():
            if text:
                yield f"  {title:<9}  {text}"
        yield ""
        for event in attempt.events:
            yield f"  {event.at.astimezone():%H:%M:%S}   {event.text}"


def _campaign_lines(number: int, folder: str) -> Iterator[str]:
    published = campaign_client.find_published_campaign(number, folder)
    if published is None:
        yield f"no campaign {number}"
        return
    campaign = campaign_client.campaign_with_cluster_progress(published, folder)
    yield f"campaign {number}, {campaign.name}, of {campaign.owner}"
    yield campaign_table.campaign_end_forecast_text(campaign)
    yield ""
    rows = (campaign_table.CLUSTER_HEAD, *campaign_table.cluster_progress_rows(campaign))
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for name, *numbers in rows:
        texts = (text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True))
        yield "  ".join((name.ljust(widths[0]), *texts))
    yield ""
    explained = campaign_explanation.explain_campaign_or_task(str(number), folder)
    yield from explained.sentences if explained else ()


def _cluster_lines(name: str, picture: SitePicture) -> Iterator[str]:
    cluster = next(cluster for cluster in picture.clusters if cluster.name == name)
    report = next((report for report in picture.status.clusters if report.cluster == name), None)
    yield f"cluster {name}{', the home cluster' if name == picture.home else ''}"
    yield f"  {report.why}" if report else "  the poller does not query this cluster"
    if cluster.reason:
        yield f"  gets no new jobs and tasks: {cluster.reason}"
    tasks = f"{cluster.tasks_running} running and {cluster.tasks_waiting} waiting tasks of campaigns"
    yield f"  {number_with_noun(cluster.jobs, 'transferred job')}, {tasks}"
    for queue in picture.status.queues:
        if queue.cluster == name:
            state = "open" if queue.is_open else f"closed: {queue.why}"
            yield f"  {queue.queue}: {queue.used} of {queue.total} slots used; {state}"
