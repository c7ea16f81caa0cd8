"""Every user may write to the inbox of campaign files, and no user can block another user."""

import os
import resource
from pathlib import Path

import pytest

from gridbridge.campaigns.store import campaign_files_of_owners as files
from gridbridge.campaigns.store import campaign_inbox
from gridbridge.campaigns.store.campaign_files_of_owners import NewCampaignOrAddedTasksFile
from gridbridge.campaigns.store.campaign_inbox import A_FOLDER, A_PERSON, A_SCAN
from gridbridge.errors import StateError

ODD = "0" * 32
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="another person's files")
TAKEN_AS = {"new": "in", "ask": "took"}


def folder_of(uid: int, folder: Path, mode: int = 0o770) -> Path:
    made = folder / f"u.{uid}"
    made.mkdir()
    made.chmod(mode)
    os.chown(made, uid, -1)
    return made


def write_file_of_user(uid: int, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    os.chown(path, uid, -1)


def take_new_files(folder: Path) -> list[tuple[str, NewCampaignOrAddedTasksFile | str]]:
    listed = campaign_inbox.list_inbox_files_of_all_users(str(folder))
    return [*files.take_new_campaign_files(listed, str(folder))]


def test_a_campaign_file_is_read_as_written(tmp_path: Path) -> None:
    data = files.encode_campaign_file({"name": "é"}, ("a \udcff", "b"))
    token = files.write_campaign_file_to_inbox(data, str(tmp_path))

    own = tmp_path / f"u.{os.getuid()}"
    assert own.stat().st_mode & 0o777 == 0o770
    assert (own / f"new.{token}").stat().st_mode & 0o777 == 0o640

    ((found_token, found),) = take_new_files(tmp_path)

    assert isinstance(found, NewCampaignOrAddedTasksFile)
    assert (found_token, found.header, found.tasks) == (token, {"name": "é"}, 2)


def test_only_an_unprocessed_campaign_file_can_be_withdrawn(tmp_path: Path) -> None:
    first, second = (files.write_campaign_file_to_inbox(b"{}\n", str(tmp_path)) for _ in range(2))
    assert files.withdraw_campaign_file(first, str(tmp_path))

    ((token, _),) = take_new_files(tmp_path)

    assert token == second
    assert not files.withdraw_campaign_file(second, str(tmp_path))
    files.rename_file_to_campaign_number(second, 7, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["c.7"]


def test_a_campaign_file_beyond_the_users_quota_leaves_no_file(tmp_path: Path) -> None:
    """A limit on the file size stands for the quota."""
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        with pytest.raises(StateError) as told:
            files.write_campaign_file_to_inbox(b"{}\n" + b"a\n" * 99, str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert str(told.value).startswith(f"{tmp_path}/u.{os.getuid()}/new.")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_foreign_folders_in_the_inbox_are_ignored(tmp_path: Path) -> None:
    own = f"u.{os.getuid()}"
    Path(campaign_inbox.make_own_inbox_folder(str(tmp_path)))
    for name in (f"{own}/new.{ODD}", f"{own}/ask.{ODD}", f"begun/in.{ODD}", "u.1", "c.7"):
        (tmp_path / name / "inside").mkdir(parents=True)
    brought = files.write_campaign_file_to_inbox(b"{}\n", str(tmp_path))

    listed = campaign_inbox.list_inbox_files_of_all_users(str(tmp_path))
    assert [token for token, _ in files.take_new_campaign_files(listed, str(tmp_path))] == [brought]
    assert list(files.take_owner_requests(listed, str(tmp_path))) == []
    assert files.is_campaign_number_taken(7, str(tmp_path))
    files.rename_file_to_campaign_number(brought, 7, str(tmp_path))
    assert (tmp_path / "c.7").is_file()


@needs_root
def test_many_files_of_one_user_do_not_hide_another_users_file(tmp_path: Path) -> None:
    first, second = folder_of(1, tmp_path), folder_of(2, tmp_path)
    for number in range(3 * A_SCAN):
        write_file_of_user(1, first / f"new.{number:032x}", b"{}\na\n")
    last = "f" * 32
    write_file_of_user(2, second / f"new.{last}", b"{}\na\n")

    tokens = [token for token, _ in take_new_files(tmp_path)]

    assert len(tokens) == A_SCAN + 1
    assert last in tokens


@needs_root
@pytest.mark.parametrize(("kind", "size"), [("new", 40 << 20), ("ask", 60 << 10)])
def test_large_files_of_one_user_do_not_delay_another_users_file(tmp_path: Path, kind: str, size: int) -> None:
    first, second = folder_of(1, tmp_path), folder_of(2, tmp_path)
    for number in range(A_SCAN - 1):
        write_file_of_user(1, first / f"{kind}.{number:032x}", b"{}\n")
        os.truncate(first / f"{kind}.{number:032x}", size)
    small, last = "e" * 32, "f" * 32
    write_file_of_user(1, first / f"{kind}.{small}", b"{}\n")
    write_file_of_user(2, second / f"{kind}.{last}", b"{}\n")

    taken = campaign_inbox.take_new_inbox_files(
        campaign_inbox.list_inbox_files_of_all_users(str(tmp_path)),
        f"{kind}.",
        f"begun/{TAKEN_AS[kind]}.",
        str(tmp_path),
    )

    assert sorted(taken) == [f"{0:032x}", f"{1:032x}", small, last]


@pytest.mark.parametrize("data", [b"", b"[", b"{}", b"\xff\n", b"[" * 100_000, b'{"a": 1e999}'])
def test_an_invalid_campaign_file_is_reported(tmp_path: Path, data: bytes) -> None:
    (Path(campaign_inbox.make_own_inbox_folder(str(tmp_path))) / f"new.{ODD}").write_bytes(data)

    ((_, found),) = take_new_files(tmp_path)

    assert isinstance(found, str) or found.tasks == 0


@pytest.mark.parametrize("token", ["", ".", "..", "x", "c.13", "0123", "A" * 32, "0" * 33])
@pytest.mark.parametrize("kind", ["new.", "in.", "ask.", "took."])
def test_files_with_foreign_names_are_ignored(tmp_path: Path, kind: str, token: str) -> None:
    own = Path(campaign_inbox.make_own_inbox_folder(str(tmp_path)))
    (own / f"{kind}{token}").write_bytes(b'{"verb": "cancel", "campaigns": [1]}\na\n')
    listed = campaign_inbox.list_inbox_files_of_all_users(str(tmp_path))

    assert list(files.take_new_campaign_files(listed, str(tmp_path))) == []
    assert list(files.take_owner_requests(listed, str(tmp_path))) == []
    assert campaign_inbox.list_inbox_files_of_all_users(str(tmp_path)) == listed


@pytest.mark.parametrize("data", [b"[" * 100_000, b"[]\na", b"\xff\n"])
def test_an_invalid_numbered_file_has_no_tasks(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "c.7").write_bytes(data)

    assert getattr(files.read_numbered_campaign_file(7, str(tmp_path)), "tasks", 0) == 0


ALICE, BOB = 1, 2
SAID = {"new": b"{}\na\n", "ask": b'{"verb": "cancel", "campaigns": [1]}'}


def uids_of_taken_files(kind: str, folder: Path) -> list[int]:
    listed = campaign_inbox.list_inbox_files_of_all_users(str(folder))
    new = [found for _, found in files.take_new_campaign_files(listed, str(folder))]
    asked = files.take_owner_requests(listed, str(folder))
    return [one.uid for one in (new if kind == "new" else asked) if not isinstance(one, str)]


def misplaced_path(place: str, kind: str, folder: Path) -> Path:
    """Return a path at which a file proves nothing about its sender."""
    name = f"{kind}.{ODD}"
    if place == "beside the inboxes":
        return folder / name
    if place == "in the inbox of Bob":
        return folder_of(BOB, folder) / name
    if place == "as if taken":
        return folder / f"{TAKEN_AS[kind]}.{ODD}"
    if place == "behind a symlink":
        (folder / "elsewhere").mkdir()
        (folder / f"u.{ALICE}").symlink_to(folder / "elsewhere")
        return folder / "elsewhere" / name
    made = folder_of(ALICE, folder, 0o777 if place == "writable by all" else 0o770)
    owner, group = {"owned by Bob": (BOB, -1), "of a foreign group": (-1, 7)}.get(place, (-1, -1))
    os.chown(made, owner, group)
    return made / name


@needs_root
@pytest.mark.parametrize("kind", ["new", "ask"])
@pytest.mark.parametrize(
    "place",
    [
        *("beside the inboxes", "as if taken", "in the inbox of Bob", "owned by Bob"),
        *("writable by all", "of a foreign group", "behind a symlink"),
    ],
)
def test_a_file_counts_only_in_its_owners_private_inbox(tmp_path: Path, kind: str, place: str) -> None:
    """Bob can move a file of Alice out of a folder that he may write."""
    write_file_of_user(ALICE, misplaced_path(place, kind, tmp_path), SAID[kind])

    assert uids_of_taken_files(kind, tmp_path) == []


@needs_root
@pytest.mark.parametrize("kind", ["new", "ask"])
def test_a_file_in_its_owners_inbox_is_taken(tmp_path: Path, kind: str) -> None:
    write_file_of_user(ALICE, folder_of(ALICE, tmp_path) / f"{kind}.{ODD}", SAID[kind])

    assert uids_of_taken_files(kind, tmp_path) == [ALICE]
    assert (tmp_path / "begun").stat().st_mode & 0o077 == 0


@needs_root
def test_a_file_moved_before_a_kill_is_accepted_later(tmp_path: Path) -> None:
    """A file whose owner is not the inbox owner is not accepted."""
    begun = tmp_path / "begun"
    begun.mkdir(mode=0o700)
    write_file_of_user(ALICE, begun / f"new.{ALICE}.{ODD}", SAID["new"])
    write_file_of_user(ALICE, begun / f"new.{BOB}.{'1' * 32}", SAID["new"])

    assert uids_of_taken_files("new", tmp_path) == [ALICE]
    assert [path.name for path in begun.iterdir()] == [f"in.{ODD}"]


@needs_root
def test_a_foreign_folder_with_a_users_name_blocks_no_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign_inbox, "_own_home_directory", lambda: "/dev/null")
    made = tmp_path / "u.0"
    made.mkdir()
    os.chown(made, BOB, -1)

    files.write_campaign_file_to_inbox(b"{}\na\n", str(tmp_path))

    assert os.listdir(made) == []
    assert uids_of_taken_files("new", tmp_path) == [0]


@needs_root
@pytest.mark.parametrize("spoil", ["", "not a word", ODD])
def test_a_blocked_user_uses_one_other_inbox_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    home, folder = tmp_path / "home", tmp_path / "campaigns"
    (home / ".gridbridge").mkdir(parents=True)
    for name in ("u.0", f"u.0.{ODD}"):
        (folder / name).mkdir(parents=True)
        os.chown(folder / name, BOB, -1)
    if spoil:
        (home / campaign_inbox.WORD).write_text(spoil)
    monkeypatch.setattr(campaign_inbox, "_own_home_directory", lambda: str(home))

    found = set[str]()
    for _ in range(3):
        campaign_inbox._random_inbox_token.cache_clear()
        found |= {campaign_inbox.make_own_inbox_folder(str(folder)), campaign_inbox.find_own_inbox_folder(str(folder))}

    (own,) = found
    assert own.startswith(f"{folder}/u.0.")
    assert len(os.listdir(folder)) == 3
    assert (home / campaign_inbox.WORD).stat().st_mode & 0o777 == 0o600


def test_each_process_of_a_blocked_user_without_home_has_its_own_inbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign_inbox, "_own_home_directory", lambda: "/dev/null")
    (tmp_path / f"u.{os.getuid()}").write_text("")

    assert campaign_inbox.find_own_inbox_folder(str(tmp_path)) == ""
    assert campaign_inbox.make_own_inbox_folder(str(tmp_path)) == campaign_inbox.make_own_inbox_folder(str(tmp_path))
    assert len(os.listdir(tmp_path)) == 2


@needs_root
def test_many_invalid_files_and_folders_hide_no_campaign_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3 * A_PERSON):
        tail = f"{number:032x}"
        write_file_of_user(BOB, tmp_path / f"u.{BOB}.{tail}", b"")
        (tmp_path / f"u.{ALICE}.{tail}").mkdir()
        os.chown(tmp_path / f"u.{ALICE}.{tail}", BOB, -1)
    flooded = folder_of(BOB, tmp_path)
    for number in range(3 * A_FOLDER):
        write_file_of_user(BOB, flooded / f"new.{number:032x}", SAID["new"])
    write_file_of_user(ALICE, folder_of(ALICE, tmp_path) / f"new.{ODD}", SAID["new"])
    opened = list[str]()
    really = os.open
    monkeypatch.setattr(os, "open", lambda path, *more: opened.append(path) or really(path, *more))
    listed = campaign_inbox.list_inbox_files_of_all_users(str(tmp_path))

    assert sorted(path.rpartition("/")[2] for path in opened) == [f"u.{ALICE}", f"u.{BOB}"]
    assert len(listed) == A_FOLDER + 1
    assert f"u.{ALICE}/new.{ODD}" in listed


def test_a_huge_inbox_is_listed_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_inbox, "A_LISTING", 5)
    own = Path(campaign_inbox.make_own_inbox_folder(str(tmp_path)))
    for number in range(9):
        (own / f"new.{number:032x}").write_bytes(SAID["new"])
    taken = list[str]()

    for expected in (5, 4, 0):
        listed = campaign_inbox.list_inbox_files_of_all_users(str(tmp_path))
        here = [path for path in listed if not path.startswith("begun/")]
        assert len(here) == expected
        taken += [token for token, _ in files.take_new_campaign_files(here, str(tmp_path))]
        for token in taken:
            files.remove_refused_inbox_file(token, str(tmp_path))

    assert sorted(taken) == [f"{number:032x}" for number in range(9)]


def test_the_files_of_a_campaign_may_be_removed_twice(tmp_path: Path) -> None:
    folder = str(tmp_path)
    (tmp_path / "c.7").write_bytes(files.encode_campaign_file({"name": "n"}, ("a",)))

    files.remove_campaign_files(7, folder)
    files.remove_campaign_files(7, folder)

    assert os.listdir(folder) == []
    with pytest.raises(files.ForeignOrMissingCampaignFile, match="file was removed"):
        files.read_own_campaign_file(7, folder)


def test_a_huge_file_without_first_line_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(400 << 20)

    with pytest.raises(StateError, match="big"):
        files._require_valid_first_line(str(tmp_path / "big"))
