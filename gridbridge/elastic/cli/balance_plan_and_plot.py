"""The commands `gridbridge balance plan`, `snapshot` and `plot`."""

from datetime import UTC, datetime
from typing import Any

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import (
    CONFIG_FILE,
    FROM,
    JSON,
    FiniteNumberRange,
    add_options,
    config_path_unless_from_folder,
    exit_75_without_cluster_answer,
)
from gridbridge.elastic.balancer import balance_preview, balancer_round_outputs
from gridbridge.model.elastic.balance_plan import BalancePolicyName
from gridbridge.model.elastic.published_balance import BalancePlanReport
from gridbridge.model.fixed_paths import BALANCE_PLOTS, BALANCE_STATS


def option_name_spellings(name: str) -> tuple[str, ...]:
    """Return an option's name with hyphens, and with underscores as in StarCluster."""
    return tuple(dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}")))


RULES = (
    click.option(
        "--policy", type=click.Choice([policy.value for policy in BalancePolicyName]), help="Decide by these rules."
    ),
    click.option(
        *("-m", *option_name_spellings("max_nodes"), "max_nodes"),
        type=click.IntRange(min=0),
        help="The most nodes of the cluster, with the master; 0: nothing is added or removed.",
    ),
    click.option(
        *("-n", *option_name_spellings("min_nodes"), "min_nodes"),
        type=click.IntRange(min=0),
        help="The least, with the master.",
    ),
    click.option(
        *(
            "-a",
            *option_name_spellings("add_nodes_per_iteration"),
            *option_name_spellings("add_nodes_per_iter"),
        ),
        "add_nodes_per_iteration",
        type=click.IntRange(min=1),
        help="The most nodes that one round adds.",
    ),
    click.option(
        *("-w", *option_name_spellings("job_wait_time"), "job_wait_time_s"),
        type=FiniteNumberRange(min=0),
        help="Seconds after which a waiting job makes the cluster grow.",
    ),
    click.option(
        *("-k", *option_name_spellings("kill_after"), "kill_after_min"),
        type=click.IntRange(0, 59),
        help="The minute of its hour from which an idle node may be removed.",
    ),
    click.option(
        *("-s", *option_name_spellings("stabilization_time"), "stabilization_s"),
        type=FiniteNumberRange(min=0),
        help="Seconds after a change in which nothing else is done.",
    ),
    click.option("--faithful", "is_faithful", is_flag=True, help="Count as StarCluster does, wrong or right."),
)


@click.command()
@FROM
@add_options(RULES)
@CONFIG_FILE
@JSON
def plan(folder: str, path: str, is_json: bool, **options: Any) -> None:
    """Say what a round of the balancer would do, and why, and do nothing.

    Options hold instead of what [balance] of gridbridge.toml says. With --from it is decided about
    what `gridbridge balance snapshot` saved in FOLDER, or somebody by hand: qstat.xml (of
    `qstat -u '*' -xml -f -r`), qhost.xml (of `qhost -xml`), qconf.json and state.json. No cell is
    asked then, and no configuration is read unless --config names one. Without a maximum nothing is
    ever added or removed. The balancer's nodes are known to root and gridbridge-admin; others are
    told that they are not.
    Exit status: 0 also when nothing would be done; 2 usage; 75 the cell gave no whole answer.

    \b
    Example:
      gridbridge balance plan --max-nodes 20 --min-nodes 2
      gridbridge balance plan --from saved --max-nodes 20 --json
    """
    path = config_path_unless_from_folder(folder, path)
    report = exit_75_without_cluster_answer(
        lambda: balance_preview.preview_balance_plan(
            balance_preview.BalanceRuleOverrides(**options), datetime.now(UTC), folder, path
        )
    )
    for unseen in report.unseen:
        output_and_errors.print_error(unseen)
    if is_json:
        output_and_errors.print_json({**balance_plan_report_as_json(report), "unseen": list(report.unseen)})
        return
    output_and_errors.print_line(report.sentence)
    for refused in report.refused:
        output_and_errors.print_line(f"  {f'job {refused.job}' if refused.job else refused.host}: {refused.reason}")


@click.command()
@click.argument("folder", metavar="FOLDER")
@CONFIG_FILE
@JSON
def snapshot(folder: str, path: str, is_json: bool) -> None:
    """Save what a round of the balancer looks at now in FOLDER.

    It has what `qstat` and `qhost` would show anybody: with it others can see why a cluster grew,
    or what other rules would have done. Exit status: 0; 2 the folder can't be written; 75 the cell
    gave no whole answer.

    \b
    Example:
      gridbridge balance snapshot saved
    """
    exit_75_without_cluster_answer(lambda: balance_preview.save_balance_snapshot(folder, datetime.now(UTC), path))
    warn_if_balancer_nodes_unreadable()
    if is_json:
        output_and_errors.print_json({"folder": folder})


def warn_if_balancer_nodes_unreadable() -> None:
    """Print a warning on standard error if this account may not read the balancer's nodes."""
    if balance_preview.may_not_read_balancer_nodes():
        output_and_errors.print_error(balance_preview.NODES_UNSEEN)


def balance_plan_report_as_json(report: BalancePlanReport) -> dict[str, object]:
    """Return a plan's report as JSON values."""
    return {
        "add": report.add,
        "pool": report.pool,
        "remove": list(report.remove),
        "sentence": report.sentence,
        "refused": [
            {"job": refused.job, "reason": refused.reason}
            if refused.job
            else {"host": refused.host, "reason": refused.reason}
            for refused in report.refused
        ],
    }


@click.command()
@click.option("--stats", metavar="FILE", default=BALANCE_STATS, show_default=True, help="Draw the rows of this file.")
@click.option(
    "--output-dir",
    "folder",
    metavar="DIR",
    default=BALANCE_PLOTS,
    show_default=True,
    help="Put the pictures here; the folder is made.",
)
def plot(stats: str, folder: str) -> None:
    """Draw what the balancer wrote down about its cluster, round by round.

    FILE is what `gridbridge-balance --dump-stats` writes: a row a round with
    dt,hosts,running_jobs,queued_jobs,slots,avg_duration,avg_wait,avg_load. StarCluster's own files
    are drawn too. The pictures are queued.png, running.png, num_hosts.png, avg_duration.png,
    avg_wait.png and avg_load.png; their names are printed. Lines that are no such rows are left
    out, and told. Exit status: 0; 2 no file, no row, or the pictures can't be written.

    \b
    Example:
      gridbridge balance plot --stats sge-stats.csv --output-dir pictures
    """
    if folder == BALANCE_PLOTS:
        balancer_round_outputs.become_balancer_account()
    for path in plot_balancer_statistics_file(stats, folder):
        output_and_errors.print_line(path)


def plot_balancer_statistics_file(stats: str, folder: str) -> tuple[str, ...]:
    """Draw the rows of a statistics file; return the paths of the plots.

    Invalid lines are skipped and reported on standard error.
    """
    rows, left_out = balancer_round_outputs.read_balancer_statistics(stats)
    if left_out:
        count = f"{len(left_out)} lines are" if len(left_out) > 1 else "1 line is"
        output_and_errors.print_error(f"gridbridge: {stats}: {count} no row of statistics, the first is {left_out[0]}")
    from gridbridge.elastic.cli import balance_and_replay_plots  # loading takes half a second

    return balance_and_replay_plots.draw_balance_plots(rows, folder)
