"""The program gridbridge-balance, which adds nodes to the home cluster and removes nodes."""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gridbridge.cli import command_groups_and_options, output_and_errors
from gridbridge.elastic.cli.balance_plan_and_plot import (
    RULES,
    balance_plan_report_as_json,
    option_name_spellings,
    plot_balancer_statistics_file,
)
from gridbridge.errors import ClusterStateUnknown, ConfigError, GridbridgeError
from gridbridge.model.elastic.published_balance import BalancePlanReport
from gridbridge.model.fixed_paths import BALANCE_PLOTS, BALANCE_STATS
from gridbridge.shell.log_file_reopening_and_line_limits import prefix_lines_with_time

if TYPE_CHECKING:
    from gridbridge.elastic.balancer.balancer_daemon import BalancerRunOptions
    from gridbridge.elastic.balancer.balancer_round_decision import BalancerRoundPlan
    from gridbridge.model.site_configuration import Policy
    from gridbridge.shell.log_file_reopening_and_line_limits import StreamLogFile


def _absolute_option_path(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Return an option's path as an absolute path, because rounds run in folder /."""
    named = command_groups_and_options.refuse_empty_option_value(ctx, option, value)
    return None if named is None else os.path.abspath(named)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("cluster", default="", metavar="[CLUSTER]")
@command_groups_and_options.add_options_to_command(RULES)
@click.option(
    *("-i", *option_name_spellings("interval"), "interval_s"),
    type=command_groups_and_options.FiniteNumberRange(min=5),
    help="Seconds between two rounds of --loop.",
)
@click.option(
    *("-l", *option_name_spellings("lookback_window"), "lookback_min"),
    type=command_groups_and_options.FiniteNumberRange(min=1),
    default=180.0,
    show_default=True,
    help="Average over jobs that ended in the last so many minutes.",
)
@click.option(
    *("-K", *option_name_spellings("kill_master"), *option_name_spellings("kill_cluster"), "kills_master"),
    is_flag=True,
    help="Destroy the master's machine, too, when no node and no task is left.",
)
@click.option(
    "-d", *option_name_spellings("dump_stats"), "dumps", is_flag=True, help="Write a row of statistics each round."
)
@click.option(
    *("-D", *option_name_spellings("dump_stats_file"), "stats"),
    metavar="FILE",
    callback=_absolute_option_path,
    help=f"Write the statistics into this file [{BALANCE_STATS}].",
)
@click.option("-p", *option_name_spellings("plot_stats"), "plots", is_flag=True, help="Draw plots of the statistics.")
@click.option(
    *("-P", *option_name_spellings("plot_output_dir"), "folder"),
    metavar="FOLDER",
    callback=_absolute_option_path,
    help=f"Write the plots into this folder [{BALANCE_PLOTS}].",
)
@click.option("--apply", "is_applied", is_flag=True, help="Add and remove nodes.")
@click.option("--loop", "is_loop", is_flag=True, help="Run rounds until SIGTERM.")
@click.option("--quiet", "is_quiet", is_flag=True, help="Do not print the decisions of rounds.")
@command_groups_and_options.CONFIG_FILE
@command_groups_and_options.JSON
@command_groups_and_options.VERSION
def balance(cluster: str, path: str, is_json: bool, **command_options: Any) -> None:
    """Add nodes to the home cluster when jobs wait, and remove idle nodes.

    The command runs one round, for cron, and prints the decision and its reason. Nodes are added
    and removed only with --apply, or with `apply = true` in [balance] of gridbridge.toml. Root
    switches to account gridbridge-admin if the account exists. Options replace keys of [balance].
    CLUSTER must be the home cluster.
    Exit status: 0 also for a round without acts; 2 wrong usage or set-up; 3 another
    gridbridge-balance runs; 75 the cell gave no complete answer.

    \b
    Example:
      gridbridge-balance --max-nodes 20
      gridbridge-balance --apply --dump-stats
    """
    from gridbridge.elastic.balancer import (
        balancer_configuration_reload,
        balancer_daemon,
    )  # loading takes half a second
    from gridbridge.program.configuration_in_force import load_config_with_home_cluster
    from gridbridge.shell.log_file_reopening_and_line_limits import STREAMS, StreamLogFile

    path = os.path.abspath(path)  # rounds read the file again, in working directory /
    own = BalanceProgramOptions(
        **{field.name: command_options.pop(field.name) for field in fields(BalanceProgramOptions)}
    )
    options = _balancer_run_options(cluster, own, command_options, load_config_with_home_cluster(path))
    if own.is_loop and not options.is_acting:
        raise click.UsageError("--loop needs --apply, or apply = true in [balance]")
    try:
        if own.is_loop:
            files = tuple(map(StreamLogFile, STREAMS))
            report = (lambda _: None) if own.is_quiet else partial(_print_balancer_round, files, is_json=is_json)
            renew = partial(_options_after_reload, cluster, own, command_options, report)
            balancer_configuration_reload.run_balancer_forever(replace(options, tell=report), path, renew)
            return
        plan = balancer_daemon.run_one_balancer_round(options)
    except ClusterStateUnknown as error:
        _print_program_error(error)
        raise SystemExit(command_groups_and_options.EXIT_NO_ANSWER) from error
    if not own.is_quiet:
        _print_round_report(plan.told, plan.acts_in_words, is_json=is_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceProgramOptions:
    """The options of gridbridge-balance that `gridbridge balance plan` does not have."""

    interval_s: float | None
    lookback_min: float
    kills_master: bool
    dumps: bool
    stats: str | None
    plots: bool
    folder: str | None
    is_applied: bool
    is_loop: bool
    is_quiet: bool


def _print_round_report(report: BalancePlanReport, acts: tuple[str, ...], *, is_json: bool) -> None:
    if is_json:
        output_and_errors.print_json({**balance_plan_report_as_json(report), "done": list(acts)})
        return
    for text in (report.sentence, *(f"  {act}" for act in acts)):
        output_and_errors.print_line(prefix_lines_with_time(text, sys.stdout))


def _print_balancer_round(files: Iterable["StreamLogFile"], plan: "BalancerRoundPlan", *, is_json: bool) -> None:
    """Print a round's decision without buffering; reopen the output file after a log rotation."""
    for file in files:
        file.reopen_if_rotated()
    _print_round_report(plan.told, plan.acts_in_words, is_json=is_json)
    output_and_errors.flush_output()


def _options_after_reload(
    cluster: str,
    own: BalanceProgramOptions,
    command_options: dict[str, Any],
    report: Callable[["BalancerRoundPlan"], None],
    policy: "Policy",
) -> "BalancerRunOptions":
    try:
        return replace(_balancer_run_options(cluster, own, command_options, policy), tell=report)
    except click.UsageError as error:
        raise ConfigError((error.message,)) from error


def _balancer_run_options(
    cluster: str, own: BalanceProgramOptions, command_options: dict[str, Any], policy: "Policy"
) -> "BalancerRunOptions":
    from gridbridge.elastic.balancer import balance_preview
    from gridbridge.elastic.balancer.balancer_daemon import BalancerRunOptions

    rules, demand = balance_preview.apply_command_line_rules(
        policy, balance_preview.BalanceRuleOverrides(**command_options)
    )
    if cluster and cluster != policy.site.cluster:
        raise click.UsageError(f"{cluster}: not the home cluster; [site] cluster is {policy.site.cluster or 'empty'}")
    if own.kills_master and not rules.kill_master:
        raise click.UsageError("--kill-master: not allowed; expected kill_master = true in [balance]")
    is_drawn = own.plots or own.folder is not None
    stats = own.stats or (BALANCE_STATS if own.dumps or is_drawn else "")
    return BalancerRunOptions(
        policy=policy,
        rules=rules if own.interval_s is None else replace(rules, interval_s=own.interval_s),
        demand=demand,
        is_faithful=bool(command_options.get("is_faithful")),
        is_acting=rules.apply or own.is_applied,
        kills_master=own.kills_master,
        lookback=timedelta(minutes=own.lookback_min),
        stats=stats,
        after=partial(_draw_balancer_statistics, stats, own.folder or BALANCE_PLOTS) if is_drawn else lambda: None,
    )


def _print_program_error(error: GridbridgeError) -> None:
    output_and_errors.print_error(prefix_lines_with_time(f"gridbridge-balance: {error}", sys.stderr))


def _draw_balancer_statistics(stats: str, folder: str) -> None:
    """Draw the statistics; a failure is only reported on standard error."""
    try:
        plot_balancer_statistics_file(stats, folder)
    except GridbridgeError as error:
        _print_program_error(error)


def main() -> None:
    """Run gridbridge-balance; each error ends with a documented exit status."""
    output_and_errors.run_command_reporting_errors(balance, "gridbridge-balance")
