"""Rounds about waiting tasks: marks of campaign tasks and requested recalls of transferred tasks."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gridbridge.batch.gridengine import home_start_guards as home_tasks
from gridbridge.batch.gridengine import status
from gridbridge.campaigns.store import published_campaign_files
from gridbridge.errors import ConfigError, GridbridgeError
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome, WaitingTaskRange
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.published_campaigns_and_tasks import RebalancedTaskAttempt
from gridbridge.model.campaigns.task_deletions_and_preemptions import ArrayTaskDeletion, NikitaDeletionReason
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.job_and_queue_states import UNSEEN
from gridbridge.model.job_request import JobRequest
from gridbridge.model.site.site_section import SiteSection as SiteSection
from gridbridge.model.site_configuration import ClusterSection
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection
from gridbridge.model.transfer.transfers_and_actions import (
    OwnerSeenInHomeJobList,
    TaskMoveStage,
    Transfer,
    WaitingTaskMove,
)
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, TransferFailureCause, TransferMessage
from gridbridge.model.transfer_messages_in_spool import TransferOutcome as HowItEnds
from gridbridge.program import service_cycle
from gridbridge.rebalance.mover import rebalance_decision_journal, rebalance_task_observer, task_rebalancer
from gridbridge.rebalance.mover.rebalance_plan_by_target import RebalanceTarget, RebalanceTargetKind
from gridbridge.rebalance.mover.rebalance_task_observer import TransferredTaskReader
from gridbridge.rebalance.mover.task_rebalancer import WaitingTaskRebalancer
from gridbridge.rebalance.replica_act_and_move_tables import HOST, MoveAndVerificationTimeRows
from gridbridge.shell.clock import Clock
from gridbridge.state.decision_journal import DecisionJournal, InputsNotJournalled
from gridbridge.transfer.transfer_history_rows import TaskMoveRows, TransferRows
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import NOON, RUNNING, WAITING, job_row, made_campaign, made_policy, made_snapshot
from tests.decisions.transfer.test_transfer_policy import a_row, a_transfer

TASKS = 6


class Site(CampaignSite):
    """Six tasks of campaign 1 wait at beta, which has no free slot; gamma is idle."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, made_campaign("beta", "gamma", tasks=TASKS))
        state = SiteSection(cluster="alpha", state=f"sqlite:///{folder}/state.db")
        self.policy = made_policy("beta", "gamma", site=state)
        self.now = NOON + timedelta(minutes=5)
        self.running: set[int] = set()  # indices of running tasks
        self.gone: set[int] = set()
        self.silent: set[str] = set()  # clusters that don't answer
        self.asked = 0
        self._looks = 0
        self.starts_when_asked = 0  # number of the query in which task 1 has started
        self.notes = MoveAndVerificationTimeRows(self.database)
        self.send(TASKS, 7)
        monkeypatch.setattr(status, "query_cluster_snapshot", self._snapshot)
        monkeypatch.setattr(rebalance_task_observer.drains, "list_drained_clusters", lambda: frozenset())

    def _snapshot(self, _: object, cluster: str, *__: object) -> tuple[ClusterSnapshot, float]:
        self.asked += cluster == "beta"
        if cluster in self.silent:
            raise GridbridgeError("no answer")
        is_beta, begun = cluster == "beta", set(self.running)
        begun |= {1} if self.asked == self.starts_when_asked else set()
        indices = sorted({*range(1, TASKS + 1)} - self.gone)
        rows = tuple(job_row(range(n, n + 1), RUNNING if n in begun else WAITING) for n in indices)
        queue = QueueInstanceStatus(name="all.q@n1", slots_used=4 if is_beta else 0, slots_reserved=0, slots_total=4)
        jobs, free_slots = ({7: rows}, 0) if is_beta else ({}, 4)
        snapshot = {"cluster": cluster, "taken_at": self.now, "queues": (queue,), "jobs": jobs}
        return made_snapshot(**snapshot, free_slots=free_slots), 0.0

    def rebalance(self, asked: RebalanceTarget | None = None, *, is_dry: bool = False) -> tuple[Any, Any]:
        clock = Clock(lambda: self.now.timestamp(), lambda: 0.0)
        one = WaitingTaskRebalancer(self.policy, clock, asked or target("host", "beta"), is_dry=is_dry)
        planned = service_cycle.run_cycle_once(one, lambda _: None, is_dry=is_dry)
        one.database.close()
        return planned, one.checked

    def looks(self) -> int:
        """Return the number of earlier queries of gamma."""
        self._looks += 1
        return self._looks - 1

    def marked(self) -> list[int]:
        found = self.marks.deletion_marks().get((1, 1), {})
        assert {mark.wiped_for for mark in found.values()} <= {NikitaDeletionReason.MOVED, NikitaDeletionReason.LEFT}
        return sorted(found)


def target(what: str, name: str) -> RebalanceTarget:
    return RebalanceTarget(what=RebalanceTargetKind(what), name=name)


@pytest.fixture(name="site")
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def test_tasks_that_wait_at_a_full_cluster_are_marked_for_a_move(site: Site) -> None:
    planned, checked = site.rebalance()
    (entry,) = DecisionJournal(site.database).last_decisions(9)

    assert [(move.source, move.target) for move in planned.advice.moves] == [("beta", "gamma")] * 4
    assert checked.moves == planned.advice.moves
    assert site.marked() == [1, 2, 3, 4]
    assert entry.sentence == planned.advice.sentence
    assert rebalance_decision_journal.replay_rebalance_decision(entry.inputs) == entry.inputs["actions"]


def test_replay_of_a_decision_whose_inputs_were_too_large_for_the_journal_is_refused(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalance_decision_journal, "MOST_ROWS", 8)

    site.rebalance()
    (kept,) = DecisionJournal(site.database).last_decisions(9)

    assert len(site.marked()) == len(kept.inputs["actions"]) - 1 == 4  # type: ignore[arg-type]  # a list
    with pytest.raises(InputsNotJournalled, match="the inputs were not kept: 9 hosts, jobs and tasks"):
        rebalance_decision_journal.replay_rebalance_decision(kept.inputs)


def test_the_journal_entry_about_a_job_contains_only_the_jobs_own_tasks(sent_site: "SentSite") -> None:
    sent_site.rebalance(target("job", "gb.alpha.7"))
    (kept,) = DecisionJournal(sent_site.database).last_decisions(9)

    assert {one["job"] for one in kept.inputs["snapshot"]["tasks"]} == {"gb.alpha.7"}  # type: ignore[index]  # JSON
    assert rebalance_decision_journal.replay_rebalance_decision(kept.inputs) == kept.inputs["actions"]


def test_a_dry_run_marks_no_task_and_writes_no_journal_entry(site: Site) -> None:
    planned, _ = site.rebalance(is_dry=True)
    kept = DecisionJournal(site.database).last_decisions(9)

    assert planned.advice.moves
    assert (site.marked(), kept) == ([], ())


def test_a_campaign_task_that_starts_after_the_plan_is_not_marked(site: Site) -> None:
    site.starts_when_asked = 2

    _, checked = site.rebalance()

    assert site.marked() == [2, 3, 4]
    assert [one.reason for one in checked.dropped] == ["the task is running"]


def test_a_task_that_its_owner_cancels_during_the_round_keeps_the_owners_mark(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round has already read the marks again when the owner cancels the task."""

    def names() -> frozenset[str]:
        if site.asked == 2:
            site.marks.mark_task_cancelled(1, 0)
        return frozenset()

    monkeypatch.setattr(rebalance_task_observer.drains, "list_drained_clusters", names)

    _, checked = site.rebalance()
    found = site.marks.deletion_marks()[1, 1]

    assert len(checked.moves) == 4
    assert found[1].wiped_for is NikitaDeletionReason.UNWANTED
    assert {found[place].wiped_for for place in (2, 3, 4)} == {NikitaDeletionReason.MOVED}


@pytest.mark.parametrize("why", [NikitaDeletionReason.MOVED, NikitaDeletionReason.OVERFLOW])
def test_an_owners_deletion_mark_is_neither_replaced_nor_removed_by_other_marks(
    site: Site, why: NikitaDeletionReason
) -> None:
    wipe = ArrayTaskDeletion(campaign=1, array=1, cluster="beta", wiped_for=why, places=(range(1, 3),))
    marks = site.marks
    marks.mark_task_cancelled(1, 0)
    marks.mark_tasks_for_deletion(wipe)
    put = marks.deletion_marks()[1, 1]
    marks.remove_deletion_marks(wipe)
    left = marks.deletion_marks()[1, 1]

    assert [put[place].wiped_for for place in (1, 2)] == [NikitaDeletionReason.UNWANTED, why]
    assert [*left] == [1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda site: site.notes.record_pause_of_moves(NOON), task_rebalancer.QUIESCED),
        (lambda site: site.notes.record_note_times(HOST, ["gamma"], site.now), "gamma got a task less than 180 s ago"),
    ],
    ids=["rebalancing is paused", "the target got another task"],
)
def test_planned_moves_are_dropped_if_the_state_file_forbids_them_before_they_are_made(
    site: Site, monkeypatch: pytest.MonkeyPatch, change: Callable[[Site], None], reason: str
) -> None:
    _at_second_look(site, monkeypatch, lambda: change(site))

    _, checked = site.rebalance()

    assert site.marked() == []
    assert {rejected.reason for rejected in checked.dropped} == {reason}


@pytest.mark.parametrize(
    ("asked", "dropped"),
    [(target("host", "beta"), ["the owner wants the job to stay"]), (target("job", "gb.alpha.7"), [])],
    ids=["host", "job"],
)
def test_a_jobs_context_that_forbids_moves_is_read_again_before_the_move(
    sent_site: "SentSite", monkeypatch: pytest.MonkeyPatch, asked: RebalanceTarget, dropped: list[str]
) -> None:
    _at_second_look(sent_site, monkeypatch, lambda: sent_site.contexts.update({7: (("gridbridge_balance", "no"),)}))

    _, checked = sent_site.rebalance(asked)

    assert len(checked.moves) == 1
    assert [rejected.reason for rejected in checked.dropped] == dropped


def _at_second_look(site: Site, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    answer = site._snapshot

    def snapshot(where: object, cluster: str, *more: object) -> tuple[ClusterSnapshot, float]:
        if cluster == "gamma" and site.looks():
            act()
        return answer(where, cluster, *more)

    monkeypatch.setattr(status, "query_cluster_snapshot", snapshot)


@pytest.mark.parametrize(("minutes", "moved"), [(14, [1, 2, 3, 4]), (16, [1, 2, 3, 4, 5, 6])], ids=["going", "stuck"])
def test_tasks_whose_move_has_failed_for_15_minutes_do_not_delay_other_moves(
    site: Site, minutes: int, moved: list[int]
) -> None:
    """For example, the owner's ssh key was removed from the cluster, and nikita can't delete the tasks."""
    site.rebalance()
    site.now += timedelta(minutes=minutes)
    planned, _ = site.rebalance()

    assert site.marked() == moved
    assert len(planned.advice.moves) == len(moved) - 4


@pytest.mark.parametrize(
    ("rules", "days", "is_known"),
    [
        ({}, 6, True),
        ({}, 8, False),
        ({"host_rest_s": 30 * 86400.0}, 29, True),
        ({"job_rest_s": 30 * 86400.0}, 29, True),
        ({"verify_every_s": 30 * 86400.0}, 29, True),
        ({"job_rest_s": 30 * 86400.0}, 31, False),
    ],
)
def test_records_of_moves_are_kept_for_a_week_and_at_least_for_the_longest_pause(
    site: Site, rules: dict[str, float], days: int, is_known: bool
) -> None:
    site.policy = replace(site.policy, rebalance=replace(site.policy.rebalance, **rules))
    site.notes.record_note_times(HOST, ["delta"], site.now - timedelta(days=days))
    site.rebalance()

    known = set(site.notes.recent_move_times().hosts)

    assert known == {"gamma", *(["delta"] if is_known else [])}


@pytest.mark.parametrize("mark", [NikitaDeletionReason.MOVED, NikitaDeletionReason.LEFT])
def test_a_deleted_task_counts_as_moving_until_the_runner_submits_the_task_again(
    site: Site, mark: NikitaDeletionReason
) -> None:
    site.rebalance()
    places = (range(1, 5),)
    wipe = ArrayTaskDeletion(campaign=1, array=1, cluster="beta", wiped_for=mark, places=places)
    site.marks.mark_tasks_for_deletion(wipe)
    site.gone = {1, 2, 3, 4}
    site.now += timedelta(seconds=site.policy.rebalance.host_rest_s)

    planned, _ = site.rebalance(RebalanceTarget())

    assert planned.advice.sentence == "4 tasks are being moved: no other move begins"


@pytest.mark.parametrize(("silent_s", "is_reported"), [(299, False), (300, True)])
def test_tasks_at_a_cluster_that_has_been_silent_for_5_minutes_are_not_moved(
    site: Site, silent_s: int, is_reported: bool
) -> None:
    """The cluster may still start the tasks."""
    site.silent = {"beta"}
    silence = {"kind": CampaignEventSubject.CLUSTER, "campaign": 0, "last_at": site.now}
    site.open_event(CampaignEventCode.GET_JOBS, opened_at=site.now - timedelta(seconds=silent_s), **silence)

    for asked in (RebalanceTarget(), FAIL):
        planned, _ = site.rebalance(asked)

        why = {one.reason for one in planned.advice.rejected}
        silent = "the cluster does not answer and may start the task: a moved task would run twice"
        assert (planned.advice.moves, why) == ((), {silent} if is_reported else set())
        assert len(planned.advice.rejected) == (TASKS if is_reported else 0)
        assert ("beta is lost: nothing is moved; the sizes of the disks are unknown; 6 tasks stay at beta"
                in planned.advice.sentence) is is_reported  # fmt: skip
    assert site.marked() == []


def silence(*clusters: str) -> Callable[[Site], None]:
    return lambda site: site.silent.update(clusters)


@pytest.mark.parametrize(
    "change",
    [
        silence("beta"),
        silence("gamma"),
        lambda site: site.open_event(CampaignEventCode.BLACKLIST, cluster="gamma"),
        lambda site: setattr(site, "now", NOON + timedelta(seconds=30)),
    ],
    ids=["the source is silent", "the target is silent", "the target is closed", "the tasks have waited for a moment"],
)
def test_no_task_of_a_campaign_is_moved_for_which_the_move_is_uncertain_or_useless(
    site: Site, change: Callable[[Site], None]
) -> None:
    change(site)

    planned, _ = site.rebalance(RebalanceTarget())

    assert (planned.advice.moves, site.marked()) == ((), [])


def test_no_task_is_moved_while_rebalancing_is_paused(site: Site) -> None:
    site.notes.record_pause_of_moves(NOON)
    quiet, _ = site.rebalance()
    site.notes.record_pause_of_moves(None)
    planned, _ = site.rebalance()

    assert quiet.advice.moves == ()
    assert "quiesce --off" in quiet.advice.sentence
    assert planned.advice.moves


def test_a_cluster_that_received_tasks_gets_no_more_within_the_pause(site: Site) -> None:
    site.notes.record_note_times(HOST, ["gamma"], site.now)
    soon, _ = site.rebalance()
    site.now += timedelta(seconds=site.policy.rebalance.host_rest_s)
    later, _ = site.rebalance()

    assert soon.advice.moves == ()
    assert "gamma got a task less than 180 s ago" in {one.reason for one in soon.advice.rejected}
    assert len(later.advice.moves) > 0


def test_the_moves_of_campaign_tasks_are_published(site: Site, tmp_path: Path) -> None:
    moved = site.end(site.attempts()[:2], TaskAttemptOutcome.MOVED)
    waiting = (WaitingTaskRange(first=one.task, last=one.task, attempt=2) for one in moved)
    site.campaigns.add_unsent_tasks(1, *waiting)
    site.send(cluster="gamma")

    tasks = site.tasks.submitted_tasks(1, 0, TASKS)
    published_campaign_files.publish_campaign_task_file(1, 0, tasks, str(tmp_path))

    assert [one.moved for one in tasks if one.moved] == [
        (RebalancedTaskAttempt(attempt=1, cluster="beta", to="gamma"),),
        (RebalancedTaskAttempt(attempt=1, cluster="beta"),),
    ]
    assert published_campaign_files.read_published_task_file(1, 0, str(tmp_path)) == {one.number: one for one in tasks}


class SentSite(Site):
    """The same site, with two transferred tasks at beta: job 40 and job 41."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, monkeypatch)
        queues = {
            f"transfer-{name}": TransferQueueSection(cluster=name, pending_limit=9, slots=9)
            for name in ("beta", "gamma")
        }
        clusters = {name: ClusterSection() for name in ("alpha", "beta", "gamma")}
        self.policy = replace(self.policy, clusters=clusters, queues=queues)
        self.letters = {40: "qw", 41: "qw"}  # states of the remote jobs at beta
        self.slots = 1  # slots of each transferred task
        self.at_gamma = 0  # number of a running job at gamma
        self.contexts: dict[int, tuple[tuple[str, str], ...]] = {7: (), 8: ()}
        monkeypatch.setattr(home_tasks, "query_job_requests", self._requests_of)
        self.moves, self.transfers = TaskMoveRows(self.database), TransferRows(self.database)
        self.keep(*map(sent, self.letters))

    def keep(self, *transfers: Transfer) -> None:
        for transfer in transfers:
            self.transfers.insert_or_update_transfer(transfer)

    def _snapshot(self, where: object, cluster: str, *more: object) -> tuple[ClusterSnapshot, float]:
        seen, took_s = super()._snapshot(where, cluster, *more)
        if cluster == "beta":
            begun = self.asked == self.starts_when_asked
            letters = self.letters | ({40: "r"} if begun else {})
            seen = replace(seen, jobs=_rows(letters, self.slots))  # beta lists no task of the campaign
        if cluster == "gamma" and self.at_gamma:
            seen = replace(seen, jobs=_rows({self.at_gamma: "r"}))
        if cluster == "alpha":
            every = (("all.q@n1", 4), ("transfer-beta@m", 0), ("transfer-gamma@m", 0))
            queues = tuple(
                QueueInstanceStatus(name=name, slots_used=used, slots_reserved=0, slots_total=4) for name, used in every
            )
            seen = replace(seen, queues=queues, free_slots=0)
        return seen, took_s

    def _requests_of(self, _: object, jobs: tuple[int, ...]) -> dict[int, JobRequest]:
        if "alpha" in self.silent:
            raise GridbridgeError("no answer")
        return {job: JobRequest(context=self.contexts[job]) for job in jobs}

    def asked_moves(self) -> dict[str, tuple[str, str]]:
        return {one.name: (one.source, one.target) for one in self.moves.unfinished_task_moves()}


def _rows(letters: dict[int, str], slots: int = 1) -> dict[int, tuple[ClusterJobListRow, ...]]:
    return {job: (a_row(job, state, slots=slots, since=None),) for job, state in letters.items() if state}


def sent(job: int) -> Transfer:
    times = dict.fromkeys(("created_at", "updated_at", "since"), NOON)
    identity = {"name": f"gb.alpha.{job - 33}.0.1", "uid": 1000, "remote_id": job}
    return a_transfer(**identity, **times, local_state=UNSEEN, remote_state=UNSEEN, listed=OwnerSeenInHomeJobList.YES)


@pytest.fixture(name="sent_site")
def _sent_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SentSite:
    return SentSite(tmp_path, monkeypatch)


FAIL = target("fail", "beta")


def move_to_gamma(name: str = "gb.alpha.7.0.1", **other: Any) -> WaitingTaskMove:
    known = {"uid": 1000, "source": "beta", "target": "gamma", "asked_at": NOON}
    return WaitingTaskMove(name=name, **known | other)


def test_moves_of_transferred_tasks_are_requested_from_the_poller(sent_site: SentSite) -> None:
    planned, checked = sent_site.rebalance(FAIL)

    assert len(checked.moves) == 2
    assert {one.job for one in planned.advice.moves} == {"gb.alpha.7", "gb.alpha.8"}
    assert sent_site.asked_moves() == {"gb.alpha.7.0.1": ("beta", "gamma"), "gb.alpha.8.0.1": ("beta", "gamma")}
    assert sent_site.marked() == []


@pytest.mark.parametrize("stage", [TaskMoveStage.ASKED, TaskMoveStage.HOME])
@pytest.mark.parametrize("goes_on", [False, True], ids=["nowhere yet", "at gamma"])
def test_a_transferred_task_counts_as_moving_until_the_move_has_ended(
    sent_site: SentSite, stage: TaskMoveStage, goes_on: bool
) -> None:
    sent_site.moves.insert_or_update_task_move(move_to_gamma(stage=stage))
    sent_site.keep(sent(40).with_changes(verdict=TransferMessage(outcome=HowItEnds.EXIT)))
    if goes_on:
        after = sent(40).with_changes(name="gb.alpha.7.0.2", remote="gamma", queue="transfer-gamma")
        sent_site.keep(after)
    sent_site.letters[40] = ""
    sent_site.at_gamma = 40 if goes_on else 0

    planned, _ = sent_site.rebalance(target("host", "gamma"))

    assert planned.advice.sentence == "1 task is being moved: no other move begins"


@pytest.mark.parametrize("letter", ["", "qw"], ids=["nowhere yet", "at beta still"])
def test_a_recall_that_has_not_ended_for_15_minutes_does_not_delay_other_moves(
    sent_site: SentSite, letter: str
) -> None:
    """For example, the owner has stopped the task's starter."""
    sent_site.moves.insert_or_update_task_move(move_to_gamma())
    sent_site.letters[40] = letter
    sent_site.now = NOON + timedelta(minutes=16)

    planned, checked = sent_site.rebalance(FAIL)

    assert [one.job for one in checked.moves] == ["gb.alpha.8"]
    assert {one.job for one in planned.advice.rejected} == ({"gb.alpha.7"} if letter else set())


def test_a_parallel_task_that_is_recalled_reserves_all_of_its_slots(sent_site: SentSite) -> None:
    """For some seconds no cluster lists the task, and the target's slots still look free."""
    sent_site.slots = 2
    sent_site.rebalance(FAIL)
    moving = sent_site.moves.unfinished_task_moves()
    clock = Clock(sent_site.now.timestamp)
    sent_away = TransferredTaskReader(sent_site.policy, sent_site.database, clock)
    away = [*sent_away.transferred_tasks((), {})]

    assert moving
    assert {(one.transfer, one.slots) for one in away} == {(one.name, 2) for one in moving}


def test_a_transferred_task_that_starts_after_the_plan_is_dropped_with_the_reason(sent_site: SentSite) -> None:
    sent_site.starts_when_asked = 2

    _, checked = sent_site.rebalance(FAIL)

    assert [(one.job, one.reason) for one in checked.dropped] == [("gb.alpha.7", "the task is running")]
    assert list(sent_site.asked_moves()) == ["gb.alpha.8.0.1"]


@pytest.mark.parametrize(
    ("changes", "letters", "expected"),
    [
        ({"verdict": TransferMessage(outcome=HowItEnds.EXIT)}, "qw", 1),
        ({"closed_at": NOON}, "", 1),
        ({"desired": DesiredLocalJobState.DEAD}, "qw", 1),
        ({"listed": ""}, "qw", 1),
        ({}, "hqw", 1),
        ({}, "qw", 2),
    ],
    ids=["ended", "recalled already", "deleted", "not proved", "held", "it waits"],
)
def test_a_transferred_task_that_can_not_be_recalled_is_not_moved(
    sent_site: SentSite, changes: dict[str, Any], letters: str, expected: int
) -> None:
    sent_site.keep(sent(40).with_changes(**changes))
    sent_site.letters[40] = letters

    planned, _ = sent_site.rebalance(FAIL)

    assert len(planned.advice.moves) == expected


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        pytest.param((("gridbridge_balance", "no"),), ["gb.alpha.8"], id="no"),
        pytest.param((("gridbridge_balance", "yes"),), ["gb.alpha.7", "gb.alpha.8"], id="yes"),
        pytest.param((("balance", "no"),), ["gb.alpha.7", "gb.alpha.8"], id="another name"),
    ],
)
def test_a_jobs_context_can_exclude_the_job_from_automatic_rounds(
    sent_site: SentSite, context: tuple[tuple[str, str], ...], expected: list[str]
) -> None:
    sent_site.contexts[7] = context

    planned, _ = sent_site.rebalance(target("host", "beta"))
    kept = [one for one in planned.advice.rejected if one.job == "gb.alpha.7"]

    assert [one.job for one in planned.advice.moves] == expected
    assert [one.reason for one in kept] == ["the owner wants the job to stay"] * (2 - len(expected))


def test_no_transferred_task_is_moved_while_the_home_cluster_does_not_answer(sent_site: SentSite) -> None:
    sent_site.silent.add("alpha")

    planned, _ = sent_site.rebalance(FAIL)

    assert planned.advice.moves == ()


def test_other_clusters_are_not_balanced_before_a_drained_cluster_is_empty(
    sent_site: SentSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalance_task_observer.drains, "list_drained_clusters", lambda: frozenset({"beta"}))

    planned, _ = sent_site.rebalance(target("host", "gamma"))
    by_itself, _ = sent_site.rebalance(RebalanceTarget())

    assert planned.advice.sentence == "beta is drained: run `gridbridge rebalance fail beta` first"
    assert len(by_itself.advice.moves) == 2


@pytest.mark.parametrize("what", ["host", "job", "fail"])
def test_an_unknown_host_or_job_is_refused_with_the_known_names(site: Site, what: str) -> None:
    with pytest.raises(ConfigError, match="no delta; expected one of"):
        site.rebalance(target(what, "delta"))


UNMOVABLE_JOBS = range(42, 48)  # six more transferred tasks of the same person at beta


def record_failed_moves(site: SentSite, ago: timedelta) -> None:
    for job in UNMOVABLE_JOBS:
        dropped = move_to_gamma(sent(job).name, asked_at=site.now - ago, stage=TaskMoveStage.DROPPED)
        site.moves.insert_or_update_task_move(dropped)


def record_two_recalls(site: SentSite, _: timedelta) -> None:
    """Record that the tasks were recalled as often as their queue allows."""
    recalled = {"cause": TransferFailureCause.RECALLED, "closed_at": site.now, "remote_id": 0}
    for job in UNMOVABLE_JOBS:
        task = sent(job).name.rpartition(".")[0]
        site.keep(*(sent(job).with_changes(name=f"{task}.{attempt}", **recalled) for attempt in (1, 2)))
        site.keep(sent(job).with_changes(name=f"{task}.3"))


@pytest.mark.parametrize(
    ("stay", "ago", "movable", "why"),
    [
        (record_failed_moves, timedelta(minutes=5), 1, "a recent move of the task failed"),
        (record_failed_moves, timedelta(hours=2), 7, ""),
        (record_failed_moves, timedelta(days=-365), 7, ""),
        (record_two_recalls, timedelta(), 1, "the task was recalled as often as its queue allows"),
    ],
    ids=["dropped", "dropped long ago", "dropped by a clock that was ahead", "at its limit"],
)
def test_tasks_that_can_not_be_moved_do_not_delay_another_task(
    sent_site: SentSite, stay: Any, ago: timedelta, movable: int, why: str
) -> None:
    sent_site.keep(sent(40).with_changes(closed_at=NOON))
    sent_site.letters = dict.fromkeys((*UNMOVABLE_JOBS, 48), "qw")
    for job in sent_site.letters:
        sent_site.contexts[job - 33] = ()
        if stay is not record_two_recalls or job == 48:
            sent_site.keep(sent(job))
    sent_site.keep(sent(41).with_changes(closed_at=NOON))
    stay(sent_site, ago)

    planned, _ = sent_site.rebalance(FAIL)
    told = [one.reason for one in planned.advice.rejected if why and one.reason.startswith(why)]

    assert len(planned.advice.moves) == min(movable, 4)  # free slots
    assert len(told) == (6 if why else 0)
    if movable == 1:
        assert [one.job for one in planned.advice.moves] == ["gb.alpha.15"]


def test_transferred_tasks_at_a_cluster_that_has_not_answered_for_5_minutes_are_reported(sent_site: SentSite) -> None:
    sent_site.silent = {"beta"}
    sent_site.now = NOON + timedelta(minutes=6)

    planned, _ = sent_site.rebalance(target("fail", "beta"))

    told = {(one.job, one.reason) for one in planned.advice.rejected}
    silent = "the cluster does not answer and may start the task: a moved task would run twice"
    assert planned.advice.moves == ()
    assert told == {("1", silent), ("gb.alpha.7", silent), ("gb.alpha.8", silent)}
