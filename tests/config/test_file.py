"""A file that can't be read, isn't TOML or isn't trusted is refused with what mends it."""

import os
from pathlib import Path

import pytest

from gridbridge import config
from gridbridge.errors import ConfigError

GOOD = """\
[site]
cluster = "alpha"
[cluster.alpha]
qmaster_port = 6444
execd_port = 6445
"""
COPY = "copy of conf/gridbridge.toml has to be there"


def problems_of(path: Path, *, trusted_owner: int | None = None) -> list[str]:
    """Return what `load` finds wrong, without the file's folder."""
    with pytest.raises(ConfigError) as refusal:
        config.load(str(path), trusted_owner=trusted_owner)
    return [problem.replace(f"{path.parent}/", "") for problem in refusal.value.problems]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    good = tmp_path / "grid.toml"
    good.write_text(GOOD)
    good.chmod(0o644)
    return good


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[site]\ncluster = alpha\n", "Invalid value (at line 2, column 11)"),
        (b"[site]\n[site]\n", "Cannot declare ('site',) twice (at line 2, column 6)"),
        (b"[site]\ncluster =", "Invalid value (at line 2, the end)"),
        (b"[site]\n# caf\xe9\n", "invalid continuation byte (at line 2)"),
    ],
    ids=["a text without quotes", "a section twice", "a cut file", "not UTF-8"],
)
def test_a_file_that_is_not_toml_is_told_with_its_line(
    path: Path, content: bytes, expected: str
) -> None:
    path.write_bytes(content)

    assert [f"grid.toml: {expected}; TOML 1.0 in UTF-8"] == problems_of(path)


def test_values_nested_too_deeply_are_told(path: Path) -> None:
    path.write_text("[site]\ncluster = " + "[" * 5000)

    expected = "its values are nested too deeply; a table of texts is all that a key has"
    assert [f"grid.toml: {expected}"] == problems_of(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    expected = f"grid.toml: No such file or directory; a readable {COPY}"

    assert [expected] == problems_of(tmp_path / "grid.toml")


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").mkdir()

    expected = f"grid.toml: Is a directory; a readable {COPY}"

    assert [expected] == problems_of(tmp_path / "grid.toml")


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    """Waiting for its writer would hang the program that root runs."""
    os.mkfifo(tmp_path / "grid.toml")

    assert [f"grid.toml: not a file; a {COPY}"] == problems_of(tmp_path / "grid.toml")


def test_a_file_without_an_end_is_refused_before_it_is_read(path: Path) -> None:
    """It may be a link to one of 3 TB that has a hole in it, and costs nobody anything."""
    os.truncate(path, 1 << 40)

    with pytest.raises(ConfigError, match="too long; at most 1048576 bytes are read"):
        config.load(str(path))


def test_the_trusted_owner_s_file_is_read(path: Path) -> None:
    assert config.load(str(path), trusted_owner=os.getuid()).site.cluster == "alpha"


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666], ids=["group", "others", "both"])
def test_a_file_that_others_may_write_is_not_trusted(path: Path, mode: int) -> None:
    path.chmod(mode)

    expected = f"grid.toml: others may write it, mode {mode:04o}; chmod go-w grid.toml"

    assert [expected] == problems_of(path, trusted_owner=os.getuid())


def test_a_file_of_somebody_else_is_not_trusted(path: Path) -> None:
    owner = os.getuid() + 1

    expected = f"grid.toml: belongs to uid {os.getuid()}; chown {owner} grid.toml"

    assert [expected] == problems_of(path, trusted_owner=owner)


def test_who_does_not_act_as_root_reads_any_file(path: Path) -> None:
    path.chmod(0o666)

    assert config.load(str(path)).site.cluster == "alpha"


def test_an_untrusted_file_is_not_looked_into(path: Path) -> None:
    path.write_text("not TOML")

    assert len(problems_of(path, trusted_owner=os.getuid() + 1)) == 1
