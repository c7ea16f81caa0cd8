"""gridbridge rebalance: output as lines, as JSON and as a plot."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.errors import StandardOutputUnwritable
from gridbridge.model.rebalance.placement_snapshot_and_moves import (
    PlacementMove,
    PlacementMoveKind,
    PlacementSnapshot,
    RebalanceMovePlan,
    RejectedMove,
    ValidAndDroppedMoves,
)
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.rebalance.mover import rebalance_round_runner
from gridbridge.rebalance.mover.rebalance_plan_by_target import RebalancePlanWithInputs
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
        PlacementMove(kind=PlacementMoveKind.LIVE, job="7", number=number, source="beta", target="gamma")
        for number in (3, 4)
    )
    seen = PlacementSnapshot(now=datetime(2026, 1, 1, tzinfo=UTC))
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
