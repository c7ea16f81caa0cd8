"""Show how many minutes each part of `make test` took; fail when the run took over twice its budget.

usage: python -m tests.minutes [--budget MINUTES] [--note]
Reads pytest's files in .build/junit: a JUnit XML file for each stage, `began`, whose age is the run's,
and `second-chances`. --note saves the duration of each lab test file for order.py.
"""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lxml import etree

from tests.order import SECONDS, plain

JUNIT = Path(__file__).parents[1] / ".build/junit"
LAB = ("tests/contract", "tests/lab")
SLOWEST = 10


class Took(NamedTuple):
    stage: str
    file: str
    name: str
    seconds: float


def read(folder: Path) -> tuple[Took, ...]:
    return tuple(took for path in sorted(folder.glob("*.xml")) for took in _stage(path))


def _stage(path: Path) -> Iterator[Took]:
    for case in etree.parse(path).iter("testcase"):
        module = re.match(r"tests(\.[a-z_]+)+", case.get("classname", ""))
        file = f"{module[0].replace('.', '/')}.py" if module else ""
        name, seconds = plain(case.get("name", "")), float(case.get("time", 0))
        yield Took(path.stem, file, name, seconds)


def folder_of(took: Took) -> str:
    """Return the folder of a test; a file directly in tests/ has no folder."""
    return "/".join(took.file.split("/")[:2])


def report(all_took: Sequence[Took], minutes: float, budget: float, chances: str) -> str:
    """Return the report of a run: slowest tests, folders, second chances."""
    slowest = sorted(all_took, key=lambda took: -took.seconds)[:SLOWEST]
    folders = Counter[str]()
    for took in all_took:
        folders[folder_of(took)] += took.seconds  # type: ignore[assignment]
    return "\n".join(
        (
            f"the {SLOWEST} slowest tests, in seconds",
            *(f"{took.seconds:8.1f}  {took.file}::{took.name}" for took in slowest),
            "minutes of the tests by folder, side by side or not",
            *(f"{seconds / 60:8.1f}  {folder}" for folder, seconds in folders.most_common()),
            f"second chances: {len(chances.splitlines())}",
            *(f"          {line}" for line in chances.splitlines()),
            f"{minutes:.1f} minutes, of a budget of {budget:g}",
        )
    )


def note(all_took: Sequence[Took]) -> str:
    files = Counter[str]()
    for took in all_took:
        if took.stage == "lab" and folder_of(took) in LAB:
            files[took.file] += took.seconds  # type: ignore[assignment]
    rows = (f'"{file}" = {seconds:.0f}' for file, seconds in files.most_common())
    return "\n".join(("# Written by `python -m tests.minutes --note`.", *rows)) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Print the report of the last run; return 1 when it took over twice its budget."""
    parser = argparse.ArgumentParser(prog="python -m tests.minutes")
    parser.add_argument("--budget", type=float, default=30, help="minutes")
    parser.add_argument("--note", action="store_true", help="keep the seconds of the lab's files")
    chosen = parser.parse_args(arguments)
    all_took = read(JUNIT)
    minutes = (time.time() - (JUNIT / "began").stat().st_mtime) / 60
    chances = JUNIT / "second-chances"
    sys.stdout.write(report(all_took, minutes, chosen.budget, chances.read_text() if chances.exists() else ""))
    sys.stdout.write("\n")
    if chosen.note and (JUNIT / "lab.xml").exists():
        SECONDS.write_text(note(all_took))
    return 1 if minutes > 2 * chosen.budget else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
