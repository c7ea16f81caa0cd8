"""Makes the reports of `gridbridge status` and `gridbridge why` from the files that the service publishes."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.config import configuration_file
from gridbridge.decisions.site import service_fault_findings
from gridbridge.decisions.transfer import transfer_status_explanation
from gridbridge.decisions.transfer.transfer_status_explanation import (
    describe_cluster_drain,
    explain_transfer_attempt,
    explain_transfer_wait,
)
from gridbridge.errors import ConfigError, GridbridgeError
from gridbridge.model.fixed_paths import CAMPAIGNS, CONFIG, PUBLISHED
from gridbridge.model.jobs_and_accounting import JobRunAccounting
from gridbridge.model.published_status_and_reports import (
    LocalTaskExplanation,
    PublishedFilesSnapshot,
    PublishedTaskTransfers,
    PublishedTransferHistory,
    SiteStatusReport,
    TransferAndAwaitedEvent,
    number_with_noun,
    replace_control_characters,
)
from gridbridge.model.rebalance.published_rebalance_rounds import PublishedRebalanceRound, RebalanceRoundKind
from gridbridge.model.site.setup_findings_and_edits import CheckFinding
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer_name import parse_local_job_and_task, parse_transfer_name
from gridbridge.program import configuration_in_force
from gridbridge.program.service_disk_space import free_space_of_campaign_filesystem
from gridbridge.shell import local_host_facts
from gridbridge.state import published_json

MOST_TASKS = 100  # at most this many tasks of an array are explained at once


class JobWithoutTransfers(GridbridgeError):
    """Raised when no transfer of a job is known."""


def build_site_status_report(
    now: datetime, folder: str = PUBLISHED, path: str = CONFIG, campaigns: str = CAMPAIGNS
) -> SiteStatusReport:
    return report_on_published_files(published_json.read_all_published_files(folder), now, folder, path, campaigns)


def report_on_published_files(
    shown: PublishedFilesSnapshot,
    now: datetime,
    folder: str = PUBLISHED,
    path: str = CONFIG,
    campaigns: str = CAMPAIGNS,
) -> SiteStatusReport:
    routes = shown.service.routes if shown.service else ()
    return SiteStatusReport(
        alarm=_warning_about_whole_site(shown, now, folder, path, campaigns),
        clusters=tuple(
            replace(
                transfer_status_explanation.report_cluster_reachability(cluster, now),
                closed_by=transfer_status_explanation.why_cluster_gets_nothing(cluster.cluster, shown, now),
            )
            for cluster in shown.clusters.values()
        ),
        queues=tuple(transfer_status_explanation.report_transfer_queue_status(route, shown, now) for route in routes),
        transfers=tuple(
            TransferAndAwaitedEvent(
                job=parse_transfer_name(transfer.transfer).local_job_or_task_id,
                transfer=transfer,
                waits_for=explain_transfer_wait(transfer, shown, now),
            )
            for transfer in shown.transfers
        ),
        drained=tuple(
            f"{name}: {describe_cluster_drain(name, shown, now)}; no campaign sends tasks to this cluster"
            for name in shown.drained
            if name not in {route.cluster for route in routes}
        ),
        late=overdue_rebalance_sentences(now, folder),
    )


def explain_transfers_of_local_job(
    job: str, now: datetime, folder: str = PUBLISHED, path: str = CONFIG
) -> tuple[str, tuple[LocalTaskExplanation, ...]]:
    """Return a site warning and up to 100 tasks' explanations; raise ParseError or JobWithoutTransfers."""
    number, _ = parse_local_job_and_task(job)
    shown = published_json.read_all_published_files(folder)
    all_tasks = tasks_with_verified_owner(
        published_json.read_transfer_histories_of_job(folder, job), partial(job_owners_in_home_accounting, number, path)
    )
    tasks = all_tasks[:MOST_TASKS]
    more = len(all_tasks) - len(tasks)
    are = number_with_noun(more, f"more task of job {job} is", f"more tasks of job {job} are")
    left_out = f"{are} not shown: name a task, {job}.TASK" if more else ""
    warning = _warning_about_whole_site(shown, now, folder, path, CAMPAIGNS)
    alarm = "; ".join(part for part in (warning, left_out) if part)
    if not tasks:
        raise JobWithoutTransfers(
            "; ".join(part for part in (_job_without_transfers_sentence(job, shown, now), alarm) if part)
        )
    return alarm, tuple(
        LocalTaskExplanation(
            job=task.job,
            attempts=tuple(
                explain_transfer_attempt(_history_with_newest_state(history, shown), shown, now)
                for history in task.attempts
            ),
            left_out=task.left_out,
        )
        for task in tasks
    )


def _warning_about_whole_site(
    published_files: PublishedFilesSnapshot, now: datetime, folder: str, path: str, campaigns: str
) -> str:
    parts = [transfer_status_explanation.poller_silence_alarm(published_files, now)]
    if parts[0]:
        room = local_host_facts.free_bytes_and_files_of_folder(folder)
        parts += [service_fault_findings.full_folder_reason(folder, room), _refused_configuration_reason(path)]
    else:
        parts.append(
            transfer_status_explanation.full_folder_warning(published_files)
            or transfer_status_explanation.refused_configuration_warning(published_files)
        )
    parts.append(service_fault_findings.first_full_folder_reason(free_space_of_campaign_filesystem(campaigns)))
    return "; ".join(filter(None, parts))


def _refused_configuration_reason(path: str) -> str:
    if not os.path.exists(path):
        return ""
    try:
        configuration_file.load_configuration(path)
    except ConfigError as error:
        problems = tuple(map(replace_control_characters, error.problems))
        first = transfer_status_explanation.summarize_config_problems(problems)
        return f"the present gridbridge.toml is refused: {first}"
    return ""


def tasks_with_verified_owner(
    tasks: Sequence[PublishedTaskTransfers], owners: Callable[[], frozenset[str]]
) -> tuple[PublishedTaskTransfers, ...]:
    """Return the tasks whose owner is proved; all tasks if home's accounting has no records of the job."""
    if all(task.is_proved for task in tasks):
        return tuple(tasks)
    home_owners = owners()
    return tuple(
        task
        for task in tasks
        if task.is_proved or not home_owners or {attempt.transfer.owner for attempt in task.attempts[-1:]} & home_owners
    )


def job_owners_in_home_accounting(job: int, path: str) -> frozenset[str]:
    try:
        records = home_accounting_records(configuration_in_force.load_config_or_one_in_force(path)[0], job)
    except GridbridgeError:
        return frozenset()
    return frozenset(record.owner for record in records)


def home_accounting_records(policy: Policy, job: int | str) -> tuple[JobRunAccounting, ...]:
    """Return home's records of a job, or of jobs with a name; empty if the cluster keeps no accounting."""
    home = configured_cluster_access(policy, policy.site.cluster)
    accounts = batch_adapter_of_cluster(home).accounts
    return accounts.query_accounting_records(home, job) if accounts else ()


def _history_with_newest_state(
    history: PublishedTransferHistory, published_files: PublishedFilesSnapshot
) -> PublishedTransferHistory:
    """Return a history with the newest state of its transfer, because a stored history changes only at new events."""
    transfer = history.transfer
    key = transfer.transfer, transfer.owner
    same = (
        listed
        for listed in published_files.transfers
        if (listed.transfer, listed.owner) == key and not transfer.closed_at
    )
    return replace(history, transfer=next(same, transfer))


def _job_without_transfers_sentence(job: str, published_files: PublishedFilesSnapshot, now: datetime) -> str:
    keep = f" in the last {published_files.service.keep_closed_h:g} h" if published_files.service else ""
    sentence = f"job {job}: no transfer{keep}"
    routes = published_files.service.routes if published_files.service else ()
    judged = (transfer_status_explanation.report_transfer_queue_status(route, published_files, now) for route in routes)
    closed = (f"{queue.queue} takes no jobs: {queue.why}" for queue in judged if not queue.is_open)
    asks = f"qstat -j {job} shows a waiting job, qacct -j {job} an ended job"
    return "; ".join((f"{sentence} ({asks})", *closed))


def rebalance_round_findings(at: datetime, folder: str = PUBLISHED) -> Iterator[CheckFinding]:
    """Yield findings about rounds of rebalancing that did not end, and about paused rebalancing."""
    yield from service_fault_findings.rebalance_round_findings(_published_rebalance_rounds(folder), at)
    if since := _rebalance_paused_since(folder):
        yield service_fault_findings.paused_rebalance_finding(since, at)


def overdue_rebalance_sentences(at: datetime, folder: str = PUBLISHED) -> tuple[str, ...]:
    """Return sentences about overdue rounds of rebalancing, and about paused rebalancing."""
    since = _rebalance_paused_since(folder)
    quiesced = (service_fault_findings.paused_rebalance_sentence(since, at),) if since else ()
    return (*service_fault_findings.late_rebalance_sentences(_published_rebalance_rounds(folder), at), *quiesced)


def _rebalance_paused_since(folder: str) -> datetime | None:
    with suppress(OSError, GridbridgeError):
        return published_json.rebalance_paused_since(folder)
    return None


def _published_rebalance_rounds(folder: str) -> dict[RebalanceRoundKind, PublishedRebalanceRound]:
    rounds = {}
    for kind in RebalanceRoundKind:
        with suppress(OSError, GridbridgeError):
            if last := published_json.read_published_rebalance_round(kind, folder):
                rounds[kind] = last
    return rounds
