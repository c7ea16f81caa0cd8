"""A bare host: a new machine with sshd and an administrator, which can become an execution host.

It has the packages of its cluster and nothing of the cluster's set-up. What the other hosts
share is prepared below /export, where a site's file server would have it.
"""

from pathlib import Path

from gridlab import furnish, keys, paths, topology
from gridlab.topology import ADMINISTRATOR, CLUSTER_OF_HOST, Bind, Host

EXPORT = "/export"
BOOTED = "etc/gridlab/host"
PROGRAMS = {**furnish.PROGRAMS, "bare-boot": "etc/gridlab/boot", "bare-halt": "etc/gridlab/halt"}


def mark(host: Host, name: str) -> None:
    """Mark a host's disk as a bare host's, with the name that its renter gave."""
    paths.host_dir(host.name).mkdir(parents=True)
    paths.bare_name(host.name).write_text(name)
    keys.make_host_key(host)


def is_bare(host: Host) -> bool:
    """Say whether a host's disk is marked as a bare host's."""
    return paths.bare_name(host.name).exists()


def hostname(host: Host) -> str:
    """Return a host's own host name."""
    return paths.bare_name(host.name).read_text() if is_bare(host) else host.name


def binds(host: Host) -> tuple[Bind, ...]:
    """Return the shared folders of a host; a bare host has to mount them itself."""
    shared = topology.binds(host)
    if not is_bare(host):
        return shared
    return tuple(Bind(source=one.source, target=f"{EXPORT}{one.target}") for one in shared)


def write_files(host: Host, root: Path) -> None:
    """Write a host's own files; a bare host's files are written only once."""
    if not is_bare(host):
        furnish.write_files(host, root)
    elif not (root / BOOTED).exists():
        _write_new(host, root)


def _write_new(host: Host, root: Path) -> None:
    furnish.copy_programs(PROGRAMS, root)
    name = hostname(host)
    furnish.replace(root / "etc/hostname", f"{name}\n")
    furnish.replace(root / "etc/hosts", f"127.0.0.1 localhost\n{host.address} {name}\n")
    furnish.replace(root / "etc/resolv.conf", "# the lab has no name server\n")
    furnish.replace(root / "etc/fstab", "")
    furnish.add_account(root, ADMINISTRATOR, f"/var/lib/{ADMINISTRATOR.name}", "/bin/bash")
    furnish.own(root / "var/lib" / ADMINISTRATOR.name, ADMINISTRATOR.uid, 0o755)
    rule = root / "etc/sudoers.d" / ADMINISTRATOR.name
    rule.write_text(f"{ADMINISTRATOR.name} ALL=(ALL) NOPASSWD: ALL\n")
    rule.chmod(0o440)
    keys.place_bare(host, root)
    settings = "PasswordAuthentication no\nPermitRootLogin no\n"
    (root / "etc/ssh/sshd_config.d/gridlab.conf").write_text(settings)
    (root / BOOTED).write_text(_variables(host))


def _variables(host: Host) -> str:
    """Return the variables that labctl and the agent read."""
    cell = topology.environment(CLUSTER_OF_HOST[host.name])
    own = {"GRIDLAB_DAEMONS": "sshd", "SGE_EXECD_PIDFILE": "/run/gridengine/execd.pid"}
    return furnish.variables(host, {**cell, **own})
