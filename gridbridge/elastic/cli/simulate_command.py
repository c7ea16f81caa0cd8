"""gridbridge simulate: what a cluster's tasks would have waited and cost by other rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
from click.core import ParameterSource

from gridbridge.cli import output
from gridbridge.cli.options import JSON, FiniteNumber, Option, all_of
from gridbridge.cli.plots import plot_file
from gridbridge.elastic.simulation import replay_report as service
from gridbridge.elastic.simulation.synthetic_workload import WorkloadDistribution
from gridbridge.model.elastic.balance_sections import Demand
from gridbridge.model.elastic.replay_outcome import (
    BadLine,
    NodeTerms,
    ReplayOutcome,
    ReplayRules,
    Workload,
)
from gridbridge.model.status_report import count

DAY = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])
TOLD_LINES = 5
OF_MADE_UP = {"days": "--days", "tasks_a_day": "--tasks-a-day", "load": "--load"}
OF_FILE = {"begin": "--from", "end": "--to"}
HEAD = (
    *("policy", "wait", "P50", "P95", "beyond boot", "late"),
    *("node-hours", "cost", "kWh", "nodes", "used"),
)


def _number(name: str, usual: float, kind: click.IntRange | FiniteNumber, means: str) -> Option:
    return click.option(name, type=kind, default=usual, show_default=True, help=means)


OPTIONS = (
    click.option("--accounting", "path", metavar="FILE", help="Replay what this file tells."),
    click.option(
        "--synthetic",
        "seeds",
        metavar="SEED",
        multiple=True,
        help="Replay a made-up week; the same word gives the same one. May be repeated.",
    ),
    click.option(
        "--policy",
        "policies",
        type=click.Choice([one.value for one in ReplayRules]),
        multiple=True,
        help="Compare this one; may be repeated. Without it: all of them.",
    ),
    click.option(
        "--sweep", "is_swept", is_flag=True, help="Try other settings of each policy too."
    ),
    click.option(
        "--plot",
        metavar="FILE",
        callback=plot_file.named,
        help="Draw the nodes and what waits, or the sweep: .png, .svg ...",
    ),
    _number("--max-nodes", 20, click.IntRange(1, 10000), "The most nodes of the cluster."),
    _number("--min-nodes", 1, click.IntRange(0, 10000), "The least."),
    _number("--slots", 8, click.IntRange(1, 10000), "The slots of a node."),
    _number(
        "--boot-s", 300.0, FiniteNumber(0, 86400), "How long a node takes until it runs tasks."
    ),
    _number("--price", 1.0, FiniteNumber(0, 1e6), "What a node costs an hour."),
    _number("--watts", 300.0, FiniteNumber(0, 1e6), "What a node needs while it is on."),
    _number("--billing-s", 1.0, FiniteNumber(1, 86400), "What is paid for at once."),
    _number(
        "--idle-timeout-s",
        300.0,
        FiniteNumber(0, 2592000),
        "Policy demand removes a node that was idle for so long.",
    ),
    _number(
        "--target-wait-s",
        0.0,
        FiniteNumber(0, 2592000),
        "Policy demand adds nothing for what is done in this and a boot.",
    ),
    click.option("--spread", "is_spread", is_flag=True, help="Tasks go to the emptiest node."),
    click.option("--from", "begin", type=DAY, help="Of FILE only what was submitted since (UTC)."),
    click.option("--to", "end", type=DAY, help="Of FILE only what was submitted before (UTC)."),
    _number("--days", 7.0, FiniteNumber(0.01, 3660), "How long a made-up workload is."),
    _number("--tasks-a-day", 1000.0, FiniteNumber(1, 1e6), "How many tasks it has."),
    _number("--load", 0.5, FiniteNumber(0.01, 1), "Which part of all slots it uses."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """What a command line says."""

    path: str | None
    seeds: tuple[str, ...]
    policies: tuple[str, ...]
    is_swept: bool
    plot: str | None
    max_nodes: int
    min_nodes: int
    slots: int
    boot_s: float
    price: float
    watts: float
    billing_s: float
    idle_timeout_s: float
    target_wait_s: float
    is_spread: bool
    begin: datetime | None
    end: datetime | None
    days: float
    tasks_a_day: float
    load: float

    @property
    def terms(self) -> NodeTerms:
        """On what nodes it is replayed."""
        return NodeTerms(
            max_nodes=self.max_nodes,
            min_nodes=self.min_nodes,
            slots=self.slots,
            boot_s=self.boot_s,
            price=self.price,
            watts=self.watts,
            is_spread=self.is_spread,
        )

    @property
    def demand(self) -> Demand:
        """The settings of policy demand."""
        return Demand(
            billing_s=self.billing_s,
            idle_timeout_s=self.idle_timeout_s,
            target_wait_s=self.target_wait_s,
            stuck_after_s=0.0,  # tasks start at once here where there is room
        )

    def made_up(self, seed: str) -> WorkloadDistribution:
        """Return what workload is made up of a seed."""
        return WorkloadDistribution(
            seed=seed,
            days=self.days,
            tasks_a_day=self.tasks_a_day,
            node_slots=self.slots,
            load=self.load,
            slots=self.max_nodes * self.slots,
        )


@click.command()
@all_of(OPTIONS)
@JSON
def simulate(is_json: bool, **given: Any) -> None:
    """Replay what a cluster ran, by other rules, and show what would have been waited and paid.

    FILE is Grid Engine's accounting file, or one in the Standard Workload Format; gzip or xz may
    have packed it. Its tasks are run again, event by event, on nodes with --slots slots that take
    --boot-s to boot, cost --price an hour (--billing-s is paid for at once) and need --watts; a
    round of the balancer decides each minute where something changed, by the code of `gridbridge
    balance`. Policies: demand, starcluster, azge (CycleCloud's rule), squeeze (idle nodes rest
    while a reserve is free) and always-on. Waits that free slots don't explain (holds,
    dependencies) and lines that are no task are left out and counted. Exit status: 0; 2 nothing to
    replay, or a wrong option.

    \b
    Example:
      gridbridge simulate --accounting /opt/sge/default/common/accounting --max-nodes 40
      gridbridge simulate --synthetic ash --policy demand --sweep --plot ash.png
    """
    asked = SimulateOptions(**given)
    _require_fit(click.get_current_context(), asked)
    if asked.plot:
        plot_file.require_room(asked.plot)
    found = _compared(asked)
    _show(found, is_json)
    if asked.plot:
        from gridbridge.elastic.cli import replay_plots  # half a second

        output.complain(f"gridbridge: {replay_plots.draw(found, asked.plot)} is written")


def _compared(given: SimulateOptions) -> list[service.PolicyComparison]:
    """Replay the file, or each made-up workload."""
    rules = [ReplayRules(one) for one in dict.fromkeys(given.policies)] or list(ReplayRules)
    workloads = dict[str, Workload]()
    if given.path:
        workloads[given.path] = service.from_file(
            given.path, _seconds(given.begin), _seconds(given.end)
        )
        _complain(given.path, workloads[given.path].bad_lines)
    for seed in dict.fromkeys(given.seeds):
        workloads[seed] = service.made(given.made_up(seed))
    return [
        service.compared(name, one, given.terms, rules, given.demand, is_swept=given.is_swept)
        for name, one in workloads.items()
    ]


def _require_fit(context: click.Context, given: SimulateOptions) -> None:
    """Refuse options that contradict each other, or are about the other kind of workload."""
    is_file = bool(given.path)
    if is_file == bool(given.seeds) or "" in given.seeds:
        raise click.UsageError(
            "nothing to replay, or both; expected --accounting FILE or --synthetic SEED"
        )
    if given.min_nodes > given.max_nodes:
        words = f"--min-nodes {given.min_nodes} is more than --max-nodes {given.max_nodes}"
        raise click.UsageError(words)
    others = OF_MADE_UP if is_file else OF_FILE
    right = (
        "--synthetic; --from and --to say which tasks of a file"
        if is_file
        else "--accounting; --days says how long a made-up workload is"
    )
    for name, option in others.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} needs {right}")


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.replace(tzinfo=UTC).timestamp()


def _complain(path: str, bad: Mapping[int, BadLine]) -> None:
    """Tell what is wrong with the lines that are left out, each fault in a line."""
    for why in BadLine:
        if numbers := [number for number, fault in bad.items() if fault is why]:
            some = f"{count(len(numbers), 'line')} with {why.value}"
            are = "are" if len(numbers) > 1 else "is"
            shown = ", ".join(map(str, numbers[:TOLD_LINES]))
            more = ", ..." if len(numbers) > TOLD_LINES else ""
            output.complain(f"gridbridge: {path}: {some} {are} left out: {shown}{more}")


def _show(found: list[service.PolicyComparison], is_json: bool) -> None:
    if is_json:
        output.as_json([_plain(one) for one in found])
        return
    for number, one in enumerate(found):
        if number:
            output.line()
        output.line(_sentence(one))
        best = {id(each) for each in one.frontier}
        rows = [_row(each, is_best=id(each) in best) for each in one.outcomes]
        output.table(HEAD, rows, numbers=HEAD[1:])
        if one.frontier:
            output.line("*: no other is both cheaper and waits less")


def _sentence(one: service.PolicyComparison) -> str:
    told = [count(len(one.workload.tasks), "task")]
    told.extend(f"{count} {why.value}" for why, count in sorted(one.workload.left_out.items()))
    return f"{one.name}: {', '.join(told)}"


def _row(one: ReplayOutcome, *, is_best: bool) -> list[str]:
    name = f"{one.way.rules.value} {one.way.settings}".strip()
    times = (one.wait_mean_s, one.wait_p50_s, one.wait_p95_s, one.beyond_mean_s)
    return [
        f"{name} *" if is_best else name,
        *(f"{time:.0f} s" for time in times),
        str(one.late),
        f"{one.node_hours:.1f}",
        f"{one.cost:.2f}",
        f"{one.energy_kwh:.1f}",
        str(one.most_nodes),
        f"{100 * one.used:.0f} %",
    ]


def _plain(one: service.PolicyComparison) -> dict[str, object]:
    best = {id(each) for each in one.frontier}
    return {
        "workload": one.name,
        "tasks": len(one.workload.tasks),
        "left_out": {why.value: count for why, count in sorted(one.workload.left_out.items())},
        "bad_lines": list(one.workload.bad_lines),
        "outcomes": [
            _plain_outcome(each) | ({"is_best": id(each) in best} if one.frontier else {})
            for each in one.outcomes
        ],
    }


def _plain_outcome(one: ReplayOutcome) -> dict[str, object]:
    return {
        "policy": one.way.rules.value,
        "settings": one.way.settings,
        "waits_counted": one.counted,
        "wait_mean_s": round(one.wait_mean_s, 1),
        "wait_p50_s": round(one.wait_p50_s, 1),
        "wait_p95_s": round(one.wait_p95_s, 1),
        "beyond_boot_mean_s": round(one.beyond_mean_s, 1),
        "late": one.late,
        "node_hours": round(one.node_hours, 2),
        "paid_hours": round(one.paid_hours, 2),
        "cost": round(one.cost, 2),
        "energy_kwh": round(one.energy_kwh, 2),
        "most_nodes": one.most_nodes,
        "added": one.added,
        "removed": one.removed,
        "rounds": one.rounds,
        "used": round(one.used, 4),
    }
