"""Change waiting remote jobs for qalter_remote, and delete jobs for qdel_remote, as their owner.

qdel_remote deletes the local job, whose end deletes the remote job. If a remote job
were deleted before it started, it would leave no accounting record, and the local job might wait forever.
"""

import os
import pwd
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from gridbridge.batch import load_submit_adapter
from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import build_request_mapping
from gridbridge.cli import output_and_errors
from gridbridge.errors import UnmappableRequest
from gridbridge.model.fixed_paths import CONFIG, PUBLISHED
from gridbridge.model.job_request import JobSpec, Pairs, is_home_only_resource
from gridbridge.model.published_status_and_reports import PublishedTransfer, replace_control_characters
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, StarterPhase
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.model.transfer_route import AnyClusterAccessSettings
from gridbridge.program import configuration_in_force
from gridbridge.state import published_json
from gridbridge.state.published_file_formats import exclude_forwarding_queues
from gridbridge.transfer.cli import owner_remote_job_access
from gridbridge.transfer.cli.owner_remote_job_access import JobWithTasks, RemoteJobActNotDone, RemoteJobActResult
from gridbridge.transfer.cli.remote_tool_arguments import parse_job_with_tasks
from gridbridge.transfer.request_translation import read_names_offered_by_cluster, translate_request_for_cluster

if TYPE_CHECKING:
    from gridbridge.batch.optional_adapter_protocols import UserJobQueriesAndChanges


Argv = tuple[str, ...]
HOLD, RELEASE = "u", "U"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJobRequestChange:
    """The changes to a remote job; None leaves a value unchanged."""

    priority: int | None = None
    resources: Pairs | None = None  # new hard resource requests, with the names at home
    hold: str | None = None  # HOLD or RELEASE


def alter_remote_tasks(
    job: str, change: RemoteJobRequestChange, *, is_dry: bool = False, folder: str = PUBLISHED, path: str = CONFIG
) -> Iterator[RemoteJobActResult]:
    """Change a job's remote jobs and yield results; raise ParseError, ConfigError or StateError."""
    policy, _ = configuration_in_force.load_config_or_one_in_force(path)
    act = partial(_alter_remote_job, change=change, policy=policy, folder=folder, is_dry=is_dry)
    return owner_remote_job_access.act_on_remote_tasks(parse_job_with_tasks(job), folder, f"qalter {job} changes", act)


def _alter_remote_job(
    transfer: PublishedTransfer, change: RemoteJobRequestChange, policy: Policy, folder: str, is_dry: bool
) -> str:
    me = pwd.getpwuid(os.getuid()).pw_name
    if transfer.owner != me:
        raise RemoteJobActNotDone(f"owned by {transfer.owner}, not by you")
    if why := why_remote_job_unalterable(transfer, change):
        raise RemoteJobActNotDone(why)
    where = owner_remote_job_access.cluster_access_for_caller(policy, transfer.remote)
    alters = job_alterer_of_cluster(where, transfer.remote)
    options = _build_qalter_options(transfer, change, policy, folder, alters)
    owner_remote_job_access.require_own_remote_job(where, transfer, me)
    job, local = str(transfer.remote_id), parse_transfer_name(transfer.transfer).local_job_or_task_id
    state = load_submit_adapter(where).query_job_state(where, job)
    if not state.is_waiting:
        raise RemoteJobActNotDone(f"job {job} at {transfer.remote} is {state.text or 'gone'}; expected waiting")
    if is_dry:
        return replace_control_characters(shlex.join(alters.build_alter_command(where, job, options)))
    alters.alter_job(where, job, options)
    return replace_control_characters(f"job {local}: job {job} at {transfer.remote} changed: {shlex.join(options)}")


def job_alterer_of_cluster(
    access: AnyClusterAccessSettings, cluster: str
) -> "UserJobQueriesAndChanges[AnyClusterAccessSettings]":
    """Return the adapter that changes a cluster's waiting jobs; raise RemoteJobActNotDone without one."""
    if alterer := batch_adapter_of_cluster(access).user_jobs:
        return alterer
    raise RemoteJobActNotDone(f"{cluster} is of kind {access.kind}: use the commands of {access.kind}")


def why_remote_job_unalterable(transfer: PublishedTransfer, change: RemoteJobRequestChange) -> str:
    local = parse_transfer_name(transfer.transfer).local_job_or_task_id
    if transfer.desired == DesiredLocalJobState.DEAD:
        return "the local job was deleted"
    if transfer.outcome:
        return f"the remote job has ended at {transfer.remote}: {transfer.outcome}"
    if change.hold == RELEASE and transfer.desired == DesiredLocalJobState.SUSPENDED:
        return f"the local job is suspended; resume it by qmod -usj {local}"
    if transfer.phase != StarterPhase.RELEASED and transfer.desired != DesiredLocalJobState.SUSPENDED:
        return f"the job is being sent to {transfer.remote}: try again in a moment"
    return ""


def _build_qalter_options(
    transfer: PublishedTransfer,
    change: RemoteJobRequestChange,
    policy: Policy,
    folder: str,
    alters: "UserJobQueriesAndChanges[AnyClusterAccessSettings]",
) -> Argv:
    options: Argv = ()
    if change.priority is not None:
        options += ("-p", str(change.priority))
    if change.resources is not None:
        resources = _translate_changed_resources(transfer, change.resources, policy, folder)
        options += alters.build_resource_options(*resources)
    if change.hold is not None:
        options += ("-h", change.hold)
    return options


def _translate_changed_resources(
    transfer: PublishedTransfer, pairs: Pairs, policy: Policy, folder: str
) -> tuple[Pairs, Pairs, bool]:
    """Translate changed resources; return hard and soft resources, and whether to avoid transfer queues."""
    home = owner_remote_job_access.cluster_access_for_caller(policy, policy.site.cluster)
    known_here = owner_remote_job_access.require_job_request_reader(home).query_submitted_job(
        home, parse_transfer_name(transfer.transfer).job
    )
    asks = known_here.request.with_changes(hard=pairs)
    spec = JobSpec(transfer=transfer.transfer, request=asks, pe=known_here.pe, slots=known_here.slots)
    rules = build_request_mapping(policy, transfer.remote, transfer.queue)
    offered = read_names_offered_by_cluster(transfer.remote, folder)
    try:
        spec, _ = translate_request_for_cluster(spec, rules, offered, transfer.remote, policy.queues)
    except UnmappableRequest as error:
        raise RemoteJobActNotDone(str(error)) from error
    hard = tuple(pair for pair in spec.request.hard if not is_home_only_resource(pair[0]))
    if not hard:
        raise RemoteJobActNotDone(f"none of these resources is requested at {transfer.remote}")
    remote_request = exclude_forwarding_queues(spec, transfer.remote, folder).request
    return hard, remote_request.soft, remote_request.stays


def delete_transferred_tasks(
    job: JobWithTasks, *, is_dry: bool = False, folder: str = PUBLISHED, path: str = CONFIG
) -> Iterator[RemoteJobActResult]:
    """Delete a job's tasks at other clusters, and yield results; raise ParseError, ConfigError or StateError."""
    policy, _ = configuration_in_force.load_config_or_one_in_force(path)
    return owner_remote_job_access.act_on_remote_tasks(
        job, folder, f"qdel {job[0]} deletes", lambda transfer: _delete_transferred_job(transfer, policy, is_dry)
    )


def delete_owner_transferred_jobs(
    owner: str, *, is_dry: bool = False, folder: str = PUBLISHED, path: str = CONFIG
) -> Iterator[RemoteJobActResult]:
    """Delete an owner's jobs at other clusters; raise ConfigError, or StateError without published files."""
    policy, _ = configuration_in_force.load_config_or_one_in_force(path)
    published = published_json.read_all_published_files(folder)
    transfers = [transfer for transfer in published.transfers if transfer.owner == owner]
    if not transfers:
        yield RemoteJobActResult(job="", is_done=False, text=f"no job of {owner} is away")
    yield from owner_remote_job_access.act_on_remote_jobs_of_transfers(
        transfers, lambda transfer: _delete_transferred_job(transfer, policy, is_dry)
    )


def _delete_transferred_job(transfer: PublishedTransfer, policy: Policy, is_dry: bool) -> str:
    local, me = parse_transfer_name(transfer.transfer).local_job_or_task_id, pwd.getpwuid(os.getuid()).pw_name
    if transfer.owner != me:
        raise RemoteJobActNotDone(f"owned by {transfer.owner}, not by you; an operator uses qdel {local}")
    home = owner_remote_job_access.cluster_access_for_caller(policy, policy.site.cluster)
    remote_half = f"{f'job {transfer.remote_id}' if transfer.remote_id else 'the remote job'} at {transfer.remote}"
    if load_submit_adapter(home).query_job_state(home, local).is_listed:
        if not is_dry:
            load_submit_adapter(home).delete_job(home, local)
        return f"job {local}: {'would be ' * is_dry}deleted at home, and {remote_half} with it"
    where = owner_remote_job_access.cluster_access_for_caller(policy, transfer.remote)
    try:
        owner_remote_job_access.require_own_remote_job(where, transfer, me)
    except owner_remote_job_access.RemoteJobGone:
        return f"job {local}: gone, at home and at {transfer.remote}"
    if not is_dry:
        load_submit_adapter(where).delete_job(where, str(transfer.remote_id))
    return f"job {local}: gone at home; {remote_half} {'would be' if is_dry else 'is'} deleted"


def print_remote_job_act_results(program: str, outcomes: Iterable[RemoteJobActResult], is_json: bool) -> None:
    """Print successes to standard output and failures to standard error; exit with 1 after a failure."""
    results = []
    for result in outcomes:
        results.append(result)
        if is_json:
            continue
        if result.is_done:
            output_and_errors.print_line(result.text)
        else:
            output_and_errors.print_error(f"{program}: {result.text}")
    if is_json:
        output_and_errors.print_json([asdict(result) for result in results])
    if not all(result.is_done for result in results):
        raise SystemExit(1)
