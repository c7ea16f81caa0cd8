"""Queue lists and requests of refused jobs, and whether a lost job runs again."""

from collections.abc import Mapping

import pytest

from gridbridge.decisions.transfer.refused_job_stay_home_request import (
    drop_transfer_queues_from_list,
    rerun_policy_by_home_queues,
    stay_home_request_changes,
)

TRANSFER = ("transfer-gamma", "transfer-beta")
NEITHER = "!transfer-beta&!transfer-gamma"


@pytest.mark.parametrize(
    ("queues", "kept"),
    [
        ("", NEITHER),
        ("*", NEITHER),
        ("transfer-beta", ""),
        ("transfer-beta,transfer-gamma@t", ""),
        ("transfer-beta@t,all.q@n1,fast.q@@big", "all.q@n1,fast.q@@big"),
        ("*@n1", f"{NEITHER}@n1"),
        ("*.q|transfer-*", f"(*.q|transfer-*)&{NEITHER}"),
        ("!all.q@n*", f"(!all.q)&{NEITHER}@n*"),
    ],
)
def test_a_queue_list_loses_only_its_transfer_queues(queues: str, kept: str) -> None:
    assert kept == drop_transfer_queues_from_list(queues, TRANSFER)


@pytest.mark.parametrize(
    ("hard", "queues", "expected"),
    [
        (
            (("h_rt", "60"), ("remote", "false"), ("arch", "")),
            "",
            (((("h_rt", "60"), ("arch", ""), ("remote", "false")), None), (None, NEITHER)),
        ),
        ((), "transfer-beta", (((("remote", "false"),), None),)),
        ((("remote", "TRUE"),), "", ()),
        ((("remote", ""),), "", ()),
    ],
    ids=["both ways", "transfer queues alone", "requests to leave", "a BOOL without a value"],
)
def test_a_refused_job_stays_home_by_resource_request_or_by_queue_list(
    hard: tuple[tuple[str, str], ...], queues: str, expected: tuple[object, ...]
) -> None:
    assert stay_home_request_changes(hard, queues, TRANSFER) == expected


MIXED = {"all.q": "TRUE", "short.q": "FALSE"}


@pytest.mark.parametrize(
    ("queues", "own", "expected"),
    [
        ("", MIXED, "no"),
        ("all.q,transfer-beta", MIXED, "yes"),
        ("all.q@node1", MIXED, "yes"),
        ("all.q,short.q", MIXED, "no"),
        ("a*", MIXED, "no"),
        ("*@@new", MIXED, "no"),
        ("transfer-beta", {"all.q": "TRUE"}, "no"),
        ("", {"all.q": "TRUE"}, "yes"),
        ("", {"all.q": "TRUE,[node1=FALSE]"}, "no"),
        ("", {}, "no"),
    ],
    ids=[
        *(
            "any queue",
            "and a transfer queue",
            "on one host",
        ),
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
