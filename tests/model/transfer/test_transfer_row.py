"""Only job lists from after the last change decide on a transfer."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_messages_in_spool import StarterPhase

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
    transfer = Transfer(
        name="gb.alpha.7.0.1",
        uid=1000,
        owner="alice",
        remote="beta",
        queue="transfer-beta",
        phase=StarterPhase.HELD,
        record="r1",
        wake="f1",
        rerun="",
        created_at=TOLD - SECOND,
        updated_at=TOLD,
    )

    assert transfer.is_unchanged_since_query(asked_at) is expected


def test_no_other_module_compares_query_times_with_the_last_message() -> None:
    found = {str(path.relative_to(PACKAGE)): len(COMPARED.findall(path.read_text())) for path in PACKAGE.rglob("*.py")}

    assert {name: count for name, count in found.items() if count} == {"model/transfer/transfers_and_actions.py": 1}


@pytest.mark.parametrize("code", ["a <= one.updated_at", "one.updated_at + SETTLE < a"])
def test_the_search_for_time_comparisons_finds_a_comparison(code: str) -> None:
    assert COMPARED.search(code)
