"""gridbridge simulate: what a cluster's tasks would have waited and cost by other rules."""

from datetime import UTC, datetime

import click
from click.core import ParameterSource

from gridbridge.cli import output
from gridbridge.cli.options import JSON, Finite
from gridbridge.cli.plots import written
from gridbridge.model.elastic.replayed import Outcome, ReplayRules, Terms
from gridbridge.model.elastic.sections import Demand
from gridbridge.model.report import count
from gridbridge.services.elastic.simulation import compared as service
from gridbridge.services.elastic.simulation.synthetic import Asked

DAY = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])
TOLD_LINES = 5
OF_MADE_UP = {"days": "--days", "tasks_a_day": "--tasks-a-day", "load": "--load"}
OF_FILE = {"begin": "--from", "end": "--to"}
HEAD = (
    *("policy", "wait", "P50", "P95", "beyond boot", "late"),
    *("node-hours", "cost", "kWh", "nodes", "used"),
)


@click.command()
@click.option("--accounting", "path", metavar="FILE", help="Replay what this file tells.")
@click.option(
    "--synthetic",
    "seeds",
    metavar="SEED",
    multiple=True,
    help="Replay a made-up week; the same word gives the same one. May be repeated.",
)
@click.option(
    "--policy",
    "policies",
    type=click.Choice([one.value for one in ReplayRules]),
    multiple=True,
    help="Compare this one; may be repeated. Without it: all of them.",
)
@click.option("--sweep", "is_swept", is_flag=True, help="Try other settings of each policy too.")
@click.option(
    "--plot",
    metavar="FILE",
    callback=written.named,
    help="Draw the nodes and what waits, or the sweep: .png, .svg ...",
)
@click.option(
    "--max-nodes",
    type=click.IntRange(1, 10000),
    default=20,
    show_default=True,
    help="The most nodes of the cluster.",
)
@click.option(
    "--min-nodes", type=click.IntRange(0, 10000), default=1, show_default=True, help="The least."
)
@click.option(
    "--slots",
    type=click.IntRange(1, 10000),
    default=8,
    show_default=True,
    help="The slots of a node.",
)
@click.option(
    "--boot-s",
    type=Finite(0, 86400),
    default=300.0,
    show_default=True,
    help="How long a node takes until it runs tasks.",
)
@click.option(
    "--price",
    type=Finite(0, 1e6),
    default=1.0,
    show_default=True,
    help="What a node costs an hour.",
)
@click.option(
    "--watts",
    type=Finite(0, 1e6),
    default=300.0,
    show_default=True,
    help="What a node needs while it is on.",
)
@click.option(
    "--billing-s",
    type=Finite(1, 86400),
    default=1.0,
    show_default=True,
    help="What is paid for at once.",
)
@click.option(
    "--idle-timeout-s",
    type=Finite(0, 2592000),
    default=300.0,
    show_default=True,
    help="Policy demand removes a node that was idle for so long.",
)
@click.option(
    "--target-wait-s",
    type=Finite(0, 2592000),
    default=0.0,
    show_default=True,
    help="Policy demand adds nothing for what is done in this and a boot.",
)
@click.option("--spread", "is_spread", is_flag=True, help="Tasks go to the emptiest node.")
@click.option("--from", "begin", type=DAY, help="Of FILE only what was submitted since (UTC).")
@click.option("--to", "end", type=DAY, help="Of FILE only what was submitted before (UTC).")
@click.option(
    "--days",
    type=Finite(0.01, 3660),
    default=7.0,
    show_default=True,
    help="How long a made-up workload is.",
)
@click.option(
    "--tasks-a-day",
    type=Finite(1, 1e6),
    default=1000.0,
    show_default=True,
    help="How many tasks it has.",
)
@click.option(
    "--load",
    type=Finite(0.01, 1),
    default=0.5,
    show_default=True,
    help="Which part of all slots it uses.",
)
@JSON
def simulate(
    path: str | None,
    seeds: tuple[str, ...],
    policies: tuple[str, ...],
    is_swept: bool,
    plot: str | None,
    max_nodes: int,
    min_nodes: int,
    slots: int,
    boot_s: float,
    price: float,
    watts: float,
    billing_s: float,
    idle_timeout_s: float,
    target_wait_s: float,
    is_spread: bool,
    begin: datetime | None,
    end: datetime | None,
    days: float,
    tasks_a_day: float,
    load: float,
    is_json: bool,
) -> None:
    """Replay what a cluster ran, by other rules, and show what would have been waited and paid.

    FILE is Grid Engine's accounting file, or one in the Standard Workload Format. Its tasks are run
    again, event by event, on nodes with --slots slots that take --boot-s to boot, cost --price an
    hour (--billing-s is paid for at once) and need --watts; a round of the balancer decides each
    minute where something changed, by the code of `gridbridge balance`. Policies: demand,
    starcluster, azge (CycleCloud's rule), squeeze (idle nodes rest while a reserve is free) and
    always-on. Waits that free slots don't explain (holds, dependencies)
    and lines that are no task are left out and counted. Exit status: 0; 2 nothing to replay, or a
    wrong option.

    \b
    Example:
      gridbridge simulate --accounting /opt/sge/default/common/accounting --max-nodes 40
      gridbridge simulate --synthetic ash --policy demand --sweep --plot ash.png
    """
    if bool(path) == bool(seeds) or "" in seeds:
        raise click.UsageError("one of --accounting FILE and --synthetic SEED says what to replay")
    if min_nodes > max_nodes:
        raise click.UsageError(f"--min-nodes {min_nodes} is more than --max-nodes {max_nodes}")
    _require_fit(click.get_current_context(), is_file=bool(path))
    terms = Terms(
        max_nodes=max_nodes,
        min_nodes=min_nodes,
        slots=slots,
        boot_s=boot_s,
        price=price,
        watts=watts,
        is_spread=is_spread,
    )
    demand = Demand(
        billing_s=billing_s,
        idle_timeout_s=idle_timeout_s,
        target_wait_s=target_wait_s,
        stuck_after_s=0.0,  # tasks start at once here where there is room
    )
    rules = [ReplayRules(one) for one in dict.fromkeys(policies)] or list(ReplayRules)
    found = list[service.Compared]()
    if path:
        workload = service.from_file(path, _seconds(begin), _seconds(end))
        _complain(path, workload.bad_lines)
        found.append(service.compared(path, workload, terms, rules, demand, is_swept=is_swept))
    for seed in dict.fromkeys(seeds):
        asked = Asked(
            seed=seed,
            days=days,
            tasks_a_day=tasks_a_day,
            node_slots=slots,
            load=load,
            slots=max_nodes * slots,
        )
        made = service.made(asked)
        found.append(service.compared(seed, made, terms, rules, demand, is_swept=is_swept))
    _show(found, is_json)
    if plot:
        from gridbridge.cli.plots import replay  # half a second

        output.complain(f"gridbridge: {replay.draw(found, plot)} is written")


def _require_fit(context: click.Context, *, is_file: bool) -> None:
    """Refuse an option that is about the other kind of workload: it would change nothing."""
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


def _complain(path: str, bad: tuple[int, ...]) -> None:
    if bad:
        numbers = ", ".join(map(str, bad[:TOLD_LINES])) + (", ..." if len(bad) > TOLD_LINES else "")
        some = count(len(bad), "line")
        verb = "are" if len(bad) > 1 else "is"
        output.complain(f"gridbridge: {path}: {some} can't be read and {verb} left out: {numbers}")


def _show(found: list[service.Compared], is_json: bool) -> None:
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


def _sentence(one: service.Compared) -> str:
    told = [count(len(one.workload.tasks), "task")]
    told.extend(f"{count} {why.value}" for why, count in sorted(one.workload.left_out.items()))
    return f"{one.name}: {', '.join(told)}"


def _row(one: Outcome, *, is_best: bool) -> list[str]:
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


def _plain(one: service.Compared) -> dict[str, object]:
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


def _plain_outcome(one: Outcome) -> dict[str, object]:
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
