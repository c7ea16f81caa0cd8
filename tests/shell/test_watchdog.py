"""The poller's heartbeat reaches systemd's socket and the time stamp of its lock file."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.shell import program_lock_file
from gridbridge.shell.service_heartbeat import BEGIN_S, ServiceHeartbeat

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
