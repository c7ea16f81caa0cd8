"""The table by which job script lines are read agrees with a real qsub."""

import json
import re

import pytest

from gridbridge.shell.program_runs import quote_for_sh
from tests.campaigns.submission.qsub_lines import HARD, NAME, REFUSED, SHELL, TAKEN, VARIABLES
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

FOLDER = "as-qsub"
SUBMIT = """
job=$(timeout 20 qsub -h -terse "$1" 2>/dev/null </dev/null) || { echo refused; exit; }
job=$(echo "$job" | tail -n 1) # below its warnings
qstat -j "${job%%.*}"
qdel "${job%%.*}" >/dev/null
"""


@pytest.fixture(scope="module")
def answers(grid: Grid) -> dict[str, str]:
    lines = (*TAKEN, *(f"#$ {options}" for options in REFUSED))
    steps = [f"mkdir -p {FOLDER} && cd {FOLDER} && printf %s {quote_for_sh(SUBMIT)} >submit"]
    for number, line in enumerate(lines):
        steps.append(f"printf '#!/bin/sh\\n%s\\necho\\n' {quote_for_sh(line)} >job{number}")
        steps.append(f"sh submit job{number} >answer{number}")
    steps.append(f"rm -rf ../{FOLDER}/job* && tail -n +1 answer* && rm -r ../{FOLDER}")
    out = grid.on("alpha-master", "sh", "-s", user="alice", stdin="\n".join(steps)).out
    answered = dict(part.split(" <==\n", 1) for part in ("\n" + out).split("\n==> ")[1:])
    return {line: answered[f"answer{number}"] for number, line in enumerate(lines)}


def fields(answer: str) -> dict[str, str]:
    rows = (row.partition(":") for row in answer.splitlines())
    known = {name.strip(): value.strip() for name, _, value in rows}
    found = {key: known[key].replace("NONE:", "") for key in known.keys() & TAKEN_KEYS}
    if VARIABLES in found:
        found[VARIABLES] = ",".join(found[VARIABLES].split(",")[1:])  # but TERM
    if HARD in found:
        found[HARD] = ",".join(sorted(found[HARD].split(","), key=lambda one: one[:4] != "h_rt"))
    if re.fullmatch(r"job\d+", found.get(NAME, "")):
        del found[NAME]  # the file's
    return {key: value for key, value in found.items() if value}


TAKEN_KEYS = frozenset(key for wanted in TAKEN.values() for key in wanted) | {SHELL}


def test_a_real_qsub_reads_script_lines_as_the_table_does(answers: dict[str, str]) -> None:
    found = {line: fields(answers[line]) for line in TAKEN}

    wrong = {line: (found[line], TAKEN[line]) for line in TAKEN if found[line] != TAKEN[line]}
    assert not wrong, json.dumps(wrong, indent=1)


def test_a_real_qsub_refuses_the_lines_that_the_table_refuses(answers: dict[str, str]) -> None:
    taken = [options for options in REFUSED if answers[f"#$ {options}"].strip() != "refused"]

    assert taken == []
