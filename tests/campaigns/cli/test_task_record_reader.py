"""The owner's program prints the checkpoints and the usage that attempts have left in the campaign's folder."""

import json
import os
import sys
from pathlib import Path

import pytest

from gridbridge.campaigns.cli.task_record_reader import run_task_record_reader
from tests.campaigns.cli.test_task_output_carrier import Results

ANOTHERS = pytest.param("another's", marks=pytest.mark.skipif(os.getuid() != 0, reason="two persons"))


@pytest.fixture(name="results")
def _results(tmp_path: Path) -> Results:
    return Results(tmp_path)


def test_complete_and_timed_checkpoints_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], results: Results
) -> None:
    """Only the end of a long file is read."""
    results.submit("x.dat")
    for name, text in (("0.1", "150 9\n- 9\n250 70\n"), ("0.2", ""), ("1.3", "100 7\n" * 5000)):
        (results.there / f"{name}.checkpoints").write_text(text)
    monkeypatch.setattr(sys, "argv", ["", "7", "beta", "0:1,0:2,1:3,1:4"])

    assert 0 == run_task_record_reader(results.paths)

    long = [1, 3, 682, 682, 682.0, 7]
    expected = [[0, 1, 3, 2, 4.0, 70], [0, 2, 0, 0, 0.0, None], long]
    assert {"checkpoints": expected, "usage": []} == json.loads(capsys.readouterr().out)


def test_usage_is_read_only_from_complete_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], results: Results
) -> None:
    results.submit("x.dat")
    texts = ("2048 7\n", "2048 7", "2048\n", "1 2 3\n", "-1 7\n", "", "9999999999 7\n")
    for task, text in enumerate(texts):
        (results.there / f"{task}.1.usage").write_text(text)
    monkeypatch.setattr(sys, "argv", ["", "7", "beta", "0-6:1"])

    assert 0 == run_task_record_reader(results.paths)

    assert {"checkpoints": [], "usage": [[0, 1, 2048, 7]]} == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", ["link", "open to all", "open to a group", ANOTHERS])
@pytest.mark.parametrize("words", [(), ("jobs",)], ids=["attempts", "jobs"])
def test_records_in_a_folder_that_others_can_write_do_not_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], results: Results, kind: str, words: tuple[str]
) -> None:
    """In a shared `exec_directory` anybody may make the folder, and tasks that did not start would have succeeded."""
    results.submit("x.dat")
    for name, text in (("0.1.checkpoints", "150\n"), ("0.1.usage", "2048 7\n"), ("group.1.0", "begin 0.1 0 \n")):
        (results.there / name).write_text(text)
    if kind == "link":
        results.there.symlink_to(results.there.rename(results.there.with_name("theirs")))
    else:
        results.there.chmod({"open to all": 0o777, "open to a group": 0o775, "another's": 0o755}[kind])
        os.chown(results.there, 1 if kind == "another's" else -1, -1)
    monkeypatch.setattr(sys, "argv", ["", "7", "beta", "0:1", *words])

    assert 0 == run_task_record_reader(results.paths)

    expected: dict[str, list[object]] = {"jobs": []} if words else {"checkpoints": [], "usage": []}
    assert expected == json.loads(capsys.readouterr().out)


def test_a_campaign_without_a_started_task_has_no_checkpoints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], results: Results
) -> None:
    results.submit("x.dat")
    results.there.rename(results.there.with_name("campaign.8"))
    monkeypatch.setattr(sys, "argv", ["", "7", "beta", "0:1"])

    assert 0 == run_task_record_reader(results.paths)

    assert {"checkpoints": [], "usage": []} == json.loads(capsys.readouterr().out)


def test_a_cluster_that_is_not_configured_is_one_error_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], results: Results
) -> None:
    results.submit("x.dat")
    monkeypatch.setattr(sys, "argv", ["", "7", "gamma", "0:1"])

    assert 2 == run_task_record_reader(results.paths)

    assert "gamma: not configured any more\n" == capsys.readouterr().err
