"""Writes numbers as Prometheus reads them, into a text or by HTTP."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gridbridge.errors import GridbridgeError
from gridbridge.services.tools.measured.family import Family

Measure = Callable[[], Iterable[Family]]
TOTAL = "_total"
PATIENCE_S = 10.0  # with who has connected and says nothing


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
    Who says nothing is cut off: nobody keeps all connections for themselves by that.
    """
    try:
        server, _ = start_http_server(port, host, _registry(measure))
    except OSError as error:
        raise NotListening(f"{host}:{port}: {error.strerror}") from error
    server.RequestHandlerClass = _brief(PATIENCE_S)
    tell(server.server_port)
    threading.Event().wait()


def _brief(patience_s: float) -> type[WSGIRequestHandler]:
    class Brief(WSGIRequestHandler):
        timeout = patience_s

        def handle(self) -> None:
            with suppress(TimeoutError):
                super().handle()

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
