"""Queries the home cluster for a balancer round, and parses the output of the status programs."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster, demand_reader_of_outputs
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.batch.gridengine.accounting_record_parser import parse_task_end_times
from gridbridge.errors import ClusterStateUnknown, ConfigError, GridbridgeError, ParseError, StateError
from gridbridge.model.elastic.balance_plan import BalanceSituation, SavedBalancerRoundInput
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState, is_same_host
from gridbridge.model.elastic.published_balance import (
    RecentlyEndedTasks,
    merge_tasks_ended_by_minute,
    update_learnt_run_times,
)
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import appended_file_lines, safe_files
from gridbridge.state import published_json

USUAL_QUEUE = BalanceSection().queue


def query_raw_cell_status(policy: Policy, now: datetime) -> tuple[dict[str, bytes], SavedBalancerRoundInput]:
    """Return the raw output of the home cluster's status programs, with the time and the master's host.

    Raises ClusterStateUnknown if a program does not answer, ConfigError if the balancer can't manage the cluster.
    """
    name = policy.site.cluster
    if not name:
        raise ConfigError(("[site] cluster is empty; expected the name of the home cluster",))
    cluster = configured_cluster_access(policy, name)
    reader = batch_adapter_of_cluster(cluster).reads_demand
    if reader is None:
        raise ConfigError((f"[cluster.{name}] kind: {cluster.kind}: the balancer can't manage clusters of this kind",))
    try:
        outputs, master = reader.query_demand_outputs(cluster)
    except GridbridgeError as error:
        raise ClusterStateUnknown(f"{name}: {error}") from error
    return outputs, SavedBalancerRoundInput(now=now, master=master)


def parse_balance_situation(
    outputs: Mapping[str, bytes], saved_round: SavedBalancerRoundInput, where: str, queue: str = USUAL_QUEUE
) -> BalanceSituation:
    """Parse the raw output of status programs; raises ClusterStateUnknown for invalid output.

    Its message begins with `where`. The slots of a cluster without queues count as slots of `queue`.
    """
    reader = demand_reader_of_outputs(outputs.__contains__)
    try:
        cell, layout = reader.parse_demand_outputs(outputs, saved_round.now.tzinfo or UTC, queue)
    except ParseError as error:
        raise ClusterStateUnknown(f"{where}: {error}") from error
    ready = [node.name for node in saved_round.nodes if node.state is ElasticNodeState.READY]
    if not cell.instances and any(is_same_host(name, host.name) for name in ready for host in cell.hosts):
        raise ClusterStateUnknown(f"{where}: no queue on any host, although the cell has ready nodes")
    saved_facts = {field.name: getattr(saved_round, field.name) for field in fields(saved_round)}
    return BalanceSituation(cell=cell, layout=layout, **saved_facts)


STEPS = 32  # limit of 8 MiB steps per round; 32 steps take three seconds


def read_stored_task_ends(path: str) -> RecentlyEndedTasks:
    """Return the stored record of recently ended tasks; the record is empty if no file is readable."""
    with suppress(StateError):
        return published_json.read_published_value(path, RecentlyEndedTasks) or RecentlyEndedTasks()
    return RecentlyEndedTasks()


def write_stored_task_ends(path: str, ends: RecentlyEndedTasks) -> None:
    """Store the record of recently ended tasks; raises StateError if this fails."""
    safe_files.replace_file_atomically(path, published_json.encode_published_value(ends), durable=False)


def add_task_ends_from_accounting(path: str, ends: RecentlyEndedTasks, now: datetime) -> RecentlyEndedTasks:
    """Add new lines of the accounting file to ended tasks; raise StateError for an unreadable file."""
    if not ends.place.inode and not os.path.exists(path):
        return ends
    for _ in range(STEPS):
        step = appended_file_lines.read_appended_lines(path, ends.place, now.timestamp())
        new_ends = tuple(parse_task_end_times(step.lines))
        ends = RecentlyEndedTasks(
            place=step.place,
            minutes=merge_tasks_ended_by_minute((*ends.minutes, *(end for end, _, _ in new_ends))),
            runs=update_learnt_run_times(ends.runs, ((owner, name, end.run_s) for end, owner, name in new_ends)),
        )
        if not step.is_more:
            break
    return ends
