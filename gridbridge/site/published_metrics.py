"""Collects the metrics of all capabilities from published files, and prints or serves them."""

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gridbridge.campaigns.store import published_campaign_files
from gridbridge.elastic.balancer import balancer_round_outputs
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.campaign_events import ShownCampaignEvents
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    ShownCampaignClusters,
    ShownCampaigns,
)
from gridbridge.model.fixed_paths import BALANCE_PUBLISHED, ELSEWHERE, PUBLISHED
from gridbridge.model.rebalance.published_rebalance_rounds import PublishedRebalanceRound, RebalanceRoundKind
from gridbridge.site import metric_families
from gridbridge.site.metric_families import MetricFamily, PublishedCampaignFiles, metric_with_labels
from gridbridge.state import published_json

READABLE = "published_readable"
MEANS = "Whether a part's published files can be read"
NOTHING = (metric_with_labels(READABLE, MEANS, "part", [(("transfers",), 0.0), (("elastic",), 0.0)]),)
Measure = Callable[[], Iterable[MetricFamily]]
TOTAL = "_total"
ACCEPT = "HTTP_ACCEPT"
IDLE_CLIENT_S = 10.0  # time limit for a client that connects and sends nothing
REQUEST_LIMIT_S = 30.0  # time limit for a request and its response
MAX_CONNECTIONS = 64  # limit of open connections; each has two threads


def collect_published_metrics(
    now: datetime, folder: str = PUBLISHED, balance: str = BALANCE_PUBLISHED
) -> tuple[tuple[MetricFamily, ...], tuple[str, ...]]:
    """Return all metrics, and a line for each capability with unreadable files.

    A capability without published files has no metrics. If files are unreadable, gridbridge_published_readable is 0.
    Raises StateError if neither folder exists.
    """
    parts: dict[str, Callable[[], Iterable[MetricFamily]]] = {}
    if os.path.isdir(folder):
        parts["transfers"] = lambda: metric_families.transfer_metric_families(
            published_json.read_all_published_files(folder), now
        )
        parts["campaigns"] = lambda: metric_families.campaign_metric_families(_published_campaign_files(folder))
        parts["rebalancing"] = lambda: metric_families.rebalance_metric_families(_published_rounds(folder), now)
    if os.path.isdir(balance):
        parts["elastic"] = lambda: _elastic_families(balance)
    if not parts:
        raise StateError(f"{folder}, {balance}: no such folders; {ELSEWHERE}")
    return _read(parts)


def _read(parts: dict[str, Callable[[], Iterable[MetricFamily]]]) -> tuple[tuple[MetricFamily, ...], tuple[str, ...]]:
    families, troubles, readable = list[MetricFamily](), list[str](), dict[str, float]()
    for name, part in parts.items():
        try:
            families += part()
            readable[name] = 1.0
        except GridbridgeError as error:
            troubles.append(str(error))
            readable[name] = 0.0
    rows = [((name,), value) for name, value in readable.items()]
    families.append(metric_with_labels(READABLE, MEANS, "part", rows))
    return tuple(families), tuple(troubles)


def _published_campaign_files(folder: str) -> PublishedCampaignFiles:
    return PublishedCampaignFiles(
        campaigns=published_campaign_files.read_campaign_value_by_class(ShownCampaigns, folder),
        grid=published_campaign_files.read_campaign_value_by_class(ShownCampaignClusters, folder),
        events=published_campaign_files.read_campaign_value_by_class(ShownCampaignEvents, folder),
    )


def _published_rounds(folder: str) -> dict[RebalanceRoundKind, PublishedRebalanceRound]:
    rounds = {kind: published_json.read_published_rebalance_round(kind, folder) for kind in RebalanceRoundKind}
    return {kind: last for kind, last in rounds.items() if last}


def _elastic_families(folder: str) -> Iterable[MetricFamily]:
    shown = balancer_round_outputs.read_published_balance(folder)
    return metric_families.elastic_metric_families(shown) if shown else ()


class MetricsAddressUnavailable(GridbridgeError):
    """Raised if the metrics server can't listen on its address."""


class _Families(Collector):
    """Collects all metrics anew for each request."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        return map(_metric, self._measure())


def format_prometheus_text(families: Iterable[MetricFamily]) -> bytes:
    """Return metrics in Prometheus' text format."""
    return generate_latest(_registry(lambda: families))


def serve_metrics(measure: Measure, host: str, port: int, announce: Callable[[int], None]) -> None:
    """Serve current metrics to each HTTP GET, until the process ends.

    `announce` is called with the port, which the system chooses for port 0. Raises MetricsAddressUnavailable if
    the address can't be used. Idle and slow clients are disconnected. Above MAX_CONNECTIONS the oldest client is
    disconnected, so that no client can occupy all connections.
    """
    try:
        server, _ = start_http_server(port, host, _registry(measure))
    except OSError as error:
        raise MetricsAddressUnavailable(f"{host}:{port}: {error.strerror}") from error
    server.RequestHandlerClass = _time_limited_handler(
        IDLE_CLIENT_S, REQUEST_LIMIT_S, _ConnectionLimit(MAX_CONNECTIONS)
    )
    server.socket.listen(MAX_CONNECTIONS)  # with the default of 5, a sixth client would wait for a second
    announce(server.server_port)
    threading.Event().wait()


class _ConnectionLimit:
    """The open connections; a connection above the limit disconnects the oldest connection."""

    def __init__(self, most: int) -> None:
        self._most, self._turn = most, threading.Lock()
        self._open = dict[socket.socket, None]()  # oldest connection first

    @contextmanager
    def among(self, connection: socket.socket) -> Iterator[None]:
        """Count a client's connection as open within the context."""
        with self._turn:
            self._open[connection] = None
            if len(self._open) > self._most:
                oldest = next(iter(self._open))
                del self._open[oldest]
                _disconnect(oldest)
        try:
            yield
        finally:
            with self._turn:
                self._open.pop(connection, None)


def _disconnect(connection: socket.socket) -> None:
    """Shut a connection down; its blocked reads and writes return."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _time_limited_handler(patience_s: float, longest_s: float, few: _ConnectionLimit) -> type[WSGIRequestHandler]:
    class Brief(WSGIRequestHandler):
        timeout = patience_s

        def handle(self) -> None:
            late = threading.Timer(longest_s, _disconnect, (self.connection,))
            late.daemon = True
            late.start()
            try:
                with few.among(self.connection), suppress(OSError):  # the client may have disconnected
                    super().handle()
            finally:
                late.cancel()

        def get_environ(self) -> dict[str, Any]:
            """Leave out the Accept header, so that every client gets the text format."""
            return {key: text for key, text in super().get_environ().items() if key != ACCEPT}

        def log_message(self, *_: object) -> None:
            """Log no HTTP requests."""

    return Brief


def _registry(measure: Measure) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Families(measure))
    return registry


def _metric(family: MetricFamily) -> Metric:
    kind = CounterMetricFamily if family.is_counter else GaugeMetricFamily
    metric = kind(family.name.removesuffix(TOTAL), family.means, labels=family.labels)
    for sample in family.samples:
        metric.add_metric([sample.labels[name] for name in family.labels], sample.value)
    return metric
