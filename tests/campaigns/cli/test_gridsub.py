"""What gridsub refuses before anything is stored, and with which exit status."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from gridbridge.campaigns.cli.gridsub import gridsub
from gridbridge.campaigns.store import campaign_client
from gridbridge.cli import output_and_errors

JDL = '{"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"beta": {}}}'
TOML = 'name = "n"\nnb_jobs = 1\nexec_file = "x"\n[clusters.beta]\n'


@pytest.fixture(autouse=True)
def _nothing_is_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(campaign_client, "submit_campaign", lambda _: pytest.fail("it was submitted"))


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    """Run gridsub as a program; return its exit status and what it tells."""
    monkeypatch.setattr("sys.argv", ["gridsub", *words])
    with pytest.raises(SystemExit) as ended:
        output_and_errors.run_command_reporting_errors(gridsub, "gridsub")
    status = ended.value.code
    assert isinstance(status, int)
    return status, capsys.readouterr().err.splitlines()


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
def test_a_jdl_that_was_typed_without_f_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    Path(name).write_text(text)

    assert run(monkeypatch, capsys, "--clusters", "beta", name) == (
        2,
        [f"gridsub: {name}: a JDL and no job script; expected gridsub -f {name}"],
    )


def test_a_near_name_is_one_that_people_may_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--ready is said by gridsub on a login node alone."""
    status, (told,) = run(monkeypatch, capsys, "--aray", "1-3", "--", "echo")

    assert status == 2
    assert "--array" in told
    assert "--ready" not in told


def test_a_check_behind_the_script_submits_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("job.sh").write_text("echo $1\n")

    assert run(monkeypatch, capsys, "--clusters", "beta", "job.sh", "a", "--check") == (
        2,
        [
            "gridsub: --check after job.sh would be an argument of the script; expected"
            " gridsub --check job.sh, or gridsub --array 1 -- job.sh --check {}"
            " for a script that has such an option"
        ],
    )


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("-f", "none"), 2),
        (("none.sh",), 2),
        (("--each-line", "none", "--clusters", "a", "--", "x"), 2),
        (("--array", "9-1", "--clusters", "a", "--", "x"), 2),
        (("--array", "1", "--clusters", "", "--", "x"), 2),
        (("--array", "1", "--clusters", "No", "--", "x"), 2),
        (("--array", "1", "--clusters", "a", "-l", "walltime=1h", "--", "x"), 2),
        (("--clusters", "a", "-l", "=1", "job.sh"), 2),
        (("--clusters", "a", "wrong.sh"), 1),
        (("--each-line", "empty", "--clusters", "a", "--", "x"), 1),
        (("-f", "wrong.json"), 1),
        (("-j", JDL.replace('"nb_jobs": 1', '"param_file": "none"')), 1),
    ],
)
def test_what_is_typed_wrongly_is_2_and_what_is_refused_is_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int
) -> None:
    """A file that the command line names and nobody can read was typed wrongly; all is a line."""
    Path("empty").write_text("\n")
    Path("job.sh").write_text("echo\n")
    Path("wrong.sh").write_text("#$ -j maybe\n")
    Path("wrong.json").write_text('{"name": 3')

    ended, lines = run(monkeypatch, capsys, *words)

    assert (ended, len(lines)) == (status, 1)


def test_gridsub_alone_says_what_it_wants(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, capsys) == (
        2,
        ["gridsub: give one of -f FILE, -j JSON, -, --array, --each-line, --retry-failed and a job script"],
    )
    assert CliRunner().invoke(gridsub, ["-h"]).exit_code == 0
