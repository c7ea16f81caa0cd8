"""Collect what qacct_remote shows: a job's local accounting records, its transfers and its remote usage."""

import os
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from gridbridge.batch.batch_adapter_table import ADAPTERS
from gridbridge.decisions.transfer import transfer_status_explanation
from gridbridge.decisions.transfer.remote_accounting_verdicts import prefer_accounted_usage
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.fixed_paths import CONFIG, PUBLISHED
from gridbridge.model.jobs_and_accounting import AccountingFilePosition, JobRunAccounting, RemoteJobRunAccounting
from gridbridge.model.published_status_and_reports import PublishedFilesSnapshot, PublishedTransfer, format_duration
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer_name import PREFIX, TransferAttemptId, parse_local_job_and_task, parse_transfer_name
from gridbridge.program import configuration_in_force, status_and_why_reports
from gridbridge.shell import appended_file_lines, safe_files
from gridbridge.state import published_json
from gridbridge.transfer import remote_usage_and_cursor_rows
from gridbridge.transfer.cli.remote_tool_arguments import UsageChoice
from gridbridge.transfer.poller.remote_usage_records import remote_job_usage_records

ANYBODY = "*"
MOST_NAMED_JOBS = 50


class NoAccountedJob(GridbridgeError):
    """The job has no transfer and no accounting record, neither at home nor at a remote cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeAndRemoteAccounting:
    """The accounting records of a local job or task, at home and at remote clusters, earliest end first."""

    job: str  # local id, such as 12, or 12.3 for a task of an array
    cluster: str
    local: tuple[JobRunAccounting, ...] = ()
    transfers: tuple[PublishedTransfer, ...] = ()
    remote: tuple[RemoteJobRunAccounting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteUsageAtCluster:
    owner: str
    cluster: str
    jobs: int
    wallclock_s: float | None  # sum of the known run times; None if all run times are unknown
    user_s: float | None
    system_s: float | None
    max_rss_kb: float  # largest memory use of a single remote job
    queue: str = ""  # remote queue of the jobs; empty: all queues together


def read_accounting_of_named_jobs(
    name: str, now: datetime, folder: str = PUBLISHED, path: str = CONFIG
) -> tuple[tuple[HomeAndRemoteAccounting, ...], tuple[str, ...]]:
    """Return the accounting of the newest transferred jobs whose name matches a pattern; raise NoAccountedJob."""
    policy, _ = configuration_in_force.load_config_or_one_in_force(path)
    jobs = {record.job_id for record in status_and_why_reports.home_accounting_records(policy, name)}
    for transfer in published_json.read_all_published_files(folder).transfers:
        if fnmatchcase(transfer.name, name):
            jobs.add(parse_transfer_name(transfer.transfer).job)
    tasks, notes = list[HomeAndRemoteAccounting](), dict[str, None]()
    for job in sorted(jobs)[-MOST_NAMED_JOBS:]:
        with suppress(NoAccountedJob):  # the job ran at home
            found, told = read_home_remote_accounting(str(job), now, folder, path)
            tasks += found
            notes |= dict.fromkeys(told)
    if not tasks:
        raise NoAccountedJob(f"job name {name!r}: no transfer is known")
    cut = len(jobs) - MOST_NAMED_JOBS
    left_out = (f"only the newest {MOST_NAMED_JOBS} of {len(jobs)} jobs with this name",) if cut > 0 else ()
    return tuple(tasks), (*left_out, *notes)


def read_home_remote_accounting(
    job: str, now: datetime, folder: str = PUBLISHED, path: str = CONFIG
) -> tuple[tuple[HomeAndRemoteAccounting, ...], tuple[str, ...]]:
    """Return each task's accounting at home and at remote clusters, and notes about missing values.

    Raises ParseError for an invalid id, NoAccountedJob, ConfigError, and CommandFailed if home does not answer.
    """
    number, task = parse_local_job_and_task(job)
    policy, _ = configuration_in_force.load_config_or_one_in_force(path)
    shown = published_json.read_all_published_files(folder)
    records = status_and_why_reports.home_accounting_records(policy, number)
    kept_records = {
        usage.job: usage.records for usage in remote_usage_and_cursor_rows.read_published_job_usage(folder, number)
    }
    accounted = frozenset(record.owner for record in records)
    transfers = {
        published.job: tuple(history.transfer for history in published.attempts)
        for published in status_and_why_reports.tasks_with_verified_owner(
            published_json.read_transfer_histories_of_job(folder, job), lambda: accounted
        )
    }
    notes: list[str] = []
    if not kept_records:
        owners = accounted | {transfer.owner for of_task in transfers.values() for transfer in of_task}
        kept_records, searched = _search_remote_accounting_files(
            policy, number, owners or {safe_files.account_name_or_uid(os.getuid())}
        )
        notes += () if transfers else searched  # a known transfer makes the notes of the search superfluous
    locals_: dict[str, tuple[JobRunAccounting, ...]] = {}
    for record in records:
        name = TransferAttemptId("", record.job_id, record.task, 0).local_job_or_task_id
        locals_[name] = (*locals_.get(name, ()), record)
    names = (name for name in {*kept_records, *transfers} if task in (0, parse_local_job_and_task(name)[1]))
    chosen = sorted(names, key=parse_local_job_and_task)
    if not chosen:
        is_local = f"job {job}: no transfer is known; qacct -j shows the local usage"
        raise NoAccountedJob(is_local if locals_ else f"job {job}: no accounting record, at home or away")
    tasks = tuple(
        _join_task_accounting(
            name, policy.site.cluster, locals_.get(name, ()), transfers.get(name, ()), kept_records.get(name, ()), notes
        )
        for name in chosen
    )
    concerned = {transfer.remote for task in tasks for transfer in task.transfers}
    concerned |= {record.cluster for task in tasks for record in task.remote}
    gaps = _describe_accounting_gaps(concerned & policy.clusters.keys(), folder, now)
    return tasks, (*_silent_poller_alarm(shown, now), *dict.fromkeys(notes), *gaps)


def sum_remote_usage(
    owner: str,
    days: float | None,
    now: datetime,
    folder: str = PUBLISHED,
    path: str = CONFIG,
    choice: UsageChoice = UsageChoice(),  # noqa: B008  # frozen
) -> tuple[tuple[RemoteUsageAtCluster, ...], tuple[str, ...]]:
    """Sum the usage of an owner's (`*`: everybody's) chosen jobs by owner, cluster and, with a queue, by queue.

    Only jobs that ended in the last `days` days count; None: all jobs.
    """
    policy, _ = configuration_in_force.load_config_or_one_in_force(path)
    shown = published_json.read_all_published_files(folder)
    since = None if days is None else now - timedelta(days=days)
    sums: dict[tuple[str, str, str], list[RemoteJobRunAccounting]] = {}
    for usage in remote_usage_and_cursor_rows.read_usage_published_since(folder, since):
        for record in prefer_accounted_usage(usage.records):
            is_recent = since is None or (record.ended_at is not None and record.ended_at >= since)
            if owner in (record.owner, ANYBODY) and is_recent and choice.contains(record):
                queue = "" if choice.queue is None else record.queue
                sums.setdefault((record.owner, record.cluster, queue), []).append(record)
    rows = tuple(_sum_owner_cluster_usage(*keys, of) for keys, of in sorted(sums.items()))
    return rows, (
        *_silent_poller_alarm(shown, now),
        *_describe_accounting_gaps(policy.remote_cluster_names, folder, now),
    )


def _sum_owner_cluster_usage(
    owner: str, cluster: str, queue: str, records: list[RemoteJobRunAccounting]
) -> RemoteUsageAtCluster:
    return RemoteUsageAtCluster(
        queue=queue,
        owner=owner,
        cluster=cluster,
        jobs=len({record.job_id for record in records}),
        wallclock_s=_sum_of_known_amounts(record.wallclock_s for record in records),
        user_s=_sum_of_known_amounts(record.user_s for record in records),
        system_s=_sum_of_known_amounts(record.system_s for record in records),
        max_rss_kb=max(record.max_rss_kb or 0.0 for record in records),
    )


def _sum_of_known_amounts(amounts: Iterable[float | None]) -> float | None:
    values = [amount for amount in amounts if amount is not None]
    return sum(values) if values else None


def _join_task_accounting(
    job: str,
    cluster: str,
    local: tuple[JobRunAccounting, ...],
    transfers: tuple[PublishedTransfer, ...],
    remote: tuple[RemoteJobRunAccounting, ...],
    notes: list[str],
) -> HomeAndRemoteAccounting:
    """Join a task's local and remote records; leave out records of other owners, with a note."""
    owners = {record.owner for record in local} or {transfer.owner for transfer in transfers}
    theirs = tuple(record for record in remote if not owners or record.owner in owners)
    if len(theirs) < len(remote):
        notes.append(f"job {job}: other owners' records left out: {len(remote) - len(theirs)}")
    if not local and all(transfer.closed_at for transfer in transfers):
        notes.append(f"job {job}: no local accounting record (yet)")
    remote = prefer_accounted_usage(theirs)
    return HomeAndRemoteAccounting(job=job, cluster=cluster, local=local, transfers=transfers, remote=remote)


def _search_remote_accounting_files(
    policy: Policy, job: int, owners: Container[str]
) -> tuple[dict[str, tuple[RemoteJobRunAccounting, ...]], list[str]]:
    """Search the remote accounting files for records of a local job that belong to accounts in `owners`."""
    records: dict[str, tuple[RemoteJobRunAccounting, ...]] = {}
    searched: list[str] = []
    for name, cluster in policy.clusters.items():
        if cluster.accounting and name != policy.site.cluster:
            once = {record.mark: record for record in _read_job_records_in_file(policy, name, job, owners)}
            for record in once.values():  # a rotated file may repeat records, so each record counts once
                local = parse_transfer_name(record.transfer).local_job_or_task_id
                records[local] = (*records.get(local, ()), record)
                searched = [f"found in {cluster.accounting}; the service does not know the job"]
    return records, searched


def _read_job_records_in_file(
    policy: Policy, name: str, job: int, owners: Container[str]
) -> Iterator[RemoteJobRunAccounting]:
    cluster, position = policy.clusters[name], AccountingFilePosition()
    accounts = ADAPTERS[cluster.kind].accounts
    while accounts:
        try:
            step = appended_file_lines.read_appended_lines(cluster.accounting, position, 0.0)
        except StateError:
            return  # the caller may not read the accounting file
        lines, _ = accounts.parse_records_by_account_prefix(step.lines, f"{PREFIX}.{policy.site.cluster}.{job}.")
        yield from (record for record in remote_job_usage_records(lines, name, cluster) if record.owner in owners)
        if not step.is_more:
            return
        position = step.place


def _silent_poller_alarm(published_files: PublishedFilesSnapshot, now: datetime) -> tuple[str, ...]:
    alarm = transfer_status_explanation.poller_silence_alarm(published_files, now)
    return (alarm,) if alarm else ()


def _describe_accounting_gaps(clusters: Iterable[str], folder: str, now: datetime) -> Iterator[str]:
    readings = {
        reading.cluster: reading for reading in remote_usage_and_cursor_rows.read_accounting_file_states(folder)
    }
    for cluster in sorted(clusters):
        reading = readings.get(cluster)
        if reading is None:
            yield (
                f"{cluster}'s accounting is not readable here ([cluster.{cluster}] accounting):"
                " only end messages are shown"
            )
        elif reading.trouble:
            last = f"{format_duration(now - reading.read_at)} ago" if reading.read_at else "never"
            yield f"{cluster}'s accounting was last read {last}: {reading.trouble}"
        elif reading.is_behind:
            yield f"{cluster}'s accounting is not read to the end yet"
