"""Nikita preempts best-effort tasks for a blocked local job, once for each job, and logs the job."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import blocked_job_reader, status
from gridbridge.campaigns.nikita import task_deletion_cycle
from gridbridge.campaigns.nikita.task_deletion_cycle import NikitaDeletionCycle
from gridbridge.campaigns.store import published_campaign_files
from gridbridge.campaigns.store.campaign_task_rows import LocalJobPreemptionRows
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.campaigns import task_deletions_and_preemptions as deletions
from gridbridge.model.campaigns.campaign import CampaignArray, TaskAttemptOutcome
from gridbridge.model.campaigns.published_campaigns_and_tasks import TaskPreemption
from gridbridge.model.cluster_snapshot import ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.site.site_section import SiteSection
from gridbridge.shell.clock import Clock
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import NOON, RUNNING, job_row, made_campaign, made_policy, made_snapshot

QUEUE = QueueInstanceStatus(name="gb-be1@n1", slots_used=3, slots_reserved=0, slots_total=3, is_besteffort=True)
LOCAL = QueueInstanceStatus(name="all.q@n1", slots_used=0, slots_reserved=0, slots_total=3)
PLACE = deletions.FreeQueueInstanceResources(name="all.q@n1", slots=3, free={"mem": 0})


def tasks(*places: int) -> tuple[deletions.RunningJobWithResources, ...]:
    """Return running tasks of the array, each with 1 of mem on host n1."""
    return tuple(
        deletions.RunningJobWithResources(job=7, task=n, host="n1", since=NOON, amounts={"mem": 1}, makes_way=True)
        for n in places
    )


CROWDED = deletions.CellRequestsAndResources(
    asked=(deletions.WaitingLocalRequest(job=5, amounts={"mem": 2}),), holders=tasks(1, 2, 3), places=(PLACE,)
)


class Beta:
    def __init__(self) -> None:
        self.crowded: list[deletions.CellRequestsAndResources | GridbridgeError] = [CROWDED]  # answers, in this order
        self.could_start = frozenset({"all.q@n1"})
        self.pending = 1
        self.queues = (LOCAL, QUEUE)
        self.asked = 0
        self.deleted: list[tuple[int, ...]] = []

    def snapshot(self, *_: object) -> tuple[ClusterSnapshot, float]:
        row = job_row(range(1, 4), RUNNING, queue="gb-be1@n1", since=NOON)
        return made_snapshot(queues=self.queues, jobs={7: (row,)}, pending=self.pending), 0.1

    def who(self, _: object) -> deletions.CellRequestsAndResources:
        self.asked += 1
        found = self.crowded.pop(0) if len(self.crowded) > 1 else self.crowded[0]
        if isinstance(found, GridbridgeError):
            raise found
        return found

    def delete_array_tasks(self, _: CampaignArray, places: tuple[range, ...]) -> None:
        self.deleted.append(tuple(sorted(n for some in places for n in some)))


class PreemptingSite(CampaignSite):
    """A nikita with a campaign whose three tasks run at beta as job 7."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, made_campaign(tasks=3))
        self.send(3, 7)
        self.beta, self.now = Beta(), [NOON]
        policy = made_policy("beta", site=SiteSection(cluster="alpha", state=f"sqlite:///{folder}/state.db"))
        clock = Clock(lambda: self.now[0].timestamp(), lambda: self.now[0].timestamp())
        self.nikita = NikitaDeletionCycle(policy, clock, self.beta, f"{folder}/nikita.clocks")


@pytest.fixture(name="site")
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PreemptingSite]:
    site = PreemptingSite(tmp_path)
    monkeypatch.setattr(status, "query_cluster_snapshot", site.beta.snapshot)
    monkeypatch.setattr(blocked_job_reader, "query_blocked_jobs", site.beta.who)
    monkeypatch.setattr(blocked_job_reader, "query_instances_able_to_run_job", lambda *_: site.beta.could_start)
    yield site
    site.nikita.database.close()
    site.database.close()


def cycle(nikita: NikitaDeletionCycle) -> deletions.NikitaDeletionPlan:
    seen = nikita.gather()
    plan = nikita.decide(seen)
    nikita.apply(seen, plan)
    return plan


def test_the_newest_tasks_are_preempted_as_far_as_needed(
    site: PreemptingSite, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    cycle(site.nikita)

    assert site.beta.deleted == [(2, 3)]
    marked = site.marks.deletion_marks()[1, 1]
    assert {mark.wiped_for for mark in marked.values()} == {deletions.NikitaDeletionReason.MADE_WAY}
    assert marked.keys() == {2, 3}
    assert "event=made_way cluster=beta job=5 tasks=2 for=mem" in caplog.messages


def test_a_repeated_cycle_preempts_no_further_task_for_the_same_job(site: PreemptingSite) -> None:
    cycle(site.nikita)
    site.now[0] += timedelta(seconds=60)

    plan = cycle(site.nikita)

    assert plan.ways == ()
    assert site.beta.deleted == [(2, 3), (2, 3)]


@pytest.mark.parametrize(
    ("pending", "queues"),
    [(0, (LOCAL, QUEUE)), (1, (LOCAL, replace(QUEUE, is_besteffort=False)))],
    ids=["nothing waits there", "none of them is best-effort"],
)
def test_a_cell_without_local_jobs_or_best_effort_tasks_is_not_queried(
    site: PreemptingSite, pending: int, queues: tuple[QueueInstanceStatus, ...]
) -> None:
    site.beta.pending, site.beta.queues = pending, queues

    assert cycle(site.nikita).ways == ()
    assert site.beta.asked == 0


@pytest.mark.parametrize(
    ("cell", "could_start"),
    [
        (replace(CROWDED, places=(replace(PLACE, free={"mem": 2}),)), {"all.q@n1"}),
        (CROWDED, set()),
        (GridbridgeError("no answer"), {"all.q@n1"}),
    ],
    ids=["enough resources are free", "the job cannot start there", "no answer"],
)
def test_no_task_is_preempted_in_vain(
    site: PreemptingSite,
    caplog: pytest.LogCaptureFixture,
    cell: deletions.CellRequestsAndResources | GridbridgeError,
    could_start: set[str],
) -> None:
    site.beta.crowded, site.beta.could_start = [cell], frozenset(could_start)

    assert cycle(site.nikita) == deletions.NikitaDeletionPlan()
    assert (site.beta.asked, site.beta.deleted) == (1, [])
    is_logged = "event=no_requests cluster=beta why='no answer'" in caplog.text
    assert is_logged is isinstance(cell, GridbridgeError)


@pytest.mark.parametrize(
    "later",
    [
        deletions.CellRequestsAndResources(),
        replace(CROWDED, holders=tasks(1)),
        CommandFailed(("qstat",), 1, b"", b"no answer", ""),
    ],
    ids=["it waits no more", "all tasks are too few by now", "no answer"],
)
def test_no_task_is_preempted_if_the_cell_has_changed(
    site: PreemptingSite, later: deletions.CellRequestsAndResources | GridbridgeError
) -> None:
    site.beta.crowded = [CROWDED, later]

    assert cycle(site.nikita).ways
    assert site.beta.deleted == []
    assert not site.marks.deletion_marks()
    assert not LocalJobPreemptionRows(site.database).preemption_times_by_job(NOON - timedelta(days=1))


def test_a_stored_preemption_decision_is_replayed(site: PreemptingSite) -> None:
    site.beta.crowded = [
        replace(CROWDED, asked=(deletions.WaitingLocalRequest(job=4, amounts={"mem": 9}), *CROWDED.asked))
    ]
    seen = site.nikita.gather()

    entry = task_deletion_cycle.nikita_journal_entry(seen, site.nikita.decide(seen), NOON)

    assert entry.sentence == "ended for job 5, which lacked mem: 2 tasks of campaign 1 at beta"
    assert task_deletion_cycle.replay_nikita_deletions(entry.inputs) == entry.inputs["actions"]


def test_the_job_that_preempted_a_task_is_published(site: PreemptingSite, tmp_path: Path) -> None:
    cycle(site.nikita)
    site.end(site.attempts(), TaskAttemptOutcome.PREEMPTED)

    shown = site.tasks.submitted_tasks(1, 0, 2)
    published_campaign_files.publish_campaign_task_file(1, 0, shown, str(tmp_path))

    way = TaskPreemption(attempt=1, cluster="beta", job=5, lacked=("mem",))
    assert [one.made_way for one in shown] == [(), (way,), (way,)]
    assert published_campaign_files.read_published_task_file(1, 0, str(tmp_path)) == {one.number: one for one in shown}
    site.tasks.purge_campaign(1)
    assert not LocalJobPreemptionRows(site.database).preemption_times_by_job(NOON - timedelta(days=1))
