"""Files that make the base system this very host: names, accounts, login environment, programs."""

import os
import shutil
from pathlib import Path

from gridlab import keys, paths, topology
from gridlab.topology import CLUSTER_OF_HOST, Host, User

PROGRAMS = {
    "init": "usr/local/lib/gridlab/init",
    "mailer": "usr/local/lib/gridlab/mailer",
    "daemons.py": "usr/local/lib/gridlab/daemons.py",
    "oar-ping": "usr/local/lib/gridlab/oar-ping",
    "labctl": "usr/local/sbin/labctl",
    "boot": "etc/gridlab/boot",
    "halt": "etc/gridlab/halt",
}


def write_files(host: Host, root: Path) -> None:
    """Write a host's own files; done at each boot, and what tests added to others stays."""
    (root / "etc/gridlab").mkdir(exist_ok=True)
    for source, target in PROGRAMS.items():
        shutil.copy(paths.ROOTFS / source, root / target)
    _replace(root / "etc/hostname", host.name + "\n")
    _replace(root / "etc/hosts", hosts_file())
    _replace(root / "etc/resolv.conf", "# the lab has no name server\n")
    _replace(root / "etc/gridlab/host", _host_variables(host))
    _replace(root / "etc/profile.d/gridlab.sh", _profile(host))
    _add_accounts(host, root)
    keys.place_on_host(host, root)
    (root / "run/sshd").mkdir(exist_ok=True)


def hosts_file() -> str:
    """Return /etc/hosts with every host of the grid."""
    known = (
        f"{host.address} {host.name}" for cluster in topology.CLUSTERS for host in cluster.hosts
    )
    return "\n".join(["127.0.0.1 localhost", *known]) + "\n"


def add_homes() -> None:
    """Create the shared folders of every domain: homes, mail."""
    for domain in topology.DOMAINS:
        home = paths.home(domain.name)
        for user in domain.users:
            _own(home / user.name, user.uid, 0o755)
            _own(home / ".mail" / user.name, 0, 0o1777)
            keys.place_in_home(user, home / user.name)
            _add_shell_file(user, home / user.name / ".bashrc")
        (home / ".mail").chmod(0o1777)
    paths.OPT.mkdir(exist_ok=True)


def _add_shell_file(user: User, path: Path) -> None:
    """Give a home elsewhere an empty ~/.bashrc: every shell of an OAR job complains without."""
    if user.holder and not os.path.lexists(path):
        path.touch()
        os.chown(path, user.uid, user.uid)


def _own(folder: Path, uid: int, mode: int) -> None:
    if folder.exists():
        return
    folder.mkdir(parents=True)
    folder.chmod(mode)
    os.chown(folder, uid, uid)


def _replace(path: Path, text: str) -> None:
    """Write a file that may be a link of the machine's, e.g. to a resolver's file."""
    if path.is_symlink():
        path.unlink()
    path.write_text(text)


def _host_variables(host: Host) -> str:
    """Return what boot, halt and labctl source."""
    cluster = CLUSTER_OF_HOST[host.name]
    daemons = " ".join(role.value for role in host.roles)
    variables = {
        **topology.environment(cluster),
        "GRIDLAB_DAEMONS": f"'{daemons}'",
        "GRIDLAB_BUILT": topology.built_marker(cluster),
    }
    return "".join(f"export {name}={value}\n" for name, value in variables.items())


def _profile(host: Host) -> str:
    """Return the login shells' environment, the same that `lab on` gives."""
    cluster = CLUSTER_OF_HOST[host.name]
    lines = [f"export {key}={value}" for key, value in topology.environment(cluster).items()]
    root_path = topology.search_path(cluster, is_root=True)
    path = topology.search_path(cluster, is_root=False)
    lines.append(f'if [ "$(id -u)" -eq 0 ]; then PATH={root_path}; else PATH={path}; fi')
    return "\n".join([*lines, "export PATH"]) + "\n"


def _add_accounts(host: Host, root: Path) -> None:
    domain = CLUSTER_OF_HOST[host.name].domain
    for user in domain.users:
        _add_account(root, user, f"/home/{user.name}", "/bin/bash")
    if not domain.is_site:
        return
    service = topology.SERVICE_USER
    _add_account(root, service, f"/var/lib/{service.name}", "/usr/sbin/nologin")
    _own(root / "var/lib" / service.name, service.uid, 0o755)


def _add_account(root: Path, user: User, home: str, shell: str) -> None:
    """Add a locked account and its group unless the host knows the name already."""
    identity = f"{user.name}:x:{user.uid}"
    _add_line(root / "etc/passwd", f"{identity}:{user.uid}:{user.name}:{home}:{shell}")
    _add_line(root / "etc/group", f"{identity}:")
    _add_line(root / "etc/shadow", f"{user.name}:*:19000:0:99999:7:::")


def _add_line(path: Path, line: str) -> None:
    text = path.read_text()
    name = line.partition(":")[0]
    if not any(known.startswith(f"{name}:") for known in text.splitlines()):
        path.write_text(f"{text}{line}\n")
