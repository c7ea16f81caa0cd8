"""gridbridge metrics: prints or serves metrics of all capabilities for Prometheus."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import FOLDER
from gridbridge.errors import GridbridgeError
from gridbridge.model.fixed_paths import BALANCE_PUBLISHED
from gridbridge.shell import poller_lock, safe_files
from gridbridge.shell.program_startup import version_with_commit
from gridbridge.site import published_metrics
from gridbridge.site.metric_families import MetricFamily

LOCAL = "127.0.0.1"
MOST_PORT = 65535
SUFFIX = ".prom"  # node_exporter's textfile collector reads no other files


def _address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Split an address into host and port; the default host is this machine's loopback."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) <= MOST_PORT
    if not is_port or (":" in host) != (host.startswith("[") and host.endswith("]")):
        right = f"expected an address such as {LOCAL}:9108, or a port alone"
        raise click.BadParameter(f"{value!r}: {right}")
    return host.strip("[]") or LOCAL, int(port)


@click.command()
@click.option("--textfile", metavar="FILE", help="Write the metrics into this file, NAME.prom.")
@click.option(
    "--listen", callback=_address, metavar="ADDRESS", help="Serve the metrics by HTTP at this address, for ever."
)
@FOLDER
@click.option(
    "--balance-published",
    "balance",
    metavar="FOLDER",
    default=BALANCE_PUBLISHED,
    show_default=True,
    help="Folder of the balancer's published file.",
)
def metrics(textfile: str | None, listen: tuple[str, int] | None, folder: str, balance: str) -> None:
    """Print metrics of transfers, campaigns, rebalancing and elastic clusters for Prometheus.

    The metrics come from published files only, so that any user may print them and no service is delayed. --textfile
    writes a file for node_exporter's textfile collector, atomically. --listen answers each GET of /metrics with the
    present values. ADDRESS is PORT, HOST:PORT or [HOST]:PORT; without a host only this machine is answered. Labels are
    clusters, queues, states, pools, causes and kinds of rounds, never people or jobs. Exit status: 0 done; 2 a wrong
    option, no published files, an unwritable file, or an address in use.

    \b
    Example:
      gridbridge metrics
      gridbridge metrics --textfile /var/lib/prometheus/node-exporter/gridbridge.prom
      gridbridge metrics --listen 127.0.0.1:9108
    """
    if textfile is not None and listen:
        raise click.UsageError("--textfile and --listen exclude each other; expected one option")
    if textfile is not None and not textfile.endswith(SUFFIX):
        raise click.UsageError(f"--textfile {textfile}: wrong name; expected a name that ends with {SUFFIX}")
    if listen:
        _show_version()
        watch = _Watch(folder, balance)
        published_metrics.serve_metrics(watch.measure, *listen, announce=lambda port: _tell(listen[0], port))
    families, troubles = published_metrics.collect_published_metrics(datetime.now(UTC), folder, balance)
    _complain(troubles)
    text = published_metrics.format_prometheus_text(families)
    if textfile is None:
        output_and_errors.print_line(text.decode().removesuffix("\n"))
    else:
        safe_files.replace_file_atomically(os.path.abspath(textfile), text, durable=False)


class _Watch:
    """Collects the metrics for each request, and reports each error once."""

    def __init__(self, folder: str, balance: str) -> None:
        self._folders = folder, balance
        self._told: tuple[str, ...] = ()

    def measure(self) -> Iterable[MetricFamily]:
        """Return all metrics; if no file is published, return only the metric that says so."""
        try:
            families, troubles = published_metrics.collect_published_metrics(datetime.now(UTC), *self._folders)
        except GridbridgeError as error:
            families, troubles = published_metrics.NOTHING, (str(error),)
        if troubles != self._told:
            _complain(troubles)
        self._told = troubles
        return families


def _show_version() -> None:
    """Publish the running version for `gridbridge check`, if systemd provides a folder."""
    if folder := os.environ.get("RUNTIME_DIRECTORY"):
        poller_lock.take_poller_lock(f"{folder}/lock", version_with_commit())


def _complain(troubles: Iterable[str]) -> None:
    for trouble in troubles:
        output_and_errors.print_error(f"gridbridge: {trouble}")


def _tell(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    output_and_errors.print_line(f"http://{shown}:{port}/metrics")
    output_and_errors.flush_output()
