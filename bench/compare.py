"""Compare two runs of `make bench`: each figure in relation to its run's baseline, as a table.

Usage: .venv/bin/python -m bench.compare BEFORE.json AFTER.json

What machine and hour did to both runs cancels out of a ratio; a row without baseline or target, and
one that only one of the runs has, is left out.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.rows import Row


def read(path: Path) -> dict[str, Row]:
    """Return the figures that `bench.transfer --json` wrote, by name."""
    content = json.loads(path.read_text())
    return {row["what"]: Row(**row) for row in content["rows"]}


def table(before: dict[str, Row], after: dict[str, Row]) -> Iterator[str]:
    """Return the lines of a table of all comparable figures."""
    yield "| what | before | after |"
    yield "|---|---|---|"
    for what, new in after.items():
        old = before.get(what)
        if old and new.limit is not None:
            yield f"| {what.strip()} | {told(old)} | {told(new)} |"


def told(row: Row) -> str:
    """Return a figure with its ratio to the baseline, and whether it missed its target."""
    times = f", {row.measured / row.baseline:.2f} times" if row.baseline else ""
    return f"{row.measured:.3g} {row.unit}{times}{'' if row.is_met else ', **missed**'}"


if __name__ == "__main__":
    print("\n".join(table(*(read(Path(name)) for name in sys.argv[1:3]))))
