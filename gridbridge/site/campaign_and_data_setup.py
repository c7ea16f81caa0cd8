"""Sets up, checks and removes what the campaign service and datasets need on the transfer host."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.decisions.site import account_and_file_findings, campaign_and_data_findings
from gridbridge.errors import ConfigError, GridbridgeError, StateError
from gridbridge.model.fixed_paths import (
    CAMPAIGN_CRON,
    CAMPAIGN_PROGRAMS,
    CONFIG,
    DATASET_CRON,
    FORMER,
    HOME,
    LEDGER,
    ORDERED,
    SENSOR_LOG,
    SPOOL,
    SUDOERS,
    UNIT_FOLDER,
    USAGE_LOG,
)
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity, SetupEdit, SetupEditVerb
from gridbridge.model.site.site_check_facts import PathFacts, ServiceStartFacts
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import local_host_facts
from gridbridge.shell.local_host_facts import read_text_or_empty
from gridbridge.site import storage_provider_and_runner_checks, transfer_queue_setup
from gridbridge.site.transfer_queue_setup import SetupStep, setup_steps_of_edits, setup_steps_of_findings

UNIT_FOLDERS = (UNIT_FOLDER, "/usr/lib/systemd/system", "/lib/systemd/system")
SYSTEMD = "/run/systemd/system"
POLLER = ("gridbridge-poller",)
OF_SERVICE = (SPOOL, HOME, LEDGER, SENSOR_LOG, USAGE_LOG, FORMER, ORDERED)  # all that the service leaves
STAT = 'stat -L -c "%u %a %F %U" -- "$1" 2>/dev/null || echo missing'


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFolder:
    storage: str
    path: str
    host: str  # empty: this host
    facts: PathFacts | None
    is_empty: bool


def plan_host_removal(policy: Policy) -> tuple[SetupStep, ...]:
    """Return the steps that remove the service; raise GridbridgeError while a capability still needs it."""
    for name, queue in policy.queues.items():
        raise GridbridgeError(f"queue {name}: first run gridbridge setup transfer {queue.cluster} --remove --apply")
    if plan_campaign_removal(policy):
        raise GridbridgeError("campaign service: first run gridbridge setup campaigns --remove --apply")
    if os.path.exists(DATASET_CRON):
        raise GridbridgeError(f"{DATASET_CRON}: first run gridbridge setup data --remove --apply")
    with suppress(OSError, StateError):
        if unfinished := storage_provider_and_runner_checks.count_unfinished_campaigns():
            raise GridbridgeError(f"{number_with_noun(unfinished, 'campaign')} unfinished; first cancel by griddel")
    account = policy.site.service_account
    return setup_steps_of_edits(
        policy,
        (
            *campaign_and_data_findings.unit_removal_edits(_service_start_facts(policy, "", POLLER)),
            *([SetupEdit(verb=SetupEditVerb.REMOVE_FILE, name=SUDOERS)] if os.path.exists(SUDOERS) else ()),
            *account_and_file_findings.account_removal_edits(
                account, local_host_facts.uid_of_account(account), filter(_is_left, OF_SERVICE)
            ),
        ),
    )


def _is_left(path: str) -> bool:
    """Say whether a path exists, other than an empty mount point."""
    return os.path.lexists(path) and not (os.path.ismount(path) and not os.listdir(path))


def plan_campaign_setup(policy: Policy) -> tuple[SetupStep, ...]:
    """Return the steps that make the service's account and folders, and start the campaign service's programs."""
    host = transfer_queue_setup.plan_host_setup(policy)
    findings = campaign_and_data_findings.campaign_program_findings(_service_start_facts(policy, CAMPAIGN_CRON))
    return (*host, *setup_steps_of_findings(policy, findings))


def plan_campaign_removal(policy: Policy) -> tuple[SetupStep, ...]:
    facts = _service_start_facts(policy, CAMPAIGN_CRON)
    return setup_steps_of_edits(policy, campaign_and_data_findings.campaign_program_removal_edits(facts))


def check_campaign_setup(policy: Policy) -> Iterator[CheckFinding]:
    """Check how the campaign service starts, if a file of its set-up exists; other sites start it by hand."""
    facts = _service_start_facts(policy, CAMPAIGN_CRON)
    if facts.has_cron_file or {*facts.own_or_enabled_units} & {*CAMPAIGN_PROGRAMS}:
        yield from campaign_and_data_findings.campaign_program_findings(facts)


def plan_data_setup(policy: Policy) -> tuple[SetupStep, ...]:
    """Return the steps that make the storage areas' folders on this host, and start the rounds for datasets."""
    if not policy.storage:
        raise ConfigError((f"{CONFIG}: no [storage.NAME]; expected a section for each storage area",))
    host = transfer_queue_setup.plan_host_setup(policy)
    rounds = campaign_and_data_findings.dataset_round_finding(_service_start_facts(policy, DATASET_CRON))
    folders = (finding for finding in _storage_folder_findings(policy) if not finding.where)
    return (*host, *setup_steps_of_findings(policy, (*folders, rounds)))


def storage_folder_warnings(policy: Policy) -> tuple[str, ...]:
    """Return what an administrator has to do about storage areas, on their hosts."""
    wrong = (finding for finding in _storage_folder_findings(policy) if finding.state is not FindingSeverity.OK)
    return tuple(
        f"{finding.item}: {finding.found}; on {finding.where}: {'; '.join(edit.value for edit in finding.mend)}"
        if finding.mend
        else f"{finding.item}: {finding.found}; {finding.hint}"
        for finding in wrong
        if finding.where or not finding.mend
    )


def plan_data_removal(policy: Policy) -> tuple[SetupStep, ...]:
    """Return the steps that remove the rounds, and the empty folders of storage areas on this host."""
    facts = _service_start_facts(policy, DATASET_CRON)
    edits = [*campaign_and_data_findings.dataset_round_removal_edits(facts)]
    empty = (folder.path for folder in _storage_folders(policy) if not folder.host and folder.facts and folder.is_empty)
    edits += [SetupEdit.shell_command_edit(f"rmdir {path}") for path in empty]
    return setup_steps_of_edits(policy, edits)


def unremoved_folder_warnings(policy: Policy) -> tuple[str, ...]:
    full = (folder for folder in _storage_folders(policy) if folder.facts and (folder.host or not folder.is_empty))
    return tuple(
        f"storage {folder.storage}: {folder.path} stays: "
        + (f"it is on {folder.host}" if folder.host else "it has files; gridbridge data drain moves the replicas")
        for folder in full
    )


def check_data_setup(policy: Policy) -> Iterator[CheckFinding]:
    """Check the folders of storage areas, and the rounds for datasets if a file of cron exists."""
    yield from _storage_folder_findings(policy)
    facts = _service_start_facts(policy, DATASET_CRON)
    if facts.has_cron_file:
        yield campaign_and_data_findings.dataset_round_finding(facts)


def _storage_folder_findings(policy: Policy) -> Iterator[CheckFinding]:
    for folder in _storage_folders(policy):
        yield campaign_and_data_findings.storage_folder_finding(folder.storage, folder.path, folder.facts, folder.host)


def _storage_folders(policy: Policy) -> Iterator[StorageFolder]:
    """Yield the folders of storage areas at clusters that answer; one folder that several clusters see once."""
    seen: set[tuple[str, str]] = set()
    for name, storage in policy.storage.items():
        for cluster, path in storage.paths_by_cluster.items():
            access = configured_cluster_access(policy, cluster)
            host = access.login.host if access.login else ""
            if (host, path) in seen:
                continue
            seen.add((host, path))
            try:
                shown = storage_provider_and_runner_checks.run_shell_script_at_cluster(access, STAT, path)
            except GridbridgeError:
                continue  # other findings report a cluster that does not answer
            entries = storage_provider_and_runner_checks.list_storage_area(access, path)
            yield StorageFolder(
                storage=name, path=path, host=host, facts=_parse_path_facts(shown), is_empty=entries == []
            )


def _parse_path_facts(shown: str) -> PathFacts | None:
    owner, _, rest = shown.strip().partition(" ")
    if owner == "missing":
        return None
    mode, _, rest = rest.partition(" ")
    kind, _, owner_name = rest.rpartition(" ")
    return PathFacts(owner=int(owner), owner_name=owner_name, mode=int(mode, 8), is_folder=kind == "directory")


def _service_start_facts(policy: Policy, cron_path: str, names: tuple[str, ...] = ()) -> ServiceStartFacts:
    names = names or campaign_and_data_findings.wanted_units(not policy.why_no_transfer_queues)
    paths = {name: [f"{folder}/{name}.service" for folder in UNIT_FOLDERS] for name in names}
    existing = {name: path for name in names if (path := next(filter(os.path.exists, paths[name]), ""))}
    wants = f"{UNIT_FOLDER}/multi-user.target.wants"
    shipped = campaign_and_data_findings.UNITS_SHIPPED
    return ServiceStartFacts(
        account=policy.site.service_account,
        cron=read_text_or_empty(cron_path),
        has_cron_file=os.path.exists(cron_path),
        has_systemd=os.path.isdir(SYSTEMD),
        has_transfer_queues=not policy.why_no_transfer_queues,
        units=existing,
        enabled=frozenset(name for name in existing if os.path.lexists(f"{wants}/{name}.service")),
        shipped_units={name: read_text_or_empty(f"{shipped}/{name}.service") for name in names},
    )
