"""Keys of ssh(1): one for each reachable host, and one for each person with accounts elsewhere.

Made once for a lab by the base's own ssh-keygen, without passphrases: nothing leads out of the lab.
"""

import os
import subprocess
from pathlib import Path

from gridlab import base, keeper, namespaces, paths, topology
from gridlab.topology import ADMINISTRATOR, CLUSTER_OF_HOST, DOMAINS, SERVICE_USER, Host, Kind, Role, User

LIMIT_S = 20.0
WORK = "/mnt/checkout"  # an empty folder of the base
HOST_KEY = "etc/gridlab/ssh_host_key"
BARE_HOST_KEY = "etc/ssh/ssh_host_ed25519_key"


def ensure(kind: Kind) -> None:
    """Make the missing keys, with the programs of a mounted base."""
    paths.KEYS.mkdir(mode=0o700, exist_ok=True)
    missing = [name for name in _names() if not _public(name).exists()]
    if missing:
        namespaces.in_child(lambda: _generate(base.root(kind), paths.KEYS, missing))


def make_host_key(host: Host) -> None:
    """Make the key of a bare host beside its disk."""
    root = base.root(CLUSTER_OF_HOST[host.name].kind)
    key = paths.host_key(host.name)
    namespaces.in_child(lambda: _generate(root, key.parent, [key.name]))


def public_host_key(host: Host) -> str:
    """Return a bare host's public key without the comment."""
    key = paths.host_key(host.name)
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def place_bare(host: Host, root: Path) -> None:
    """Give a bare host its own key and let the administrator in."""
    for path in (root / "etc/ssh").glob("ssh_host_*_key*"):
        path.unlink()  # those of the base, which all hosts would share
    own = (paths.host_key(host.name).read_text(), public_host_key(host) + "\n")
    _write(root / BARE_HOST_KEY, own[0], 0, 0o600)
    _write(root / f"{BARE_HOST_KEY}.pub", own[1], 0, 0o644)
    home = root / "var/lib" / ADMINISTRATOR.name
    allowed = _public(ADMINISTRATOR.name).read_text()
    _write(home / ".ssh/authorized_keys", allowed, ADMINISTRATOR.uid, 0o600)


def place_administrator(root: Path) -> None:
    """Give root of a host the key for bare hosts; its present owner keeps it."""
    path = root / "etc/gridlab/gridadm.key"
    if not path.exists():
        _write(path, (paths.KEYS / ADMINISTRATOR.name).read_text(), 0, 0o600)


def place_in_home(user: User, home: Path) -> None:
    """Give a user the private key, or authorize its holder's key; done once for a home."""
    folder = home / ".ssh"
    if os.path.lexists(folder):
        return  # the user's own by now: a link there must not lead root anywhere
    if user.name in _holders():
        _place_private(user, folder)
    elif user.holder:
        _write(folder / "authorized_keys", _public(user.holder).read_text(), user.uid, 0o600)


def place_on_host(host: Host, root: Path) -> None:
    """Write a host's own key, the known hosts, and sshd's settings beyond Debian's defaults."""
    known = (f"{one.name},{one.address} {_public(one.name).read_text()}" for one in _servers())
    (root / "etc/ssh/ssh_known_hosts").write_text("".join(known))
    if CLUSTER_OF_HOST[host.name].domain.is_site:
        place_in_home(SERVICE_USER, root / "var/lib" / SERVICE_USER.name)
    if host in _servers():
        _write(root / HOST_KEY, (paths.KEYS / host.name).read_text(), 0, 0o600)
        (root / "etc/ssh/sshd_config.d/gridlab.conf").write_text(_server_settings(host))


def _place_private(user: User, folder: Path) -> None:
    _write(folder / "id_ed25519", (paths.KEYS / user.name).read_text(), user.uid, 0o600)
    _write(folder / "id_ed25519.pub", _public(user.name).read_text(), user.uid, 0o644)


def _server_settings(host: Host) -> str:
    """Return sshd_config(5); a command by ssh gets the environment of a login shell."""
    cluster = CLUSTER_OF_HOST[host.name]
    variables = topology.environment(cluster)
    variables["PATH"] = topology.search_path(cluster, is_root=False)
    pairs = " ".join(f"{name}={value}" for name, value in variables.items())
    return f"HostKey /{HOST_KEY}\nPasswordAuthentication no\nPermitRootLogin no\nSetEnv {pairs}\n"


def _names() -> list[str]:
    return [*(host.name for host in _servers()), *sorted(_holders()), ADMINISTRATOR.name]


def _servers() -> list[Host]:
    return [host for host in topology.HOST_BY_NAME.values() if Role.SSHD in host.roles]


def _holders() -> set[str]:
    return {user.holder for domain in DOMAINS for user in domain.users} - {""}


def _public(name: str) -> Path:
    return paths.KEYS / f"{name}.pub"


def _generate(root: Path, folder: Path, names: list[str]) -> None:
    keeper.join("mnt")
    namespaces.unshare(namespaces.CLONE_NEWNS)
    namespaces.bind("/dev", f"{root}/dev")
    namespaces.bind(str(folder), f"{root}{WORK}")
    options = ("-q", "-t", "ed25519", "-N", "")
    for name in names:
        command = ["chroot", str(root), "ssh-keygen", *options, "-C", name, "-f", f"{WORK}/{name}"]
        subprocess.run(command, check=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)


def _write(path: Path, text: str, uid: int, mode: int) -> None:
    """Write a file in a folder that only its owner may enter."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=mode)
    path.write_text(text)
    for place in (path.parent, path):
        os.chown(place, uid, uid)
