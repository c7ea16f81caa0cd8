"""The published state of each task agrees with the state file, even after a kill."""

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.campaigns.runner.campaign_completion_forecasts import CampaignCompletionForecasts
from gridbridge.campaigns.runner.campaign_publication import CampaignPublisher, EventAndCapacityPublisher
from gridbridge.campaigns.runner.owner_requests import CampaignOwnerRequestHandler
from gridbridge.campaigns.store import published_campaign_files as files
from gridbridge.campaigns.store.campaign_statistics_rows import InputCarryRows
from gridbridge.model.campaigns import campaign_cycle_plan
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttempt, WaitingTaskRange
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome as Outcome
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject, CampaignSuccessAtCluster
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequest, CampaignOwnerRequestVerb
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    PublishedCampaignList,
    PublishedCampaignTask,
    PublishedClusterSlotsList,
    TaskPreemption,
)
from gridbridge.model.campaigns.send_reasons import PublishedTaskSendExplanations
from gridbridge.model.cluster_snapshot import QueueInstanceStatus
from gridbridge.shell.clock import Clock
from gridbridge.state import campaign_tables
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import NOON, made_campaign, made_policy, made_situation, made_snapshot, site_fixture

SWEEP = made_campaign(tasks=2500)
RETRY = CampaignOwnerRequest(token="t", uid=1000, verb=CampaignOwnerRequestVerb.RESUBMIT, numbers=(1,))


def test_a_task_file_with_many_preemptions_is_published(tmp_path: Path) -> None:
    """A task may be preempted a thousand times."""
    ways = [TaskPreemption(attempt=n, cluster="beta", job=123456, lacked=("slots",)) for n in range(60)]
    one = PublishedCampaignTask(number=0, attempt=60, outcome=Outcome.PREEMPTED, made_way=tuple(ways))
    tasks = [replace(one, number=number) for number in range(1000)]
    (tmp_path / "campaigns").mkdir()

    files.publish_campaign_task_file(1, 0, tasks, str(tmp_path))

    assert len(files.read_published_task_file(1, 0, str(tmp_path))[999].made_way) == 60


class PublishingSite(CampaignSite):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SWEEP)
        self.folder = f"{folder}/published"
        Path(self.folder).mkdir()
        self.publication = self.started()

    def started(self) -> CampaignPublisher:
        clock = Clock()
        forecasts = CampaignCompletionForecasts(self.campaigns, self.statistics, clock, 15)
        return CampaignPublisher(self.database, self.campaigns, forecasts, clock, self.folder)

    def publish(self, publisher: CampaignPublisher, campaigns: Iterable[int], *attempts: TaskAttempt) -> None:
        publisher.mark_campaigns_before_change(campaigns)
        publisher.publish_changed_tasks(attempts)

    def ended(self, attempt: TaskAttempt, outcome: Outcome) -> TaskAttempt:
        return self.end([attempt], outcome, exit_status=3, wallclock_s=7, max_rss_kb=9, written_kb=5)[0]

    def shown(self, part: int = 0) -> dict[int, str]:
        return {n: one.state_word for n, one in files.read_published_task_file(1, part, self.folder).items()}


_site = site_fixture(PublishingSite)


def test_the_last_attempt_of_each_task_is_published(site: PublishingSite) -> None:
    first, second, third = site.attempts(site.send(3))
    failed = site.ended(first, Outcome.PROGRAM_ERROR)
    again = site.ended(second, Outcome.PREEMPTED)
    site.campaigns.add_unsent_tasks(1, WaitingTaskRange(first=1, last=1, attempt=2))

    site.publish(site.publication, [1], failed, again, third)

    assert site.shown() == {0: "program_error", 1: "waiting", 2: "sent"}
    known = PublishedCampaignTask(number=0, attempt=1, outcome=Outcome.PROGRAM_ERROR, is_waiting=False)
    there = replace(known, cluster="beta", place=1, exit_status=3, wallclock_s=7, max_rss_kb=9, written_kb=5)
    assert files.read_published_task_file(1, 0, site.folder)[0] == there
    (end,) = files.read_published_task_end_counts(1, site.folder)
    assert (end.cluster, end.tasks, end.failed) == ("beta", 1, 1)
    assert (end.timed, end.wallclock_s) == (1, 7)


@pytest.mark.parametrize("marks", [0, 2])
def test_only_task_files_with_changed_tasks_are_replaced(site: PublishingSite, marks: int) -> None:
    """A campaign that one process marks twice does not count as killed."""
    attempts = site.attempts(site.send(2100))
    site.publication.publish_changed_tasks(attempts)
    before = Path(site.folder, "campaigns/1/tasks.0").stat().st_ino
    for _ in range(marks):
        site.publication.mark_campaigns_before_change([1])
    site.publication.publish_changed_tasks([site.ended(attempts[2099], Outcome.SUCCESS)])

    assert site.shown(2)[2099] == "success"
    assert len(site.shown(1)) == 1000
    assert Path(site.folder, "campaigns/1/tasks.0").stat().st_ino == before


def test_the_next_cycle_publishes_the_tasks_of_a_killed_cycle(site: PublishingSite) -> None:
    attempts = site.attempts(site.send(2))
    site.publication.mark_campaigns_before_change([1])
    site.ended(attempts[0], Outcome.SUCCESS)

    site.publish(site.started(), [])

    assert site.shown() == {0: "success", 1: "sent"}
    assert files.campaigns_half_published(site.folder) == frozenset()
    assert [(one.tasks, one.failed) for one in files.read_published_task_end_counts(1, site.folder)] == [(1, 0)]


def test_ends_recorded_by_a_killed_cycle_count_once(site: PublishingSite) -> None:
    attempts = site.attempts(site.send(3))
    site.publish(site.publication, [1], site.ended(attempts[0], Outcome.SUCCESS))
    site.publication.mark_campaigns_before_change([1])
    failed = site.ended(attempts[1], Outcome.PROGRAM_ERROR)

    site.publish(site.started(), [1], failed)

    ends = files.read_published_task_end_counts(1, site.folder)
    assert (sum(one.tasks for one in ends), sum(one.failed for one in ends)) == (2, 1)
    assert sum(one.wallclock_s for one in ends) == 14


@pytest.mark.parametrize("is_restarted", [False, True], ids=["at once", "by a new one"])
def test_removed_task_files_are_published_again(site: PublishingSite, is_restarted: bool) -> None:
    attempts = site.attempts(site.send(2))
    last = site.ended(attempts[0], Outcome.SUCCESS)
    site.publish(site.publication, [1], last)
    site.publish(site.publication, [])
    shutil.rmtree(Path(site.folder, "campaigns"))

    site.publish(site.started() if is_restarted else site.publication, [])

    assert site.shown() == {0: "success", 1: "sent"}


def test_retried_tasks_are_published_as_waiting_after_a_kill(site: PublishingSite) -> None:
    attempts = site.attempts(site.send(2))
    site.publication.publish_changed_tasks([site.ended(one, Outcome.PROGRAM_ERROR) for one in attempts])
    site.open_event(CampaignEventCode.EXIT_ERROR, kind=CampaignEventSubject.TASK, exit_status=3, tasks=2)
    CampaignOwnerRequestHandler(
        site.database, Clock(), site.folder, begin=site.publication.mark_campaigns_before_change
    ).execute_request(RETRY)

    site.publish(site.started(), [])

    assert site.shown() == {0: "waiting", 1: "waiting"}


def test_a_black_hole_is_published_until_its_owner_trusts_it(site: PublishingSite) -> None:
    shown = []

    for record in ((), (CampaignSuccessAtCluster(campaign=1, cluster="beta", is_trusted=True),)):
        site.open_event(CampaignEventCode.SINK, closed_at=NOON)
        site.events.store_success_records(record)
        site.publication.publish_campaigns([])
        whole = files.read_published_campaign_value(PublishedCampaignList, site.folder)
        shown.append(whole.campaigns[0].sinks)

    assert shown == [("beta",), ()]


def test_stressed_clusters_and_free_slots_are_published(site: PublishingSite) -> None:
    room = {
        "beta": campaign_cycle_plan.ClusterCapacityForCampaigns(free_slots=1, is_stressed=True),
        "gamma": campaign_cycle_plan.ClusterCapacityForCampaigns(free_slots=2),
    }
    seen = made_situation(room=room)

    site.publication.publish_send_explanations(seen, campaign_cycle_plan.CampaignCyclePlan())

    shown = files.read_published_campaign_value(PublishedTaskSendExplanations, site.folder)
    assert (shown.stressed, shown.free_slots) == (("beta",), {"beta": 1, "gamma": 2})


def test_slots_of_running_tasks_are_published_by_cluster(site: PublishingSite) -> None:
    """Requested slots count if the cluster does not report slots."""
    (one,) = site.campaigns.all_campaigns()
    known = campaign_cycle_plan.CampaignTaskCountsAtCluster(campaign=1, cluster="beta", waiting=2, listed=6, slots=2.5)
    untold = campaign_cycle_plan.CampaignTaskCountsAtCluster(campaign=one.number, cluster="beta", waiting=0, listed=3)
    seen = made_situation(campaigns=(one,), there=(known, untold))

    EventAndCapacityPublisher(made_policy("beta"), site.database, Clock(), site.folder).publish_cluster_slots(seen)

    shown = files.read_published_campaign_value(PublishedClusterSlotsList, site.folder)
    (beta,) = (cluster for cluster in shown.clusters if cluster.name == "beta")
    assert (beta.running, beta.used_by_campaigns) == (7, 13)


def test_the_measured_rate_of_each_owner_is_published_by_cluster(site: PublishingSite) -> None:
    """Gridsub --check tells by it how long the copy of input files takes."""
    (one,) = site.campaigns.all_campaigns()
    carry = campaign_cycle_plan.TimedInputCarry(copied_bytes=4 << 20, took_s=2.0, next_task_bytes=0.0)
    InputCarryRows(site.database).record_carry(one, "beta", carry)

    publisher = EventAndCapacityPublisher(made_policy("beta", "gamma"), site.database, Clock(), site.folder)
    publisher.publish_cluster_slots(made_situation())

    shown = files.read_published_campaign_value(PublishedClusterSlotsList, site.folder)
    assert [{one.uid: float(2 << 20)}, {}] == [cluster.carry_rates for cluster in shown.clusters]


def test_slots_of_a_cluster_without_campaigns_come_from_other_programs(site: PublishingSite) -> None:
    queue = QueueInstanceStatus(name="all.q@n1", slots_used=1, slots_reserved=0, slots_total=4)
    beta = made_snapshot(queues=(queue,), free_slots=3)
    policy = made_policy("beta", "gamma")
    seen = made_situation()

    EventAndCapacityPublisher(policy, site.database, Clock(), site.folder).publish_cluster_slots(seen, {"beta": beta})

    shown = files.read_published_campaign_value(PublishedClusterSlotsList, site.folder)
    assert [(one.name, one.free_for_normal, one.slots) for one in shown.clusters] == [
        ("beta", 3, 4),
        ("gamma", None, None),
    ]
    assert [one.answered_at for one in shown.clusters] == [NOON, None]


def test_no_parameter_or_command_is_published(site: PublishingSite) -> None:
    site.publication.publish_changed_tasks(site.attempts(site.send(2)))
    site.publication.publish_campaigns([])

    texts = [path.read_text() for path in Path(site.folder).rglob("*") if path.is_file()]
    assert files.read_published_campaign_value(PublishedCampaignList, site.folder)
    assert not any(re.search(r"\brun\b", text) for text in texts)


def test_published_files_are_readable_under_any_umask(site: PublishingSite) -> None:
    before = os.umask(0o077)
    try:
        site.publication.mark_campaigns_before_change([1])
        site.publication.publish_changed_tasks([site.ended(site.attempts(site.send())[0], Outcome.SUCCESS)])
    finally:
        os.umask(before)

    places = Path(site.folder, "campaigns").rglob("*")
    assert {path.name: path.stat().st_mode & 0o777 for path in places} == {"1": 0o755, "tasks.0": 0o644, "ends": 0o644}


def test_the_end_of_a_retried_task_is_subtracted_from_published_counts(site: PublishingSite) -> None:
    attempts = site.attempts(site.send(3))
    outcomes = (Outcome.PROGRAM_ERROR, Outcome.PROGRAM_ERROR, Outcome.SUCCESS)
    site.publication.publish_changed_tasks(map(site.ended, attempts, outcomes))
    site.campaigns.add_to_task_counts(1, 3, 2)
    site.open_event(CampaignEventCode.EXIT_ERROR, kind=CampaignEventSubject.TASK, exit_status=3, tasks=2)
    requests = CampaignOwnerRequestHandler(site.database, Clock(), folder=site.folder, published=site.folder)
    requests.execute_request(RETRY)

    site.publication.publish_changed_tasks(requests.take_changed_attempts(), are_asked=True)

    counts = [(one.cluster, one.tasks, one.failed) for one in files.read_published_task_end_counts(1, site.folder)]
    assert counts == [("beta", 3, 2), ("beta", -2, -2)]
    array = site.campaigns.insert_array(1, "beta", [(0, 2), (1, 2)], NOON)
    again = site.campaigns.unfinished_attempts(array)
    site.campaigns.remove_all_unsent_tasks(1)
    site.publication.publish_changed_tasks(map(site.ended, again, (Outcome.SUCCESS, Outcome.PROGRAM_ERROR)))
    ends = files.read_published_task_end_counts(1, site.folder)
    assert (sum(one.tasks for one in ends), sum(one.failed for one in ends)) == (3, 1)


def test_an_end_count_line_cut_by_a_power_failure_is_skipped(site: PublishingSite) -> None:
    site.publication.publish_changed_tasks([site.ended(site.attempts(site.send())[0], Outcome.SUCCESS)])
    with Path(site.folder, "campaigns/1/ends").open("a") as file:
        file.write("17672")

    assert len(files.read_published_task_end_counts(1, site.folder)) == 1


def test_the_jdl_of_each_campaign_is_decoded_once(site: PublishingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign_tables._cached_jdl_from_text.cache_clear()
    decode = Mock(wraps=campaign_tables.jdl_from_json)
    monkeypatch.setattr(campaign_tables, "jdl_from_json", decode)
    site.publication.publish_campaigns(())
    site.insert(replace(SWEEP, jdl=Jdl(name="later", clusters=SWEEP.jdl.clusters)))
    site.campaigns.set_campaign_state(1, CampaignState.PAUSED)
    site.publication.publish_campaigns(())

    shown = files.read_published_campaign_value(PublishedCampaignList, site.folder)
    names = [(one.name, one.state, one.clusters) for one in shown.campaigns]
    paused, going = CampaignState.PAUSED, CampaignState.IN_TREATMENT
    assert names == [("sweep", paused, ("beta",)), ("later", going, ("beta",))]
    assert decode.call_count == 2


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
def test_a_task_cancelled_by_its_owner_does_not_count_as_failed(
    site: PublishingSite, state: CampaignState, outcome: Outcome, failed: int, cancelled: int
) -> None:
    (attempt,) = site.attempts(site.send())
    site.campaigns.set_campaign_state(1, state, NOON)
    site.publication.publish_changed_tasks([site.ended(attempt, outcome)])
    site.started().mark_campaigns_before_change([1])  # a kill interrupts this cycle
    site.started().mark_campaigns_before_change([1])
    site.publish(site.started(), [1])

    (end,) = files.read_published_task_end_counts(1, site.folder)
    assert (end.tasks, end.failed, end.cancelled) == (1, failed, cancelled)
    assert (end.timed, end.wallclock_s) == ((0, 0) if cancelled else (1, 7))
