"""Edits of gridbridge.toml keep everything else of the file byte for byte."""

import subprocess
import sys
from pathlib import Path

import pytest

from gridbridge.config.edit import put_keys_in_section, remove_section_and_subsections
from gridbridge.errors import ConfigError

SECTION = ("queue", "transfer-beta")
TITLE = "[queue.transfer-beta]\n"
HEAD = "# the site\n[site]  # ours\ncluster = 'alpha'\n\n"
KEYS = f'{TITLE}cluster   =  "beta"\n  slots = 9  # a few\n'
ASKS = "[queue.transfer-beta.asks]\nx = '1'\n"


def edited(text: str, *lines: str) -> str:
    return put_keys_in_section(text.encode(), SECTION, list(lines)).decode()


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["ours", "of another system"])
@pytest.mark.parametrize(
    ("before", "old", "new"),
    [
        pytest.param(f"{HEAD}{KEYS}\n# to gamma\n[queue.b]\nslots = 9\n", "9  #", "7  #", id="a comment behind it"),
        pytest.param(
            f"{TITLE}#slots = 100\nx = 1  # y\n\n# of gamma\n[queue.b]\n", "y\n", "y\nslots = 7\n", id="a comment"
        ),
        pytest.param("[ queue . 'transfer-beta' ] # odd\n\"slots\"=9#!\n", "9", "7", id="odd quotes and blanks"),
        pytest.param(f"{TITLE}{ASKS}", TITLE, f"{TITLE}slots = 7\n", id="a section that has only a table"),
        pytest.param(f"{KEYS}[poller]\n{ASKS}[queue.b]\n", "9", "7", id="another section between"),
        pytest.param("[queue]\ntransfer-beta = { slots = 9, cluster = 'b' } # one line\n", "9", "7", id="in one line"),
        pytest.param(f"{HEAD}[queue.b]\n", ".b]\n", f".b]\n\n{TITLE}slots = 7\n", id="no section"),
        pytest.param(HEAD, HEAD, f"{HEAD}{TITLE}slots = 7\n", id="no queue"),
        pytest.param(KEYS, "9", "7", id="nothing else"),
    ],
)
def test_putting_a_key_changes_only_that_key(before: str, old: str, new: str, end: str) -> None:
    assert edited(before.replace("\n", end), "slots = 7") == before.replace(old, new).replace("\n", end)


@pytest.mark.parametrize("text", [f"{TITLE}cluster = 'b'", TITLE[:-1], "[site]"])
def test_a_missing_final_newline_is_added(text: str) -> None:
    assert f"{text}\n" in edited(text, "slots = 7")


def test_putting_equal_values_leaves_the_file_unchanged() -> None:
    assert edited(KEYS, "slots = 9", 'cluster = "beta"') == KEYS


@pytest.mark.parametrize(
    "text",
    ["queue = { b = { slots = 1 } }\n", "queue.transfer-beta.slots = 9\n"],
    ids=["all queues in one line", "keys with dots"],
)
def test_a_section_without_a_header_line_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="edit the section by hand"):
        edited(text, "slots = 7")


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["ours", "of another system"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("\n# to gamma\n  # far\n[queue.b]\n", None, id="the next one's comment"),
        pytest.param("# recall_wait_s = 5\n\n[queue.b]\n", "[queue.b]\n", id="its own comment"),
        pytest.param("# a\nx = 1\n# b\n[queue.b]\n# c\n", "# b\n[queue.b]\n# c\n", id="both"),
        pytest.param("# a\n[queue.transfer-beta.asks]\ny = 1\n", "", id="its asks, the last"),
        pytest.param("# a\n", "", id="its own comment, the last"),
        pytest.param("x = 1\n\n# vim: tw=79\n", "# vim: tw=79\n", id="a comment of the file"),
        pytest.param("[queue.transfer-beta-big]\n", "[queue.transfer-beta-big]\n", id="alike"),
        pytest.param("  [queue.b]\nx = 1\n", "  [queue.b]\nx = 1\n", id="indented"),
        pytest.param('  ["cluster".b]\nx = 1\n', '  ["cluster".b]\nx = 1\n', id="quoted"),
        pytest.param('[queue.transfer-beta."asks"]\nx = 1\n', "", id="its asks, quoted"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_removal_keeps_the_comment_above_the_next_section(before: str, after: str | None, end: str) -> None:
    head = '# the site\n[site]\ncluster = "alpha"\n# to beta\n'
    text = f'{head}[queue.transfer-beta]  # ours\ncluster = "beta"\n{before}'
    left = remove_section_and_subsections(text.replace("\n", end).encode(), SECTION).decode()

    kept = head + (before.lstrip("\n") if after is None else after)
    assert left == kept.replace("\n", end)


@pytest.mark.parametrize(
    "title",
    [
        pytest.param("[ queue . transfer-beta ]\n", id="blanks"),
        pytest.param("  [queue.transfer-beta] # ours\n", id="indented"),
        pytest.param('[queue."transfer-beta"]\n', id="quoted"),
        pytest.param("[queue.'transfer-beta']\r\n", id="of another system"),
        pytest.param("[queue.transfer-beta]\nslots = 1\n[poller]\n", id="in two places"),
    ],
)
def test_a_section_is_removed_in_every_spelling_of_its_header(title: str) -> None:
    rest = "  [ queue.b ]\nslots = 1\n"
    text = f"{title}cluster = 'beta'\n[queue. transfer-beta .asks]\nx = 1\n{rest}"
    between = "[poller]\ncluster = 'beta'\n" if "poller" in title else ""

    assert remove_section_and_subsections(text.encode(), SECTION).decode() == between + rest


def test_adding_and_removing_a_section_restores_the_file() -> None:
    assert remove_section_and_subsections(edited(HEAD, "slots = 7").encode(), SECTION).decode() == HEAD


def test_the_edit_program_follows_a_symlink_and_keeps_the_mode(tmp_path: Path) -> None:
    (tmp_path / "there").write_text(KEYS)
    (tmp_path / "there").chmod(0o640)
    (tmp_path / "toml").symlink_to("there")
    program = (sys.executable, "-m", "gridbridge.config.edit", tmp_path / "toml")
    subprocess.run((*program, "put", "queue", "a.b", 'cluster = "beta"'), check=True)
    subprocess.run((*program, "drop", "queue", "transfer-beta"), check=True)

    assert (tmp_path / "there").read_text() == '[queue."a.b"]\ncluster = "beta"\n'
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "toml").is_symlink()


def test_the_edit_program_reports_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "toml").write_text("[site")
    program = (sys.executable, "-m", "gridbridge.config.edit", tmp_path / "toml")
    told = subprocess.run((*program, "drop", "queue", "x"), capture_output=True, text=True)

    assert (told.returncode, len(told.stderr.splitlines())) == (1, 1)
