"""Why a transfer queue does not take a job at home: who may use it, its environments, its slots.

Such a job waits for ever and its starter never begins (queue_conf(5): user_lists, pe_list, slots).
"""

from collections.abc import Set
from fnmatch import fnmatchcase

from gridbridge.model.job import QueueAdmission, SubmittedJob
from gridbridge.model.request import JobRequest
from gridbridge.model.settings import RemoteAccountNames
from gridbridge.model.transfer.guard import OPERATORS, asks_for_home


def why_owner_has_no_account(
    owner: str, users: RemoteAccountNames, account: str, section: str
) -> str:
    """Say why a cluster that names people takes nobody else's jobs; empty when it does."""
    people = [person for person in users if person != account]
    if not people or owner in people:
        return ""
    return f"[{section}] names who has an account there, and not {owner}"


def why_queue_refuses_job(
    queue: str, limits: QueueAdmission, job: SubmittedJob, groups: Set[str]
) -> str:
    """Say why a queue takes no such job of a member of these groups; empty when it does."""
    owner = job.request.owner
    if limits.people is not None and not _is_let_in(owner, groups, limits.people):
        return f"the user_lists of {queue} don't have {owner}"
    if job.pe and limits.environments is not None and not _matches(job.pe, limits.environments):
        names = ", ".join(limits.environments)
        has = f"only {names}" if names else "none"
        return f"{queue} has no parallel environment {job.pe} in its pe_list: {has}"
    if limits.slots is not None and job.fewest > limits.slots:
        return f"{queue} has {limits.slots} slots, and the job asks for {job.fewest}"
    return ""


def why_job_stays_home(queue: str, request: JobRequest) -> str:
    """Say by which words of its own a job never comes to a queue; empty when by none."""
    if asks_for_home(request.hard):
        return f"as it is, it stays at home: it asks for remote=false, and {queue} never gets it"
    named = [word.partition("@")[0] for word in request.own_queues.split(",")]
    if not all(named) or queue in named or any(OPERATORS & set(word) for word in named):
        return ""
    return f"as it is, {queue} never gets it: it asks for -q {request.own_queues}"


def _is_let_in(owner: str, groups: Set[str], people: tuple[str, ...]) -> bool:
    return owner in people or any(f"@{group}" in people for group in groups)


def _matches(pattern: str, environments: tuple[str, ...]) -> bool:
    """Say whether a name, or a pattern, is one of these (sge_types(1), wildcards)."""
    return any(fnmatchcase(name, pattern) for name in environments)
