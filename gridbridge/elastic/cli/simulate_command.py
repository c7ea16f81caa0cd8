"""The command `gridbridge simulate`, which replays recorded tasks by several policies."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import click
from click.core import ParameterSource

from gridbridge.cli import output_and_errors, plot_files
from gridbridge.cli.command_groups_and_options import JSON, FiniteNumberRange, Option, add_options_to_command
from gridbridge.elastic.simulation import replay_policy_comparison
from gridbridge.elastic.simulation.synthetic_workload import SyntheticWorkloadSettings
from gridbridge.model.elastic.balancer_config_sections import DemandPolicySection
from gridbridge.model.elastic.replay_tasks_and_results import (
    ComparedReplayRules,
    PolicyReplayResult,
    RecordedWorkload,
    ReplayNodePropertiesAndPrices,
    WorkloadLineFault,
)
from gridbridge.model.published_status_and_reports import number_with_noun

DAY = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])
TOLD_LINES = 5
OF_MADE_UP = {"days": "--days", "tasks_a_day": "--tasks-a-day", "load": "--load"}
OF_FILE = {"begin": "--from", "end": "--to"}
HEAD = (*("policy", "wait", "P50", "P95", "beyond boot", "late"), *("node-hours", "cost", "kWh", "nodes", "used"))


def _number_option(name: str, usual: float, kind: click.IntRange | FiniteNumberRange, means: str) -> Option:
    return click.option(name, type=kind, default=usual, show_default=True, help=means)


OPTIONS = (
    click.option("--accounting", "path", metavar="FILE", help="Replay the tasks in this file."),
    click.option(
        "--synthetic",
        "seeds",
        metavar="SEED",
        multiple=True,
        help="Replay a synthetic week; equal seeds give equal weeks. May be repeated.",
    ),
    click.option(
        "--policy",
        "policies",
        type=click.Choice([policy.value for policy in ComparedReplayRules]),
        multiple=True,
        help="Compare this policy; may be repeated. Default: all policies.",
    ),
    click.option("--sweep", "is_swept", is_flag=True, help="Replay each policy with several settings."),
    click.option(
        "--plot",
        metavar="FILE",
        callback=plot_files.require_image_file_suffix,
        help="Draw the nodes and waiting tasks, or the sweep, as .png, .svg ...",
    ),
    _number_option("--max-nodes", 20, click.IntRange(1, 10000), "Largest number of nodes of the cluster."),
    _number_option("--min-nodes", 1, click.IntRange(0, 10000), "Smallest number of nodes of the cluster."),
    _number_option("--slots", 8, click.IntRange(1, 10000), "The slots of a node."),
    _number_option("--boot-s", 300.0, FiniteNumberRange(0, 86400), "Seconds from a node's creation to its first task."),
    _number_option("--price", 1.0, FiniteNumberRange(0, 1e6), "The price of a node for an hour."),
    _number_option("--watts", 300.0, FiniteNumberRange(0, 1e6), "The power of a node that is on."),
    _number_option("--billing-s", 1.0, FiniteNumberRange(1, 86400), "The unit of paid time in seconds."),
    _number_option(
        "--idle-timeout-s",
        300.0,
        FiniteNumberRange(0, 2592000),
        "Policy demand removes a node after this idle time.",
    ),
    _number_option(
        "--target-wait-s",
        0.0,
        FiniteNumberRange(0, 2592000),
        "Policy demand adds no node if all tasks end within this time plus a node's boot time.",
    ),
    click.option("--spread", "is_spread", is_flag=True, help="Start tasks on the emptiest node."),
    click.option(
        "--from", "begin", type=DAY, help="Replay only tasks of FILE that were submitted at or after this time (UTC)."
    ),
    click.option("--to", "end", type=DAY, help="Replay only tasks of FILE that were submitted before this time (UTC)."),
    _number_option("--days", 7.0, FiniteNumberRange(0.01, 3660), "The days of a synthetic workload."),
    _number_option(
        "--tasks-a-day", 1000.0, FiniteNumberRange(1, 1e6), "The tasks that a synthetic workload has in a day."
    ),
    _number_option("--load", 0.5, FiniteNumberRange(0.01, 1), "The part of all slots that a synthetic workload uses."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySimulationOptions:
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
    def node_properties_and_prices(self) -> ReplayNodePropertiesAndPrices:
        return ReplayNodePropertiesAndPrices(
            **{field.name: getattr(self, field.name) for field in fields(ReplayNodePropertiesAndPrices)}
        )

    @property
    def demand_policy_section(self) -> DemandPolicySection:
        return DemandPolicySection(
            billing_s=self.billing_s,
            idle_timeout_s=self.idle_timeout_s,
            target_wait_s=self.target_wait_s,
            stuck_after_s=0.0,  # simulated tasks on free slots start at once
        )

    def synthetic_workload_settings(self, seed: str) -> SyntheticWorkloadSettings:
        return SyntheticWorkloadSettings(
            seed=seed,
            days=self.days,
            tasks_a_day=self.tasks_a_day,
            node_slots=self.slots,
            load=self.load,
            slots=self.max_nodes * self.slots,
        )


@click.command()
@add_options_to_command(OPTIONS)
@JSON
def simulate(is_json: bool, **arguments: Any) -> None:
    """Replay a cluster's past tasks by other policies, and show waiting times and costs.

    FILE is Grid Engine's accounting file, or a file in the Standard Workload Format, perhaps
    compressed by gzip or xz. The tasks run in a simulation on nodes with --slots slots, a boot time
    of --boot-s, a price of --price an hour (paid in units of --billing-s) and a power of --watts. A
    round of the balancer decides after each minute with a change, by the code of `gridbridge
    balance`. Policies: demand, starcluster, azge (CycleCloud's rule), squeeze (idle nodes are
    switched off while a reserve is free) and always-on. Waits that a lack of slots does not explain
    (holds, dependencies) and lines without a task are left out and counted.
    Exit status: 0; 2 no workload to replay, or a wrong option.

    \b
    Example:
      gridbridge simulate --accounting /opt/sge/default/common/accounting --max-nodes 40
      gridbridge simulate --synthetic ash --policy demand --sweep --plot ash.png
    """
    options = ReplaySimulationOptions(**arguments)
    _require_consistent_replay_options(click.get_current_context(), options)
    if options.plot:
        plot_files.require_writable_plot_path(options.plot)
    comparisons = _compare_replay_policies(options)
    _print_comparisons(comparisons, is_json)
    if options.plot:
        from gridbridge.elastic.cli import balance_and_replay_plots  # loading takes half a second

        balance_and_replay_plots.draw_replay_comparisons(comparisons, options.plot)
        output_and_errors.print_error(f"gridbridge: {options.plot} is written")


def _compare_replay_policies(options: ReplaySimulationOptions) -> list[replay_policy_comparison.ReplayPolicyComparison]:
    rules = [ComparedReplayRules(name) for name in dict.fromkeys(options.policies)] or list(ComparedReplayRules)
    workloads = dict[str, RecordedWorkload]()
    if options.path:
        workloads[options.path] = replay_policy_comparison.load_workload_to_replay(
            options.path, _seconds_since_1970(options.begin), _seconds_since_1970(options.end)
        )
        _report_bad_workload_lines(options.path, workloads[options.path].bad_lines)
    for seed in dict.fromkeys(options.seeds):
        workloads[seed] = replay_policy_comparison.generate_workload_to_replay(
            options.synthetic_workload_settings(seed)
        )
    return [
        replay_policy_comparison.compare_policies_by_replay(
            name,
            workload,
            options.node_properties_and_prices,
            rules,
            options.demand_policy_section,
            is_swept=options.is_swept,
        )
        for name, workload in workloads.items()
    ]


def _require_consistent_replay_options(context: click.Context, options: ReplaySimulationOptions) -> None:
    is_file = bool(options.path)
    if is_file == bool(options.seeds) or "" in options.seeds:
        raise click.UsageError("expected one workload, --accounting FILE or --synthetic SEED")
    if options.min_nodes > options.max_nodes:
        words = f"--min-nodes {options.min_nodes} is more than --max-nodes {options.max_nodes}"
        raise click.UsageError(words)
    misplaced, right = (
        (OF_MADE_UP, "--synthetic; a file takes --from and --to")
        if is_file
        else (OF_FILE, "--accounting; a synthetic workload takes --days")
    )
    for name, option in misplaced.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} needs {right}")


def _seconds_since_1970(at: datetime | None) -> float | None:
    return None if at is None else at.replace(tzinfo=UTC).timestamp()


def _report_bad_workload_lines(path: str, bad: Mapping[int, WorkloadLineFault]) -> None:
    """Report the invalid lines of a workload file, a message for each kind of fault."""
    for why in WorkloadLineFault:
        if numbers := [number for number, fault in bad.items() if fault is why]:
            faulty = f"{number_with_noun(len(numbers), 'line')} with {why.value}"
            are = "are" if len(numbers) > 1 else "is"
            shown = ", ".join(map(str, numbers[:TOLD_LINES]))
            more = ", ..." if len(numbers) > TOLD_LINES else ""
            output_and_errors.print_error(f"gridbridge: {path}: {faulty} {are} left out: {shown}{more}")


def _print_comparisons(comparisons: list[replay_policy_comparison.ReplayPolicyComparison], is_json: bool) -> None:
    if is_json:
        output_and_errors.print_json([_replay_comparison_as_json(comparison) for comparison in comparisons])
        return
    for number, comparison in enumerate(comparisons):
        if number:
            output_and_errors.print_line()
        output_and_errors.print_line(_describe_replay_workload(comparison))
        best = {id(outcome) for outcome in comparison.frontier}
        rows = [_replay_outcome_table_row(outcome, is_best=id(outcome) in best) for outcome in comparison.outcomes]
        output_and_errors.print_table(HEAD, rows, numbers=HEAD[1:])
        if comparison.frontier:
            output_and_errors.print_line("*: no other setting has both lower cost and shorter waits")


def _describe_replay_workload(comparison: replay_policy_comparison.ReplayPolicyComparison) -> str:
    parts = [number_with_noun(len(comparison.workload.tasks), "task")]
    parts.extend(f"{count} {why.value}" for why, count in sorted(comparison.workload.left_out.items()))
    return f"{comparison.name}: {', '.join(parts)}"


def _replay_outcome_table_row(outcome: PolicyReplayResult, *, is_best: bool) -> list[str]:
    name = f"{outcome.way.rules.value} {outcome.way.settings}".strip()
    times = (outcome.wait_mean_s, outcome.wait_p50_s, outcome.wait_p95_s, outcome.beyond_mean_s)
    return [
        f"{name} *" if is_best else name,
        *(f"{time:.0f} s" for time in times),
        str(outcome.late),
        f"{outcome.node_hours:.1f}",
        f"{outcome.cost:.2f}",
        f"{outcome.energy_kwh:.1f}",
        str(outcome.most_nodes),
        f"{100 * outcome.used:.0f} %",
    ]


def _replay_comparison_as_json(comparison: replay_policy_comparison.ReplayPolicyComparison) -> dict[str, object]:
    best = {id(outcome) for outcome in comparison.frontier}
    return {
        "workload": comparison.name,
        "tasks": len(comparison.workload.tasks),
        "left_out": {why.value: count for why, count in sorted(comparison.workload.left_out.items())},
        "bad_lines": list(comparison.workload.bad_lines),
        "outcomes": [
            _replay_outcome_as_json(outcome) | ({"is_best": id(outcome) in best} if comparison.frontier else {})
            for outcome in comparison.outcomes
        ],
    }


def _replay_outcome_as_json(outcome: PolicyReplayResult) -> dict[str, object]:
    return {
        "policy": outcome.way.rules.value,
        "settings": outcome.way.settings,
        "waits_counted": outcome.counted,
        "wait_mean_s": round(outcome.wait_mean_s, 1),
        "wait_p50_s": round(outcome.wait_p50_s, 1),
        "wait_p95_s": round(outcome.wait_p95_s, 1),
        "beyond_boot_mean_s": round(outcome.beyond_mean_s, 1),
        "late": outcome.late,
        "node_hours": round(outcome.node_hours, 2),
        "paid_hours": round(outcome.paid_hours, 2),
        "cost": round(outcome.cost, 2),
        "energy_kwh": round(outcome.energy_kwh, 2),
        "most_nodes": outcome.most_nodes,
        "added": outcome.added,
        "removed": outcome.removed,
        "rounds": outcome.rounds,
        "used": round(outcome.used, 4),
    }
