"""Which queues say whether a job runs again whose end nobody saw."""

from collections.abc import Mapping

import pytest

from gridbridge.decisions.transfer.refused_job_stay_home_request import rerun_policy_by_home_queues

MIXED = {"all.q": "TRUE", "short.q": "FALSE"}


@pytest.mark.parametrize(
    ("queues", "own", "expected"),
    [
        ("", MIXED, "no"),
        ("all.q", MIXED, "yes"),
        ("all.q,transfer-beta", MIXED, "yes"),
        ("all.q@node1", MIXED, "yes"),
        ("short.q", MIXED, "no"),
        ("all.q,short.q", MIXED, "no"),
        ("a*", MIXED, "no"),
        ("*@@new", MIXED, "no"),
        ("transfer-beta", {"all.q": "TRUE"}, "no"),
        ("", {"all.q": "TRUE"}, "yes"),
        ("", {"all.q": "TRUE,[node1=FALSE]"}, "no"),
        ("", {}, "no"),
    ],
    ids=[
        *("any queue", "one that says yes", "and a transfer queue", "on one host", "one that says no"),
        *("two that differ", "a pattern may mean any", "any queue of some hosts", "a transfer queue alone"),
        *("all say yes", "some hosts say no", "there is none"),
    ],
)
def test_the_queues_where_it_could_have_run_say_it(queues: str, own: Mapping[str, str], expected: str) -> None:
    assert rerun_policy_by_home_queues((), queues, own) == expected


@pytest.mark.parametrize(("value", "expected"), [("true", "no"), ("", "no"), ("false", "yes")], ids=str)
def test_a_job_that_asks_to_leave_could_have_run_nowhere(value: str, expected: str) -> None:
    assert rerun_policy_by_home_queues((("remote", value),), "", {"all.q": "TRUE"}) == expected
