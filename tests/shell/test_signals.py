"""Signals stop or reload a service between rounds, and interrupt its waiting."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from gridbridge.shell.stop_and_reload_signals import StopAndReloadSignals

OURS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LONG_S = 60.0


@pytest.fixture
def signals() -> Iterator[StopAndReloadSignals]:
    before = {number: signal.getsignal(number) for number in OURS}
    yield StopAndReloadSignals()
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_before_the_wait_ends_the_wait(signals: StopAndReloadSignals) -> None:
    began_s = time.monotonic()
    for number in (signal.SIGHUP, signal.SIGTERM):
        os.kill(os.getpid(), number)
        signals.wait_for_signal(LONG_S)

    assert time.monotonic() - began_s < LONG_S


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_and_sigint_stop_the_service(signals: StopAndReloadSignals, number: signal.Signals) -> None:
    before = signals.is_stopped
    os.kill(os.getpid(), number)
    signals.wait_for_signal(LONG_S)

    assert (before, signals.is_stopped, signals.has_sighup_come()) == (False, True, False)


def test_several_hangups_are_reported_as_one(signals: StopAndReloadSignals) -> None:
    told = [signals.has_sighup_come()]
    for times in (2, 0, 1):
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGHUP)
        signals.wait_for_signal(0)
        told.append(signals.has_sighup_come())

    assert (told, signals.is_stopped) == ([False, True, False, True], False)
