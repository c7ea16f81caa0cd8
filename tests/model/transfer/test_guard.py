"""Which guard a task needs, by what its job asks for."""

import pytest

from gridbridge.model.transfer.guard import (
    GuardKind,
    choose_guard,
    may_include_queue,
    names_only_queues,
)

OURS = ("transfer-beta", "transfer-delta")


@pytest.mark.parametrize(
    ("hard", "queues", "expected"),
    [
        ((), "", GuardKind.START),
        ((), "all.q", GuardKind.START),
        ((), "transfer-beta", GuardKind.NONE),
        ((), "transfer-beta@alpha-master,transfer-delta", GuardKind.NONE),
        ((), "transfer-beta,all.q", GuardKind.START),
        ((), "transfer-*", GuardKind.START),
        ((), "*@alpha-master", GuardKind.START),
        ((), "@transfer", GuardKind.START),
        ((("remote", "true"),), "", GuardKind.NONE),
        ((("remote", "TRUE"),), "all.q", GuardKind.NONE),
        ((("remote", ""),), "", GuardKind.NONE),
        ((("remote", "false"),), "all.q", GuardKind.START),
    ],
    ids=[
        "nothing",
        "a queue here",
        "a transfer queue",
        "two of them",
        "or one here",
        "a pattern may mean any",
        "any queue of a host",
        "any queue of some hosts",
        "to leave",
        "to leave, and a queue here that can't be",
        "a BOOL without a value",
        "to stay",
    ],
)
def test_only_what_could_start_here_is_kept_from_it(
    hard: tuple[tuple[str, str], ...], queues: str, expected: str
) -> None:
    assert choose_guard(hard, queues, OURS, is_array=False) == expected


def test_a_task_of_an_array_has_a_hold_since_a_start_time_is_the_whole_jobs() -> None:
    assert choose_guard((), "", OURS, is_array=True) == GuardKind.HOLD
    assert choose_guard((), "transfer-beta", OURS, is_array=True) == GuardKind.NONE


def test_no_list_names_any_queue() -> None:
    assert not names_only_queues("", OURS)
    assert may_include_queue("", "all.q")
