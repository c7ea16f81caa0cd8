"""Which code this is: of a package what its build wrote into it, of a checkout what git says."""

import subprocess
from pathlib import Path

import pytest

from gridbridge import __version__
from gridbridge.shell.program_startup import version_with_commit


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout" / "gridbridge"
    folder.mkdir(parents=True)
    (folder / "code").write_text("1\n")
    return folder


def git(checkout: Path, *words: str) -> str:
    """Run git in a checkout as somebody."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    argv = ("git", "-C", str(checkout), *who, *words)
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def test_a_package_has_the_commit_that_it_was_built_of(package: Path) -> None:
    (package / "commit").write_text("1a2b3c4d5e\n")

    assert version_with_commit(str(package)) == f"{__version__}+1a2b3c4d5e"


def test_a_package_of_which_nobody_tells_the_commit_has_its_version_alone(package: Path) -> None:
    assert version_with_commit(str(package)) == __version__


@pytest.mark.parametrize(("content", "end"), [("1\n", ""), ("2\n", ".changed")])
def test_a_checkout_is_of_its_commit(package: Path, content: str, end: str) -> None:
    checkout = package.parent
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "one")
    (package / "code").write_text(content)
    commit = git(checkout, "rev-parse", "--short=10", "HEAD")

    assert version_with_commit(str(package)) == f"{__version__}+{commit}{end}"


def test_a_running_program_keeps_the_version_that_it_began_with(package: Path) -> None:
    before = version_with_commit(str(package))
    (package / "commit").write_text("1a2b3c4d5e\n")

    assert version_with_commit(str(package)) == before


@pytest.mark.root
@pytest.mark.parametrize(("account", "knows"), [(10001, True), (10002, False)])
def test_git_is_asked_about_a_checkout_of_whoever_owns_the_code(package: Path, account: int, knows: bool) -> None:
    """Git itself refuses what another account owns: its settings may name programs."""
    checkout = package.parent
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "one")
    commit = git(checkout, "rev-parse", "--short=10", "HEAD")
    subprocess.run(["chown", "-R", str(account), checkout], check=True)
    subprocess.run(["chown", "-R", "10001", package], check=True)

    assert version_with_commit(str(package)) == __version__ + (f"+{commit}" if knows else "")
