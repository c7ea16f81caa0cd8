"""gridbridge metrics: prints or serves metrics of all capabilities for Prometheus."""

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

import click
from prometheus_client import Metric, start_http_server

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import FOLDER
from gridbridge.errors import GridbridgeError
from gridbridge.model.fixed_paths import BALANCE_PUBLISHED
from gridbridge.shell import program_lock_file, safe_files
from gridbridge.shell.program_startup import version_with_commit
from gridbridge.site import published_metrics

LOCAL = "127.0.0.1"
MOST_PORT = 65535
SUFFIX = ".prom"  # node_exporter's textfile collector reads only files with this suffix


def _parse_listen_address(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[str, int] | None:
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
    "--listen",
    callback=_parse_listen_address,
    metavar="ADDRESS",
    help="Serve the metrics by HTTP at this address, for ever.",
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
        if state_folder := os.environ.get("RUNTIME_DIRECTORY"):  # set by systemd; the lock file shows the version
            program_lock_file.take_lock_until_exit(f"{state_folder}/lock", version_with_commit())
        watch = MetricsWithErrorReports(folder, balance)
        serve_metrics(watch.collect_metrics, *listen, announce=lambda port: _print_metrics_url(listen[0], port))
    families, troubles = published_metrics.collect_published_metrics(datetime.now(UTC), folder, balance)
    _print_metrics_errors(troubles)
    text = published_metrics.format_prometheus_text(families)
    if textfile is None:
        output_and_errors.print_line(text.decode().removesuffix("\n"))
    else:
        safe_files.replace_file_atomically(os.path.abspath(textfile), text, durable=False)


class MetricsWithErrorReports:
    """Collects the metrics for each request; reports each error once."""

    def __init__(self, folder: str, balance: str) -> None:
        self._folders = folder, balance
        self._told: tuple[str, ...] = ()

    def collect_metrics(self) -> Iterable[Metric]:
        """Return all metrics; if no file is published, return only the metric that reports unreadable files."""
        try:
            families, troubles = published_metrics.collect_published_metrics(datetime.now(UTC), *self._folders)
        except GridbridgeError as error:
            families = (published_metrics.readability_metric({"transfers": False, "elastic": False}),)
            troubles = (str(error),)
        if troubles != self._told:
            _print_metrics_errors(troubles)
        self._told = troubles
        return families


def _print_metrics_errors(troubles: Iterable[str]) -> None:
    for trouble in troubles:
        output_and_errors.print_error(f"gridbridge: {trouble}")


def _print_metrics_url(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    output_and_errors.print_line(f"http://{shown}:{port}/metrics")
    output_and_errors.flush_output()


IDLE_CLIENT_S = 10.0
REQUEST_LIMIT_S = 30.0
MAX_CONNECTIONS = 64  # limit of open connections; each connection has two threads


class MetricsAddressUnavailable(GridbridgeError):
    """Raised if the metrics server can't listen on its address."""


def serve_metrics(measure: published_metrics.Measure, host: str, port: int, announce: Callable[[int], None]) -> None:
    """Serve current metrics to each HTTP GET, until the process ends.

    `announce` gets the port, which the system chooses for 0. Raises MetricsAddressUnavailable. Above
    MAX_CONNECTIONS the oldest client is disconnected, so that no client can occupy all connections.
    """
    try:
        server, _ = start_http_server(port, host, published_metrics.metric_registry(measure))
    except OSError as error:
        raise MetricsAddressUnavailable(f"{host}:{port}: {error.strerror}") from error
    server.RequestHandlerClass = _http_handler_with_time_limits(
        IDLE_CLIENT_S, REQUEST_LIMIT_S, OpenConnectionLimit(MAX_CONNECTIONS)
    )
    server.socket.listen(MAX_CONNECTIONS)  # with the default 5, a sixth client would wait one second
    announce(server.server_port)
    threading.Event().wait()


class OpenConnectionLimit:
    """The open connections of the metrics server; a new connection above the limit closes the oldest."""

    def __init__(self, most: int) -> None:
        self._most, self._turn = most, threading.Lock()
        self._open = dict[socket.socket, None]()  # oldest connection first

    @contextmanager
    def count_connection_while_open(self, connection: socket.socket) -> Iterator[None]:
        with self._turn:
            self._open[connection] = None
            if len(self._open) > self._most:
                oldest = next(iter(self._open))
                del self._open[oldest]
                _shut_connection_down(oldest)
        try:
            yield
        finally:
            with self._turn:
                self._open.pop(connection, None)


def _shut_connection_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _http_handler_with_time_limits(
    patience_s: float, longest_s: float, connection_limit: OpenConnectionLimit
) -> type[WSGIRequestHandler]:
    class TimeLimitedHttpHandler(WSGIRequestHandler):
        timeout = patience_s

        def handle(self) -> None:
            late = threading.Timer(longest_s, _shut_connection_down, (self.connection,))
            late.daemon = True
            late.start()
            try:
                with (
                    connection_limit.count_connection_while_open(self.connection),
                    suppress(OSError),
                ):  # the client may have disconnected
                    super().handle()
            finally:
                late.cancel()

        def get_environ(self) -> dict[str, Any]:
            """Leave out the Accept header, so that every client gets the text format."""
            return {key: text for key, text in super().get_environ().items() if key != "HTTP_ACCEPT"}

        def log_message(self, *_: object) -> None:
            """Log no HTTP requests."""

    return TimeLimitedHttpHandler
