"""The base system: the machine's own root with packages on top, as an overlay.

Built once by apt-get in a chroot (facts/lab.md) and kept in the cache, so that a later `up` only
mounts it. Hosts are overlays on top of the mounted base.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from gridlab import keeper, namespaces, paths
from gridlab.errors import LabError
from gridlab.topology import Kind

RECIPE = 4  # raise it when the building below changes, so that old bases are not used

COMMON_PACKAGES = (
    *("sudo", "strace", "faketime", "libfaketime", "tcsh", "ksh", "python3", "python3-venv"),
    *("man-db", "iproute2", "procps", "rsync", "openssh-client", "openssh-server"),
)
PACKAGES = {
    Kind.GRID_ENGINE: (
        *("gridengine-master", "gridengine-client", "gridengine-exec", "python3-drmaa"),
        *COMMON_PACKAGES,
    ),
    Kind.OAR: (
        *("oar-server", "oar-server-pgsql", "oar-user", "oar-user-pgsql", "oar-node"),
        *("oar-restful-api", "apache2"),
        *("postgresql", *COMMON_PACKAGES),
    ),
}
LEFTOVERS = {  # what the installation makes, and what the machine's own has there
    Kind.GRID_ENGINE: ("var/lib/gridengine/default", "var/spool/gridengine"),
    Kind.OAR: ("etc/postgresql", "var/lib/postgresql", "var/log/postgresql"),
}
ARCH = "usr/share/gridengine/util/arch"
ANSWER = """#!/bin/sh
[ $# -eq 0 ] || exec {program} "$@"
echo {answer}
"""
INSTALL_LIMIT_S = 900.0
FORGET_AFTER_S = 7 * 86400.0

SYSTEM_FOLDERS = frozenset(
    ("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt")
) | frozenset(("opt", "proc", "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var"))
EMPTY_FOLDERS = {  # what the machine keeps there is not the grid's business
    **dict.fromkeys(("home", "media", "mnt", "opt", "run", "srv", "usr/local"), 0o755),
    **dict.fromkeys(("var/cache/gridbridge-lab", *(f"var/lib/{name}" for name in paths.NAMES.values())), 0o755),
    **{"root": 0o700, "tmp": 0o1777, "var/tmp": 0o1777},
}
MOUNT_POINTS = (
    *("opt/gridbridge", "mnt/checkout", "var/spool/gridbridge"),
    *("usr/local/bin", "usr/local/sbin", "usr/local/lib/gridlab"),
)


def root(kind: Kind) -> Path:
    """Return where the keeper's mount namespace has the base mounted."""
    return paths.STATE / "base" / kind.value


def ensure(kind: Kind) -> None:
    """Build the base if the cache has no matching one, and mount it for the keeper.

    One at a time: each mount makes its working folder in the cache anew (overlayfs).
    """
    (paths.CACHE / "base").mkdir(parents=True, exist_ok=True)
    with open(paths.CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _cached(kind).exists():
            _build(kind)
        os.utime(_cached(kind))
        namespaces.in_child(lambda: _mount_for_keeper(kind))


def _cached(kind: Kind) -> Path:
    """Return the cache folder, whose name depends on everything that defines the base."""
    key = hashlib.sha256(f"{RECIPE} {PACKAGES[kind]}".encode())
    for lower in ("/var/lib/dpkg/status", "/etc/passwd", "/etc/group"):
        key.update(Path(lower).read_bytes())
    return paths.CACHE / "base" / f"{kind.value}-{key.hexdigest()[:16]}"


def _build(kind: Kind) -> None:
    target = _cached(kind)
    building = target.with_name(f"{kind.value}.building")
    for old in (building, *_forgotten(kind)):
        shutil.rmtree(old, ignore_errors=True)
    (building / "upper").mkdir(parents=True)
    (building / "work").mkdir()
    _hide_machine(building / "upper")
    namespaces.in_child(lambda: _install(kind, building))
    building.rename(target)


def _forgotten(kind: Kind) -> list[Path]:
    """Return bases that no recent `up` used; younger ones may be in use by another lab."""
    oldest = time.time() - FORGET_AFTER_S
    bases = _cached(kind).parent.glob(f"{kind.value}-*")
    return [base for base in bases if base.stat().st_mtime < oldest]


def _hide_machine(upper: Path) -> None:
    """Hide everything but system software: whiteouts and opaque folders (overlayfs.rst)."""
    for name in os.listdir("/"):
        if name not in SYSTEM_FOLDERS:
            os.mknod(upper / name, 0o020000, os.makedev(0, 0))
    for name, mode in EMPTY_FOLDERS.items():
        folder = upper / name
        folder.mkdir(parents=True)
        folder.chmod(mode)
        os.setxattr(folder, "trusted.overlay.opaque", b"y")
    for name in MOUNT_POINTS:
        (upper / name).mkdir(parents=True, exist_ok=True)


def _overlay(folder: Path, target: Path, flags: int = 0) -> None:
    target.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
    namespaces.mount("overlay", str(target), "overlay", flags, options)


def _mount_for_keeper(kind: Kind) -> None:
    keeper.join("mnt")
    if not os.path.ismount(root(kind)):
        _overlay(_cached(kind), root(kind), namespaces.MS_RDONLY)


def _install(kind: Kind, building: Path) -> None:
    """Run apt-get in the overlay, inside the keeper's PID namespace so that `down` ends it."""
    keeper.join("mnt", "pid")
    namespaces.unshare(namespaces.CLONE_NEWNS)
    chroot = paths.STATE / "build"
    _overlay(building, chroot)
    _prepare_chroot(chroot)
    if not any((chroot / "var/lib/apt/lists").glob("*Packages*")):
        _apt(chroot, "update")
    names = PACKAGES[kind]
    if not _apt_succeeds(chroot, "install", *names):
        _apt(chroot, "update")
        _apt(chroot, "install", *names)
    for leftover in LEFTOVERS[kind]:
        shutil.rmtree(chroot / leftover, ignore_errors=True)
    if kind is Kind.GRID_ENGINE:
        _answer_once(chroot)


def _answer_once(chroot: Path) -> None:
    """Replace Debian's `arch` by a constant answer, since every command and task calls it.

    The original runs a compiler each time, half of all CPU time in the lab.
    """
    asked = chroot / ARCH
    answer = subprocess.run(
        ["chroot", str(chroot), f"/{ARCH}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    asked.rename(asked.with_name("arch.asked"))
    asked.write_text(ANSWER.format(program=f"/{ARCH}.asked", answer=answer))
    asked.chmod(0o755)


def _prepare_chroot(chroot: Path) -> None:
    archives = paths.CACHE / "debs"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    namespaces.mount("proc", str(chroot / "proc"), "proc")
    namespaces.bind("/dev", str(chroot / "dev"))
    namespaces.bind(str(archives), str(chroot / "var/cache/apt/archives"))
    policy = chroot / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")  # no daemon may start, see invoke-rc.d(8)
    policy.chmod(0o755)
    (chroot / "etc/apt/apt.conf.d/docker-clean").unlink(missing_ok=True)
    (chroot / "var/lib/man-db/auto-update").unlink(missing_ok=True)


def _apt(chroot: Path, *arguments: str) -> None:
    if not _apt_succeeds(chroot, *arguments):
        log = (paths.STATE / "apt.log").read_text(errors="replace").splitlines()
        raise LabError("\n".join([f"apt-get {arguments[0]} failed:", *log[-20:]]))


def _apt_succeeds(chroot: Path, *arguments: str) -> bool:
    options = ("--yes", "--no-install-recommends", "-o", "APT::Keep-Downloaded-Packages=true")
    quick = ("-o", "DPkg::Options::=--force-unsafe-io", "-o", "Dpkg::Use-Pty=0")
    with open(paths.STATE / "apt.log", "ab") as log:
        run = subprocess.run(
            ["chroot", str(chroot), "apt-get", *options, *quick, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"},
            timeout=INSTALL_LIMIT_S,
            check=False,
        )
    return run.returncode == 0
