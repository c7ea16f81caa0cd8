"""Explain why a transfer queue or a remote cluster does not accept a job.

A job that user_lists, pe_list or slots of a queue exclude (queue_conf(5)) waits forever and never gets a starter.
"""

from collections.abc import Container, Iterable, Set
from fnmatch import fnmatchcase

from gridbridge.model.cluster_snapshot import QueueInstanceStatus
from gridbridge.model.config_key_descriptions import AccountByUser
from gridbridge.model.job_request import JobRequest
from gridbridge.model.jobs_and_accounting import JobRequestAndSubmitOptions, QueueJobAndUserRestrictions
from gridbridge.model.names_offered_by_cluster import NonForwardingQueues
from gridbridge.model.transfer.claim_and_guard import OPERATORS, does_job_request_home


def why_cluster_refuses_owner(owner: str, users: AccountByUser, account: str, section: str) -> str:
    """Return why a cluster with a list of accounts refuses a job's owner; '' if the owner has an account."""
    people = [person for person in users if person != account]
    return f"{owner} has no account in [{section}]" if people and owner not in people else ""


def why_queue_refuses_job(
    queue: str, limits: QueueJobAndUserRestrictions, job: JobRequestAndSubmitOptions, groups: Set[str]
) -> str:
    owner = job.request.owner
    if limits.people is not None and {owner, *(f"@{group}" for group in groups)}.isdisjoint(limits.people):
        return f"the user_lists of {queue} don't include {owner}"
    environments = limits.environments
    if job.pe and environments is not None and not any(fnmatchcase(name, job.pe) for name in environments):
        has = f"only {', '.join(environments)}" if environments else "none"
        return f"{queue} has no parallel environment {job.pe} in its pe_list: {has}"
    if limits.slots is not None and job.fewest > limits.slots:
        return f"{queue} has {limits.slots} slots, and the job asks for {job.fewest}"
    return ""


def why_request_excludes_queue(queue: str, request: JobRequest) -> str:
    if does_job_request_home(request.hard):
        return f"the job requests remote=false and stays at home: {queue} never gets this job"
    named = [word.partition("@")[0] for word in request.owner_requested_queues.split(",")]
    if not all(named) or queue in named or any(OPERATORS & set(word) for word in named):
        return ""
    return f"{queue} never gets the job, which requests -q {request.owner_requested_queues}"


def find_local_only_queues(
    queues: Iterable[QueueInstanceStatus], transfer_queues: Container[str] = ()
) -> NonForwardingQueues | None:
    """Return a cluster's queues that run all their jobs locally; None if all queues or no queues do so.

    Best-effort queues are ignored, because they run only jobs that request them.
    """
    shown = tuple(queue for queue in queues if not queue.is_besteffort)
    onward = {queue.queue_name for queue in shown if queue.sends_away or queue.queue_name in transfer_queues}
    local = [queue for queue in shown if queue.queue_name not in onward]
    if not onward or not local:
        return None
    names = ",".join(sorted({queue.queue_name for queue in local}))
    return NonForwardingQueues(queues=names, all_say="yes" if all(queue.says_stay for queue in local) else "")
