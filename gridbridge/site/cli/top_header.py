"""Draws the upper part of `gridbridge top`: age of the picture, a bar for each cluster, and warnings."""

from datetime import datetime, timedelta
from textwrap import wrap

from rich.text import Text

from gridbridge.cli.table_lines import slot_bar
from gridbridge.decisions.site.site_picture_rows import describe_picture_age
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site.site_picture import ClusterInPicture, LastGoodPicture, SitePicture

PARTS = (("█", "#4682b4"), ("█", "#2e9e5b"), ("·", "#808080"), ("x", "#a04040"))  # of others, ours, free, closed
TWO_COLUMNS = 100  # from this width on, two bars stand beside each other
MOST_WRAPPED = 3  # lines of one warning
OLD = timedelta(seconds=10)  # the poller publishes every 2 s; an older picture is marked


def header_text(last: LastGoodPicture, choice: str, now: datetime, width: int, height: int) -> Text:
    """Return at most `height` lines of at most `width` letters: age, counts, bars, and reasons of closed clusters."""
    lines = [_first_line(last, now, width), *_warning_lines(last, width)]
    if last.picture:
        lines += [Text(f" {_counts(last.picture)}"), *_bar_lines(last.picture, width)]
    if choice:
        lines.insert(1, Text(f" only {choice}", style="bold cyan"))
    if height == 1:
        lines = lines[:1]
    elif len(lines) > height:
        lines = [*lines[: height - 1], Text(f" and {len(lines) - height + 1} more lines: enlarge the window", "yellow")]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines)


def _first_line(last: LastGoodPicture, now: datetime, width: int) -> Text:
    published = last.picture.published_at if last.picture else None
    is_bad = bool(last.trouble) or published is None
    is_old = published is not None and now - published > OLD
    home = f" {last.picture.home}" if last.picture and last.picture.home else ""
    title = Text(f" gridbridge{home}  ", style="bold")
    title.append(describe_picture_age(last, now), "bold #e05252" if is_bad else "yellow" if is_old else "green")
    clock = f"{now.astimezone():%H:%M:%S} "
    if title.cell_len + len(clock) < width:
        title.append(clock.rjust(width - title.cell_len), "bold")
    return title


def _counts(picture: SitePicture) -> str:
    away = picture.status.transfers
    running = sum(report.transfer.remote_job_state.is_running for report in away)
    alive = [campaign for campaign in picture.campaigns if campaign.state.is_alive]
    ended, tasks = sum(campaign.ended for campaign in alive), sum(campaign.tasks for campaign in alive)
    jobs = f"{number_with_noun(len(away), 'job')} away, {running} running"
    return (
        f"{jobs}; {number_with_noun(len(alive), 'campaign')} alive, {ended} of {number_with_noun(tasks, 'task')} ended"
    )


def _bar_lines(picture: SitePicture, width: int) -> list[Text]:
    columns = 2 if width >= TWO_COLUMNS and len(picture.clusters) > 1 else 1
    longest = max((len(cluster.name) for cluster in picture.clusters), default=0)
    bars = [_cluster_bar(cluster, width // columns, longest) for cluster in picture.clusters]
    return [Text.assemble(*bars[n : n + columns]) for n in range(0, len(bars), columns)]


def _cluster_bar(cluster: ClusterInPicture, width: int, name_width: int) -> Text:
    numbers = "?" if cluster.slots is None else f"{cluster.used or 0}/{cluster.slots}"
    name = Text(f" {cluster.name:>{name_width}}[", style="bold" if cluster.answers else "bold #e05252")
    end = Text(f"{numbers:>8}]  ", style="bold")
    room = max(0, width - name.cell_len - end.cell_len)
    sizes = slot_bar(cluster.slots, cluster.used, cluster.free, cluster.jobs + cluster.tasks_running, room)
    parts = (Text(mark * size, style=colour) for (mark, colour), size in zip(PARTS, sizes, strict=True))
    return Text.assemble(name, *parts, end)


def _warning_lines(last: LastGoodPicture, width: int) -> list[Text]:
    """Return the trouble of the last reading, the site's alarm, and a reason for each closed cluster."""
    texts = [last.trouble]
    if picture := last.picture:
        closed = (f"{cluster.name} gets nothing: {cluster.reason}" for cluster in picture.clusters if cluster.reason)
        texts += (picture.status.alarm, *closed, *picture.status.late)
    lines = (line for text in texts for line in wrap(text, max(8, width - 2))[:MOST_WRAPPED])
    return [Text(f" {line}", style="bold #e05252") for line in lines]
