"""The owner's program prints the checkpoints and the usage that attempts have left in the campaign's folder."""

import json
import sys
from pathlib import Path

import pytest

from gridbridge.campaigns.cli.task_record_reader import run_task_record_reader
from tests.campaigns.cli.test_task_output_carrier import Results


@pytest.fixture(name="results")
def _results(tmp_path: Path) -> Results:
    return Results(tmp_path)


def test_complete_and_timed_checkpoints_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], results: Results
) -> None:
    """Only the end of a long file is read."""
    results.submit("x.dat")
    for name, text in (("0.1", "150\n-\n250\n"), ("0.2", ""), ("1.3", "100\n" * 5000)):
        (results.there / f"{name}.checkpoints").write_text(text)
    monkeypatch.setattr(sys, "argv", ["", "7", "beta", "0:1,0:2,1:3,1:4"])

    assert 0 == run_task_record_reader(results.paths)

    long = [1, 3, 1023, 1023, 1023.0]
    expected = [[0, 1, 3, 2, 4.0], [0, 2, 0, 0, 0.0], long]
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
