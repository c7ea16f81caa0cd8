"""What is installed is what the programs need: setuptools takes along what it is told to."""

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
