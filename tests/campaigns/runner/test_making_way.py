"""NikitaDeletionCycle ends best-effort tasks for a local request, once for each, and tells for whom."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import blocked_job_reader, status
from gridbridge.campaigns.nikita import task_deletion_cycle
from gridbridge.campaigns.nikita.task_deletion_cycle import NikitaDeletionCycle
from gridbridge.campaigns.store import published_campaign_files
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import CampaignTaskRows, LocalJobPreemptionRows, TaskDeletionMarkRows
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignState,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.jdl import Jdl, JdlClusterSettings
from gridbridge.model.campaigns.published_campaigns_and_tasks import TaskPreemption
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    CellRequestsAndResources,
    NikitaDeletionPlan,
    NikitaDeletionReason,
    QueueInstanceResources,
    RunningJobWithResources,
    WaitingLocalRequest,
)
from gridbridge.model.cluster_snapshot import ClusterSnapshot, JobListRow, QueueInstanceStatus
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.model.states import JobState, JobStateFact
from gridbridge.shell.clock import Clock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNNING = JobState([JobStateFact.RUNNING])
QUEUE = QueueInstanceStatus(name="gb-be1@n1", slots_used=3, slots_reserved=0, slots_total=3, is_besteffort=True)
LOCAL = QueueInstanceStatus(name="all.q@n1", slots_used=0, slots_reserved=0, slots_total=3)
PLACE = QueueInstanceResources(name="all.q@n1", slots=3, free={"mem": 0})


def tasks(*places: int) -> tuple[RunningJobWithResources, ...]:
    """Return what tasks of the array hold on n1."""
    return tuple(
        RunningJobWithResources(job=77, task=n, host="n1", since=NOON, amounts={"mem": 1}, makes_way=True)
        for n in places
    )


CROWDED = CellRequestsAndResources(
    asked=(WaitingLocalRequest(job=5, amounts={"mem": 2}),), holders=tasks(1, 2, 3), places=(PLACE,)
)


class Beta:
    """A cell that shows what a test sets, and notes what it is asked and what is deleted there."""

    def __init__(self) -> None:
        self.crowded: list[CellRequestsAndResources | GridbridgeError] = [CROWDED]  # one after the other
        self.could_start = frozenset({"all.q@n1"})
        self.pending = 1
        self.queues = (LOCAL, QUEUE)
        self.asked = 0
        self.deleted: list[tuple[int, ...]] = []

    def snapshot(self, *_: object) -> tuple[ClusterSnapshot, float]:
        """Return its list."""
        row = JobListRow(
            job_id=77,
            tasks=(range(1, 4),),
            name="campaign.1",
            owner="alice",
            state=RUNNING,
            queue="gb-be1@n1",
            since=NOON,
        )
        seen = ClusterSnapshot(
            cluster="beta", taken_at=NOON, queues=self.queues, jobs={77: (row,)}, pending=self.pending, free_slots=0
        )
        return seen, 0.1

    def who(self, _: object) -> CellRequestsAndResources:
        """Return who waits and runs there."""
        self.asked += 1
        found = self.crowded.pop(0) if len(self.crowded) > 1 else self.crowded[0]
        if isinstance(found, GridbridgeError):
            raise found
        return found

    def delete_places(self, _: CampaignArray, places: tuple[range, ...]) -> None:
        """Delete tasks."""
        self.deleted.append(tuple(sorted(n for some in places for n in some)))


@pytest.fixture(name="beta")
def _beta(monkeypatch: pytest.MonkeyPatch) -> Beta:
    made = Beta()
    monkeypatch.setattr(status, "query_cluster_snapshot", made.snapshot)
    monkeypatch.setattr(blocked_job_reader, "query_blocked_jobs", made.who)
    monkeypatch.setattr(blocked_job_reader, "query_possible_instances", lambda *_: made.could_start)
    return made


@pytest.fixture(name="now")
def _now() -> list[datetime]:
    """Return the time, which tests set."""
    return [NOON]


@pytest.fixture(name="nikita")
def _nikita(tmp_path: Path, beta: Beta, now: list[datetime]) -> Iterator[NikitaDeletionCycle]:
    """Return nikita with a campaign whose three tasks run at beta as job 77."""
    policy = Policy(
        site=SiteSection(cluster="alpha", state=f"sqlite:///{tmp_path}/state.db"),
        clusters={"beta": ClusterSection()},
        queues={},
    )
    clock = Clock(lambda: now[0].timestamp(), lambda: now[0].timestamp())
    made = NikitaDeletionCycle(policy, clock, beta, f"{tmp_path}/nikita.clocks")
    campaigns = CampaignRows(made.database)
    campaigns.add(campaign(), "token")
    array = campaigns.intend(1, "beta", 3, NOON)
    assert array
    campaigns.array_is(array, ArraySubmissionState.RELEASED, 77)
    yield made
    made.database.close()


def campaign() -> Campaign:
    """Return a campaign of three tasks."""
    return Campaign(
        number=0,
        uid=1000,
        owner="alice",
        state=CampaignState.IN_TREATMENT,
        submitted_at=NOON,
        tasks=3,
        digest="",
        jdl=Jdl(name="n", clusters={"beta": JdlClusterSettings(exec_file="run")}),
    )


def cycle(nikita: NikitaDeletionCycle) -> NikitaDeletionPlan:
    """Do a cycle."""
    seen = nikita.gather()
    plan = nikita.decide(seen)
    nikita.apply(seen, plan)
    return plan


def test_just_enough_tasks_are_marked_and_deleted(
    nikita: NikitaDeletionCycle, beta: Beta, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest, and the log tells for whom."""
    caplog.set_level("INFO")

    cycle(nikita)

    assert beta.deleted == [(2, 3)]
    marked = TaskDeletionMarkRows(nikita.database).all()[1, 1]
    assert {n: one.wiped_for for n, one in marked.items()} == dict.fromkeys((2, 3), NikitaDeletionReason.MADE_WAY)
    told = [one.getMessage() for one in caplog.records]
    assert "event=made_way cluster=beta job=5 tasks=2 for=mem" in told


def test_what_still_runs_is_deleted_again_and_nothing_more_for_the_same(
    nikita: NikitaDeletionCycle, beta: Beta, now: list[datetime]
) -> None:
    """The job has a while to start."""
    cycle(nikita)
    now[0] += timedelta(seconds=60)

    plan = cycle(nikita)

    assert plan.ways == ()
    assert beta.deleted == [(2, 3), (2, 3)]


@pytest.mark.parametrize(
    ("pending", "queues"),
    [(0, (LOCAL, QUEUE)), (1, (LOCAL, replace(QUEUE, is_besteffort=False)))],
    ids=["nothing waits there", "none of them is best-effort"],
)
def test_a_cluster_is_not_asked_where_nobody_can_be_helped(
    nikita: NikitaDeletionCycle, beta: Beta, pending: int, queues: tuple[QueueInstanceStatus, ...]
) -> None:
    beta.pending, beta.queues = pending, queues

    assert cycle(nikita).ways == ()
    assert beta.asked == 0


def test_it_is_asked_once_where_nothing_is_to_be_done(nikita: NikitaDeletionCycle, beta: Beta) -> None:
    """Enough is free, and the scheduler comes to it."""
    beta.crowded = [replace(CROWDED, places=(replace(PLACE, free={"mem": 2}),))]

    assert cycle(nikita).ways == ()
    assert beta.asked == 1
    assert beta.deleted == []


def test_nothing_ends_for_a_job_that_may_not_start_there(nikita: NikitaDeletionCycle, beta: Beta) -> None:
    """Its start time is to come, or it asks for what no host there has."""
    beta.could_start = frozenset()

    assert cycle(nikita) == NikitaDeletionPlan()
    assert beta.deleted == []


@pytest.mark.parametrize(
    "later",
    [
        CellRequestsAndResources(),
        replace(CROWDED, holders=tasks(1)),
        CommandFailed(("qstat",), 1, b"", b"no answer", ""),
    ],
    ids=["it waits no more", "all tasks are too few by now", "no answer"],
)
def test_what_changed_meanwhile_is_left(
    nikita: NikitaDeletionCycle, beta: Beta, later: CellRequestsAndResources | GridbridgeError
) -> None:
    """Nothing is noted of it, so that the next cycle may help."""
    beta.crowded = [CROWDED, later]

    assert cycle(nikita).ways
    assert beta.deleted == []
    assert not TaskDeletionMarkRows(nikita.database).all()
    assert not LocalJobPreemptionRows(nikita.database).tried(NOON - timedelta(days=1))


def test_a_cell_that_does_not_answer_has_no_requests(
    nikita: NikitaDeletionCycle, beta: Beta, caplog: pytest.LogCaptureFixture
) -> None:
    beta.crowded = [GridbridgeError("no answer")]

    assert cycle(nikita) == NikitaDeletionPlan()
    assert "event=no_requests cluster=beta why='no answer'" in caplog.text


def test_the_decision_is_made_again_from_what_was_kept(nikita: NikitaDeletionCycle, beta: Beta) -> None:
    """With the one request that it was about."""
    beta.crowded = [replace(CROWDED, asked=(WaitingLocalRequest(job=4, amounts={"mem": 9}), *CROWDED.asked))]
    seen = nikita.gather()

    entry = task_deletion_cycle.nikita_journal_entry(seen, nikita.decide(seen), NOON)

    assert entry
    assert entry.sentence == "ended: 2 tasks of campaign 1 at beta, for job 5, which lacked mem"
    assert task_deletion_cycle.replay_nikita_deletions(entry.inputs) == entry.inputs["actions"]


def test_people_see_for_whom_a_task_made_way(nikita: NikitaDeletionCycle, tmp_path: Path) -> None:
    """As long as the campaign is known."""
    cycle(nikita)
    campaigns = CampaignRows(nikita.database)
    array = campaigns.open_arrays()[0]
    ended = [replace(one, outcome=TaskAttemptOutcome.PREEMPTED) for one in campaigns.pending(array)]
    campaigns.ended(ended)
    known = CampaignTaskRows(nikita.database)

    shown = known.sent(1, 0, 2)
    published_campaign_files.publish_campaign_task_file(1, 0, shown, str(tmp_path))

    way = TaskPreemption(attempt=1, cluster="beta", job=5, lacked=("mem",))
    assert [one.made_way for one in shown] == [(), (way,), (way,)]
    assert published_campaign_files.read_published_task_file(1, 0, str(tmp_path)) == {one.number: one for one in shown}
    known.purge(1)
    assert not LocalJobPreemptionRows(nikita.database).tried(NOON - timedelta(days=1))
