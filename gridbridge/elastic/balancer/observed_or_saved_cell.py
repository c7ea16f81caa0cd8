"""Observe the cell for a balancer round, or load a cell that was saved in a folder."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.elastic.acts import cell_queries, ended_tasks_from_accounting
from gridbridge.elastic.balancer import balancer_state_for_previews
from gridbridge.elastic.store import saved_round_folder
from gridbridge.errors import ClusterStateUnknown, StandardOutputUnwritable, StateError
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.fixed_paths import BALANCE_ENDS, PUBLISHED
from gridbridge.model.policy import Policy
from gridbridge.model.published import PublishedClusterAnswer
from gridbridge.shell import local_host_facts
from gridbridge.state import published_json

STARTS_S = 30.0  # start delay of a transferred job: two scheduler cycles at home, one remote
LATELY = timedelta(seconds=60)


def observe_balanced_cluster(
    policy: Policy, now: datetime, ends_path: str = BALANCE_ENDS, published: str = PUBLISHED
) -> BalanceSituation:
    """Return the situation of the site's own cluster; ClusterStateUnknown without an answer.

    Prices and schedules use this machine's time zone. Run times from the balancer and free slots
    from the poller are added if they are readable.
    """
    printed = cell_queries.query_raw_cell_status(policy, now)
    situation = cell_queries.parse_balance_situation(*printed, where=policy.site.cluster, queue=policy.balance.queue)
    sooner = list(_elsewhere(policy, situation, published))
    return replace(
        situation,
        local=now.astimezone(),
        runtimes=ended_tasks_from_accounting.read_stored_task_ends(ends_path).runtimes,
        elsewhere={queue: STARTS_S for queue, _ in sooner},
        elsewhere_free=dict(sooner),
    )


def observe_cluster_on_qmaster_host(policy: Policy, now: datetime, *, is_acting: bool) -> BalanceSituation:
    """Observe the cluster for a round; an acting round must run on the qmaster's host.

    A shadow qmaster's host may have a second balancer, and both would add nodes. So the balancer on
    any other host raises ClusterStateUnknown.
    """
    situation = observe_balanced_cluster(policy, now)
    if is_acting and situation.master and not local_host_facts.is_this_host(situation.master):
        words = "only there nodes are added and removed"
        raise ClusterStateUnknown(
            f"the qmaster runs on {situation.master}, and not on {local_host_facts.this_host_name()}: {words}"
        )
    return situation


def _elsewhere(policy: Policy, situation: BalanceSituation, folder: str) -> Iterator[tuple[str, int]]:
    """Yield each transfer queue that would start a task at once, with its free slots.

    The free slots come from the poller's published files, which must be less than a minute old.
    """
    for name, queue in policy.queues.items():
        free_here = sum(
            instance.free for instance in situation.cell.instances if instance.queue == name and instance.is_usable
        )
        remote = published_json.read_published_value(
            f"{folder}/{published_json.CLUSTERS}/{queue.cluster}.json", PublishedClusterAnswer
        )
        if free_here and remote and _is_open(remote, situation.now):
            yield name, min(free_here, remote.free_slots or 0)


def _is_open(remote: PublishedClusterAnswer, now: datetime) -> bool:
    is_known = remote.taken_at is not None and abs(now - remote.taken_at) <= LATELY
    return is_known and not remote.trouble and remote.pending == 0 and bool(remote.free_slots)


def load_saved_balance_situation(folder: str, queue: str = cell_queries.USUAL_QUEUE) -> BalanceSituation:
    """Load a round's situation from a folder; incomplete: ClusterStateUnknown or ParseError."""
    return cell_queries.parse_balance_situation(
        *saved_round_folder.read_saved_balancer_round(folder), where=folder, queue=queue
    )


def save_balancer_round_inputs(policy: Policy, folder: str, now: datetime, published: str = PUBLISHED) -> None:
    """Save a round's current inputs in a folder.

    Raises ClusterStateUnknown when the cell does not answer, and StandardOutputUnwritable when the
    folder can't be written.
    """
    documents, saved_round = cell_queries.query_raw_cell_status(policy, now)
    where, queue = policy.site.cluster, policy.balance.queue
    situation = balancer_state_for_previews.add_saved_balancer_state(
        cell_queries.parse_balance_situation(documents, saved_round, where, queue), policy
    )
    sooner = list(_elsewhere(policy, situation, published))
    saved_round = replace(
        saved_round,
        last_change=situation.last_change,
        nodes=situation.nodes,
        eligible_since=situation.eligible_since,
        watched=situation.watched,
        runtimes=ended_tasks_from_accounting.read_stored_task_ends(BALANCE_ENDS).runtimes,
        elsewhere={queue: STARTS_S for queue, _ in sooner},
        elsewhere_free=dict(sooner),
        failed=situation.failed,
        spent=situation.spent,
    )
    try:
        saved_round_folder.write_saved_balancer_round(folder, documents, saved_round)
    except OSError as error:
        raise StandardOutputUnwritable(f"{error.filename or folder}: {error.strerror}") from error
    except StateError as error:
        raise StandardOutputUnwritable(str(error)) from error
