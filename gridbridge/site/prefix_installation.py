"""Copies the environment in which this program runs to /opt/gridbridge, and switches to the copy by one rename.

PREFIX/venv is a link to PREFIX/venv-DATE.RANDOM. A program that has started continues with the environment in which it
started, so the environment that was in use stays for the programs of other hosts. Distributions that an administrator
has added to the old environment, such as a database's driver, are copied to the new environment.
"""

import glob
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path

from gridbridge.errors import GridbridgeError
from gridbridge.shell.program_runs import run_program

PREFIX = "/opt/gridbridge"
SYSTEM_PYTHON = "/usr/bin/python3"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
MAKE_S = 120.0
PACKAGES = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
KEEP_PATHS = "import os, sys; sys.path[:] = map(os.path.realpath, sys.path)\n"  # although the link moves
OF_SITE = "share/gridbridge/"  # the wheel's folder of sge-methods, oar-hooks and conf
PROGRAM = """#!{python} -I
import sys

from {module} import {function}

if __name__ == "__main__":
    sys.exit({function}())
"""


def install_into_prefix(
    prefix: Path, now: datetime, source: Path = Path(sys.prefix), final: Path = Path(PREFIX)
) -> Path:
    """Install the environment `source`, and return the new environment; programs will find `prefix` at `final`."""
    package = _distribution_by_name(source, "gridbridge")
    umask = os.umask(0o022)
    try:
        _require_system_python_version()
        prefix.mkdir(parents=True, exist_ok=True)
        _remove_unused_environments(prefix)
        environment = _copy_environment(prefix, source, now)
        programs = _write_programs(package, environment, final / environment.name)
        _switch_link(prefix, environment)
        for path in (*programs, *_site_files(package)):
            _replace_file(path, prefix / _path_in_prefix(path, environment, source))
    finally:
        os.umask(umask)
    return environment


def _distribution_by_name(source: Path, name: str) -> Distribution:
    """Return an installed distribution; a checkout's editable installation has no files of its own to copy."""
    found = next(iter(distributions(name=name, path=[str(source / PACKAGES)])), None)
    if found is None or not (source / PACKAGES / name / "__init__.py").exists():
        raise GridbridgeError(
            f"{source}: no installed wheel of {name}; expected an environment with the wheel, or"
            " tools/install in a checkout"
        )
    return found


def _require_system_python_version() -> None:
    answer = run_program((SYSTEM_PYTHON, "-I", "-c", "import sys; print(sys.version_info[:2])"), ENVIRONMENT, MAKE_S)
    here = str(tuple(sys.version_info[:2]))
    if (there := answer.require_success().stdout.decode().strip()) != here:
        raise GridbridgeError(
            f"this program runs with Python {here}, but {SYSTEM_PYTHON} is {there}; expected an environment of"
            f" {SYSTEM_PYTHON} -m venv"
        )


def _remove_unused_environments(prefix: Path) -> None:
    """Remove environments other than the present one, unless a program of this host runs in an environment.

    A running program has the environment in its command line, or maps a library of the environment.
    """
    present = os.path.basename(os.path.realpath(prefix / "venv"))
    old = [path for path in prefix.glob("venv-*") if path.name != present]
    texts = [_read(path) for name in ("cmdline", "maps") for path in glob.glob(f"/proc/[0-9]*/{name}")]
    for path in old:
        if not any(f"/{path.name}/".encode() in text for text in texts):
            shutil.rmtree(path, ignore_errors=True)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # the process has ended
        return b""


def _copy_environment(prefix: Path, source: Path, now: datetime) -> Path:
    environment = Path(tempfile.mkdtemp(prefix=f"venv-{now:%Y-%m-%d}.", dir=prefix))
    make = (SYSTEM_PYTHON, "-I", "-m", "venv", "--without-pip", str(environment))
    run_program(make, ENVIRONMENT, MAKE_S).require_success()
    packages = environment / PACKAGES
    shutil.copytree(source / PACKAGES, packages, dirs_exist_ok=True)
    shutil.copytree(source / "share", environment / "share")  # so that this copy can be installed elsewhere, too
    (packages / "gridbridge.pth").write_text(KEEP_PATHS)
    names = {_name(distribution) for distribution in distributions(path=[str(packages)])}
    before = prefix / "venv" / PACKAGES
    for distribution in distributions(path=[str(before)]):
        if _name(distribution) not in names:
            _copy_distribution(distribution, before, packages)
    _give_to_root(environment)
    return environment


def _name(distribution: Distribution) -> str:
    return re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()


def _copy_distribution(distribution: Distribution, before: Path, packages: Path) -> None:
    for file in distribution.files or ():
        path = before / file
        if ".." not in file.parts and path.is_file():
            (packages / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, packages / file)


def _give_to_root(top: Path) -> None:
    """Make all files below a folder readable by everybody and writable by the owner; root's installation is root's."""
    for folder, _, names in os.walk(top):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            if os.geteuid() == 0:
                os.chown(path, 0, 0, follow_symlinks=False)
            if not os.path.islink(path):
                mode = os.stat(path).st_mode
                os.chmod(path, mode & ~0o022 | (0o555 if mode & 0o111 else 0o444))


def _write_programs(package: Distribution, environment: Path, final: Path) -> Iterator[Path]:
    """Write the console scripts of gridbridge, isolated from users' PYTHONPATH and folders, and return their paths."""
    for entry in package.entry_points.select(group="console_scripts"):
        path = environment / "bin" / entry.name
        path.write_text(PROGRAM.format(python=final / "bin/python3", module=entry.module, function=entry.attr))
        path.chmod(0o755)
        yield path


def _site_files(package: Distribution) -> Iterator[Path]:
    """Return the files of the wheel outside of its modules: methods, hooks, configuration, man pages, completion."""
    for file in package.files or ():
        path = Path(os.path.normpath(str(package.locate_file(file))))
        if "share" in file.parts and path.is_file():
            yield path


def _path_in_prefix(path: Path, environment: Path, source: Path) -> str:
    if path.is_relative_to(environment):
        return str(path.relative_to(environment))
    return str(path.relative_to(source)).removeprefix(OF_SITE)


def _switch_link(prefix: Path, environment: Path) -> None:
    beside = prefix / "venv.new"
    beside.unlink(missing_ok=True)
    beside.symlink_to(environment.name)
    beside.replace(prefix / "venv")


def _replace_file(path: Path, target: Path) -> None:
    """Replace a file by rename, with a new modification time, by which execd starts a changed load sensor again."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f"{target.name}.new")
    beside.unlink(missing_ok=True)
    shutil.copyfile(path, beside)
    beside.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    beside.replace(target)
