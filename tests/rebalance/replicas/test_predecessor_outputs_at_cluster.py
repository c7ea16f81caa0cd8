"""Outputs of predecessors are found where they lie, at the cluster of the task that reads them."""

import os
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gridbridge.campaigns.store import published_campaign_files
from gridbridge.campaigns.store.campaign_files_of_owners import encode_campaign_file
from gridbridge.errors import StateError
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_predecessors import CampaignPredecessor, PredecessorCondition
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaignTask
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.rebalance.replicas.predecessor_outputs_at_cluster import find_predecessor_outputs
from tests.builders.configurations import site_text
from tests.campaigns.cli.published_builder import make_shown_campaign, publish_campaigns

REMOTE = "".join(f'[cluster.{name}]\nkind = "oar"\nssh = "{name}-login"\n' for name in ("beta", "gamma"))
CONFIG = f"{site_text('alpha')}{REMOTE}"
OK, SAME = PredecessorCondition.OK, PredecessorCondition.SAME
RUN = JdlSettingsAtCluster(exec_file="run", exec_directory="$HOME/runs")
READS = Jdl(
    name="reads", clusters={"beta": RUN, "gamma": RUN}, outputs=("out/{1}.bam",), outputs_to="/home/ann/results"
)
FIRST, SECOND = "/home/ann/results/out/a.bam", "/home/ann/results/out/b.bam"
DONE = PublishedCampaignTask(number=0, attempt=1, is_waiting=False, outcome=TaskAttemptOutcome.SUCCESS, cluster="gamma")


def write_campaign(folder: Path, number: int, jdl: Jdl) -> None:
    path = folder / f"c.{number}"
    path.write_bytes(encode_campaign_file(asdict(jdl), ("a", "b")))
    path.chmod(0o640)


@pytest.fixture
def paths(tmp_path: Path) -> FixedPaths:
    """Task 0 of campaign 1 succeeded at gamma, and task 1 at beta; outputs of campaign 2 are elsewhere."""
    (tmp_path / "gridbridge.toml").write_text(CONFIG)
    tasks = (DONE, replace(DONE, number=1, cluster="beta"))
    published_campaign_files.publish_campaign_task_file(1, 0, tasks, str(tmp_path))
    shown = [make_shown_campaign(number=number, name=name) for number, name in ((1, "reads"), (2, "x"), (3, "calls"))]
    publish_campaigns(tmp_path, *shown, make_shown_campaign(number=4, name="reads", owner="bob"))
    write_campaign(tmp_path, 1, READS)
    write_campaign(tmp_path, 2, replace(READS, outputs_to="/other"))
    return FixedPaths(campaigns=str(tmp_path), published=str(tmp_path), configuration=str(tmp_path / "gridbridge.toml"))


@pytest.mark.parametrize(
    ("after", "cluster", "tasks", "found"),
    [
        (CampaignPredecessor(name="reads", condition=SAME), "gamma", {0, 1}, {FIRST: "./runs/campaign.1/0/out/a.bam"}),
        (CampaignPredecessor(number=1, condition=OK), "beta", {0}, {SECOND: "./runs/campaign.1/1/out/b.bam"}),
        (CampaignPredecessor(name="reads", condition=SAME), "beta", {0}, {}),
        (CampaignPredecessor(name="x", condition=OK), "gamma", {0}, {}),
        (CampaignPredecessor(number=9, condition=OK), "gamma", {0}, {}),
    ],
    ids=["of the same task", "of any task", "of a task elsewhere", "of another campaign", "of no campaign"],
)
def test_outputs_of_predecessors_at_the_cluster_are_found(
    paths: FixedPaths, after: CampaignPredecessor, cluster: str, tasks: set[int], found: dict[str, str]
) -> None:
    write_campaign(Path(paths.campaigns), 3, replace(READS, name="calls", after=(after,)))

    assert found == find_predecessor_outputs(3, cluster, tasks, {FIRST, SECOND}, paths)


@pytest.mark.parametrize(
    ("condition", "task", "found"),
    [(SAME, 1, {SECOND: "./runs/campaign.1/1/out/b.bam"}), (SAME, 0, {}), (OK, 1, {})],
    ids=["published elsewhere", "of another task", "the whole campaign"],
)
def test_the_runner_knows_better_which_outputs_are_at_a_cluster(
    paths: FixedPaths, condition: PredecessorCondition, task: int, found: dict[str, str]
) -> None:
    after = (CampaignPredecessor(name="reads", condition=condition),)
    write_campaign(Path(paths.campaigns), 3, replace(READS, name="calls", after=after))

    assert found == find_predecessor_outputs(3, "gamma", {task}, {SECOND}, paths, are_at_cluster=True)
    os.unlink(f"{paths.campaigns}/c.1")
    with nullcontext() if condition is OK else pytest.raises(StateError, match="outputs of predecessors at gamma"):
        assert {} == find_predecessor_outputs(3, "gamma", {task}, {SECOND}, paths, are_at_cluster=True)


def test_files_are_carried_from_home_if_the_predecessors_file_is_gone(paths: FixedPaths) -> None:
    write_campaign(Path(paths.campaigns), 3, replace(READS, after=(CampaignPredecessor(number=1),)))
    os.unlink(f"{paths.campaigns}/c.1")

    assert {} == find_predecessor_outputs(3, "gamma", {0}, {FIRST}, paths)
