"""Writes numbers as Prometheus reads them, into a text or by HTTP."""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gridbridge.errors import GridbridgeError
from gridbridge.services.tools.measured.family import Family

Measure = Callable[[], Iterable[Family]]
TOTAL = "_total"
ACCEPT = "HTTP_ACCEPT"
PATIENCE_S = 10.0  # with who has connected and says nothing
LONGEST_S = 30.0  # of a question and its answer


class NotListening(GridbridgeError):
    """An address can't be listened on."""


class _Families(Collector):
    """Measures anew at each question."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        return map(_metric, self._measure())


def text(families: Iterable[Family]) -> bytes:
    """Write families in Prometheus' text format."""
    return generate_latest(_registry(lambda: families))


def serve(measure: Measure, host: str, port: int, tell: Callable[[int], None]) -> None:
    """Answer each GET with what is measured then, until the process is ended.

    Tells on which port, which is another one than 0. NotListening when it can't be listened there.
    Who says nothing is cut off, and so is who asks or reads too slowly: nobody keeps all
    connections for themselves by that.
    """
    try:
        server, _ = start_http_server(port, host, _registry(measure))
    except OSError as error:
        raise NotListening(f"{host}:{port}: {error.strerror}") from error
    server.RequestHandlerClass = _brief(PATIENCE_S, LONGEST_S)
    tell(server.server_port)
    threading.Event().wait()


def _brief(patience_s: float, longest_s: float) -> type[WSGIRequestHandler]:
    class Brief(WSGIRequestHandler):
        timeout = patience_s

        def handle(self) -> None:
            late = threading.Timer(longest_s, self._cut)
            late.daemon = True
            late.start()
            try:
                with suppress(OSError):  # who asks has gone, or was cut off
                    super().handle()
            finally:
                late.cancel()

        def get_environ(self) -> dict[str, Any]:
            """Leave out which form is wanted: all read the text, and any words stood there."""
            return {key: one for key, one in super().get_environ().items() if key != ACCEPT}

        def _cut(self) -> None:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Brief


def _registry(measure: Measure) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Families(measure))
    return registry


def _metric(family: Family) -> Metric:
    kind = CounterMetricFamily if family.is_counter else GaugeMetricFamily
    found = kind(family.name.removesuffix(TOTAL), family.means, labels=family.labels)
    for one in family.samples:
        found.add_metric([one.labels[name] for name in family.labels], one.value)
    return found
