"""What is installed is what the programs need: setuptools takes along what it is told to."""

import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

from gridbridge.services.version import COMMIT

ROOT = Path(__file__).parents[1]


def test_every_file_of_the_package_that_is_no_python_is_installed() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    package = ROOT / "gridbridge"
    there = {path.relative_to(package) for path in package.rglob("*") if path.is_file()}

    others = {str(path) for path in there if path.suffix not in (".py", ".pyc")}
    packed = set(setup["options.package_data"]["gridbridge"].split())
    assert packed == others


def test_a_module_that_was_renamed_since_the_last_installation_is_not_installed(
    tmp_path: Path,
) -> None:
    """Setuptools leaves what it has built in build/lib, and packs all that is there."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/wheel", tmp_path / "tools")
    for path in ("build/lib/gridbridge/renamed_since.py", "build/man/page.1", "wheel/old.whl"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    pip = tmp_path / ".venv/bin/pip"
    pip.parent.mkdir(parents=True)
    pip.write_text("#!/bin/sh\nfind build wheel -type f 2>/dev/null >packed\necho $* >>packed\n")
    pip.chmod(0o755)
    subprocess.run([tmp_path / "tools/wheel", "wheel"], check=True)

    packed, asked = (tmp_path / "packed").read_text().splitlines()
    assert (packed, asked.partition(" ")[0]) == ("build/man/page.1", "wheel")


def test_what_is_built_says_of_which_commit_it_is_and_the_checkout_does_not(
    tmp_path: Path,
) -> None:
    """Whatever builds it: `pip install .` in a checkout, or tools/wheel."""
    checkout, built = tmp_path / "check out", tmp_path / "built"
    (checkout / "gridbridge").mkdir(parents=True)
    (checkout / "gridbridge/__init__.py").touch()
    metadata = "[metadata]\nname = gridbridge\nversion = 1\n[options]\npackages = gridbridge\n"
    (checkout / "setup.cfg").write_text(metadata)
    shutil.copy(ROOT / "setup.py", checkout)
    who = ("git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "one")):
        subprocess.run([*who, *words], check=True)
    head = subprocess.run([*who, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    build = (sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(built))

    subprocess.run(build, cwd=checkout, check=True)

    assert head.stdout.startswith((built / "gridbridge" / COMMIT).read_text().strip())
    assert not (checkout / "gridbridge" / COMMIT).exists()
    shutil.rmtree(checkout / ".git")
    subprocess.run(build, cwd=checkout, check=True)
    assert not (built / "gridbridge" / COMMIT).exists()
