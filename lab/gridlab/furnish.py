"""Files that make the base system a particular host: names, accounts, login environment, programs."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from gridlab import keys, paths, presence, topology
from gridlab.topology import CLUSTER_OF_HOST, HOST_BY_NAME, Host, User

PROGRAMS = {
    "init": "usr/local/lib/gridlab/init",
    "mailer": "usr/local/lib/gridlab/mailer",
    "daemons.py": "usr/local/lib/gridlab/daemons.py",
    "oar-ping": "usr/local/lib/gridlab/oar-ping",
    "oar-api.conf": "etc/gridlab/oar-api.conf",
    "labctl": "usr/local/sbin/labctl",
    "boot": "etc/gridlab/boot",
    "halt": "etc/gridlab/halt",
}


def write_files(host: Host, root: Path) -> None:
    """Write a host's own files at each boot; additions by tests stay."""
    copy_programs(PROGRAMS, root)
    replace(root / "etc/hostname", host.name + "\n")
    replace(root / "etc/hosts", _with_own_lines(root))
    replace(root / "etc/resolv.conf", "# the lab has no name server\n")
    replace(root / "etc/gridlab/host", _host_variables(host))
    replace(root / "etc/profile.d/gridlab.sh", _profile(host))
    _add_accounts(host, root)
    keys.place_on_host(host, root)
    (root / "run/sshd").mkdir(exist_ok=True)
    if host == topology.PROVIDED.master:
        _place_provider(root)


def copy_programs(programs: Mapping[str, str], root: Path) -> None:
    """Copy programs of the lab into a host's folders."""
    for source, target in programs.items():
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(paths.ROOTFS / source, root / target)


def hosts_file() -> str:
    """Return /etc/hosts with every host of the grid that is or was switched on."""
    known = (_entry(host) for host in HOST_BY_NAME.values() if host.initial or _is_whole(host))
    return "".join(["127.0.0.1 localhost\n", *known])


def introduce(newcomer: Host) -> None:
    """Add a reserve host to the hosts files of all running hosts."""
    for host in HOST_BY_NAME.values():
        process = presence.init_of(host)
        if process is None or paths.bare_name(host.name).exists():
            continue
        path = Path(f"/proc/{process.pid}/root/etc/hosts")
        if not path.is_symlink() and _entry(newcomer) not in path.read_text():
            with path.open("a") as stream:
                stream.write(_entry(newcomer))


def _entry(host: Host) -> str:
    return f"{host.address} {host.name}\n"


def _is_whole(host: Host) -> bool:
    disk = paths.host_dir(host.name)
    return disk.exists() and not paths.bare_name(host.name).exists()


def _with_own_lines(root: Path) -> str:
    """Return a host's /etc/hosts with the lines that were added since its first boot."""
    known = hosts_file().splitlines()
    is_first_boot = not (root / "etc/gridlab/host").exists()
    present = () if is_first_boot else (root / "etc/hosts").read_text().splitlines()
    return "\n".join(dict.fromkeys([*known, *present])) + "\n"


def _place_provider(root: Path) -> None:
    """Give a master the program and the secrets for renting bare hosts."""
    copy_programs({"power-node": "opt/gridlab/power-node"}, root)
    keys.place_administrator(root)
    token = root / "etc/gridlab/power-token"
    if not token.exists():
        token.touch(mode=0o600)
        token.write_text((paths.PROVIDER / "token").read_text())


def add_homes() -> None:
    """Create the shared folders of every domain: homes, mail."""
    for domain in topology.DOMAINS:
        home = paths.home(domain.name)
        for user in domain.users:
            own(home / user.name, user.uid, 0o755)
            own(home / ".mail" / user.name, 0, 0o1777)
            keys.place_in_home(user, home / user.name)
            _add_shell_file(user, home / user.name / ".bashrc")
        (home / ".mail").chmod(0o1777)
    paths.OPT.mkdir(exist_ok=True)


def _add_shell_file(user: User, path: Path) -> None:
    """Give a remote home an empty ~/.bashrc, whose absence every shell of an OAR job reports."""
    if user.holder and not os.path.lexists(path):
        path.touch()
        os.chown(path, user.uid, user.uid)


def own(folder: Path, uid: int, mode: int) -> None:
    """Make a folder that belongs to an account, unless it exists."""
    if folder.exists():
        return
    folder.mkdir(parents=True)
    folder.chmod(mode)
    os.chown(folder, uid, uid)


def replace(path: Path, text: str) -> None:
    """Write a file that may be a symlink of the machine, such as a resolver's file."""
    if path.is_symlink():
        path.unlink()
    path.write_text(text)


def _host_variables(host: Host) -> str:
    """Return the variables that boot, halt and labctl source."""
    cluster = CLUSTER_OF_HOST[host.name]
    daemons = " ".join(role.value for role in host.roles)
    own = {"GRIDLAB_DAEMONS": f"'{daemons}'", "GRIDLAB_BUILT": topology.built_marker(cluster)}
    return variables(host, {**topology.environment(cluster), **own})


def variables(host: Host, values: Mapping[str, str]) -> str:
    """Return a file for shells; the lab's name of a host may differ from the host's own."""
    named = {"GRIDLAB_HOST": host.name, **values}
    return "".join(f"export {name}={value}\n" for name, value in named.items())


def _profile(host: Host) -> str:
    """Return the login shells' environment, equal to the one of `lab on`."""
    cluster = CLUSTER_OF_HOST[host.name]
    lines = [f"export {key}={value}" for key, value in topology.environment(cluster).items()]
    root_path = topology.search_path(cluster, is_root=True)
    path = topology.search_path(cluster, is_root=False)
    lines.append(f'if [ "$(id -u)" -eq 0 ]; then PATH={root_path}; else PATH={path}; fi')
    return "\n".join([*lines, "export PATH"]) + "\n"


def _add_accounts(host: Host, root: Path) -> None:
    domain = CLUSTER_OF_HOST[host.name].domain
    for user in domain.users:
        add_account(root, user, f"/home/{user.name}", "/bin/bash")
    if not domain.is_site:
        return
    service = topology.SERVICE_USER
    add_account(root, service, f"/var/lib/{service.name}", "/usr/sbin/nologin")
    own(root / "var/lib" / service.name, service.uid, 0o755)


def add_account(root: Path, user: User, home: str, shell: str) -> None:
    """Add a locked account and its group, unless the host has the name already."""
    identity = f"{user.name}:x:{user.uid}"
    _add_line(root / "etc/passwd", f"{identity}:{user.uid}:{user.name}:{home}:{shell}")
    _add_line(root / "etc/group", f"{identity}:")
    _add_line(root / "etc/shadow", f"{user.name}:*:19000:0:99999:7:::")


def _add_line(path: Path, line: str) -> None:
    text = path.read_text()
    name = line.partition(":")[0]
    if not any(known.startswith(f"{name}:") for known in text.splitlines()):
        path.write_text(f"{text}{line}\n")
