"""Each benchmark part that needs no lab runs to its end, here with few tasks or a small dataset."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import text

from bench import campaign, cycle, elastic_replay, kept_tasks, ledger, locks, reading, sending
from bench.replicas import CARRY
from bench.rows import Row
from gridbridge.elastic.simulation.replay_engine import ReplaySimulation, make_replay_policy
from gridbridge.model.elastic.balancer_config_sections import DemandPolicySection
from gridbridge.model.elastic.replay_tasks_and_results import (
    ComparedReplayRules,
    RecordedReplayTask,
    ReplayNodePropertiesAndPrices,
)

FEW = {
    cycle: {"CAMPAIGNS": 20, "CLUSTERS": 5, "TASKS": 20_000, "ENDED": 50, "EVENTS": 2, "RUNS": 1},
    kept_tasks: {"RUNS": 1},
    locks: {"TASKS": 200, "AN_ARRAY": 20, "CAMPAIGNS": 3, "CLUSTERS": 2},
    ledger: {"AN_ARRAY": 10, "SOME": 1},
    reading: {"FEW": 1, "MANY": 2, "RUNS": 1},
    sending: {"SIZE": 10, "FEW": 20, "RUNS": 1},
}
PARTS: dict[str, Callable[[], list[Row]]] = {
    "brought": lambda: campaign.brought(20),
    "cycle": cycle.rows,
    "kept_tasks": lambda: kept_tasks.rows(100),
    "locks": locks.rows,
    "ledger": lambda: ledger.rows(30),
    "reading": reading.rows,
    "sending": lambda: sending.rows(50),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_benchmark_part_measures_something(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Otherwise a benchmark of removed code would fail only in a full run."""
    for module, sizes in FEW.items():
        for name, size in sizes.items():
            monkeypatch.setattr(module, name, size)

    rows = PARTS[part]()

    assert rows
    assert all(row.what and row.measured >= 0 for row in rows)


def test_the_state_file_is_held_while_its_disk_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The wait uses no CPU."""
    database = locks._Watched.open(f"sqlite:///{tmp_path}/state.db")
    assert isinstance(database, locks._Watched)
    moments_s = iter([1.0, 1.5])
    slow = SimpleNamespace(monotonic=lambda: next(moments_s), process_time=lambda: 0.0)
    monkeypatch.setattr(locks, "time", slow)
    database.rows(text("SELECT 1"))

    assert database.told() == locks.Longest(passed_s=0.5, cpu_s=0.0)
    (row, _) = locks._told("held", locks.Longest(passed_s=0.6, cpu_s=0.1), locks.Longest())
    assert not row.is_met
    database.close()


@pytest.mark.parametrize(
    ("cost", "wait_s", "off"),
    [(90, 20, 0.0), (99, 9, 0.01), (50, 9.5, 0.05), (50, 10, 0.0), (101, 1, 0.0)],
    ids=["cheaper alone", "little cheaper", "little sooner", "no sooner", "sooner alone"],
)
def test_a_setting_is_off_the_frontier_by_what_another_is_better_in_both(
    cost: float, wait_s: float, off: float
) -> None:
    task = RecordedReplayTask(submitted_s=0, run_s=100, slots=1)
    ran = ReplaySimulation(
        (task,),
        ReplayNodePropertiesAndPrices(),
        make_replay_policy(ComparedReplayRules.SQUEEZE, ReplayNodePropertiesAndPrices(), DemandPolicySection()),
    ).replay_workload()
    one = replace(ran, cost=100.0, wait_mean_s=10.0)
    other = replace(ran, cost=float(cost), wait_mean_s=float(wait_s))

    assert elastic_replay.off_frontier(one, (one, other)) == pytest.approx(off)


RSYNC = r"""#!/bin/sh
for last; do from=$to; to=$last; done
case "$*" in
    *--files-from=-*) tr '\0' '\n' | while read -r path; do cp "$path" "$to"; done ;;
    *) cp -r "$from." "$to" ;;
esac
"""
OURS = "from gridbridge.shell import rsync; rsync.PROGRAM = {!r}\n"


def test_each_kind_of_copy_is_timed_and_nothing_is_left(tmp_path: Path) -> None:
    """A local rsync replaces the remote one: the test checks the calls."""
    program, home = tmp_path / "rsync", tmp_path / "home"
    home.mkdir()
    program.write_text(RSYNC)
    program.chmod(0o755)
    account = pwd.getpwuid(os.getuid()).pw_name
    argv = (sys.executable, "-c", OURS.format(str(program)) + CARRY, "1", "4", account, "")
    path = f"{tmp_path}:{os.environ['PATH']}"
    env = os.environ | {"HOME": str(home), "PATH": path}
    told = subprocess.run(argv, env=env, capture_output=True, check=False)

    assert told.returncode == 0, told.stderr.decode()
    best_s = json.loads(told.stdout)
    assert set(best_s) == {"plain", "carried", "made"}
    assert all(0 < one < 60 for one in best_s.values())
    assert list(home.iterdir()) == []
