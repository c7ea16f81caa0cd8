"""Which act is due for a transfer, by the job lists of both clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.transfer.remote_accounting_verdicts import home_verdict_from_accounting
from gridbridge.decisions.transfer.transfer_act_decisions import (
    NUMBER_REUSED,
    decide_transfer_actions,
    is_home_task_deleted,
    is_job_end_search_over,
    rescheduled_jobs_with_transfer,
    update_and_plan_transfers,
    update_transfer_from_snapshots,
)
from gridbridge.decisions.transfer.transfer_queue_closing import remote_cluster_load_values
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.jobs_and_accounting import JobEnd
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer.transfer_config_sections import PollerSection
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferActKind
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    StarterPhase,
    TransferFailureCause,
    TransferMessage,
    TransferOutcome,
)
from tests.state_files import made_transfer
from tests.states import job_state, queue_state

NAME = "gb.alpha.7.0.1"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
POLICY = PollerSection()
VERDICT = TransferMessage(transfer=NAME, outcome=TransferOutcome.EXIT, exit_status="0")
FINAL = {TransferActKind.CLOSE, TransferActKind.RELEASE_LOCAL}


def second(number: float) -> datetime:
    return NOON + timedelta(seconds=number)


def a_transfer(**values: Any) -> Transfer:
    running = {"remote_id": 40, "local_state": job_state("r"), "remote_state": job_state("r")}
    return made_transfer(**{"wake": "f0"} | running | values)


def observed(transfer: Transfer, situation: TransferSituation) -> Transfer:
    return update_transfer_from_snapshots(transfer, situation, situation.find_home_task_row(transfer))


def a_row(job: int, state: str, **values: object) -> ClusterJobListRow:
    known: dict[str, object] = {"name": "x", "owner": "alice", "queue": "", "since": NOON}
    return ClusterJobListRow(job_id=job, state=job_state(state), **(known | values))


def a_snapshot(
    cluster: str, at_s: float, *rows: ClusterJobListRow, queues: tuple[QueueInstanceStatus, ...] = ()
) -> ClusterSnapshot:
    jobs: dict[int, tuple[ClusterJobListRow, ...]] = {}
    for row in rows:
        jobs[row.job_id] = (*jobs.get(row.job_id, ()), row)
    return ClusterSnapshot(cluster=cluster, taken_at=second(at_s), jobs=jobs, pending=3, free_slots=4, queues=queues)


def a_situation(
    *, local: str | None = "r", remote: str | None = "r", at_s: float = 60, asleep: bool = True, name: str = "x"
) -> TransferSituation:
    """Return job lists of both clusters at `at_s`; "" means an unlisted job, None means no job list."""
    snapshots = {}
    for cluster, job, state in (("alpha", 7, local), ("beta", 40, remote)):
        if state is not None:
            rows = [a_row(job, state, name=name)] if state else []
            snapshots[cluster] = a_snapshot(cluster, at_s, *rows)
    return TransferSituation(
        home="alpha", now=second(at_s + 1), snapshots=snapshots, asleep=frozenset({"f0"} if asleep else ())
    )


def acts(transfer: Transfer, situation: TransferSituation) -> list[TransferActKind]:
    return [action.act for action in update_and_plan_transfers([transfer], situation, POLICY).actions]


@pytest.mark.parametrize("local", ["dr", ""], ids=["deleting", "removed by force"])
@pytest.mark.parametrize(
    ("deleted_s", "remote", "expected"),
    [
        (29, "r", []),
        (31, "r", [TransferActKind.DELETE_REMOTE]),
        (31, "hqw", [TransferActKind.DELETE_REMOTE]),
        (31, "dr", []),
    ],
)
def test_a_remote_job_is_deleted_30_s_after_its_home_task_even_without_its_starter(
    local: str, deleted_s: float, remote: str, expected: list[TransferActKind]
) -> None:
    """The job owner may have made the queue methods end at once."""
    situation = a_situation(local=local, remote=remote)
    since = situation.now - timedelta(seconds=deleted_s)

    assert acts(a_transfer(), replace(situation, deleted_at_home={NAME: since})) == expected


@pytest.mark.parametrize(("local", "expected"), [("r", False), ("dr", True), ("", True), (None, False)])
def test_a_home_task_that_is_deleting_or_unlisted_counts_as_deleted(local: str | None, expected: bool) -> None:
    situation = a_situation(local=local)

    assert is_home_task_deleted(observed(a_transfer(), situation), situation) == expected


Act = TransferActKind
RUNS, ENDED, DEAD = a_transfer(), a_transfer(verdict=VERDICT), a_transfer(desired=DesiredLocalJobState.DEAD)
DEAD_AND_ENDED = a_transfer(desired=DesiredLocalJobState.DEAD, verdict=VERDICT)
FREE = a_transfer(guard=HomeStartGuard.NONE)
FREE_DEAD = a_transfer(guard=HomeStartGuard.NONE, desired=DesiredLocalJobState.DEAD)
BY_TIME = a_transfer(guard=HomeStartGuard.START)
NEVER_LISTED = a_transfer(desired=DesiredLocalJobState.DEAD, local_state=job_state(""), updated_at=second(10))
BEFORE = {"alpha": a_snapshot("alpha", 5), "beta": a_snapshot("beta", 60)}


def no_starter(local: str | None, remote: str = "r") -> TransferSituation:
    return a_situation(local=local, remote=remote, asleep=False)


@pytest.mark.parametrize(
    ("transfer", "situation", "expected"),
    [
        # A verdict goes to whoever can take it.
        (ENDED, a_situation(remote=""), Act.PUBLISH),
        (ENDED, no_starter(""), Act.CLOSE),
        (ENDED, no_starter("hRq"), Act.ADOPT_LOCAL),
        (ENDED, no_starter("r"), Act.PUBLISH),
        (ENDED, no_starter(None), Act.PUBLISH),
        # A dead job is deleted, and forgotten once it is gone and nobody submits any more.
        (DEAD, a_situation(remote="r"), Act.DELETE_REMOTE),
        (DEAD, a_situation(remote="hqw"), Act.DELETE_REMOTE),
        (DEAD, a_situation(remote="dr"), ""),
        (DEAD, a_situation(remote=""), ""),
        (DEAD, no_starter("", ""), Act.CLOSE),
        (DEAD, no_starter("dr", ""), Act.CLOSE),
        (DEAD, no_starter("hRq", ""), Act.RELEASE_LOCAL),
        (DEAD, no_starter("hr", ""), ""),  # home has not told yet whether it is put back
        (DEAD, no_starter("Rr", ""), ""),
        (DEAD_AND_ENDED, no_starter("hRq", ""), Act.RELEASE_LOCAL),
        (DEAD_AND_ENDED, a_situation(), Act.PUBLISH),
        # A starter that is gone: what runs is adopted, what waits is deleted.
        (RUNS, no_starter("hRq"), Act.ADOPT_LOCAL),
        (RUNS, no_starter("Rq", "s"), Act.ADOPT_LOCAL),
        (RUNS, no_starter("hRq", "hqw"), Act.DELETE_REMOTE),
        (RUNS, no_starter("hRq", ""), Act.RELEASE_LOCAL),
        (RUNS, no_starter(""), Act.DELETE_REMOTE),
        (RUNS, no_starter("", ""), Act.CLOSE),
        (RUNS, a_situation(local="", remote=""), ""),
        (RUNS, no_starter(None, ""), ""),
        # Home was asked before the deletion, and may never have been seen to list the task.
        (NEVER_LISTED, replace(no_starter("", ""), snapshots=BEFORE), ""),
        # Where whatever starter comes adopts it, it waits for one; nobody has to let it start.
        (FREE, no_starter("Rq"), ""),
        (FREE, no_starter("Rq", "qw"), ""),
        (FREE, no_starter(""), Act.DELETE_REMOTE),
        (FREE.with_changes(verdict=VERDICT), no_starter("Rq"), ""),
        (FREE.with_changes(verdict=VERDICT), a_situation(local="Rr"), Act.PUBLISH),
        (FREE.with_changes(missed_polls=1), no_starter("Rq", ""), Act.LOOK_UP_END),
        (FREE_DEAD, no_starter("Rq", ""), Act.CLOSE),
        (FREE_DEAD, no_starter("Rr", ""), Act.CLOSE),
        (BY_TIME, no_starter("Rq"), Act.ADOPT_LOCAL),
        (BY_TIME, no_starter("Rq", ""), Act.RELEASE_LOCAL),
        # The other cluster's trouble.
        (RUNS, a_situation(), ""),
        (RUNS, a_situation(remote="Eqw"), Act.GIVE_UP),
        (a_transfer(missed_polls=1), a_situation(remote=""), Act.LOOK_UP_END),
        (a_transfer(missed_polls=0), a_situation(remote=""), ""),
        (a_transfer(missed_polls=9), a_situation(remote="r"), ""),
        (a_transfer(closed_at=NOON), no_starter("", ""), ""),
    ],
)
def test_the_states_at_both_clusters_decide_the_act_for_a_transfer(
    transfer: Transfer, situation: TransferSituation, expected: str
) -> None:
    assert acts(transfer, situation) == ([expected] if expected else [])


@pytest.mark.parametrize("guard", [HomeStartGuard.HOLD, HomeStartGuard.START])
@pytest.mark.parametrize(
    ("queue", "asked", "expected"),
    [
        ("transfer-beta@n1", frozenset(), []),
        ("transfer-gamma@n1", frozenset(), []),
        ("all.q@n1", frozenset(), [TransferActKind.CLOSE]),
        ("transfer-beta@n1", frozenset({(NAME, 1001)}), [TransferActKind.CLOSE]),
        ("transfer-beta@n1", frozenset({(NAME, 1002)}), []),
    ],
    ids=["being put back", "adopted there", "started here", "asked for", "by another person"],
)
def test_a_deleted_transfer_closes_when_its_task_runs_again_or_asks_again(
    guard: str, queue: str, asked: frozenset[tuple[str, int]], expected: list[TransferActKind]
) -> None:
    home = a_snapshot("alpha", 60, a_row(7, "Rr", queue=queue))
    situation = a_situation(remote="", asleep=False)
    queues = frozenset({"transfer-beta", "transfer-gamma"})
    snapshots = {**situation.snapshots, "alpha": home}
    situation = replace(situation, snapshots=snapshots, queues=queues, with_new_starter=asked)

    assert acts(a_transfer(desired=DesiredLocalJobState.DEAD, guard=guard), situation) == expected


@pytest.mark.parametrize(
    "transfer",
    [
        a_transfer(),
        a_transfer(desired=DesiredLocalJobState.DEAD),
        a_transfer(missed_polls=9),
        a_transfer(remote_state=job_state("Eqw")),
        a_transfer(local_state=job_state("hRq")),
    ],
    ids=["running", "dead", "missing", "in error state", "requeued"],
)
def test_a_transfer_to_an_unconfigured_cluster_waits_unless_its_end_is_recorded(transfer: Transfer) -> None:
    situation = replace(a_situation(remote=None, asleep=False), dropped=frozenset({"beta"}))
    planned = update_and_plan_transfers([transfer], situation, POLICY)

    assert planned.actions == ()
    assert "has no [cluster.beta]" in planned.transfers[0].reason
    assert acts(a_transfer(verdict=VERDICT), situation) == [TransferActKind.PUBLISH]


def test_a_job_is_unpinned_when_none_of_its_tasks_waits_for_adoption() -> None:
    adopted = a_transfer(pinned=True)
    waiting = a_transfer(name="gb.alpha.7.2.1", local_state=job_state("hRq"))

    situation = replace(a_situation(), requeued_jobs=rescheduled_jobs_with_transfer([adopted, waiting]))

    assert acts(adopted, situation) == []
    assert acts(adopted, a_situation()) == [TransferActKind.UNPIN]


def test_one_new_job_list_counts_as_one_missed_poll_however_often_it_is_used() -> None:
    situation = a_situation(remote="")
    seen = observed(observed(observed(a_transfer(), situation), situation), situation)

    assert seen.missed_polls == 1
    assert observed(seen, a_situation(remote="", at_s=65)).missed_polls == 2
    assert observed(seen, a_situation(remote="r", at_s=65)).missed_polls == 0
    assert observed(a_transfer(), a_situation(local="", remote="", at_s=-1)) == a_transfer()


def test_the_reason_of_a_job_on_a_silent_host_is_unknown() -> None:
    queue = QueueInstanceStatus(name="all.q@n1", slots_used=1, slots_reserved=0, slots_total=1, state=queue_state("au"))
    remote = a_snapshot("beta", 60, a_row(40, "r", queue="all.q@n1"), queues=(queue,))
    situation = replace(a_situation(), snapshots={"beta": remote})

    assert observed(a_transfer(), situation).reason == "unknown: host n1 does not report to beta"


def test_a_job_without_recorded_id_is_found_by_the_name_of_its_transfer() -> None:
    transfer = a_transfer(desired=DesiredLocalJobState.DEAD, remote_id=0, phase=StarterPhase.SUBMITTING)
    [action] = update_and_plan_transfers([transfer], a_situation(remote="hqw", name=NAME), POLICY).actions
    [lookup] = decide_transfer_actions(a_transfer(missed_polls=2), a_situation(), POLICY, None)

    assert (action.act, action.transfer.remote_id) == (TransferActKind.DELETE_REMOTE, 40)
    assert lookup.why == "job unlisted at beta"


# Another person's words and jobs.


@pytest.mark.parametrize(
    "claim",
    [
        a_transfer(uid=1002, owner="bob"),
        a_transfer(uid=1002, owner="bob", desired=DesiredLocalJobState.DEAD),
        a_transfer(uid=1002, owner="bob", verdict=VERDICT),
        a_transfer(uid=1002, owner="bob", desired=DesiredLocalJobState.DEAD, verdict=VERDICT),
        a_transfer(uid=1002, owner="bob", desired=DesiredLocalJobState.DEAD, remote_id=0),
        a_transfer(uid=1002, owner="bob", desired=DesiredLocalJobState.DEAD, remote_id=99),
    ],
    ids=["record", "dead", "ended", "dead and ended", "no id", "wrong id"],
)
@pytest.mark.parametrize("local", ["r", "hRq", "Rq", "hr"])
@pytest.mark.parametrize("asleep", [True, False], ids=["asleep", "not asleep"])
def test_a_forged_transfer_of_another_owner_touches_neither_home_nor_remote_job(
    claim: Transfer, local: str, asleep: bool
) -> None:
    claimed = replace(claim, local_state=job_state(""), remote_state=job_state(""))

    done = acts(claimed, a_situation(local=local, asleep=asleep, name=NAME))

    assert set(done) <= {TransferActKind.CLOSE, TransferActKind.PUBLISH}


def test_a_remote_job_of_another_owner_keeps_no_transfer_open() -> None:
    transfer = a_transfer(desired=DesiredLocalJobState.DEAD, remote_id=0)
    squatter = a_snapshot("beta", 60, a_row(50, "hqw", name=NAME, owner="bob"))
    gone = a_situation(local="", asleep=False)
    situation = replace(gone, snapshots={**gone.snapshots, "beta": squatter})

    assert acts(transfer, situation) == [TransferActKind.CLOSE]


# For any transfer.

STATES = ["", "r", "hr", "t", "qw", "hqw", "Rq", "hRq", "Eqw", "dr", "s", "S", "T", "dhqw"]
TRANSFER = st.builds(
    a_transfer,
    phase=st.sampled_from([StarterPhase.SUBMITTING, StarterPhase.HELD, StarterPhase.RELEASED]),
    desired=st.sampled_from(
        ["", DesiredLocalJobState.RUNNING, DesiredLocalJobState.SUSPENDED, DesiredLocalJobState.DEAD]
    ),
    local_state=st.sampled_from(STATES),
    remote_state=st.sampled_from(STATES),
    remote_id=st.sampled_from([0, 40]),
    missed_polls=st.integers(0, 1),
)
AT_S = st.integers(-60, 60)


@given(TRANSFER, st.sampled_from([None, *STATES]), AT_S, st.booleans())
def test_no_transfer_ends_without_a_fresh_job_list(
    transfer: Transfer, local: str | None, at_s: int, asleep: bool
) -> None:
    silent = a_situation(local=local, remote=None, at_s=at_s, asleep=asleep)
    early = a_situation(local=local, remote="", at_s=-abs(at_s), asleep=asleep)

    for situation in (silent, early):
        planned = update_and_plan_transfers([transfer], situation, POLICY)
        assert not FINAL & {action.act for action in planned.actions}
        assert not [action for action in planned.actions if action.verdict]
        assert [one.missed_polls for one in planned.transfers] == [transfer.missed_polls]


@given(TRANSFER, st.sampled_from(STATES), st.sampled_from(STATES[1:]), AT_S, st.booleans())
def test_no_transfer_closes_while_the_newest_job_list_shows_its_remote_job(
    transfer: Transfer, local: str, remote: str, at_s: int, asleep: bool
) -> None:
    name = NAME if not transfer.remote_id else "x"
    situation = a_situation(local=local, remote=remote, at_s=at_s, asleep=asleep, name=name)

    assert not FINAL & set(acts(transfer, situation))


# Round after round in a situation that carries out what is decided.


@dataclass
class Grid:
    transfer: Transfer
    local: str
    remote: str
    asleep: bool
    answers: list[bool] = field(default_factory=list)  # whether beta answers, round by round
    now_s: float = 60
    seen: Mapping[str, ClusterSnapshot] = field(default_factory=dict)
    history: list[TransferActKind] = field(default_factory=list)

    def round(self) -> None:
        self.now_s += 5
        heard = a_situation(local=self.local, remote=self.remote, at_s=self.now_s, asleep=self.asleep)
        is_heard = self.answers.pop(0) if self.answers else True
        remote = heard.snapshots["beta"] if is_heard else self.seen.get("beta")
        self.seen = {"alpha": heard.snapshots["alpha"], **({"beta": remote} if remote else {})}
        planned = update_and_plan_transfers([self.transfer], replace(heard, snapshots=self.seen), POLICY)
        if "d" in self.remote:
            self.remote = ""
        [self.transfer] = planned.transfers
        for action in planned.actions:
            self.act(action.act)

    def act(self, act: TransferActKind) -> None:
        """Let an act take effect; no transfer may end while its remote job lives."""
        self.history.append(act)
        assert act not in FINAL or not self.remote
        if act is TransferActKind.DELETE_REMOTE:
            self.remote = "dr" if "r" in self.remote else ""
        elif act is TransferActKind.LOOK_UP_END:
            self.transfer = self.transfer.with_changes(verdict=VERDICT)
        elif act in FINAL:
            self.transfer = self.transfer.with_changes(closed_at=second(self.now_s))


ALIVE = st.sampled_from(["", "r", "hqw", "qw", "t", "s", "dr", "hr"])


@given(ALIVE, st.sampled_from(["", "hRq", "dr"]), st.lists(st.booleans(), max_size=8))
def test_a_deleted_transfer_closes_once_the_remote_cluster_answers(
    remote: str, local: str, answers: list[bool]
) -> None:
    grid = Grid(a_transfer(desired=DesiredLocalJobState.DEAD), local, remote, asleep=False, answers=answers)
    for _ in range(len(answers) + 4):
        grid.round()

    assert grid.transfer.is_over
    assert grid.remote == ""


@given(ALIVE, st.sampled_from(["", "hRq", "Rq"]), st.lists(st.booleans(), max_size=8))
def test_a_transfer_without_a_starter_closes_unless_its_running_job_is_adopted(
    remote: str, local: str, answers: list[bool]
) -> None:
    grid = Grid(a_transfer(), local, remote, asleep=False, answers=answers)
    for _ in range(len(answers) + 5):
        grid.round()

    adopted = TransferActKind.ADOPT_LOCAL in grid.history
    assert grid.transfer.is_over or (adopted and local and grid.remote)


# Accounting and load values.


@pytest.mark.parametrize(
    ("end", "rerun", "expected"),
    [
        (JobEnd(exit_status=0), "", (TransferOutcome.EXIT, "0", "")),
        (JobEnd(exit_status=7), "", (TransferOutcome.EXIT, "7", "")),
        (JobEnd(exit_status=143), "", (TransferOutcome.EXIT, "143", "")),
        (JobEnd(exit_status=199), "", (TransferOutcome.EXIT, "99", "")),
        (JobEnd(exit_status=200), "", (TransferOutcome.EXIT, "100", "")),
        (JobEnd(exit_status=200, reason="WORKING_DIRECTORY"), "", (TransferOutcome.ERROR, "", "")),
        (JobEnd(signal=62, reason="failed 100"), "", (TransferOutcome.ERROR, "", "")),
        (JobEnd(signal=63, reason="failed 100"), "", (TransferOutcome.EXIT, "199", "")),
        (JobEnd(signal=64, reason="failed 100"), "no", (TransferOutcome.EXIT, "200", "")),
        (JobEnd(signal=9), "", (TransferOutcome.SIGNAL, "", "9")),
        (JobEnd(signal=15), "no", (TransferOutcome.SIGNAL, "", "15")),
        (JobEnd(), "", (TransferOutcome.SIGNAL, "", "9")),
        (JobEnd(), "yes", (TransferOutcome.REQUEUE, "", "")),
        (JobEnd(), "no", (TransferOutcome.SIGNAL, "", "9")),
        (JobEnd(is_unstarted=True), "yes", (TransferOutcome.REQUEUE, "", "")),
        (JobEnd(is_unstarted=True), "no", (TransferOutcome.ERROR, "", "")),
    ],
)
def test_an_accounting_record_becomes_the_job_end_at_home(
    end: JobEnd, rerun: str, expected: tuple[str, str, str]
) -> None:
    verdict = home_verdict_from_accounting(a_transfer(rerun=rerun), end)

    assert (verdict.outcome, verdict.exit_status, verdict.signal) == expected
    assert (verdict.transfer, verdict.remote_id) == (NAME, "40")


@pytest.mark.parametrize(
    ("rerun", "outcome", "reason"),
    [
        ("yes", TransferOutcome.REQUEUE, "beta needed the job's slots: BESTEFFORT_KILL"),
        ("no", TransferOutcome.SIGNAL, "killed: beta needed the job's slots: BESTEFFORT_KILL"),
    ],
)
def test_a_preempted_job_is_rerun_or_killed_with_the_cause_preempted(rerun: str, outcome: str, reason: str) -> None:
    end = JobEnd(is_preempted=True, reason="BESTEFFORT_KILL")

    verdict = home_verdict_from_accounting(a_transfer(rerun=rerun), end)

    told = (verdict.outcome, verdict.cause, verdict.reason)
    assert told == (outcome, TransferFailureCause.PREEMPTED, reason)


@pytest.mark.parametrize(
    ("state", "queue", "expected"),
    [
        ("r", "all.q@n1", [TransferActKind.DELETE_REMOTE]),
        ("s", "all.q@n1", [TransferActKind.DELETE_REMOTE]),
        ("t", "all.q@n1", []),
        ("Rr", "all.q@n1", []),
        ("r", "transfer-beta@n1", []),
        ("r", "transfer-gamma@n1", []),
    ],
    ids=["new", "suspended", "on its way", "put back", "its own queue", "another transfer queue"],
)
@pytest.mark.parametrize("guard", [HomeStartGuard.NONE, HomeStartGuard.START, HomeStartGuard.HOLD])
def test_a_home_job_that_reuses_the_job_number_ends_the_transfer(
    state: str, queue: str, expected: list[TransferActKind], guard: str
) -> None:
    situation = a_situation(remote="r", asleep=False)
    home = a_snapshot("alpha", 60, a_row(7, state, queue=queue))
    queues = frozenset({"transfer-beta", "transfer-gamma"})
    situation = replace(situation, snapshots={**situation.snapshots, "alpha": home}, queues=queues)

    planned = update_and_plan_transfers([a_transfer(guard=guard)], situation, POLICY)

    assert [action.act for action in planned.actions] == expected
    assert [one.desired for one in planned.transfers] == [DesiredLocalJobState.DEAD if expected else ""]
    assert [action.why for action in planned.actions] == [NUMBER_REUSED for _ in expected]


STALE = timedelta(seconds=30)


def test_load_values_show_waiting_jobs_and_free_slots_of_a_cluster() -> None:
    values = remote_cluster_load_values(a_snapshot("b-1", 0), "b-1", second(30), STALE)

    assert values == {"gb_b_1_up": "1", "gb_b_1_pending": "3", "gb_b_1_free": "4"}


@pytest.mark.parametrize("remote", [None, a_snapshot("beta", -31)], ids=["never asked", "silent since"])
def test_the_load_values_of_a_silent_cluster_close_its_queues(remote: ClusterSnapshot | None) -> None:
    """Every load value is reported, because execd may never resend a missing value."""
    assert remote_cluster_load_values(remote, "beta", NOON, STALE) == {
        "gb_beta_up": "0",
        "gb_beta_pending": "999999",
        "gb_beta_free": "0",
    }


@pytest.mark.parametrize(
    ("last_seen", "missing_s", "expected"),
    [("", 20, False), ("", 40, True), ("qw", 20, False), ("qw", 40, True), ("r", 40, False), ("r", 700, True)],
    ids=[
        *("never seen, just now", "never seen, a while ago", "waited, just now", "waited, a while ago"),
        *("ran, a while ago", "ran, long ago"),
    ],
)
def test_the_search_for_the_end_of_a_job_that_never_started_is_short(
    last_seen: str, missing_s: int, expected: bool
) -> None:
    """Grid Engine has no accounting record of a job that was deleted before its start."""
    gone = a_transfer(remote_state=last_seen, missing_since=second(0))

    assert is_job_end_search_over(gone, PollerSection(), second(missing_s)) == expected


@pytest.mark.parametrize(
    ("transfer", "expected"),
    [
        (a_transfer(missed_polls=4), [TransferActKind.LOOK_UP_END]),
        (a_transfer(desired=DesiredLocalJobState.DEAD, local_state=job_state("")), [TransferActKind.CLOSE]),
    ],
    ids=["its end is looked up", "it is over without a deletion"],
)
def test_a_remote_job_under_a_reused_id_does_not_count_as_the_job_of_a_transfer(
    transfer: Transfer, expected: list[TransferActKind]
) -> None:
    situation = a_situation(asleep=transfer.desired != DesiredLocalJobState.DEAD, local=transfer.local_state.text)
    reused_ids = frozenset({(transfer.name, transfer.uid)})

    assert acts(transfer, situation) != expected
    assert acts(transfer, replace(situation, reused_ids=reused_ids)) == expected
