"""The requests of a job decide its guard; only job lists from after the last change decide on a transfer."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.model.transfer.claim_and_guard import (
    HomeStartGuard,
    choose_home_start_guard,
    does_list_name_only_queues,
    may_queue_list_include,
)
from tests.state_files import made_transfer

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


TOLD = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
PACKAGE = Path(__file__).parents[3] / "gridbridge"
COMPARED = re.compile(r"[<>]=?\s*[\w.]+\.updated_at\b|\.updated_at( [+-] \w+)? [<>]")


@pytest.mark.parametrize(
    ("asked_at", "expected"),
    [(TOLD - SECOND, False), (TOLD, False), (TOLD + SECOND, True)],
    ids=["before its last message", "at the same moment", "after it"],
)
def test_only_a_job_list_queried_after_the_last_message_may_decide_on_a_transfer(
    asked_at: datetime, expected: bool
) -> None:
    """An older job list may lack a newly submitted job."""
    transfer = made_transfer(created_at=TOLD - SECOND, updated_at=TOLD)

    assert transfer.is_unchanged_since_query(asked_at) is expected


def test_no_other_module_compares_query_times_with_the_last_message() -> None:
    found = {str(path.relative_to(PACKAGE)): len(COMPARED.findall(path.read_text())) for path in PACKAGE.rglob("*.py")}

    assert {name: count for name, count in found.items() if count} == {"model/transfer/transfers_and_actions.py": 1}


@pytest.mark.parametrize("code", ["a <= one.updated_at", "one.updated_at + SETTLE < a"])
def test_the_search_for_time_comparisons_finds_a_comparison(code: str) -> None:
    assert COMPARED.search(code)
