"""A task's parameters are words of the last line of the JDL's command."""

import subprocess

import pytest

from gridbridge.batch.campaign_array_script import BODY
from tests.campaigns.submission.jdl_builder import jdl_text, mistakes_of_jdl, settings_at_beta


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
    ids=["toml", "crlf", "lines", "blank", "continued line", "escaped blank", "escaped"],
)
def test_blank_lines_after_a_command_are_removed(command: str, read: str) -> None:
    """TOML's multi-line texts end with a line end."""
    assert settings_at_beta(exec_file=command).exec_file == read


@pytest.mark.parametrize("command", ["echo\n", "\necho \n\n", "echo \\\n", "echo\\\\\n"])
def test_parameters_are_never_executed_as_a_separate_command(command: str) -> None:
    with open(BODY, encoding="ascii") as body:
        assert 'exec sh -c "$gb_exec \\"\\$@\\"" sh "$@"' in body.read()
    words = ("echo", "run by itself")
    argv = ("/bin/sh", "-c", f'{settings_at_beta(exec_file=command).exec_file} "$@"', "sh", *words)

    said = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert "run by itself" not in said.stdout.splitlines()


@pytest.mark.parametrize("command", ["", " ", "\n\n"])
def test_a_blank_command_is_refused(command: str) -> None:
    (mistake,) = mistakes_of_jdl(jdl_text(exec_file=command))

    assert mistake.endswith("expected a command line")
