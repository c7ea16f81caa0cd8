"""What a round looks at: a cell as it is, or as somebody saved it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.elastic.acts import cell_queries
from gridbridge.elastic.balancer import round_state_reader
from gridbridge.elastic.store import recent_ends, saved_round_folder
from gridbridge.errors import NotSeen, OutputError, StateError
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.places import BALANCE_ENDS, PUBLISHED
from gridbridge.model.policy import Policy
from gridbridge.model.published import ShownCluster
from gridbridge.shell import host
from gridbridge.state import published_json

STARTS_S = 30.0  # a transferred job: two cycles of home's scheduler, and one there
LATELY = timedelta(seconds=60)


def look(
    policy: Policy, now: datetime, ends_path: str = BALANCE_ENDS, published: str = PUBLISHED
) -> BalanceSituation:
    """Return the site's own cluster as it is now; NotSeen when it does not tell.

    Prices and schedules go by the zone of this machine. What the balancer knows of run times, and
    what the poller publishes of other clusters, is taken as far as it can be read.
    """
    printed = cell_queries.printed(policy, now)
    situation = cell_queries.situation(
        *printed, where=policy.site.cluster, queue=policy.balance.queue
    )
    sooner = list(_elsewhere(policy, situation, published))
    return replace(
        situation,
        local=now.astimezone(),
        runtimes=recent_ends.read(ends_path).runtimes,
        elsewhere={queue: STARTS_S for queue, _ in sooner},
        elsewhere_free=dict(sooner),
    )


def looked(policy: Policy, now: datetime, *, is_acting: bool) -> BalanceSituation:
    """Look for a round; NotSeen for one that would act on another host than the qmaster's.

    Where a qmaster may move to another host both have a balancer, and each would buy what is
    wanted: that of the other host waits.
    """
    situation = look(policy, now)
    if is_acting and situation.master and not host.is_here(situation.master):
        words = "only there nodes are added and removed"
        raise NotSeen(f"the qmaster runs on {situation.master}, and not on {host.name()}: {words}")
    return situation


def _elsewhere(
    policy: Policy, situation: BalanceSituation, folder: str
) -> Iterator[tuple[str, int]]:
    """Return the transfer queues that would start a task at once, with the slots that are free.

    That is what the poller knows of their clusters, if it knows it since a minute at most.
    """
    for name, queue in policy.queues.items():
        free_here = sum(
            instance.free
            for instance in situation.cell.instances
            if instance.queue == name and instance.is_usable
        )
        remote = published_json.read(
            f"{folder}/{published_json.CLUSTERS}/{queue.cluster}.json", ShownCluster
        )
        if free_here and remote and _is_open(remote, situation.now):
            yield name, min(free_here, remote.free_slots or 0)


def _is_open(remote: ShownCluster, now: datetime) -> bool:
    is_known = remote.taken_at is not None and abs(now - remote.taken_at) <= LATELY
    return is_known and not remote.trouble and remote.pending == 0 and bool(remote.free_slots)


def look_at(folder: str, queue: str = cell_queries.USUAL_QUEUE) -> BalanceSituation:
    """Return what a folder tells; NotSeen or ParseError for one that is no whole answer."""
    return cell_queries.situation(*saved_round_folder.read(folder), where=folder, queue=queue)


def save(policy: Policy, folder: str, now: datetime, published: str = PUBLISHED) -> None:
    """Save what a round looks at now in a folder; NotSeen, or OutputError when it can't be."""
    documents, saved_round = cell_queries.printed(policy, now)
    where, queue = policy.site.cluster, policy.balance.queue
    situation = round_state_reader.filled(
        cell_queries.situation(documents, saved_round, where, queue), policy
    )
    sooner = list(_elsewhere(policy, situation, published))
    saved_round = replace(
        saved_round,
        last_change=situation.last_change,
        nodes=situation.nodes,
        eligible_since=situation.eligible_since,
        watched=situation.watched,
        runtimes=recent_ends.read(BALANCE_ENDS).runtimes,
        elsewhere={queue: STARTS_S for queue, _ in sooner},
        elsewhere_free=dict(sooner),
        failed=situation.failed,
        spent=situation.spent,
    )
    try:
        saved_round_folder.write(folder, documents, saved_round)
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: {error.strerror}") from error
    except StateError as error:
        raise OutputError(str(error)) from error
