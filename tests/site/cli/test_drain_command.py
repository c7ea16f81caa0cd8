"""gridbridge drain and undrain as administrators see the two commands."""

import os
import pwd
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.campaigns.store.published_campaign_files import publish_campaign_value
from gridbridge.cli.main import gridbridge
from gridbridge.decisions.transfer.transfer_status_explanation import report_transfer_queue_status
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedClusterSlots, PublishedClusterSlotsList
from gridbridge.site.cli.drain_command import MAX_CHARACTERS
from gridbridge.state import drains
from gridbridge.state import published_json as files
from tests.shown import publish, shown


@pytest.fixture
def folder(tmp_path: Path) -> str:
    published = publish(tmp_path, shown())
    drains.make_cluster_drains_folder(published)
    return published


def publish_gamma(folder: str) -> None:
    gamma = PublishedClusterSlots(name="gamma", kind="oar")
    publish_campaign_value(PublishedClusterSlotsList(at=datetime.now(UTC), clusters=(gamma,)), folder)


def run(folder: str, *words: str) -> Result:
    return CliRunner().invoke(gridbridge, [*words, "--published", folder])


def test_draining_a_cluster_closes_its_queue_and_records_who_and_why(folder: str) -> None:
    assert run(folder, "drain", "beta", "--reason", "disk 100 % full").exit_code == 0

    seen = files.read_all_published_files(folder)
    assert seen.service
    judged = report_transfer_queue_status(seen.service.routes[0], seen, datetime.now(UTC))
    me = pwd.getpwuid(os.getuid()).pw_name
    assert (judged.is_open, drains.list_drained_clusters(folder)) == (False, {"beta"})
    assert seen.drained["beta"].reason == "disk 100 % full"
    assert me == seen.drained["beta"].by


def test_a_second_undrain_is_refused(folder: str) -> None:
    run(folder, "drain", "beta", "--reason", "x")
    first, second = (run(folder, "undrain", "beta") for _ in range(2))

    assert (first.exit_code, drains.list_drained_clusters(folder)) == (0, frozenset())
    assert isinstance(second.exception, GridbridgeError)
    assert str(second.exception) == "beta: not drained; drained clusters: none"


def test_undrain_removes_no_file_outside_its_folder(folder: str) -> None:
    elsewhere = Path(folder, "beside")
    elsewhere.touch()

    told = run(folder, "undrain", "../beside")

    assert isinstance(told.exception, GridbridgeError)
    assert elsewhere.exists()


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("gamma", "--reason", "x"), "'gamma': nothing is sent to this cluster; expected one of: beta"),
        (("../load", "--reason", "x"), "'../load': nothing is sent to this cluster"),
        (("beta", "--reason", ""), "--reason: expected one line of at most 500 characters"),
        (("beta", "--reason", "a\nb"), "--reason: expected one line"),
        (("beta", "--reason", "x" * (MAX_CHARACTERS + 1)), "--reason: expected one line"),
    ],
)
def test_a_wrong_cluster_or_reason_drains_nothing(folder: str, words: tuple[str, ...], wrong: str) -> None:
    told = run(folder, "drain", *words)

    assert isinstance(told.exception, GridbridgeError)
    assert wrong in str(told.exception)
    assert drains.list_drained_clusters(folder) == frozenset()


def test_a_cluster_of_campaigns_can_be_drained_without_a_transfer_queue(tmp_path: Path) -> None:
    folder = publish(tmp_path, shown(service=None, clusters={}))
    drains.make_cluster_drains_folder(folder)
    publish_gamma(folder)

    drained = run(folder, "drain", "gamma", "--reason", "new disks")
    status = run(folder, "status")

    assert (drained.exit_code, drains.list_drained_clusters(folder)) == (0, {"gamma"})
    me = pwd.getpwuid(os.getuid()).pw_name
    assert f"\ngamma: drained by {me} 0 s ago: new disks; no campaign sends tasks to this cluster" in (status.stdout)


def site_with_two_clusters(tmp_path: Path) -> str:
    folder = publish(tmp_path, shown())
    drains.make_cluster_drains_folder(folder)
    publish_gamma(folder)
    return folder


def test_drain_all_drains_each_cluster_and_undrain_all_ends_only_its_own_drains(tmp_path: Path) -> None:
    """A cluster with broken disks is not reopened because the site's maintenance is over."""
    folder = site_with_two_clusters(tmp_path)
    me = pwd.getpwuid(os.getuid()).pw_name
    run(folder, "drain", "beta", "--reason", "disks")

    drained = [run(folder, "drain", "--all", "--reason", reason) for reason in ("move", "longer")]
    during = {name: drain.reason for name, drain in drains.read_cluster_drains(folder).items()}
    undrained = run(folder, "undrain", "--all")

    assert [done.output for done in drained] == [f"beta: already drained by {me}: disks\n"] * 2
    assert during == {"beta": "disks", "gamma": "longer"}
    assert (undrained.exit_code, undrained.output) == (0, f"beta: still drained by {me}: disks\n")
    assert drains.list_drained_clusters(folder) == {"beta"}


def test_undrain_all_without_drain_all_changes_nothing(folder: str) -> None:
    run(folder, "drain", "beta", "--reason", "disks")

    told = run(folder, "undrain", "--all")

    assert str(told.exception) == "--all: no cluster is drained by drain --all; drained clusters: beta"
    assert drains.list_drained_clusters(folder) == {"beta"}


@pytest.mark.parametrize("words", [("drain", "--reason", "x"), ("undrain",)])
@pytest.mark.parametrize("clusters", [(), ("beta", "--all")], ids=["neither", "both"])
def test_either_a_cluster_or_all_is_named(folder: str, words: tuple[str, ...], clusters: tuple[str, ...]) -> None:
    told = run(folder, *words, *clusters)

    assert (told.exit_code, "expected either one CLUSTER or --all" in told.output) == (2, True)


def test_no_cluster_can_be_drained_before_a_service_has_published(tmp_path: Path) -> None:
    folder = publish(tmp_path, shown(service=None, clusters={}))

    told = run(folder, "drain", "gamma", "--reason", "x")

    why = "expected one of: none, because no poller or runner has published a cluster yet"
    assert str(told.exception) == f"'gamma': nothing is sent to this cluster; {why}"


@pytest.mark.parametrize("words", [("drain", "beta", "--reason", "x"), ("undrain", "beta")])
def test_a_user_without_the_right_is_told_which_accounts_may_drain(
    folder: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)

    told = run(folder, *words)

    me = pwd.getpwuid(os.getuid()).pw_name
    assert str(told.exception) == f"only {me} and root may do this: sudo -u {me} ..."


def test_an_unreadable_drain_file_still_closes_the_queue(folder: str) -> None:
    Path(folder, "drained", "beta").write_text("what\n")

    assert drains.list_drained_clusters(folder) == {"beta"}
    with pytest.raises(GridbridgeError, match="not written by gridbridge drain"):
        files.read_all_published_files(folder)
