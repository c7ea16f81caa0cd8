"""gridsub refuses wrong campaigns before the submission, with documented exit statuses."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from gridbridge.campaigns.cli.gridsub import gridsub
from gridbridge.campaigns.store import campaign_client
from gridbridge.cli import output_and_errors
from tests.builders.command_lines import exit_status

JDL = '{"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"beta": {}}}'
TOML = 'name = "n"\nnb_jobs = 1\nexec_file = "x"\n[clusters.beta]\n'

Run = Callable[..., tuple[int, list[str]]]


@pytest.fixture(autouse=True)
def _nothing_is_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(campaign_client, "submit_campaign", lambda *_: pytest.fail("it was submitted"))


@pytest.fixture(name="run")
def _run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, list[str]]:
        program = partial(output_and_errors.run_command_reporting_errors, gridsub, "gridsub")
        return exit_status(program, "gridsub", *words), capsys.readouterr().err.splitlines()

    return run


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sweep.json", JDL),
        ("s.toml", TOML),
        ("sweep.jdl", JDL),
        ("up.JSON", JDL),
        ("sweep", JDL),
        ("sweep.txt", TOML),
        ("broken.json", "{"),
    ],
)
def test_a_jdl_without_the_option_f_is_refused(run: Run, name: str, text: str) -> None:
    Path(name).write_text(text)

    assert run("--clusters", "beta", name) == (
        2,
        [f"gridsub: {name}: a JDL, not a job script; expected gridsub -f {name}"],
    )


def test_gridsub_suggests_no_hidden_option(run: Run) -> None:
    """Gridsub itself adds --ready on a login node."""
    status, (told,) = run("--aray", "1-3", "--", "echo")

    assert status == 2
    assert "--array" in told
    assert "--ready" not in told


def test_a_check_option_after_the_script_submits_nothing(run: Run) -> None:
    Path("job.sh").write_text("echo $1\n")

    assert run("--clusters", "beta", "job.sh", "a", "--check") == (
        2,
        [
            "gridsub: --check after job.sh would be an argument of the script; expected"
            " gridsub --check job.sh, or gridsub --array 1 -- job.sh --check {}"
            " for a script that has such an option"
        ],
    )


def test_gridsub_without_arguments_lists_the_sources_of_a_campaign(run: Run) -> None:
    assert run() == (
        2,
        ["gridsub: give one of -f FILE, -j JSON, -, --array, --each-line, --retry-failed and a job script"],
    )
    assert CliRunner().invoke(gridsub, ["-h"]).exit_code == 0
