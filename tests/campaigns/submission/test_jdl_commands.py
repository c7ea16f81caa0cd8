"""The command of a JDL: a task's parameters are words of its last line."""

import json
import subprocess

import pytest

from gridbridge.batch.campaign_array_script import BODY
from gridbridge.campaigns.submission import jdl_reader
from gridbridge.errors import ConfigError


def _read(command: str) -> str:
    known = {"name": "n", "nb_jobs": 1, "exec_file": command, "clusters": {"beta": {}}}
    return jdl_reader.parse_jdl("n.json", json.dumps(known)).jdl.clusters["beta"].exec_file


@pytest.mark.parametrize(
    ("command", "read"),
    [
        ("\necho\n", "\necho"),
        ("echo \r\n \n", "echo"),
        ("cd x\necho\n\n", "cd x\necho"),
        ("echo -n ", "echo -n "),
        ("echo \\\n", "echo \\\n"),
        ("echo \\ \n\n", "echo \\ "),
        ("echo \\\\\n", "echo \\\\"),
    ],
    ids=["toml", "crlf", "lines", "blank", "goes on", "escaped blank", "escaped"],
)
def test_blank_lines_after_a_command_are_removed(command: str, read: str) -> None:
    """TOML's multi-line texts end with a line end."""
    assert _read(command) == read


@pytest.mark.parametrize("command", ["echo\n", "\necho \n\n", "echo \\\n", "echo\\\\\n"])
def test_parameters_are_never_executed_as_a_separate_command(command: str) -> None:
    with open(BODY, encoding="ascii") as body:
        assert 'exec sh -c "$gb_exec \\"\\$@\\"" sh "$@"' in body.read()
    words = ("echo", "run by itself")
    argv = ("/bin/sh", "-c", f'{_read(command)} "$@"', "sh", *words)

    said = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert "run by itself" not in said.stdout.splitlines()


@pytest.mark.parametrize("command", ["", " ", "\n\n"])
def test_a_blank_command_is_refused(command: str) -> None:
    with pytest.raises(ConfigError, match="expected a command line"):
        _read(command)
