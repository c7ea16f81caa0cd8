"""With `make bench BRIEF=1` every part measures small sizes, and names the targets that it does not judge."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import brief
from bench.rows import Row

ROOT = Path(__file__).parents[2]
SIZES = """
from bench import campaign, cycle, executor, harvest, injection, join, kept_tasks, ledger, locks, looks
from bench import questions, reading, rebalance, replicas, rows, sending, simulation, ssh
from bench import staging, transfer
print(campaign.TASKS, cycle.TASKS, harvest.WATCHED_S, injection.TURNS, join.REPEATS)
print(kept_tasks.RUNS, ledger.AN_ARRAY, locks.TASKS, looks.TASKS, questions.WATCHED_S, reading.MANY)
print(executor.CALLS, rebalance.TASKS, replicas.MB, rows.Size().transfers, sending.RUNS, simulation.TASKS)
print(ssh.AT_ONCE, staging.MB, transfer.SLOTS)
"""
OWN_LISTS = ("elastic", "elastic_replay", "qstat_parse", "accounting")  # with sizes as options


def sizes(value: str) -> list[float]:
    env = {"PATH": "/usr/bin:/bin", "BRIEF": value}
    argv = (sys.executable, "-c", SIZES)
    ran = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return [*map(float, ran.stdout.split())]


def test_each_part_has_a_small_size() -> None:
    whole, small = sizes(""), sizes("1")

    assert len(whole) == 20
    assert all(few < many for few, many in zip(small, whole, strict=True))


@pytest.mark.parametrize("name", OWN_LISTS)
def test_a_size_that_is_an_option_is_small_too(name: str) -> None:
    text = (ROOT / "bench" / f"{name}.py").read_text()

    assert re.search(r'add_argument\("--\w+", type=\w+, default=sized\(', text)


def test_make_passes_brief_to_every_measurement_and_separates_its_figures() -> None:
    argv = ("make", "--no-print-directory", "-n", "-o", "lab", "bench", "BRIEF=1")
    ran = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    whole = subprocess.run(argv[:-1], cwd=ROOT, capture_output=True, text=True, check=True)

    assert "export BRIEF\n" in (ROOT / "Makefile").read_text()
    assert ran.stdout == whole.stdout.replace(".build", ".build/brief")
    assert ".build/brief/figures.json" in ran.stdout


def test_a_target_for_whole_sizes_is_told_as_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    growth = Row(what="times", measured=3.0, unit="x", limit=1.2, needs_whole=True)
    always = Row(what="memory", measured=3.0, unit="MB", limit=1.0)
    judged = (growth.target, growth.is_met)
    monkeypatch.setattr("bench.rows.IS_BRIEF", True)

    assert judged == ("at most 1.2", False)
    assert (growth.target, growth.is_met) == ("not judged", True)
    assert (always.target, always.is_met) == ("at most 1", False)


def test_misses_of_whole_sizes_are_told_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = brief.judged(["plan: 9 > 4 times"])
    monkeypatch.setattr(brief, "IS_BRIEF", True)

    assert (before, brief.judged(["plan: 9 > 4 times"])) == (["plan: 9 > 4 times"], [])
    assert capsys.readouterr().err == "not judged: plan: 9 > 4 times\n"
