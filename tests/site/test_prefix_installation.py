"""Installing gridbridge into a prefix, while programs of the version before start and run."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.site import prefix_installation
from gridbridge.site.prefix_installation import PACKAGES, install_into_prefix

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MODULES = 150  # of the small package whose versions the tests install
PROGRAM = f"""import importlib
found = {{importlib.import_module(f"gridbridge.part{{n}}").VERSION for n in range({MODULES})}}
assert len(found) == 1, found
"""
pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="gridbridge install needs the version of /usr/bin/python3"
)


def add_distribution(packages: Path, name: str, version: str, files: dict[str, str]) -> None:
    about = f"{name}-{version}.dist-info"
    files = files | {f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}
    files[f"{about}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{about}/RECORD"))
    for file, text in files.items():
        path = packages / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def environment(folder: Path, version: str) -> Path:
    """Return an environment with a version of a package with many modules, each of which has the version."""
    source = folder / f"of {version}"
    files = {f"gridbridge/part{n}.py": f"VERSION = {version!r}\n" for n in range(MODULES)} | {
        "gridbridge/__init__.py": "",
        "gridbridge/main.py": "def main():\n    from gridbridge.part1 import VERSION\n    print(VERSION)\n",
        "../../../share/gridbridge/sge-methods/sensor": f"{version}\n",
        "../../../share/man/man1/shown.1": "",
        f"gridbridge-{version}.dist-info/entry_points.txt": "[console_scripts]\nshown = gridbridge.main:main\n",
    }
    add_distribution(source / PACKAGES, "gridbridge", version, files)
    add_distribution(source / PACKAGES, "library", version, {"library.py": f"VERSION = {version!r}\n"})
    (source / "share/gridbridge/sge-methods/sensor").chmod(0o700)
    return source


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "opt"


def install(prefix: Path, version: str) -> Path:
    return install_into_prefix(prefix, NOW, environment(prefix.parent, version), prefix)


def run_late_imports(environment: Path) -> "subprocess.Popen[str]":
    """Start a program in an environment, which imports most modules after a line of input."""
    halves = f"import gridbridge.part0, sys; print(flush=True); sys.stdin.read(); {PROGRAM}print(*found)"
    argv = [environment / "bin/python3", "-I", "-c", halves]
    running = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert running.stdout
    running.stdout.readline()
    return running


def test_an_installation_has_programs_methods_and_pages_that_all_users_can_read(prefix: Path) -> None:
    umask = os.umask(0o077)
    try:
        new = install(prefix, "1")
    finally:
        os.umask(umask)

    wrong = [path for path in prefix.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o044 != 0o044]
    assert subprocess.run([prefix / "bin/shown"], capture_output=True, text=True, check=True).stdout == "1\n"
    assert (prefix / "bin/shown").read_text().startswith(f"#!{new}/bin/python3 -I\n")
    assert (new.parent, new.name.partition(".")[0]) == (prefix, "venv-2026-03-01")
    assert (prefix / "sge-methods/sensor").stat().st_mode & 0o777 == 0o755
    assert (prefix / "share/man/man1/shown.1").stat().st_mode & 0o777 == 0o644
    assert wrong == []
    again = install_into_prefix(prefix.with_name("image"), NOW, new, prefix)
    assert (again / "share/gridbridge/sge-methods/sensor").read_text() == "1\n"


def test_an_upgrade_gives_the_sensor_a_new_time_by_which_execd_starts_the_sensor_again(prefix: Path) -> None:
    install(prefix, "1")
    sensor = prefix / "sge-methods/sensor"
    os.utime(sensor, (1, 1))
    with sensor.open() as opened:
        install(prefix, "2")

        assert opened.read() == "1\n"  # Grid Engine may be reading the method
    assert (sensor.read_text(), sensor.stat().st_mtime > 1) == ("2\n", True)


def test_programs_that_start_during_an_upgrade_have_one_version_whole(prefix: Path) -> None:
    """A program would fail if an upgrade changed its folder during its imports."""
    install(prefix, "1")
    argv = [prefix / "venv/bin/python3", "-I", "-c", PROGRAM + "print(*found)"]
    upgrade = Thread(target=install, args=(prefix, "2"))
    upgrade.start()
    ran = []
    while upgrade.is_alive():
        ran.append(subprocess.run(argv, check=False, capture_output=True, text=True))
    ran.append(subprocess.run(argv, check=False, capture_output=True, text=True))

    assert [done.stderr for done in ran if done.returncode] == []
    assert (ran[0].stdout, ran[-1].stdout) == ("1\n", "2\n")


def test_an_environment_stays_while_a_program_runs_in_it_and_keeps_what_was_added(prefix: Path) -> None:
    """The environment used before always stays, since programs of other hosts may run in it."""
    first = install(prefix, "1")
    add_distribution(first / PACKAGES, "added", "5", {"driver.py": "VERSION = 5\n"})
    with run_late_imports(first) as running:
        second = install(prefix, "2")
        third = install(prefix, "3")

        assert {*prefix.glob("venv-*")} == {first, second, third}
        assert running.communicate("")[0] == "1\n"
    fourth = install(prefix, "4")
    assert {*prefix.glob("venv-*")} == {third, fourth}
    assert (prefix / "venv").readlink() == Path(fourth.name)
    argv = [prefix / "venv/bin/python3", "-I", "-c", "import driver, library; print(driver.VERSION, library.VERSION)"]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "5 4\n"
    assert [path.name for path in (fourth / PACKAGES).glob("library-*")] == ["library-4.dist-info"]


def test_a_program_goes_on_with_the_version_in_which_it_started(prefix: Path) -> None:
    """The link by which the program started may lead to another version before its later imports."""
    install(prefix, "1")
    with run_late_imports(prefix / "venv") as running:
        install(prefix, "2")

        assert running.communicate("")[0] == "1\n"


def test_an_interrupted_installation_has_changed_nothing(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = install(prefix, "1")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(prefix_installation, "_switch_link", fail)
        with pytest.raises(OSError, match="No space left"):
            install(prefix, "2")

    assert (prefix / "venv").readlink() == Path(first.name)
    assert subprocess.run([prefix / "bin/shown"], capture_output=True, text=True, check=True).stdout == "1\n"
    install(prefix, "3")
    assert len([*prefix.glob("venv-*")]) == 2  # what was interrupted is removed


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ("", r"no installed wheel of gridbridge; expected an environment with the wheel, or tools/install in a check"),
        ("#!/bin/sh\necho '(3, 9)'\n", r"runs with Python \(3, \d+\), but .* is \(3, 9\); expected an environment of"),
    ],
    ids=["checkout", "another Python"],
)
def test_an_environment_that_cannot_be_copied_is_refused(
    prefix: Path, python: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = environment(prefix.parent, "1")
    other = prefix.parent / "python3"
    other.write_text(python)
    other.chmod(0o755)
    monkeypatch.setattr(prefix_installation, "SYSTEM_PYTHON", str(other))
    if not python:
        (source / PACKAGES / "gridbridge/__init__.py").unlink()

    with pytest.raises(GridbridgeError, match=message):
        install_into_prefix(prefix, NOW, source)
    assert not prefix.exists()
