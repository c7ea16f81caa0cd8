"""Root asks each cluster once about all earlier attempts of an array's tasks."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.errors import CommandFailed, GridbridgeError, ParseError
from gridbridge.privileged import as_user_array_arguments, earlier_attempts_ended_check
from gridbridge.privileged.as_user_array_arguments import AsUserArrayArguments
from gridbridge.privileged.as_user_refusals_and_user_switch import OwnerRequestNotYetPossible
from gridbridge.privileged.earlier_attempts_ended_check import require_earlier_attempts_ended

CLUSTER = {"kind": "embedded", "folder": "/mnt/x"}
CONFIG = {"site": {"cluster": "alpha"}, "cluster": {"beta": CLUSTER, "gamma": CLUSTER}}

Ask = Callable[[str], Mock]
Ledger = RootLedgerOfSubmittedTasks


@pytest.fixture(name="asked")
def _asked(monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setattr(
        as_user_array_arguments.as_user_refusals_and_user_switch, "read_root_configuration", lambda _: CONFIG
    )

    def of(answer: str) -> Mock:
        send = Mock(return_value=answer, side_effect=None if answer else GridbridgeError("no answer"))
        worker = Mock(send_request_to_owner_process=send)
        monkeypatch.setattr(earlier_attempts_ended_check, "CampaignOwnerWorker", Mock(return_value=worker))
        return send

    return of


@pytest.fixture(name="ledger")
def _ledger(tmp_path: Path) -> Ledger:
    """Return a ledger: tasks 0 to 99 went to beta one by one, task 5 later to gamma and to removed delta."""
    ledger = RootLedgerOfSubmittedTasks(7, str(tmp_path / "ledger"))
    ledger.record_or_verify_campaign_file(1000, "abc")
    for number in range(1, 101):
        ledger.record_array(number, "beta", f"{number - 1}:1")
        if number != 2:
            ledger.record_job_id_of_array(number, str(1000 + number))
    ledger.record_array(101, "gamma", "5-6:2")
    ledger.record_array(102, "delta", "5:3")
    return ledger


def wanted(tasks: str) -> AsUserArrayArguments:
    return AsUserArrayArguments(["send-arrays", "c.7", "beta", "200", tasks])


def test_each_cluster_is_asked_once_about_all_arrays(asked: Ask, ledger: Ledger) -> None:
    send = asked("1=2:4:1")
    require_earlier_attempts_ended(wanted("0-99:4"), ledger, 0)

    first, second = (request.args for request in send.mock_calls)
    assert (len(first), first[:3]) == (100, ("1=1001", "2=+", "3=1003"))
    assert second == ("101=+",)


def test_a_resubmitted_array_is_also_looked_up_by_name(asked: Ask, ledger: Ledger) -> None:
    """The recorded id may belong to another, renamed job."""
    send = asked("")
    ledger.record_array(101, "gamma", "5-6:2")
    ledger.record_job_id_of_array(101, "55")
    require_earlier_attempts_ended(wanted("6:4"), ledger, 0)

    assert send.mock_calls == [call("7=1007"), call("101=55+")]


@pytest.mark.parametrize("answer", ["101=1:2:1", "100=8:9:1 101=7:3000000000:2,2:3:1"])
def test_no_attempt_is_sent_while_an_earlier_attempt_is_listed(asked: Ask, ledger: Ledger, answer: str) -> None:
    asked(answer)
    with pytest.raises(
        OwnerRequestNotYetPossible, match="an earlier attempt of a task is still at gamma, in array 101"
    ):
        require_earlier_attempts_ended(wanted("5-6:4"), ledger, 0)


@pytest.mark.parametrize("answer", ["", "101", "101=", "101=3:9:1", "101=x", "101=1:2:3:4", "="])
def test_a_missing_or_senseless_answer_blocks_no_attempt(asked: Ask, ledger: Ledger, answer: str) -> None:
    """Such an answer counts as a silent cluster, and silence blocks no attempt.

    This is safe, because a stolen service account cannot make a cluster silent.
    """
    asked(answer)
    require_earlier_attempts_ended(wanted("5-6:4"), ledger, 0)


class Adapter:
    """A cluster on which somebody renamed arrays and imitated another array."""

    error: Exception | None = None

    def find_held_job(self, _: object, name: str, person: str) -> str:
        """Return the oldest job of the name, or fail."""
        assert person == "alice"
        if self.error:
            raise self.error
        return {"gc.alpha.7.2": "52", "gc.alpha.7.101": ""}[name]

    def find_duplicate_arrays(self, _: object, name: str, person: str, array: str) -> list[str]:
        assert (name, person, array) == ("gc.alpha.7.2", "alice", "52")
        return ["53"]

    def query_live_indices(self, _: object, arrays: dict[str, str]) -> dict[str, tuple[range, ...]]:
        places = {"1001": (range(1, 3),), "52": (), "53": (range(4, 5), range(7, 8))}
        return {job: places[job] for job in arrays}


@pytest.fixture(name="adapter")
def _adapter(monkeypatch: pytest.MonkeyPatch, asked: Ask) -> Adapter:
    del asked
    adapter = Adapter()
    monkeypatch.setattr(earlier_attempts_ended_check, "load_campaign_array_adapter", lambda _: adapter)
    monkeypatch.setattr(AsUserArrayArguments, "access_and_account_of_user", lambda *_: (None, "alice"))
    return adapter


def test_every_job_that_may_be_the_array_is_queried(adapter: Adapter) -> None:
    del adapter
    answer = earlier_attempts_ended_check._live_task_index_query(wanted("5:4"), "alice")

    assert answer(["1=1001", "2=+", "101=+"]) == "1=1:3:1 2=4:5:1,7:8:1 101="


@pytest.mark.parametrize("error", [ParseError("half"), ValueError("no number")])
def test_an_unreadable_answer_is_no_silence(adapter: Adapter, error: Exception) -> None:
    """If such an answer counted as silence, a forged answer could send a task twice."""
    adapter.error = error

    with pytest.raises(OwnerRequestNotYetPossible, match="beta: "):
        earlier_attempts_ended_check._live_task_index_query(wanted("5:4"), "alice")(["2=+"])


def test_a_failed_query_counts_as_silence(adapter: Adapter) -> None:
    adapter.error = CommandFailed(("qstat",), 1, b"", b"no qmaster")

    with pytest.raises(CommandFailed):
        earlier_attempts_ended_check._live_task_index_query(wanted("5:4"), "alice")(["2=+"])


def test_no_cluster_is_queried_after_the_time_limit(
    asked: Ask, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = asked("")
    monkeypatch.setattr(earlier_attempts_ended_check, "ALL_ASK_S", 0.0)
    require_earlier_attempts_ended(wanted("5-6:4"), ledger, 0)

    send.assert_not_called()
