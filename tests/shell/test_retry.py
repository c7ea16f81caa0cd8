"""A failure is tried once more, or a thing again and again until somebody stops that."""

from threading import Event

import pytest

from gridbridge.shell.retry import repeat_until_stopped, retry_once


class Faltering:
    """Fails so often, then answers."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.tries = 0

    def __call__(self) -> str:
        """Do it once."""
        self.tries += 1
        if self.tries <= self.left:
            raise ConnectionError(f"try {self.tries}")
        return "answer"


@pytest.mark.parametrize(("failures", "tries"), [(0, 1), (1, 2)])
def test_a_failure_is_tried_once_more(failures: int, tries: int) -> None:
    act = Faltering(failures)

    assert (retry_once(act, ConnectionError), act.tries) == ("answer", tries)


def test_the_second_failure_is_the_callers() -> None:
    with pytest.raises(ConnectionError, match="try 2"):
        retry_once(Faltering(5), ConnectionError)


def test_another_failure_is_not_tried_again() -> None:
    act = Faltering(1)
    with pytest.raises(ConnectionError):
        retry_once(act, TimeoutError)

    assert act.tries == 1


def test_it_goes_on_until_it_is_stopped() -> None:
    stopped, seen = Event(), []

    def act() -> None:
        seen.append(len(seen))
        if len(seen) == 3:
            stopped.set()

    repeat_until_stopped(act, 0.001, stopped)

    assert seen == [0, 1, 2]


def test_a_fault_ends_it() -> None:
    with pytest.raises(ZeroDivisionError):
        repeat_until_stopped(lambda: [][1 // 0], 0.001, Event())
