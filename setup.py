"""Writes the commit into what is built of a checkout. All else of the build is in setup.cfg."""

import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CHECKOUT = Path(__file__).resolve().parent
DESCRIBE = ("describe", "--always", "--dirty=.changed", "--abbrev=10", "--exclude=*")


class BuildWithCommit(build_py):
    """Copies the modules, and adds the file that gridbridge/shell/program_startup.py reads."""

    def run(self) -> None:
        """Do both; an editable installation asks git itself."""
        super().run()
        if self.editable_mode:
            return
        path = Path(self.build_lib) / "gridbridge/commit"
        path.unlink(missing_ok=True)
        if commit := _commit():
            path.write_text(f"{commit}\n")


def _commit() -> str:
    """Return the commit of the checkout, whoever owns it; empty if there is none, or no git."""
    if not (CHECKOUT / ".git").exists():
        return ""
    git = ("git", "-c", f"safe.directory={CHECKOUT}", "-C", str(CHECKOUT))
    try:
        done = subprocess.run((*git, *DESCRIBE), capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


setup(cmdclass={"build_py": BuildWithCommit})
