"""Explains how a job would be submitted to a remote cluster, or why the job can't be submitted."""

import os
import pwd
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.batch_submission_outcome import NOT_INTERACTIVE, ONE_HOP
from gridbridge.batch.configured_cluster_access_and_routes import (
    build_request_mapping,
    build_transfer_queue_route,
    configured_cluster_access,
)
from gridbridge.decisions.site.transfer_queue_order import describe_queue_order
from gridbridge.decisions.transfer import transfer_job_refusal_reasons
from gridbridge.errors import CommandFailed, GridbridgeError, ParseError, UnmappableRequest, UnstageablePaths
from gridbridge.model.campaigns.campaign_file_and_array_names import is_campaign_array_name
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.jobs_and_accounting import JobRequestAndSubmitOptions
from gridbridge.model.published_status_and_reports import replace_control_characters
from gridbridge.model.site.site_section import QueueOrder
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer import staged_paths
from gridbridge.model.transfer_name import TransferAttemptId, is_transfer_name, parse_local_job_and_task
from gridbridge.model.transfer_route import AnyClusterAccessSettings, TransferRoute
from gridbridge.program import configuration_in_force
from gridbridge.shell import local_host_facts, remote_stage_folder
from gridbridge.site import transfer_queue_setup
from gridbridge.state.published_file_formats import exclude_forwarding_queues
from gridbridge.transfer.cli.owner_remote_job_access import require_job_request_reader
from gridbridge.transfer.request_translation import read_names_offered_by_cluster, translate_request_for_cluster

ENDLESS = 9999999  # slots for a range without an end (sge_pe(5))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionExplanation:
    job: str  # the job's id; empty: not submitted yet
    cluster: str
    command: str = ""  # shell command line, which reads the wrapper from standard input
    notes: tuple[str, ...] = ()
    kept: str = ""  # why the job's own options exclude the queue; the same sentence is in `notes`
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedJob:
    job: str  # home job id; empty: not submitted yet
    name: str  # name of the transfer, with the word JOB for an unknown id
    submitted: JobRequestAndSubmitOptions


def explain_submission(words: tuple[str, ...], to: str, path: str = CONFIG) -> SubmissionExplanation:
    """Explain how a job would be submitted to a remote cluster; nothing is changed.

    `words` are a job's id or qsub's arguments; `to` is a cluster or transfer queue. Raises ParseError for a job
    that qsub refuses, ConfigError, and GridbridgeError for an unlisted job or a missing or ambiguous queue.
    """
    policy, wrong = configuration_in_force.load_config_or_one_in_force(path)
    queue = _find_transfer_queue_by_cluster_or_name(to, policy)
    job = _query_explained_job(words, policy, configured_cluster_access(policy, policy.site.cluster))
    explanation = _explain_queue_submission(policy, queue, job)
    if explanation.refused:
        return explanation
    notes = _queue_order_notes(policy, job.submitted)
    notes += (f"uses the older gridbridge.toml, because the service refuses the new file: {wrong}",) if wrong else ()
    return replace(explanation, notes=(*explanation.notes, *map(replace_control_characters, notes)))


def clusters_with_transfer_queues(path: str = CONFIG) -> tuple[str, ...]:
    """Return the clusters that transfer queues lead to; raise ConfigError for a wrong configuration."""
    return tuple(sorted(set(configuration_in_force.load_config_or_one_in_force(path)[0].remote_cluster_names)))


def transfer_queue_refusals(job: str, policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield each transfer queue with its reason to refuse a home job; '' if the queue takes the job."""
    try:
        question = _query_explained_job((job,), policy, configured_cluster_access(policy, policy.site.cluster))
    except GridbridgeError as error:
        yield from ((queue, str(error)) for queue in policy.queues)
        return
    for queue in policy.queues:
        try:
            answer = _explain_queue_submission(policy, queue, question)
            yield queue, answer.refused or answer.kept
        except GridbridgeError as error:
            yield queue, str(error)


def _explain_queue_submission(policy: Policy, queue: str, question: ExplainedJob) -> SubmissionExplanation:
    job, name, submitted = question.job, question.name, question.submitted
    remote = policy.queues[queue].cluster
    request, pe, slots = submitted.request, submitted.pe, submitted.slots
    if submitted.is_interactive:
        return _refused_submission_explanation(job, remote, NOT_INTERACTIVE)
    if is_transfer_name(submitted.account) or is_campaign_array_name(submitted.account):
        return _refused_submission_explanation(job, remote, ONE_HOP)
    if shut := _why_queue_refuses_job(policy, queue, submitted):
        return _refused_submission_explanation(job, remote, shut)
    rules, far = build_request_mapping(policy, remote, queue), configured_cluster_access(policy, remote)
    vocabulary = read_names_offered_by_cluster(remote)
    try:
        home_spec = JobSpec(transfer=name, request=request, pe=pe, slots=slots)
        spec, notes = translate_request_for_cluster(home_spec, rules, vocabulary, remote, policy.queues)
        spec = exclude_forwarding_queues(spec, remote)
        account = policy.clusters[remote].users.remote_account_of_user(request.owner)
        folder = _remote_folder_of_staged_job(build_transfer_queue_route(policy, queue), request, account, name)
    except (UnmappableRequest, UnstageablePaths) as error:
        return _refused_submission_explanation(job, remote, str(error))
    cwd = submitted.cwd or os.path.expanduser(f"~{request.owner}")
    if far.login:
        cwd = folder if folder.startswith("/") or not folder else f"~{account}/{folder}"
        notes += (f"files are staged in {cwd} at {remote}",) if folder else ()
        notes += (f"submitted by ssh to {far.login.host} as {account}",)
    spec = spec.with_changes(shell=policy.clusters[remote].shell, cwd=cwd)
    adapter = batch_adapter_of_cluster(far)
    if refused := adapter.explain_request_refusal(spec.request):
        return _refused_submission_explanation(job, remote, refused)
    argv = adapter.build_submission_command(far, spec)
    notes += tuple(_shared_storage_notes(policy, remote))
    reason = transfer_job_refusal_reasons.why_request_excludes_queue(queue, request)
    notes += (reason,) if reason else ()
    if pe and spec.slots == ENDLESS:
        notes += ("the job gets as many slots as Grid Engine grants",)
    return SubmissionExplanation(
        job=job,
        cluster=remote,
        command=replace_control_characters(shlex.join(argv)),
        notes=tuple(map(replace_control_characters, notes)),
        kept=replace_control_characters(reason),
    )


def _shared_storage_notes(policy: Policy, remote: str) -> Iterator[str]:
    """Name the storage areas that the home cluster and the remote cluster share."""
    home = policy.site.cluster
    for name, storage in policy.storage.items():
        paths = storage.paths_by_cluster
        if home in paths and remote in paths:
            yield (
                f"replicas in storage area {name} need no copy: {paths[home]} at {home} is {paths[remote]} at {remote}"
            )


def _refused_submission_explanation(job: str, remote: str, why: str) -> SubmissionExplanation:
    return SubmissionExplanation(job=job, cluster=remote, refused=replace_control_characters(why))


def _query_explained_job(words: tuple[str, ...], policy: Policy, home: AnyClusterAccessSettings) -> ExplainedJob:
    reader = require_job_request_reader(home)
    try:
        job, task = parse_local_job_and_task(" ".join(words))
    except ParseError:
        submitted = reader.preview_submitted_job(home, words, pwd.getpwuid(os.getuid()).pw_name)
        return ExplainedJob(job="", name=f"gb.{policy.site.cluster}.JOB.0.1", submitted=submitted)
    transfer = TransferAttemptId(policy.site.cluster, job, task, 1)
    submitted = reader.query_submitted_job(home, job, task)
    return ExplainedJob(job=transfer.local_job_or_task_id, name=str(transfer), submitted=submitted)


def _why_queue_refuses_job(policy: Policy, queue: str, job: JobRequestAndSubmitOptions) -> str:
    remote, owner = policy.queues[queue].cluster, job.request.owner
    users, account = policy.clusters[remote].users, policy.site.service_account
    if why := transfer_job_refusal_reasons.why_cluster_refuses_owner(owner, users, account, f"cluster.{remote}.users"):
        return why
    home = configured_cluster_access(policy, policy.site.cluster)
    try:
        limits = require_job_request_reader(home).query_queue_restrictions(home, queue)
    except CommandFailed:
        return ""
    groups = frozenset(local_host_facts.groups_of_account(owner))
    return transfer_job_refusal_reasons.why_queue_refuses_job(queue, limits, job, groups)


def _queue_order_notes(policy: Policy, job: JobRequestAndSubmitOptions) -> tuple[str, ...]:
    order = policy.site.queue_order
    if order is QueueOrder.SEQ_NO:
        return ()
    try:
        offers = transfer_queue_setup.queues_with_cluster_load(policy)
    except GridbridgeError:  # the explanation is useful without the order of the queues, too
        return ()
    takers = [offer for offer in offers if not _why_queue_refuses_job(policy, offer.queue, job)]
    return (describe_queue_order(takers, order),) if len(takers) > 1 else ()


def _remote_folder_of_staged_job(route: TransferRoute, request: JobRequest, account: str, name: str) -> str:
    """Return the remote folder of a job with staged files; '' for other jobs.

    A relative folder is below the remote account's home. Raises UnstageablePaths for an invalid file list.
    """
    if not route.declares_staged_files(request.context):
        return ""
    lists = staged_paths.job_stage_in_and_out_paths(route.stage_in, route.stage_out, request.context)
    if wrong := next(filter(None, map(staged_paths.staging_path_list_problem, lists, lists.values())), ""):
        raise UnstageablePaths(wrong)
    folder = remote_stage_folder.parent_of_remote_stage_folder(route.remote_stage_dir, account)
    return f"{folder}/{name}/{remote_stage_folder.WORK}"


def _find_transfer_queue_by_cluster_or_name(to: str, policy: Policy) -> str:
    if to in policy.queues:
        return to
    if to not in policy.remote_cluster_names:
        clusters = ", ".join(sorted(policy.remote_cluster_names))
        hint = f"expected one of: {clusters}" if clusters else "there is no transfer queue"
        raise GridbridgeError(f"no transfer queue leads to {to!r}; {hint}")
    names = [name for name, queue in policy.queues.items() if queue.cluster == to]
    queues = [policy.queues[name] for name in names]
    if len({(frozenset(queue.asks.items()), queue.oar_queue, queue.oar_type) for queue in queues}) > 1:
        ways = " or ".join(f"--to {name}" for name in names)
        raise GridbridgeError(f"{to}: its transfer queues request different resources; expected {ways}")
    return names[0]
