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
def test_the_home_queues_of_a_job_decide_whether_a_lost_job_runs_again(
    queues: str, own: Mapping[str, str], expected: str
) -> None:
    assert rerun_policy_by_home_queues((), queues, own) == expected


@pytest.mark.parametrize(("value", "expected"), [("true", "no"), ("", "no"), ("false", "yes")], ids=str)
def test_a_job_that_requests_remote_execution_never_runs_again_by_home_queues(value: str, expected: str) -> None:
    assert rerun_policy_by_home_queues((("remote", value),), "", {"all.q": "TRUE"}) == expected
