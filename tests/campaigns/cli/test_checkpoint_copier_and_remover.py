"""A whole checkpoint comes to the other cluster at once, and only an unneeded copy is removed."""

import json
import os
import sys
from pathlib import Path

import pytest

from gridbridge.campaigns.cli import checkpoint_copier_and_remover
from gridbridge.campaigns.cli.checkpoint_copier_and_remover import CARRIED, run_checkpoint_copier_and_remover
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.fixed_paths import NOT_NOW, FixedPaths
from gridbridge.shell.program_lock_file import MomentaryProgramLock
from tests.campaigns.cli.published_builder import write_campaign_file

PORTS = "qmaster_port = 6444\nexecd_port = 6445\n"
CONFIG = f'[site]\ncluster = "beta"\n[cluster.beta]\n{PORTS}[cluster.gamma]\n{PORTS}'


class Clusters:
    """Folders of campaign 7, of tasks `1 a` and `2 b`, at clusters beta and gamma on this host."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.beta, self.gamma = (folder / name / "campaign.7" for name in ("beta", "gamma"))
        for path in (self.beta, self.gamma.parent):
            path.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(folder))
        self._argv, self._capsys = lambda words: monkeypatch.setattr(sys, "argv", ["", *words]), capsys
        (folder / "gridbridge.toml").write_text(CONFIG)
        self._folder = folder
        self._paths = FixedPaths(campaigns=str(folder), configuration=str(folder / "gridbridge.toml"))
        self.submit("beta", "gamma")

    def submit(self, *folders: str) -> None:
        clusters = {
            name: JdlSettingsAtCluster(exec_file="run", exec_directory=str(self._folder / folder))
            for name, folder in zip(("beta", "gamma"), folders, strict=True)
        }
        jdl = Jdl(name="n", clusters=clusters, checkpoint_files=("state", "more/{2}"))
        write_campaign_file(self._folder, jdl, "1 a", "2 b")

    def save(self, task: int, attempt: int, *names: str) -> None:
        for name in names:
            path = self.beta / f"{task}.{attempt}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{name} of {task}\n")

    def run(self, *words: str) -> tuple[int, dict[str, object]]:
        self._argv(("7", *words))
        status = run_checkpoint_copier_and_remover(self._paths)
        printed = self._capsys.readouterr().out
        return status, json.loads(printed) if printed else {}


@pytest.fixture(name="clusters")
def _clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Clusters:
    return Clusters(tmp_path, monkeypatch, capsys)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_whole_checkpoints_are_carried_and_others_are_missing(clusters: Clusters) -> None:
    clusters.save(0, 2, "state", "more/a/x", "more/a/y")
    clusters.save(1, 1, "state")

    status, answer = clusters.run("gamma", "0:2,1:1", "beta")

    assert (0, ["1"], 50) == (status, [*answer["missing"]], answer["copied_bytes"])
    assert {"0.2/state", "0.2/more/a/x", "0.2/more/a/y"} == files(clusters.gamma)
    assert {"0.2/state", "0.2/more/a/x", "0.2/more/a/y", "1.1/state"} == files(clusters.beta)
    assert not (clusters.gamma / CARRIED).exists()
    assert os.readlink(clusters.gamma / ".campaign") == "beta.None"
    assert clusters.gamma.stat().st_mode & 0o777 == 0o700


def test_a_killed_carry_goes_on_and_what_has_arrived_is_not_copied_again(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters.save(0, 2, "state", "more/a")
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_copier_and_remover, "MOVE", "kill -9 $$")
        assert 2 == clusters.run("gamma", "0:2", "beta")[0]
    assert {f"{CARRIED}/0.2/state", f"{CARRIED}/0.2/more/a"} == files(clusters.gamma)

    assert (0, {}) == (lambda run: (run[0], run[1]["missing"]))(clusters.run("gamma", "0:2", "beta"))
    (clusters.beta / "0.2/state").write_text("changed")
    _, answer = clusters.run("gamma", "0:2", "beta")

    assert ({}, 0) == (answer["missing"], answer["copied_bytes"])
    assert "state of 0\n" == (clusters.gamma / "0.2/state").read_text()


def test_a_shared_folder_needs_no_copy(clusters: Clusters) -> None:
    clusters.submit("beta", "beta")
    (clusters.beta / ".campaign").symlink_to("beta.None")
    clusters.save(0, 1, "state", "more/a")

    status, answer = clusters.run("gamma", "0:1", "beta")

    assert (0, {}, 0) == (status, answer["missing"], answer["copied_bytes"])


def test_the_folder_of_another_campaign_stays_as_it_is(clusters: Clusters) -> None:
    clusters.gamma.mkdir()
    (clusters.gamma / ".campaign").symlink_to("delta.x")
    clusters.save(0, 1, "state", "more/a")

    assert 2 == clusters.run("gamma", "0:1", "beta")[0]
    assert 0 == clusters.run("gamma", "0:1")[0]

    assert [".campaign"] == os.listdir(clusters.gamma)


def test_a_copy_that_nobody_needs_is_removed(clusters: Clusters) -> None:
    (clusters.beta / ".campaign").symlink_to("beta.None")
    clusters.save(0, 1, "state", "more/a", "log")
    clusters.save(1, 1, "state", "more/b")

    assert [(0, {"missing": {}})] * 2 == [clusters.run("beta", "0:1,1:1") for _ in range(2)]

    assert {"0.1/log"} == files(clusters.beta)
    assert not (clusters.beta / "1.1").exists()


def test_one_program_carries_for_a_campaign_and_cluster(clusters: Clusters, tmp_path: Path) -> None:
    (tmp_path / ".gridbridge").mkdir()
    with MomentaryProgramLock(str(tmp_path / ".gridbridge/checkpoints.7.gamma.lock")):
        assert NOT_NOW == clusters.run("gamma", "0:1", "beta")[0]
    assert 2 == clusters.run("delta", "0:1", "beta")[0]
