"""A remote job id may belong to another job after a cluster's job numbers began anew."""

from types import SimpleNamespace

import pytest

from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.transfer.poller.transfer_decision_input_gatherer import ReusedRemoteJobIdDetector
from tests.decisions.transfer.test_transfer_policy import NAME, NOON, a_row, a_snapshot, a_transfer, second
from tests.states import job_state
from tests.transfer.poller.messages import CallsAtOnce, policy_to_beta

KEY = (NAME, 1001)


class Asked:
    """A cluster with job 40 of alice, which returns the job's account when queried."""

    def __init__(self, remote_state: str = "r") -> None:
        self.transfer = a_transfer(remote_state=job_state(remote_state))
        self.account = NAME
        self.asked: list[tuple[int, ...]] = []
        self.notes: list[str] = []
        ledger = SimpleNamespace(
            open_transfers=lambda: (self.transfer,),
            open={KEY: self.transfer},
            ended={},
            add_history_line=lambda _, text: self.notes.append(text),
        )
        self.reused_ids = ReusedRemoteJobIdDetector(ledger, self, CallsAtOnce(), lambda: 0.0)  # type: ignore[arg-type]  # what it needs of them

    def query_remote_job_accounts(self, cluster: str, jobs: tuple[int, ...]) -> dict[int, str]:
        assert cluster == "beta"
        self.asked.append(jobs)
        return dict.fromkeys(jobs, self.account)

    def lists(self, state: str, since_s: float = 0) -> frozenset[tuple[str, int]]:
        """Take the job list twice, because the second list takes the result of the query."""
        for _ in range(2):
            self.hears(a_row(40, state, since=second(since_s)))
        return self.reused_ids.transfers_with_reused_id()

    def hears(self, *rows: object) -> None:
        """Take a job list with these rows; without rows, a failed query."""
        snapshot = a_snapshot("beta", 9, *rows) if rows else None  # type: ignore[arg-type]
        snapshots = {"beta": snapshot} if snapshot else {}
        situation = TransferSituation(home="alpha", now=NOON, snapshots=snapshots, asleep=frozenset())
        came = (ClusterQueryResult(cluster="beta", snapshot=snapshot),)
        self.reused_ids.detect_reused_ids(came, policy_to_beta(), lambda: situation)


def test_the_account_of_a_freshly_submitted_job_is_not_queried() -> None:
    one = Asked(remote_state="")
    one.lists("qw", since_s=1)
    one.transfer = one.transfer.with_changes(remote_state=job_state("qw"))

    assert one.lists("r", since_s=5) == frozenset()
    assert one.asked == []


def test_the_account_of_a_job_from_before_a_restart_is_queried_once() -> None:
    one = Asked()

    assert one.lists("r") == one.lists("r") == frozenset()
    assert one.asked == [(40,)]


@pytest.mark.parametrize(
    ("letters", "account", "expected"),
    [("r", "gb.alpha.9.0.1", {KEY}), ("Rq", NAME, set())],
    ids=["another job", "rescheduled"],
)
def test_a_job_with_another_start_time_reuses_the_remote_id_if_its_account_differs(
    letters: str, account: str, expected: set[object]
) -> None:
    one = Asked()
    one.lists("r")
    one.account = account

    assert one.lists(letters, since_s=7) == expected
    assert one.notes == ["beta has given 40 to another job"] * len(expected)
    assert one.asked[1:] == [(40,)] * (1 + len(expected))


def test_after_silence_or_a_missed_poll_every_remote_id_is_queried() -> None:
    one = Asked()
    one.lists("r")
    one.hears()
    one.lists("r")
    assert len(one.asked) == 2

    one.transfer = one.transfer.with_changes(missed_polls=1)
    one.account = ""
    assert one.lists("r") == {KEY}


def test_a_reuse_found_by_a_refused_act_is_remembered_until_the_transfer_is_gone() -> None:
    one = Asked()
    told = [one.transfer]
    one.reused_ids.record_reused_job_ids(told)

    assert one.reused_ids.transfers_with_reused_id() == {KEY}
    assert told == []
    one.reused_ids._ledger.open.clear()
    one.hears()
    assert one.reused_ids.transfers_with_reused_id() == frozenset()
