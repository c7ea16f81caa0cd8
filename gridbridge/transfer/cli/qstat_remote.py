"""List remote jobs for qstat_remote from published files, so that users can't overload a cluster."""

from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from gridbridge.batch.batch_adapter_table import cluster_status_reader
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.fixed_paths import CONFIG, PUBLISHED
from gridbridge.model.job_and_queue_states import JobState
from gridbridge.model.published_status_and_reports import (
    PublishedTransfer,
    TransferAndAwaitedEvent,
    TransferAttemptExplanation,
    TransferQueueReport,
    format_duration,
    replace_control_characters,
)
from gridbridge.program import configuration_in_force, status_and_why_reports
from gridbridge.state import published_json
from gridbridge.transfer.cli.owner_remote_job_access import cluster_access_for_caller

ALL_STATES = "a"
NO_MESSAGES_TEXT = "There are no messages available"
MOST_QUERIED_JOBS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFilter:
    users: tuple[str, ...]  # login names or patterns, as in qstat(1)
    states: str = ALL_STATES  # letters of qstat -s
    cluster: str | None = None
    queues: tuple[str, ...] = ()  # names of transfer queues, or patterns; empty: all queues


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWithRemoteMessages:
    attempt: TransferAttemptExplanation
    messages: tuple[str, ...] = ()  # errors of the remote job, and reasons why the remote job waits
    asked: str = ""  # why the cluster did not answer; empty after an answer


def list_open_transfers(
    choice: TransferFilter, now: datetime, folder: str = PUBLISHED
) -> tuple[tuple[TransferAndAwaitedEvent, ...], tuple[str, ...], tuple[TransferQueueReport, ...]]:
    """Return the chosen open transfers, notes on outdated states, and the chosen transfer queues.

    Raises GridbridgeError for a wrong cluster.
    """
    report = status_and_why_reports.build_site_status_report(now, folder)
    known = {cluster.cluster for cluster in report.clusters} | {row.transfer.remote for row in report.transfers}
    if choice.cluster is not None and choice.cluster not in known:
        raise GridbridgeError(f"no cluster {choice.cluster!r}; known: {', '.join(sorted(known)) or 'none'}")
    rows = tuple(row for row in report.transfers if matches_transfer_filter(row, choice))
    concerned = {row.transfer.remote for row in rows}
    silent = (cluster for cluster in report.clusters if not cluster.answers and cluster.cluster in concerned)
    notes = (report.alarm, *(f"{cluster.cluster} {cluster.why}" for cluster in silent))
    queues = tuple(
        queue
        for queue in report.queues
        if choice.cluster in (None, queue.cluster) and is_queue_chosen(queue.queue, choice)
    )
    return rows, tuple(note for note in notes if note), queues


def is_queue_chosen(queue: str, choice: TransferFilter) -> bool:
    return not choice.queues or any(fnmatchcase(queue, pattern) for pattern in choice.queues)


def matches_transfer_filter(report: TransferAndAwaitedEvent, choice: TransferFilter) -> bool:
    transfer = report.transfer
    is_theirs = any(fnmatchcase(transfer.owner, user) for user in choice.users)
    is_there = choice.cluster in (None, transfer.remote)
    is_there = is_there and is_queue_chosen(transfer.queue, choice)
    return is_theirs and is_there and matches_qstat_state_letters(transfer.remote_job_state, choice.states)


def matches_qstat_state_letters(state: JobState, selection: str) -> bool:
    if ALL_STATES in selection:
        return True
    facts = {
        "p": state.is_waiting or not state.is_listed,  # a job that is not yet submitted is in no job list
        "r": state.is_running,
        "s": state.is_suspended,
        "h": state.is_held,
    }
    return any(facts[letter] for letter in selection)


def is_pending(transfer: PublishedTransfer) -> bool:
    """Say whether the remote job waits, or is not submitted yet."""
    return matches_qstat_state_letters(transfer.remote_job_state, "p")


class SingleRemoteJobQueries:
    """Queries clusters about single jobs; a cluster that gave no answer is not queried again."""

    def __init__(self, path: str = CONFIG) -> None:
        self.path = path
        self._policy, _ = configuration_in_force.load_config_or_one_in_force(path)
        self._left = MOST_QUERIED_JOBS
        self._silent: dict[str, str] = {}

    def query_job_messages(self, transfer: PublishedTransfer) -> tuple[tuple[str, ...], str]:
        """Query a cluster's messages about a remote job; return the messages, or the reason for the failure."""
        if self._left == 0:
            return (), f"not queried: one command queries {MOST_QUERIED_JOBS} jobs at most; name a task"
        if transfer.remote in self._silent:
            return (), self._silent[transfer.remote]
        self._left -= 1
        try:
            where = cluster_access_for_caller(self._policy, transfer.remote)
            jobs = cluster_status_reader(where).query_job_details(where, transfer.remote_id or 0)
        except GridbridgeError as error:
            kind = "no answer: " if isinstance(error, CommandFailed) else ""
            self._silent[transfer.remote] = replace_control_characters(f"{kind}{error}")
            return (), self._silent[transfer.remote]
        ours = [job for job in jobs if job.account == transfer.transfer]
        if not ours:
            return (), "does not list the job any more"
        # Messages about a job that does not wait are ignored: qstat -j shows messages about other jobs, too (qstat(1)).
        waits = matches_qstat_state_letters(transfer.remote_job_state, "p")
        words = dict.fromkeys((*ours[0].errors, *(ours[0].messages if waits else ())))
        return tuple(replace_control_characters(message) for message in words if message != NO_MESSAGES_TEXT), ""


def query_remote_task_details(
    job: str, asking: SingleRemoteJobQueries, now: datetime, folder: str = PUBLISHED
) -> tuple[str, tuple[TaskWithRemoteMessages, ...]]:
    """Return an alarm if the poller is silent, and each task's last transfer with messages of the remote cluster."""
    alarm, tasks = status_and_why_reports.explain_transfers_of_local_job(job, now, folder, asking.path)
    clusters = published_json.read_all_published_files(folder).clusters.values()
    taken_at = {cluster.cluster: cluster.taken_at for cluster in clusters}
    task_details = []
    for task in tasks:
        transfer = task.attempts[-1].transfer
        is_there = transfer.remote_id and not transfer.closed_at
        messages, trouble = asking.query_job_messages(transfer) if is_there else ((), "")
        at = taken_at.get(transfer.remote)
        if trouble and at:
            trouble += f"; the state above is {format_duration(now - at)} old"
        task_details.append(TaskWithRemoteMessages(attempt=task.attempts[-1], messages=messages, asked=trouble))
    return alarm, tuple(task_details)
