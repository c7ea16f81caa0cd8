"""Root's helper acts on replicas as the owner of the delegation file."""

import json
import os
from pathlib import Path

import pytest

from gridbridge.privileged import as_user_refusals_and_user_switch, as_user_replica_verbs
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal

ME = os.getuid()
FILE = f"u.{ME}/data.0123abcd"


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(as_user_replica_verbs, "CAMPAIGNS", str(tmp_path))
    monkeypatch.setattr(
        as_user_refusals_and_user_switch, "read_root_configuration", lambda _: {"storage": {"alpha-data": {}}}
    )
    (tmp_path / f"u.{ME}").mkdir()
    return tmp_path


def let(folder: Path, name: str = FILE, text: str = json.dumps({"dataset": "reads"})) -> None:
    (folder / name).write_text(text)


def require_refusal(name: str = FILE) -> None:
    with pytest.raises(AsUserRequestRefusal):
        as_user_replica_verbs.read_delegated_dataset(name)


def test_the_delegated_dataset_is_read_from_its_owners_file(folder: Path) -> None:
    let(folder)

    assert as_user_replica_verbs.read_delegated_dataset(FILE) == ("reads", ME)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"dataset": "../reads"}),
        json.dumps({"dataset": "-rf"}),
        json.dumps({"dataset": "a b"}),
        json.dumps({"dataset": ""}),
        json.dumps({"dataset": "\u212aelvin"}),  # its small letter is a plain k
        json.dumps({"dataset": "x" * 101}),
        json.dumps({"dataset": ["reads"]}),
        json.dumps({"path": "/etc"}),
        "[]",
        pytest.param("[" * 1024, id="too deep"),
        "reads",
    ],
)
def test_a_file_without_a_valid_dataset_name_is_refused(folder: Path, text: str) -> None:
    let(folder, text=text)

    require_refusal()


@pytest.mark.parametrize(
    "name",
    [
        "data.0123abcd",
        f"u.{ME}/c.12",
        f"u.{ME}/data.",
        f"u.{ME}/data.../../x",
        f"u.{ME}/../u.{ME}/data.0123abcd",
        "u./data.0123abcd",
        "begun/data.0123abcd",
        f"u.{ME}/none",
        "/etc/passwd",
    ],
)
def test_a_delegation_file_name_outside_its_folder_is_refused(folder: Path, name: str) -> None:
    let(folder)

    require_refusal(name)


def test_a_delegation_file_in_another_users_folder_is_refused(folder: Path) -> None:
    """The service's group may move files between the folders."""
    (folder / "u.77").mkdir()
    let(folder, "u.77/data.0123abcd")

    require_refusal("u.77/data.0123abcd")


def test_a_linked_delegation_file_is_refused(folder: Path) -> None:
    let(folder, f"u.{ME}/other")
    (folder / FILE).symlink_to(folder / f"u.{ME}/other")

    require_refusal()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["copy", FILE], "usage"),
        (["copy", FILE, "alpha-data", "alpha-data", "alpha-data"], "usage"),
        (["copy", FILE, "/home/alice"], "no storage area"),
        (["copy", FILE, "alpha-data", "nowhere"], "no storage area"),
        (["drop", FILE], "usage"),
        (["drop", FILE, "--lost"], "no storage area"),
        (["verify", FILE, "alpha-data"], "usage"),
        (["look"], "usage"),
        (["look", *[FILE] * 51], "usage"),
    ],
)
def test_replica_verbs_accept_only_storage_areas(folder: Path, words: list[str], why: str) -> None:
    let(folder)

    with pytest.raises(AsUserRequestRefusal, match=why):
        as_user_replica_verbs.perform_as_user_replica_verb(words)


def test_replica_verbs_refuse_low_uids(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let(folder)
    monkeypatch.setattr(as_user_refusals_and_user_switch, "MIN_UID", ME + 1)

    with pytest.raises(AsUserRequestRefusal, match=f"uid {ME} is not an ordinary account"):
        as_user_replica_verbs.perform_as_user_replica_verb(["look", FILE])
