"""The requests of a job decide its guard."""

import pytest

from gridbridge.model.transfer.claim_and_guard import (
    HomeStartGuard,
    choose_home_start_guard,
    does_list_name_only_queues,
    may_queue_list_include,
)

OURS = ("transfer-beta", "transfer-delta")


@pytest.mark.parametrize(
    ("hard", "queues", "expected"),
    [
        ((), "", HomeStartGuard.START),
        ((), "all.q", HomeStartGuard.START),
        ((), "transfer-beta", HomeStartGuard.NONE),
        ((), "transfer-beta@alpha-master,transfer-delta", HomeStartGuard.NONE),
        ((), "transfer-beta,all.q", HomeStartGuard.START),
        ((), "transfer-*", HomeStartGuard.START),
        ((), "*@alpha-master", HomeStartGuard.START),
        ((), "@transfer", HomeStartGuard.START),
        ((("remote", "true"),), "", HomeStartGuard.NONE),
        ((("remote", "TRUE"),), "all.q", HomeStartGuard.NONE),
        ((("remote", ""),), "", HomeStartGuard.NONE),
        ((("remote", "false"),), "all.q", HomeStartGuard.START),
    ],
    ids=[
        *("nothing", "a queue here", "a transfer queue", "two of them", "or one here", "a pattern may mean any"),
        *("any queue of a host", "any queue of some hosts", "to leave", "to leave, and a queue here that can't be"),
        *("a BOOL without a value", "to stay"),
    ],
)
def test_only_a_job_that_could_start_at_home_needs_a_guard(
    hard: tuple[tuple[str, str], ...], queues: str, expected: str
) -> None:
    assert choose_home_start_guard(hard, queues, OURS, is_array=False) == expected


def test_an_array_task_is_guarded_by_a_hold_instead_of_a_start_time() -> None:
    assert choose_home_start_guard((), "", OURS, is_array=True) == HomeStartGuard.HOLD
    assert choose_home_start_guard((), "transfer-beta", OURS, is_array=True) == HomeStartGuard.NONE
    assert not does_list_name_only_queues("", OURS)
    assert may_queue_list_include("", "all.q")
