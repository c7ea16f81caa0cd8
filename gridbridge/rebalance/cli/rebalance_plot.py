"""Plots a rebalancing plan: the disk usage and load of every host, before and after the plan."""

import textwrap
from collections.abc import Callable, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from gridbridge.cli import plot_files
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import HostLoadBeforeAfter

mpl.use("Agg")
MOST_TITLE = 110  # characters of one line
MOST_NAMED = 40  # a plot of more hosts shows no host names
BEFORE, AFTER = "#999999", "#0072B2"
Value = Callable[[HostLoadBeforeAfter], float]


def draw_host_loads(hosts: Sequence[HostLoadBeforeAfter], title: str, path: str) -> None:
    """Draw host loads before and after a plan; raise StandardOutputUnwritable for an unwritable file."""
    figure = Figure(figsize=(10.0, 6.5), layout="constrained")
    disk, load = figure.subplots(2, 1, sharex=True)
    figure.suptitle(textwrap.shorten(title, MOST_TITLE, placeholder=" ..."), fontsize=11)
    _draw_load_panel(disk, hosts, "disk used", lambda host: host.disk, lambda host: host.disk_after)
    _draw_load_panel(load, hosts, "load", lambda host: host.score, lambda host: host.score_after)
    disk.yaxis.set_major_formatter(PercentFormatter(1.0))
    disk.set_ylim(0, 1.05)
    load.set_ylim(0, 105)
    disk.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    _label_host_axis(load, hosts)
    plot_files.save_plot(figure, path, 110)


def _draw_load_panel(axes: Axes, hosts: Sequence[HostLoadBeforeAfter], label: str, before: Value, after: Value) -> None:
    positions = range(len(hosts))
    first, second = [before(host) for host in hosts], [after(host) for host in hosts]
    if len(hosts) > MOST_NAMED:
        axes.plot(positions, first, ".", color=BEFORE, label="before", markersize=4)
        axes.plot(positions, second, ".", color=AFTER, label="after", markersize=2)
    else:
        axes.bar([at - 0.2 for at in positions], first, 0.4, color=BEFORE, label="before")
        axes.bar([at + 0.2 for at in positions], second, 0.4, color=AFTER, label="after")
    axes.set_ylabel(label)
    axes.grid(axis="y", alpha=0.3)


def _label_host_axis(axes: Axes, hosts: Sequence[HostLoadBeforeAfter]) -> None:
    if len(hosts) > MOST_NAMED:
        axes.set_xlabel(f"{number_with_noun(len(hosts), 'host')}, by kind and name")
        return
    turned = 60 if len(hosts) > 10 else 0
    axes.set_xticks(range(len(hosts)), [host.host for host in hosts], rotation=turned)
