"""When clusters are queried, and what an unreadable or failed answer does."""

from concurrent.futures import Future
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from gridbridge.batch.gridengine import status
from gridbridge.errors import GridbridgeError
from gridbridge.model.cluster_snapshot import CampaignJobsSentBeforeListing, ClusterJobListRow, ClusterSnapshot
from gridbridge.model.job_and_queue_states import UNSEEN
from gridbridge.model.transfer.transfer_config_sections import PollerSection
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from gridbridge.program.cluster_observer import ClusterObserver, ClusterQueryResult, query_interval_by_answer_time
from gridbridge.program.threads_and_backoff import RepeatedBackgroundQuery
from gridbridge.shell.clock import Clock
from gridbridge.state.cluster_query_tables import decode_cluster_snapshot
from tests.contract.waiting import until
from tests.program.test_threads import without_room

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOWHERE = GridEngineCellAccessSettings(root="", cell="b", qmaster_port="", execd_port="", binaries="", timeout_s=1)


@pytest.mark.parametrize(
    ("usual_s", "interval_s", "expected_s"),
    [(0.01, 5, 5), (0.5, 5, 10), (2.0, 5, 15), (9.0, 25, 25)],
    ids=["quick", "slow", "very slow", "never shorter than configured"],
)
def test_the_query_interval_grows_with_the_answer_time_below_stale_s(
    usual_s: float, interval_s: float, expected_s: float
) -> None:
    """Queries take a twentieth of the time; values are stale after 30 s."""
    section = PollerSection(interval_s=interval_s, query_share=0.05, stale_s=30)

    assert query_interval_by_answer_time(usual_s, section) == expected_s


def test_an_unexpected_exception_is_trouble_of_its_cluster_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(status, "query_cluster_snapshot", fault)
    observer = ClusterObserver("beta", NOWHERE, PollerSection(), Clock())
    observer.start_query_if_due(frozenset)

    assert _answer(observer).trouble == "IndexError: list index out of range"


def test_a_query_without_a_thread_is_trouble_of_its_cluster_only() -> None:
    def ask(_: object) -> None:
        observer = ClusterObserver("beta", NOWHERE, PollerSection(), Clock())
        observer.start_query_if_due(frozenset)

        assert "can't start new thread" in _answer(observer).trouble

    without_room(ask)


def _answer(observer: ClusterObserver) -> ClusterQueryResult:
    return until(observer.take_query_result, "the answer")


class Sleepy:
    """A clock that the test sets, and a cluster that answers at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.asked_at: list[float] = []
        self.words_asked_at: list[float] = []
        monkeypatch.setattr(status, "query_cluster_snapshot", self.snapshot)
        monkeypatch.setattr(status, "query_requestable_names", self.vocabulary)
        clock = Clock(lambda: self.now_s, lambda: self.now_s)
        self.observer = ClusterObserver("beta", NOWHERE, PollerSection(interval_s=60), clock)

    def snapshot(self, *_: object) -> tuple[ClusterSnapshot, float]:
        self.asked_at.append(self.now_s)
        now = datetime.now(UTC)
        return ClusterSnapshot(cluster="b", taken_at=now, jobs={}, pending=0, free_slots=0), 0.01

    def vocabulary(self, _: object) -> None:
        self.words_asked_at.append(self.now_s)

    def ask_until(self, end_s: float) -> None:
        """Advance the clock second by second, and query whenever a query is due."""
        while self.now_s < end_s:
            self.observer.start_query_if_due(frozenset)
            if self.observer._asked:
                _answer(self.observer)
            self.now_s += 1


@pytest.mark.parametrize(("interval_s", "asked_at"), [(60, [0, 60]), (25, [0, 25, 50]), (100, [0, 100])])
def test_a_changed_interval_counts_from_the_last_query(
    interval_s: float, asked_at: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    sleepy = Sleepy(monkeypatch)
    sleepy.ask_until(10)
    sleepy.observer.use_changed_configuration(NOWHERE, PollerSection(interval_s=interval_s, stale_s=300), ())
    sleepy.ask_until(60 + interval_s / 2)

    assert sleepy.asked_at == asked_at


def test_a_changed_configuration_queries_the_vocabulary_again_at_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = PollerSection(interval_s=60, vocabulary_s=600)
    sleepy = Sleepy(monkeypatch)
    sleepy.observer.use_changed_configuration(NOWHERE, slow, ())
    sleepy.ask_until(200)
    sleepy.observer.use_changed_configuration(NOWHERE, slow, ())
    sleepy.ask_until(400)

    assert sleepy.words_asked_at == [0, 240]


def test_arrays_of_campaigns_are_queried_with_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their waiting tasks must not close transfer queues, and the runner needs their states."""
    told: list[tuple[object, ...]] = []

    def note(*words: object) -> None:
        told.append(words)
        raise GridbridgeError("silent")

    monkeypatch.setattr(status, "query_cluster_snapshot", note)
    observer = ClusterObserver("beta", NOWHERE, PollerSection(), Clock())
    observer.start_query_if_due(
        lambda: frozenset({1}), {"beta": CampaignJobsSentBeforeListing(jobs=frozenset({7}))}.__getitem__
    )
    _answer(observer)

    assert told == [(NOWHERE, "beta", frozenset({1, 7}), (), frozenset({7}))]


def _observed(monkeypatch: pytest.MonkeyPatch, sent: CampaignJobsSentBeforeListing, **seen: Any) -> ClusterQueryResult:
    """Return the answer of a cluster that lists transfer job 1 and array 7."""
    rows = {n: (ClusterJobListRow(job_id=n, name="n", owner="a", state=UNSEEN),) for n in (1, 7)}
    known = {"cluster": "beta", "taken_at": NOON, "pending": 0, "free_slots": 3, "jobs": rows}
    answer = ClusterSnapshot(**known | seen), 0.5
    monkeypatch.setattr(status, "query_cluster_snapshot", lambda *_: answer)
    observer = ClusterObserver("beta", NOWHERE, PollerSection(interval_s=5), Clock())
    observer.start_query_if_due(lambda: frozenset({1}), lambda _: sent)
    return _answer(observer)


def test_arrays_of_campaigns_are_shared_with_the_runner_only(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = CampaignJobsSentBeforeListing(jobs=frozenset({7}), released=frozenset({"3.1"}), is_watched=True)
    answer = _observed(monkeypatch, sent)

    assert answer.snapshot
    assert answer.snapshot.jobs.keys() == {1}
    assert answer.shared
    assert answer.shared.covers == {"3.1"}
    assert answer.shared.asked_at == answer.snapshot.taken_at
    assert answer.shared.every_s > 5.5
    told = decode_cluster_snapshot(answer.shared.content, "beta", NOON)
    assert (told.jobs.keys(), told.free_slots) == ({7}, 3)


def test_an_answer_is_not_shared_without_campaign_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = _observed(monkeypatch, CampaignJobsSentBeforeListing())

    assert answer.snapshot
    assert answer.shared is None


class ScriptedBackgroundQuery:
    def __init__(self, **pauses: float) -> None:
        self.now_s = 0.0
        self.open: list[Future[int]] = []
        workers = SimpleNamespace(run_call_in_thread=self._do)
        self.question: RepeatedBackgroundQuery[int, int] = RepeatedBackgroundQuery(
            workers,  # type: ignore[arg-type]  # what it needs of them
            "beta",
            "count",
            int,
            lambda: self.now_s,
            **pauses,
        )

    def _do(self, owner: str, act: object, subject: int) -> Future[int]:
        assert (owner, act) == ("cluster beta", int)
        self.open.append(Future())
        return self.open[-1]


def test_an_answer_is_returned_once_with_its_subject_and_before_the_next_query() -> None:
    asking = ScriptedBackgroundQuery()
    due = [asking.question.is_query_due()]
    asking.question.start_query(7)
    before = asking.question.take_query_result()
    due.append(asking.question.is_query_due())
    asking.open[0].set_result(8)

    assert (before, asking.question.take_query_result(), asking.question.take_query_result()) == (None, (7, 8), None)
    assert [*due, asking.question.is_query_due()] == [True, False, True]


def test_two_queries_have_a_pause_between() -> None:
    asking = ScriptedBackgroundQuery(pause_s=60, first_s=9)
    told = []
    for asking.now_s in (0, 9, 10, 68, 69):
        told.append(asking.question.is_query_due())

    assert told == [False, True, False, False, True]


def test_a_failed_query_is_logged_and_repeated(caplog: pytest.LogCaptureFixture) -> None:
    asking = ScriptedBackgroundQuery()
    asking.question.start_query(7)
    asking.open[0].set_exception(GridbridgeError("no answer"))

    assert asking.question.take_query_result() is None
    assert "event=failed act=count cluster=beta why='no answer'" in caplog.text
    assert asking.question.is_query_due()
