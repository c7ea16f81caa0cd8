"""A new machine must show the host key that its provider reported; otherwise nothing is sent."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import paramiko
import pytest

from gridbridge.errors import CommandFailed, HostNotReached, SshAccessRejected
from gridbridge.shell.paramiko_login import log_in_to_new_machine_by_ssh, run_on_new_machine_by_ssh

NOWHERE = "192.0.2.1"  # RFC 5737: who asked it would wait
SHOWN = paramiko.ECDSAKey.generate()
OTHER, OF_ANOTHER_KIND = paramiko.ECDSAKey.generate(), paramiko.RSAKey.generate(2048)


@pytest.mark.parametrize(
    "host_key",
    ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-ed25519 no!key", "ssh-dream AAAAB3Nz"],
    ids=["none", "a kind alone", "cut off", "no base64", "an unknown kind"],
)
def test_an_invalid_host_key_prevents_the_login(host_key: str) -> None:
    machine = (NOWHERE, host_key, "gridadm", "/nowhere")

    with pytest.raises(SshAccessRejected, match="nothing was sent"), log_in_to_new_machine_by_ssh(*machine):
        pass


@pytest.fixture(name="port")
def _port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_answer, args=(listening,))
        thread.start()
        yield listening.getsockname()[1]
        thread.join(30)


def _answer(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    transport = paramiko.Transport(connection)
    transport.add_server_key(SHOWN)
    transport.start_server(event=threading.Event(), server=paramiko.ServerInterface())
    transport.join(30)


@pytest.mark.parametrize(
    ("told", "expected"),
    [(SHOWN, HostNotReached), (OTHER, SshAccessRejected), (OF_ANOTHER_KIND, SshAccessRejected)],
    ids=["the key that it shows", "another one", "one of another kind"],
)
def test_a_login_is_tried_only_after_the_expected_host_key(
    port: int, told: paramiko.PKey, expected: type[Exception]
) -> None:
    """A refused login is not reported as a wrong host key."""
    key = f"{told.get_name()} {told.get_base64()}"
    machine = ("127.0.0.1", key, "gridadm", "/nowhere", port)

    with pytest.raises(expected) as refused, log_in_to_new_machine_by_ssh(*machine):
        pass

    assert isinstance(refused.value, SshAccessRejected) == (expected is SshAccessRejected)


Answer = Callable[[paramiko.Channel], None]


class Hostile(paramiko.ServerInterface):
    """An ssh server that accepts every login, and misbehaves at each command."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def check_auth_none(self, username: str) -> int:
        return paramiko.common.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._answer(channel)
        return True


def _say_nothing(_: paramiko.Channel) -> None:
    threading.Event().wait(20)


def _say_everything(channel: paramiko.Channel) -> None:
    threading.Thread(target=_flood, args=(channel,), daemon=True).start()


def _flood(channel: paramiko.Channel) -> None:
    try:
        while True:
            channel.sendall(b"y\n" * 16000)
    except OSError:
        return


def _take_nothing(_: paramiko.Channel) -> None:
    """Read no input, and never end."""


@pytest.mark.parametrize("answer", [_say_nothing, _say_everything, _take_nothing])
def test_a_command_on_a_hostile_machine_ends_at_its_time_limit(answer: Answer) -> None:
    """Otherwise one machine would block the round."""
    here, there = socket.socketpair()
    server = paramiko.Transport(there)
    server.add_server_key(SHOWN)
    server.start_server(event=threading.Event(), server=Hostile(answer))
    with paramiko.SSHClient() as client:
        client._transport = transport = paramiko.Transport(here)  # type: ignore[attr-defined]
        transport.start_client(timeout=20)
        transport.auth_none("gridadm")
        began = time.monotonic()

        with pytest.raises(CommandFailed) as failed:
            run_on_new_machine_by_ssh(client, "true", b"x" * (8 << 20), 1.0)

    assert failed.value.status is None
    assert failed.value.transient
    assert time.monotonic() - began < 15
    there.close()
