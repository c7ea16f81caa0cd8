"""NikitaDeletionCycle marks before it deletes; the runner tells what became of a marked task."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.batch.gridengine import status
from gridbridge.campaigns.nikita import task_deletion_cycle
from gridbridge.campaigns.nikita.nikita_queries import NikitaCancelRequestHandler
from gridbridge.campaigns.nikita.task_deletion_cycle import NikitaDeletionCycle
from gridbridge.campaigns.store import campaign_files_of_owners
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import TaskDeletionMarkRows
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignState,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.cycle_plan import CampaignPrologueOrEpilogueStart
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlClusterSettings
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    ArrayTaskDeletion,
    NikitaDeletionPlan,
    NikitaDeletionReason,
    NikitaSituation,
    TaskDeletionMark,
)
from gridbridge.model.campaigns.task_index_and_attempt_texts import EPILOGUE, PROLOGUE
from gridbridge.model.cluster_snapshot import ClusterSnapshot, JobListRow, QueueInstanceStatus
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.model.states import JobState, JobStateFact, QueueInstanceState, QueueStartBlocker
from gridbridge.program.cluster_observer import ClusterSnapshotSharing, identify_cluster_query, query_result_to_share
from gridbridge.shell import poller_lock
from gridbridge.shell.clock import Clock
from gridbridge.state.campaign_tables import live_campaign_jobs_at

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WAITING, RUNNING = JobState([JobStateFact.WAITING]), JobState([JobStateFact.RUNNING])


class Cell:
    """A cluster that notes what is deleted, and the marks at that moment."""

    def __init__(self) -> None:
        self.deleted: list[tuple[int, tuple[range, ...]]] = []
        self.fails = False
        self.begun: tuple[range, ...] = ()  # when tasks are deleted that waited before

    def delete_places(self, array: CampaignArray, places: tuple[range, ...]) -> None:
        """Delete tasks."""
        if self.fails:
            raise GridbridgeError("no answer")
        self.deleted.append((array.number, places))

    def delete_waiting(self, array: CampaignArray, places: tuple[range, ...]) -> tuple[range, ...]:
        """Delete tasks that have not begun."""
        self.delete_places(array, places)
        return self.begun


@pytest.fixture(name="cell")
def _cell() -> Cell:
    return Cell()


@pytest.fixture(name="now")
def _now() -> list[datetime]:
    """Return the time, which tests set."""
    return [NOON]


@pytest.fixture(name="leapt")
def _leapt() -> list[timedelta]:
    """Return by how much somebody has set this host's clock, which tests set."""
    return [timedelta()]


@pytest.fixture(name="nikita")
def _nikita(tmp_path: Path, cell: Cell, now: list[datetime], leapt: list[timedelta]) -> Iterator[NikitaDeletionCycle]:
    policy = Policy(
        site=SiteSection(cluster="alpha", state=f"sqlite:///{tmp_path}/state.db"),
        clusters={"beta": ClusterSection()},
        queues={},
    )
    clock = Clock(lambda: now[0].timestamp(), lambda: (now[0] - leapt[0]).timestamp())
    made = NikitaDeletionCycle(policy, clock, cell, f"{tmp_path}/nikita.clocks")
    yield made
    made.database.close()


@pytest.fixture(name="array")
def _array(nikita: NikitaDeletionCycle) -> CampaignArray:
    """Return an array of five tasks at beta, whose id is 77."""
    campaigns = CampaignRows(nikita.database)
    campaigns.add(campaign(), "token")
    made = campaigns.intend(1, "beta", 5, NOON)
    assert made
    campaigns.array_is(made, ArraySubmissionState.RELEASED, 77)
    return replace(made, state=ArraySubmissionState.RELEASED, job_id=77)


def campaign(type_: CampaignType = CampaignType.DEFAULT) -> Campaign:
    """Return a campaign of nine tasks."""
    return Campaign(
        number=0,
        uid=1000,
        owner="alice",
        state=CampaignState.IN_TREATMENT,
        submitted_at=NOON,
        tasks=9,
        digest="",
        jdl=Jdl(name="n", type=type_, clusters={"beta": JdlClusterSettings(exec_file="run")}),
    )


def row(places: range, state: JobState = WAITING, **other: Any) -> JobListRow:
    """Return a row of beta's list."""
    known = {"job_id": 77, "tasks": (places,), "name": "campaign.1", "owner": "alice"}
    return JobListRow(**known | {"state": state} | other)


def beta(*rows: JobListRow, state: QueueInstanceState | None = None) -> dict[str, ClusterSnapshot]:
    """Return the answer of a cluster of ten slots."""
    queue = QueueInstanceStatus(name="all.q@n1", slots_used=0, slots_reserved=0, slots_total=10)
    return {
        "beta": ClusterSnapshot(
            cluster="beta",
            taken_at=NOON,
            queues=(replace(queue, state=state) if state else queue,),
            jobs={77: rows},
            pending=0,
            free_slots=0,
        )
    }


def cycle(nikita: NikitaDeletionCycle, array: CampaignArray, answers: dict[str, ClusterSnapshot]) -> NikitaDeletionPlan:
    """Decide about what a cluster lists, and do it."""
    seen = nikita.listed([array], answers)
    plan = nikita.decide(seen)
    nikita.apply(seen, plan)
    return plan


def later(now: list[datetime], seconds: float) -> None:
    """Let time pass."""
    now[0] += timedelta(seconds=seconds)


def test_what_waits_beyond_the_flood_rate_is_marked_and_deleted(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell, now: list[datetime]
) -> None:
    """One of ten slots may have a task that waits."""
    later(now, 61)

    cycle(nikita, array, beta(row(range(1, 6))))

    assert cell.deleted == [(1, (range(2, 6),))]
    assert {*TaskDeletionMarkRows(nikita.database).all()[1, 1]} == {2, 3, 4, 5}


def test_what_could_not_be_deleted_is_deleted_in_the_next_cycle(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell, now: list[datetime]
) -> None:
    """But what runs by then is left, and its mark taken off."""
    later(now, 61)
    cell.fails = True
    cycle(nikita, array, beta(row(range(1, 6))))
    cell.fails = False

    cycle(nikita, array, beta(row(range(1, 4)), row(range(4, 6), RUNNING, since=NOON)))

    assert cell.deleted == [(1, (range(2, 4),))]
    assert {*TaskDeletionMarkRows(nikita.database).all()[1, 1]} == {2, 3}


@pytest.mark.parametrize(("waiting", "asked"), [(1, 0), (5, 1)], ids=["few", "a flood"])
def test_it_believes_the_runners_answer_but_asks_before_it_deletes(
    nikita: NikitaDeletionCycle,
    now: list[datetime],
    monkeypatch: pytest.MonkeyPatch,
    array: CampaignArray,
    waiting: int,
    asked: int,
) -> None:
    """What waited a moment ago may run now."""
    later(now, 61)
    told, policy = [], nikita._policy
    told_then = beta(row(range(1, waiting + 1)))["beta"]
    runs_now = beta(row(range(1, 6), RUNNING, since=now[0]))["beta"]
    seen = replace(told_then, taken_at=now[0])
    sent = live_campaign_jobs_at(nikita.database, "beta")
    shared = query_result_to_share(
        seen, sent, identify_cluster_query(configured_cluster_address(policy, "beta"), ()), now[0]
    )
    ClusterSnapshotSharing(nikita.database, Clock()).put("beta", shared)
    monkeypatch.setattr(status, "query_cluster_snapshot", lambda *_: told.append(1) or (runs_now, 0.1))  # type: ignore[func-returns-value]
    later(now, 10)

    plan = nikita.decide(nikita.gather())

    assert plan == NikitaDeletionPlan()
    assert len(told) == asked


def test_no_task_ran_before_it_was_sent(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell, now: list[datetime]
) -> None:
    """The clock of its cluster may be hours late."""
    later(now, 60)
    hours_ago = NOON - timedelta(hours=9)

    plan = cycle(nikita, array, beta(row(range(1, 6), RUNNING, since=hours_ago)))

    assert plan == NikitaDeletionPlan()
    assert cell.deleted == []


@pytest.mark.parametrize(
    ("state", "since", "wiped_for"),
    [(WAITING, None, NikitaDeletionReason.WAITED), (RUNNING, NOON, NikitaDeletionReason.OVERRAN)],
    ids=["waits", "runs"],
)
def test_a_clock_that_leaps_ahead_kills_nothing(
    nikita: NikitaDeletionCycle,
    array: CampaignArray,
    now: list[datetime],
    leapt: list[timedelta],
    caplog: pytest.LogCaptureFixture,
    state: JobState,
    since: datetime | None,
    wiped_for: NikitaDeletionReason,
) -> None:
    """It is told, and their time still comes."""
    there = beta(row(range(1, 2), state, since=since))
    assert cycle(nikita, array, there) == NikitaDeletionPlan()
    leapt[0] += timedelta(hours=9)
    later(now, 9 * 3600 + 60)

    assert [cycle(nikita, array, there) for _ in range(2)] == [NikitaDeletionPlan()] * 2
    assert [one.getMessage() for one in caplog.records] == ["event=clock_set by_s=+32400"]
    later(now, 3600 + 1800)
    (wipe,) = cycle(nikita, array, there).wipes
    assert wipe.wiped_for is wiped_for


@pytest.mark.parametrize(
    "facts",
    [
        (JobStateFact.WAITING, JobStateFact.HELD),
        (JobStateFact.WAITING, JobStateFact.RESTARTED),
        (JobStateFact.WAITING, JobStateFact.DELETING),
    ],
)
def test_what_somebody_else_sees_to_is_left(
    nikita: NikitaDeletionCycle, array: CampaignArray, now: list[datetime], facts: tuple[str, ...]
) -> None:
    """A hold is somebody's, and when a task was put back is not known."""
    later(now, 9999)

    assert cycle(nikita, array, beta(row(range(1, 6), JobState(facts)))) == NikitaDeletionPlan()


def test_a_cluster_where_no_work_can_start_is_left_alone(
    nikita: NikitaDeletionCycle, array: CampaignArray, now: list[datetime]
) -> None:
    """It is in an outage; and of one that gave no answer nothing is known at all."""
    later(now, 9999)
    lost = beta(row(range(1, 6)), state=QueueInstanceState([QueueStartBlocker.UNREACHABLE], "au"))

    assert cycle(nikita, array, lost) == NikitaDeletionPlan()
    assert cycle(nikita, array, {}) == NikitaDeletionPlan()


def test_a_decision_is_made_again_from_what_was_kept(
    nikita: NikitaDeletionCycle, array: CampaignArray, now: list[datetime]
) -> None:
    """As JSON has it."""
    later(now, 901)
    seen = nikita.listed([array], beta(row(range(1, 6))))
    plan = nikita.decide(seen)

    entry = task_deletion_cycle.nikita_journal_entry(seen, plan, NOON)

    assert entry
    assert task_deletion_cycle.replay_nikita_deletions(entry.inputs) == entry.inputs["actions"]
    assert entry.sentence == "wiped: 5 tasks of campaign 1 at beta, which waited too long"
    assert task_deletion_cycle.nikita_journal_entry(seen, NikitaDeletionPlan(), NOON) is None
    assert isinstance(seen, NikitaSituation)


def test_a_mark_is_kept_until_its_attempt_has_ended(nikita: NikitaDeletionCycle, array: CampaignArray) -> None:
    """Then it says nothing any more, but that the attempt did not count."""
    marks, campaigns = TaskDeletionMarkRows(nikita.database), CampaignRows(nikita.database)
    marks.put(wipe(range(1, 3)))
    first, _, *_ = campaigns.pending(array)

    campaigns.ended([replace(first, outcome=TaskAttemptOutcome.WIPED)])
    marks.tidy()

    assert {*marks.all()[1, 1]} == {2}
    assert (marks.wiped(1, 0), marks.wiped(1, 1)) == (1, 0)


def wipe(places: range) -> ArrayTaskDeletion:
    """Return what is wiped of the one array."""
    return ArrayTaskDeletion(
        campaign=1, array=1, cluster="beta", wiped_for=NikitaDeletionReason.OVERFLOW, places=(places,)
    )


@pytest.mark.parametrize(
    ("row_state", "queue_state"),
    [
        pytest.param(WAITING, None, id="it waits"),
        pytest.param(JobState([JobStateFact.WAITING, JobStateFact.RESTARTED]), None, id="it was put back"),
        pytest.param(RUNNING, QueueInstanceState([QueueStartBlocker.UNREACHABLE], "au"), id="no work can start"),
    ],
)
def test_tasks_of_a_cancelled_campaign_are_deleted_and_not_marked(
    nikita: NikitaDeletionCycle,
    array: CampaignArray,
    cell: Cell,
    row_state: JobState,
    queue_state: QueueInstanceState | None,
) -> None:
    """Until they are being deleted."""
    CampaignRows(nikita.database).is_now(1, CampaignState.CANCELLED, NOON)
    cycle(nikita, array, beta(row(range(1, 6), row_state, since=NOON), state=queue_state))
    cycle(nikita, array, beta(row(range(1, 6), JobState([JobStateFact.RUNNING, JobStateFact.DELETING]))))

    assert cell.deleted == [(1, (range(1, 6),))]
    assert not TaskDeletionMarkRows(nikita.database).all()


CLOSED = [QueueInstanceState([QueueStartBlocker.DISABLED], "d"), QueueInstanceState([QueueStartBlocker.LOADED], "a")]


@pytest.mark.parametrize("state", CLOSED, ids=["disabled", "in alarm"])
@pytest.mark.parametrize("task_state", [WAITING, RUNNING], ids=["waits", "runs"])
def test_a_cancelled_task_is_deleted_where_no_work_can_start(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell, state: QueueInstanceState, task_state: JobState
) -> None:
    """Others of its array are left alone there, however long they wait or run."""
    marks = TaskDeletionMarkRows(nikita.database)
    assert marks.cancel(1, 2)
    rows = row(range(1, 6), task_state, since=NOON - timedelta(days=9))
    old = replace(array, intended_at=NOON - timedelta(days=9))

    cycle(nikita, old, beta(rows, state=state))

    assert cell.deleted == [(1, (range(3, 4),))]
    assert {*marks.all()[1, 1]} == {3}


def begun(nikita: NikitaDeletionCycle, step: str) -> CampaignArray:
    """Return the array of a campaign's prologue or epilogue at beta."""
    campaigns = CampaignRows(nikita.database)
    wish = JdlClusterSettings(exec_file="run", prologue="make", epilogue="clean")
    campaigns.add(replace(campaign(), jdl=Jdl(name="n", clusters={"beta": wish})), "token")
    tries = TaskAttemptRows(nikita.database, campaigns)
    made = tries.intend_step(CampaignPrologueOrEpilogueStart(campaign=1, cluster="beta", step=step, attempt=1), NOON)
    assert made
    campaigns.array_is(made, ArraySubmissionState.RELEASED, 77)
    return replace(made, job_id=77)


@pytest.mark.parametrize("step", [PROLOGUE, EPILOGUE])
def test_a_prologue_or_epilogue_that_waits_is_left_alone(
    nikita: NikitaDeletionCycle, cell: Cell, now: list[datetime], step: str
) -> None:
    """However busy its cluster is: it can run nowhere else. One that overruns is deleted."""
    array = begun(nikita, step)
    later(now, 99_999)

    cycle(nikita, array, beta(row(range(1, 2))))
    left = [*cell.deleted]
    (wipe,) = cycle(nikita, array, beta(row(range(1, 2), RUNNING, since=NOON))).wipes

    assert (left, wipe.wiped_for) == ([], NikitaDeletionReason.OVERRAN)


def test_a_prologue_that_no_task_needs_is_deleted_while_it_waits(nikita: NikitaDeletionCycle, cell: Cell) -> None:
    """As the runner has marked it; one that has begun goes on, and is marked no more."""
    array, marks = begun(nikita, PROLOGUE), TaskDeletionMarkRows(nikita.database)
    unneeded = replace(moved(range(1, 2)), wiped_for=NikitaDeletionReason.UNNEEDED)
    marks.put(unneeded)
    plan = cycle(nikita, array, beta(row(range(1, 2), RUNNING, since=NOON)))
    left = [*cell.deleted], marks.all()
    marks.put(unneeded)
    cycle(nikita, array, beta(row(range(1, 2))))

    assert (left, len(plan.spared)) == (([], {}), 1)
    assert cell.deleted == [(1, (range(1, 2),))]
    assert marks.all()[1, 1] == {1: TaskDeletionMark(wiped_for=NikitaDeletionReason.LEFT)}


def test_the_prologue_of_a_cancelled_campaign_is_deleted(nikita: NikitaDeletionCycle, cell: Cell) -> None:
    """Though it waits."""
    array = begun(nikita, PROLOGUE)
    CampaignRows(nikita.database).is_now(1, CampaignState.CANCELLED)

    cycle(nikita, array, beta(row(range(1, 2))))

    assert cell.deleted == [(1, (range(1, 2),))]


def test_the_epilogue_of_a_cancelled_campaign_is_left_alone(nikita: NikitaDeletionCycle, cell: Cell) -> None:
    """The runner sends it once the tasks are gone."""
    campaigns, array = CampaignRows(nikita.database), begun(nikita, EPILOGUE)
    campaigns.is_now(1, CampaignState.CANCELLED)

    cycle(nikita, array, beta(row(range(1, 2), RUNNING, since=NOON)))
    left = [*cell.deleted]
    campaigns.is_now(1, CampaignState.CANCELLED, NOON)  # once more
    cycle(nikita, array, beta(row(range(1, 2), RUNNING, since=NOON)))

    assert (left, cell.deleted) == ([], [(1, (range(1, 2),))])


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """Return the folder of requests, beside that of the answers and the runner's lock."""
    for name in ("asked", "published/answers"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "asked"


def cancelling(nikita: NikitaDeletionCycle, folder: Path) -> NikitaCancelRequestHandler:
    """Return what takes requests from it."""
    places = (str(folder), str(folder.parent / "published"), str(folder.parent / "runner.lock"))
    return NikitaCancelRequestHandler(nikita.database, Clock(NOON.timestamp), *places)


def ask(folder: Path, verb: str, uid: int = 1000) -> str:
    """Ask for something about campaign 1, as somebody."""
    token = campaign_files_of_owners.write_owner_request_to_inbox(verb, (1,), str(folder))
    theirs = folder / f"u.{uid}"
    if not theirs.exists():
        theirs.mkdir()
        theirs.chmod(0o770)
        os.chown(theirs, uid, folder.stat().st_gid)
    name = f"{campaign_files_of_owners.ASKED}{token}"
    (folder / f"u.{os.geteuid()}" / name).rename(theirs / name)
    os.chown(theirs / name, uid, -1)
    return token


def asked(folder: Path) -> list[str]:
    """Return the tokens of the requests that lie there."""
    return [path.name.rpartition(".")[2] for path in folder.rglob("*") if path.is_file()]


def state(nikita: NikitaDeletionCycle) -> CampaignState:
    """Return what the campaign is."""
    found = CampaignRows(nikita.database).find(1)
    assert found
    return found.state


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="it gives files away")


@needs_root
def test_a_kill_is_taken_while_no_runner_runs_and_all_else_is_left(
    nikita: NikitaDeletionCycle, array: CampaignArray, folder: Path
) -> None:
    assert array
    kill, other = ask(folder, "cancel"), ask(folder, "purge")
    taken = cancelling(nikita, folder).take()

    assert (taken, state(nikita)) == (1, CampaignState.CANCELLED)
    assert asked(folder) == [other]
    assert list((folder / "u.1000").iterdir()), "who asks may take it back"
    assert kill in "".join(map(str, (folder.parent / "published").rglob("*")))
    assert cancelling(nikita, folder).take() == 0


@needs_root
def test_nobody_kills_anothers_campaign(nikita: NikitaDeletionCycle, array: CampaignArray, folder: Path) -> None:
    assert array
    ask(folder, "cancel", uid=1001)
    cancelling(nikita, folder).take()

    assert state(nikita) is CampaignState.IN_TREATMENT


@needs_root
def test_a_kill_is_left_to_a_runner_that_runs(nikita: NikitaDeletionCycle, array: CampaignArray, folder: Path) -> None:
    assert array
    ask(folder, "cancel")
    with poller_lock.MomentaryPollerLock(str(folder.parent / "runner.lock")) as is_ours:
        taken = cancelling(nikita, folder).take()

    assert (is_ours, taken, state(nikita)) == (True, 0, CampaignState.IN_TREATMENT)
    assert len(asked(folder)) == 1


def moved(places: range) -> ArrayTaskDeletion:
    """Return the mark of tasks that are to start elsewhere."""
    return ArrayTaskDeletion(
        campaign=1, array=1, cluster="beta", wiped_for=NikitaDeletionReason.MOVED, places=(places,)
    )


def test_a_move_is_done_for_what_waits_still(nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell) -> None:
    """One that starts in that moment loses its mark, and goes on; of the others it is noted."""
    marks = TaskDeletionMarkRows(nikita.database)
    marks.put(moved(range(1, 4)))
    cell.begun = (range(2, 3),)

    cycle(nikita, array, beta(row(range(1, 6))))

    assert cell.deleted == [(1, (range(1, 4),))]
    assert marks.all()[1, 1] == dict.fromkeys((1, 3), TaskDeletionMark(wiped_for=NikitaDeletionReason.LEFT))


def test_what_waits_too_long_is_wiped_if_it_waits_still(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell, now: list[datetime]
) -> None:
    """One that starts in that moment goes on; of the others it is noted that none began."""
    later(now, 9999)
    cell.begun = (range(2, 3),)

    plan = cycle(nikita, array, beta(row(range(1, 4))))

    assert [one.wiped_for for one in plan.wipes] == [NikitaDeletionReason.WAITED]
    left = TaskDeletionMarkRows(nikita.database).all()[1, 1]
    assert left == dict.fromkeys((1, 3), TaskDeletionMark(wiped_for=NikitaDeletionReason.NEVER_BEGAN))


def test_a_wipe_that_held_tasks_and_failed_is_done_again(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell, now: list[datetime]
) -> None:
    """Our hold may keep them from starting: they don't stay so."""
    later(now, 9999)
    cell.fails = True
    cycle(nikita, array, beta(row(range(1, 4))))
    cell.fails = False

    cycle(nikita, array, beta(row(range(1, 4), JobState([JobStateFact.WAITING, JobStateFact.HELD]))))

    assert cell.deleted == [(1, (range(1, 4),))]


def test_a_move_of_which_nothing_is_known_is_done_again(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell
) -> None:
    """The tasks may be deleted, or run: neither is noted."""
    marks = TaskDeletionMarkRows(nikita.database)
    marks.put(moved(range(1, 4)))
    cell.fails = True

    cycle(nikita, array, beta(row(range(1, 6))))

    assert {mark.wiped_for for mark in marks.all()[1, 1].values()} == {NikitaDeletionReason.MOVED}


def test_a_task_that_is_back_after_its_move_is_moved_again(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell
) -> None:
    """Its cluster came up with what it knew before the deletion, the hold at most."""
    left = replace(moved(range(1, 4)), wiped_for=NikitaDeletionReason.LEFT)
    TaskDeletionMarkRows(nikita.database).put(left)

    cycle(nikita, array, beta(row(range(1, 3)), row(range(3, 4), JobState([JobStateFact.WAITING, JobStateFact.HELD]))))

    assert cell.deleted == [(1, (range(1, 3), range(3, 4)))]


def test_a_move_goes_on_that_was_killed_after_the_hold(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell
) -> None:
    """Who holds a task of their own finds it held."""
    TaskDeletionMarkRows(nikita.database).put(moved(range(1, 3)))
    held = JobState([JobStateFact.WAITING, JobStateFact.HELD])

    cycle(nikita, array, beta(row(range(1, 4), held), row(range(4, 6))))

    assert cell.deleted == [(1, (range(1, 3),))]


@pytest.mark.parametrize("fact", [QueueStartBlocker.DISABLED, QueueStartBlocker.UNREACHABLE])
def test_what_is_to_be_moved_leaves_a_cluster_where_no_work_can_start(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell, now: list[datetime], fact: str
) -> None:
    """It is what a drain is for; what else is there is left alone, for however long."""
    marks = TaskDeletionMarkRows(nikita.database)
    marks.put(moved(range(1, 4)))
    later(now, 9999)
    rows = row(range(1, 3)), row(range(3, 4), RUNNING, since=NOON), row(range(4, 6))

    plan = cycle(nikita, array, beta(*rows, state=QueueInstanceState([fact])))

    assert (plan.wipes, cell.deleted) == ((), [(1, (range(1, 3),))])
    assert marks.all()[1, 1] == dict.fromkeys((1, 2), TaskDeletionMark(wiped_for=NikitaDeletionReason.LEFT))


def test_a_task_that_its_owner_cancelled_is_deleted_where_no_work_can_start(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell
) -> None:
    """As those of a campaign that its owner cancelled."""
    TaskDeletionMarkRows(nikita.database).cancel(1, 1)

    cycle(nikita, array, beta(row(range(1, 6)), state=QueueInstanceState([QueueStartBlocker.DISABLED])))

    assert cell.deleted == [(1, (range(2, 3),))]


def test_a_task_that_was_put_back_is_moved_as_any_that_waits(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell
) -> None:
    """It may have been put back after it was marked; one that is not marked is left alone."""
    TaskDeletionMarkRows(nikita.database).put(moved(range(1, 3)))
    put_back = JobState([JobStateFact.WAITING, JobStateFact.RESTARTED])

    cycle(nikita, array, beta(row(range(1, 6), put_back)))

    assert cell.deleted == [(1, (range(1, 3),))]


def test_a_held_task_that_its_owner_cancelled_is_deleted(
    nikita: NikitaDeletionCycle, array: CampaignArray, cell: Cell
) -> None:
    """The hold may be of a move that was killed: nobody else would ever see to it."""
    marks = TaskDeletionMarkRows(nikita.database)
    marks.put(moved(range(1, 3)))
    marks.cancel(1, 1)

    cycle(nikita, array, beta(row(range(2, 3), JobState([JobStateFact.WAITING, JobStateFact.HELD]))))

    assert cell.deleted == [(1, (range(2, 3),))]


def test_after_a_deletion_that_hangs_its_owners_others_wait(
    nikita: NikitaDeletionCycle, cell: Cell, array: CampaignArray, now: list[datetime]
) -> None:
    """Each would cost its own 45 s, in every cycle."""
    tries: list[int] = []

    def hang(one: CampaignArray, places: tuple[range, ...]) -> None:
        del places
        tries.append(one.number)
        now[0] += timedelta(seconds=45)
        raise GridbridgeError("not done within 45 s")

    cell.delete_places = hang  # type: ignore[method-assign]
    seen = nikita.listed([array], beta(row(range(1, 6))))
    wipe = ArrayTaskDeletion(
        campaign=1, array=1, cluster="beta", wiped_for=NikitaDeletionReason.CANCELLED, places=(range(1, 2),)
    )

    for _ in range(2):
        nikita.apply(seen, NikitaDeletionPlan(cancelled=(wipe, wipe)))
    before = len(tries)
    now[0] += timedelta(seconds=61)
    nikita.apply(seen, NikitaDeletionPlan(cancelled=(wipe, wipe)))

    assert (before, len(tries)) == (1, 2)
