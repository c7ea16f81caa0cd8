"""Outputs come into the folder that the JDL names: whole files, by their names, and no other file."""

import json
import os
from pathlib import Path

import pytest

from gridbridge.campaigns.cli import task_output_carrier
from gridbridge.errors import StateError
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.fixed_paths import NOT_NOW, FixedPaths
from gridbridge.shell.program_lock_file import MomentaryProgramLock
from tests.campaigns.cli.published_builder import write_campaign_file

CONFIG = '[site]\ncluster = "beta"\n[cluster.beta]\nqmaster_port = 6444\nexecd_port = 6445\n'


class Results:
    """Campaign 7 of two tasks, `1 a` and `2 b`, whose folder at cluster beta is on this host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home, self.there = folder / "results", folder / "runs/campaign.7"
        self.there.mkdir(parents=True)
        (folder / "gridbridge.toml").write_text(CONFIG)
        self.paths = FixedPaths(campaigns=str(folder), configuration=str(folder / "gridbridge.toml"))

    def submit(self, *outputs: str) -> None:
        clusters = {"beta": JdlSettingsAtCluster(exec_file="run", exec_directory=str(self.folder / "runs"))}
        jdl = Jdl(name="n", clusters=clusters, outputs=outputs, outputs_to=str(self.home))
        write_campaign_file(self.folder, jdl, "1 a", "2 b")

    def write(self, *names: str) -> None:
        for name in names:
            (self.there / name).parent.mkdir(parents=True, exist_ok=True)
            (self.there / name).write_text(name)

    def bring(self, *tasks: int) -> dict[int, str]:
        return task_output_carrier.bring_task_outputs(7, "beta", tasks or (0, 1), self.paths)

    def files(self) -> set[str]:
        return {str(path.relative_to(self.home)) for path in self.home.rglob("*") if not path.is_dir()}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_output_carrier, "LISTING_PAUSES_S", (0, 0))


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path)


@pytest.mark.parametrize(
    ("outputs", "written", "brought"),
    [
        (("out/{2}.bam",), ("0/out/a.bam", "1/out/b.bam"), {"out/a.bam", "out/b.bam"}),
        (("x.dat",), ("0/x.dat", "1/x.dat"), {"0/x.dat", "1/x.dat"}),
        (("run{1}",), ("0/run1/a/b", "0/run1/c", "1/run2/a"), {"run1/a/b", "run1/c", "run2/a"}),
    ],
    ids=["names with a parameter", "a name of all tasks", "folders"],
)
def test_outputs_come_by_their_names(
    results: Results, outputs: tuple[str, ...], written: tuple[str, ...], brought: set[str]
) -> None:
    """Only the folder `outputs_to` is new there, and a second run replaces the files."""
    results.submit(*outputs)
    results.write(*written, "0/other.log")

    assert [{}, {}] == [results.bring(), results.bring()]

    assert brought == results.files()
    assert {".gridbridge-parts"}.isdisjoint(os.listdir(results.home))


def test_an_output_that_is_gone_is_told_and_the_others_come(results: Results) -> None:
    results.submit("{1}.txt")
    results.write("1/2.txt")

    assert {0: f"beta: {results.there}/0/1.txt: no such file"} == results.bring()
    assert {"2.txt"} == results.files()


def test_no_link_in_the_folder_is_followed(results: Results) -> None:
    results.submit("out/{1}.txt")
    results.write("0/out/1.txt")
    results.home.mkdir()
    (results.folder / "elsewhere").mkdir()
    (results.home / "out").symlink_to(results.folder / "elsewhere")

    with pytest.raises(StateError, match="out is a link, or not a folder of yours"):
        results.bring(0)

    assert [] == os.listdir(results.folder / "elsewhere")


def test_a_foreign_folder_of_parts_is_refused(results: Results) -> None:
    results.submit("{1}.txt")
    results.write("0/1.txt")
    results.home.mkdir()
    (results.folder / "elsewhere").mkdir()
    (results.home / ".gridbridge-parts").symlink_to(results.folder / "elsewhere")

    with pytest.raises(StateError, match=r"\.gridbridge-parts: expected a folder of yours"):
        results.bring(0)


@pytest.mark.parametrize("is_busy", [False, True])
def test_the_program_prints_the_missing_outputs(
    results: Results, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], is_busy: bool
) -> None:
    results.submit("{1}.txt")
    results.write("0/1.txt")
    monkeypatch.setenv("HOME", str(results.folder))
    monkeypatch.setattr("sys.argv", ["task_output_carrier", "7", "beta", "0:1"])
    (results.folder / ".gridbridge").mkdir()
    with MomentaryProgramLock(f"{results.folder}/.gridbridge/outputs.7.beta.lock" if is_busy else os.devnull):
        status = task_output_carrier.run_task_output_carrier(results.paths)

    printed = capfd.readouterr().out
    assert (NOT_NOW, "") == (status, printed) if is_busy else (0, {"missing": {}}) == (status, json.loads(printed))


def test_an_unwritable_folder_is_one_line_on_standard_error(
    results: Results, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    results.submit("{1}.txt")
    results.home.write_text("")
    monkeypatch.setenv("HOME", str(results.folder))
    monkeypatch.setattr("sys.argv", ["task_output_carrier", "7", "beta", "0:1"])

    assert 2 == task_output_carrier.run_task_output_carrier(results.paths)
    assert f"{results.home}: Not a directory\n" == capfd.readouterr().err
