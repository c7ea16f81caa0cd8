"""At a machine that nobody has met one host key is believed, and without it nothing is asked."""

import pytest

from gridbridge.errors import NotAdmitted
from gridbridge.shell.connection.bare import Machine, logged_in

NOWHERE = "192.0.2.1"  # RFC 5737: who asked it would wait


@pytest.mark.parametrize(
    "host_key",
    ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-ed25519 no!key", "ssh-dream AAAAB3Nz"],
    ids=["none", "a kind alone", "cut off", "no base64", "an unknown kind"],
)
def test_what_is_no_host_key_lets_nobody_log_in(host_key: str) -> None:
    machine = Machine(address=NOWHERE, host_key=host_key, user="gridadm", key_file="/nowhere")

    with pytest.raises(NotAdmitted, match="nothing was sent"), logged_in(machine):
        pass
