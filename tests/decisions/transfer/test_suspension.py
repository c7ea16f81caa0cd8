"""What is put right when only one side of a transfer is suspended, and when that is sure."""

from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.decisions.transfer.home_and_remote_mismatches import SuspensionMismatch, find_suspension_mismatch
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferDecisionInputs
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    StarterPhase,
    TransferMessage,
    TransferOutcome,
)
from tests.states import read_states

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUNNING, SUSPENDED, DEAD = (DesiredLocalJobState.RUNNING, DesiredLocalJobState.SUSPENDED, DesiredLocalJobState.DEAD)
SHOWS = frozenset({"beta"})
END = TransferMessage(outcome=TransferOutcome.EXIT, exit_status="0")


def second(number: float) -> datetime:
    return NOON + timedelta(seconds=number)


def a_transfer(home: str, told: str, remote: str, **values: object) -> Transfer:
    """Return a transfer of which both clusters have told since its owner's last word."""
    known: dict[str, object] = {
        "name": "gb.alpha.7.0.1",
        "uid": 1001,
        "owner": "alice",
        "remote": "beta",
        "queue": "transfer-beta",
        "phase": StarterPhase.RELEASED,
        "record": "m.1",
        "wake": "f0",
        "rerun": "",
        "created_at": NOON,
        "updated_at": NOON,
        "remote_id": 40,
        "desired": told,
        "local_state": home,
        "remote_state": remote,
        "seen_at": second(5),
    }
    return Transfer(**read_states(known | values))


def shown(
    one: Transfer, at_s: float = 5, shows: frozenset[str] = SHOWS, asleep: bool = True
) -> SuspensionMismatch | None:
    """Return what home's answer to a question of that second shows of it."""
    home = ClusterSnapshot(cluster="alpha", taken_at=second(at_s), jobs={}, pending=0, free_slots=0)
    wakes = frozenset({"f0"} if asleep else ())
    situation = TransferDecisionInputs(home="alpha", now=second(at_s), snapshots={"alpha": home}, asleep=wakes)
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
    found = shown(a_transfer(home, told, remote))

    assert (found.desired if found else "") == expected


@pytest.mark.parametrize(
    ("one", "at_s", "asleep"),
    [
        (a_transfer("hr", SUSPENDED, "hs", updated_at=second(5)), 5, True),
        (a_transfer("hr", SUSPENDED, "hs"), 5, False),
        (a_transfer("hr", SUSPENDED, "hs", verdict=END), 5, True),
        (a_transfer("hr", SUSPENDED, "hs", closed_at=NOON), 5, True),
        (a_transfer("hr", SUSPENDED, "", phase=StarterPhase.SUBMITTING), 5, True),
        (a_transfer("hr", RUNNING, "hs", seen_at=NOON), 5, True),
        (a_transfer("hr", RUNNING, "hs", seen_at=None), 5, True),
        (a_transfer("hr", RUNNING, "hs", missed_polls=1), 5, True),
    ],
    ids=["old news", "no starter", "an end", "over", "nothing there", "old", "unseen", "missing"],
)
def test_stale_job_lists_and_ended_transfers_show_no_suspension_mismatch(
    one: Transfer, at_s: float, asleep: bool
) -> None:
    assert shown(one, at_s, asleep=asleep) is None


def test_a_job_held_since_submission_is_a_mismatch_when_its_home_task_runs() -> None:
    one = a_transfer("hr", SUSPENDED, "hqw", phase=StarterPhase.HELD)

    assert shown(one) is not None


def test_a_cluster_that_shows_no_suspensions_is_not_compared() -> None:
    """OAR lists a stopped job as running."""
    agrees, differs = a_transfer("hs", SUSPENDED, "r"), a_transfer("hr", SUSPENDED, "r")

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
        shown(a_transfer("hs", SUSPENDED, "r", seen_at=second(beta)), alpha) for alpha, beta in (first, then)
    )

    assert before
    assert after
    assert after.confirms_mismatch(before) is is_sure


def test_a_different_mismatch_does_not_confirm_an_earlier_mismatch() -> None:
    first = shown(a_transfer("hr", SUSPENDED, "hs"))
    for other in (a_transfer("hs", RUNNING, "hs"), a_transfer("hr", RUNNING, "hs")):
        then = shown(other.but(seen_at=second(9)), 10)

        assert first
        assert then
        assert not then.confirms_mismatch(first)
