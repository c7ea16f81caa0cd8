"""A job behaves the same when the other cluster runs it: one qsub, run twice, compared.

The same user submits each row (fidelity/rows.py) to beta itself and through transfer-beta, in two
fresh folders. Every difference has a name; docs/reference/fidelity.md lists the allowed ones with
their rows, and each listed difference must occur.
"""

import re

import pytest

from tests.lab.grid import ROOT, Grid
from tests.lab.transfer.fidelity.compare import Differences, compare
from tests.lab.transfer.fidelity.rows import ROWS, Row
from tests.lab.transfer.fidelity.run import Results, run_rows

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def results(grid: Grid) -> Results:
    """Run every row at home and by transfer, all at once."""
    return run_rows(grid, ROWS)


@pytest.fixture(scope="session")
def allowed() -> Differences:
    """Return the differences that the documentation allows."""
    text = (ROOT / "docs/reference/fidelity.md").read_text()
    table = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", text, re.MULTILINE)
    return {(name, row) for name, rows in table for row in rows.replace("`", "").split(", ")}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_transferred_job_differs_only_as_documented(row: Row, results: Results, allowed: Differences) -> None:
    found = compare(results[row.name])

    unexpected = {name: sides for name, sides in found.items() if not {(name, "all"), (name, row.name)} & allowed}
    assert unexpected == {}


def test_every_documented_difference_occurs(results: Results, allowed: Differences) -> None:
    seen = {(name, row) for row, sides in results.items() for name in compare(sides)}
    names = {name for name, _ in seen}

    unseen = {(name, row) for name, row in allowed - seen if row != "all" or name not in names}
    assert unseen == set()


def test_an_interactive_job_is_refused_with_a_reason(grid: Grid) -> None:
    """The job would hang, because its terminal would be at another cluster."""
    asked = grid.on(
        "alpha-master",
        *("timeout", "40", "qrsh", "-now", "n", "-N", "ask", "-l", "remote=true", "hostname"),
        user="alice",
    )

    assert asked.status == 100
    reason = "gridbridge: an interactive job can't run on another cluster"
    grid.until(lambda: reason in grid.cell("alpha", "qstat", "-j", "ask").out, reason, 20)
    grid.cell("alpha", "qdel", "ask")
