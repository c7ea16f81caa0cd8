"""Checks what `setup campaigns` and `setup data` make: units or lines of cron, and folders of storage areas."""

import shlex
from collections.abc import Iterator
from dataclasses import replace

from gridbridge.decisions.site.account_and_file_findings import OTHERS_WRITE, setup_edit_writing_root_file
from gridbridge.model.fixed_paths import CAMPAIGN_CRON, CAMPAIGN_PROGRAMS, DATASET_CRON, HOME, UNIT_FOLDER
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, SetupEdit, SetupEditVerb
from gridbridge.model.site.site_check_facts import PathFacts, ServiceStartFacts

HOOKS = "/opt/gridbridge/oar-hooks"
UNITS_SHIPPED = "/opt/gridbridge/conf/systemd"
ROUND_OF_DATASETS = "/opt/gridbridge/bin/gridbridge rebalance data"
STICKY = 0o1000
AREA_MODE = "1777"


def campaign_program_findings(facts: ServiceStartFacts) -> Iterator[CheckFinding]:
    """Check that systemd, or else cron, starts the programs of the campaign service."""
    lacking = [name for name in CAMPAIGN_PROGRAMS if not _has_cron_line(_hook_of_program(name), facts.cron)]
    if facts.has_systemd and lacking:
        yield from (_unit_finding(name, facts) for name in wanted_units(facts.has_transfer_queues))
        return
    lines = (_campaign_cron_line(name, facts.account) for name in lacking)
    yield _cron_finding(CAMPAIGN_CRON, facts.cron, lines, "a cycle of each program each minute")


def dataset_round_finding(facts: ServiceStartFacts) -> CheckFinding:
    """Check that cron starts the rounds that maintain the replicas of datasets."""
    line = f"*/15 * * * * {facts.account} {ROUND_OF_DATASETS} --apply >>{HOME}/datasets.log 2>&1"
    lacking = () if _has_cron_line(ROUND_OF_DATASETS, facts.cron) else (line,)
    return _cron_finding(DATASET_CRON, facts.cron, iter(lacking), "a round each 15 minutes")


def campaign_program_removal_edits(facts: ServiceStartFacts) -> Iterator[SetupEdit]:
    yield from unit_removal_edits(facts)
    yield from _cron_removal_edits(CAMPAIGN_CRON, facts)


def unit_removal_edits(facts: ServiceStartFacts) -> Iterator[SetupEdit]:
    """Yield the edits that stop units, and remove units that no package has installed."""
    for name in facts.own_or_enabled_units:
        unit = f"{name}.service"
        yield SetupEdit(verb=SetupEditVerb.SHELL, name=f"stop {unit}", value=f"systemctl disable --now {unit}")
        if facts.units[name].startswith(UNIT_FOLDER):
            yield SetupEdit(verb=SetupEditVerb.REMOVE_FILE, name=facts.units[name])


def dataset_round_removal_edits(facts: ServiceStartFacts) -> Iterator[SetupEdit]:
    yield from _cron_removal_edits(DATASET_CRON, facts)


def storage_folder_finding(storage: str, path: str, facts: PathFacts | None, where: str) -> CheckFinding:
    """Check a storage area's folder; `where` is its host, empty for this host.

    Users make their own folders in the area, or an administrator makes them. The folder above must exist: an area on
    a filesystem that is not mounted is not made below its mount point.
    """
    item, right, quoted = f"storage {storage}: folder {path}", f"a folder, mode {AREA_MODE}", shlex.quote(path)
    if facts is None:
        make = SetupEdit.shell_command_edit(f"mkdir {quoted} && chmod {AREA_MODE} {quoted}")
        hint = "first mount the filesystem of the area"
        return CheckFinding.warning_finding(item, "missing", right, make, where=where, hint=hint)
    if not facts.is_folder:
        return CheckFinding.warning_finding(item, "not a folder", right, where=where, hint="correct the area's path")
    is_right = bool(facts.mode & STICKY) or not facts.mode & OTHERS_WRITE
    mend = SetupEdit.shell_command_edit(f"chmod +t {quoted}")
    found = facts.owner_and_mode_text
    finding = CheckFinding.finding_by_condition(is_right, item, found, "sticky", mend, is_warning=True)
    return replace(finding, where=where)


def _hook_of_program(name: str) -> str:
    return f"{HOOKS}/{name.removeprefix('gridbridge-')}"


def _campaign_cron_line(name: str, account: str) -> str:
    log = f"{HOME}/{name.removeprefix('gridbridge-')}.log"
    return f"* * * * * {account} {_hook_of_program(name)} >>{log} 2>&1"


def _has_cron_line(command: str, cron: str) -> bool:
    return any(command in line for line in cron.splitlines() if not line.lstrip().startswith("#"))


def _cron_finding(path: str, cron: str, lacking: Iterator[str], right: str) -> CheckFinding:
    missing = tuple(lacking)
    mend = setup_edit_writing_root_file(path, (*cron.splitlines(), *missing), 0o644)
    found = "without a line of gridbridge" if cron else "missing"
    return CheckFinding.finding_by_condition(not missing, f"file {path}", found if missing else "there", right, mend)


def _cron_removal_edits(path: str, facts: ServiceStartFacts) -> Iterator[SetupEdit]:
    if facts.has_cron_file:
        yield SetupEdit(verb=SetupEditVerb.REMOVE_FILE, name=path)


def _unit_finding(name: str, facts: ServiceStartFacts) -> CheckFinding:
    unit, path = f"{name}.service", facts.units.get(name, "")
    start = f"systemctl daemon-reload && systemctl enable --now {unit}"
    edits = (
        *(() if path else (_unit_file_edit(name, facts),)),
        SetupEdit(verb=SetupEditVerb.SHELL, name=f"start {unit}, now and at boot", value=start),
    )
    found = "started at boot" if name in facts.enabled else "not started at boot" if path else "missing"
    return CheckFinding.finding_by_condition(
        name in facts.enabled, f"unit {unit}", found, "started at boot, and now", *edits
    )


def _unit_file_edit(name: str, facts: ServiceStartFacts) -> SetupEdit:
    """Return the edit that copies a shipped unit, with the site's service account."""
    path, source = f"{UNIT_FOLDER}/{name}.service", f"{UNITS_SHIPPED}/{name}.service"
    account = facts.account
    if account == "gridbridge":
        return SetupEdit(verb=SetupEditVerb.COPY_FILE, name=path, attribute="0644", value=source)
    text = facts.shipped_units[name].replace("\nUser=gridbridge\n", f"\nUser={account}\n")
    return setup_edit_writing_root_file(path, text.splitlines(), 0o644)


def wanted_units(has_transfer_queues: bool) -> tuple[str, ...]:
    """Return the units of the campaign service; without transfer queues no load sensor starts the poller."""
    return CAMPAIGN_PROGRAMS if has_transfer_queues else ("gridbridge-poller", *CAMPAIGN_PROGRAMS)
