"""A configuration file that is unreadable, not TOML or untrusted is refused with its remedy."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gridbridge.config import configuration_file
from gridbridge.errors import ConfigError
from tests.config.refusals import HOME

COPY = "copy of /opt/gridbridge/conf/gridbridge.toml"


def problems_of(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        configuration_file.load_configuration(str(path))
    return [problem.replace(f"{path.parent}/", "") for problem in refusal.value.problems]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    good = tmp_path / "grid.toml"
    good.write_text(HOME)
    good.chmod(0o644)
    return good


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[site]\ncluster = alpha\n", "Invalid value (at line 2, column 11)"),
        (b"[site]\n[site]\n", "a second section [site] (at line 2, column 6): move its keys to the first section"),
        (
            b"[pool.a]\n[pool.a]\n",
            "a second section [pool.a] (at line 2, column 8): move its keys to the first section",
        ),
        (b"[site]\ncluster =", "Invalid value (at line 2, the end)"),
        (b"[site]\n# caf\xe9\n", "invalid continuation byte (at line 2)"),
    ],
    ids=["a text without quotes", "a section twice", "one of a pool twice", "a cut file", "not UTF-8"],
)
def test_a_toml_error_is_reported_with_its_line(path: Path, content: bytes, expected: str) -> None:
    path.write_bytes(content)

    assert [f"grid.toml: {expected}; TOML 1.0 in UTF-8"] == problems_of(path)


def test_values_nested_too_deeply_are_refused(path: Path) -> None:
    path.write_text("[site]\ncluster = " + "[" * 5000)

    expected = "values are nested too deeply; expected at most a table of texts as a value"
    assert [f"grid.toml: {expected}"] == problems_of(path)


def test_a_file_named_by_the_user_gets_a_short_error(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "fifo.toml")

    assert problems_of(tmp_path / "none.toml") == ["none.toml: No such file or directory"]
    assert problems_of(tmp_path / "folder.toml") == ["folder.toml: Is a directory"]
    assert problems_of(tmp_path / "fifo.toml") == ["fifo.toml: not a regular file"]


WHERE = "run this on the transfer host, where the service is"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda _: None, f"No such file or directory; {WHERE}; on a new host expected a {COPY}"),
        (os.mkdir, f"Is a directory; expected a readable {COPY}"),
        (os.mkfifo, f"not a regular file; expected a {COPY}"),  # opening it would block the program that root runs
    ],
    ids=["missing", "a folder", "a FIFO"],
)
def test_an_unreadable_default_file_is_refused_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], problem: str
) -> None:
    path = tmp_path / "grid.toml"
    monkeypatch.setattr(configuration_file, "CONFIG", str(path))
    make(path)

    assert [f"grid.toml: {problem}"] == problems_of(path)


def test_a_huge_file_is_refused_before_reading(path: Path) -> None:
    """A sparse file of 1 TiB costs its owner nothing."""
    os.truncate(path, 1 << 40)

    with pytest.raises(ConfigError, match="too long; at most 1048576 bytes are read"):
        configuration_file.load_configuration(str(path))


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to run as root; file owners are unchanged."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("as_root")
def test_root_refuses_a_file_that_others_may_write(path: Path) -> None:
    path.chmod(0o666)

    (told,) = problems_of(path)
    assert "others could have written grid.toml: grid.toml has mode 0666. Check the file, " in told
    assert told.endswith("then run: chmod go-w grid.toml")


@pytest.mark.usefixtures("as_root")
def test_root_refuses_a_file_in_a_folder_that_others_may_write(path: Path) -> None:
    path.parent.chmod(0o777)

    (told,) = problems_of(path)
    assert f"others could have written grid.toml: {path.parent} has mode 0777" in told
    assert f"chmod go-w {path.parent}" in told


@pytest.mark.root
def test_root_reads_its_own_file(path: Path) -> None:
    assert configuration_file.load_configuration(str(path)).site.cluster == "alpha"


@pytest.mark.root
def test_root_refuses_a_file_of_another_owner(path: Path) -> None:
    os.chown(path, 1, 1)

    expected = "others could have written grid.toml: grid.toml belongs to daemon"
    mend = "Check the file, then run: chown root grid.toml"
    assert [f"{expected}. {mend}"] == problems_of(path)


def test_other_users_accept_any_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    path.chmod(0o666)

    assert configuration_file.load_configuration(str(path)).site.cluster == "alpha"


@pytest.mark.usefixtures("as_root")
def test_an_untrusted_file_is_not_parsed(path: Path) -> None:
    path.write_text("not TOML")
    path.chmod(0o666)

    assert len(problems_of(path)) == 1
