"""Rows, charts and notices of the page, from tables of published values."""

from dataclasses import replace
from datetime import timedelta, timezone
from itertools import pairwise

import pytest

from gridbridge.decisions.site import page_cluster_and_transfer_rows
from gridbridge.decisions.site.page_campaign_and_event_rows import (
    MOST_CAMPAIGNS,
    MOST_ENDED,
    page_campaign_rows,
    page_event_rows,
)
from gridbridge.decisions.site.page_cluster_and_transfer_rows import page_cluster_rows, page_queue_rows
from gridbridge.decisions.site.site_page import make_site_page
from gridbridge.decisions.site.site_page_charts import bar_parts, campaign_curve, chart_days, format_moment, node_charts
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.published_campaigns_and_tasks import CampaignTaskEndCounts, PublishedClusterSlots
from gridbridge.model.elastic.published_balance import PublishedNodeHistory, PublishedNodeSample
from gridbridge.model.published_status_and_reports import PublishedClusterDrain
from gridbridge.model.rebalance.published_rebalance_rounds import PublishedStorageAreas
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea
from gridbridge.model.site.site_page_rows import PublishedSite, SitePage
from tests import measured
from tests.shown import NOW, ago, cluster, load, shown, transfer

BAG = measured.campaigns().campaigns[0]
EVENT = measured.events().events[0]
SLOTS = PublishedClusterSlots(
    name="gamma", kind="oar", answered_at=ago(7), slots=8, used=6, free=1, used_by_campaigns=4
)
BROKEN = cluster("beta", trouble="no answer", taken_at=ago(600), slots=8, used=2)
SILENT = replace(EVENT, code=CampaignEventCode.GET_JOBS, campaign=0)
GB = 10**9


def page(**values: object) -> SitePage:
    return make_site_page(PublishedSite(**({"status": shown()} | values)), NOW)  # type: ignore[arg-type]  # test words


@pytest.mark.parametrize(
    ("site", "name", "word", "slots", "why"),
    [
        (PublishedSite(status=shown()), "beta", "answers", "0 free slots", "answered 4 s ago"),
        (
            PublishedSite(status=shown(clusters={"beta": BROKEN})),
            *("beta", "silent", "last known: 2 of 8 slots used", "has not answered for 10 min: no answer"),
        ),
        (
            PublishedSite(status=shown(load=load(age_s=900))),
            *("beta", "unknown", "last known: 0 free slots", "last answered 4 s ago"),
        ),
        (
            PublishedSite(
                status=shown(drained={"delta": PublishedClusterDrain(by="root", at=ago(60), reason="new disks")})
            ),
            *("delta", "drained", "", "drained by root 60 s ago: new disks"),
        ),
        (
            PublishedSite(slots=(SLOTS,)),
            *("gamma", "answers", "6 of 8 slots used, 4 by campaigns", "answered the campaign runner 7 s ago"),
        ),
        (
            PublishedSite(slots=(replace(SLOTS, slots=None, used=None, used_by_campaigns=0),)),
            *("gamma", "not queried", "", "no campaign uses the cluster now"),
        ),
        (
            PublishedSite(slots=(SLOTS,), events=(SILENT,)),
            *("gamma", "silent", "last known: 6 of 8 slots used, 4 by campaigns"),
            "gives the campaign runner no answer",
        ),
    ],
    ids=["answers", "silent", "poller stands", "drained", "runner alone", "no campaign", "silent to the runner"],
)
def test_a_cluster_row_says_whether_its_numbers_are_new(
    site: PublishedSite, name: str, word: str, slots: str, why: str
) -> None:
    row = next(row for row in page_cluster_rows(site, NOW) if row.name == name)

    assert (row.badge.word, row.slots, row.why) == (word, slots, why)


def test_home_is_the_first_cluster() -> None:
    names = [row.name for row in page(slots=(replace(SLOTS, name="aaa"),)).clusters]

    assert names == ["alpha", "aaa", "beta"]


def test_a_closed_queue_says_why() -> None:
    site = PublishedSite(status=shown(load=load({"gb_beta_up": "1", "gb_beta_pending": "12", "gb_beta_free": "0"})))
    (row,) = page_queue_rows(site, NOW)

    assert (row.badge.word, row.why) == ("closed", "12 jobs wait at beta; the limit is 10")


def test_of_many_transfers_those_longest_in_their_state_are_listed() -> None:
    most = page_cluster_and_transfer_rows.MOST_TRANSFERS
    transfers = [transfer(transfer=f"gb.alpha.{number}.0.1", since=ago(number)) for number in range(1, most + 4)]
    made = page(status=shown(*transfers))

    assert [row.job for row in made.transfers] == [str(number) for number in range(most + 3, 3, -1)]
    assert (made.more_transfers, [count for _, count in made.transfer_counts]) == (3, [most + 3])


@pytest.mark.parametrize(
    ("campaign", "word", "tasks", "forecast"),
    [
        (BAG, "in treatment", "40 of 100 tasks ended, 3 failed, 9 running, 51 waiting", "no forecast of the end yet"),
        (
            replace(BAG, p50_at=NOW + timedelta(hours=3), p90_at=NOW + timedelta(hours=13)),
            *("in treatment", "40 of 100 tasks ended, 3 failed, 9 running, 51 waiting"),
            "ends in about 3 h 0 min: 15:00 (P50), 02 Mar 01:00 (P90)",
        ),
        (
            replace(BAG, p50_at=ago(60), p90_at=NOW + timedelta(minutes=5)),
            *("in treatment", "40 of 100 tasks ended, 3 failed, 9 running, 51 waiting"),
            "ends soon: 11:59 (P50), 12:05 (P90)",
        ),
        (
            replace(BAG, state=CampaignState.PAUSED, at=()),
            *("paused", "40 of 100 tasks ended, 3 failed, 60 waiting", ""),
        ),
        (
            replace(BAG, state=CampaignState.CANCELLED, ended=100, cancelled=57),
            *("cancelled", "100 of 100 tasks ended, 3 failed, 57 cancelled", ""),
        ),
    ],
    ids=["unknown end", "forecast", "late", "paused", "cancelled"],
)
def test_a_campaign_row_tells_progress_and_forecast(
    campaign: measured.PublishedCampaign, word: str, tasks: str, forecast: str
) -> None:
    (row,) = page_campaign_rows(PublishedSite(campaigns=(campaign,)), NOW)

    assert (row.badge.word, row.tasks, row.forecast) == (word, tasks, forecast)


def test_of_many_campaigns_the_newest_unfinished_are_listed_first() -> None:
    alive = [replace(BAG, number=number) for number in range(1, MOST_CAMPAIGNS + 3)]
    over = [replace(BAG, number=100 + number, state=CampaignState.TERMINATED) for number in range(MOST_ENDED + 1)]
    made = page(campaigns=(*alive, *over))

    numbers = [row.number for row in made.campaigns]
    assert numbers == [*range(MOST_CAMPAIGNS + 2, 2, -1), *range(100 + MOST_ENDED, 100, -1)]
    assert made.more_campaigns == 3


def test_only_open_events_are_listed_the_newest_first() -> None:
    newer = replace(EVENT, number=2, campaign=1, last_at=ago(1), until=NOW + timedelta(minutes=3))
    site = PublishedSite(campaigns=(BAG,), events=(EVENT, replace(EVENT, closed_at=ago(1)), newer))
    rows = page_event_rows(site, NOW)

    assert [(row.number, row.badge.word) for row in rows] == [(2, "retried in 3 min"), (0, "open")]
    assert (rows[0].subject, rows[0].since) == ("campaign 1 (bag)", "open for 5 min")


@pytest.mark.parametrize(
    ("area", "word", "room"),
    [
        (MeasuredStorageArea(storage="s", clusters=("b",), size_bytes=100 * GB, free_bytes=40 * GB), "usable", "40"),
        (MeasuredStorageArea(storage="s", clusters=("b",), size_bytes=100 * GB, free_bytes=9 * GB), "nearly full", "9"),
        (MeasuredStorageArea(storage="s", clusters=("b",), fault="no answer"), "unusable", "room unknown"),
        (MeasuredStorageArea(storage="s", clusters=(), size_bytes=10**18, is_store=True), "usable", "room known"),
        (MeasuredStorageArea(storage="d", clusters=("b",), size_bytes=GB, free_bytes=GB), "drained", "1.0 GB of"),
    ],
    ids=["usable", "nearly full", "unusable", "object store", "drained"],
)
def test_a_storage_area_says_whether_replicas_fit(area: MeasuredStorageArea, word: str, room: str) -> None:
    (row,) = page(areas=PublishedStorageAreas(at=ago(60), areas=(area,), drained=("d",))).areas

    assert row.badge.word == word
    assert row.room.startswith(room)
    assert (row.bar is None) == (word == "unusable" or area.is_store)


@pytest.mark.parametrize(
    ("values", "notice"),
    [
        ({"status": shown(load=load(age_s=900))}, "gridbridge-poller is silent for 15 min (the limit is 30 s)"),
        ({"campaigns": (BAG,), "cycle_at": ago(3600)}, "gridbridge-runner has published no cycle for 60 min"),
        ({"campaigns": (BAG,)}, "gridbridge-runner has published no cycle yet"),
        ({"balance": replace(measured.balance(), at=ago(3600))}, "gridbridge-balance has run no round for 60 min"),
        ({"balance": replace(measured.balance(), trouble="no qmaster")}, "the balancer could not read the cell alpha"),
        ({"troubles": ("/x: unreadable",)}, "/x: unreadable"),
        ({"late": ("a round is late",)}, "a round is late"),
    ],
)
def test_a_notice_says_what_is_old_or_wrong(values: dict[str, object], notice: str) -> None:
    assert [line[: len(notice)] for line in page(**values).notices] == [notice]


def test_a_good_site_has_no_notice_and_quiet_tiles() -> None:
    made = page(campaigns=(BAG,), cycle_at=ago(20), balance=measured.balance())

    assert made.notices == ()
    assert {tile.tone for tile in made.tiles} == {"quiet"}
    assert [(tile.title, tile.figure) for tile in made.tiles] == [
        *(("Clusters", "2"), ("Queues", "1"), ("Transfers", "0"), ("Campaigns", "1"), ("Nodes", "1"), ("Events", "0"))
    ]


@pytest.mark.parametrize(
    ("whole", "parts", "widths"),
    [(4, (1, 2), [(0, 25), (25, 50)]), (4, (0, 4), [(0, 100)]), (2, (3, 1), [(0, 100)]), (0, (1,), None), (3, (), [])],
)
def test_a_bar_never_exceeds_its_whole(
    whole: int, parts: tuple[int, ...], widths: list[tuple[float, float]] | None
) -> None:
    bar = bar_parts(whole, [("used", number) for number in parts])

    assert (bar if bar is None else [(part.start, part.width) for part in bar]) == widths


def test_a_campaign_curve_rises_to_now_and_its_forecast_ends_at_the_top_right() -> None:
    campaign = replace(BAG, submitted_at=ago(7200), p50_at=NOW + timedelta(hours=2))
    ends = [CampaignTaskEndCounts(at=ago(3600), cluster="beta", tasks=20, failed=0)]
    curve = campaign_curve(campaign, ends, NOW)

    assert curve
    assert (curve.line, curve.forecast) == ("M0 100 L25 80 L50 60", "M50 60 L100 0")
    assert (curve.begin, curve.end) == ("10:00", "14:00")


def sample(half_hours: int, nodes: int = 1, queued: int = 0) -> PublishedNodeSample:
    return PublishedNodeSample(begin=NOW - timedelta(minutes=30) * half_hours, hosts=5, nodes=nodes, queued=queued)


def test_a_node_chart_is_open_where_no_round_read_the_cell() -> None:
    history = PublishedNodeHistory(cluster="alpha", samples=(sample(336), sample(168, 4), sample(167, 2), sample(1, 3)))
    nodes, waiting = node_charts(history, NOW)

    assert nodes.lines == ("M50 0 L50.3 0 L50.3 50 L50.6 50", "M99.7 25 L100 25")
    assert (nodes.most, nodes.now, waiting.most) == (4, 3, 1)


@pytest.mark.parametrize(
    ("hours", "last", "moment"), [(0, "", "11:00"), (11, "01", "22:00"), (-12, "", "28 Feb 23:00")]
)
def test_days_and_times_are_those_of_the_given_zone(hours: int, last: str, moment: str) -> None:
    """A day of a few hours is too narrow for its name."""
    now = NOW.astimezone(timezone(timedelta(hours=hours)))
    days = chart_days(now)

    assert (len(days), days[-1].date) == (7, last)
    assert all(before.start < day.start for before, day in pairwise(days))
    assert format_moment(ago(3600), now) == moment
