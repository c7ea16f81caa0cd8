"""Remote jobs that outlive their transfer, and tasks at home that do not match their remote job."""

from dataclasses import replace

import pytest

from gridbridge.decisions.transfer.home_and_remote_mismatches import (
    SuspensionMismatch,
    does_ended_task_wait_at_home,
    ended_transfer_of_requeued_job,
    find_orphan_jobs,
    find_suspension_mismatch,
    is_ended_task_gone_from_home,
    is_remote_job_unlisted,
    jobs_needing_start_time_query,
    may_home_have_missed_task_end,
    may_remote_folder_have_outputs,
    missing_home_start_guard,
    plan_outliving_job_deletions,
    qresub_jobs_with_copied_guard,
    transfers_lacking_home_hold,
)
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.job_request import FAR_S, OWN_JOB, JobRequest
from gridbridge.model.transfer.claim_and_guard import FENCED, HomeStartGuard
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferActKind
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    StarterPhase,
    TransferMessage,
    TransferOutcome,
)
from tests.decisions.transfer.test_transfer_policy import (
    NAME,
    NOON,
    VERDICT,
    a_row,
    a_situation,
    a_snapshot,
    a_transfer,
    second,
)
from tests.states import job_state

ENDED = a_transfer(closed_at=NOON)


@pytest.mark.parametrize(
    ("letters", "at_s", "expected"),
    [
        ("r", 2, False),
        ("r", 60, False),
        ("r", 601, True),
        ("Rq", 1, True),
        ("hRq", 1, True),
        ("Rq", 0, False),
        ("Rt", 9, False),
        ("Rr", 9, False),
        ("Rr", 11, True),
        ("dRr", 60, False),
        ("dr", 601, False),
        ("", 601, False),
    ],
    ids=[
        *("its end is not heard of yet", "a long epilog", "longer than any epilog", "put back", "put back and held"),
        *("put back, in an answer from before the end", "starts again, just now", "runs again, just now"),
        *("runs again", "deleted already", "deleted already, long ago", "gone"),
    ],
)
def test_a_remote_job_that_outlives_its_recorded_end_is_deleted_after_a_grace(
    letters: str, at_s: float, expected: bool
) -> None:
    situation = a_situation(remote=letters, at_s=at_s)
    actions = [(action.act, action.why) for action in plan_outliving_job_deletions([ENDED], situation)]

    why = f"the job has ended, but beta lists the job as {letters}"
    assert actions == ([(TransferActKind.DELETE_REMOTE, why)] if expected else [])
    assert list(plan_outliving_job_deletions([ENDED.with_changes(owner="bob")], situation)) == []


@pytest.mark.parametrize(
    ("transfer", "at_s", "remote", "expected"),
    [
        (ENDED, 60, "", True),
        (ENDED, 60, "r", False),
        (ENDED, 60, "Rr", False),
        (ENDED, 0, "", False),
        (ENDED, 60, None, False),
        (ENDED.with_changes(owner="bob"), 60, "r", True),
    ],
    ids=["gone", "listed", "runs again", "an early answer", "no answer", "another's job"],
)
def test_only_a_fresh_job_list_without_the_job_counts_as_unlisted(
    transfer: Transfer, at_s: float, remote: str | None, expected: bool
) -> None:
    assert is_remote_job_unlisted(transfer, a_situation(remote=remote, at_s=at_s)) == expected


@pytest.mark.parametrize("letters", ["qw", "hqw"])
@pytest.mark.parametrize(
    ("name", "owner", "expected"),
    [(ENDED.name, ENDED.owner, True), (ENDED.name, "bob", False), ("gb.alpha.99.0.1", ENDED.owner, False)],
    ids=["its own", "another's", "of another transfer"],
)
def test_the_copy_that_oar_makes_of_a_job_that_failed_to_launch_is_deleted(
    letters: str, name: str, owner: str, expected: bool
) -> None:
    situation = a_situation(remote="")
    copy = ClusterJobListRow(job_id=99, name=name, owner=owner, state=job_state(letters))
    remote = replace(situation.snapshots["beta"], copies=(copy,))
    seen = replace(situation, snapshots={**situation.snapshots, "beta": remote})

    found = [action.act for action in plan_outliving_job_deletions([ENDED], seen)]
    assert found == ([TransferActKind.DELETE_REMOTE] if expected else [])
    assert is_remote_job_unlisted(ENDED, seen) is not expected


@pytest.mark.parametrize(
    ("verdict", "desired", "expected"),
    [
        (TransferMessage(outcome=TransferOutcome.EXIT), "", True),
        (TransferMessage(outcome=TransferOutcome.SIGNAL), DesiredLocalJobState.RUNNING, True),
        (TransferMessage(outcome=TransferOutcome.EXIT), DesiredLocalJobState.DEAD, False),
        (TransferMessage(outcome=TransferOutcome.ERROR), "", True),
        (TransferMessage(outcome=TransferOutcome.REQUEUE, claim=FENCED), "", False),
        (None, "", False),
    ],
    ids=["it exited", "a signal ended it", "deleted at home", "its end is lost", "its claim was lost", "no end"],
)
def test_the_remote_folder_may_hold_outputs_unless_the_job_was_deleted_or_fenced(
    verdict: TransferMessage | None, desired: str, expected: bool
) -> None:
    assert may_remote_folder_have_outputs(ENDED.with_changes(desired=desired, verdict=verdict)) == expected


def a_held(**values: object) -> TransferSituation:
    row = a_row(40, "hqw", **({"name": NAME} | values))
    return TransferSituation(
        home="alpha", now=second(61), snapshots={"beta": a_snapshot("beta", 60, row)}, asleep=frozenset()
    )


@pytest.mark.parametrize(
    ("transfers", "situation", "why"),
    [
        ([a_transfer()], a_held(), ""),
        ([a_transfer(remote_id=0)], a_held(), ""),
        ([a_transfer(remote_id=39)], a_held(), "another job is recorded for the transfer"),
        ([], a_held(since=second(0)), "no transfer with the job's name is open"),
        ([], a_held(since=second(1)), ""),
        ([], a_held(since=None), ""),
        ([], a_held(since=second(0), name="gb.gamma.7.0.1"), ""),
        ([], a_held(since=second(0), name="gb.alpha.x"), ""),
        ([], a_held(since=second(0), name="sleep"), ""),
        ([a_transfer(remote_id=39, owner="bob")], a_held(since=second(9)), ""),
        ([a_transfer(remote_id=0, owner="bob")], a_held(since=second(0)), "no transfer with the job's name is open"),
    ],
    ids=[
        *("recorded", "being submitted", "a second one", "nobody's", "nobody's and young", "without age"),
        *("of another home", "nearly our name", "any job", "another claims it", "another protects it"),
    ],
)
def test_a_held_job_under_a_transfer_name_that_no_transfer_recorded_is_an_orphan(
    transfers: list[Transfer], situation: TransferSituation, why: str
) -> None:
    assert [each.why for each in find_orphan_jobs(transfers, situation)] == ([why] if why else [])


@pytest.mark.parametrize("letters", ["r", "qw", "dhqw", "t", "s"])
def test_a_job_that_is_not_held_is_no_orphan(letters: str) -> None:
    row = a_row(40, letters, name=NAME)
    situation = replace(a_held(), snapshots={"beta": a_snapshot("beta", 60, row)})

    assert list(find_orphan_jobs([], situation)) == []


RUNNING, SUSPENDED, DEAD = (DesiredLocalJobState.RUNNING, DesiredLocalJobState.SUSPENDED, DesiredLocalJobState.DEAD)
SHOWS = frozenset({"beta"})
END = TransferMessage(outcome=TransferOutcome.EXIT, exit_status="0")


def suspended_transfer(home: str, told: str, remote: str, **values: object) -> Transfer:
    """Return a transfer whose job both clusters have listed since its owner's last message."""
    states = {"desired": told, "local_state": home, "remote_state": remote, "seen_at": second(5)}
    return a_transfer(**(states | values))


def shown(
    one: Transfer, at_s: float = 5, shows: frozenset[str] = SHOWS, asleep: bool = True
) -> SuspensionMismatch | None:
    home = ClusterSnapshot(cluster="alpha", taken_at=second(at_s), jobs={}, pending=0, free_slots=0)
    wakes = frozenset({"f0"} if asleep else ())
    situation = TransferSituation(home="alpha", now=second(at_s), snapshots={"alpha": home}, asleep=wakes)
    return find_suspension_mismatch(one, situation, shows)


@pytest.mark.parametrize(
    ("home", "told", "remote", "expected"),
    [
        # Home and its methods.
        ("hr", "", "r", ""),
        ("hr", RUNNING, "r", ""),
        ("hs", SUSPENDED, "hs", ""),
        ("hr", SUSPENDED, "hs", RUNNING),
        ("hs", RUNNING, "r", SUSPENDED),
        ("s", "", "r", SUSPENDED),
        ("hS", "", "r", SUSPENDED),
        ("hT", RUNNING, "r", SUSPENDED),
        ("hRr", SUSPENDED, "hs", RUNNING),
        ("hr", SUSPENDED, "", RUNNING),
        ("hr", SUSPENDED, "hqw", RUNNING),
        ("hs", RUNNING, "qw", SUSPENDED),
        # Home and the other cluster.
        ("hr", RUNNING, "hs", RUNNING),
        ("hr", "", "hs", RUNNING),
        ("hs", SUSPENDED, "r", SUSPENDED),
        ("hs", SUSPENDED, "hr", SUSPENDED),
        # What is nobody's to put right.
        ("hr", RUNNING, "s", ""),
        ("hr", RUNNING, "S", ""),
        ("hr", RUNNING, "hr", ""),
        ("hr", RUNNING, "hqw", ""),
        ("hr", RUNNING, "dhs", ""),
        ("hs", SUSPENDED, "hS", ""),
        ("hs", SUSPENDED, "hqw", ""),
        ("hs", SUSPENDED, "dr", ""),
        ("hs", SUSPENDED, "", ""),
        ("hs", DEAD, "r", ""),
        ("dhr", SUSPENDED, "hs", ""),
        ("hRq", SUSPENDED, "hs", ""),
        ("Eqw", SUSPENDED, "hs", ""),
        ("", SUSPENDED, "hs", ""),
    ],
)
def test_the_home_job_list_overrules_reports_of_suspend_and_resume_methods(
    home: str, told: str, remote: str, expected: str
) -> None:
    found = shown(suspended_transfer(home, told, remote))

    assert (found.desired if found else "") == expected


@pytest.mark.parametrize(
    ("one", "at_s", "asleep"),
    [
        (suspended_transfer("hr", SUSPENDED, "hs", updated_at=second(5)), 5, True),
        (suspended_transfer("hr", SUSPENDED, "hs"), 5, False),
        (suspended_transfer("hr", SUSPENDED, "hs", verdict=END), 5, True),
        (suspended_transfer("hr", SUSPENDED, "hs", closed_at=NOON), 5, True),
        (suspended_transfer("hr", SUSPENDED, "", phase=StarterPhase.SUBMITTING), 5, True),
        (suspended_transfer("hr", RUNNING, "hs", seen_at=NOON), 5, True),
        (suspended_transfer("hr", RUNNING, "hs", seen_at=None), 5, True),
        (suspended_transfer("hr", RUNNING, "hs", missed_polls=1), 5, True),
    ],
    ids=["old news", "no starter", "an end", "over", "nothing there", "old", "unseen", "missing"],
)
def test_stale_job_lists_and_ended_transfers_show_no_suspension_mismatch(
    one: Transfer, at_s: float, asleep: bool
) -> None:
    assert shown(one, at_s, asleep=asleep) is None


def test_a_cluster_that_shows_no_suspensions_is_not_compared() -> None:
    """OAR lists a stopped job as running."""
    agrees, differs = suspended_transfer("hs", SUSPENDED, "r"), suspended_transfer("hr", SUSPENDED, "r")

    assert shown(agrees, shows=frozenset()) is None
    assert shown(differs, shows=frozenset()) is not None


@pytest.mark.parametrize(
    ("first", "then", "is_sure"),
    [((5, 5), (10, 10), True), ((5, 5), (5, 10), False), ((5, 5), (10, 5), False)],
    ids=["both told again", "home has not", "beta has not"],
)
def test_a_mismatch_is_certain_after_two_job_lists_of_each_cluster(
    first: tuple[int, int], then: tuple[int, int], is_sure: bool
) -> None:
    before, after = (
        shown(suspended_transfer("hs", SUSPENDED, "r", seen_at=second(beta)), alpha) for alpha, beta in (first, then)
    )

    assert before
    assert after
    assert after.confirms_mismatch(before) is is_sure


def test_a_different_mismatch_does_not_confirm_an_earlier_mismatch() -> None:
    first = shown(suspended_transfer("hr", SUSPENDED, "hs"))
    for other in (suspended_transfer("hs", RUNNING, "hs"), suspended_transfer("hr", RUNNING, "hs")):
        then = shown(other.with_changes(seen_at=second(9)), 10)

        assert first
        assert then
        assert not then.confirms_mismatch(first)


TASK = "gb.alpha.7.3.1"
OTHER = JobRequest(owner="alice")
KEPT = OTHER.with_changes(start=FAR_S)
OURS = ("transfer-beta",)


@pytest.mark.parametrize(
    ("transfer", "letters", "expected"),
    [
        (a_transfer(), "r", True),
        (a_transfer(), "s", True),
        (a_transfer(), "hr", False),
        (a_transfer(), "Rq", False),
        (a_transfer(), "", False),
        (a_transfer(guard=HomeStartGuard.START), "r", False),
        (a_transfer(guard=HomeStartGuard.NONE), "r", False),
        (a_transfer(verdict=VERDICT), "r", False),
        (a_transfer(desired=DesiredLocalJobState.DEAD), "r", False),
        (a_transfer(pinned=True), "r", False),
    ],
    ids=[
        *("released", "released, suspended", "held", "put back", "gone", "has a start time", "needs none", "ends"),
        *("is deleted", "is adopted"),
    ],
)
def test_a_running_task_without_its_hold_must_be_held_again(transfer: Transfer, letters: str, expected: bool) -> None:
    rows = [a_row(7, letters)] if letters else []

    assert transfers_lacking_home_hold([transfer], a_snapshot("alpha", 9, *rows)) == ({NAME} if expected else set())


def test_a_home_job_list_from_before_the_last_change_shows_no_missing_guard() -> None:
    held, other = a_transfer(), a_transfer(guard=HomeStartGuard.START)
    for seconds, expected in ((0, False), (1, True)):
        seen = a_snapshot("alpha", seconds, a_row(7, "r"))

        assert bool(transfers_lacking_home_hold([held], seen)) == expected
        assert bool(jobs_needing_start_time_query([other], seen)) == expected


def test_jobs_with_guards_other_than_a_hold_are_queried_once_each() -> None:
    tasks = [a_transfer(name=f"gb.alpha.8.{task}.1", guard=HomeStartGuard.NONE) for task in (1, 2)]
    every = (*tasks, a_transfer(guard=HomeStartGuard.START), a_transfer(name="gb.alpha.9.0.1"))
    rows = [a_row(job, "r") for job in (7, 8, 9)]

    assert jobs_needing_start_time_query(every, a_snapshot("alpha", 9, *rows)) == (7, 8)


@pytest.mark.parametrize(
    ("transfer", "kept", "expected"),
    [
        (a_transfer(guard=HomeStartGuard.START), KEPT, ""),
        (a_transfer(guard=HomeStartGuard.START), OTHER, HomeStartGuard.START),
        (a_transfer(guard=HomeStartGuard.START), OTHER.with_changes(owner="bob"), ""),
        (a_transfer(guard=HomeStartGuard.NONE), OTHER.with_changes(queues="transfer-beta"), ""),
        (a_transfer(guard=HomeStartGuard.NONE), OTHER.with_changes(hard=(("remote", "1"),)), ""),
        (a_transfer(guard=HomeStartGuard.NONE), KEPT, HomeStartGuard.START),
        (a_transfer(guard=HomeStartGuard.NONE, name=TASK), KEPT, HomeStartGuard.HOLD),
    ],
    ids=[
        *("a start time that is ours", "another start time", "another's job", "still needs none"),
        *("still asks to leave", "could start here by now", "a task that could start here by now"),
    ],
)
def test_a_guard_that_the_job_owner_removed_is_restored(transfer: Transfer, kept: JobRequest, expected: str) -> None:
    assert missing_home_start_guard(transfer, kept, OURS) == expected


def test_a_waiting_job_with_the_guard_of_another_job_is_a_qresub_copy() -> None:
    """A job that is away is no copy, because its owner can change the job's context."""
    waiting = {
        number: KEPT.with_changes(context=((OWN_JOB, str(of)),)) for number, of in ((7, 7), (8, 7), (9, 7), (10, 0))
    }

    assert qresub_jobs_with_copied_guard(waiting, jobs_away=(7, 9)) == (8,)


ENDED_BY_EXIT = a_transfer(verdict=VERDICT, closed_at=NOON)


def home(letters: str, at_s: float = 1, owner: str = "alice") -> ClusterSnapshot:
    rows = [a_row(7, letters, owner=owner)] if letters else []
    return a_snapshot("alpha", at_s, *rows)


@pytest.mark.parametrize(
    ("local", "waits", "is_gone"),
    [
        (home("hRq"), True, False),
        (home("hr"), False, False),
        (home("Rq"), True, False),
        (home(""), False, True),
        (home("hRq", at_s=-1), False, False),
        (home("", at_s=-1), False, False),
        (home("hRq", owner="bob"), False, True),
    ],
    ids=["put back", "not given up", "without a hold", "gone", "before it ended", "gone before", "another's"],
)
def test_a_new_home_job_list_shows_whether_an_ended_task_waits_again_or_is_gone(
    local: ClusterSnapshot, waits: bool, is_gone: bool
) -> None:
    assert does_ended_task_wait_at_home(ENDED_BY_EXIT, local) == waits
    assert is_ended_task_gone_from_home(ENDED_BY_EXIT, local) == is_gone
    assert not is_ended_task_gone_from_home(ENDED_BY_EXIT.with_changes(closed_at=None), local)


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (ENDED_BY_EXIT, True),
        (ENDED_BY_EXIT.with_changes(verdict=VERDICT.with_changes(exit_status="99")), False),
        (ENDED_BY_EXIT.with_changes(verdict=VERDICT.with_changes(exit_status="100")), False),
        (
            ENDED_BY_EXIT.with_changes(
                verdict=TransferMessage(transfer=NAME, outcome=TransferOutcome.SIGNAL, signal="9")
            ),
            True,
        ),
        (ENDED_BY_EXIT.with_changes(verdict=TransferMessage(transfer=NAME, outcome=TransferOutcome.REQUEUE)), False),
        (ENDED_BY_EXIT.with_changes(verdict=TransferMessage(transfer=NAME, outcome=TransferOutcome.ERROR)), False),
        (ENDED_BY_EXIT.with_changes(verdict=None), False),
        (ENDED_BY_EXIT.with_changes(desired=DesiredLocalJobState.DEAD), False),
    ],
    ids=["exit", "99", "100", "signal", "requeue", "error", "no end", "deleted"],
)
def test_only_exits_and_signals_may_be_missed_at_home(ended: Transfer, expected: bool) -> None:
    """The starter releases the hold of a task that runs again or fails."""
    assert may_home_have_missed_task_end(ended) == expected


ASK = TransferMessage(transfer="gb.alpha.7.0.0", restarted="yes")


@pytest.mark.parametrize(
    ("attempts", "message", "expected"),
    [
        ((ENDED_BY_EXIT,), ASK, NAME),
        ((ENDED_BY_EXIT, ENDED_BY_EXIT.with_changes(name="gb.alpha.7.0.2")), ASK, "gb.alpha.7.0.2"),
        ((ENDED_BY_EXIT,), ASK.with_changes(restarted=""), ""),
        ((ENDED_BY_EXIT.with_changes(closed_at=None),), ASK, ""),
        (
            (ENDED_BY_EXIT, ENDED_BY_EXIT.with_changes(name="gb.alpha.7.0.2", desired=DesiredLocalJobState.DEAD)),
            ASK,
            "",
        ),
        ((ENDED_BY_EXIT.with_changes(verdict=VERDICT.with_changes(exit_status="99")),), ASK, ""),
        ((), ASK, ""),
    ],
    ids=[
        *("its end was not heard", "that of the last attempt", "not put back", "open", "the last one was deleted"),
        *("to run again", "never sent"),
    ],
)
def test_a_rescheduled_task_receives_the_recorded_end_of_its_last_attempt(
    attempts: tuple[Transfer, ...], message: TransferMessage, expected: str
) -> None:
    found = ended_transfer_of_requeued_job(attempts, message)

    assert (found.name if found else "") == expected
