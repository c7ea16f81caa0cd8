"""Observes the home cluster for a balancer round, or loads a situation that was saved in a folder."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gridbridge.decisions.elastic import node_acts_from_balance_plan
from gridbridge.decisions.elastic.clock_step_correction import limit_time_to_now
from gridbridge.decisions.elastic.node_costs_and_pool_choice import paused_pools
from gridbridge.elastic import balancer_round_queries, saved_balancer_round_folder
from gridbridge.errors import ClusterStateUnknown, StandardOutputUnwritable, StateError
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState
from gridbridge.model.fixed_paths import BALANCE_ENDS, BALANCE_STATE, PUBLISHED
from gridbridge.model.published_status_and_reports import PublishedClusterAnswer
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import local_host_facts
from gridbridge.state import published_json

if TYPE_CHECKING:
    from gridbridge.elastic.balancer_state_file import BalancerStateRows


STARTS_S = 30.0  # seconds until a transferred job starts: two scheduling intervals at home, one at the remote cluster
LATELY = timedelta(seconds=60)


def observe_balanced_cluster(
    policy: Policy, now: datetime, ends_path: str = BALANCE_ENDS, published: str = PUBLISHED
) -> BalanceSituation:
    """Return the home cluster's situation, in local time; raise ClusterStateUnknown if no answer comes."""
    printed = balancer_round_queries.query_raw_cell_status(policy, now)
    situation = balancer_round_queries.parse_balance_situation(
        *printed, where=policy.site.cluster, queue=policy.balance.queue
    )
    return _add_run_times_and_transfer_queues(replace(situation, local=now.astimezone()), policy, ends_path, published)


def _add_run_times_and_transfer_queues(
    situation: BalanceSituation, policy: Policy, ends_path: str, published: str
) -> BalanceSituation:
    sooner = dict(_transfer_queues_with_free_slots(policy, situation, published))
    runtimes = balancer_round_queries.read_stored_task_ends(ends_path).runtimes
    elsewhere = dict.fromkeys(sooner, STARTS_S)
    return replace(situation, runtimes=runtimes, elsewhere=elsewhere, elsewhere_free=sooner)


def observe_cluster_on_qmaster_host(policy: Policy, now: datetime, *, is_acting: bool) -> BalanceSituation:
    """Observe the home cluster for a round; an acting round must run on the qmaster's host.

    On another host it raises ClusterStateUnknown, because a shadow qmaster's balancer would add nodes as well.
    """
    situation = observe_balanced_cluster(policy, now)
    if is_acting and situation.master and not local_host_facts.is_this_host(situation.master):
        words = "only the qmaster's host adds and removes nodes"
        raise ClusterStateUnknown(
            f"the qmaster runs on {situation.master}, and not on {local_host_facts.this_host_name()}: {words}"
        )
    return situation


def _transfer_queues_with_free_slots(
    policy: Policy, situation: BalanceSituation, folder: str
) -> Iterator[tuple[str, int]]:
    """Yield each transfer queue that could start a task at once, with its number of free slots."""
    for name, queue in policy.queues.items():
        free_here = sum(
            instance.free_slots
            for instance in situation.cell.instances
            if instance.queue == name and instance.is_usable
        )
        remote = published_json.read_published_value(
            f"{folder}/{published_json.CLUSTERS}/{queue.cluster}.json", PublishedClusterAnswer
        )
        is_recent = remote and remote.taken_at is not None and abs(situation.now - remote.taken_at) <= LATELY
        if free_here and remote and is_recent and not remote.trouble and remote.pending == 0 and remote.free_slots:
            yield name, min(free_here, remote.free_slots)


def load_saved_balance_situation(folder: str, queue: str = balancer_round_queries.USUAL_QUEUE) -> BalanceSituation:
    """Load a round's situation from a folder; raises ClusterStateUnknown or ParseError if incomplete."""
    return balancer_round_queries.parse_balance_situation(
        *saved_balancer_round_folder.read_saved_balancer_round(folder), where=folder, queue=queue
    )


def save_balancer_round_inputs(policy: Policy, folder: str, now: datetime, published: str = PUBLISHED) -> None:
    """Save inputs; raise ClusterStateUnknown, or StandardOutputUnwritable for an unwritable folder."""
    outputs, saved_round = balancer_round_queries.query_raw_cell_status(policy, now)
    where, queue = policy.site.cluster, policy.balance.queue
    situation = balancer_round_queries.parse_balance_situation(outputs, saved_round, where, queue)
    situation = add_saved_balancer_state(situation, policy)
    situation = _add_run_times_and_transfer_queues(situation, policy, BALANCE_ENDS, published)
    saved_round = replace(saved_round, **{field.name: getattr(situation, field.name) for field in fields(saved_round)})
    try:
        saved_balancer_round_folder.write_saved_balancer_round(folder, outputs, saved_round)
    except OSError as error:
        raise StandardOutputUnwritable(f"{error.filename or folder}: {error.strerror}") from error
    except StateError as error:
        raise StandardOutputUnwritable(str(error)) from error


def is_balancer_state_unreadable(path: str = "") -> bool:
    path = path or BALANCE_STATE
    home = os.path.dirname(path)
    if not os.path.exists(home) or os.access(path, os.R_OK):
        return False
    return os.path.exists(path) or not os.access(home, os.X_OK)


def read_stored_balancer_nodes(path: str) -> tuple[BalancerOwnedNode, ...]:
    """Return the balancer's stored nodes; empty if the state file is unreadable."""
    if not os.access(path, os.R_OK):
        return ()
    with _open_balancer_state_file(path) as memory:
        return memory.nodes.load_all_nodes()


def add_saved_balancer_state(situation: BalanceSituation, policy: Policy, path: str = "") -> BalanceSituation:
    """Add stored facts and nodes to a situation; if squeeze is off, leave out ready hosts of the site."""
    path = path or BALANCE_STATE
    if not os.access(path, os.R_OK):
        return situation
    with _open_balancer_state_file(path) as memory:
        is_squeezed = policy.squeeze.enabled
        own = {host.provider for host in policy.powered.values() if not is_squeezed}
        nodes = tuple(
            node_acts_from_balance_plan.node_with_idle_time(node, situation.now)
            for node in memory.nodes.load_all_nodes()
            if node.pool not in own or node.state is not ElasticNodeState.READY
        )
        return replace(add_stored_balancer_facts(situation, memory, policy.balance, policy.demand), nodes=nodes)


@contextmanager
def _open_balancer_state_file(path: str) -> "Iterator[BalancerStateRows]":
    from gridbridge.elastic.balancer_state_file import BalancerStateRows
    from gridbridge.state.state_file import StateFile

    with closing(StateFile.open(f"sqlite:///{path}", is_unchanged=True)) as database:
        yield BalancerStateRows(database)


def add_stored_balancer_facts(
    situation: BalanceSituation, memory: "BalancerStateRows", rules: BalanceSection, demand: DemandPolicySection
) -> BalanceSituation:
    """Add all stored facts except nodes to a situation; stored times in the future are replaced by now."""
    able = (job for row in situation.cell.waiting if row.can_start for job in row.jobs)
    return replace(
        situation,
        last_change=limit_time_to_now(memory.last_node_change_time(), situation.now),
        eligible_since=memory.job_eligible_times(able, situation.now),
        watched=memory.job_histories(situation.now),
        failed=paused_pools(memory.pool_failure_records(situation.now), rules, demand.retry_s, situation.now),
        spent=memory.month_cost(situation.now),
    )
