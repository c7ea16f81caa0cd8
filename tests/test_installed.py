"""The installation has every file that the programs need, and no other file."""

import os
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

from gridbridge.shell.optional_libraries import REQUIREMENTS
from gridbridge.shell.program_startup import COMMIT

ROOT = Path(__file__).parents[1]


def test_every_file_of_the_package_that_is_no_python_is_installed() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    package = ROOT / "gridbridge"
    there = {path.relative_to(package) for path in package.rglob("*") if path.is_file()}

    others = {str(path) for path in there if path.suffix not in (".py", ".pyc")}
    packed = set(setup["options.package_data"]["gridbridge"].split())
    assert packed == others


def test_a_module_or_page_that_was_renamed_since_the_last_installation_is_not_installed(tmp_path: Path) -> None:
    """Setuptools packs old files that it left in build/lib, and all of build/share."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/wheel", tmp_path / "tools")
    for path in ("build/lib/gridbridge/renamed_since.py", "build/share/man/man1/old.1", "wheel/old.whl"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    stubs = {
        "sphinx-build": "mkdir build/pages && touch build/pages/page.1",
        "python": "",
        "pip": "find build/share build/lib wheel -type f 2>/dev/null >packed\necho $* >>packed",
    }
    for name, text in stubs.items():
        stub = tmp_path / ".venv/bin" / name
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(f"#!/bin/sh\n{text}\n")
        stub.chmod(0o755)
    subprocess.run([tmp_path / "tools/wheel", "wheel"], check=True)

    packed, asked = (tmp_path / "packed").read_text().splitlines()
    assert (packed, asked.partition(" ")[0]) == ("build/share/man/man1/page.1", "wheel")


def test_a_build_has_the_version_of_the_tags_and_the_commit_with_its_date(tmp_path: Path) -> None:
    """Both `pip install .` in a checkout and tools/wheel record the commit."""
    checkout, built = tmp_path / "check out", tmp_path / "built"
    (checkout / "gridbridge").mkdir(parents=True)
    (checkout / "gridbridge/__init__.py").write_text('__version__ = "1.0.0"\n')
    (checkout / "setup.cfg").write_text("[metadata]\nname = gridbridge\n[options]\npackages = gridbridge\n")
    shutil.copy(ROOT / "setup.py", checkout)
    dated = {**os.environ, "GIT_COMMITTER_DATE": "2026-03-01T12:00:00+0000"}
    git = ("git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b")
    commit = ("commit", "-q", "--allow-empty", "-m", "one")
    versions, recorded = [], []
    for words in (("init", "-q"), ("add", "."), commit, ("tag", "v1.2.3"), commit, ("tag", "-a", "-m", "x", "v2.0.0")):
        subprocess.run([*git, *words], check=True, env=dated)
        build = (sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(built))
        subprocess.run(build, cwd=checkout, check=True, env=dated)
        versions.append((built / "gridbridge/__init__.py").read_text())
        recorded = [path.read_text() for path in built.glob(f"gridbridge/{COMMIT}")]
        shutil.rmtree(built)
    head = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], check=True, capture_output=True, text=True)

    expected = ("1.0.0", "1.0.0", "1.0.0.dev1", "1.2.3", "1.2.4.dev1", "2.0.0")
    assert versions == [f'__version__ = "{version}"\n' for version in expected]
    assert recorded == [f"{head.stdout.strip()} 2026-03-01\n"]
    assert not (checkout / "gridbridge" / COMMIT).exists()


def test_the_extras_require_what_the_line_for_a_missing_library_installs() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"]
    users = {"ec2", "executor", "libcloud", "plots", "postgresql", "ssh"}

    assert {extras[name].strip() for name in users} == set(REQUIREMENTS.values())
