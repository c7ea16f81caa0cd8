"""The commands `gridbridge balance status`, `explain`, `drain`, `keep`, `history` and `tag`."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import (
    CONFIG_FILE,
    FROM,
    JSON,
    config_path_unless_from_folder,
    exit_75_without_cluster_answer,
    format_local_time,
)
from gridbridge.elastic.balancer import squeeze_preview as service
from gridbridge.errors import StateError
from gridbridge.model.elastic.elastic_nodes import (
    AdministratorNodeRequestKind,
    BalancerOwnedNode,
    ElasticNodeState,
    HostJoinStep,
)
from gridbridge.model.elastic.published_balance import BalancerJobOrHostExplanation, BalancerStateOverview
from gridbridge.model.published_status_and_reports import number_with_noun

UNKNOWN = 1
COMING = tuple(state for state in ElasticNodeState if state.is_coming)
HEAD = ("node", "state", "since", "pool", "machine", "idle since", "why")


@click.command()
@JSON
def status(is_json: bool) -> None:
    """Show the nodes that the balancer owns, and pools whose nodes failed.

    Only root and gridbridge-admin see the nodes. Exit status: 0; 2 for another user, or before the first round.

    \b
    Example:
      gridbridge balance status
    """
    from gridbridge.elastic.balancer import administrator_alerts_and_requests  # loading takes a quarter of a second

    now = datetime.now(UTC)
    overview = administrator_alerts_and_requests.read_balancer_state_overview(now)
    if is_json:
        output_and_errors.print_json(_balancer_overview_as_json(overview))
        return
    rows = [_balancer_node_table_row(node, dict(overview.asked), now) for node in overview.nodes]
    if rows:
        output_and_errors.print_table(HEAD, rows)
    else:
        output_and_errors.print_line("the balancer manages no node")
    for pool, record in overview.pools:
        if record.failures:
            at = format_local_time(record.failed_at, now)
            output_and_errors.print_line(
                f"pool {pool}: {number_with_noun(record.failures, 'node')} in a row failed, the last at {at}"
            )
    output_and_errors.print_line(
        f"last round {format_local_time(overview.last_round, now)}, spent this month {overview.spent:.2f}"
    )


@click.command()
@click.argument("what", metavar="JOB|HOST")
@FROM
@CONFIG_FILE
@JSON
def explain(what: str, folder: str, path: str, is_json: bool) -> None:
    """Explain whether nodes are added for a job, or why a host stays.

    The command queries the cell, or reads FOLDER, as `gridbridge balance plan` does. Root and
    gridbridge-admin see more about nodes.
    Exit status: 0; 1 no such job waits, or the host is unknown; 2 wrong usage; 75 the cell gave no
    complete answer.

    \b
    Example:
      gridbridge balance explain 17
      gridbridge balance explain alpha-n7
    """
    from gridbridge.elastic.balancer import administrator_alerts_and_requests
    from gridbridge.elastic.balancer import balance_preview as service

    path = config_path_unless_from_folder(folder, path)
    now = datetime.now(UTC)
    nodes: tuple[BalancerOwnedNode, ...] = ()
    with suppress(StateError):
        nodes = () if folder else administrator_alerts_and_requests.read_balancer_state_overview(now).nodes
    explanation = exit_75_without_cluster_answer(
        lambda: service.explain_balance_of_job_or_host(what, now, nodes, folder, path)
    )
    for unseen in explanation.unseen:
        output_and_errors.print_error(unseen)
    _print_balance_explanation(explanation, now, is_json=is_json)
    if not explanation.is_known:
        raise SystemExit(UNKNOWN)


@click.command()
@click.argument("host")
@JSON
def drain(host: str, is_json: bool) -> None:
    """Drain a node: no further task starts on the node, and the balancer removes the empty node.

    The balancer's next round begins the drain; a node that still joins is drained when ready.
    `gridbridge balance keep` ends the drain. Only root and gridbridge-admin may drain a node.
    Exit status: 0; 2 an error, for example a host that is no node of the balancer.

    \b
    Example:
      gridbridge balance drain alpha-n7
    """
    words = {
        **dict.fromkeys(ElasticNodeState, "gets no further task from the next round on"),
        **dict.fromkeys(COMING, "still joins the cluster, and is drained when ready"),
        ElasticNodeState.STANDBY: "is off, and stays off; a node of a pool is removed",
        ElasticNodeState.FAILED: "has failed, and is removed in any case",
    }
    _record_and_print_node_request(host, AdministratorNodeRequestKind.DRAIN, words, is_json=is_json)


@click.command()
@click.argument("host")
@click.option("--free", "is_freed", is_flag=True, help="Allow the node's removal again.")
@JSON
def keep(host: str, is_freed: bool, is_json: bool) -> None:
    """Keep a node, however long the node is idle.

    A node that a round is removing at this moment may still be removed: the log then has
    `event=kept_too_late`. Only root and gridbridge-admin may keep a node.
    Exit status: 0; 2 an error, for example a host that is no node of the balancer, or a node that
    is being removed.

    \b
    Example:
      gridbridge balance keep alpha-n7
      gridbridge balance keep --free alpha-n7
    """
    begins = "may be removed again" if is_freed else "is kept"
    words = dict.fromkeys(ElasticNodeState, f"{begins} from the next round on")
    if not is_freed:
        words[ElasticNodeState.DRAINING] = "is being removed, and is kept if still in the cluster at the next round"
    request = AdministratorNodeRequestKind.FREE if is_freed else AdministratorNodeRequestKind.KEEP
    _record_and_print_node_request(host, request, words, is_json=is_json)


@click.command()
@click.option(
    *("-n", "--count"),
    default=20,
    show_default=True,
    type=click.IntRange(1, 10000),
    help="Show at most this many rounds.",
)
@JSON
def history(count: int, is_json: bool) -> None:
    """Show the last rounds that changed nodes: number, time, acts and reasons.

    `gridbridge replay --balancer NUMBER` repeats the decision of a round. Only root and gridbridge-admin
    see the rounds. Exit status: 0; 2 for another user, or before the first round that changed nodes.

    \b
    Example:
      gridbridge balance history -n 5
    """
    from gridbridge.elastic.balancer import administrator_alerts_and_requests

    decisions = administrator_alerts_and_requests.load_last_node_changing_rounds(count)
    if is_json:
        rows = [
            {"number": decision.number, "at": decision.at.isoformat(), "sentence": decision.sentence}
            for decision in decisions
        ]
        output_and_errors.print_json(rows)
        return
    now = datetime.now(UTC)
    for decision in decisions:
        output_and_errors.print_line(f"{decision.number}  {format_local_time(decision.at, now)}  {decision.sentence}")


def _record_and_print_node_request(
    host: str, request: AdministratorNodeRequestKind, words: Mapping[ElasticNodeState, str], *, is_json: bool
) -> None:
    from gridbridge.elastic.balancer import administrator_alerts_and_requests

    node = administrator_alerts_and_requests.record_node_change_request(host, request)
    if is_json:
        output_and_errors.print_json({"host": node.name, "state": node.state.value, "wish": request.value})
        return
    output_and_errors.print_line(f"{node.name} {words[node.state]}")


def _print_balance_explanation(explanation: BalancerJobOrHostExplanation, now: datetime, *, is_json: bool) -> None:
    if is_json:
        node = _balancer_node_as_json(explanation.node) if explanation.node else None
        plain = {"what": explanation.what, "reason": explanation.reason, "sentence": explanation.sentence, "node": node}
        output_and_errors.print_json({**plain, "unseen": list(explanation.unseen)})
        return
    if explanation.node:
        since = format_local_time(explanation.node.since, now)
        state, pool = explanation.node.state.value, explanation.node.pool
        output_and_errors.print_line(f"{explanation.what} of pool {pool} is {state} since {since}")
    output_and_errors.print_line(f"{explanation.what}: {explanation.reason}")
    output_and_errors.print_line(f"the plan now: {explanation.sentence}")


def _balancer_node_table_row(node: BalancerOwnedNode, requests: dict[str, str], now: datetime) -> tuple[str, ...]:
    why = node.cause.value or ("kept" if node.is_kept else _why_node_is_not_ready(node))
    request = f"asked: {requests[node.name]}" if node.name in requests else ""
    return (
        node.name,
        node.state.value,
        format_local_time(node.since, now),
        node.pool,
        node.machine or "-",
        format_local_time(node.idle_since, now),
        ", ".join(word for word in (why, request) if word),
    )


def _why_node_is_not_ready(node: BalancerOwnedNode) -> str:
    if node.state is ElasticNodeState.READY and node.step is HostJoinStep.CLOSED:
        return "a queue that somebody disabled stays disabled on the node"
    if node.state is not ElasticNodeState.JOINING:
        return ""
    is_host = node.step is HostJoinStep.ADMITTED
    return "the execution daemon has not reported yet" if is_host else "the node is not an execution host yet"


def _balancer_overview_as_json(overview: BalancerStateOverview) -> dict[str, object]:
    return {
        "nodes": [_balancer_node_as_json(node) for node in overview.nodes],
        "pools": [{"pool": pool, "failures": record.failures} for pool, record in overview.pools],
        "last_round": overview.last_round.isoformat() if overview.last_round else None,
        "spent": overview.spent,
        "asked": dict(overview.asked),
    }


def _balancer_node_as_json(node: BalancerOwnedNode) -> dict[str, object]:
    return {
        "name": node.name,
        "state": node.state.value,
        "since": node.since.isoformat(),
        "pool": node.pool,
        "machine": node.machine,
        "address": node.address,
        "idle_since": node.idle_since.isoformat() if node.idle_since else None,
        "kept": node.is_kept,
        "why": node.cause.value,
    }


SUFFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}").fullmatch
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,253}").fullmatch


@click.command()
@click.argument("host", metavar="HOST")
@click.argument("suffix", metavar="SUFFIX")
@click.option("--remove", is_flag=True, help="Remove the tag from the host.")
@CONFIG_FILE
@JSON
def tag(host: str, suffix: str, remove: bool, path: str, is_json: bool) -> None:
    """Tag a host with htools:standby:SUFFIX in the cell, so that a squeeze may switch the host on.

    Hosts are woken in the order of their suffixes: first numbers, then words. A squeeze writes and
    removes only the suffix `auto`; hosts with this suffix are woken last. Only managers of the cell
    may tag a host. Exit status: 0; 2 the cell refused the tag, or a wrong argument; 75 the cell
    gave no answer.

    \b
    Example:
      gridbridge balance tag n3 1
      gridbridge balance tag n3 1 --remove
    """
    if not HOST(host):
        raise click.BadParameter(f"{host!r}; expected the name of a host", param_hint="HOST")
    if not SUFFIX(suffix):
        right = "letters, digits, _, . and -, first a letter or digit"
        raise click.BadParameter(f"{suffix!r}; expected {right}", param_hint="SUFFIX")
    tags = exit_75_without_cluster_answer(
        lambda: service.change_standby_tag(host, suffix, is_wanted=not remove, path=path)
    )
    if is_json:
        output_and_errors.print_json({"host": host, "tags": list(tags)})
        return
    output_and_errors.print_line(f"{host}: {' '.join(tags) or 'no tags'}")
