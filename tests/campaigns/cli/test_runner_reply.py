"""A command that waits for the runner reports a late answer."""

from threading import Event

import pytest

from gridbridge.campaigns.cli import command_relay_and_runner_wait
from gridbridge.cli import output_and_errors


@pytest.mark.parametrize(
    ("after_s", "taken_s", "line"),
    [
        (0.0, 3600.0, "waiting for gridbridge-runner, 90 s at most (cron starts the runner once a minute)"),
        (3600.0, 0.0, "gridbridge-runner took the request and has not answered; waiting at most 600 s more"),
    ],
    ids=["late answer", "request was read"],
)
def test_a_late_answer_of_the_runner_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, after_s: float, taken_s: float, line: str
) -> None:
    told, lines = Event(), list[str]()

    def complain(line: str) -> None:
        lines.append(line)
        told.set()

    monkeypatch.setattr(output_and_errors, "print_error", complain)

    with command_relay_and_runner_wait.report_late_runner_answer("griddel", after_s, taken_s):
        assert told.wait(10.0)

    assert lines == [f"griddel: {line}"]


def test_an_early_answer_of_the_runner_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with command_relay_and_runner_wait.report_late_runner_answer("griddel", after_s=3600.0):
        pass

    assert capsys.readouterr() == ("", "")
