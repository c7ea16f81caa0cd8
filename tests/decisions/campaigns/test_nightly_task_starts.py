"""Tasks of type `nightly` run within nights in local time, also when the clocks change."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.nightly_task_starts import list_next_nights, next_night_for_task
from gridbridge.decisions.campaigns.task_send_explanation import explain_campaign_task_sends
from gridbridge.model.campaigns.campaign import ArraySubmissionState
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, ClusterCapacityForCampaigns
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.nights import Night, are_weekly_nights, parse_weekly_nights
from gridbridge.model.campaigns.send_reasons import TaskSentOrUnsentCause
from tests.builders.campaigns import NOON, released_array
from tests.decisions.campaigns.campaign_builder import make_campaign, make_cycle_situation, sent_tasks

PARIS, LORD_HOWE = ZoneInfo("Europe/Paris"), ZoneInfo("Australia/Lord_Howe")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("nights", "zone", "now", "begins", "ends"),
    [
        ("20:00-06:00", PARIS, "03-28 12:00", "03-28 19:00", "03-29 04:00"),
        ("20:00-06:00", PARIS, "10-24 12:00", "10-24 18:00", "10-25 05:00"),
        ("20:00-06:00", PARIS, "10-25 04:59", "10-24 18:00", "10-25 05:00"),
        ("20:00-06:00", PARIS, "10-25 05:00", "10-25 19:00", "10-26 05:00"),
        ("2:30-4:00", PARIS, "03-29 00:00", "03-29 01:30", "03-29 02:00"),
        ("22:00-02:30", PARIS, "03-29 00:00", "03-28 21:00", "03-29 01:30"),
        ("2:30-4:00", PARIS, "10-25 00:00", "10-25 00:30", "10-25 03:00"),
        ("1:00-2:30", PARIS, "10-25 00:00", "10-24 23:00", "10-25 01:30"),
        ("20:00-06:00", LORD_HOWE, "04-04 10:00", "04-04 09:00", "04-04 19:30"),
        ("20:00-06:00", LORD_HOWE, "10-03 10:00", "10-03 09:30", "10-03 19:00"),
        ("20:00-06:00", UTC, "03-28 23:00", "03-28 20:00", "03-29 06:00"),
        ("Mon-Fri 20:00-06:00", UTC, "06-06 07:00", "06-08 20:00", "06-09 06:00"),
        ("Sat 0:00-24:00", UTC, "06-07 00:00", "06-13 00:00", "06-14 00:00"),
        ("Sun-Mon 22:00-23:00", UTC, "06-07 23:00", "06-08 22:00", "06-08 23:00"),
        ("20:00-06:00, Sat-Sun 06:00-20:00", UTC, "06-05 21:00", "06-05 20:00", "06-08 06:00"),
    ],
    ids=[
        "a night of nine hours in spring",
        "a night of eleven hours in autumn",
        "the last minute",
        "the next night",
        "the begin is skipped",
        "the end is skipped",
        "the begin occurs twice",
        "the end occurs twice",
        "a change of half an hour",
        "a change of half an hour in spring",
        "UTC",
        "week days",
        "a whole day",
        "days over the end of the week",
        "touching nights are a single night",
    ],
)
def test_a_night_begins_and_ends_in_local_time(nights: str, zone: ZoneInfo, now: str, begins: str, ends: str) -> None:
    first = list_next_nights(parse_weekly_nights(nights), zone, utc(now))[0]

    assert (first.begins_at, first.ends_at) == (utc(begins), utc(ends))


@given(st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)), st.integers(0, 1439), st.integers(1, 1439))
def test_nights_are_in_order_and_not_over(now: datetime, begin_min: int, length_min: int) -> None:
    end_min = (begin_min + length_min) % 1440
    text = f"{begin_min // 60}:{begin_min % 60:02}-{end_min // 60}:{end_min % 60:02}"
    nights = list_next_nights(parse_weekly_nights(text), PARIS, now := now.replace(tzinfo=UTC))

    assert len(nights) >= 7
    assert all(night.begins_at < night.ends_at and night.ends_at > now for night in nights)
    assert all(left.ends_at < right.begins_at for left, right in pairwise(nights))
    lengths = [(night.ends_at - night.begins_at).total_seconds() / 60 for night in nights if night.begins_at > now]
    assert all(abs(length - length_min) <= 60 for length in lengths)


@pytest.mark.parametrize(
    "text",
    ["", "20:00", "20-06", "20:00-20:00", "24:00-06:00", "Sat 25:00-26:00", "Sam 1:00-2:00", "1:00-2:00,3:00-4:00"],
)
def test_other_texts_are_no_nights(text: str) -> None:
    assert not are_weekly_nights(text)


NIGHTS = tuple(
    Night(begins_at=NOON + timedelta(hours=begin), ends_at=NOON + timedelta(hours=end))
    for begin, end in ((-1, 2), (10, 20), (34, 40))
)


@pytest.mark.parametrize(
    ("walltime_h", "hours"),
    [(1, (-1, 1)), (2, (-1, 0)), (3, (10, 17)), (10, (10, 10)), (11, None)],
    ids=["now", "just", "the next night", "a whole night", "too long"],
)
def test_a_task_starts_only_if_its_walltime_ends_in_the_night(walltime_h: int, hours: tuple[int, int] | None) -> None:
    start = next_night_for_task(NIGHTS, walltime_h * 3600, NOON)

    assert (start and tuple((at - NOON) / timedelta(hours=1) for at in (start.begins_at, start.ends_at))) == hours


def situation(walltime_h: int, *, is_nightly: bool = True) -> CampaignCycleSituation:
    request = JdlSettingsAtCluster(exec_file="run", walltime_s=walltime_h * 3600, is_nightly=is_nightly)
    return make_cycle_situation(
        campaigns=(make_campaign(jdl=Jdl(name="sweep", clusters={"beta": request})),),
        waiting={1: 5},
        room={"beta": ClusterCapacityForCampaigns(free_slots=4, max_slots=9)},
        nights={"beta": NIGHTS},
    )


@pytest.mark.parametrize(
    ("walltime_h", "is_nightly", "sent", "cause", "starts_h"),
    [
        (1, True, 4, TaskSentOrUnsentCause.SENT, None),
        (3, True, 0, TaskSentOrUnsentCause.NIGHT, 10),
        (11, True, 0, TaskSentOrUnsentCause.NIGHT, None),
        (11, False, 4, TaskSentOrUnsentCause.SENT, None),
    ],
)
def test_nightly_tasks_are_sent_at_night_and_the_next_night_is_explained(
    walltime_h: int, is_nightly: bool, sent: int, cause: TaskSentOrUnsentCause, starts_h: int | None
) -> None:
    seen = situation(walltime_h, is_nightly=is_nightly)
    (explanation,) = explain_campaign_task_sends(seen, plan_campaign_cycle(seen))

    assert sent_tasks(seen).get((1, "beta"), 0) == sent
    assert (explanation.cause, explanation.starts_from) == (cause, starts_h and NOON + timedelta(hours=starts_h))


@pytest.mark.parametrize(
    ("walltime_h", "is_nightly", "is_open", "events"),
    [
        (11, True, False, [CampaignEventCode.NO_CLUSTER]),
        (11, True, True, []),
        (10, True, False, []),
        (11, False, False, []),
    ],
    ids=["too long for each night", "another cluster", "as long as a night", "by day"],
)
def test_a_walltime_longer_than_each_night_leaves_no_cluster(
    walltime_h: int, is_nightly: bool, is_open: bool, events: list[CampaignEventCode]
) -> None:
    seen = situation(walltime_h, is_nightly=is_nightly)
    by_day = {"gamma": JdlSettingsAtCluster(exec_file="run")} if is_open else {}
    campaign = make_campaign(jdl=Jdl(name="sweep", clusters={**seen.campaigns[0].jdl.clusters, **by_day}))
    plan = plan_campaign_cycle(replace(seen, campaigns=(campaign,)))

    assert [event.code for event in plan.changes.events] == events


def test_an_array_that_is_not_submitted_by_the_end_of_the_night_waits() -> None:
    intended = replace(released_array(size=2), state=ArraySubmissionState.INTENDED, job_id=0)
    held = replace(intended, number=2, state=ArraySubmissionState.SUBMITTED)
    seen = replace(situation(3), arrays=(intended, held))

    assert plan_campaign_cycle(seen).resumed == (held,)
    assert plan_campaign_cycle(replace(seen, at=NOON + timedelta(hours=11))).resumed == (intended, held)
