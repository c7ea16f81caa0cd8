"""Users read and fetch the outputs of their own tasks, and unreadable clusters are reported."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.campaigns.cli import task_output_reading_and_fetching
from gridbridge.campaigns.cli.gridfetch import gridfetch
from gridbridge.campaigns.cli.gridsub_campaign_source import campaign_of_failed_tasks, campaign_with_added_tasks
from gridbridge.campaigns.cli.task_output_reading_and_fetching import (
    ERR,
    OUT,
    TaskOutputFolderAtCluster,
    fetch_task_outputs,
    own_campaign_output_folders,
    read_task_output_tails,
)
from gridbridge.campaigns.store import campaign_files_of_owners
from gridbridge.campaigns.store.campaign_files_of_owners import ForeignOrMissingCampaignFile, require_own_campaign
from gridbridge.campaigns.store.published_campaign_files import publish_campaign_task_file
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.errors import CommandFailed, ConfigError, StateError
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaignTask
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import rsync
from tests.builders.configurations import site_text
from tests.campaigns.cli.published_builder import (
    jdl_for_beta,
    make_shown_campaign,
    publish_campaigns,
    run_command,
    write_campaign_file,
)

ENDED = PublishedCampaignTask(
    number=0, attempt=1, outcome=TaskAttemptOutcome.SUCCESS, is_waiting=False, cluster="beta", place=1
)
TASKS = (ENDED, replace(ENDED, number=1, attempt=2, outcome=TaskAttemptOutcome.SIGNAL))
CONFIG = f"""{site_text("alpha")}[cluster.gamma]
kind = "oar"
ssh = "gamma-master"
users = {{ alice = "al_gamma" }}
"""


@pytest.fixture(name="beta")
def _beta(tmp_path: Path) -> TaskOutputFolderAtCluster:
    """Return the folder of a campaign whose second task wrote nothing on its standard output."""
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "0.1.out").write_text("one\n")
    (folder / "0.1.err").write_bytes(b"a\0b\xff\n")
    (folder / "1.2.err").write_text("x" * 99 + "end\n")
    return TaskOutputFolderAtCluster(login=None, folder=str(folder), timeout_s=9)


@pytest.mark.parametrize(("name", "told"), [("x", "not a folder"), ("x/y", "Not a directory")])
def test_outputs_are_not_fetched_into_a_path_that_is_no_folder(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "x").write_text("")

    with pytest.raises(StateError, match=told):
        fetch_task_outputs((), str(tmp_path / name), {})


def test_outputs_are_not_fetched_into_an_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere

    with pytest.raises(StateError, match="you may not write there"):
        fetch_task_outputs((), str(tmp_path), {})


def test_the_end_of_each_tasks_output_is_read(beta: TaskOutputFolderAtCluster) -> None:
    assert read_task_output_tails(TASKS, OUT, 100, {"beta": beta}) == ({0: "one\n"}, [])
    Path(beta.folder, "1.2.out").write_text("")
    assert read_task_output_tails(TASKS, OUT, 100, {"beta": beta}) == ({0: "one\n", 1: ""}, [])
    assert read_task_output_tails(TASKS, ERR, 4, {"beta": beta}) == ({0: "b\ufffd\n", 1: "end\n"}, [])


def test_outputs_of_ended_tasks_are_fetched_and_missing_files_are_left_out(
    beta: TaskOutputFolderAtCluster, tmp_path: Path
) -> None:
    gone = replace(ENDED, number=2, cluster="omega")
    lost = replace(ENDED, number=3, cluster="gamma")
    nowhere = TaskOutputFolderAtCluster(login=None, folder=f"{tmp_path}/none", timeout_s=9)
    here = tmp_path / "here"

    done = fetch_task_outputs((*TASKS, gone, lost), str(here), {"beta": beta, "gamma": nowhere})

    assert sorted(os.listdir(here)) == ["0.1.err", "0.1.out", "1.2.err"]
    fetched = [(at.cluster, at.files, bool(at.problem)) for at in done]
    assert fetched == [("beta", 3, False), ("gamma", 0, True), ("omega", 0, True)]


def test_declared_outputs_are_fetched_only_for_successful_tasks(
    beta: TaskOutputFolderAtCluster, tmp_path: Path
) -> None:
    for number in (0, 1):
        (Path(beta.folder) / f"{number}/logs").mkdir(parents=True)
        (Path(beta.folder) / f"{number}/logs/run").write_text("done\n")
    declared = replace(beta, outputs=("logs/run", "none"))

    (done,) = fetch_task_outputs(TASKS, f"{tmp_path}/here", {"beta": declared})

    assert (done.files, done.problem) == (4, "")
    assert (tmp_path / "here/0/logs/run").read_text() == "done\n"
    assert not (tmp_path / "here/1").exists()


def test_an_output_folder_is_fetched_with_all_its_files(beta: TaskOutputFolderAtCluster, tmp_path: Path) -> None:
    """Rsync does the same over ssh; a link stays a link."""
    inner = Path(beta.folder, "0/dir/a/b")
    inner.mkdir(parents=True)
    (inner / "c").write_text("c\n")
    (inner / "up").symlink_to("..")
    to = tmp_path / "here"

    (done,) = fetch_task_outputs([ENDED], str(to), {"beta": replace(beta, outputs=("dir",))})

    assert done.problem == ""
    assert (to / "0/dir/a/b/c").read_text() == "c\n"
    assert os.readlink(to / "0/dir/a/b/up") == ".."


def test_unchanged_files_are_not_copied_again(beta: TaskOutputFolderAtCluster, tmp_path: Path) -> None:
    fetch_task_outputs(TASKS, f"{tmp_path}/here", {"beta": beta})
    names = ("0.1.out", "0.1.err")
    before = [(tmp_path / "here" / name).stat().st_ino for name in names]
    Path(beta.folder, "0.1.err").write_text("more than that\n")
    fetch_task_outputs(TASKS, f"{tmp_path}/here", {"beta": beta})
    after = [(tmp_path / "here" / name).stat().st_ino for name in names]

    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False]
    assert (tmp_path / "here/0.1.err").read_text() == "more than that\n"


def test_a_file_that_cannot_be_copied_does_not_stop_the_other_copies(
    beta: TaskOutputFolderAtCluster, tmp_path: Path
) -> None:
    to = tmp_path / "here"
    for name in ("0.1.out", "0.1.err"):
        (to / name / "x").mkdir(parents=True)

    (done,) = fetch_task_outputs(TASKS, str(to), {"beta": beta})

    assert (to / "1.2.err").is_file()
    assert "0.1.out" in done.problem
    assert "and 1 more" in done.problem


def test_fetching_into_the_output_folder_itself_changes_no_file(beta: TaskOutputFolderAtCluster) -> None:
    """Clusters with a shared home directory have their outputs in the folder already."""
    done = fetch_task_outputs(TASKS, beta.folder, {"beta": beta})

    assert (done[0].files, done[0].problem) == (3, "")
    assert Path(beta.folder, "0.1.out").read_text() == "one\n"


def test_fetching_follows_no_link_in_the_target_folder(beta: TaskOutputFolderAtCluster, tmp_path: Path) -> None:
    (Path(beta.folder) / "0").mkdir()
    (Path(beta.folder) / "0/run").write_text("done\n")
    mine, here = tmp_path / "mine", tmp_path / "here"
    (mine / "0").mkdir(parents=True)
    here.mkdir()
    (mine / "file").write_text("mine\n")
    (here / "0.1.out").symlink_to(mine / "file")
    (here / "0").symlink_to(mine / "0")

    (done,) = fetch_task_outputs(TASKS, str(here), {"beta": replace(beta, outputs=("run",))})

    assert ((mine / "file").read_text(), os.listdir(mine / "0")) == ("mine\n", [])
    assert (here / "0.1.out").read_text() == "one\n"
    assert "0 is a link" in done.problem


def test_a_default_folder_owned_by_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user could create the folder first, and would get the outputs."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    assert fetch_task_outputs((), str(tmp_path), {}) == ()
    with pytest.raises(StateError, match="owned by another user; expected a folder of yours as DIR"):
        fetch_task_outputs((), str(tmp_path), {}, is_chosen=False)


def test_outputs_are_fetched_over_ssh_with_the_users_own_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, list[str], str, bool]] = []

    def pull(login: SshLogin, names: list[str], source: str, *_: object, follows: bool, **__: object) -> bool:
        asked.append((login.user, list(names), source, follows))
        raise CommandFailed(("rsync",), 255, stderr=b"no route", host=login.host)

    monkeypatch.setattr(rsync, "rsync_files_from_host", pull)

    login = SshLogin(host="gamma-master", user="al_gamma")
    gamma = TaskOutputFolderAtCluster(login=login, folder="./campaign.7", timeout_s=9)
    (done,) = fetch_task_outputs([replace(ENDED, cluster="gamma")], str(tmp_path), {"gamma": gamma})

    assert asked == [("al_gamma", ["0.1.out", "0.1.err"], "./campaign.7", False)]
    assert "no route" in done.problem


def output_folders(folder: Path, jdl: Jdl) -> dict[str, TaskOutputFolderAtCluster]:
    write_campaign_file(folder, jdl)
    (folder / "gridbridge.toml").write_text(CONFIG)
    return own_campaign_output_folders(
        7, FixedPaths(campaigns=str(folder), configuration=str(folder / "gridbridge.toml"))
    )


@pytest.mark.parametrize(
    ("directory", "local", "far"),
    [
        ("", "{home}/campaign.7", "./campaign.7"),
        ("$HOME", "{home}/campaign.7", "./campaign.7"),
        ("$HOME/a b/c", "{home}/a b/c/campaign.7", "./a b/c/campaign.7"),
        ("/scratch", "/scratch/campaign.7", "/scratch/campaign.7"),
        ("runs", "{home}/runs/campaign.7", "./runs/campaign.7"),
    ],
)
def test_relative_output_folders_are_below_the_home_directory_at_each_cluster(
    tmp_path: Path, directory: str, local: str, far: str
) -> None:
    """task.sh uses the same folder."""
    wish = JdlSettingsAtCluster(exec_file="x", exec_directory=directory)

    folders = output_folders(tmp_path, Jdl(name="n", clusters={"alpha": wish, "gamma": wish, "gone": wish}))

    assert {name: place.folder for name, place in folders.items()} == {
        "alpha": local.format(home=os.path.expanduser("~")),
        "gamma": far,
    }


def test_root_gets_the_owners_name_instead_of_the_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_files_of_owners, "uid_of_campaign_owner", lambda *_: 1)
    monkeypatch.setattr("os.geteuid", lambda: 0)

    with pytest.raises(ForeignOrMissingCampaignFile, match="campaign 7: owned by daemon; expected sudo -u daemon"):
        output_folders(tmp_path, Jdl(name="n", clusters={"alpha": JdlSettingsAtCluster(exec_file="x")}))


SWEEP = make_shown_campaign(state=CampaignState.TERMINATED, clusters=("beta",), ended=2, failed=1)


@pytest.fixture(name="published")
def _published(tmp_path: Path) -> str:
    folder = f"{tmp_path}/published"
    os.mkdir(folder)
    publish_campaigns(folder, SWEEP)
    publish_campaign_task_file(7, 0, TASKS, folder)
    return folder


def failed_tasks(folder: Path, published: str, type_: str = "", campaign: int = 7) -> ParsedJdl:
    return campaign_of_failed_tasks(campaign, type_, FixedPaths(campaigns=str(folder), published=published))


def test_gridfetch_reports_the_fetched_files_of_each_cluster(
    published: str, beta: TaskOutputFolderAtCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_output_reading_and_fetching, "own_campaign_output_folders", lambda *_: {"beta": beta})
    argv = ["7", f"{tmp_path}/to", "--published", published]

    done = run_command(gridfetch, *argv)
    monkeypatch.setattr(task_output_reading_and_fetching, "own_campaign_output_folders", lambda *_: {})
    again = run_command(gridfetch, *argv)

    assert (done.return_value, done.output) == (0, "beta: 3 files\n")
    assert again.return_value == 1
    assert "gridfetch: beta: not configured any more" in again.output


def test_gridfetch_refuses_missing_and_foreign_campaigns(published: str, tmp_path: Path) -> None:
    paths = FixedPaths(campaigns=str(tmp_path), configuration="/none")

    theirs = run_command(gridfetch, "7", "--published", published, paths=paths)
    none = run_command(gridfetch, "8", "--published", published, paths=paths)

    assert (theirs.return_value, none.return_value) == (1, 1)
    assert theirs.output == "gridfetch: campaign 7: the campaign's file was removed\n"
    assert none.output == "gridfetch: no campaign 8\n"


@pytest.mark.parametrize("before", CampaignType)
def test_failed_tasks_are_submitted_again_with_the_requested_campaign_type(
    published: str, tmp_path: Path, before: CampaignType
) -> None:
    jdl = jdl_for_beta(type=before)
    write_campaign_file(tmp_path, jdl, "a 1", "b 'it is'", "c")

    for asked, type_ in (("test", CampaignType.TEST), ("default", CampaignType.DEFAULT), ("", before)):
        again = failed_tasks(tmp_path, published, asked)
        assert (again.jdl, again.parameters) == (replace(jdl, type=type_), ("b 'it is'",))


def test_a_task_cancelled_by_its_owner_is_not_submitted_again(published: str, tmp_path: Path) -> None:
    unwanted = replace(ENDED, outcome=TaskAttemptOutcome.UNWANTED)
    deleted = replace(ENDED, number=1, outcome=TaskAttemptOutcome.CANCELLED)
    write_campaign_file(tmp_path, jdl_for_beta(), "a", "b")
    publish_campaign_task_file(7, 0, (unwanted, deleted), published)

    assert [one.state_word for one in (unwanted, deleted)] == ["cancelled", "cancelled"]
    assert failed_tasks(tmp_path, published).parameters == ("b",)


@pytest.mark.parametrize(
    ("state", "again"), [(CampaignState.TERMINATED, ("b", "c")), (CampaignState.CANCELLED, ("b",))]
)
def test_tasks_that_root_refused_to_submit_count_as_failed(
    published: str, tmp_path: Path, state: CampaignState, again: tuple[str, ...]
) -> None:
    publish_campaigns(published, replace(SWEEP, tasks=3, state=state))
    write_campaign_file(tmp_path, jdl_for_beta(), "a", "b", "c")

    assert failed_tasks(tmp_path, published).parameters == again


def test_a_campaign_file_of_another_user_is_refused(
    published: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_campaign_file(tmp_path, jdl_for_beta(), "a", "b", "c")
    monkeypatch.setattr(campaign_files_of_owners.os, "geteuid", lambda: 41000)

    with pytest.raises(ForeignOrMissingCampaignFile, match="owned by another user"):
        failed_tasks(tmp_path, published)
    with pytest.raises(ForeignOrMissingCampaignFile, match="owned by another user"):
        campaign_with_added_tasks(7, None, "[]", str(tmp_path))


def test_a_damaged_campaign_file_is_reported_as_damaged(published: str, tmp_path: Path) -> None:
    (tmp_path / "c.7").write_text("no JSON")

    with pytest.raises(ForeignOrMissingCampaignFile, match="the campaign's file is damaged"):
        failed_tasks(tmp_path, published)


def test_only_a_campaign_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_campaign_file(tmp_path, Jdl(name="n"), "a")
    require_own_campaign(7, str(tmp_path))
    require_own_campaign(8, str(tmp_path))
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)

    with pytest.raises(ForeignOrMissingCampaignFile, match="campaign 7: owned by another user"):
        require_own_campaign(7, str(tmp_path))


def test_declared_outputs_outside_the_tasks_folder_are_ignored(tmp_path: Path) -> None:
    names = ("../../.bashrc", "/etc/passwd", "a/../../b", "fine/one.txt")
    clusters = {"alpha": JdlSettingsAtCluster(exec_file="run", exec_directory="/tmp")}

    folders = output_folders(tmp_path, Jdl(name="n", clusters=clusters, outputs=names))

    assert [[*place.outputs_of_task(0)] for place in folders.values()] == [["fine/one.txt"]]


def test_retrying_without_failed_tasks_is_refused(published: str, tmp_path: Path) -> None:
    with pytest.raises(ForeignOrMissingCampaignFile):
        failed_tasks(tmp_path, published)
    with pytest.raises(ConfigError, match="no campaign 8"):
        failed_tasks(tmp_path, published, campaign=8)
    write_campaign_file(tmp_path, Jdl(name="n"), "a", "b")
    publish_campaign_task_file(7, 0, (ENDED, replace(ENDED, number=1)), published)
    with pytest.raises(ConfigError, match="no task has failed"):
        failed_tasks(tmp_path, published)
