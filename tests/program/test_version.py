"""The version has the commit written by the build, or the commit of the git checkout."""

import subprocess
from datetime import date
from pathlib import Path

import pytest

from gridbridge import __version__
from gridbridge.shell.program_startup import version_with_commit, version_with_commit_and_date


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout" / "gridbridge"
    folder.mkdir(parents=True)
    (folder / "code").write_text("1\n")
    return folder


def commit_checkout(checkout: Path) -> str:
    """Make a git repository with one commit of all files, and return the commit."""
    git = ("git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "one"), ("rev-parse", "--short=10", "HEAD")):
        done = subprocess.run((*git, *words), check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_an_installed_package_has_its_recorded_commit_and_a_running_program_keeps_its_version(package: Path) -> None:
    assert version_with_commit(str(package)) == __version__  # no commit
    other = package.with_name("other")
    other.mkdir()
    for folder in (package, other):
        (folder / "commit").write_text("1a2b3c4d5e 2026-03-01\n")

    assert version_with_commit(str(package)) == __version__
    assert version_with_commit(str(other)) == f"{__version__}+1a2b3c4d5e"
    assert version_with_commit_and_date(str(other)) == f"{__version__}+1a2b3c4d5e (2026-03-01)"


@pytest.mark.parametrize(("content", "end"), [("1\n", ""), ("2\n", ".changed")])
def test_a_checkout_has_its_git_commit(package: Path, content: str, end: str) -> None:
    commit = commit_checkout(package.parent)
    (package / "code").write_text(content)

    assert version_with_commit(str(package)) == f"{__version__}+{commit}{end}"
    assert version_with_commit_and_date(str(package)) == f"{__version__}+{commit}{end} ({date.today()})"


@pytest.mark.root
@pytest.mark.parametrize(("account", "knows"), [(10001, True), (10002, False)])
def test_git_runs_only_in_a_checkout_of_the_code_owner(package: Path, account: int, knows: bool) -> None:
    """The git settings of another account's checkout may name programs."""
    commit = commit_checkout(package.parent)
    subprocess.run(["chown", "-R", str(account), package.parent], check=True)
    subprocess.run(["chown", "-R", "10001", package], check=True)

    assert version_with_commit(str(package)) == __version__ + (f"+{commit}" if knows else "")
