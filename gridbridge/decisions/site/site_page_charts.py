"""Bars and curves of the page: numbers become shares and paths in a box of 100 by 100, origin at the top left."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, pairwise

from gridbridge.decisions.elastic.balancer_round_reports import SAMPLE_INTERVAL, SAMPLES_KEPT
from gridbridge.model.campaigns.published_campaigns_and_tasks import CampaignTaskEndCounts, PublishedCampaign
from gridbridge.model.elastic.published_balance import PublishedNodeHistory
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site.site_page_rows import PageBar, PageBarPart, PageChart, PageCurve, PageDay

BOX = 100.0
CURVE_POINTS = 120  # more points of a curve are not visible
DAY = timedelta(days=1)
LEAST_DAY_WIDTH = 9.0  # percent of the chart's width that a day's name needs
Point = tuple[float, float]


def bar_parts(whole: float | None, parts: Iterable[tuple[str, float]]) -> PageBar | None:
    """Return the nonempty parts side by side, None without a whole; parts beyond the whole are cut off."""
    if not whole or whole < 0:
        return None
    placed, start = list[PageBarPart](), 0.0
    for kind, number in parts:
        width = min(max(0.0, BOX * number / whole), BOX - start)
        if width > 0:
            placed.append(PageBarPart(kind=kind, start=round(start, 2), width=round(width, 2)))
        start += width
    return tuple(placed)


def format_moment(at: datetime, now: datetime) -> str:
    """Format a time in the zone of `now`; the date is left out on the same day."""
    local = at.astimezone(now.tzinfo)
    return f"{local:%H:%M}" if local.date() == now.date() else f"{local:%d %b %H:%M}"


def campaign_curve(
    campaign: PublishedCampaign, ends: Sequence[CampaignTaskEndCounts], now: datetime
) -> PageCurve | None:
    """Draw how many tasks had ended over time, and the forecast from now to P50; None without an ended task."""
    if not ends or not campaign.tasks or not campaign.state.is_alive:
        return None
    forecast = campaign.p50_at if campaign.p50_at and campaign.p50_at > now else None
    begin, end = campaign.submitted_at, max(filter(None, (now, forecast)))
    span = max(end - begin, timedelta(seconds=1))
    totals = accumulate(ended.tasks for ended in ends)
    counts = [(ended.at, total) for ended, total in zip(ends, totals, strict=True)]
    moments = [(begin, 0), *_thin_out(counts), (now, campaign.ended)]
    points = [_point((at - begin) / span, total / campaign.tasks) for at, total in moments]
    last = points[-1]
    return PageCurve(
        area=f"{_path(points)} L{last[0]:g} {BOX:g} Z",
        line=_path(points),
        forecast=_path([last, (BOX, 0.0)]) if forecast else "",
        begin=format_moment(begin, now),
        end=format_moment(end, now) if forecast else "now",
        meaning=f"{campaign.ended} of {number_with_noun(campaign.tasks, 'task')} ended since the submission",
    )


def node_charts(history: PublishedNodeHistory, now: datetime) -> tuple[PageChart, ...]:
    samples = tuple(sample for sample in history.samples if now - SAMPLES_KEPT < sample.begin <= now)
    if not samples:
        return ()
    nodes = [(sample.begin, sample.nodes) for sample in samples]
    waiting = [(sample.begin, sample.queued) for sample in samples]
    return _sample_chart("Nodes", "nodes", nodes, now), _sample_chart("Waiting tasks", "waiting", waiting, now)


def chart_days(now: datetime) -> tuple[PageDay, ...]:
    """Return the days of a chart that ends at `now`; the first and the last day may be cut."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return tuple(_chart_day(midnight - DAY * count, now) for count in reversed(range(SAMPLES_KEPT // DAY)))


def _chart_day(day: datetime, now: datetime) -> PageDay:
    start, end = (BOX * _share_of_days(at, now) for at in (day, min(day + DAY, now)))
    is_wide = end - start > LEAST_DAY_WIDTH
    return PageDay(
        start=round(start, 2),
        middle=round((start + end) / 2, 2),
        weekday=f"{day:%a}" if is_wide else "",
        date=f"{day:%d}" if is_wide else "",
    )


def _sample_chart(title: str, kind: str, values: Sequence[tuple[datetime, int]], now: datetime) -> PageChart:
    most = max(1, *(value for _, value in values))
    spans = [_span_steps(span, most, now) for span in _unbroken_spans(values)]
    latest = values[-1][1]
    return PageChart(
        title=title,
        kind=kind,
        areas=tuple(f"{_path(span)} L{span[-1][0]:g} {BOX:g} L{span[0][0]:g} {BOX:g} Z" for span in spans),
        lines=tuple(map(_path, spans)),
        most=most,
        now=latest,
        meaning=f"{title} in the last {SAMPLES_KEPT // DAY} days: at most {most}, last {latest}",
    )


def _unbroken_spans(values: Sequence[tuple[datetime, int]]) -> Iterator[list[tuple[datetime, int]]]:
    """Yield the spans of successive samples, because nothing is known between two spans."""
    span = list(values[:1])
    for before, value in pairwise(values):
        if value[0] - before[0] > SAMPLE_INTERVAL:
            yield span
            span = []
        span.append(value)
    yield span


def _span_steps(span: Sequence[tuple[datetime, int]], most: int, now: datetime) -> list[Point]:
    steps = list[Point]()
    for begin, value in span:
        for at in (begin, min(begin + SAMPLE_INTERVAL, now)):
            steps.append(_point(_share_of_days(at, now), value / most))
    return steps


def _share_of_days(at: datetime, now: datetime) -> float:
    return max(0.0, 1 - (now - at) / SAMPLES_KEPT)


def _thin_out(counts: Sequence[tuple[datetime, int]]) -> Sequence[tuple[datetime, int]]:
    return counts[:: 1 + len(counts) // CURVE_POINTS]


def _point(across: float, height: float) -> Point:
    limited = min(max(height, 0.0), 1.0)
    return round(BOX * min(max(across, 0.0), 1.0), 2), round(BOX * (1 - limited), 2)


def _path(points: Sequence[Point]) -> str:
    return "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
