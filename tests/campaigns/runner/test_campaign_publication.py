"""Everybody sees the state of each task, as the state file has it, whoever is killed when."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.campaigns.runner.campaign_publication import CampaignPublisher, EventAndCapacityPublisher
from gridbridge.campaigns.runner.cycle_results_and_forecasts import CampaignCompletionForecasts
from gridbridge.campaigns.runner.owner_requests import CampaignOwnerRequestHandler
from gridbridge.campaigns.store import published_campaign_files as files
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignStatisticsRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import new_campaign_event
from gridbridge.model.campaigns import campaign_cycle_plan
from gridbridge.model.campaigns.campaign import CampaignArray, CampaignState, TaskAttempt, WaitingTaskRange
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome as Outcome
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject, CampaignSuccessAtCluster
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequest, CampaignOwnerRequestVerb
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    PublishedCampaignTask,
    ShownCampaignClusters,
    ShownCampaigns,
    TaskPreemption,
)
from gridbridge.model.campaigns.send_reasons import ShownTaskSendExplanations
from gridbridge.model.cluster_snapshot import ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.site.site_section import SiteSection as SiteSection
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.shell.clock import Clock
from gridbridge.state import campaign_tables
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import NOON, made_campaign

SWEEP = made_campaign(tasks=2500)


def test_tasks_are_shown_however_often_they_made_way(tmp_path: Path) -> None:
    """A task may a thousand times: what is published of a thousand tasks has no usual size."""
    ways = [TaskPreemption(attempt=n, cluster="beta", job=123456, lacked=("slots",)) for n in range(60)]
    one = PublishedCampaignTask(number=0, attempt=60, outcome=Outcome.PREEMPTED, made_way=tuple(ways))
    tasks = [replace(one, number=number) for number in range(1000)]
    (tmp_path / "campaigns").mkdir()

    files.publish_campaign_task_file(1, 0, tasks, str(tmp_path))

    assert len(files.read_published_task_file(1, 0, str(tmp_path))[999].made_way) == 60


class Site:
    """A state file, and what is published from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = f"{folder}/published"
        Path(self.folder).mkdir()
        self.database = StateFile.open(f"sqlite:///{folder}/state.db")
        self.campaigns = CampaignRows(self.database)
        self.publication = self.started()

    def started(self) -> CampaignPublisher:
        """Return the publication of a process that has just begun."""
        clock = Clock()
        forecasts = CampaignCompletionForecasts(self.campaigns, CampaignStatisticsRows(self.database), clock, 15)
        return CampaignPublisher(self.database, self.campaigns, forecasts, clock, self.folder)

    def send(self, tasks: int) -> tuple[CampaignArray, tuple[TaskAttempt, ...]]:
        """Send tasks of campaign 1 to beta."""
        array = self.campaigns.create_array(1, "beta", tasks, NOON)
        return array, self.campaigns.unfinished_attempts(array)

    def ended(self, attempt: TaskAttempt, outcome: Outcome) -> TaskAttempt:
        """Note how an attempt ended."""
        known = replace(attempt, outcome=outcome, exit_status=3, wallclock_s=7)
        self.campaigns.record_attempt_ends([known])
        return known

    def shown(self, part: int = 0) -> dict[int, str]:
        """Return the words of the tasks of a part."""
        return {n: one.word for n, one in files.read_published_task_file(1, part, self.folder).items()}


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    site.campaigns.insert_campaign(SWEEP, "token")
    yield site
    site.database.close()


def test_each_task_is_shown_by_its_last_attempt(site: Site) -> None:
    """One that waits for its next attempt waits; the numbers are those of the cluster."""
    _, (first, second, third) = site.send(3)
    failed = site.ended(first, Outcome.PROGRAM_ERROR)
    again = site.ended(second, Outcome.PREEMPTED)
    site.campaigns.add_unsent_tasks(1, WaitingTaskRange(first=1, last=1, attempt=2))

    site.publication.mark_campaigns_before_change([1])
    site.publication.publish_changed_tasks([failed, again, third])

    assert site.shown() == {0: "program_error", 1: "waiting", 2: "sent"}
    known = PublishedCampaignTask(number=0, attempt=1, outcome=Outcome.PROGRAM_ERROR, is_waiting=False)
    there = replace(known, cluster="beta", place=1, exit_status=3, wallclock_s=7)
    assert files.read_published_task_file(1, 0, site.folder)[0] == there
    (end,) = files.read_published_task_end_counts(1, site.folder)
    assert (end.cluster, end.tasks, end.failed) == ("beta", 1, 1)
    assert (end.timed, end.wallclock_s) == (1, 7)


def test_only_the_parts_that_a_cycle_touched_are_replaced(site: Site) -> None:
    """A million tasks are not written anew for each that ends."""
    _, attempts = site.send(2100)
    site.publication.publish_changed_tasks(attempts)
    before = Path(site.folder, "campaigns/1/tasks.0").stat().st_ino
    last = site.ended(attempts[2099], Outcome.SUCCESS)

    site.publication.publish_changed_tasks([last])

    assert site.shown(2)[2099] == "success"
    assert len(site.shown(1)) == 1000
    assert Path(site.folder, "campaigns/1/tasks.0").stat().st_ino == before


def test_what_a_killed_cycle_touched_is_shown_by_the_next(site: Site) -> None:
    """The campaigns that it was at are noted before anything changes."""
    _, attempts = site.send(2)
    site.publication.mark_campaigns_before_change([1])
    site.ended(attempts[0], Outcome.SUCCESS)

    next_one = site.started()
    next_one.mark_campaigns_before_change([])
    next_one.publish_changed_tasks([])

    assert site.shown() == {0: "success", 1: "sent"}
    assert files.campaigns_half_published(site.folder) == frozenset()
    assert [(one.tasks, one.failed) for one in files.read_published_task_end_counts(1, site.folder)] == [(1, 0)]


def test_ends_that_a_killed_cycle_had_noted_count_once(site: Site) -> None:
    """A cycle may be killed after it noted ends, or before: the sums are right either way."""
    _, attempts = site.send(3)
    site.publication.mark_campaigns_before_change([1])
    site.publication.publish_changed_tasks([site.ended(attempts[0], Outcome.SUCCESS)])
    site.publication.mark_campaigns_before_change([1])
    failed = site.ended(attempts[1], Outcome.PROGRAM_ERROR)

    next_one = site.started()
    next_one.mark_campaigns_before_change([1])
    next_one.publish_changed_tasks([failed])

    ends = files.read_published_task_end_counts(1, site.folder)
    assert (sum(one.tasks for one in ends), sum(one.failed for one in ends)) == (2, 1)
    assert sum(one.wallclock_s for one in ends) == 14


@pytest.mark.parametrize("is_restarted", [False, True], ids=["at once", "by a new one"])
def test_what_somebody_removed_is_shown_again(site: Site, is_restarted: bool) -> None:
    """Of a campaign that has ended, too: no task of it is touched any more."""
    _, attempts = site.send(2)
    last = site.ended(attempts[0], Outcome.SUCCESS)
    site.publication.mark_campaigns_before_change([1])
    site.publication.publish_changed_tasks([last])
    site.publication.mark_campaigns_before_change([])
    site.publication.publish_changed_tasks([])
    shutil.rmtree(Path(site.folder, "campaigns"))

    next_one = site.started() if is_restarted else site.publication
    next_one.mark_campaigns_before_change([])
    next_one.publish_changed_tasks([])

    assert site.shown() == {0: "success", 1: "sent"}


def test_a_campaign_that_is_begun_twice_was_not_killed(site: Site) -> None:
    """What was touched is shown, not all of it."""
    _, attempts = site.send(1100)
    site.publication.publish_changed_tasks(attempts)
    before = Path(site.folder, "campaigns/1/tasks.0").stat().st_ino

    site.publication.mark_campaigns_before_change([1])
    site.publication.mark_campaigns_before_change([1])
    site.publication.publish_changed_tasks([site.ended(attempts[1099], Outcome.SUCCESS)])

    assert site.shown(1)[1099] == "success"
    assert Path(site.folder, "campaigns/1/tasks.0").stat().st_ino == before


def test_tasks_that_wait_again_are_shown_so_though_the_request_was_cut_off(site: Site) -> None:
    """The process that was killed knew which ones they were, and the next one does not."""
    _, attempts = site.send(2)
    site.publication.publish_changed_tasks([site.ended(one, Outcome.PROGRAM_ERROR) for one in attempts])
    events = EventAndSuccessRecordRows(site.database)
    failed = new_campaign_event(CampaignEventSubject.TASK, CampaignEventCode.EXIT_ERROR, 1, "beta", NOON)
    events.store_events([replace(failed, exit_status=3, tasks=2)])
    asked = CampaignOwnerRequest(token="t", uid=1000, verb=CampaignOwnerRequestVerb.RESUBMIT, numbers=(1,))
    CampaignOwnerRequestHandler(
        site.database, Clock(), site.folder, begin=site.publication.mark_campaigns_before_change
    ).execute_request(asked)

    next_one = site.started()
    next_one.mark_campaigns_before_change([])
    next_one.publish_changed_tasks([])

    assert site.shown() == {0: "waiting", 1: "waiting"}


def test_a_sink_is_shown_until_its_owner_trusts_it(site: Site) -> None:
    """Whatever has closed its event."""
    events = EventAndSuccessRecordRows(site.database)
    sink = new_campaign_event(CampaignEventSubject.CAMPAIGN, CampaignEventCode.SINK, 1, "beta", NOON)
    shown = []

    for record in ((), (CampaignSuccessAtCluster(campaign=1, cluster="beta", is_trusted=True),)):
        events.store_events([replace(sink, closed_at=NOON)])
        events.store_success_records(record)
        site.publication.publish_campaigns([])
        whole = files.read_campaign_value_by_class(ShownCampaigns, site.folder)
        shown.append(whole.campaigns[0].sinks)

    assert shown == [("beta",), ()]


def test_a_cycle_shows_which_clusters_are_under_stress(site: Site) -> None:
    """`gridsub --check` tells of them."""
    room = {
        "beta": campaign_cycle_plan.ClusterCapacityForCampaigns(free_slots=1, is_stressed=True),
        "gamma": campaign_cycle_plan.ClusterCapacityForCampaigns(free_slots=2),
    }
    seen = campaign_cycle_plan.CampaignCycleSituation(campaigns=(), waiting={}, arrays=(), room=room, max_tasks=1)

    site.publication.publish_send_explanations(seen, campaign_cycle_plan.CampaignCyclePlan())

    shown = files.read_campaign_value_by_class(ShownTaskSendExplanations, site.folder)
    assert (shown.stressed, shown.free_slots) == (("beta",), {"beta": 1, "gamma": 2})


def test_slots_of_tasks_that_run_are_shown_by_cluster(site: Site) -> None:
    """Where a cluster does not tell how many slots each has, so many as were asked for."""
    (one,) = site.campaigns.all_campaigns()
    known = campaign_cycle_plan.ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=2, listed=6, slots=2.5)
    untold = campaign_cycle_plan.ListedCampaignTaskCounts(campaign=one.number, cluster="beta", waiting=0, listed=3)
    seen = campaign_cycle_plan.CampaignCycleSituation(
        campaigns=(one,), waiting={}, arrays=(), room={}, max_tasks=1, there=(known, untold)
    )
    policy = Policy(site=SiteSection(cluster="alpha"), clusters={"beta": ClusterSection()}, queues={})

    EventAndCapacityPublisher(policy, site.database, Clock(), site.folder).publish_cluster_slots(seen)

    shown = files.read_campaign_value_by_class(ShownCampaignClusters, site.folder)
    (beta,) = (cluster for cluster in shown.clusters if cluster.name == "beta")
    assert (beta.running, beta.used_by_campaigns) == (7, 13)


def test_a_cluster_of_no_campaign_is_shown_as_others_saw_it(site: Site) -> None:
    """The poller asks it for transfers; of one that nobody asks nothing is known."""
    queue = QueueInstanceStatus(name="all.q@n1", slots_used=1, slots_reserved=0, slots_total=4)
    beta = ClusterSnapshot(cluster="beta", taken_at=NOON, queues=(queue,), jobs={}, pending=0, free_slots=3)
    clusters = {"beta": ClusterSection(), "gamma": ClusterSection()}
    policy = Policy(site=SiteSection(cluster="alpha"), clusters=clusters, queues={})
    seen = campaign_cycle_plan.CampaignCycleSituation(campaigns=(), waiting={}, arrays=(), room={}, max_tasks=1)

    EventAndCapacityPublisher(policy, site.database, Clock(), site.folder).publish_cluster_slots(seen, {"beta": beta})

    shown = files.read_campaign_value_by_class(ShownCampaignClusters, site.folder)
    assert [(one.name, one.free_for_normal, one.slots) for one in shown.clusters] == [
        ("beta", 3, 4),
        ("gamma", None, None),
    ]
    assert [one.answered_at for one in shown.clusters] == [NOON, None]


def test_no_parameter_is_shown(site: Site) -> None:
    """Nor what is run."""
    site.publication.publish_changed_tasks(site.send(2)[1])
    site.publication.publish_campaigns([])

    texts = [path.read_text() for path in Path(site.folder).rglob("*") if path.is_file()]
    assert files.read_campaign_value_by_class(ShownCampaigns, site.folder)
    assert not any(re.search(r"\brun\b", text) for text in texts)


def test_everybody_can_read_it_whatever_the_umask_of_the_service_is(site: Site) -> None:
    """It is people's commands that read."""
    before = os.umask(0o077)
    try:
        site.publication.mark_campaigns_before_change([1])
        site.publication.publish_changed_tasks([site.ended(site.send(1)[1][0], Outcome.SUCCESS)])
    finally:
        os.umask(before)

    places = Path(site.folder, "campaigns").rglob("*")
    assert {path.name: path.stat().st_mode & 0o777 for path in places} == {"1": 0o755, "tasks.0": 0o644, "ends": 0o644}


def test_what_is_tried_again_is_taken_back(site: Site) -> None:
    """The picture counts each task once, when it has ended for good (gridevents -r)."""
    _, attempts = site.send(3)
    outcomes = (Outcome.PROGRAM_ERROR, Outcome.PROGRAM_ERROR, Outcome.SUCCESS)
    site.publication.publish_changed_tasks(map(site.ended, attempts, outcomes))
    site.campaigns.add_to_task_counts(1, 3, 2)
    event = new_campaign_event(CampaignEventSubject.TASK, CampaignEventCode.EXIT_ERROR, 1, "beta", NOON)
    EventAndSuccessRecordRows(site.database).store_events([replace(event, exit_status=3, tasks=2)])
    requests = CampaignOwnerRequestHandler(site.database, Clock(), folder=site.folder, published=site.folder)
    requests.execute_request(
        CampaignOwnerRequest(token="t", uid=1000, verb=CampaignOwnerRequestVerb.RESUBMIT, numbers=(1,))
    )

    site.publication.publish_changed_tasks(requests.take_changed_attempts(), are_asked=True)

    counts = [(one.cluster, one.tasks, one.failed) for one in files.read_published_task_end_counts(1, site.folder)]
    assert counts == [("beta", 3, 2), ("beta", -2, -2)]
    array = site.campaigns.insert_array(1, "beta", [(0, 2), (1, 2)], NOON)
    again = site.campaigns.unfinished_attempts(array)
    site.campaigns.drop_unsent_tasks(1)
    site.publication.publish_changed_tasks(map(site.ended, again, (Outcome.SUCCESS, Outcome.PROGRAM_ERROR)))
    ends = files.read_published_task_end_counts(1, site.folder)
    assert (sum(one.tasks for one in ends), sum(one.failed for one in ends)) == (3, 1)


def test_half_a_line_of_ends_is_skipped(site: Site) -> None:
    """Power may go while it is written."""
    site.publication.publish_changed_tasks([site.ended(site.send(1)[1][0], Outcome.SUCCESS)])
    with Path(site.folder, "campaigns/1/ends").open("a") as file:
        file.write("17672")

    assert len(files.read_published_task_end_counts(1, site.folder)) == 1


def test_the_jdl_of_a_campaign_is_read_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that ever were are shown in each cycle."""
    read: list[object] = []
    decode = campaign_tables.jdl_from_json

    def noted(kept: Mapping[str, object]) -> Jdl:
        read.append(kept)
        return decode(kept)

    monkeypatch.setattr(campaign_tables, "jdl_from_json", noted)
    site.publication.publish_campaigns(())
    site.campaigns.insert_campaign(replace(SWEEP, jdl=Jdl(name="later", clusters=SWEEP.jdl.clusters)), "t")
    site.campaigns.set_campaign_state(1, CampaignState.PAUSED)
    site.publication.publish_campaigns(())

    shown = files.read_campaign_value_by_class(ShownCampaigns, site.folder)
    names = [(one.name, one.state, one.clusters) for one in shown.campaigns]
    paused, going = CampaignState.PAUSED, CampaignState.IN_TREATMENT
    assert names == [("sweep", paused, ("beta",)), ("later", going, ("beta",))]
    assert len(read) == 2


@pytest.mark.parametrize(
    ("state", "outcome", "failed", "cancelled"),
    [
        (CampaignState.CANCELLED, Outcome.CANCELLED, 0, 1),
        (CampaignState.IN_TREATMENT, Outcome.UNWANTED, 0, 1),
        (CampaignState.IN_TREATMENT, Outcome.CANCELLED, 1, 0),
        (CampaignState.CANCELLED, Outcome.PROGRAM_ERROR, 1, 0),
    ],
    ids=("with its campaign", "alone", "deleted at its cluster", "failed before"),
)
def test_what_its_owner_cancelled_has_not_failed(
    site: Site, state: CampaignState, outcome: Outcome, failed: int, cancelled: int
) -> None:
    """A task that somebody deleted at its cluster has; both counts are the same when corrected."""
    _, (attempt,) = site.send(1)
    site.campaigns.set_campaign_state(1, state, NOON)
    site.publication.publish_changed_tasks([site.ended(attempt, outcome)])
    site.started().mark_campaigns_before_change([1])  # and is killed
    site.started().mark_campaigns_before_change([1])
    recovered = site.started()
    recovered.mark_campaigns_before_change([1])
    recovered.publish_changed_tasks([])

    (end,) = files.read_published_task_end_counts(1, site.folder)
    assert (end.tasks, end.failed, end.cancelled) == (1, failed, cancelled)
    assert (end.timed, end.wallclock_s) == ((0, 0) if cancelled else (1, 7))
