"""gridbridge rebalance: output as lines, JSON and a plot, and one round of a kind at a time."""

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.errors import StandardOutputUnwritable
from gridbridge.model.rebalance.rebalance_section import RebalanceSection, StorageAreaSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceMove,
    RebalanceMoveKind,
    RebalanceMovePlan,
    RebalanceSnapshot,
    RejectedMove,
    ValidAndDroppedMoves,
)
from gridbridge.model.site.site_section import SiteSection
from gridbridge.rebalance.cli.rebalance_plot import MOST_TITLE
from gridbridge.rebalance.mover import rebalance_round_runner, service_account_and_policy
from gridbridge.rebalance.mover.rebalance_plan_by_target import RebalancePlanWithInputs
from gridbridge.shell.program_lock_file import MomentaryProgramLock
from gridbridge.state import published_json
from tests.builders.campaigns import made_policy
from tests.rebalance.mover.test_offline_plan import TASK, WHOLE

AT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ "
MAIN = "from gridbridge.cli.main import main; main()"
GIVEN = WHOLE | {
    "tasks": [
        TASK,
        {"job": "align", "number": 2, "bytes": 20e9, "state": "running", "live": "alpha"},
        {"job": "gone", "number": 7, "bytes": 1, "live": "alpha"},
    ],
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    found = tmp_path / "hosts.json"
    found.write_text(json.dumps(GIVEN))
    return str(found)


def plan(*words: str) -> Result:
    return CliRunner().invoke(gridbridge, ("rebalance", "plan", *words))


def test_a_plan_is_printed_as_lines_of_moves_and_rejected_moves(path: str) -> None:
    done = plan("host", "alpha", "--from", path)

    assert done.output.splitlines() == [
        "alpha is full of copies (91% of the disk used, 51% in the mean): 1 copy to beta",
        "  align 1 (live) from alpha to beta",
        "  not gone 7: the snapshot lacks the task's job",
        "  not align 2: the task is running",
    ]


@pytest.mark.parametrize(("redirection", "begins"), [(">>", AT), (">", "")], ids=["appended to a log", "a file"])
def test_lines_appended_to_a_log_file_begin_with_the_time(
    path: str, tmp_path: Path, redirection: str, begins: str
) -> None:
    """Cron appends the output and the errors of rounds to rebalance.log."""
    log = tmp_path / "rebalance.log"
    for source in (path, "/nowhere"):
        script = f'"$0" -c "$1" rebalance plan host alpha --from {source} {redirection}{log}.new 2>&1'
        subprocess.run(("sh", "-c", script, sys.executable, MAIN), check=False, timeout=60)
        with log.open("a") as whole:
            whole.write(Path(f"{log}.new").read_text())

    lines = log.read_text().splitlines()
    for words in ("alpha is full of copies .*", "  align 1 .*", "gridbridge: /nowhere: .*"):
        assert any(re.fullmatch(begins + words, line) for line in lines)


def test_a_plan_is_printed_as_json(path: str) -> None:
    told = json.loads(plan("host", "alpha", "--from", path, "--json").output)

    assert told["moves"] == [{"kind": "live", "job": "align", "number": 1, "from": "alpha", "to": "beta"}]
    assert told["rejected"] == [
        {"job": "gone", "number": 7, "to": None, "reason": "the snapshot lacks the task's job"},
        {"job": "align", "number": 2, "to": None, "reason": "the task is running"},
    ]
    assert set(told) == {"moves", "rejected", "sentence"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("host", "--from", "{}"), "no name; expected host NAME"),
        (("hots", "alpha", "--from", "{}"), "'hots' is not one of"),
    ],
)
def test_wrong_arguments_of_plan_are_usage_errors(path: str, words: tuple[str, ...], told: str) -> None:
    done = plan(*(word.format(path) for word in words))

    assert done.exit_code == 2
    assert told in done.output


def test_plot_writes_an_image_of_the_hosts_loads(path: str, tmp_path: Path) -> None:
    picture = tmp_path / "hosts.png"
    done = plan("host", "alpha", "--from", path, "--plot", str(picture))

    assert done.exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 5000


def test_a_plot_has_a_title_of_one_line_and_only_hosts_of_which_something_is_known(tmp_path: Path) -> None:
    unknown, busy = {"name": "unknown"}, {"name": "busy", "mean_active": 0.5}
    (tmp_path / "hosts.json").write_text(json.dumps(GIVEN | {"hosts": [*GIVEN["hosts"], unknown, busy]}))
    done = plan("--from", f"{tmp_path}/hosts.json", "--plot", f"{tmp_path}/hosts.svg")

    texts = re.findall("<!-- (.*?) -->", (tmp_path / "hosts.svg").read_text())
    title = textwrap.shorten(done.output.partition("\n")[0], MOST_TITLE, placeholder=" ...")
    assert {"alpha", "beta", "busy", "load"} < set(texts)
    assert (title in texts, "unknown" in texts) == (True, False)


def test_a_plot_file_that_can_not_be_written_is_an_error_of_one_line(path: str, tmp_path: Path) -> None:
    done = plan("--from", path, "--plot", f"{tmp_path}/nowhere/hosts.png")

    assert isinstance(done.exception, StandardOutputUnwritable)
    assert str(done.exception) == f"{tmp_path}/nowhere/hosts.png: No such file or directory"


def test_a_plot_file_without_image_suffix_is_refused(path: str, tmp_path: Path) -> None:
    done = plan("--from", path, "--plot", f"{tmp_path}/hosts.nosuch")

    assert done.exit_code == 2
    assert "hosts.nosuch: not a picture's name; expected the ending .png" in done.output


@pytest.mark.parametrize(("words", "is_quiesced"), [((), True), (("--off",), False)])
def test_quiesce_prints_json(words: tuple[str, ...], is_quiesced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[bool]()
    monkeypatch.setattr(
        rebalance_round_runner, "pause_or_resume_rebalancing", lambda _, *, is_quiesced: done.append(is_quiesced)
    )
    told = CliRunner().invoke(gridbridge, ("rebalance", "quiesce", *words, "--json"))

    assert json.loads(told.output) == {"quiesced": is_quiesced}
    assert done == [is_quiesced]


def test_an_applied_round_prints_the_numbers_of_made_and_dropped_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = tuple(
        RebalanceMove(kind=RebalanceMoveKind.LIVE, job="7", number=number, source="beta", target="gamma")
        for number in (3, 4)
    )
    seen = RebalanceSnapshot(now=datetime(2026, 1, 1, tzinfo=UTC))
    advice = RebalanceMovePlan(sentence="decided", moves=moves)
    planned = RebalancePlanWithInputs(snapshot=seen, rules=RebalanceSection(), advice=advice)
    dropped = RejectedMove(job="7", number=3, target="gamma", reason="the task is running")
    checked = ValidAndDroppedMoves(moves=moves[1:], dropped=(dropped,))
    monkeypatch.setattr(rebalance_round_runner, "run_rebalance_round", lambda *_, **__: (planned, checked))
    words = ("rebalance", "auto", "--apply")

    lines = CliRunner().invoke(gridbridge, words).output.splitlines()
    told = json.loads(CliRunner().invoke(gridbridge, (*words, "--json")).output)

    assert lines[-2:] == ["moved: 1, dropped: 1", "  not 7 3 to gamma any more: the task is running"]
    assert told["moved"] == 1
    assert told["dropped"] == [{"job": "7", "number": 3, "to": "gamma", "reason": "the task is running"}]


TASKS, DATA = "tasks.lock", "data.lock"


@pytest.fixture(name="begun")
def _begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Make rounds decide nothing; the list gets True for each round about datasets, else False."""
    begun = list[bool]()

    def decided(
        *_: object, is_of_data: bool, is_acting: bool, **__: object
    ) -> tuple[RebalancePlanWithInputs, ValidAndDroppedMoves | None]:
        begun.append(is_of_data)
        seen = RebalanceSnapshot(now=datetime(2026, 1, 1, tzinfo=UTC))
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
    monkeypatch.setattr(rebalance_round_runner, "PUBLISHED", str(tmp_path))
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
        shown = published_json.read_published_rebalance_round(published_json.RebalanceRoundKind.DATASETS, str(tmp_path))
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
