"""A poller that recovers from its state file may take as long for it as at its start."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from gridbridge.errors import StateError
from gridbridge.program import service_cycle
from gridbridge.shell.clock import Clock
from gridbridge.transfer.poller import poller_daemon
from gridbridge.transfer.poller.poller_daemon import PollerDaemon


def test_a_failed_poller_is_rebuilt_with_the_long_watchdog_time_of_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    life_sign = SimpleNamespace(begin=lambda: done.append("begin"), beat=lambda: None)
    signals = SimpleNamespace(is_stopped=False, wait=lambda _: True, hung_up=lambda: False)

    @contextmanager
    def open_round() -> object:  # type: ignore[misc]  # it never gives anything
        done.append("round")
        signals.is_stopped = done.count("round") > 1
        raise StateError("full")
        yield

    def build(*_: object) -> object:
        done.append("build")
        if done.count("build") == 2:
            raise StateError("still full")
        return SimpleNamespace(
            shut_down=lambda: done.append("end"), ledger=SimpleNamespace(away_jobs=None), open_round=open_round
        )

    monkeypatch.setattr(poller_daemon, "build_transfer_service", build)
    monkeypatch.setattr(poller_daemon.service_cycle, "set_log_level", lambda _: None)
    configuration = SimpleNamespace(take=lambda *_: False, keep=lambda: None, policy=None)

    poller = PollerDaemon(configuration, signals, Clock())  # type: ignore[arg-type]  # what it needs of them
    service_cycle.run_cycles_forever(poller, signals, life_sign, Clock())  # type: ignore[arg-type]  # what it needs of them

    anew = ["end", "begin", "build"]
    assert done == ["build", "round", *anew, *anew, "round", "end"]
