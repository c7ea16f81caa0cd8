"""Collects what the state files keep of the last days: queues of clusters, transfers, nodes of the balancer."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

from gridbridge.elastic.balancer import balance_journal
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT, BALANCE_STATE
from gridbridge.model.site_configuration import Policy
from gridbridge.shell.program_startup import acting_as_account
from gridbridge.state.cluster_query_tables import ClusterQueryLog, PastClusterQuery
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.transfer_history_rows import TransferRows

SQLITE = "sqlite:///"
MOST_DECISIONS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHistory:
    queries: Mapping[str, Sequence[PastClusterQuery]]  # by cluster
    in_progress: Mapping[str, Sequence[tuple[datetime, int]]]  # transfers in progress at each change, by queue


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCounts:
    """The balancer's nodes by state at a round that acted."""

    at: datetime
    nodes: Mapping[ElasticNodeState, int]


def read_queue_history(policy: Policy, since: datetime, now: datetime) -> QueueHistory:
    with (
        acting_as_account(policy.site.service_account),
        closing(StateFile.open(policy.site.state, is_unchanged=True)) as database,
    ):
        queries: dict[str, list[PastClusterQuery]] = defaultdict(list)
        for query in ClusterQueryLog(database).queries_since(since):
            queries[query.cluster].append(query)
        rows = TransferRows(database)
        spans: dict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
        for transfer in (*rows.transfers_closed_since(since), *rows.open_transfers()):
            spans[transfer.queue].append((max(since, transfer.created_at), transfer.closed_at or now))
    return QueueHistory(
        queries=queries, in_progress={queue: counts_over_time(spans[queue], since, now) for queue in sorted(spans)}
    )


def counts_over_time(
    spans: Iterable[tuple[datetime, datetime]], since: datetime, now: datetime
) -> list[tuple[datetime, int]]:
    """Return how many spans are open after each begin or end, from `since` to `now`."""
    changes = Counter[datetime]({since: 0, now: 0})
    for begin, end in spans:
        changes[begin] += 1
        changes[end] -= end < now  # what ends now is still open
    counts, count = [], 0
    for at in sorted(changes):
        count += changes[at]
        counts.append((at, count))
    return counts


def read_node_history(since: datetime, path: str = BALANCE_STATE) -> tuple[NodeCounts, ...]:
    """Return the nodes of each round that acted; between such rounds the balancer's own states of nodes stay."""
    url = f"{SQLITE}{path}"
    with acting_as_account(BALANCE_ACCOUNT), closing(StateFile.open(url, is_unchanged=True)) as database:
        decisions = DecisionJournal(database).last_decisions(MOST_DECISIONS)
    worlds = (
        (decision.at, decision.inputs.get("world"))
        for decision in decisions
        if decision.program == balance_journal.PROGRAM and decision.at >= since
    )
    return tuple(_node_counts(at, world) for at, world in worlds if isinstance(world, dict))


def _node_counts(at: datetime, world: Mapping[str, object]) -> NodeCounts:
    kept = world.get("kept")
    words = [node.get("state") for node in kept if isinstance(node, dict)] if isinstance(kept, list) else []
    known = {state.value: state for state in ElasticNodeState}
    return NodeCounts(at=at, nodes=Counter(known[str(word)] for word in words if word in known))
