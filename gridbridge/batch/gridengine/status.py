"""Queries a cell's snapshot, job ends, limits and resource names for the services.

An accounting record is no proof: 8.1.9 writes a request's line feeds unchanged, so any user can forge records.
"""

import logging
import re
import time
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from gridbridge.batch.gridengine import qconf_parser_and_edits, sge_command_line_builders
from gridbridge.batch.gridengine.accounting_record_parser import (
    job_end_of_accounting_record,
    parse_accounting_records,
    parse_array_task_records,
)
from gridbridge.batch.gridengine.accounting_record_parser import (
    parse_records_by_account_prefix as parse_records_by_account_prefix,
)
from gridbridge.batch.gridengine.job_submission_and_control import run_client
from gridbridge.batch.gridengine.qstat_xml_parser import parse_cluster_snapshot, parse_job_accounts_and_errors
from gridbridge.errors import CommandFailed, ConflictingRemoteJobEnds
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.jobs_and_accounting import (
    RESCHEDULED,
    ArrayEndQuery,
    ClusterArrayLimits,
    FutureDatedJobEnd,
    JobAccountAndErrors,
    JobEnd,
    JobRunAccounting,
    RemoteJobRunAccounting,
)
from gridbridge.model.names_offered_by_cluster import NO_RULE, NamesOfferedByCluster
from gridbridge.model.qconf_attribute_parser import QconfSettings, is_transfer_queue
from gridbridge.model.site.setup_findings_and_edits import QconfComplexRow
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from gridbridge.shell.program_runs import LIST_BYTES, CompletedProgram

ENVIRONMENT = re.compile(r"[^\s,=\[\]]+")  # name of a parallel environment or host in pe_list (queue_conf(5))
FLUSH_TIME = "00:00:15"  # default of accounting_flush_time
LIMITS = ("max_aj_tasks", "max_aj_instances", "max_u_jobs", "max_jobs")
NOT_REQUESTABLE = "NO"  # value in column `requestable` (complex(5)); YES and FORCED are requestable
STRINGS = ("STRING", "CSTRING", "RESTRING", "HOST")  # resource types whose requests may be expressions (complex(5))

Ends = dict[int, JobEnd | FutureDatedJobEnd | None]  # {index: how the task ended}; None: records contradict each other


def query_cluster_snapshot(
    cell: GridEngineCellAccessSettings,
    cluster: str,
    job_ids: Collection[int],
    transfer_queues: Container[str] = (),
    uncounted: Collection[int] = (),
) -> tuple[ClusterSnapshot, float]:
    """Return a snapshot, dated before the query, and the query's duration in seconds."""
    taken_at, began = datetime.now(UTC), time.monotonic()
    answer = run_client_in_utc(cell, sge_command_line_builders.show_cell_status_argv(cell)).require_success()
    took_s = time.monotonic() - began
    snapshot = parse_cluster_snapshot(
        answer.stdout,
        cluster=cluster,
        taken_at=taken_at,
        job_ids=job_ids,
        transfer_queues=transfer_queues,
        uncounted=uncounted,
        zone=UTC,
    )
    return snapshot, took_s


def query_job_end(cell: GridEngineCellAccessSettings, job_id: int, account: str) -> JobEnd | None:
    """Return how the job with this id and account string ended; None if unknown.

    Raises ConflictingRemoteJobEnds for contradicting records. The record of a whole parallel job comes after the
    records of its parts.
    """
    ours = [record for record in query_accounting_records(cell, job_id) if record.account == account]
    whole = ours[-1:] if all(record.pe not in ("", "NONE") for record in ours) else ours
    end, is_disputed = decide_job_end(whole, datetime.now(UTC))
    if is_disputed:
        raise ConflictingRemoteJobEnds(f"the accounting records of job {job_id} ({account}) contradict each other")
    return end


def query_array_ends(cell: GridEngineCellAccessSettings, arrays: Sequence[ArrayEndQuery]) -> dict[str, Ends]:
    """Return how array tasks ended: {array's account string: {task index: end}}.

    An end is None if the records contradict each other, because any record may be forged.
    """
    answer = _search_accounting_files(cell, arrays)
    if answer.status not in (NO_LINE, NOT_READ):
        answer.require_success()
    by_array = dict[str, list[JobRunAccounting]]()
    for record in parse_array_task_records(answer.stdout, arrays):
        by_array.setdefault(record.account, []).append(record)
    for array in arrays if answer.status == NOT_READ else ():
        of_job = query_accounting_records(cell, array.job_id)
        by_array.setdefault(array.account, []).extend(record for record in of_job if record.account == array.account)
    return {account: _job_ends_by_task(array_records) for account, array_records in by_array.items()}


def _job_ends_by_task(records: Iterable[JobRunAccounting]) -> Ends:
    now, by_task = datetime.now(UTC), dict[int, list[JobRunAccounting]]()
    for record in records:
        by_task.setdefault(record.task, []).append(record)
    ends = {task: decide_past_or_future_job_end(task_records, now) for task, task_records in by_task.items()}
    return {task: end for task, (end, is_disputed) in ends.items() if end or is_disputed}


def query_begun_indices(cell: GridEngineCellAccessSettings, arrays: Mapping[int, str]) -> dict[int, frozenset[int]]:
    """Return the indices of each array's running tasks; `qstat -j` shows no waiting tasks."""
    answer = run_client_in_utc(
        cell, sge_command_line_builders.show_job_detail_argv(cell, ",".join(map(str, arrays)))
    ).require_success()
    return {
        detail.job_id: frozenset(detail.begun)
        for detail in parse_job_accounts_and_errors(answer.stdout)
        if arrays.get(detail.job_id) == detail.account
    }


def query_array_limits(cell: GridEngineCellAccessSettings) -> ClusterArrayLimits:
    """Return the cell's limits on array jobs (sge_conf(5): max_aj_tasks, max_aj_instances)."""
    settings = query_qconf_object_settings(cell, "-sconf")
    limits = {name: int(settings.get(name, "")) for name in LIMITS if settings.get(name, "").isdigit()}
    of_array = (limits.get(name, 0) for name in ("max_aj_tasks", "max_aj_instances"))
    return ClusterArrayLimits(
        tasks=min(filter(None, of_array), default=0),
        of_person=limits.get("max_u_jobs", 0),
        of_all=limits.get("max_jobs", 0),
        told_within_s=_parse_accounting_flush_s(settings.get("reporting_params", "")),
    )


def _parse_accounting_flush_s(reporting: str) -> float:
    """Return the seconds between two writes of accounting records (sge_conf(5), accounting_flush_time)."""
    settings = dict(word.partition("=")[::2] for word in reporting.split())
    usual = settings.get("flush_time", FLUSH_TIME)
    hours, minutes, seconds = ([*settings.get("accounting_flush_time", usual).split(":"), "", ""])[:3]
    if not all(part.isdigit() for part in (hours, minutes, seconds)):
        return _parse_accounting_flush_s("")
    return 3600.0 * int(hours) + 60.0 * int(minutes) + int(seconds)


def query_job_details(cell: GridEngineCellAccessSettings, job_id: int) -> tuple[JobAccountAndErrors, ...]:
    answer = run_client_in_utc(cell, sge_command_line_builders.show_job_detail_argv(cell, str(job_id)))
    return parse_job_accounts_and_errors(answer.require_success().stdout)


def query_requestable_names(cell: GridEngineCellAccessSettings) -> NamesOfferedByCluster:
    table = qconf_parser_and_edits.parse_complex_table(query_qconf_object(cell, "-sc")).values()
    requestable = [row for row in table if row.requestable != NOT_REQUESTABLE]
    environments = frozenset(query_qconf_names(cell, "-spl"))
    return NamesOfferedByCluster(
        resource=_names_and_shortcuts_of_resources(requestable),
        string=_names_and_shortcuts_of_resources(row for row in requestable if row.type in STRINGS),
        pe=environments,
        project=frozenset(query_qconf_names(cell, "-sprjl")),
        queue=frozenset(query_qconf_names(cell, "-sql")),
        rule=frozenset(_query_allocation_rules(cell, environments)) or frozenset({NO_RULE}),
    )


def _names_and_shortcuts_of_resources(rows: Iterable[QconfComplexRow]) -> frozenset[str]:
    return frozenset(name for row in rows for name in (row.name, row.shortcut))


def _query_allocation_rules(cell: GridEngineCellAccessSettings, environments: frozenset[str]) -> Iterator[str]:
    """Yield `NAME=ALLOCATION_RULE` for each parallel environment of a local queue (sge_pe(5))."""
    own = (queue for queue in query_all_queue_settings(cell) if not is_transfer_queue(queue))
    listed = {name for queue in own for name in ENVIRONMENT.findall(queue.get("pe_list", ""))}
    for name in sorted(listed & environments):
        environment = query_qconf_object_settings(cell, "-sp", name)
        if environment.get("slots", "0") != "0":
            yield f"{name}={environment.get('allocation_rule', '')}"


def query_qconf_object(cell: GridEngineCellAccessSettings, *options: str) -> bytes:
    return run_client(cell, qconf_parser_and_edits.qconf_command(cell, *options)).require_success().stdout


def query_qconf_object_settings(cell: GridEngineCellAccessSettings, *options: str) -> QconfSettings:
    return qconf_parser_and_edits.parse_object_attributes(query_qconf_object(cell, *options))


def query_all_queue_settings(cell: GridEngineCellAccessSettings) -> tuple[QconfSettings, ...]:
    answer = run_client(cell, qconf_parser_and_edits.qconf_command(cell, "-sq", "*"))
    if answer.status and not query_qconf_names(cell, "-sql"):
        return ()
    shown = map(qconf_parser_and_edits.parse_object_attributes, answer.require_success().stdout.split(b"\n\n"))
    return tuple(settings for settings in shown if "qname" in settings)


def query_qconf_names(cell: GridEngineCellAccessSettings, option: str) -> tuple[str, ...]:
    """Return a list of names from qconf, which reports an empty list as an error."""
    answer = run_client(cell, qconf_parser_and_edits.qconf_command(cell, option))
    message = answer.stdout + answer.stderr
    if message.startswith(b"no ") and b"defined" in message:
        return ()
    return qconf_parser_and_edits.parse_name_list(answer.require_success().stdout)


def run_client_in_utc(cell: GridEngineCellAccessSettings, argv: sge_command_line_builders.Argv) -> CompletedProgram:
    """Run a client program in UTC, because client programs print local times without a zone."""
    return run_client(cell, argv, zone="UTC", most_bytes=LIST_BYTES)


CLOCKS_DIFFER = timedelta(minutes=5)

Records = Sequence[JobRunAccounting | RemoteJobRunAccounting]
NO_LINE, NOT_READ = 1, 2  # exit statuses of grep(1)
UNREADABLE = re.compile(rb"unable to open|accounting: (?!No such file)")  # qacct's errors for an unreadable file
_log = logging.getLogger(__name__)


def decide_job_end(records: Records, now: datetime) -> tuple[JobEnd | None, bool]:
    """Return the job end that records show, or None, and whether the records contradict each other.

    Requeued runs, ends in the future and a parallel job's parts are ignored; unknown ends contradict nothing.
    """
    end, is_disputed = decide_past_or_future_job_end(records, now)
    return (None if isinstance(end, FutureDatedJobEnd) else end), is_disputed


def decide_past_or_future_job_end(records: Records, now: datetime) -> tuple[JobEnd | FutureDatedJobEnd | None, bool]:
    """Return a job's end, maybe in the future, and whether the job's records contradict each other.

    A future end (an execd's clock is ahead) counts only if no past record has an exit status.
    """
    final = [record for record in records if record.failed not in RESCHEDULED and not record.pe_task]
    future = [record for record in final if record.ended_at and record.ended_at > now + CLOCKS_DIFFER]
    past = [record for record in final if record not in future]
    if future and not any(job_end_of_accounting_record(record).exit_status is not None for record in past):
        last, ends = future[-1], [job_end_of_accounting_record(record) for record in final]
        assert last.ended_at  # each record in `future` has an end time
        end = ends[-1] if len(_statuses_and_signals_of_ends(ends)) == 1 else None
        return FutureDatedJobEnd(ended_at=last.ended_at, host=last.host, end=end), False
    ends = [job_end_of_accounting_record(record) for record in past]
    observed = [end for end in ends if not end.is_end_unknown] or ends
    if len(_statuses_and_signals_of_ends(observed)) > 1:
        return None, True
    # the longest of equal ends is returned, so that a forged record can't shorten a job's usage
    return max(reversed(observed), key=lambda end: end.wallclock_s or 0.0, default=None), False


def _statuses_and_signals_of_ends(ends: Sequence[JobEnd]) -> set[tuple[int | None, int | None]]:
    return {(end.exit_status, end.signal) for end in ends}


def query_accounting_records(cell: GridEngineCellAccessSettings, job: int | str) -> tuple[JobRunAccounting, ...]:
    """Return the records of all tasks and runs of a job, or of jobs with a name or pattern.

    Raises CommandFailed for an unreadable file.
    """
    answer = run_client_in_utc(cell, (f"{cell.binaries}/qacct", "-j", str(job)))
    is_empty = b"no jobs running since startup" in answer.stdout
    if b"not found" in answer.stderr or (is_empty and not UNREADABLE.search(answer.stderr)):
        return ()
    return parse_accounting_records(answer.require_success().stdout, zone=UTC)


def _search_accounting_files(cell: GridEngineCellAccessSettings, arrays: Sequence[ArrayEndQuery]) -> CompletedProgram:
    accounts = [array.account for array in arrays]
    if since := min((array.looks_since for array in arrays if array.looks_since), default=None):
        try:
            argv = sge_command_line_builders.search_rotated_accounting_argv(cell, accounts, int(since.timestamp()))
            return run_client(cell, argv, most_bytes=LIST_BYTES)
        except CommandFailed as error:
            _log.warning("event=not_all_accounting_read cell=%s why=%r", cell.cell, str(error))
    return run_client(cell, sge_command_line_builders.search_accounting_argv(cell, accounts), most_bytes=LIST_BYTES)
