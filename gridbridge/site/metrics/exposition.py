"""Writes numbers as Prometheus reads them, into a text or by HTTP."""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gridbridge.errors import GridbridgeError
from gridbridge.program.metric_family import MetricFamily

Measure = Callable[[], Iterable[MetricFamily]]
TOTAL = "_total"
ACCEPT = "HTTP_ACCEPT"
PATIENCE_S = 10.0  # with who has connected and says nothing
LONGEST_S = 30.0  # of a question and its answer
MOST_AT_ONCE = 64  # connections; each takes two threads


class NotListening(GridbridgeError):
    """An address can't be listened on."""


class _Families(Collector):
    """Measures anew at each question."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        return map(_metric, self._measure())


def text(families: Iterable[MetricFamily]) -> bytes:
    """Write families in Prometheus' text format."""
    return generate_latest(_registry(lambda: families))


def serve(measure: Measure, host: str, port: int, announce: Callable[[int], None]) -> None:
    """Answer each GET with what is measured then, until the process is ended.

    Tells on which port, which is another one than 0. NotListening when it can't be listened there.
    Who says nothing is cut off, and so is who asks or reads too slowly, or who is the oldest of too
    many: nobody keeps all connections for themselves by that.
    """
    try:
        server, _ = start_http_server(port, host, _registry(measure))
    except OSError as error:
        raise NotListening(f"{host}:{port}: {error.strerror}") from error
    server.RequestHandlerClass = _brief(PATIENCE_S, LONGEST_S, _Few(MOST_AT_ONCE))
    server.socket.listen(MOST_AT_ONCE)  # five by default: a sixth would wait for a second
    announce(server.server_port)
    threading.Event().wait()


class _Few:
    """The connections that are open: one that is too many cuts the oldest off."""

    def __init__(self, most: int) -> None:
        self._most, self._turn = most, threading.Lock()
        self._open = dict[socket.socket, None]()  # the oldest first

    @contextmanager
    def among(self, connection: socket.socket) -> Iterator[None]:
        """Be one of them."""
        with self._turn:
            self._open[connection] = None
            if len(self._open) > self._most:
                oldest = next(iter(self._open))
                del self._open[oldest]
                _cut(oldest)
        try:
            yield
        finally:
            with self._turn:
                self._open.pop(connection, None)


def _cut(connection: socket.socket) -> None:
    """End a connection; who reads from it or writes to it goes on."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _brief(patience_s: float, longest_s: float, few: _Few) -> type[WSGIRequestHandler]:
    class Brief(WSGIRequestHandler):
        timeout = patience_s

        def handle(self) -> None:
            late = threading.Timer(longest_s, _cut, (self.connection,))
            late.daemon = True
            late.start()
            try:
                with few.among(self.connection), suppress(OSError):  # who asks may have gone
                    super().handle()
            finally:
                late.cancel()

        def get_environ(self) -> dict[str, Any]:
            """Leave out which form is wanted: all read the text, and any words stood there."""
            return {key: text for key, text in super().get_environ().items() if key != ACCEPT}

        def log_message(self, *_: object) -> None:
            """Log nothing."""

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
