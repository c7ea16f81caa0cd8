"""A background query runs once at a time; a failed query gives no answer."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.program.threads_and_backoff import RepeatedBackgroundQuery


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


def test_an_answer_is_returned_once_with_its_subject() -> None:
    asking = ScriptedBackgroundQuery()
    asking.question.start_query(7)
    before = asking.question.take_query_result()
    asking.open[0].set_result(8)

    assert (before, asking.question.take_query_result(), asking.question.take_query_result()) == (None, (7, 8), None)


def test_no_second_query_starts_before_the_answer() -> None:
    asking = ScriptedBackgroundQuery()
    first = asking.question.is_query_due()
    asking.question.start_query(7)
    meanwhile = asking.question.is_query_due()
    asking.open[0].set_result(8)
    asking.question.take_query_result()

    assert (first, meanwhile, asking.question.is_query_due()) == (True, False, True)


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
