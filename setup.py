"""Adds to a build what setup.cfg can't say: the version of the git tags, the commit, and the files of a site."""

import re
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CHECKOUT = Path(__file__).resolve().parent
TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)-(\d+)-g[0-9a-f]+")  # what `git describe --long` prints
OF_SITE = ("sge-methods", "oar-hooks", "conf")
BUILT = CHECKOUT / "build/share"  # man pages and completion, which tools/wheel builds


class BuildWithCommit(build_py):
    """Copies the modules, and writes the version and the commit into the copy."""

    def run(self) -> None:
        """Do both; an editable installation asks git itself."""
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib) / "gridbridge"
        if (start := package / "__init__.py").exists():
            version = f'__version__ = "{self.distribution.get_version()}"'
            start.write_text(re.sub(r"^__version__ = .*", version, start.read_text(), flags=re.MULTILINE))
        (package / "commit").unlink(missing_ok=True)
        if commit := commit_and_date():
            (package / "commit").write_text(f"{commit}\n")


def git(*words: str) -> str:
    """Return what git prints about the checkout, whoever owns it; empty if it knows nothing, or if git is missing."""
    if not (CHECKOUT / ".git").exists():
        return ""
    try:
        argv = ("git", "-c", f"safe.directory={CHECKOUT}", "-C", str(CHECKOUT), *words)
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def commit_and_date() -> str:
    commit = git("describe", "--always", "--dirty=.changed", "--abbrev=10", "--exclude=*")
    return f"{commit} {git('log', '-1', '--format=%cs')}" if commit else ""


def version() -> str:
    """Return 1.2.3 at the tag v1.2.3, 1.2.4.devN after N commits, and a .dev of the next release without tags."""
    start = CHECKOUT / "gridbridge/__init__.py"
    coming = re.search(r'^__version__ = "(.*)"$', start.read_text(), re.MULTILINE) if start.exists() else None
    release = coming[1] if coming else "0"
    if tag := TAG.fullmatch(git("describe", "--tags", "--long", "--match", "v[0-9]*.[0-9]*.[0-9]*")):
        major, minor, patch, commits = map(int, tag.groups())
        return f"{major}.{minor}.{patch + 1}.dev{commits}" if commits else f"{major}.{minor}.{patch}"
    commits = git("rev-list", "--count", "HEAD")
    return f"{release}.dev{commits}" if commits else release


def data_files() -> list[tuple[str, list[str]]]:
    """Return (folder below the environment, files) of all that a site needs beside the modules."""
    trees = ((CHECKOUT / name, f"share/gridbridge/{name}") for name in OF_SITE)
    return [
        (f"{target}/{folder.relative_to(top)}", [str(file.relative_to(CHECKOUT)) for file in files])
        for top, target in (*trees, (BUILT, "share"))
        for folder in sorted({path.parent for path in top.rglob("*") if path.is_file()})
        if (files := sorted(path for path in folder.iterdir() if path.is_file()))
    ]


setup(version=version(), data_files=data_files(), cmdclass={"build_py": BuildWithCommit})
