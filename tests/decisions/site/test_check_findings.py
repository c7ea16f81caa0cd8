"""The findings of gridbridge check about the transfer host and the running site."""

import re
from dataclasses import replace

import pytest

from gridbridge.decisions.site.account_and_file_findings import (
    FOLDERS,
    PROGRAMS,
    account_removal_edits,
    program_file_findings,
    service_sudoers_line,
    state_file_privacy_finding,
    transfer_host_findings,
)
from gridbridge.decisions.site.running_site_findings import (
    no_transfer_queue_findings,
    running_site_findings,
    worst_finding_state,
)
from gridbridge.decisions.site.transfer_queue_findings import unconfigured_queue_findings
from gridbridge.model.fixed_paths import CONFIG, METHODS, SPOOL, SUDOERS
from gridbridge.model.job_and_queue_states import OPEN
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity
from gridbridge.model.site.site_check_facts import (
    ClusterFacts,
    NonRootWritablePaths,
    PathFacts,
    PollerProcessFacts,
    SshKeyLoginFacts,
    StageDirFacts,
    TransferHostFacts,
)
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, Policy
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection
from gridbridge.site import setup_edits
from tests.states import queue_state

SITE = SiteSection(cluster="alpha")
POLICY = Policy(
    site=SITE,
    clusters={
        "alpha": ClusterSection(qmaster_port=1, execd_port=2),
        "beta": ClusterSection(qmaster_port=3, execd_port=4),
    },
    queues={"transfer-beta": TransferQueueSection(cluster="beta", pending_limit=1, slots=1)},
)
SERVICE, STATE = 990, "/var/lib/gridbridge/state.db"
WELL = ClusterFacts(version="SGE 8.1.9", ahead_s=0.4, master="master")


def a_path(mode: int, owner: int = 0, is_folder: bool = False) -> PathFacts:
    return PathFacts(owner=owner, owner_name=f"u{owner}", mode=mode, is_folder=is_folder)


def a_host(**paths: PathFacts | None) -> TransferHostFacts:
    named = {"program": PROGRAMS[0], "config": CONFIG, "sudoers": SUDOERS, "spool": SPOOL, "state": STATE}
    seen = {path: a_path(0o755) for path in PROGRAMS}
    seen |= {CONFIG: a_path(0o644), SUDOERS: a_path(0o440), STATE: a_path(0o600, SERVICE)}
    seen |= {path: a_path(mode, SERVICE, True) for path, mode in FOLDERS.items()}
    for name, found in paths.items():
        seen.pop(named[name])
        seen |= {named[name]: found} if found else {}
    return TransferHostFacts(
        name="tee",
        service_uid=SERVICE,
        paths=seen,
        sudoers=f"{service_sudoers_line(SITE)}\n",
        poller=PollerProcessFacts(is_running=True, pid=5, age_s=2.0),
        cells={"alpha": WELL, "beta": WELL},
        queues={"transfer-beta@tee": OPEN},
    )


def judged(facts: TransferHostFacts) -> list[CheckFinding]:
    found = (
        *program_file_findings(facts),
        *transfer_host_findings(facts, SITE),
        state_file_privacy_finding(facts, SITE),
        *running_site_findings(facts, POLICY),
    )
    return [each for each in found if each.state != FindingSeverity.OK]


def about(item: str, facts: TransferHostFacts, policy: Policy = POLICY) -> CheckFinding:
    (found,) = [each for each in running_site_findings(facts, policy) if each.item == item]
    return found


def command(facts: TransferHostFacts) -> str:
    ((edit,),) = [each.mend for each in judged(facts)]
    return setup_edits.setup_edit_command(edit)


def granting(line: str) -> TransferHostFacts:
    return replace(a_host(), sudoers=f"# ours\n{service_sudoers_line(SITE)}\n\n{line}\n")


def changeable(folder: str) -> TransferHostFacts:
    wrong = NonRootWritablePaths(files=3, wrong=("/x belongs to alice", "more"), above=("chmod go-w /etc",))
    return replace(a_host(), trees={folder: wrong})


@pytest.mark.parametrize(
    "facts",
    [granting("   # a comment"), replace(a_host(), poller=PollerProcessFacts(is_running=None, age_s=2.0))],
    ids=["usual", "fresh load values and no lock of the poller"],
)
def test_a_correct_site_has_no_finding(facts: TransferHostFacts) -> None:
    assert judged(facts) == []


def test_paths_that_others_can_change_are_reported_by_one_example() -> None:
    (found,) = judged(changeable("/opt/gridbridge/venv"))

    assert (found.item, found.state) == ("folder /opt/gridbridge/venv", FindingSeverity.BROKEN)
    assert found.found == "/x belongs to alice, and 1 more"


CHANGED_SETTINGS, LISTED_SPOOL = changeable("/etc/gridbridge"), a_host(spool=a_path(0o1777, SERVICE, True))
BELOW_CLOSED = replace(a_host(), closed_to_others={PROGRAMS[0]: "/opt/x"})
SHELL = "gridbridge ALL=(root) NOPASSWD: /bin/sh"


@pytest.mark.parametrize(
    ("facts", "mend"),
    [
        pytest.param(a_host(program=a_path(0o700)), f"chmod a+rx,go-w {PROGRAMS[0]}", id="program-closed"),
        pytest.param(a_host(program=a_path(0o775)), f"chmod a+rx,go-w {PROGRAMS[0]}", id="program-writable"),
        pytest.param(a_host(program=a_path(0o755, 7)), f"chown root:root {PROGRAMS[0]}", id="program-of-another"),
        pytest.param(a_host(config=a_path(0o666)), f"chmod 0644 {CONFIG}", id="configuration-writable"),
        pytest.param(a_host(config=a_path(0o600)), f"chmod 0644 {CONFIG}", id="configuration-closed"),
        pytest.param(a_host(config=None), CONFIG, id="no-configuration"),
        pytest.param(a_host(sudoers=None), SUDOERS, id="no-sudoers"),
        pytest.param(a_host(sudoers=a_path(0o644)), SUDOERS, id="sudoers-mode"),
        pytest.param(a_host(sudoers=a_path(0o440, 5)), SUDOERS, id="sudoers-owner"),
        pytest.param(replace(a_host(), sudoers="# nothing"), service_sudoers_line(SITE), id="sudoers-without-its-line"),
        pytest.param(granting(SHELL), service_sudoers_line(SITE), id="sudoers-with-another-line"),
        pytest.param(granting("#include /tmp/more"), service_sudoers_line(SITE), id="sudoers-with-another-file"),
        pytest.param(granting("#990 ALL=(ALL) NOPASSWD: ALL"), service_sudoers_line(SITE), id="sudoers-with-a-uid"),
        pytest.param(changeable("/opt/gridbridge/venv"), "chmod -R go-w /opt/gridbridge/venv", id="package-of-another"),
        pytest.param(CHANGED_SETTINGS, "chown -hR root:root /etc/gridbridge", id="configuration-folder-of-another"),
        pytest.param(CHANGED_SETTINGS, "chmod go-w /etc && chown", id="folder-above-of-another"),
        pytest.param(a_host(spool=None), "-m 1733 /var/spool/gridbridge", id="no-spool"),
        pytest.param(LISTED_SPOOL, "-m 1733 /var/spool/gridbridge", id="spool-can-be-listed"),
        pytest.param(a_host(spool=a_path(0o1733, 0, True)), "-o gridbridge", id="spool-of-another"),
        pytest.param(a_host(spool=a_path(0o777)), "mv -T /var/spool/gridbridge", id="spool-is-no-folder"),
        pytest.param(a_host(state=a_path(0o644, SERVICE)), f"chmod 0600 {STATE}", id="state-readable"),
        pytest.param(replace(a_host(), import_trouble="no module"), "chmod -R a+rX,go-w", id="package-unreadable"),
        pytest.param(BELOW_CLOSED, "chmod a+rx /opt/x", id="folder-above-closed"),
        pytest.param(
            replace(BELOW_CLOSED, paths=a_host(program=None).paths),
            "chmod a+rx /opt/x",
            id="folder-above-closed-to-check",
        ),
    ],
)
def test_every_wrong_file_has_its_correcting_command(facts: TransferHostFacts, mend: str) -> None:
    assert mend in command(facts)


@pytest.mark.parametrize(
    ("facts", "item"),
    [
        (replace(a_host(), hidden=frozenset({SUDOERS}), sudoers=""), f"sudoers {SUDOERS}"),
        (replace(a_host(sudoers=None), hidden=frozenset({SUDOERS})), f"sudoers {SUDOERS}"),
        (replace(a_host(spool=None), hidden=frozenset({SPOOL})), f"folder {SPOOL}"),
        (replace(a_host(state=None), hidden=frozenset({STATE})), "state file"),
    ],
    ids=["sudoers", "sudoers-folder", "folder", "state"],
)
def test_a_path_that_the_user_may_not_see_is_a_warning_without_a_command(facts: TransferHostFacts, item: str) -> None:
    (found,) = judged(facts)

    assert (found.item, found.state, found.mend) == (item, FindingSeverity.WARNING, ())
    assert found.found == "not visible to this user"


def test_a_missing_service_account_has_its_useradd() -> None:
    found = next(each for each in judged(replace(a_host(), service_uid=0)) if "account" in each.item)

    assert found.mend[0].value.startswith("useradd --system")


@pytest.mark.parametrize(
    ("poller", "found"),
    [
        (PollerProcessFacts(is_running=False), "not running"),
        (PollerProcessFacts(is_running=True, pid=5), "no values"),
        (PollerProcessFacts(is_running=True, pid=5, age_s=31.0), "values of 31 s ago"),
        (PollerProcessFacts(is_running=True, pid=5, age_s=-60.0), "values of -60 s ago"),
    ],
    ids=["dead", "silent", "stale", "from-the-future"],
)
def test_a_poller_without_fresh_load_values_is_broken_and_restarted(poller: PollerProcessFacts, found: str) -> None:
    (each,) = judged(replace(a_host(), poller=poller))

    assert (each.state, each.found) == (FindingSeverity.BROKEN, found)
    assert ("kill -9 5" in each.mend[0].value) == bool(poller.pid)


DENIED = 'denied: host "tee" is not an admin host'
ELSEWHERE = "qmaster_port = 6454, if this qmaster belongs to the cell"


@pytest.mark.parametrize(
    ("cell", "item", "state", "right"),
    [
        (replace(WELL, trouble="no answer in time"), "qmaster", FindingSeverity.BROKEN, "an answer"),
        (replace(WELL, trouble=DENIED), "admin host tee", FindingSeverity.BROKEN, ""),
        (replace(WELL, trouble="refused", other_port=6454), "qmaster", FindingSeverity.BROKEN, ELSEWHERE),
        (replace(WELL, version="GE 6.2u5"), "version", FindingSeverity.WARNING, ""),
        (replace(WELL, ahead_s=None), "clock", FindingSeverity.WARNING, ""),
        (replace(WELL, ahead_s=5.1), "clock", FindingSeverity.WARNING, ""),
        (replace(WELL, ahead_s=-5.1), "clock", FindingSeverity.WARNING, ""),
    ],
    ids=["silent", "denied", "elsewhere", "version", "no-clock", "ahead", "behind"],
)
def test_a_remote_cell_is_judged_by_its_answer_version_and_clock(
    cell: ClusterFacts, item: str, state: FindingSeverity, right: str
) -> None:
    """No qmaster is started while another port answers."""
    (finding,) = judged(replace(a_host(), cells={"beta": cell}))

    assert (finding.item, finding.state) == (f"beta: {item}", state)
    assert right in finding.right
    assert not (cell.other_port and finding.mend)


OAR = ClusterFacts(version="OAR 2.5.9", ahead_s=0.4, master="frontend", slots=4)


@pytest.mark.parametrize(
    ("trouble", "state"),
    [("", FindingSeverity.OK), ("ssh: far does not let the key of alice in", FindingSeverity.WARNING)],
    ids=["let in", "refused"],
)
def test_an_ssh_key_is_judged_by_a_login_to_the_account(trouble: str, state: FindingSeverity) -> None:
    key = SshKeyLoginFacts(cluster="beta", person="alice", account="al_beta", trouble=trouble)
    found = about("beta: key of alice", replace(a_host(), keys=(key,)))

    assert (found.state, trouble in found.found) == (state, True)
    assert "al_beta" in found.found + found.right
    assert not re.search(r"docs/\S+\.md", found.hint)  # an installed site has no checkout
    assert ("come home when refused" in found.hint) == bool(trouble)


@pytest.mark.parametrize(
    ("place", "state"), [("", FindingSeverity.OK), ("far", FindingSeverity.WARNING)], ids=["there", "missing"]
)
def test_a_cluster_without_rsync_is_a_warning(place: str, state: FindingSeverity) -> None:
    found = about("beta: rsync", replace(a_host(), without_rsync={"beta": place}))

    assert (found.state, f"missing on {place}" == found.found) == (state, bool(place))


@pytest.mark.parametrize("wrong", ["", "no such folder"], ids=["safe", "missing"])
def test_an_unsafe_or_missing_stage_dir_is_broken(wrong: str) -> None:
    stage = StageDirFacts(place="/scratch", host="far", wrong=wrong, mend="mkdir /scratch")
    found = about("beta: stage_dir", replace(a_host(), stages={"beta": stage}))

    assert (found.state, found.where) == ((FindingSeverity.BROKEN, "far") if wrong else (FindingSeverity.OK, ""))
    assert [edit.value for edit in found.mend] == (["mkdir /scratch"] if wrong else [])


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (OAR, {}),
        (replace(OAR, trouble="DBI connect failed"), {"beta: OAR server": FindingSeverity.BROKEN}),
        (replace(OAR, version="OAR 3.0"), {"beta: version": FindingSeverity.WARNING}),
        (replace(OAR, ahead_s=-9.0), {"beta: clock": FindingSeverity.WARNING}),
    ],
    ids=["well", "silent", "version", "behind"],
)
def test_an_oar_server_is_judged_by_its_answer_version_and_clock(
    server: ClusterFacts, expected: dict[str, FindingSeverity]
) -> None:
    clusters = {**POLICY.clusters, "beta": ClusterSection(kind=ClusterKind.OAR)}
    seen = replace(a_host(), cells={"beta": server})
    found = running_site_findings(seen, replace(POLICY, clusters=clusters))

    wrong = {each.item: each.state for each in found if each.state != FindingSeverity.OK}
    assert wrong == expected


@pytest.mark.parametrize(
    ("letters", "states"),
    [
        ("", []),
        ("a", []),
        ("d", [FindingSeverity.WARNING]),
        ("E", [FindingSeverity.BROKEN]),
        ("dE", [FindingSeverity.BROKEN, FindingSeverity.WARNING]),
        ("au", [FindingSeverity.BROKEN]),
    ],
)
def test_a_queue_in_a_disabled_or_error_state_is_reported(letters: str, states: list[FindingSeverity]) -> None:
    found = judged(replace(a_host(), queues={"transfer-beta@tee": queue_state(letters)}))

    assert [each.state for each in found] == states


def test_a_site_without_transfer_queues_gets_the_setup_command() -> None:
    (found,) = no_transfer_queue_findings(replace(POLICY, queues={}))

    assert found.mend[0].value == "gridbridge setup transfer beta --apply"


@pytest.mark.parametrize(
    ("clusters", "why"),
    [({"alpha": ClusterSection(kind=ClusterKind.OAR)}, "alpha is of kind oar"), ({}, "there is no [cluster.alpha]")],
)
def test_a_site_without_a_grid_engine_home_is_ok_without_queues(clusters: dict[str, ClusterSection], why: str) -> None:
    (found,) = no_transfer_queue_findings(Policy(site=SiteSection(cluster="alpha"), clusters=clusters, queues={}))

    assert found.state == FindingSeverity.OK
    assert found.found == f"none: a transfer queue needs a Grid Engine home, and {why}"


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], FindingSeverity.OK),
        (["ok", "warning"], FindingSeverity.WARNING),
        (["broken", "warning"], FindingSeverity.BROKEN),
    ],
)
def test_the_worst_finding_decides_the_overall_state(states: list[str], expected: FindingSeverity) -> None:
    found = tuple(CheckFinding(item="x", state=FindingSeverity(state), found="") for state in states)

    assert worst_finding_state(found) == expected


def test_an_embedded_cluster_is_judged_by_its_answer_alone() -> None:
    clusters = {"gamma": ClusterSection(kind=ClusterKind.EMBEDDED, folder="/gamma")}
    seen = replace(a_host(), cells={"gamma": ClusterFacts(slots=4, master="/gamma")})
    found = running_site_findings(seen, replace(POLICY, clusters=POLICY.clusters | clusters))

    assert [each.found for each in found if each.item.startswith("gamma")] == ["answers, 4 slots"]


@pytest.mark.parametrize("is_root", [True, False])
def test_a_refused_login_is_broken_for_root_and_a_warning_for_users(is_root: bool) -> None:
    shut = ClusterFacts(trouble="ssh: delta does not let the key of bob in", is_shut=True)
    facts = replace(a_host(), is_root=is_root, cells={"alpha": WELL, "beta": shut})

    (found,) = judged(facts)
    wanted = (
        (FindingSeverity.BROKEN, shut.trouble) if is_root else (FindingSeverity.WARNING, "not visible to this user")
    )
    assert (found.state, found.found) == wanted


def a_queue(starter: str = "NONE", remote: str = "FALSE") -> dict[str, str]:
    return {"starter_method": starter, "complex_values": f"remote={remote}"}


@pytest.mark.parametrize(
    ("queue", "what"),
    [
        (a_queue(f"{METHODS}/starter", "TRUE"), "runs gridbridge's starter"),
        (a_queue(f"{METHODS}/starter"), "runs gridbridge's starter"),
        (a_queue(remote="TRUE"), "offers remote=TRUE"),
    ],
    ids=["whole", "without its resource", "without its starter"],
)
def test_a_transfer_queue_without_a_section_is_broken(queue: dict[str, str], what: str) -> None:
    queues = {"all.q": a_queue(), "transfer-beta": queue, "transfer-gamma": queue}
    (found,) = unconfigured_queue_findings(queues, POLICY)

    why = f"{what} and has no [queue.transfer-gamma]: its jobs wait or fail"
    assert (found.item, found.state, found.found) == ("queue transfer-gamma", FindingSeverity.BROKEN, why)
    assert "setup transfer CLUSTER --queue transfer-gamma --apply" in found.hint
    assert "qconf -dq transfer-gamma" in found.hint


@pytest.mark.parametrize(
    ("uid", "paths", "expected"),
    [
        (0, (), []),
        (0, ("/s",), ["remove /s with its content"]),
        (9, ("/s",), ["end the processes of gb", "remove /s with its content", "remove account gb"]),
    ],
    ids=["nothing left", "interrupted", "all"],
)
def test_an_account_is_removed_last(uid: int, paths: tuple[str, ...], expected: list[str]) -> None:
    """A mount point stays."""
    edits = list(account_removal_edits("gb", uid, paths))

    assert [edit.name for edit in edits] == expected
    assert all("if mountpoint -q /s; then" in edit.value for edit in edits if "/s" in edit.name)
