"""Root's helper runs the notification program of a user, and passes only checked words."""

import json
import os
from pathlib import Path

import pytest

from gridbridge.privileged import notify_owner
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal

PROGRAM = {"verb": "subscribe", "way": "program", "identity": "/home/alice/told"}


@pytest.mark.parametrize(
    ("word", "line"), [("12:BLACKLIST:beta:5", "12 BLACKLIST beta 5"), ("12:NO_CLUSTER::0", "12 NO_CLUSTER - 0")]
)
def test_a_notification_word_becomes_a_line(word: str, line: str) -> None:
    assert notify_owner._checked_notification_line(word) == line


@pytest.mark.parametrize(
    "word",
    [
        "rm -rf ~",
        "12:BLACKLIST:beta",
        "12:BLACKLIST:be ta:5",
        "12:$(id):beta:5",
        "12:black:beta:5",
        "12:BLACKLIST:beta:5\n6",
        "-1:BLACKLIST:beta:5",
        "12:_:beta:5",
        "12:BLACKLIST:beta:٣",
    ],
)
def test_a_malformed_notification_word_is_refused(word: str) -> None:
    with pytest.raises(AsUserRequestRefusal):
        notify_owner._checked_notification_line(word)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(notify_owner, "CAMPAIGNS", str(tmp_path))
    return tmp_path


def test_the_notification_program_is_read_from_its_owners_file(folder: Path) -> None:
    (folder / "tell.ab12").write_text(json.dumps(PROGRAM))

    assert notify_owner.read_notification_request_file("tell.ab12") == ("/home/alice/told", os.getuid())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tell.ab", json.dumps({**PROGRAM, "verb": "cancel"})),
        ("tell.ab", json.dumps({**PROGRAM, "way": "mail"})),
        ("tell.ab", json.dumps({**PROGRAM, "identity": "told"})),
        ("tell.ab", json.dumps({**PROGRAM, "identity": ["/bin/sh"]})),
        ("tell.ab", "[]"),
        ("tell.ab", "[" * 50_000),
        ("c.12", json.dumps(PROGRAM)),
    ],
    ids=["another request", "a mail", "no path", "a list", "no request", "too deep", "another file"],
)
def test_a_file_that_is_no_notification_request_is_refused(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)

    with pytest.raises(AsUserRequestRefusal):
        notify_owner.read_notification_request_file(name)


@pytest.mark.parametrize("name", ["tell.../../etc/passwd", "tell.", "../tell.ab", "tell.none"])
def test_a_file_name_outside_the_folder_is_refused(folder: Path, name: str) -> None:
    del folder

    with pytest.raises(AsUserRequestRefusal):
        notify_owner.read_notification_request_file(name)


def test_a_linked_notification_request_is_refused(folder: Path) -> None:
    (folder / "real").write_text(json.dumps(PROGRAM))
    (folder / "tell.ab").symlink_to(folder / "real")

    with pytest.raises(AsUserRequestRefusal):
        notify_owner.read_notification_request_file("tell.ab")
