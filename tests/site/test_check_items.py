"""Items of `gridbridge check`: admission rules, logins, storage areas, and campaigns without a runner."""

import os
import pwd
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path

import pytest

from gridbridge.campaigns.store.campaign_files_of_owners import encode_campaign_file, write_campaign_file_to_inbox
from gridbridge.campaigns.store.leading_master_record import write_master_record
from gridbridge.campaigns.submission.site_admission_rules import WHO_MENDS
from gridbridge.decisions.site.account_and_file_findings import account_folders_with_wrong_owner
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import ClusterCampaignsSection
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaignList
from gridbridge.model.campaigns.send_reasons import PublishedTaskSendExplanations
from gridbridge.model.config_key_descriptions import AccountByUser, PathByCluster
from gridbridge.model.rebalance.rebalance_section import StorageAreaKind, StorageAreaSection
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.shell.clock import Clock
from gridbridge.site import admission_rule_load_check, site_inspection, storage_provider_and_runner_checks
from gridbridge.site.storage_provider_and_runner_checks import (
    check_master_records,
    check_programs_of_campaigns,
    check_runner_activity,
    check_storage_area_owners,
)
from tests.site.cli.test_check_command import SWEEP, publish
from tests.site.test_queue_setup import ordered as policy

RULE = "def every_campaign(candidate):\n    return None\n"


def judged(folder: Path) -> list[tuple[FindingSeverity, str]]:
    found = admission_rule_load_check.check_admission_rules_load("", str(folder), os.getuid())
    return [(each.state, each.found) for each in found]


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "admission.d"
    folder.mkdir(mode=0o755)
    return folder


def put(folder: Path, text: str) -> Path:
    path = folder / "a.py"
    path.write_text(text)
    path.chmod(0o644)
    return path


def test_a_site_without_admission_rules_gets_no_finding(tmp_path: Path) -> None:
    assert judged(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (RULE, "loaded"),
        ("def x(:\n", f"a.py:1: SyntaxError: invalid syntax; {WHO_MENDS}"),
        ("print('a')\n1 / 0\n", f"a.py:2: ZeroDivisionError: division by zero; {WHO_MENDS}"),
        ("import sys\nsys.exit(0)\n", f"a.py:2: SystemExit: 0; {WHO_MENDS}"),
        ("import time\ntime.sleep(60)\n", "not loaded after 1 s"),
        ("import os\nos._exit(3)\n", "exit status 3"),
    ],
    ids=["loadable", "syntax", "import", "exit", "hanging", "exit of the process"],
)
def test_an_admission_rule_that_fails_to_load_is_broken(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.setattr(
        admission_rule_load_check, "LOAD_S", 1.0 if "sleep" in text else admission_rule_load_check.LOAD_S
    )
    put(folder, text)

    ((state, found),) = judged(folder)
    assert (state, found.removeprefix(f"{folder}/")) == (
        FindingSeverity.OK if told == "loaded" else FindingSeverity.BROKEN,
        told,
    )


def test_a_rule_that_others_can_write_is_broken_with_its_chmod(folder: Path) -> None:
    path = put(folder, RULE)
    path.chmod(0o666)

    ((state, found),) = judged(folder)
    assert (state, f"chmod go-w {path}" in found) == (FindingSeverity.BROKEN, True)


@pytest.mark.parametrize(
    ("users", "tried"),
    [
        (AccountByUser(alice="al_delta", gridbridge="gb_delta"), []),
        (AccountByUser(alice="al_delta", carol="carol"), ["carol"]),
        (AccountByUser(gridbridge="gb_delta"), ["carol"]),
    ],
    ids=["others are named", "named", "nobody is named"],
)
def test_the_users_own_key_is_tried_only_where_an_account_is_possible(
    users: AccountByUser, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise GridbridgeError("no")

    carol = pwd.struct_passwd(("carol", "x", 1234, 1234, "", "/nonexistent", "/bin/sh"))
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: carol)
    monkeypatch.setattr(site_inspection.ssh, "run_over_ssh", refuse)
    clusters = {"alpha": ClusterSection(), "delta": ClusterSection(ssh="delta-master", users=users)}
    policy = Policy(site=SiteSection(cluster="alpha"), clusters=clusters, queues={})

    assert [each.person for each in site_inspection.try_user_logins_at_clusters(policy)] == tried


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Look = Callable[[], list[tuple[FindingSeverity, str]]]


@pytest.fixture(name="look")
def _look(tmp_path: Path) -> Look:
    """Return a function that judges the runner at noon."""
    (tmp_path / "brought").mkdir()

    def look() -> list[tuple[FindingSeverity, str]]:
        clock = Clock(NOON.timestamp)
        found = check_runner_activity(clock, str(tmp_path), str(tmp_path / "brought"))
        return [(one.state, one.found) for one in found]

    return look


def show(published: Path, state: CampaignState) -> None:
    publish(PublishedCampaignList(at=NOON, campaigns=(replace(SWEEP, state=state),)), published)


@pytest.mark.parametrize(
    ("minutes", "state", "when"),
    [
        (None, FindingSeverity.WARNING, "never"),
        (12, FindingSeverity.WARNING, "12 min ago"),
        (1, FindingSeverity.OK, "1 min ago"),
    ],
)
def test_an_old_last_cycle_is_a_warning_while_campaigns_are_unfinished(
    tmp_path: Path, look: Look, minutes: int | None, state: FindingSeverity, when: str
) -> None:
    show(tmp_path, CampaignState.IN_TREATMENT)
    if minutes is not None:
        publish(PublishedTaskSendExplanations(at=NOON - timedelta(minutes=minutes)), tmp_path)

    assert look() == [(state, f"1 unfinished; last cycle of gridbridge-runner: {when}")]


@pytest.mark.parametrize("state", [CampaignState.TERMINATED, CampaignState.PAUSED])
def test_ended_or_paused_campaigns_need_no_runner(tmp_path: Path, look: Look, state: CampaignState) -> None:
    show(tmp_path, state)

    assert look() == []


def test_a_submitted_file_that_no_runner_accepted_is_a_warning(tmp_path: Path, look: Look) -> None:
    write_campaign_file_to_inbox(encode_campaign_file({"name": "n"}, ("a",)), str(tmp_path / "brought"))

    assert look() == [
        (FindingSeverity.WARNING, "0 unfinished and 1 file not accepted yet; last cycle of gridbridge-runner: never")
    ]


WORD = "11111111-0000-0000-0000-000000000000"


def area(path: Path) -> Policy:
    known = policy("cost")
    storage = StorageAreaSection(cluster=known.site.cluster, path=str(path))
    return replace(known, storage={"disk": storage})


def test_misowned_account_folders_are_parsed_from_a_listing() -> None:
    lines = (
        "alice d alice",
        "bob d carol",
        "carol l dora",
        "bob d 1001",
        "bob d a b",
        "bob d .hidden",
        f"bob d carol.{WORD}",
        "bob d \x1b[31m",
        "bob d x\nbob d alice",
        "",
    )

    assert account_folders_with_wrong_owner(lines) == {"carol": "bob", "dora": "carol", f"carol.{WORD}": "bob"}


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_a_folder_owned_by_another_account_is_a_warning(tmp_path: Path) -> None:
    for name in ("root", "daemon", "nobody", "no-account-of-ours", f"bin.{WORD}"):
        (tmp_path / name).mkdir()
    os.chown(tmp_path / "nobody", 65534, 65534)
    (tmp_path / "bin").symlink_to("/")
    (finding,) = check_storage_area_owners(area(tmp_path))

    assert finding.state == FindingSeverity.WARNING
    assert finding.found == f"{tmp_path}: bin is root's, daemon is root's"
    assert f"rm -r -- {tmp_path}/NAME" in finding.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_no_name_in_a_storage_area_forges_or_hides_a_warning(tmp_path: Path) -> None:
    states = [finding.state for finding in check_storage_area_owners(area(tmp_path))]
    for name in ("nobody", "x\nroot d nobody\ny"):
        (tmp_path / name).mkdir()
    os.chown(tmp_path / "nobody", 65534, 65534)
    states += [finding.state for finding in check_storage_area_owners(area(tmp_path))]
    (tmp_path / "daemon").mkdir()
    for number in range(9000):
        (tmp_path / f"{number:x<250}").touch()
    (finding,) = check_storage_area_owners(area(tmp_path))

    assert states == [FindingSeverity.OK] * 2
    assert finding.found == f"{tmp_path}: daemon is root's"


@pytest.mark.parametrize(("names", "is_told"), [(5, False), (6, True)])
def test_a_storage_area_with_too_many_names_is_a_warning(
    tmp_path: Path, names: int, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_provider_and_runner_checks, "MOST", 5)
    for number in range(names):
        (tmp_path / f"{number}").mkdir()
    (finding,) = check_storage_area_owners(area(tmp_path))

    assert (finding.state == FindingSeverity.WARNING) == is_told
    assert (f"{tmp_path} has more than 5 names" in finding.found) == is_told


@pytest.mark.parametrize(
    ("other", "state", "found"),
    [
        ("same", FindingSeverity.OK, "{0}/disk at home, {0}/same at beta"),
        ("empty", FindingSeverity.WARNING, "{0}/empty at beta list other folders than {0}/disk at home"),
        ("gone", FindingSeverity.NOTE, "not checked: {0}/gone at beta can't be listed"),
    ],
)
def test_clusters_that_list_other_folders_in_a_shared_area_are_a_warning(
    tmp_path: Path, other: str, state: FindingSeverity, found: str
) -> None:
    (tmp_path / "disk/no-account-of-ours").mkdir(parents=True)
    (tmp_path / "same").symlink_to("disk")
    (tmp_path / "empty").mkdir()
    policy = area(tmp_path)
    paths = {policy.site.cluster: f"{tmp_path}/disk", "beta": f"{tmp_path}/{other}"}
    clusters = {**policy.clusters, "beta": policy.clusters[policy.site.cluster]}
    storage = {"disk": StorageAreaSection(clusters=PathByCluster(paths))}

    _, finding = check_storage_area_owners(replace(policy, clusters=clusters, storage=storage))

    assert (state, found.format(tmp_path).replace("home", policy.site.cluster)) == (finding.state, finding.found)


@pytest.mark.parametrize(
    ("mode", "state", "found"),
    [
        (0o755, FindingSeverity.OK, "{0}/store"),
        (0o644, FindingSeverity.BROKEN, "{0}/store: not executable"),
        (0o757, FindingSeverity.BROKEN, "others could have written {0}/store"),
        (None, FindingSeverity.BROKEN, "{0}/store: No such file or directory"),
    ],
)
def test_programs_of_the_site_are_checked(tmp_path: Path, mode: int | None, state: FindingSeverity, found: str) -> None:
    program = f"{tmp_path}/store"
    if mode is not None:
        (tmp_path / "store").touch(mode)
        (tmp_path / "store").chmod(mode)
    storage = {
        "archive": StorageAreaSection(kind=StorageAreaKind.COMMAND, program=program),
        "disk": StorageAreaSection(clusters=PathByCluster({"beta": "/gone"}), load_command=program),
    }
    campaigns = {"beta": ClusterCampaignsSection(stress_script=program)}
    at_site = replace(area(tmp_path), storage=storage, campaigns=campaigns)

    of_store = next(iter(check_storage_area_owners(at_site)))
    findings = (of_store, *check_programs_of_campaigns(at_site))

    items = ["storage archive: program", "storage disk: load_command", "campaigns beta: stress_script"]
    assert items == [finding.item for finding in findings]
    assert {state} == {finding.state for finding in findings}
    assert all(finding.found.startswith(found.format(tmp_path)) for finding in findings)


def test_a_missing_storage_area_gets_no_finding(tmp_path: Path) -> None:
    assert not tuple(check_storage_area_owners(area(tmp_path / "gone")))


@pytest.mark.parametrize(
    ("terms", "state", "found"),
    [
        ((), None, None),
        ((3, 3), FindingSeverity.OK, "term 3 of a"),
        ((3, 2), FindingSeverity.BROKEN, "{0}: term 3 of a; {1}: term 2 of a"),
        ((3, 0), FindingSeverity.BROKEN, "{0}: term 3 of a; {1}: term 0 of -"),
    ],
    ids=["no master yet", "shared", "another master's", "not shared"],
)
def test_folders_that_masters_do_not_share_are_an_error(
    tmp_path: Path, terms: tuple[int, ...], state: FindingSeverity | None, found: str | None
) -> None:
    folders = (str(tmp_path / "x"), str(tmp_path / "y"))
    for folder, term in zip_longest(folders, terms):
        os.mkdir(folder)
        if term:
            write_master_record(folder, "runner", term, "a/1")
    policy = Policy(site=SiteSection(cluster="alpha", state="postgresql://db/x"), clusters={}, queues={})

    findings = [(one.state, one.found) for one in check_master_records(policy, folders)]
    assert findings == ([(state, found.format(*folders))] if found else [])
    assert [*check_master_records(replace(policy, site=SiteSection(cluster="alpha")), folders)] == []
