"""Locks of rebalancing rounds: one round of a kind at a time, and a second round ends with exit status 1."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.model.rebalance.placement_snapshot_and_moves import (
    PlacementSnapshot,
    RebalanceMovePlan,
    ValidAndDroppedMoves,
)
from gridbridge.model.rebalance.rebalance_section import RebalanceSection, StorageAreaSection
from gridbridge.model.site.site_section import SiteSection
from gridbridge.rebalance.mover import rebalance_round_runner, service_account_and_policy
from gridbridge.rebalance.mover.rebalance_plan_by_target import RebalancePlanWithInputs
from gridbridge.shell.program_lock_file import MomentaryProgramLock
from gridbridge.state import published_json
from tests.builders.campaigns import made_policy

TASKS, DATA = "tasks.lock", "data.lock"


@pytest.fixture(name="begun")
def _begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Make rounds decide nothing; the list gets True for each round about datasets, else False."""
    begun = list[bool]()

    def decided(
        *_: object, is_of_data: bool, is_acting: bool, **__: object
    ) -> tuple[RebalancePlanWithInputs, ValidAndDroppedMoves | None]:
        begun.append(is_of_data)
        seen = PlacementSnapshot(now=datetime(2026, 1, 1, tzinfo=UTC))
        planned = RebalancePlanWithInputs(
            snapshot=seen, rules=RebalanceSection(), advice=RebalanceMovePlan(sentence="decided")
        )
        return planned, ValidAndDroppedMoves() if is_acting else None

    site = SiteSection(cluster="alpha", state=f"sqlite:///{tmp_path}/state.db")
    policy = made_policy("beta", site=site, storage={"disk": StorageAreaSection(cluster="alpha", path="/scratch")})
    monkeypatch.setattr(rebalance_round_runner, "load_policy_as_service_account", lambda _: policy)
    monkeypatch.setattr(service_account_and_policy, "load_policy_begin_ssh_logins", lambda _: policy)
    monkeypatch.setattr(rebalance_round_runner, "REBALANCE_LOCK", str(tmp_path / TASKS))
    monkeypatch.setattr(rebalance_round_runner, "REPLICAS_LOCK", str(tmp_path / DATA))
    monkeypatch.setattr(rebalance_round_runner, "CARRYING_LOCK", str(tmp_path / "carrying.lock"))
    monkeypatch.setattr(rebalance_round_runner, "READING_LOCK", str(tmp_path / "reading.lock"))
    for act in (
        published_json.publish_rebalance_round_begin,
        published_json.publish_rebalance_round_end,
        published_json.read_published_rebalance_round,
    ):
        monkeypatch.setattr(act, "__defaults__", (str(tmp_path),))
    monkeypatch.setattr(rebalance_round_runner, "_run_round_of_tasks_or_datasets", decided)
    monkeypatch.setattr(rebalance_round_runner, "_verify_replicas_unless_verification_runs", lambda _: None)
    return begun


@pytest.mark.usefixtures("begun")
def test_a_round_about_datasets_releases_its_lock_while_its_copies_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next round begins and knows of the running copies; the first round is not reported as stuck."""
    decided, rounds_open, shared = rebalance_round_runner._run_round_of_tasks_or_datasets, list[bool](), list[bool]()

    def carry(*words: Any, let_go: Callable[[], bool], **known: Any) -> Any:
        is_first = not shared
        with MomentaryProgramLock(str(tmp_path / "carrying.lock")) as is_ours:
            shared.append(not is_ours)
        if is_first:
            assert let_go()
            assert call("data", "--apply").exit_code == 0
        shown = published_json.read_published_rebalance_round(published_json.RebalanceRoundKind.DATASETS)
        rounds_open.append(shown is not None and shown.is_open)
        return decided(*words, **known)

    monkeypatch.setattr(rebalance_round_runner, "_run_round_of_tasks_or_datasets", carry)
    result = call("data", "--apply")

    assert result.exit_code == 0
    assert shared == [False, True]
    assert rounds_open == [True, False]


def call(*words: str) -> Result:
    return CliRunner().invoke(gridbridge, ("rebalance", *words))


@pytest.mark.parametrize(
    ("words", "lock"),
    [
        (("auto",), TASKS),
        (("host", "beta"), TASKS),
        (("job", "12"), TASKS),
        (("fail", "beta"), TASKS),
        (("data",), DATA),
        (("host", "disk"), DATA),
        (("job", "al/reads"), DATA),
        (("fail", "disk"), DATA),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_a_second_round_of_a_kind_ends_with_exit_status_1(
    words: tuple[str, ...], lock: str, tmp_path: Path, begun: list[bool]
) -> None:
    other = {TASKS: DATA, DATA: TASKS}[lock]

    with MomentaryProgramLock(str(tmp_path / lock)):
        refused = call(*words, "--apply")
        told = call(*words)
    with MomentaryProgramLock(str(tmp_path / other)):
        done = call(*words, "--apply")

    assert (refused.exit_code, "another instance runs" in refused.output) == (1, True)
    assert (told.exit_code, done.exit_code) == (0, 0)
    assert begun == [lock == DATA] * 2


@pytest.mark.parametrize("words", [("host",), ("fail",), ("plan", "host"), ("plan", "fail")])
def test_an_unknown_host_is_refused_with_the_names_of_clusters_and_areas(
    words: tuple[str, ...], begun: list[bool]
) -> None:
    told = call(*words, "betta")

    there = "betta: no cluster and no storage area; expected one of: beta, disk"
    assert (str(told.exception), begun) == (there, [])


def test_a_plan_queries_tasks_and_datasets_in_parallel(monkeypatch: pytest.MonkeyPatch, begun: list[bool]) -> None:
    decided, both = rebalance_round_runner._run_round_of_tasks_or_datasets, Barrier(2, timeout=20)

    def meet(*words: Any, **known: Any) -> Any:
        both.wait()
        return decided(*words, **known)

    monkeypatch.setattr(rebalance_round_runner, "_run_round_of_tasks_or_datasets", meet)

    assert call("plan").output == "decided; decided\n"
    assert sorted(begun) == [False, True]


def test_ssh_logins_begin_before_a_plan_imports_the_decision_modules() -> None:
    program = """
import sys
from gridbridge.rebalance.cli import rebalance_command as rebalance
from gridbridge.rebalance.mover import service_account_and_policy as as_service
slow = {"sqlalchemy", "gridbridge.rebalance.mover.task_rebalancer"}
def begin(path): sys.exit(str(slow & {*sys.modules}))
as_service.load_policy_begin_ssh_logins = begin
rebalance.rebalance(["plan"])
"""
    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True)

    assert done.stderr == "set()\n"
