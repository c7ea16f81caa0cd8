"""gridbridge check: collects facts about the whole site, and prints faults with the correcting commands."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace

import click

from gridbridge.batch.configured_cluster_access_and_routes import log_in_to_ssh_clusters
from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE
from gridbridge.config import configuration_file
from gridbridge.decisions.site import (
    account_and_file_findings,
    check_report_lines,
    running_site_findings,
    service_fault_findings,
    transfer_queue_findings,
    transfer_queue_setup_findings,
)
from gridbridge.decisions.site.sge_configuration_findings import unreported_load_value_findings
from gridbridge.decisions.transfer import transfer_status_explanation
from gridbridge.decisions.transfer.transfer_queue_closing import are_load_values_fresh
from gridbridge.errors import CommandFailed, ConfigError, FileWritableByOthers, GridbridgeError, describe_error
from gridbridge.model.fixed_paths import CONFIG, PUBLISHED
from gridbridge.model.job_and_queue_states import QueueInstanceState
from gridbridge.model.published_status_and_reports import replace_control_characters
from gridbridge.model.qconf_attribute_parser import QconfSettings, parse_qconf_words
from gridbridge.model.site.check_report import CheckReport, CheckReportItem
from gridbridge.model.site.setup_findings_and_edits import (
    CheckFinding,
    CheckSubject,
    FindingSeverity,
    SetupEdit,
    TransferSetupSituation,
    findings_about,
)
from gridbridge.model.site.site_check_facts import ClusterFacts, PollerProcessFacts, StageDirFacts
from gridbridge.model.site_configuration import Policy
from gridbridge.program import status_and_why_reports
from gridbridge.program.configuration_in_force import sha256_of_file
from gridbridge.program.service_disk_space import free_space_of_starter_tmpdirs
from gridbridge.shell import local_host_facts
from gridbridge.shell.clock import Clock
from gridbridge.site import (
    admission_rule_load_check,
    balancer_setup,
    besteffort_setup,
    campaign_and_data_setup,
    setup_edits,
    site_inspection,
    storage_provider_and_runner_checks,
    transfer_queue_setup,
)
from gridbridge.site.site_inspection import (
    embedded_home_queue_slots,
    find_ssh_hosts_without_rsync,
    free_space_of_state_folders,
    inspect_local_host,
    inspect_poller,
    inspect_ssh_stage_dirs,
    is_writable_by_others,
    query_cell_version_and_clock,
    transfer_queue_states,
    try_user_logins_at_clusters,
)
from gridbridge.site.transfer_queue_request import TransferQueueOptions, complete_queue_request
from gridbridge.site.transfer_queue_setup import (
    HomeTransferQueueSettings,
    read_home_queue_setup,
    read_remote_side_of_transfer_queue_setup,
)
from gridbridge.state import published_json

AT_ONCE = 12
INIT = "gridbridge init"
NO_ROOT = CheckFinding.warning_finding(
    "user", "not root", hint="run the check as root: other users can't see every file, nor correct faults"
)


def check_site(clock: Clock, path: str = CONFIG) -> CheckReport:
    """Check a site; if the configuration is invalid or the service rejects it, report only this."""
    sha256 = "" if path == CONFIG else None
    try:
        raw = configuration_file.read_configuration_bytes(path)
        sha256 = sha256_of_file(raw) if path == CONFIG else None
        policy = configuration_file.parse_configuration(path, raw)
    except ConfigError as error:
        poller = inspect_poller(sha256, clock.now_s())
        stale = service_fault_findings.stale_configuration_findings(poller, is_right=False)
        wrong = findings_about(CheckSubject.CONFIGURATION, (*_configuration_error_findings(error), *stale))
        return _check_report_of_findings(tuple(wrong), None)
    if service_fault_findings.is_new_configuration_refused(poller := inspect_poller(sha256, clock.now_s())):
        uid = local_host_facts.uid_of_account(policy.site.service_account)
        account = (
            () if policy.is_single_user_site else (account_and_file_findings.service_account_finding(uid, policy.site),)
        )
        stale = service_fault_findings.stale_configuration_findings(poller)
        return _check_report_of_findings((*findings_about(CheckSubject.CONFIGURATION, stale), *account), policy)
    log_in_to_ssh_clusters(policy)
    return _check_report_of_findings(tuple(collect_check_findings(policy, sha256, clock)), policy)


def collect_check_findings(policy: Policy, sha256: str | None, clock: Clock) -> Iterator[CheckFinding]:
    """Yield the findings of all checks, those about this host first; `sha256` is the digest of gridbridge.toml."""
    with site_inspection.cache_program_results():  # cached, because several queues need the same queries
        yield from (_check_embedded_site if policy.is_single_user_site else _check_non_embedded_site)(
            policy, sha256, clock
        )


def _check_non_embedded_site(policy: Policy, sha256: str | None, clock: Clock) -> Iterator[CheckFinding]:
    if os.geteuid() != 0:
        yield NO_ROOT
    with ThreadPoolExecutor(AT_ONCE) as threads:  # more threads than cores, because the threads mostly wait
        home = threads.submit(read_home_queue_setup, policy, local_host_facts.this_host_name())
        cell_futures = {
            name: threads.submit(query_cell_version_and_clock, name, policy, clock) for name in policy.clusters
        }
        keys = threads.submit(try_user_logins_at_clusters, policy)
        situations = {
            queue: threads.submit(_read_transfer_queue_setup_situation, policy, queue, home) for queue in policy.queues
        }
        besteffort = besteffort_setup.check_grid_engine_besteffort_queues
        best = {name: threads.submit(_collect_findings, besteffort, policy, name) for name in policy.clusters}
        states = threads.submit(_transfer_queue_states, policy, cell_futures)
        files = threads.submit(_check_rsync_and_folders_at_clusters, policy)
        own = threads.submit(_collect_findings, balancer_setup.check_balancer, policy, clock)
        rules = admission_rule_load_check.check_admission_rules_load
        admitting = threads.submit(_collect_findings, rules, policy.site.service_account)
        facts = inspect_local_host(policy)
    cells = {name: cell.result() for name, cell in cell_futures.items()}
    yield from account_and_file_findings.program_file_findings(facts)
    yield from account_and_file_findings.transfer_host_findings(facts, policy.site)
    yield account_and_file_findings.state_file_privacy_finding(facts, policy.site)
    yield from service_fault_findings.disk_space_findings(facts.room)
    facts = replace(facts, cells=cells, poller=inspect_poller(sha256, clock.now_s()))
    without_rsync, stages, names = files.result()
    facts = replace(facts, keys=keys.result(), without_rsync=without_rsync, stages=stages, queues=states.result())
    yield from findings_about(CheckSubject.QUEUES, running_site_findings.no_transfer_queue_findings(policy))
    yield from findings_about(CheckSubject.SERVICE, _check_published_transfers(policy))
    yield from running_site_findings.running_site_findings(facts, policy)
    queues: Mapping[str, QconfSettings] = {}
    with suppress(GridbridgeError):
        queues = home.result().setup.queues
    unconfigured = transfer_queue_findings.unconfigured_queue_findings(queues, policy)
    order = transfer_queue_setup.check_queue_order(policy, queues)
    yield from findings_about(CheckSubject.QUEUES, (*unconfigured, *order))
    answering = (name for name, cell in cells.items() if not cell.trouble)
    besteffort_findings = (finding for name in answering for finding in best[name].result())
    yield from findings_about(CheckSubject.CAMPAIGNS, (*besteffort_findings, *admitting.result()))
    yield from findings_about(CheckSubject.ELASTIC, own.result())
    yield from _check_campaigns_and_rebalancing(policy, clock, names)
    yield from findings_about(CheckSubject.QUEUES, _check_queue_tmpdirs(queues, policy))
    if policy.queues:
        slots = transfer_queue_findings.total_transfer_slots(policy)
        limit = transfer_queue_findings.user_spool_limit_finding(policy, slots)
        yield replace(limit, subject=CheckSubject.CONFIGURATION)
    poller = facts.poller if _has_poller_fresh_load_values(facts.poller, policy) else None
    for queue, situation in situations.items():
        yield from findings_about(CheckSubject.QUEUES, _check_transfer_queue(queue, situation, poller))


def _has_poller_fresh_load_values(poller: PollerProcessFacts, policy: Policy) -> bool:
    return poller.age_s is not None and are_load_values_fresh(poller.age_s, policy.poller.stale_s)


def _check_rsync_and_folders_at_clusters(
    policy: Policy,
) -> tuple[dict[str, str], dict[str, StageDirFacts], tuple[CheckFinding, ...]]:
    """Check files at one cluster after the other, because parallel sessions would need more logins."""
    without_rsync, stages = find_ssh_hosts_without_rsync(policy), inspect_ssh_stage_dirs(policy)
    areas = (
        *campaign_and_data_setup.check_data_setup(policy),
        *storage_provider_and_runner_checks.check_storage_area_owners(policy),
    )
    return without_rsync, stages, areas


def _check_campaign_service(policy: Policy, clock: Clock) -> Iterator[CheckFinding]:
    yield from storage_provider_and_runner_checks.check_runner_activity(clock)
    yield from storage_provider_and_runner_checks.check_master_records(policy)
    yield from storage_provider_and_runner_checks.check_programs_of_campaigns(policy)
    yield from campaign_and_data_setup.check_campaign_setup(policy)


def _check_campaigns_and_rebalancing(
    policy: Policy, clock: Clock, areas: Iterable[CheckFinding]
) -> Iterator[CheckFinding]:
    yield from findings_about(CheckSubject.CAMPAIGNS, _check_campaign_service(policy, clock))
    rounds = status_and_why_reports.rebalance_round_findings(clock.now())
    yield from findings_about(CheckSubject.REBALANCE, (*rounds, *areas))
    version = storage_provider_and_runner_checks.check_running_versions()
    yield replace(version, subject=CheckSubject.SERVICE)


def _check_published_transfers(policy: Policy, folder: str = PUBLISHED) -> Iterator[CheckFinding]:
    """Check published transfers; an unreadable file becomes a finding and hides no other finding."""
    try:
        transfers = published_json.read_published_transfers(folder)
    except (GridbridgeError, OSError) as error:
        hint = "gridbridge-poller publishes the file again when a transfer changes, or at its start"
        yield CheckFinding.fault_finding("published", describe_error(error), hint=hint)
        return
    yield from transfer_status_explanation.unconfigured_cluster_findings(transfers, policy.clusters)


def _collect_findings(check: Callable[..., Iterable[CheckFinding]], *arguments: object) -> tuple[CheckFinding, ...]:
    return tuple(check(*arguments))


def _transfer_queue_states(
    policy: Policy, cells: Mapping[str, Future[ClusterFacts]]
) -> Mapping[str, QueueInstanceState]:
    if policy.why_no_transfer_queues or cells[policy.site.cluster].result().trouble:
        return {}
    return transfer_queue_states(policy)


def _check_queue_tmpdirs(queues: Mapping[str, QconfSettings], policy: Policy) -> Iterator[CheckFinding]:
    written = frozenset(filter(is_writable_by_others, transfer_queue_findings.queues_by_tmpdir(queues)))
    yield from transfer_queue_findings.writable_tmpdir_findings(policy.site.cluster, queues, written)
    ours = {name: queue for name, queue in queues.items() if name in policy.queues}
    rooms = free_space_of_starter_tmpdirs(transfer_queue_findings.queues_by_tmpdir(ours))
    yield from service_fault_findings.disk_space_findings(rooms)


def _check_embedded_site(policy: Policy, sha256: str | None, clock: Clock) -> Iterator[CheckFinding]:
    names = tuple(policy.clusters)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        facts = threads.map(lambda name: query_cell_version_and_clock(name, policy, clock), names)
    cells, home = dict(zip(names, facts, strict=True)), policy.site.cluster
    slots = {} if cells[home].trouble else embedded_home_queue_slots(policy)
    yield from findings_about(CheckSubject.QUEUES, running_site_findings.no_transfer_queue_findings(policy))
    yield from service_fault_findings.disk_space_findings(free_space_of_state_folders())
    yield from running_site_findings.embedded_site_findings(inspect_poller(sha256, clock.now_s()), cells, slots, policy)
    yield from findings_about(CheckSubject.CAMPAIGNS, admission_rule_load_check.check_admission_rules_load(""))
    areas = storage_provider_and_runner_checks.check_storage_area_owners(policy)
    yield from _check_campaigns_and_rebalancing(policy, clock, areas)


def _check_transfer_queue(
    queue: str, future: Future[TransferSetupSituation], poller: PollerProcessFacts | None
) -> Iterator[CheckFinding]:
    try:
        situation = future.result()
        yield from transfer_queue_setup_findings.transfer_setup_findings(situation)
        yield from unreported_load_value_findings(situation, poller) if poller else ()
    except GridbridgeError as error:
        unchecked = storage_provider_and_runner_checks.unchecked_part_finding(
            f"queue {queue}", error, FindingSeverity.BROKEN, "first make sure that the qmasters answer"
        )
        yield replace(unchecked, is_unanswered=isinstance(error, CommandFailed))


def _read_transfer_queue_setup_situation(
    policy: Policy, queue: str, home: Future[HomeTransferQueueSettings]
) -> TransferSetupSituation:
    options = TransferQueueOptions(cluster=policy.queues[queue].cluster, queue=queue)
    request = complete_queue_request(policy, options)
    situation = read_remote_side_of_transfer_queue_setup(policy, request, home.result())
    hosts = parse_qconf_words(situation.home.queues.get(queue, {}).get("hostlist", ""))
    if len(hosts) == 1 and not hosts[0].startswith("@") and hosts[0] != request.host:
        home_there = read_home_queue_setup(policy, hosts[0])
        return read_remote_side_of_transfer_queue_setup(policy, replace(request, host=hosts[0]), home_there)
    return situation


def _configuration_error_findings(error: ConfigError) -> Iterator[CheckFinding]:
    if isinstance(error, FileWritableByOthers):
        yield account_and_file_findings.non_root_writable_file_finding(error.path, error.wrong, error.mend)
        return
    for problem in error.problems:
        path, _, wrong = problem.partition(": ")
        if os.path.lexists(path):
            yield CheckFinding.fault_finding(f"file {path}", wrong, hint="edit the file")
        else:  # the error message itself has advice
            mend = (SetupEdit.shell_command_edit(INIT),) if path == CONFIG else ()
            yield CheckFinding.fault_finding(f"file {path}", wrong, "", *mend)


def _check_report_of_findings(findings: tuple[CheckFinding, ...], policy: Policy | None) -> CheckReport:
    """Return the report without control characters, because users may have chosen a finding's text."""
    return CheckReport(
        items=tuple(
            CheckReportItem(
                name=replace_control_characters(finding.item),
                state=finding.state,
                found=replace_control_characters(finding.found),
                right=replace_control_characters(finding.right),
                commands=tuple(
                    setup_edits.edit_as_standalone_shell_line(edit, policy)
                    if policy
                    else setup_edits.setup_edit_command(edit)
                    for edit in (() if finding.state == FindingSeverity.OK else finding.mend)
                ),
                where=finding.where,
                hint=replace_control_characters(finding.hint),
                subject=finding.subject,
                is_unanswered=finding.is_unanswered,
            )
            for finding in findings
        ),
        worst=running_site_findings.worst_finding_state(findings),
    )


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print all items as JSON.")
@click.option("--all", "is_all", is_flag=True, help="Show items without faults as well.")
@click.option("-q", "--quiet", "is_quiet", is_flag=True, help="Print one line a fault, and nothing on a good site.")
@CONFIG_FILE
def check(is_json: bool, is_all: bool, is_quiet: bool, path: str) -> None:
    """Check the site, and print the commands that correct its faults.

    The command checks rights, files, clusters and the poller. Run the command as root on the transfer host; for other
    users warnings list what was not visible. Faults are grouped by subject, the worst first; below each fault stands
    the command that corrects it, to be pasted. A site without faults is two lines. With --config the site is checked by
    another configuration than the programs use: check a change before you install the change.

    Exit status, also for monitoring: 0 no fault; 1 warnings; 2 a broken part; 75 the only broken parts are clusters
    that gave no answer.

    \b
    Example:
      gridbridge check
      gridbridge check --quiet
    """
    report = check_site(Clock(), path)
    if is_json:
        output_and_errors.print_json(asdict(report))
    elif is_quiet:
        _print_lines(check_report_lines.quiet_check_report_lines(report))
    elif [item.commands for item in report.items] == [(INIT,)]:
        output_and_errors.print_line(f"{report.worst.value}: {path} is missing: on the transfer host run `{INIT}`")
    else:
        _print_lines(check_report_lines.check_report_lines(report, is_all))
    raise SystemExit(report.exit_status)


def _print_lines(lines: Iterable[str]) -> None:
    """Print lines; at a terminal the state at the start of a line has its colour."""
    for line in lines:
        state, blank, rest = line.partition(" ")
        style = output_and_errors.STYLES.get(state.rstrip(":"), "").split()
        if style and output_and_errors.is_stdout_terminal():
            line = f"{click.style(state, fg=style[-1], bold='bold' in style)}{blank}{rest}"
        output_and_errors.print_line(line)
