"""An action is retried once, or repeated until it is stopped."""

from threading import Event

import pytest

from gridbridge.shell.retry import repeat_until_stopped, retry_once


class Faltering:
    """Fails a given number of times, then answers."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.tries = 0

    def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self.left:
            raise ConnectionError(f"try {self.tries}")
        return "answer"


@pytest.mark.parametrize(("failures", "tries"), [(0, 1), (1, 2)])
def test_a_failed_action_is_retried_once(failures: int, tries: int) -> None:
    act = Faltering(failures)

    assert (retry_once(act, ConnectionError), act.tries) == ("answer", tries)


@pytest.mark.parametrize(("retried", "last"), [(ConnectionError, "try 2"), (TimeoutError, "try 1")])
def test_a_second_failure_and_an_unlisted_exception_are_raised(retried: type[Exception], last: str) -> None:
    with pytest.raises(ConnectionError, match=last):
        retry_once(Faltering(5), retried)


def test_an_action_is_repeated_until_stopped() -> None:
    stopped, seen = Event(), []

    def act() -> None:
        seen.append(len(seen))
        if len(seen) == 3:
            stopped.set()

    repeat_until_stopped(act, 0.001, stopped)

    assert seen == [0, 1, 2]


def test_an_exception_ends_the_repetition() -> None:
    with pytest.raises(ZeroDivisionError):
        repeat_until_stopped(lambda: [][1 // 0], 0.001, Event())
