"""How often a cluster is asked that takes its time to answer, and what an odd answer does."""

import time

import pytest

from gridbridge.batch.gridengine import status
from gridbridge.model.policy import Poller
from gridbridge.model.route import Cell
from gridbridge.services.observer import Answer, Observer, stretched


@pytest.mark.parametrize(
    ("usual_s", "expected_s"), [(0.01, 5), (0.5, 10), (2.0, 15)], ids=["quick", "slow", "very slow"]
)
def test_an_interval_grows_with_the_answers_but_closes_no_queue(
    usual_s: float, expected_s: float
) -> None:
    """A twentieth of the time, but values are stale after 30 s."""
    assert stretched(usual_s, Poller(interval_s=5, query_share=0.05, stale_s=30)) == expected_s


def test_an_interval_is_never_shorter_than_configured() -> None:
    assert stretched(9.0, Poller(interval_s=25, query_share=0.05, stale_s=30)) == 25


def test_an_answer_that_nobody_thought_of_is_trouble_of_its_cluster_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The service goes on, and asks it again."""

    def fault(*_: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(status, "snapshot", fault)
    nowhere = Cell(root="", cell="b", qmaster_port="", execd_port="", binaries="", timeout_s=1)
    observer = Observer("beta", nowhere, Poller(), time.monotonic)
    observer.ask_if_due(frozenset)

    assert _answer(observer).trouble == "IndexError: list index out of range"


def _answer(observer: Observer) -> Answer:
    deadline = time.monotonic() + 30
    while not (answer := observer.answer()):
        assert time.monotonic() < deadline
    return answer
