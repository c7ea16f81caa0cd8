"""gridbridge balance plot: draw the statistics that the balancer wrote."""

import click

from gridbridge.cli import output
from gridbridge.elastic.store import balancer_statistics_file
from gridbridge.model.fixed_paths import BALANCE_PLOTS, BALANCE_STATS


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
        balancer_statistics_file.become_balancer_account()
    for path in plot_balancer_statistics_file(stats, folder):
        output.print_line(path)


def plot_balancer_statistics_file(stats: str, folder: str) -> tuple[str, ...]:
    """Draw the rows of a statistics file; return the paths of the plots.

    Invalid lines are skipped, and reported on standard error.
    """
    rows, left_out = balancer_statistics_file.read_balancer_statistics(stats)
    if left_out:
        count = f"{len(left_out)} lines are" if len(left_out) > 1 else "1 line is"
        output.print_error(f"gridbridge: {stats}: {count} no row of statistics, the first is {left_out[0]}")
    from gridbridge.elastic.cli import balance_plots  # loading takes half a second

    return balance_plots.draw_balance_plots(rows, folder)
