"""Checks storage areas, provider lists, versions and the runner for `gridbridge check`.

A separate program under the balancer's account asks the providers, because this account owns the credentials.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress

from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.campaigns.store import (
    campaign_files_of_owners,
    campaign_inbox,
    leading_master_record,
    published_campaign_files,
)
from gridbridge.decisions.site import account_and_file_findings, service_fault_findings
from gridbridge.errors import CommandFailed, GridbridgeError, SshAccessRejected
from gridbridge.model import fixed_paths
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_master_lease import MasterProgram
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaignList
from gridbridge.model.campaigns.send_reasons import PublishedTaskSendExplanations
from gridbridge.model.rebalance.rebalance_section import StorageAreaKind
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity
from gridbridge.model.site.site_section import POSTGRESQL
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer_route import BARE, AnyClusterAccessSettings
from gridbridge.shell import local_host_facts, program_lock_file, safe_files, ssh
from gridbridge.shell.clock import Clock
from gridbridge.shell.hung_poller_kill import find_poller_lock_holder
from gridbridge.shell.program_runs import run_program
from gridbridge.shell.program_startup import setpriv_command_prefix, version_with_commit

LIMIT_S = 20.0
MOST = 20_000  # limit of checked names in a storage area, because users can add any number
LIST = """[ -d "$1/" ] && [ -r "$1/" ] || exit 1
find "$1/" -mindepth 1 -maxdepth 1 -printf '%u %y %f\\0' 2>/dev/null | head -zn "$2" """
ACCOUNTS = "xargs -d '\\n' getent passwd -- | cut -d: -f1"  # xargs, because one command line may not hold all names
LIST_LIMIT_S = 30.0
LIST_PROGRAM = ("-I", "-m", "gridbridge.elastic.balancer.machine_list_queries")
PROVIDER_LISTS_ITEM = "lists of providers"
LOCKS = {
    service_fault_findings.POLLER: fixed_paths.LOCK,
    "gridbridge-runner": fixed_paths.RUNNER_LOCK,
    "gridbridge-nikita": fixed_paths.NIKITA_LOCK,
    "gridbridge-balance": fixed_paths.BALANCE_LOCK,
    "gridbridge-metrics": fixed_paths.METRICS_LOCK,
}


def unchecked_part_finding(
    item: str, error: GridbridgeError, state: FindingSeverity = FindingSeverity.WARNING, hint: str = ""
) -> CheckFinding:
    """Return the finding about an unchecked part; a rejected login of an ordinary user is a warning."""
    if isinstance(error, SshAccessRejected) and os.geteuid() != 0:
        return CheckFinding.warning_finding(item, account_and_file_findings.UNSEEN)
    return CheckFinding(item=item, state=state, found=f"not checked: {error}", hint=hint)


def check_storage_area_owners(policy: Policy) -> Iterator[CheckFinding]:
    """Check the owners of accounts' folders in storage areas that root or the service can list.

    The clusters of a shared area must list the same folders.
    """
    for name, storage in policy.storage.items():
        if storage.kind is StorageAreaKind.COMMAND:
            hint = f"no replica in {name} is made or read"
            yield _check_program(f"storage {name}: program", storage.program, hint)
            continue
        accesses = {at: configured_cluster_access(policy, at) for at in storage.paths_by_cluster}
        first, path = next(iter(storage.paths_by_cluster.items()))
        login = accesses[first].login
        machine = login.host if login else local_host_facts.this_host_name()
        listings = {at: list_storage_area(accesses[at], path) for at, path in storage.paths_by_cluster.items()}
        listing = listings[first]
        owners = _misowned_storage_folders(accesses[first], listing[:MOST]) if listing is not None else None
        most = MOST if listing and len(listing) > MOST else 0
        yield from account_and_file_findings.storage_area_owner_findings(name, path, machine, owners, most)
        yield from account_and_file_findings.shared_storage_area_findings(name, storage.paths_by_cluster, listings)


def check_programs_of_campaigns(policy: Policy) -> Iterator[CheckFinding]:
    """Check the programs whose numbers limit the tasks of campaigns."""
    for name, storage in policy.storage.items():
        if storage.load_command:
            hint = f"fewer and fewer tasks, and then none, are sent to {', '.join(storage.paths_by_cluster)}"
            yield _check_program(f"storage {name}: load_command", storage.load_command, hint)
    for name, section in policy.campaigns.items():
        if section.stress_script:
            hint = f"no task is sent to {name}"
            yield _check_program(f"campaigns {name}: stress_script", section.stress_script, hint)


def _check_program(item: str, program: str, hint: str) -> CheckFinding:
    try:
        safe_files.require_trusted_path(program, owner=os.geteuid())
        trouble = "" if os.access(program, os.X_OK) else f"{program}: not executable"
    except OSError as error:
        trouble = f"{program}: {error.strerror}"
    except GridbridgeError as error:
        trouble = str(error)
    right = "an executable program that root alone can write"
    return CheckFinding.finding_by_condition(not trouble, item, trouble or program, right, hint=hint)


def list_storage_area(cluster: AnyClusterAccessSettings, path: str) -> list[str] | None:
    """Return the first MOST + 1 entries of an area; None without an answer or a readable folder."""
    try:
        return run_shell_script_at_cluster(cluster, LIST, path, str(MOST + 1)).split("\0")[:-1]
    except GridbridgeError:
        return None  # other findings report a cluster that does not answer


def _misowned_storage_folders(cluster: AnyClusterAccessSettings, entries: list[str]) -> dict[str, str] | None:
    """Return wrong owners by folder name, or None without an answer."""
    strange = account_and_file_findings.account_folders_with_wrong_owner(entries)
    text = "".join(f"{name}\n" for name in strange).encode()
    try:
        accounts = run_shell_script_at_cluster(cluster, ACCOUNTS, text=text).splitlines() if strange else []
    except GridbridgeError:
        return None
    return {name: strange[name] for name in accounts if name in strange}


def run_shell_script_at_cluster(cluster: AnyClusterAccessSettings, script: str, *words: str, text: bytes = b"") -> str:
    argv = ("/bin/sh", "-c", script, "sh", *words)
    answer = ssh.run_over_ssh(cluster.login, argv, dict(BARE), LIMIT_S, text).require_success()
    return answer.stdout.decode("utf-8", "replace")


def check_provider_lists(policy: Policy, path: str = fixed_paths.CONFIG) -> Iterator[CheckFinding]:
    """Check for each pool whether the provider can list its machines; one program asks all providers."""
    pools = [name for name, pool in policy.pools.items() if pool.provider]
    if not pools:
        return
    if os.geteuid() not in (0, local_host_facts.uid_of_account(fixed_paths.BALANCE_ACCOUNT)):
        yield CheckFinding.weakness_finding(PROVIDER_LISTS_ITEM, "not checked: run the check as root")
        return
    try:
        troubles = _query_errors_of_provider_machine_lists(path)
    except CommandFailed as error:
        yield CheckFinding.warning_finding(PROVIDER_LISTS_ITEM, f"not checked: {error.failure_in_words}")
        return
    for pool in pools:
        item = f"pool {pool}: provider's list"
        if pool not in troubles:  # the pool is in the checked file, but not in the programs' gridbridge.toml
            yield CheckFinding.weakness_finding(item, f"not checked: {fixed_paths.CONFIG} lacks the pool")
            continue
        trouble, hint = troubles[pool], "no node of the pool is added or removed"
        right = "a list of the provider's machines"
        yield CheckFinding.finding_by_condition(
            not trouble, item, trouble or "the provider gives a list", right, hint=hint
        )


def _query_errors_of_provider_machine_lists(path: str) -> Mapping[str, str]:
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": fixed_paths.BALANCE_HOME}
    argv = (*setpriv_command_prefix(fixed_paths.BALANCE_ACCOUNT), sys.executable, *LIST_PROGRAM, path)
    printed = run_program(argv, environment, LIST_LIMIT_S).require_success().stdout
    try:
        return dict(json.loads(printed.splitlines()[-1]))
    except (ValueError, IndexError) as error:
        raise CommandFailed(argv, 0, printed) from error


def check_running_versions() -> CheckFinding:
    """Check that running programs have the installed version."""
    running = {
        program: service_fault_findings.RunningProgramVersion(version=version, pid=find_poller_lock_holder(path))
        for program, path in LOCKS.items()
        if (version := program_lock_file.lock_file_holder_version(path)) is not None
    }
    return service_fault_findings.program_version_finding(running, version_with_commit())


def check_runner_activity(
    clock: Clock, folder: str = fixed_paths.PUBLISHED, brought: str = fixed_paths.CAMPAIGNS
) -> Iterator[CheckFinding]:
    """Check that a runner runs while campaigns or requests wait; paused campaigns need no runner."""
    with suppress(OSError, GridbridgeError):
        going_on = count_unfinished_campaigns(folder)
        cycle = published_campaign_files.read_published_campaign_value(PublishedTaskSendExplanations, folder)
        last = cycle.at if cycle else None
        yield from service_fault_findings.campaign_runner_cycle_findings(
            going_on, _count_files_awaiting_runner(brought), last, clock.now()
        )


def count_unfinished_campaigns(folder: str = fixed_paths.PUBLISHED) -> int:
    """Count the published campaigns that are neither paused nor ended."""
    shown = published_campaign_files.read_published_campaign_value(PublishedCampaignList, folder)
    return sum(campaign.state is CampaignState.IN_TREATMENT for campaign in shown.campaigns) if shown else 0


def check_master_records(
    policy: Policy, folders: tuple[str, ...] = (*fixed_paths.MARKED_FOLDERS, fixed_paths.LEDGER)
) -> Iterator[CheckFinding]:
    """Check, as root, that the folders of several masters are shared: each has the record of the same master."""
    if not policy.site.state.startswith(POSTGRESQL):
        return
    with suppress(OSError, GridbridgeError):
        for program in MasterProgram:
            masters = {folder: leading_master_record.read_master_record(folder, program)[:2] for folder in folders}
            if any(term for term, _ in masters.values()):
                yield service_fault_findings.shared_master_folders_finding(program, masters)


def _count_files_awaiting_runner(folder: str) -> int:
    with suppress(OSError, GridbridgeError):
        files = campaign_inbox.list_inbox_files_of_all_users(folder)
        return len(campaign_files_of_owners.list_unprocessed_inbox_files(files, folder))
    return 0
