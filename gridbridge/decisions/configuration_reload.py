"""Which changes of gridbridge.toml a running service takes."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from gridbridge.model.places import CONFIG
from gridbridge.model.policy import Policy

ANEW = "only a new service takes that: end the poller when nothing is away"

AwayJob: TypeAlias = tuple[str, str, str]  # its owner, cluster and queue


def unchangeable(
    before: Policy, after: Policy, path: str = CONFIG, jobs_away: Iterable[AwayJob] = ()
) -> tuple[str, ...]:
    """Return the changes that a running service can't take, in lines like `policy_file.load`'s.

    Transfers bear the cluster's name, a site of embedded clusters has other rights, a process keeps
    its account, and another state file knows nothing of the jobs that are away. The account of a
    remote job tells whose it is, and the methods of the local job find it by the queue: both stay
    the same while the job is away.
    """
    stays = frozenset(jobs_away)
    fixed, accounts = _fixed(before, after, path), _accounts(before, after, path, stays)
    return (*fixed, *accounts, *_queues(before, after, path, stays))


def _fixed(before: Policy, after: Policy, path: str) -> tuple[str, ...]:
    changed = {
        "[site] cluster": (before.site.cluster, after.site.cluster),
        "[site] service_account": (before.site.service_account, after.site.service_account),
        "[site] state": (before.site.state, after.site.state),
        f"[cluster.{after.site.cluster}] kind": (_kind(before), _kind(after)),
    }
    return tuple(
        f'{path}: {key} = "{new}": the service has "{old}"; {ANEW}'
        for key, (old, new) in changed.items()
        if old != new
    )


def _kind(policy: Policy) -> str:
    return policy.local.kind.value if policy.local else "none"


def _accounts(before: Policy, after: Policy, path: str, jobs: Iterable[AwayJob]) -> Iterator[str]:
    """Return the accounts that would change while jobs run under the old ones."""
    for person, cluster in sorted({(person, cluster) for person, cluster, _ in jobs}):
        if cluster not in before.clusters or cluster not in after.clusters:
            continue
        old, new = (policy.clusters[cluster].users.account_of(person) for policy in (before, after))
        if old != new:
            yield (
                f'{path}: [cluster.{cluster}.users] {person} = "{new}": a job of {person} is there'
                f' as "{old}"; put that back, and change it when none is away'
            )


def _queues(before: Policy, after: Policy, path: str, jobs: Iterable[AwayJob]) -> Iterator[str]:
    """Return the queues that would lead elsewhere while their jobs are away."""
    for name, old in sorted({(queue, cluster) for _, cluster, queue in jobs}):
        if name not in before.queues or name not in after.queues:
            continue
        new = after.queues[name].cluster
        if new != old == before.queues[name].cluster:
            yield (
                f'{path}: [queue.{name}] cluster = "{new}": jobs of this queue are at "{old}";'
                f' put that back, and make another queue for "{new}"'
            )
