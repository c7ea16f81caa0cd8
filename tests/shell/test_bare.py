"""At a machine that nobody has met one host key is believed, and without it nothing is asked."""

import socket
import threading
from collections.abc import Iterator

import paramiko
import pytest

from gridbridge.errors import NotAdmitted, NotReached
from gridbridge.shell.connection.bare import Machine, logged_in

NOWHERE = "192.0.2.1"  # RFC 5737: who asked it would wait
SHOWN = paramiko.ECDSAKey.generate()
OTHER, OF_ANOTHER_KIND = paramiko.ECDSAKey.generate(), paramiko.RSAKey.generate(2048)


@pytest.mark.parametrize(
    "host_key",
    ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-ed25519 no!key", "ssh-dream AAAAB3Nz"],
    ids=["none", "a kind alone", "cut off", "no base64", "an unknown kind"],
)
def test_what_is_no_host_key_lets_nobody_log_in(host_key: str) -> None:
    machine = Machine(address=NOWHERE, host_key=host_key, user="gridadm", key_file="/nowhere")

    with pytest.raises(NotAdmitted, match="nothing was sent"), logged_in(machine):
        pass


@pytest.fixture(name="port")
def _port() -> Iterator[int]:
    """Return the port of a machine that shows one host key, and has nobody log in."""
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
    [(SHOWN, NotReached), (OTHER, NotAdmitted), (OF_ANOTHER_KIND, NotAdmitted)],
    ids=["the key that it shows", "another one", "one of another kind"],
)
def test_only_a_machine_with_the_key_that_was_told_is_asked_to_let_us_in(
    port: int, told: paramiko.PKey, expected: type[Exception]
) -> None:
    """Whom it does not let in is not refused for its host key."""
    key = f"{told.get_name()} {told.get_base64()}"
    machine = Machine(
        address="127.0.0.1", host_key=key, user="gridadm", key_file="/nowhere", port=port
    )

    with pytest.raises(expected) as refused, logged_in(machine):
        pass

    assert isinstance(refused.value, NotAdmitted) == (expected is NotAdmitted)
