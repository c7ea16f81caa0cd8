"""A host: five namespaces, an overlay disk, and an init whose death is a power cut."""

import os
import shutil
import signal
import socket
from pathlib import Path

from gridlab import bare, base, keeper, namespaces, network, paths, presence
from gridlab.process import record_self
from gridlab.topology import CLUSTER_OF_HOST, Host

OFF_LIMIT_S = 60.0
CUT_LIMIT_S = 20.0
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def switch_on(host: Host) -> bool:
    """Boot a host and return whether it was off."""
    if presence.init_of(host) is not None:
        return False
    make_disk(host)
    namespaces.in_child(lambda: _spawn(host))
    return True


def switch_off(host: Host) -> None:
    """Let a host stop its daemons and end; raise LabError if that takes too long."""
    _end(host, signal.SIGTERM, OFF_LIMIT_S)


def cut_power(host: Host) -> None:
    """End every process of a host at once; its disk stays."""
    _end(host, signal.SIGKILL, CUT_LIMIT_S)


def throw_away(host: Host) -> None:
    """End a host and delete its disk."""
    cut_power(host)
    paths.host_record(host.name).unlink(missing_ok=True)
    disk = paths.host_dir(host.name)
    if disk.exists():
        shutil.rmtree(disk.rename(disk.with_name(f".{host.name}.{os.getpid()}")))


def _end(host: Host, number: signal.Signals, limit_s: float) -> None:
    process = presence.init_of(host)
    if process is not None:
        process.send(number)
        process.wait_gone(limit_s)


def make_disk(host: Host) -> None:
    """Make the folders of a host's disk; existing files stay."""
    for part in ("upper", "work", "root"):
        (paths.host_dir(host.name) / part).mkdir(parents=True, exist_ok=True)


def _spawn(host: Host) -> None:
    keeper_pid = presence.running_keeper().pid
    keeper.join("mnt", "pid")
    if child := os.fork():
        os.waitpid(child, 0)  # a zombie left inside would keep the keeper from ending
        return
    namespaces.leave_terminal(str(paths.host_dir(host.name) / "console.log"))
    namespaces.unshare(
        namespaces.CLONE_NEWNS | namespaces.CLONE_NEWNET | namespaces.CLONE_NEWUTS | namespaces.CLONE_NEWIPC
    )
    network.plug_in(host, keeper_pid)
    namespaces.unshare(namespaces.CLONE_NEWPID)
    if os.fork():
        return
    _become_init(host)


def _become_init(host: Host) -> None:
    root = paths.host_dir(host.name) / "root"
    socket.sethostname(bare.hostname(host))
    namespaces.keep_mounts_private()
    _mount_disk(host, root)
    bare.write_files(host, root)
    record_self(paths.host_record(host.name))
    namespaces.pivot_into(str(root))
    init = "/usr/local/lib/gridlab/init"
    arguments = [f"init-{host.name}", host.name, "/etc/gridlab/boot", "/etc/gridlab/halt"]
    os.execve(init, arguments, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"})


def _mount_disk(host: Host, root: Path) -> None:
    lower = base.root(CLUSTER_OF_HOST[host.name].kind)
    folder = paths.host_dir(host.name)
    options = f"lowerdir={lower},upperdir={folder}/upper,workdir={folder}/work"
    namespaces.mount("overlay", str(root), "overlay", options=options)
    _mount_kernel_views(root)
    _mount_devices(root / "dev")
    for shared in bare.binds(host):
        target = root / shared.target.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        namespaces.bind(str(paths.STATE / shared.source), str(target))
    namespaces.bind(str(paths.CHECKOUT), str(root / "mnt/checkout"), read_only=True)


def _mount_kernel_views(root: Path) -> None:
    """Mount this namespace's /proc and /sys; the machine's kernel settings stay read-only."""
    safe = namespaces.MS_NOSUID | namespaces.MS_NODEV | namespaces.MS_NOEXEC
    namespaces.mount("proc", f"{root}/proc", "proc", safe)
    namespaces.bind(f"{root}/proc/sys", f"{root}/proc/sys", read_only=True)
    namespaces.mount("sysfs", f"{root}/sys", "sysfs", safe | namespaces.MS_RDONLY)
    namespaces.mount("tmpfs", f"{root}/run", "tmpfs", namespaces.MS_NOSUID, "mode=755")


def _mount_devices(dev: Path) -> None:
    namespaces.mount("tmpfs", str(dev), "tmpfs", namespaces.MS_NOSUID, "mode=755")
    for name in DEVICES:
        (dev / name).touch()
        namespaces.bind(f"/dev/{name}", str(dev / name))
    for folder in ("pts", "shm"):
        (dev / folder).mkdir()
    namespaces.mount("devpts", f"{dev}/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=620")
    namespaces.mount("tmpfs", f"{dev}/shm", "tmpfs", namespaces.MS_NOSUID, "mode=1777")
    (dev / "ptmx").symlink_to("pts/ptmx")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        (dev / name).symlink_to(f"/proc/self/fd/{number}")
    (dev / "fd").symlink_to("/proc/self/fd")
