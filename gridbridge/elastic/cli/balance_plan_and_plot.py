"""The commands `gridbridge balance plan`, `snapshot` and `plot`."""

from datetime import UTC, datetime
from typing import Any

import click

from gridbridge.cli import command_groups_and_options, output_and_errors
from gridbridge.elastic.balancer import balance_preview, balancer_statistics_and_publication
from gridbridge.model.elastic.balance_plan import BalancePolicyName
from gridbridge.model.elastic.published_balance import BalancePlanReport
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT, BALANCE_PLOTS, BALANCE_STATS
from gridbridge.shell.optional_libraries import require_library
from gridbridge.shell.program_startup import drop_root_to_account


def option_name_spellings(name: str) -> tuple[str, ...]:
    """Return both names of an option: with hyphens, and with underscores as in StarCluster."""
    return tuple(dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}")))


RULES = (
    click.option(
        "--policy", type=click.Choice([policy.value for policy in BalancePolicyName]), help="Decide by this policy."
    ),
    click.option(
        *("-m", *option_name_spellings("max_nodes"), "max_nodes"),
        type=click.IntRange(min=0),
        help="Largest number of nodes of the cluster, master included; 0: no node is added or removed.",
    ),
    click.option(
        *("-n", *option_name_spellings("min_nodes"), "min_nodes"),
        type=click.IntRange(min=0),
        help="Smallest number of nodes of the cluster, master included.",
    ),
    click.option(
        *("-a", *option_name_spellings("add_nodes_per_iteration"), *option_name_spellings("add_nodes_per_iter")),
        "add_nodes_per_iteration",
        type=click.IntRange(min=1),
        help="Largest number of nodes that one round adds.",
    ),
    click.option(
        *("-w", *option_name_spellings("job_wait_time"), "job_wait_time_s"),
        type=command_groups_and_options.FiniteNumberRange(min=0),
        help="Seconds that a job waits before nodes are added.",
    ),
    click.option(
        *("-k", *option_name_spellings("kill_after"), "kill_after_min"),
        type=click.IntRange(0, 59),
        help="The first minute of a paid hour at which an idle node may be removed.",
    ),
    click.option(
        *("-s", *option_name_spellings("stabilization_time"), "stabilization_s"),
        type=command_groups_and_options.FiniteNumberRange(min=0),
        help="Seconds between two changes of nodes.",
    ),
    click.option(
        "--faithful",
        "is_faithful",
        is_flag=True,
        help="Count jobs and slots as StarCluster does, including its mistakes.",
    ),
)


@click.command()
@command_groups_and_options.FROM
@command_groups_and_options.add_options_to_command(RULES)
@command_groups_and_options.CONFIG_FILE
@command_groups_and_options.JSON
def plan(folder: str, path: str, is_json: bool, **options: Any) -> None:
    """Show what a round of the balancer would do, and why, without doing it.

    Options replace keys of [balance] in gridbridge.toml. Without a largest number of nodes, no node
    is added or removed. With --from the command decides about the files in FOLDER, saved by
    `gridbridge balance snapshot` or by hand: qstat.xml (of `qstat -u '*' -xml -f -r`), qhost.xml
    (of `qhost -xml`), qconf.json and state.json. Then the cell is not queried, and a configuration
    is read only if --config names a file. Only root and gridbridge-admin see the balancer's nodes;
    other users get a note.
    Exit status: 0 also for a plan without acts; 2 wrong usage; 75 the cell gave no complete answer.

    \b
    Example:
      gridbridge balance plan --max-nodes 20 --min-nodes 2
      gridbridge balance plan --from saved --max-nodes 20 --json
    """
    path = command_groups_and_options.config_path_unless_from_folder(folder, path)
    report = command_groups_and_options.exit_75_without_cluster_answer(
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
@command_groups_and_options.CONFIG_FILE
@command_groups_and_options.JSON
def snapshot(folder: str, path: str, is_json: bool) -> None:
    """Save the present inputs of a balancer round in FOLDER.

    FOLDER gets facts that `qstat` and `qhost` show to everybody. Other people can use FOLDER to see
    why a cluster grew, or what other rules would have done. Exit status: 0; 2 FOLDER can't be
    written; 75 the cell gave no complete answer.

    \b
    Example:
      gridbridge balance snapshot saved
    """
    command_groups_and_options.exit_75_without_cluster_answer(
        lambda: balance_preview.save_balance_snapshot(folder, datetime.now(UTC), path)
    )
    if balance_preview.may_not_read_balancer_nodes():
        output_and_errors.print_error(balance_preview.NODES_UNSEEN)
    if is_json:
        output_and_errors.print_json({"folder": folder})


def balance_plan_report_as_json(report: BalancePlanReport) -> dict[str, object]:
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
@click.option(
    "--stats", metavar="FILE", default=BALANCE_STATS, show_default=True, help="Draw the statistics in this file."
)
@click.option(
    "--output-dir",
    "folder",
    metavar="DIR",
    default=BALANCE_PLOTS,
    show_default=True,
    help="Write the pictures into this folder, which is created if missing.",
)
def plot(stats: str, folder: str) -> None:
    """Draw the balancer's statistics of the cluster, a picture for each quantity.

    FILE is written by `gridbridge-balance --dump-stats`, a row for each round with the columns
    dt,hosts,running_jobs,queued_jobs,slots,avg_duration,avg_wait,avg_load. Files of StarCluster are
    drawn, too. The command prints the names of the pictures queued.png, running.png, num_hosts.png,
    avg_duration.png, avg_wait.png and avg_load.png. Invalid lines are left out and reported.
    Exit status: 0; 2 no file, no row, or the pictures can't be written.

    \b
    Example:
      gridbridge balance plot --stats sge-stats.csv --output-dir pictures
    """
    if folder == BALANCE_PLOTS:
        drop_root_to_account(BALANCE_ACCOUNT)  # the account owns the folder
    for path in plot_balancer_statistics_file(stats, folder):
        output_and_errors.print_line(path)


def plot_balancer_statistics_file(stats: str, folder: str) -> tuple[str, ...]:
    """Draw a statistics file, and report invalid lines on standard error; return the plots' paths."""
    require_library("matplotlib")
    rows, left_out = balancer_statistics_and_publication.read_balancer_statistics(stats)
    if left_out:
        count = f"{len(left_out)} lines are" if len(left_out) > 1 else "1 line is"
        output_and_errors.print_error(f"gridbridge: {stats}: {count} invalid; the first is line {left_out[0]}")
    from gridbridge.elastic.cli import balance_and_replay_plots  # loading takes half a second

    return balance_and_replay_plots.draw_balance_plots(rows, folder)
