"""Nikita marks tasks before their deletion; the runner records the ends of marked tasks."""

import os
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

import pytest

from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.batch.gridengine import status
from gridbridge.campaigns.nikita import task_deletion_cycle
from gridbridge.campaigns.nikita.nikita_queries import execute_cancel_requests
from gridbridge.campaigns.nikita.task_deletion_cycle import NikitaDeletionCycle
from gridbridge.campaigns.store import campaign_files_of_owners, host_clock_jumps
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns import campaign as campaign_model
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignPrologueOrEpilogueStart
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    ArrayTaskDeletion,
    NikitaDeletionPlan,
    NikitaSituation,
    TaskDeletionMark,
)
from gridbridge.model.campaigns.task_deletions_and_preemptions import NikitaDeletionReason as Reason
from gridbridge.model.campaigns.task_index_and_attempt_texts import EPILOGUE, PROLOGUE
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.host_clocks import ClockJump, HostClockReadings
from gridbridge.model.job_and_queue_states import JobState, JobStateFact, QueueInstanceState, QueueStartBlocker
from gridbridge.model.site.site_section import SiteSection
from gridbridge.program.cluster_observer import ClusterSnapshotSharing, identify_cluster_query, query_result_to_share
from gridbridge.shell import program_lock_file
from gridbridge.shell.clock import Clock
from gridbridge.state.campaign_tables import live_campaign_jobs_at
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import (
    HELD,
    NOON,
    POSTGRESQL,
    RUNNING,
    WAITING,
    job_row,
    made_campaign,
    made_policy,
    made_snapshot,
    site_fixture,
)

REQUEUED = JobState([JobStateFact.WAITING, JobStateFact.RESTARTED])


class Cell:
    def __init__(self) -> None:
        self.deleted: list[tuple[int, tuple[range, ...]]] = []
        self.fails = False
        self.begun: tuple[range, ...] = ()  # tasks that start before their deletion

    def delete_array_tasks(self, array: campaign_model.CampaignArray, places: tuple[range, ...]) -> None:
        if self.fails:
            raise GridbridgeError("no answer")
        self.deleted.append((array.number, places))

    def delete_waiting_array_tasks(
        self, array: campaign_model.CampaignArray, places: tuple[range, ...]
    ) -> tuple[range, ...]:
        """Delete tasks that have not started; return the tasks that have."""
        self.delete_array_tasks(array, places)
        return self.begun


class NikitaSite(CampaignSite):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cell, self.now, self.leapt = Cell(), [NOON], [timedelta()]
        policy = made_policy("beta", site=SiteSection(cluster="alpha", state=f"sqlite:///{folder}/state.db"))
        clock = Clock(lambda: self.now[0].timestamp(), lambda: (self.now[0] - self.leapt[0]).timestamp())
        self.nikita = NikitaDeletionCycle(policy, clock, self.cell, f"{folder}/nikita.clocks")
        self.inbox = folder / "asked"  # inbox folder of requests
        for name in ("asked", "published/answers"):
            (folder / name).mkdir(parents=True)

    @cached_property
    def array(self) -> campaign_model.CampaignArray:
        self.insert(campaign())
        return self.send(5, 7)


_site = site_fixture(NikitaSite, "sqlite", POSTGRESQL)


def campaign(type_: CampaignType = CampaignType.DEFAULT) -> campaign_model.Campaign:
    return made_campaign(
        tasks=9, jdl=Jdl(name="n", type=type_, clusters={"beta": JdlSettingsAtCluster(exec_file="run")})
    )


def beta_snapshot(*rows: ClusterJobListRow, state: QueueInstanceState | None = None) -> dict[str, ClusterSnapshot]:
    queue = QueueInstanceStatus(name="all.q@n1", slots_used=0, slots_reserved=0, slots_total=10)
    return {"beta": made_snapshot(queues=(replace(queue, state=state) if state else queue,), jobs={7: rows})}


def cycle(
    site: NikitaSite, answers: dict[str, ClusterSnapshot], array: campaign_model.CampaignArray | None = None
) -> NikitaDeletionPlan:
    seen = site.nikita.situation_from_snapshots([array or site.array], answers)
    plan = site.nikita.decide(seen)
    site.nikita.apply(seen, plan)
    return plan


def later(site: NikitaSite, seconds: float) -> None:
    site.now[0] += timedelta(seconds=seconds)


def test_waiting_tasks_beyond_the_flood_rate_are_marked_and_deleted(site: NikitaSite) -> None:
    later(site, 61)

    cycle(site, beta_snapshot(job_row(range(1, 6))))

    assert site.cell.deleted == [(1, (range(2, 6),))]
    assert {*site.marks.deletion_marks()[1, 1]} == {2, 3, 4, 5}


def test_a_failed_deletion_is_repeated_except_for_started_tasks(site: NikitaSite) -> None:
    later(site, 61)
    site.cell.fails = True
    cycle(site, beta_snapshot(job_row(range(1, 6))))
    site.cell.fails = False

    cycle(site, beta_snapshot(job_row(range(1, 4)), job_row(range(4, 6), RUNNING, since=NOON)))

    assert site.cell.deleted == [(1, (range(2, 4),))]
    assert {*site.marks.deletion_marks()[1, 1]} == {2, 3}


@pytest.mark.parametrize(("waiting", "asked"), [(1, 0), (5, 1)], ids=["few", "a flood"])
def test_nikita_queries_a_cluster_again_before_a_deletion(
    site: NikitaSite, monkeypatch: pytest.MonkeyPatch, waiting: int, asked: int
) -> None:
    assert site.array
    later(site, 61)
    told, policy = [], site.nikita._policy
    told_then = beta_snapshot(job_row(range(1, waiting + 1)))["beta"]
    runs_now = beta_snapshot(job_row(range(1, 6), RUNNING, since=site.now[0]))["beta"]
    seen = replace(told_then, taken_at=site.now[0])
    sent = live_campaign_jobs_at(site.nikita.database, "beta")
    shared = query_result_to_share(
        seen, sent, identify_cluster_query(configured_cluster_access(policy, "beta"), ()), site.now[0]
    )
    ClusterSnapshotSharing(site.nikita.database, Clock()).share_query_result("beta", shared)
    monkeypatch.setattr(status, "query_cluster_snapshot", lambda *_: told.append(1) or (runs_now, 0.1))  # type: ignore[func-returns-value]
    later(site, 10)

    plan = site.nikita.decide(site.nikita.gather())

    assert plan == NikitaDeletionPlan()
    assert len(told) == asked


def test_a_start_time_before_the_submission_is_corrected(site: NikitaSite) -> None:
    """The cluster's clock may be hours late."""
    later(site, 60)
    hours_ago = NOON - timedelta(hours=9)

    plan = cycle(site, beta_snapshot(job_row(range(1, 6), RUNNING, since=hours_ago)))

    assert plan == NikitaDeletionPlan()
    assert site.cell.deleted == []


@pytest.mark.parametrize(
    ("state", "since", "wiped_for"),
    [(WAITING, None, Reason.WAITED), (RUNNING, NOON, Reason.OVERRAN)],
    ids=["waits", "runs"],
)
def test_a_forward_jump_of_the_clock_deletes_no_task(
    site: NikitaSite, caplog: pytest.LogCaptureFixture, state: JobState, since: datetime | None, wiped_for: Reason
) -> None:
    there = beta_snapshot(job_row(range(1, 2), state, since=since))
    assert cycle(site, there) == NikitaDeletionPlan()
    site.leapt[0] += timedelta(hours=9)
    later(site, 9 * 3600 + 60)

    assert [cycle(site, there) for _ in range(2)] == [NikitaDeletionPlan()] * 2
    assert [one.getMessage() for one in caplog.records] == ["event=clock_set by_s=+32400"]
    later(site, 3600 + 1800)
    (wipe,) = cycle(site, there).wipes
    assert wipe.wiped_for is wiped_for


@pytest.mark.parametrize("state", [HELD, REQUEUED, JobState([JobStateFact.WAITING, JobStateFact.DELETING])])
def test_held_requeued_or_deleted_tasks_are_left_alone(site: NikitaSite, state: JobState) -> None:
    later(site, 9999)

    assert cycle(site, beta_snapshot(job_row(range(1, 6), state))) == NikitaDeletionPlan()


def test_no_task_is_deleted_at_a_silent_or_disabled_cluster(site: NikitaSite) -> None:
    later(site, 9999)
    lost = beta_snapshot(job_row(range(1, 6)), state=QueueInstanceState([QueueStartBlocker.UNREACHABLE], "au"))

    assert cycle(site, lost) == NikitaDeletionPlan()
    assert cycle(site, {}) == NikitaDeletionPlan()


def test_a_stored_deletion_decision_is_replayed(site: NikitaSite) -> None:
    later(site, 901)
    seen = site.nikita.situation_from_snapshots([site.array], beta_snapshot(job_row(range(1, 6))))
    plan = site.nikita.decide(seen)

    entry = task_deletion_cycle.nikita_journal_entry(seen, plan, NOON)

    assert task_deletion_cycle.replay_nikita_deletions(entry.inputs) == entry.inputs["actions"]
    assert entry.sentence == "wiped: 5 tasks of campaign 1 at beta, which waited too long"
    assert task_deletion_cycle.nikita_journal_entry(seen, NikitaDeletionPlan(), NOON) is None
    assert isinstance(seen, NikitaSituation)


def test_a_deletion_mark_lasts_until_the_attempts_end(site: NikitaSite) -> None:
    site.marks.mark_tasks_for_deletion(mark(range(1, 3), Reason.OVERFLOW))
    site.end(site.attempts(site.array)[:1], campaign_model.TaskAttemptOutcome.WIPED)
    site.marks.remove_marks_of_ended_attempts()

    assert {*site.marks.deletion_marks()[1, 1]} == {2}


@pytest.mark.parametrize(
    ("row_state", "queue_state"),
    [
        pytest.param(WAITING, None, id="it waits"),
        pytest.param(REQUEUED, None, id="it was put back"),
        pytest.param(RUNNING, QueueInstanceState([QueueStartBlocker.UNREACHABLE], "au"), id="no work can start"),
    ],
)
def test_tasks_of_a_cancelled_campaign_are_deleted_and_not_marked(
    site: NikitaSite, row_state: JobState, queue_state: QueueInstanceState | None
) -> None:
    assert site.array
    site.campaigns.set_campaign_state(1, campaign_model.CampaignState.CANCELLED, NOON)
    cycle(site, beta_snapshot(job_row(range(1, 6), row_state, since=NOON), state=queue_state))
    cycle(site, beta_snapshot(job_row(range(1, 6), JobState([JobStateFact.RUNNING, JobStateFact.DELETING]))))

    assert site.cell.deleted == [(1, (range(1, 6),))]
    assert not site.marks.deletion_marks()


CLOSED = [QueueInstanceState([QueueStartBlocker.DISABLED], "d"), QueueInstanceState([QueueStartBlocker.LOADED], "a")]


@pytest.mark.parametrize("state", CLOSED, ids=["disabled", "in alarm"])
@pytest.mark.parametrize("task_state", [WAITING, RUNNING], ids=["waits", "runs"])
def test_a_cancelled_task_is_deleted_at_a_disabled_cluster(
    site: NikitaSite, state: QueueInstanceState, task_state: JobState
) -> None:
    assert site.array
    assert site.marks.mark_task_cancelled(1, 2)
    rows = job_row(range(1, 6), task_state, since=NOON - timedelta(days=9))
    old = replace(site.array, intended_at=NOON - timedelta(days=9))

    cycle(site, beta_snapshot(rows, state=state), old)

    assert site.cell.deleted == [(1, (range(3, 4),))]
    assert {*site.marks.deletion_marks()[1, 1]} == {3}


def started_step(site: NikitaSite, step: str) -> campaign_model.CampaignArray:
    wish = JdlSettingsAtCluster(exec_file="run", prologue="make", epilogue="clean")
    site.insert(replace(campaign(), jdl=Jdl(name="n", clusters={"beta": wish})))
    made = site.tries.create_prologue_or_epilogue(
        CampaignPrologueOrEpilogueStart(campaign=1, cluster="beta", step=step, attempt=1), NOON
    )
    site.campaigns.set_array_state(made, campaign_model.ArraySubmissionState.RELEASED, 7)
    return replace(made, job_id=7)


@pytest.mark.parametrize("step", [PROLOGUE, EPILOGUE])
def test_a_prologue_or_epilogue_is_deleted_only_if_it_overruns(site: NikitaSite, step: str) -> None:
    array = started_step(site, step)
    later(site, 99_999)

    cycle(site, beta_snapshot(job_row(range(1, 2))), array)
    left = [*site.cell.deleted]
    (wipe,) = cycle(site, beta_snapshot(job_row(range(1, 2), RUNNING, since=NOON)), array).wipes

    assert (left, wipe.wiped_for) == ([], Reason.OVERRAN)


def test_an_unneeded_prologue_is_deleted_only_while_it_waits(site: NikitaSite) -> None:
    array = started_step(site, PROLOGUE)
    unneeded = mark(range(1, 2), Reason.UNNEEDED)
    site.marks.mark_tasks_for_deletion(unneeded)
    plan = cycle(site, beta_snapshot(job_row(range(1, 2), RUNNING, since=NOON)), array)
    left = [*site.cell.deleted], site.marks.deletion_marks()
    site.marks.mark_tasks_for_deletion(unneeded)
    cycle(site, beta_snapshot(job_row(range(1, 2))), array)

    assert (left, len(plan.spared)) == (([], {}), 1)
    assert site.cell.deleted == [(1, (range(1, 2),))]
    assert site.marks.deletion_marks()[1, 1] == {1: TaskDeletionMark(wiped_for=Reason.LEFT)}


def test_the_prologue_of_a_cancelled_campaign_is_deleted(site: NikitaSite) -> None:
    array = started_step(site, PROLOGUE)
    site.campaigns.set_campaign_state(1, campaign_model.CampaignState.CANCELLED)

    cycle(site, beta_snapshot(job_row(range(1, 2))), array)

    assert site.cell.deleted == [(1, (range(1, 2),))]


def test_an_epilogue_is_deleted_only_after_the_second_cancellation(site: NikitaSite) -> None:
    array = started_step(site, EPILOGUE)
    site.campaigns.set_campaign_state(1, campaign_model.CampaignState.CANCELLED)

    cycle(site, beta_snapshot(job_row(range(1, 2), RUNNING, since=NOON)), array)
    left = [*site.cell.deleted]
    site.campaigns.set_campaign_state(1, campaign_model.CampaignState.CANCELLED, NOON)  # the second cancellation
    cycle(site, beta_snapshot(job_row(range(1, 2), RUNNING, since=NOON)), array)

    assert (left, site.cell.deleted) == ([], [(1, (range(1, 2),))])


def execute_cancellations(site: NikitaSite) -> int:
    around = site.inbox.parent
    places = (str(site.inbox), f"{around}/published", f"{around}/runner.lock")
    return execute_cancel_requests(site.nikita.database, Clock(NOON.timestamp), *places)


def ask(folder: Path, verb: str, uid: int = 1000) -> str:
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


def request_tokens(folder: Path) -> list[str]:
    return [path.name.rpartition(".")[2] for path in folder.rglob("*") if path.is_file()]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="it gives files away")


@needs_root
def test_without_a_runner_nikita_executes_only_cancellations(site: NikitaSite) -> None:
    assert site.array
    kill, other = ask(site.inbox, "cancel"), ask(site.inbox, "purge")
    taken = execute_cancellations(site)

    assert (taken, site.campaign.state) == (1, campaign_model.CampaignState.CANCELLED)
    assert request_tokens(site.inbox) == [other]
    assert list((site.inbox / "u.1000").iterdir()), "who asks may take it back"
    assert kill in "".join(map(str, (site.inbox.parent / "published").rglob("*")))
    assert execute_cancellations(site) == 0


@needs_root
def test_nobody_cancels_another_users_campaign(site: NikitaSite) -> None:
    assert site.array
    ask(site.inbox, "cancel", uid=1001)
    execute_cancellations(site)

    assert site.campaign.state is campaign_model.CampaignState.IN_TREATMENT


@needs_root
def test_a_running_runner_executes_cancellations_itself(site: NikitaSite) -> None:
    assert site.array
    ask(site.inbox, "cancel")
    with program_lock_file.MomentaryProgramLock(str(site.inbox.parent / "runner.lock")) as is_ours:
        taken = execute_cancellations(site)

    assert (is_ours, taken, site.campaign.state) == (True, 0, campaign_model.CampaignState.IN_TREATMENT)
    assert len(request_tokens(site.inbox)) == 1


def mark(places: range, wiped_for: Reason = Reason.MOVED) -> ArrayTaskDeletion:
    return ArrayTaskDeletion(campaign=1, array=1, cluster="beta", wiped_for=wiped_for, places=(places,))


def test_only_waiting_tasks_are_moved(site: NikitaSite) -> None:
    site.marks.mark_tasks_for_deletion(mark(range(1, 4)))
    site.cell.begun = (range(2, 3),)

    cycle(site, beta_snapshot(job_row(range(1, 6))))

    assert site.cell.deleted == [(1, (range(1, 4),))]
    assert site.marks.deletion_marks()[1, 1] == dict.fromkeys((1, 3), TaskDeletionMark(wiped_for=Reason.LEFT))


def test_tasks_that_wait_too_long_are_deleted_unless_they_start(site: NikitaSite) -> None:
    later(site, 9999)
    site.cell.begun = (range(2, 3),)

    plan = cycle(site, beta_snapshot(job_row(range(1, 4))))

    assert [one.wiped_for for one in plan.wipes] == [Reason.WAITED]
    left = site.marks.deletion_marks()[1, 1]
    assert left == dict.fromkeys((1, 3), TaskDeletionMark(wiped_for=Reason.NEVER_BEGAN))


def test_a_failed_deletion_of_held_tasks_is_repeated(site: NikitaSite) -> None:
    later(site, 9999)
    site.cell.fails = True
    cycle(site, beta_snapshot(job_row(range(1, 4))))
    site.cell.fails = False

    cycle(site, beta_snapshot(job_row(range(1, 4), HELD)))

    assert site.cell.deleted == [(1, (range(1, 4),))]


def test_a_failed_move_keeps_its_marks(site: NikitaSite) -> None:
    site.marks.mark_tasks_for_deletion(mark(range(1, 4)))
    site.cell.fails = True

    cycle(site, beta_snapshot(job_row(range(1, 6))))

    assert {mark.wiped_for for mark in site.marks.deletion_marks()[1, 1].values()} == {Reason.MOVED}


@pytest.mark.parametrize(
    ("reason", "rows", "deleted"),
    [
        (Reason.LEFT, [job_row(range(1, 2)), job_row(range(2, 3), HELD)], (range(1, 2), range(2, 3))),
        (Reason.MOVED, [job_row(range(1, 4), HELD), job_row(range(4, 6))], (range(1, 3),)),
        (Reason.MOVED, [job_row(range(1, 6), REQUEUED)], (range(1, 3),)),
    ],
    ids=["listed again after its move", "held before a kill", "requeued"],
)
def test_marked_tasks_are_moved_while_they_are_listed(
    site: NikitaSite, reason: Reason, rows: list[ClusterJobListRow], deleted: tuple[range, ...]
) -> None:
    site.marks.mark_tasks_for_deletion(mark(range(1, 3), reason))

    cycle(site, beta_snapshot(*rows))

    assert site.cell.deleted == [(1, deleted)]


@pytest.mark.parametrize("fact", [QueueStartBlocker.DISABLED, QueueStartBlocker.UNREACHABLE])
def test_only_waiting_marked_tasks_are_moved_from_a_disabled_cluster(site: NikitaSite, fact: str) -> None:
    site.marks.mark_tasks_for_deletion(mark(range(1, 4)))
    later(site, 9999)
    rows = job_row(range(1, 3)), job_row(range(3, 4), RUNNING, since=NOON), job_row(range(4, 6))

    plan = cycle(site, beta_snapshot(*rows, state=QueueInstanceState([fact])))

    assert (plan.wipes, site.cell.deleted) == ((), [(1, (range(1, 3),))])
    assert site.marks.deletion_marks()[1, 1] == dict.fromkeys((1, 2), TaskDeletionMark(wiped_for=Reason.LEFT))


def test_a_held_task_that_its_owner_cancelled_is_deleted(site: NikitaSite) -> None:
    """Nikita may have held the task for a move before a kill."""
    assert site.array
    site.marks.mark_tasks_for_deletion(mark(range(1, 3)))
    site.marks.mark_task_cancelled(1, 1)

    cycle(site, beta_snapshot(job_row(range(2, 3), HELD)))

    assert site.cell.deleted == [(1, (range(2, 3),))]


def test_a_hanging_deletion_postpones_further_deletions_of_its_owner(site: NikitaSite) -> None:
    tries: list[int] = []

    def hang(one: campaign_model.CampaignArray, places: tuple[range, ...]) -> None:
        del places
        tries.append(one.number)
        site.now[0] += timedelta(seconds=45)
        raise GridbridgeError("not done within 45 s")

    site.cell.delete_array_tasks = hang  # type: ignore[method-assign]
    seen = site.nikita.situation_from_snapshots([site.array], beta_snapshot(job_row(range(1, 6))))
    wipe = mark(range(1, 2), Reason.CANCELLED)

    for _ in range(2):
        site.nikita.apply(seen, NikitaDeletionPlan(cancelled=(wipe, wipe)))
    before = len(tries)
    site.now[0] += timedelta(seconds=61)
    site.nikita.apply(seen, NikitaDeletionPlan(cancelled=(wipe, wipe)))

    assert (before, len(tries)) == (1, 2)


READINGS = HostClockReadings(boot="b", wall=NOON, steady_s=7.5, leaps=(ClockJump(at=NOON, by_s=3600.0),))


def test_stored_clock_readings_are_read_back(tmp_path: Path) -> None:
    path = f"{tmp_path}/nikita.clocks"
    host_clock_jumps.save_host_clock_readings(READINGS, path)

    assert host_clock_jumps.read_host_clock_readings(path) == READINGS


@pytest.mark.parametrize("text", [None, "", "[]", '{"leaps": 1}', '{"leaps": [], "wall": "noon"}'])
def test_unreadable_clock_readings_are_ignored(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "nikita.clocks"
    if text is not None:
        path.write_text(text)

    assert host_clock_jumps.read_host_clock_readings(str(path)) is None
