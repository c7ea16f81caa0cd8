"""Tables of gridbridge top: rows, selection, order, and columns that fit."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gridbridge.decisions.site.site_picture_rows import (
    COLUMNS,
    choose_and_sort_rows,
    column_widths,
    describe_clusters,
    describe_picture_age,
    find_row_with_text,
    keep_last_good_picture,
    rows_of_table,
)
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.published_campaigns_and_tasks import CampaignProgressAtCluster, PublishedClusterSlots
from gridbridge.model.published_status_and_reports import (
    PublishedClusterDrain,
    SiteStatusReport,
    TransferAndAwaitedEvent,
)
from gridbridge.model.site.site_picture import LastGoodPicture, PictureChoice, PictureTable, SitePicture
from tests.campaigns.cli.published_builder import make_shown_campaign
from tests.shown import NOW, ago, cluster, shown, transfer

JOBS, CAMPAIGNS, CLUSTERS = PictureTable.JOBS, PictureTable.CAMPAIGNS, PictureTable.CLUSTERS
JOB_12 = transfer(name="fit", since=ago(60))
JOB_9 = transfer(transfer="gb.alpha.9.2.1", owner="bob", name="Render", remote="gamma", remote_state="qw", since=None)
JOB_9_10 = transfer(transfer="gb.alpha.9.10.1", owner="anna", name="fit", remote_state="Eqw", since=ago(5))
PARTS = (CampaignProgressAtCluster(cluster="beta", running=1, waiting=2),)
SWEEP = make_shown_campaign(tasks=8, ended=2, failed=1, at=PARTS, p50_at=NOW + timedelta(hours=3))
DOCK = make_shown_campaign(
    number=12, name="dock", owner="bob", state=CampaignState.TERMINATED, ended=2, clusters=("gamma",)
)


def picture(**values: Any) -> SitePicture:
    jobs = {"12": JOB_12, "9.2": JOB_9, "9.10": JOB_9_10}
    reports = tuple(TransferAndAwaitedEvent(job=job, transfer=one, waits_for="its end") for job, one in jobs.items())
    usual = SitePicture(read_at=NOW, status=SiteStatusReport(alarm="", transfers=reports), campaigns=(SWEEP, DOCK))
    return replace(usual, **values)


def first_cells(table: PictureTable, **choice: Any) -> list[str]:
    rows = rows_of_table(table, picture(), NOW)
    return [row.cells[0] for row in choose_and_sort_rows(table, rows, PictureChoice(**choice))]


@pytest.mark.parametrize(
    ("table", "choice", "shown_rows"),
    [
        (JOBS, {}, ["9.2", "9.10", "12"]),
        (JOBS, {"is_reversed": True}, ["12", "9.10", "9.2"]),
        (JOBS, {"sort_titles": {JOBS: "SINCE"}}, ["9.10", "12", "9.2"]),
        (JOBS, {"sort_titles": {JOBS: "SINCE"}, "is_reversed": True}, ["12", "9.10", "9.2"]),
        (JOBS, {"sort_titles": {JOBS: "NAME"}}, ["12", "9.10", "9.2"]),
        (JOBS, {"user": "bob"}, ["9.2"]),
        (JOBS, {"user": "a*"}, ["9.10", "12"]),
        (JOBS, {"user": "nobody"}, []),
        (JOBS, {"cluster": "gamma"}, ["9.2"]),
        (JOBS, {"text": "RENDER"}, ["9.2"]),
        (JOBS, {"campaign": 7}, ["9.2", "9.10", "12"]),
        (CAMPAIGNS, {}, ["7", "12"]),
        (CAMPAIGNS, {"campaign": 12}, ["12"]),
        (CAMPAIGNS, {"user": "alice", "cluster": "gamma"}, ["7"]),
        (CAMPAIGNS, {"sort_titles": {CAMPAIGNS: "PROGRESS"}, "is_reversed": True}, ["12", "7"]),
        (CAMPAIGNS, {"sort_titles": {CAMPAIGNS: "ENDS IN"}, "is_reversed": True}, ["7", "12"]),
        (CAMPAIGNS, {"has_parts": True, "campaign": 7}, ["7", "", ""]),
    ],
)
def test_rows_are_chosen_and_sorted(table: PictureTable, choice: dict[str, Any], shown_rows: list[str]) -> None:
    """Numbers sort as numbers, unknown values come last in both orders, and a campaign selects no jobs."""
    assert first_cells(table, **choice) == shown_rows


def test_the_cells_of_jobs_and_campaigns() -> None:
    jobs, campaigns = (rows_of_table(table, picture(), NOW) for table in (JOBS, CAMPAIGNS))

    assert jobs[0].cells == ("12", "fit", "alice", "beta", "r", "60 s", "r", "34", "beta-n1", "its end")
    assert [row.mood for row in jobs] == ["ok", "note", "broken"]
    state, bar, *counts = campaigns[0].cells[3:]
    assert (state, bar) == ("running", "██░░░░░░░░  25%")
    assert counts == ["2/8", "1", "5", "1", "3 h 0 min", "0", "beta,gamma"]
    assert [part.cells[1:9] for part in campaigns[0].parts] == [
        ("└ beta", "", "", "", "-", "1", "2", "-"),
        ("└ gamma", "", "", "", "-", "0", "0", "-"),
    ]


def test_a_cluster_has_the_slots_of_the_poller_or_the_runner_and_one_reason() -> None:
    drain = PublishedClusterDrain(by="root", at=ago(60), reason="new disks")
    silent = cluster("beta", trouble="no route", slots=8, used=3, free_slots=5)
    published = shown(JOB_12, clusters={"beta": silent}, drained={"beta": drain})
    run = PublishedClusterSlots(name="gamma", kind="oar", answered_at=NOW, slots=4, used=1, free=3, running=1)

    rows = rows_of_table(CLUSTERS, picture(clusters=describe_clusters(published, [run], NOW)), NOW)

    assert [row.cells for row in rows] == [
        ("beta", "no", "8", "3", "5", "2", "1", "0", "0", "drained by root 60 s ago: new disks"),
        ("gamma", "yes", "4", "1", "3", "-", "0", "1", "0", ""),
    ]


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (200, [column.title for column in COLUMNS[JOBS]]),
        (64, ["JOB", "NAME", "USER", "CLUSTER", "THERE", "SINCE", "WAITS FOR"]),
        (40, ["JOB", "NAME", "USER", "CLUSTER", "THERE"]),
        (10, ["JOB"]),
        (1, ["JOB"]),
    ],
)
def test_a_narrow_screen_leaves_out_the_least_important_columns(width: int, titles: list[str]) -> None:
    rows = rows_of_table(JOBS, picture(), NOW)

    widths = column_widths(COLUMNS[JOBS], rows, width)
    assert [COLUMNS[JOBS][n].title for n in widths] == titles
    assert sum(widths.values()) + 2 * len(widths) <= max(width, 8)


def test_a_search_goes_on_at_the_top() -> None:
    rows = choose_and_sort_rows(JOBS, rows_of_table(JOBS, picture(), NOW), PictureChoice())

    assert [find_row_with_text(rows, "FIT", start) for start in (0, 2, 3)] == [1, 2, 1]
    assert find_row_with_text(rows, "none", 0) is None


def test_the_last_picture_stays_when_the_published_files_are_gone() -> None:
    good = LastGoodPicture(picture=picture(published_at=ago(5)))
    lost = keep_last_good_picture(good, picture(campaigns=()))
    again = keep_last_good_picture(lost, picture(published_at=NOW))

    assert (lost.picture, again.trouble) == (good.picture, "")
    assert describe_picture_age(good, NOW) == "published 5 s ago"
    assert describe_picture_age(lost, NOW) == "last picture, published 5 s ago"
    assert describe_picture_age(LastGoodPicture(trouble="no folder"), NOW) == "nothing published yet"
