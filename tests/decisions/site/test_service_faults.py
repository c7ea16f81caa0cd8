"""Findings about the running service: its code, its configuration and changes of it, and its folders."""

from dataclasses import replace

import pytest

from gridbridge.decisions.site.service_fault_findings import (
    CONFIGURATION_ITEM,
    OLDER_IN_FORCE,
    UNKNOWN,
    RunningProgramVersion,
    disk_space_findings,
    find_unreloadable_changes,
    first_full_folder_reason,
    full_folder_reason,
    is_config_reload_awaited,
    program_version_finding,
    stale_configuration_findings,
    stale_configuration_reason,
)
from gridbridge.model.config_key_descriptions import AccountByUser
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.model.site.site_check_facts import FolderFreeSpace, PollerProcessFacts, ServiceConfigurationFacts
from gridbridge.model.site.site_section import LogLevel, SiteSection
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, Policy
from gridbridge.model.transfer.transfer_config_sections import PollerSection, TransferQueueSection

OLD, NEW = "0.1.0+1111111111", "0.1.0+2222222222"


def running(version: str, pid: int = 0) -> RunningProgramVersion:
    return RunningProgramVersion(version=version, pid=pid)


def test_programs_with_old_code_are_broken_with_their_restart_command() -> None:
    told = program_version_finding(
        {
            "gridbridge-poller": running(NEW, 41),
            "gridbridge-runner": running(OLD, 42),
            "gridbridge-nikita": running("", 43),
        },
        NEW,
    )

    expected = f"gridbridge-runner runs {OLD}, gridbridge-nikita runs {UNKNOWN}"
    assert (told.state, told.found, told.right) == (FindingSeverity.BROKEN, expected, NEW)
    assert told.hint == (
        "systemctl restart gridbridge-runner gridbridge-nikita; without systemd `kill 42 43`, "
        "start each program as before"
    )


@pytest.mark.parametrize(
    ("pids", "without"),
    [
        ((41, 42), "`kill 41 42`, start each program as before, the load sensor starts the poller"),
        ((41, None), "`kill 41`, the load sensor starts the poller"),
        ((0, None), "end each program, the load sensor starts the poller"),
    ],
)
def test_a_poller_without_systemd_is_killed_by_its_pid(pids: tuple[int, int | None], without: str) -> None:
    programs = {
        program: running(OLD, pid)
        for program, pid in zip(("gridbridge-poller", "gridbridge-runner"), pids, strict=True)
        if pid is not None
    }

    assert program_version_finding(programs, NEW).hint.endswith(f"; without systemd {without}")


@pytest.mark.parametrize(("version", "installed"), [("0.1.0", NEW), (NEW, "0.1.0")])
def test_a_version_without_a_commit_is_compared_by_its_number(version: str, installed: str) -> None:
    """The commit may be unknown, as in a package built without git."""
    assert program_version_finding({"gridbridge-poller": running(version)}, installed).state == FindingSeverity.OK
    assert program_version_finding({"gridbridge-poller": running("0.0.9")}, installed).state == FindingSeverity.BROKEN


ALIVE = PollerProcessFacts(is_running=True, pid=5, age_s=2.0)
WHY = "; the service refuses the new file: F: one; F: two"


OLDER = ServiceConfigurationFacts(is_same=False)


@pytest.mark.parametrize(
    ("pid", "known", "is_right", "state", "found", "mend"),
    [
        (5, ServiceConfigurationFacts(is_same=True), True, FindingSeverity.OK, "in force", ()),
        (5, OLDER, True, FindingSeverity.WARNING, OLDER_IN_FORCE, ("kill -HUP 5",)),
        (0, OLDER, True, FindingSeverity.WARNING, OLDER_IN_FORCE, ()),
        (5, replace(OLDER, refused=("F: one", "F: two")), True, FindingSeverity.BROKEN, f"{OLDER_IN_FORCE}{WHY}", ()),
        (5, replace(OLDER, refused=("F: one",)), False, FindingSeverity.WARNING, OLDER_IN_FORCE, ()),
    ],
    ids=["present", "not yet in force", "without a pid", "refused", "check reports the mistakes itself"],
)
def test_a_configuration_not_in_force_is_reported_with_its_reasons_and_its_command(
    pid: int, known: ServiceConfigurationFacts, is_right: bool, state: FindingSeverity, found: str, mend: tuple[str]
) -> None:
    (one,) = stale_configuration_findings(replace(ALIVE, pid=pid, configuration=known), is_right=is_right)

    assert (one.item, one.state, one.found) == (CONFIGURATION_ITEM, state, found)
    assert tuple(edit.value for edit in one.mend) == mend


@pytest.mark.parametrize(
    ("known", "expected", "told"),
    [
        (None, False, ""),
        (ServiceConfigurationFacts(is_same=True), False, ""),
        (
            ServiceConfigurationFacts(is_same=False),
            True,
            f"{OLDER_IN_FORCE}; the service reads the file within seconds",
        ),
        (ServiceConfigurationFacts(is_same=False, refused=("FILE: wrong",)), False, f"{OLDER_IN_FORCE}; the service"),
    ],
    ids=["no service", "in force", "not yet", "refused"],
)
def test_a_reload_is_awaited_only_of_a_service_that_has_not_refused(
    known: ServiceConfigurationFacts | None, expected: bool, told: str
) -> None:
    poller = replace(ALIVE, configuration=known)

    assert (is_config_reload_awaited(poller), stale_configuration_reason(poller)[: len(told) or None]) == (
        expected,
        told,
    )


SPOOL = "/var/spool/gridbridge"
WIDE = FolderFreeSpace(free_bytes=5 << 20, free_files=9000)
SHORT = FolderFreeSpace(free_bytes=(1 << 20) - 1, trouble="No space left on device")


def test_user_made_folders_are_reported_by_owner() -> None:
    room = FolderFreeSpace(free_bytes=1 << 30, folders={"bob": 100_000, "al": 2, "cy": 2, "uid 9": 1})
    found = {one.item: (one.state, one.found) for one in disk_space_findings({SPOOL: room})}

    told = (FindingSeverity.WARNING, "100000 of bob, 2 of al, 2 of cy")
    assert found[f"folders in {SPOOL}"] == told


@pytest.mark.parametrize(
    ("room", "told"),
    [
        pytest.param(WIDE, "", id="wide"),
        pytest.param(FolderFreeSpace(free_bytes=1 << 20, free_files=256), "", id="just enough"),
        pytest.param(FolderFreeSpace(free_bytes=1 << 30), "", id="files are not counted"),
        pytest.param(SHORT, f"{SPOOL} is full: 1023 KiB are free, 1024 are needed", id="bytes"),
        pytest.param(replace(WIDE, free_files=255), f"{SPOOL} is full: 255 files are free, 256 are needed", id="files"),
        pytest.param(FolderFreeSpace(trouble="quota"), f"nothing can be written to {SPOOL}: quota", id="tried in vain"),
    ],
)
def test_a_folder_without_bytes_files_or_write_access_is_broken(room: FolderFreeSpace, told: str) -> None:
    [finding] = disk_space_findings({SPOOL: room})

    assert full_folder_reason(SPOOL, room) == first_full_folder_reason({"/wide": WIDE, SPOOL: room}) == told
    assert finding.item == f"room in {SPOOL}"
    assert (finding.state, finding.found) == (
        (FindingSeverity.BROKEN, told) if told else (FindingSeverity.OK, finding.found)
    )


@pytest.mark.parametrize(
    ("folder", "until"), [(SPOOL, "the queues are closed"), (f"{SPOOL}/campaigns", "no campaign can be submitted")]
)
def test_the_hint_of_a_full_folder_names_the_consequence(folder: str, until: str) -> None:
    [finding] = disk_space_findings({folder: FolderFreeSpace(free_bytes=0)})

    assert finding.hint == f"remove files from the folder's filesystem; {until} until then"


def test_free_space_is_shown_in_mib_and_files() -> None:
    [counted], [uncounted] = (
        disk_space_findings({"/a": WIDE}),
        disk_space_findings({"/a": FolderFreeSpace(free_bytes=3 << 20)}),
    )

    assert (counted.found, uncounted.found) == ("5 MiB, 9000 files", "3 MiB")


CLUSTER = ClusterSection(qmaster_port=1, execd_port=2)
SITE = SiteSection(cluster="alpha")
POLICY = Policy(
    site=SITE,
    clusters={"alpha": CLUSTER, "beta": CLUSTER},
    queues={"transfer-beta": TransferQueueSection(cluster="beta", pending_limit=1, slots=1)},
)
EMBEDDED = ClusterSection(kind=ClusterKind.EMBEDDED, folder="/alpha")


@pytest.mark.parametrize(
    "changes",
    [
        {"queues": {}},
        {"poller": PollerSection(interval_s=60, stale_s=200)},
        {"site": replace(SITE, log_level=LogLevel.DEBUG, min_uid=5)},
        {"clusters": {"alpha": replace(CLUSTER, qmaster_port=9), "gamma": CLUSTER}},
    ],
    ids=["queues", "poller", "log", "clusters"],
)
def test_all_but_what_a_site_is_may_change(changes: dict[str, object]) -> None:
    after = replace(POLICY, **changes)  # type: ignore[arg-type]  # of the table above

    assert find_unreloadable_changes(POLICY, after) == ()


@pytest.mark.parametrize(
    ("changes", "told", "used"),
    [
        ({"site": SiteSection(cluster="beta")}, '[site] cluster = "beta"', "alpha"),
        ({"site": replace(SITE, service_account="grid")}, '[site] service_account = "grid"', "gridbridge"),
        ({"site": replace(SITE, state="sqlite:////x")}, '[site] state = "sqlite:////x"', SITE.state),
        ({"clusters": {"alpha": EMBEDDED, "beta": EMBEDDED}}, '[cluster.alpha] kind = "embedded"', "gridengine"),
    ],
    ids=["name", "account", "state", "kind"],
)
def test_what_a_site_is_takes_a_new_service(changes: dict[str, object], told: str, used: str) -> None:
    after = replace(POLICY, **changes)  # type: ignore[arg-type]  # of the table above

    (problem,) = find_unreloadable_changes(POLICY, after, "FILE")

    anew = "restart the poller when no transfer is open"
    assert problem == f'FILE: {told}: the running service uses "{used}"; {anew}'


def by_ssh(**accounts: str) -> Policy:
    far = ClusterSection(qmaster_port=1, execd_port=2, ssh="far", users=AccountByUser(accounts))
    return replace(POLICY, clusters={"alpha": CLUSTER, "delta": far})


def test_the_account_of_who_has_a_job_away_stays() -> None:
    """A job can be found only under the account that submitted it."""
    before, after = by_ssh(alice="al", bob="bo"), by_ssh(alice="bo", bob="al", carol="ca")
    away = [("alice", "delta", "q"), ("alice", "delta", "r"), ("carol", "alpha", "q")]

    (problem,) = find_unreloadable_changes(before, after, "FILE", away)

    assert problem == (
        'FILE: [cluster.delta.users] alice = "bo": a job of alice runs at delta as "al";'
        ' restore "al" until no such job is left'
    )
    assert find_unreloadable_changes(before, after, "FILE", [("dave", "delta", "q"), ("bob", "gone", "q")]) == ()


def test_a_queue_leads_where_its_jobs_are() -> None:
    queue = TransferQueueSection(cluster="delta", pending_limit=1, slots=1)
    after = replace(POLICY, queues={"transfer-beta": queue})
    away = [("alice", "beta", "transfer-beta"), ("bob", "beta", "transfer-beta")]

    (problem,) = find_unreloadable_changes(POLICY, after, "FILE", away)

    assert problem == (
        'FILE: [queue.transfer-beta] cluster = "delta": jobs of this queue are at "beta";'
        ' restore "beta", and make another queue for "delta"'
    )
    assert find_unreloadable_changes(POLICY, after, "FILE", [("alice", "delta", "transfer-beta")]) == ()
    assert find_unreloadable_changes(POLICY, POLICY, "FILE", away) == ()
