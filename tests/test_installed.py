"""What is installed is what the programs need: setuptools takes along what it is told to."""

import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_file_of_the_package_that_is_no_python_is_installed() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    package = ROOT / "gridbridge"
    there = {path.relative_to(package) for path in package.rglob("*") if path.is_file()}

    others = {str(path) for path in there if path.suffix not in (".py", ".pyc")}
    assert others == set(setup["options.package_data"]["gridbridge"].split())


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
