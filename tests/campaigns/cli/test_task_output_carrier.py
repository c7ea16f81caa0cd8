"""Outputs come into the folder that the JDL names: whole files, by their names, and no other file."""

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest

from gridbridge.campaigns.cli import task_output_carrier, task_output_reading_and_fetching
from gridbridge.campaigns.cli.task_output_reading_and_fetching import TaskOutputFolderAtCluster
from gridbridge.errors import CommandFailed, StateError
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
        for path in (self.home, self.there):
            path.mkdir(0o700, parents=True)
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
        unbrought = task_output_carrier.bring_task_outputs(7, "beta", tasks or (0, 1), self.paths)
        self.absent = unbrought.absent
        return unbrought.reasons

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

    assert {0: f"{results.there}/0/1.txt: no such file at the cluster"} == results.bring()
    assert ({"2.txt"}, {0}) == (results.files(), results.absent)


def test_what_lies_in_the_way_of_an_output_hinders_no_other_output(results: Results) -> None:
    """No link in the folder is followed."""
    results.submit("out/{1}.txt", "{2}")
    results.write("0/out/1.txt", "0/a", "1/b")
    (results.home / "b").mkdir()
    (results.folder / "elsewhere").mkdir()
    (results.home / "out").symlink_to(results.folder / "elsewhere")

    missing = results.bring()

    assert f"{results.home}/out/1.txt: ./out/1.txt: out is a link, or not a folder of yours" == missing[0]
    assert f"{results.home}/b: Is a directory" == missing[1]
    assert ({"a"}, set()) == (results.files(), results.absent)
    assert [] == os.listdir(results.folder / "elsewhere")


def test_an_empty_folder_is_an_output_without_files(results: Results) -> None:
    results.submit("d")
    (results.there / "0/d").mkdir(parents=True)

    assert {} == results.bring(0)


def test_an_output_in_another_output_comes_with_it(results: Results) -> None:
    results.submit("logs", "logs/{1}")
    results.write("0/logs/1", "0/logs/x")

    assert {} == results.bring(0)
    assert {"0/logs/1", "0/logs/x"} == results.files()


def test_nobody_else_can_exchange_the_files_on_their_way(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that others can write, another person may have made a link in place of the parts."""
    monkeypatch.setenv("HOME", str(results.folder))
    results.submit("{1}.txt")
    results.write("0/1.txt")
    results.home.chmod(0o777)
    (results.folder / "elsewhere").mkdir()
    (results.home / ".gridbridge-parts").symlink_to(results.folder / "elsewhere")

    assert {} == results.bring(0)

    assert {"1.txt"} == results.files()
    assert [] == os.listdir(results.folder / "elsewhere")


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
    assert (
        (NOT_NOW, "") == (status, printed)
        if is_busy
        else (0, {"missing": {}, "absent": []}) == (status, json.loads(printed))
    )


def test_an_unwritable_folder_is_one_line_on_standard_error(
    results: Results, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    results.submit("{1}.txt")
    results.home.rmdir()
    results.home.write_text("")
    monkeypatch.setenv("HOME", str(results.folder))
    monkeypatch.setattr("sys.argv", ["task_output_carrier", "7", "beta", "0:1"])

    assert 2 == task_output_carrier.run_task_output_carrier(results.paths)
    assert f"{results.home}: Not a directory\n" == capfd.readouterr().err


def test_a_folder_that_has_vanished_is_an_error_and_stays_away(results: Results) -> None:
    """Its filesystem may not be mounted, so that new files would fill the disk below."""
    results.submit("{1}.txt")
    results.write("0/1.txt")
    results.home.rmdir()

    with pytest.raises(StateError, match=f"^{results.home}: No such file or directory$"):
        results.bring(0)
    assert not results.home.exists()


def test_links_and_rights_of_outputs_are_those_that_rsync_would_give(results: Results) -> None:
    """An output that is a link becomes a file; a link in an output folder stays; nothing is setuid at home."""
    results.submit("d", "leads", "lost")
    results.write("0/d/file", "0/d/sub/run")
    (results.there / "0/d/sub/run").chmod(0o6777)
    for name, to in (("leads", "d/file"), ("lost", "nowhere"), ("d/link", "sub/run"), ("d/folder", "sub")):
        (results.there / "0" / name).symlink_to(to)
    umask = os.umask(0o022)
    missing = results.bring(0)
    os.umask(umask)

    home = results.home / "0"
    assert {0: f"{results.there}/0/lost: no such file at the cluster"} == missing
    assert ("0/d/file", False) == ((home / "leads").read_text(), (home / "leads").is_symlink())
    assert ["sub/run", "sub"] == [os.readlink(home / "d" / name) for name in ("link", "folder")]
    assert 0o755 == stat.S_IMODE((home / "d/sub/run").stat().st_mode)


@pytest.mark.parametrize("unreadable", ["0/1", "1/d", "0/1 1/d", "0/1 0/d 1/2 1/d"])
def test_outputs_that_can_not_be_read_hinder_no_others(
    results: Results, monkeypatch: pytest.MonkeyPatch, unreadable: str
) -> None:
    """After such an error of rsync each other file is whole, but a folder may lack files."""
    results.submit("{1}", "d")
    results.write("0/1", "0/d/x", "1/2", "1/d/x")
    copy, bad = task_output_reading_and_fetching.copy_outputs_of_tasks, set(unreadable.split())

    def copy_readable(source: TaskOutputFolderAtCluster, names: Iterable[str], to: str) -> None:
        copy(source, [name for name in names if name not in bad], to)
        if bad.intersection(names):
            raise CommandFailed(("rsync",), 23, stderr=b"Permission denied")

    monkeypatch.setattr(task_output_reading_and_fetching, "copy_outputs_of_tasks", copy_readable)

    missing = results.bring()

    assert {int(name[0]) for name in bad} == missing.keys()
    assert all(why.endswith(": Permission denied") for why in missing.values())
    all_ = {"0/1": "1", "0/d": "0/d/x", "1/2": "2", "1/d": "1/d/x"}
    assert {path for name, path in all_.items() if name not in bad} == results.files()
