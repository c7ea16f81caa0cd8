"""Build a remote cluster's access values from its section of gridbridge.toml.

Only root writes gridbridge.toml, so `gridbridge check` alone judges mistakes in the file.
"""

from collections.abc import Mapping

from gridbridge.model.fixed_paths import PYTHON
from gridbridge.model.transfer_route import (
    EMBEDDED,
    OAR,
    Away,
    EmbeddedClusterAccess,
    GridEngineCellAccess,
    OarServerAccess,
    parse_ssh_login_address,
)

TIMEOUT_S = 15.0


def remote_cluster_access_of_person(section: Mapping[str, object], name: str, person: str) -> Away:
    """Return a remote cluster's access values for a person."""
    users, timeout_s = section.get("users"), section.get("command_timeout_s")
    account = str(users.get(person, person)) if isinstance(users, dict) else person
    way = parse_ssh_login_address(str(section.get("ssh", "")), account)
    patience_s = float(timeout_s) if isinstance(timeout_s, int | float) else TIMEOUT_S
    if section.get("kind") == EMBEDDED:
        folder = str(section.get("folder", ""))
        return EmbeddedClusterAccess(path=folder, python=PYTHON, timeout_s=patience_s)
    if section.get("kind") == OAR:
        binaries = str(section.get("binaries", "/usr/bin"))
        return OarServerAccess(binaries=binaries, timeout_s=patience_s, login=way)
    return GridEngineCellAccess(
        root=str(section.get("root", "/var/lib/gridengine")),
        cell=str(section.get("cell", name)),
        qmaster_port=str(section.get("qmaster_port", "")),
        execd_port=str(section.get("execd_port", "")),
        binaries=str(section.get("binaries", "/usr/lib/gridengine")),
        timeout_s=patience_s,
        login=way,
    )
