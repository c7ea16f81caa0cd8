"""Debian packages unpacked beside a test, without installing them on the machine."""

import subprocess
from pathlib import Path


def unpack(folder: Path, *packages: str) -> Path:
    if not _download(folder, packages):
        subprocess.run(("apt-get", "-qq", "update"), check=True)
        assert _download(folder, packages), f"apt-get download {' '.join(packages)}"
    for package in folder.glob("*.deb"):
        subprocess.run(("dpkg", "-x", package, folder / "root"), check=True)
    return folder / "root"


def _download(folder: Path, packages: tuple[str, ...]) -> bool:
    argv = ("apt-get", "-qq", "download", *packages)
    return subprocess.run(argv, cwd=folder, stderr=subprocess.DEVNULL).returncode == 0
