"""Find and check the remote job of a transfer, for commands that the job's owner runs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridbridge.batch import load_submit_adapter
from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.errors import GridbridgeError, ParseError
from gridbridge.model.published_status_and_reports import PublishedTransfer
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer_name import parse_local_job_and_task, parse_transfer_name
from gridbridge.model.transfer_route import AnyClusterAccessSettings
from gridbridge.state import published_json
from gridbridge.transfer.cli.remote_tool_arguments import is_in_ranges

if TYPE_CHECKING:
    from gridbridge.batch.optional_adapter_protocols import UserJobQueriesAndChanges

JobWithTasks = tuple[str, tuple[range, ...]]  # a local job, and ranges of its tasks; no range: all tasks
LIMIT_S = 10.0  # timeout of a query to a cluster, short because a user waits for the answer


class RemoteJobActNotDone(GridbridgeError):
    """The command did not do what the user requested; the text has the reason."""


class RemoteJobGone(RemoteJobActNotDone):
    """The remote cluster does not list the remote job any more."""


def cluster_access_for_caller(policy: Policy, cluster: str) -> AnyClusterAccessSettings:
    """Return the calling user's access to a cluster; raise RemoteJobActNotDone if not configured."""
    if cluster not in policy.clusters:
        raise RemoteJobActNotDone(f"{cluster} is not in gridbridge.toml any more")
    return configured_cluster_access(policy, cluster).with_time_limit(LIMIT_S)


def require_job_request_reader(home: AnyClusterAccessSettings) -> "UserJobQueriesAndChanges[AnyClusterAccessSettings]":
    """Return the adapter that reads requests of jobs at home; raise RemoteJobActNotDone if none can."""
    if ability := batch_adapter_of_cluster(home).user_jobs:
        return ability
    raise RemoteJobActNotDone(f"a cluster of kind {home.kind} does not show the requests of its jobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJobActResult:
    job: str  # local id, such as 12, or 12.3 for a task of an array
    is_done: bool
    text: str


def act_on_remote_tasks(
    job: JobWithTasks, folder: str, instead: str, act: Callable[[PublishedTransfer], str]
) -> Iterator[RemoteJobActResult]:
    """Act on the remote jobs of a job's tasks; yield the results.

    If the job is at home, the error message names the command to use, `instead`, such as `qdel 12 deletes`. Raises
    StateError without files.
    """
    number, tasks = job
    transfers = []
    for transfer in published_json.read_all_published_files(folder).transfers:
        name = parse_transfer_name(transfer.transfer)
        if str(name.job) == number and is_in_ranges(name.task, tasks):
            transfers.append(transfer)
    if not transfers:
        is_single = len(tasks) == 1 and len(tasks[0]) == 1
        job_id = f"{number}.{tasks[0][0]}" if is_single else number
        text = f"job {job_id}: no {'' if is_single or not tasks else 'such '}task is away; {instead} a job at home"
        yield RemoteJobActResult(job=job_id, is_done=False, text=text)
    yield from act_on_remote_jobs_of_transfers(transfers, act)


def act_on_remote_jobs_of_transfers(
    transfers: Iterable[PublishedTransfer], act: Callable[[PublishedTransfer], str]
) -> Iterator[RemoteJobActResult]:
    for transfer in transfers:
        local = parse_transfer_name(transfer.transfer).local_job_or_task_id
        try:
            yield RemoteJobActResult(job=local, is_done=True, text=act(transfer))
        except GridbridgeError as error:
            yield RemoteJobActResult(job=local, is_done=False, text=f"job {local}: {error}")


def require_own_remote_job(access: AnyClusterAccessSettings, transfer: PublishedTransfer, me: str) -> None:
    """Raise RemoteJobActNotDone unless a remote job's owner and account (qsub -A) match the transfer."""
    local = parse_transfer_name(transfer.transfer).local_job_or_task_id
    if not transfer.remote_id:
        raise RemoteJobActNotDone(f"job {local} is being sent to {transfer.remote} and has no remote id yet")
    owner, account = load_submit_adapter(access).query_owner_and_account(access, str(transfer.remote_id))
    if not owner:
        raise RemoteJobGone(f"{transfer.remote} does not list job {transfer.remote_id} any more: the job has ended")
    mine = access.account_of_user(me)
    if (owner, account) != (mine, transfer.transfer):
        raise RemoteJobActNotDone(
            f"job {transfer.remote_id} at {transfer.remote}: owned by {owner}, account {account!r};"
            f" expected {mine}, account {transfer.transfer!r}"
        )


def parse_job_list(jobs: tuple[str, ...]) -> tuple[str, ...]:
    """Parse job ids such as `12,13.2 14`; raise ParseError for an invalid id."""
    names = tuple(job for words in jobs for job in words.split(",") if job)
    if not names:
        raise ParseError(f"{', '.join(map(repr, jobs))}: no job id")
    for job in names:
        parse_local_job_and_task(job)
    return names
