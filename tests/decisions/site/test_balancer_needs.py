"""The requirements of gridbridge-balance on the master, each with the command that meets it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.decisions.site.balancer_setup_requirements import (
    BY_NUMBER,
    CRON_LINE,
    SUDOERS_LINE,
    balancer_rights_removal_edits,
    balancer_setup_findings,
    is_balancer_configured,
    running_balancer_findings,
)
from gridbridge.model.elastic.balancer_config_sections import (
    BalanceSection,
    MachineBootstrapSection,
    MachineProviderSection,
    NodePoolSection,
)
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT, BALANCE_CRON, BALANCE_HOME, BALANCE_SUDOERS, BALANCE_UNIT
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity, SetupEdit, SetupEditVerb
from gridbridge.model.site.site_check_facts import (
    BalancerCellFacts,
    BalancerFacts,
    LastPublishedBalancerRound,
    PathFacts,
)
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import Policy

CONF = Path(__file__).parents[3] / "conf"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = f"{BALANCE_HOME}/key"
PUBLISHED = f"{BALANCE_HOME}/published"
UID = 990


def path(mode: int, owner: int = UID, *, is_folder: bool = False) -> PathFacts:
    name = "root" if owner == 0 else BALANCE_ACCOUNT
    return PathFacts(owner=owner, owner_name=name, mode=mode, is_folder=is_folder)


CELL = BalancerCellFacts(
    name="alpha",
    master="alpha-master",
    managers=("root", BALANCE_ACCOUNT),
    admin_hosts=("alpha-master",),
    queues=frozenset({"all.q"}),
    host_groups=frozenset({"@allhosts"}),
)
LAST = LastPublishedBalancerRound(at=NOW - timedelta(seconds=40), is_acting=True, sentence="nothing is done")
RIGHT = BalancerFacts(
    host="alpha-master",
    uid=UID,
    paths={
        BALANCE_HOME: path(0o711, is_folder=True),
        PUBLISHED: path(0o755, is_folder=True),
        BALANCE_SUDOERS: path(0o440, owner=0),
        BALANCE_CRON: path(0o644, owner=0),
        KEY: path(0o600),
    },
    sudoers=f"{SUDOERS_LINE}\n",
    cron=f"{CRON_LINE}\n",
    cell=CELL,
    may_be_root=True,
    service_may_too=False,
    last=LAST,
)
POLICY = Policy(
    site=SiteSection(cluster="alpha"),
    clusters={},
    queues={},
    balance=BalanceSection(max_nodes=5, apply=True),
    bootstrap=MachineBootstrapSection(steps="execd", key=KEY),
    pools={"usual": NodePoolSection(provider="cloud")},
)


def findings(facts: BalancerFacts, policy: Policy = POLICY) -> list[CheckFinding]:
    return [*balancer_setup_findings(facts, policy), *running_balancer_findings(facts, policy, NOW)]


def wrong(facts: BalancerFacts, policy: Policy = POLICY) -> dict[str, list[str]]:
    broken = (finding for finding in findings(facts, policy) if finding.state == FindingSeverity.BROKEN)
    return {finding.item: [edit.value or edit.verb for edit in finding.mend] for finding in broken}


def without(name: str) -> BalancerFacts:
    return replace(RIGHT, paths={path: facts for path, facts in RIGHT.paths.items() if path != name})


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(RIGHT, id="by cron"),
        pytest.param(replace(without(BALANCE_CRON), has_unit=True), id="a systemd unit replaces the cron file"),
        pytest.param(replace(without(BALANCE_SUDOERS), cell=None, sudoers=""), id="a site without a cell"),
    ],
)
def test_a_complete_balancer_setup_has_only_ok_findings(facts: BalancerFacts) -> None:
    assert {FindingSeverity.OK} == {finding.state for finding in findings(facts)}


def test_a_bare_host_gets_every_item_and_the_cron_file_last() -> None:
    bare = BalancerFacts(
        host="alpha-master",
        uid=0,
        cell=BalancerCellFacts(name="alpha", master="alpha-master", managers=(), admin_hosts=()),
    )

    found = [*balancer_setup_findings(bare, POLICY)]

    assert (f"account {BALANCE_ACCOUNT}", f"file {BALANCE_CRON}") == (found[0].item, found[-1].item)
    assert {FindingSeverity.BROKEN} == {one.state for one in found}


OTHER_LINE, OF_ROOT = "mallory ALL=(ALL) ALL\n", path(0o755, owner=0, is_folder=True)


@pytest.mark.parametrize(
    ("facts", "item", "line"),
    [
        (without(BALANCE_CRON), f"file {BALANCE_CRON}", CRON_LINE),
        (replace(RIGHT, cron="# nothing\n"), f"file {BALANCE_CRON}", CRON_LINE),
        (without(BALANCE_SUDOERS), f"sudoers {BALANCE_SUDOERS}", SUDOERS_LINE),
        (replace(RIGHT, sudoers=f"{SUDOERS_LINE}\n{OTHER_LINE}"), f"sudoers {BALANCE_SUDOERS}", SUDOERS_LINE),
        (without(KEY), f"file {KEY}", "ssh-keygen"),
        (replace(RIGHT, paths={**RIGHT.paths, KEY: path(0o640)}), f"file {KEY}", "chmod 0600"),
        (replace(RIGHT, uid=0), f"account {BALANCE_ACCOUNT}", "useradd"),
        (replace(RIGHT, uid=0, paths={**RIGHT.paths, PUBLISHED: OF_ROOT}), f"folder {PUBLISHED}", ""),
    ],
)
def test_every_missing_item_has_its_command(facts: BalancerFacts, item: str, line: str) -> None:
    assert line in " ".join(wrong(facts)[item])


BY_ROOT = ("chown -h ",)  # changes the link itself


@pytest.mark.parametrize(
    ("facts", "item"),
    [
        (without(KEY), f"file {KEY}"),
        (replace(RIGHT, paths={**RIGHT.paths, KEY: path(0o777)}), f"file {KEY}"),
        (without(PUBLISHED), f"folder {PUBLISHED}"),
        (replace(RIGHT, paths={**RIGHT.paths, PUBLISHED: path(0o777)}), f"folder {PUBLISHED}"),
        (replace(RIGHT, paths={**RIGHT.paths, PUBLISHED: path(0o755, 0, is_folder=True)}), f"folder {PUBLISHED}"),
    ],
)
def test_root_follows_no_link_inside_the_accounts_folder(facts: BalancerFacts, item: str) -> None:
    """A link could give the account a file of root's, such as /etc/shadow."""
    (line,) = wrong(facts)[item]
    steps = str(line).split(" && ")

    assert all(one.startswith((f"runuser -u {BALANCE_ACCOUNT} -- ", *BY_ROOT)) for one in steps)


@pytest.mark.parametrize(
    ("found", "is_right"),
    [(path(0o755, owner=0), True), (path(0o644, owner=0), False), (path(0o755, is_folder=True), False), (None, False)],
    ids=["a program", "not to be run", "a folder", "missing"],
)
def test_a_provider_without_an_executable_program_is_broken(found: PathFacts | None, is_right: bool) -> None:
    policy = replace(POLICY, providers={"cloud": MachineProviderSection(program="/opt/site/rent")})
    paths = {**RIGHT.paths, "/opt/site/rent": found} if found else RIGHT.paths
    items = wrong(replace(RIGHT, paths=paths), policy)

    assert set(items) == (set() if is_right else {"provider cloud: /opt/site/rent"})


@pytest.mark.parametrize(("order", "expected"), [("load", {"alpha: queue order": [BY_NUMBER]}), ("seqno", {})])
def test_fill_first_needs_queues_sorted_by_sequence_number(order: str, expected: dict[str, list[str]]) -> None:
    facts = replace(RIGHT, cell=replace(CELL, queue_order=order))
    rules = replace(POLICY.balance, fill_first=True)

    assert expected == wrong(facts, replace(POLICY, balance=rules))
    assert {} == wrong(facts)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            replace(RIGHT, cell=replace(CELL, managers=("root",), admin_hosts=())),
            {
                f"alpha: manager {BALANCE_ACCOUNT}": [SetupEditVerb.ADMIT],
                "alpha: admin host alpha-master": [SetupEditVerb.ADMIT],
            },
        ),
        (
            replace(RIGHT, cell=replace(CELL, managers=(*CELL.managers, "gridbridge")), service_may_too=True),
            {"alpha: manager gridbridge": [SetupEditVerb.DISMISS], "account gridbridge": []},
        ),
        (replace(RIGHT, may_be_root=False), {f"account {BALANCE_ACCOUNT}": []}),
    ],
    ids=["rights missing in the cell", "rights of the service account", "refused by sudo"],
)
def test_only_the_balancers_account_has_the_rights_of_the_balancer(
    facts: BalancerFacts, expected: dict[str, list[str]]
) -> None:
    assert expected == wrong(facts)


def test_a_stopped_balancer_is_broken_and_an_unanswered_query_is_a_warning() -> None:
    old = replace(RIGHT, last=replace(LAST, at=NOW - timedelta(minutes=9)))
    blind = replace(RIGHT, last=replace(LAST, trouble="qstat: no answer"))

    assert "balancer" in wrong(old)
    last = findings(blind)[-1]
    assert (FindingSeverity.WARNING, True) == (last.state, "qstat: no answer" in last.found)


def test_a_balancer_without_apply_is_late_only_as_a_systemd_unit() -> None:
    old = replace(RIGHT, last=replace(LAST, at=NOW - timedelta(hours=2)))
    policy = replace(POLICY, balance=BalanceSection(max_nodes=5, apply=False))

    assert {} == wrong(old, policy)
    assert ["balancer"] == list(wrong(replace(old, has_unit=True), policy))


@pytest.mark.parametrize(("applies", "state"), [(True, FindingSeverity.WARNING), (False, FindingSeverity.NOTE)])
def test_a_balancer_that_never_ran_is_a_warning_or_a_note(applies: bool, state: FindingSeverity) -> None:
    policy = replace(POLICY, balance=BalanceSection(max_nodes=5, apply=applies))

    assert state == findings(replace(RIGHT, last=None), policy)[-1].state


def removed(path: str) -> SetupEdit:
    return SetupEdit(verb=SetupEditVerb.REMOVE_FILE, name=path)


def test_balancer_removal_begins_with_cron_and_keeps_the_account() -> None:
    edits = tuple(balancer_rights_removal_edits(RIGHT))

    assert [removed(one) for one in (BALANCE_CRON, BALANCE_SUDOERS)] == [*edits[:-1]]
    assert SetupEdit(verb=SetupEditVerb.DISMISS, cell="alpha", kind="manager", name=BALANCE_ACCOUNT) == edits[-1]
    assert not any(BALANCE_HOME in edit.value for edit in edits)
    assert () == tuple(balancer_rights_removal_edits(BalancerFacts(host="alpha-master", uid=0)))


def test_balancer_removal_on_another_host_leaves_the_cell_unchanged() -> None:
    edits = balancer_rights_removal_edits(replace(RIGHT, host="alpha-old"))

    assert [removed(path) for path in (BALANCE_CRON, BALANCE_SUDOERS)] == [*edits]


def test_balancer_removal_stops_the_systemd_unit_first() -> None:
    first, second, *_ = balancer_rights_removal_edits(replace(RIGHT, has_unit=True))

    assert first.value == "systemctl disable --now gridbridge-balance.service"
    assert second == removed(BALANCE_UNIT)


def test_shipped_sudoers_and_cron_files_have_the_lines_of_setup() -> None:
    sudoers = (CONF / "sudoers/gridbridge-admin").read_text().splitlines()
    cron = (CONF / "cron.d/gridbridge-balance").read_text().splitlines()

    assert SUDOERS_LINE in sudoers
    assert CRON_LINE in cron


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(POLICY, True), (replace(POLICY, pools={}), False), (replace(POLICY, balance=BalanceSection()), False)],
)
def test_a_balancer_is_configured_by_max_nodes_and_a_provider(policy: Policy, expected: bool) -> None:
    assert expected == is_balancer_configured(policy)


def test_queues_and_host_groups_of_pools_must_exist() -> None:
    """Pools without a provider are ignored."""
    pools = {
        "fat": NodePoolSection(provider="cloud", hostgroups="@allhosts @fat", queues="all.q big.q"),
        "later": NodePoolSection(hostgroups="@later"),
    }
    policy = replace(POLICY, pools=pools, balance=replace(POLICY.balance, queue="main.q"))

    assert {"alpha: queue main.q", "alpha: queue big.q", "alpha: host group @fat"} == wrong(RIGHT, policy).keys()
