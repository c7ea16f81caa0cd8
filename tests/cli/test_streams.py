"""A command whose standard streams fail prints at most one line and returns a documented status."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.shown import history, publish, shown, transfer

PROGRAM = (sys.executable, "-I", "-c", "from gridbridge.cli.main import main; main()")
FULL = "/dev/full"
MANY = 2000  # events, so that the output is longer than any buffer


@pytest.fixture
def folder(tmp_path: Path) -> str:
    one = transfer()
    task = history(one, *(f"event {number}" for number in range(MANY)))
    return publish(tmp_path, shown(one), task)


def run(argv: tuple[str, ...], redirection: str = "") -> tuple[int, list[str]]:
    script = f'"$@" {redirection}'
    done = subprocess.run(["sh", "-c", script, "sh", *PROGRAM, *argv], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr.splitlines()


def commands(folder: str) -> Mapping[str, tuple[str, ...]]:
    seen = ("--published", folder)
    return {
        "status": ("status", *seen),
        "status-json": ("status", "--json", *seen),
        "why": ("why", "12", *seen),
        "check": ("check",),
        "check-json": ("check", "--json"),
        "help": ("setup", "--help"),
        "version": ("--version",),
    }


COMMANDS = sorted(commands(""))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_prints_one_line(name: str, folder: str) -> None:
    status, errors = run(commands(folder)[name], f">{FULL}")

    assert (status, errors) == (2, ["gridbridge: standard output: No space left on device"])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_closed_pipe_ends_a_command_silently(name: str, folder: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*PROGRAM, *commands(folder)[name]], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60
        )
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (141, b"")


def test_a_closed_standard_output_prints_one_line(folder: str) -> None:
    status, errors = run(commands(folder)["status"], ">&-")

    assert (status, errors) == (2, ["gridbridge: standard output: closed"])


@pytest.mark.parametrize("redirection", [f"2>{FULL}", "2>&-"])
def test_an_error_with_a_closed_standard_error_is_an_exit_status(redirection: str, folder: str) -> None:
    assert run(("why", "99", "--published", folder), redirection) == (1, [])
    assert run(("nothing",), redirection) == (2, [])


@pytest.mark.parametrize("command", [("status",), ("why", "12")])
@pytest.mark.parametrize("where", ["nope", "file"])
def test_a_missing_published_folder_prints_one_line(command: tuple[str, ...], where: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    status, errors = run((*command, "--published", str(tmp_path / where)))

    wrong = "no such folder; run this on the transfer host, where the service is"
    new = "on a new host gridbridge setup host --apply creates the folder"
    assert (status, errors) == (2, [f"gridbridge: {tmp_path / where}: {wrong}; {new}"])


@pytest.mark.parametrize(
    ("module", "argv", "stored"),
    [
        ("campaigns.submit_campaign = lambda *_: 7", ["--array", "1-3", "--", "true"], "campaign 7 is stored"),
        (
            "campaigns.add_tasks_to_campaign = lambda *_: None;"
            " campaign_tasks.find_published_campaign = lambda *_: None;"
            " sources.campaign_with_added_tasks ="
            " lambda *_: (Read(jdl=Jdl(name='n'), parameters=()), ('a', 'b'));"
            " admission.require_unchanged_by_site_rules = lambda *_: None",
            ["-c", "7", "-J", '["a", "b"]'],
            "stored for campaign 7: 2 tasks",
        ),
    ],
    ids=["new", "more"],
)
@pytest.mark.parametrize("stream", [f">{FULL}", ">&-"])
def test_gridsub_reports_a_stored_campaign_whose_id_cannot_be_printed(
    module: str, argv: list[str], stored: str, stream: str
) -> None:
    """A script that repeats after status 2 or 75 would run every task twice."""
    program = (
        "from gridbridge.campaigns.submission.jdl_reader import ParsedJdl as Read\n"
        "from gridbridge.model.campaigns.jdl import Jdl\n"
        "from gridbridge.campaigns.store import campaign_client as campaign_tasks\n"
        "from gridbridge.campaigns.store import campaign_client as campaigns\n"
        "from gridbridge.campaigns.submission import site_admission_rules as admission\n"
        "from gridbridge.campaigns.cli import gridsub_campaign_source as sources\n"
        "from gridbridge.campaigns.cli import gridsub, command_relay_and_runner_wait as relay\n"
        "relay.transfer_host_to_relay_to = lambda *_: ''\n"
        "admission.admit_campaign_by_site_rules = lambda said, _: said\n"
        "sources.CampaignSourceOptions.read_campaign = lambda *_: Read(jdl=Jdl(name='n'), parameters=())\n"
        f"{module}\n"
        "gridsub.main()"
    )
    done = subprocess.run(
        ["sh", "-c", f'"$@" {stream}', "sh", sys.executable, "-c", program, *argv],
        capture_output=True,
        text=True,
        timeout=60,
    )

    (told,) = done.stderr.splitlines()
    assert done.returncode == 76
    assert told.startswith("gridsub: standard output: ")
    assert told.endswith(f"; {stored}")
