"""Explains a job of the home cluster: its state, and which transfer queues would take it."""

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.decisions.site.home_job_description import describe_home_job_state
from gridbridge.decisions.transfer import transfer_status_explanation
from gridbridge.errors import ConfigError, GridbridgeError
from gridbridge.model.cluster_snapshot import JobListRow, ListedJobStatus
from gridbridge.model.fixed_paths import CONFIG, PUBLISHED
from gridbridge.model.policy import Policy
from gridbridge.model.status_report import replace_control_characters
from gridbridge.model.transfer_name import parse_local_job_and_task
from gridbridge.program import users_configuration
from gridbridge.state import published_json as files
from gridbridge.transfer.remote_tools.owner_remote_job_access import LIMIT_S


class HomeBatchSystemSilent(GridbridgeError):
    """The home batch system does not answer, so the job may or may not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueueVerdict:
    """Whether a transfer queue would take a waiting job, and why not."""

    queue: str
    cluster: str
    would_take: bool
    why: str = ""  # why the queue would not take it, or not now


@dataclass(frozen=True, slots=True, kw_only=True)
class UntransferredHomeJob:
    """A job or array task at home that is not in a transfer queue."""

    job: str  # JOB or JOB.TASK
    owner: str
    submitted_at: datetime | None
    sentences: tuple[str, ...]
    queues: tuple[TransferQueueVerdict, ...] = ()  # empty if the job does not wait
    was_sent: bool = False  # a transfer of this job has ended


def find_untransferred_home_job(
    job: str, now: datetime, folder: str = PUBLISHED, path: str = CONFIG, *, was_sent: bool = False
) -> UntransferredHomeJob | None:
    """Return the state of a job or task at home; None if the home cluster does not list it.

    If tasks of the job were transferred, tasks in a transfer queue are left out. Raises
    HomeBatchSystemSilent, and ParseError for a text that is no job id. Returns None without a
    configuration.
    """
    number, task = parse_local_job_and_task(job)
    try:
        policy = users_configuration.load_config_or_one_in_force(path)[0]
    except ConfigError:
        return None
    standing = _standing(policy, number)
    standing = _only(standing, task, policy.queues if was_sent else ()) if standing else None
    if not standing or not standing.rows:
        return None
    does_wait = any(row.state.is_waiting for row in standing.rows)
    return UntransferredHomeJob(
        job=job,
        owner=standing.owner,
        submitted_at=standing.submitted_at,
        sentences=tuple(map(replace_control_characters, describe_home_job_state(standing, now))),
        queues=tuple(_queues(job, policy, now, folder)) if does_wait else (),
        was_sent=was_sent,
    )


def _standing(policy: Policy, job: int) -> ListedJobStatus | None:
    home = configured_cluster_address(policy, policy.site.cluster).within(LIMIT_S)
    shows = batch_adapter_of_cluster(home).shows_requests
    try:
        return shows.query_job_standing(home, job) if shows else None
    except GridbridgeError as error:
        raise HomeBatchSystemSilent(f"{policy.site.cluster} gives no answer: {error}") from error


def _only(standing: ListedJobStatus, task: int, left_out: Container[str]) -> ListedJobStatus:
    """Return the state of one task (0: of all tasks), without tasks in certain queues."""
    rows = [row for row in standing.rows if row.queue.partition("@")[0] not in left_out]
    if not task:
        return replace(standing, rows=tuple(rows))
    of_task = [_of_task(row, task) for row in rows if row.tasks and row.covers(task)]
    is_wrong = any(row.state.is_error for row in of_task)
    return replace(standing, rows=tuple(of_task), errors=standing.errors if is_wrong else ())


def _of_task(row: JobListRow, task: int) -> JobListRow:
    return replace(row, tasks=(range(task, task + 1),))


def _queues(job: str, policy: Policy, now: datetime, folder: str) -> Iterator[TransferQueueVerdict]:
    """Yield the verdict of each transfer queue, in the order of the file."""
    from gridbridge.site.submission_explanation import transfer_queue_refusals  # rarely needed

    shown = files.read_all_published_files(folder)
    routes = {route.queue: route for route in shown.service.routes} if shown.service else {}
    for name, refused in transfer_queue_refusals(job, policy):
        route = routes.get(name)
        closed = (
            transfer_status_explanation.report_transfer_queue_status(route, shown, now).why
            if route and not refused
            else ""
        )
        yield TransferQueueVerdict(
            queue=name,
            cluster=policy.queues[name].cluster,
            would_take=not refused,
            why=replace_control_characters(refused or closed),
        )
