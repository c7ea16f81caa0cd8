"""Signals stop or reload a service; its heartbeat reaches systemd's socket and the time stamp of its lock file."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.shell import program_lock_file
from gridbridge.shell.service_signals_and_heartbeat import BEGIN_S, ServiceHeartbeat, StopAndReloadSignals

READY, ALIVE = "READY=1", "WATCHDOG=1"


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = tmp_path / "poller.lock"
    path.touch()
    os.utime(path, (1, 1))
    return str(path)


@pytest.fixture(params=["/", "@"], ids=["a file", "abstract"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    name = f"{tmp_path}/notify" if request.param == "/" else f"@gridbridge-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(name.replace("@", "\0", 1) if request.param == "@" else name)
        end.settimeout(5)
        yield name, end


def heard(end: socket.socket) -> set[str]:
    return set(end.recv(4096).decode().split("\n"))


def test_systemd_gets_start_ready_and_watchdog_messages(path: str, listener: tuple[str, socket.socket]) -> None:
    name, end = listener
    life_sign = ServiceHeartbeat(path, {"NOTIFY_SOCKET": name})
    life_sign.announce_long_step()
    begun = heard(end)
    life_sign.send_heartbeat()
    life_sign.send_heartbeat()  # too soon to be told again
    beaten = heard(end)
    end.setblocking(False)

    assert ({READY, ALIVE} & begun, begun) == ({ALIVE}, {ALIVE, "EXTEND_TIMEOUT_USEC=600000000"})
    assert beaten == {READY, ALIVE}
    with pytest.raises(BlockingIOError):
        end.recv(1)


def test_each_begin_extends_the_systemd_watchdog_until_the_next_beat(tmp_path: Path) -> None:
    """A service that is ready cannot extend its start time."""
    name = f"{tmp_path}/notify"
    life_sign = ServiceHeartbeat(f"{tmp_path}/none", {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "60000000"})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(name)
        end.settimeout(5)
        told = []
        for sign in (
            life_sign.announce_long_step,
            life_sign.send_heartbeat,
            life_sign.announce_long_step,
            life_sign.send_heartbeat,
        ):
            sign()
            told += [one for one in heard(end) if one.startswith("WATCHDOG_USEC=")]

    assert told == ["WATCHDOG_USEC=600000000", "WATCHDOG_USEC=60000000"] * 2


def test_begin_sets_the_lock_file_time_ahead_and_beat_to_now(path: str) -> None:
    before = program_lock_file.last_lock_file_heartbeat(path)
    life_sign = ServiceHeartbeat(path, {})
    life_sign.announce_long_step()
    begun = program_lock_file.last_lock_file_heartbeat(path)
    life_sign.send_heartbeat()

    assert before == 1
    assert abs(begun - time.time() - BEGIN_S) < 5
    assert abs(program_lock_file.last_lock_file_heartbeat(path) - time.time()) < 5


@pytest.mark.parametrize("name", ["", "vsock:2:1234", "/nobody/listens/here"])
def test_a_heartbeat_without_a_listener_updates_the_lock_file(path: str, name: str) -> None:
    ServiceHeartbeat(path, {"NOTIFY_SOCKET": name}).send_heartbeat()

    assert program_lock_file.last_lock_file_heartbeat(path) > 1


def test_a_full_notify_socket_does_not_block_the_heartbeat(tmp_path: Path, path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(f"{tmp_path}/full")
        for _ in range(1000):
            ServiceHeartbeat(path, {"NOTIFY_SOCKET": f"{tmp_path}/full"}).send_heartbeat()

    assert program_lock_file.last_lock_file_heartbeat(path) > 1


def test_a_heartbeat_without_a_lock_file_is_no_error(tmp_path: Path) -> None:
    ServiceHeartbeat(str(tmp_path / "none"), {}).send_heartbeat()

    assert program_lock_file.last_lock_file_heartbeat(str(tmp_path / "none")) == 0


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
