"""The folder of campaign files: anybody adds to it, and nobody stands in another's way."""

import os
import resource
from collections.abc import Callable
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
    """Make the folder in which a person brings files, as that person's gridsub does."""
    made = folder / f"u.{uid}"
    made.mkdir()
    made.chmod(mode)
    os.chown(made, uid, -1)
    return made


def of(uid: int, path: Path, data: bytes) -> None:
    """Write a file of a person's."""
    path.write_bytes(data)
    os.chown(path, uid, -1)


def taken(folder: Path) -> list[tuple[str, NewCampaignOrAddedTasksFile | str]]:
    """Take the new campaign files."""
    listed = files.list_campaign_inbox_files(str(folder))
    return [*files.take_new_campaign_files(listed, str(folder))]


def test_a_file_is_read_as_it_was_brought(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 stay what they are."""
    data = files.encode_campaign_file({"name": "é"}, ("a \udcff", "b"))
    token = files.write_campaign_file_to_inbox(data, str(tmp_path))

    own = tmp_path / f"u.{os.getuid()}"
    assert own.stat().st_mode & 0o777 == 0o770
    assert (own / f"new.{token}").stat().st_mode & 0o777 == 0o640

    ((found_token, found),) = taken(tmp_path)

    assert isinstance(found, NewCampaignOrAddedTasksFile)
    assert (found_token, found.header, found.tasks) == (token, {"name": "é"}, 2)


def test_what_was_not_taken_in_can_be_taken_back(tmp_path: Path) -> None:
    """And what was can't: the owner waits for its number then."""
    first, second = (files.write_campaign_file_to_inbox(b"{}\n", str(tmp_path)) for _ in range(2))
    assert files.withdraw_campaign_file(first, str(tmp_path))

    ((token, _),) = taken(tmp_path)

    assert token == second
    assert not files.withdraw_campaign_file(second, str(tmp_path))
    files.rename_file_to_campaign_number(second, 7, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["c.7"]


def test_where_a_persons_quota_is_full_nothing_is_brought(tmp_path: Path) -> None:
    """Not even a part of it; a limit on the size of files stands for the quota."""
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        with pytest.raises(StateError) as told:
            files.write_campaign_file_to_inbox(b"{}\n" + b"a\n" * 99, str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert str(told.value).startswith(f"{tmp_path}/u.{os.getuid()}/new.")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_folders_that_somebody_makes_there_are_left_alone(tmp_path: Path) -> None:
    """They stop nobody: not even one that is called as a file will be."""
    own = f"u.{os.getuid()}"
    Path(campaign_inbox.make_own_inbox_folder(str(tmp_path)))
    for name in (f"{own}/new.{ODD}", f"{own}/ask.{ODD}", f"begun/in.{ODD}", "u.1", "c.7"):
        (tmp_path / name / "inside").mkdir(parents=True)
    brought = files.write_campaign_file_to_inbox(b"{}\n", str(tmp_path))

    listed = files.list_campaign_inbox_files(str(tmp_path))
    assert [token for token, _ in files.take_new_campaign_files(listed, str(tmp_path))] == [brought]
    assert list(files.take_owner_requests(listed, str(tmp_path))) == []
    assert files.is_campaign_number_taken(7, str(tmp_path))
    files.rename_file_to_campaign_number(brought, 7, str(tmp_path))
    assert (tmp_path / "c.7").is_file()


@needs_root
def test_nobodys_many_files_hide_anothers(tmp_path: Path) -> None:
    """In each look some files of every person are taken."""
    first, second = folder_of(1, tmp_path), folder_of(2, tmp_path)
    for number in range(3 * A_SCAN):
        of(1, first / f"new.{number:032x}", b"{}\na\n")
    last = "f" * 32
    of(2, second / f"new.{last}", b"{}\na\n")

    tokens = [token for token, _ in taken(tmp_path)]

    assert len(tokens) == A_SCAN + 1
    assert last in tokens


@needs_root
@pytest.mark.parametrize(("kind", "size"), [("new", 40 << 20), ("ask", 60 << 10)])
def test_nobodys_large_files_delay_another(tmp_path: Path, kind: str, size: int) -> None:
    """A look takes two of a person's large files, or of their long requests, and others later."""
    first, second = folder_of(1, tmp_path), folder_of(2, tmp_path)
    for number in range(A_SCAN - 1):
        of(1, first / f"{kind}.{number:032x}", b"{}\n")
        os.truncate(first / f"{kind}.{number:032x}", size)
    small, last = "e" * 32, "f" * 32
    of(1, first / f"{kind}.{small}", b"{}\n")
    of(2, second / f"{kind}.{last}", b"{}\n")

    taken = campaign_inbox.take_new_inbox_files(
        files.list_campaign_inbox_files(str(tmp_path)), f"{kind}.", f"begun/{TAKEN_AS[kind]}.", str(tmp_path)
    )

    assert sorted(taken) == [f"{0:032x}", f"{1:032x}", small, last]


@pytest.mark.parametrize("data", [b"", b"[", b"{}", b"\xff\n", b"[" * 100_000, b'{"a": 1e999}'])
def test_what_is_no_campaign_file_is_told(tmp_path: Path, data: bytes) -> None:
    """A file without a task has none; the rest is no JSON, or more of it than can be read."""
    (Path(campaign_inbox.make_own_inbox_folder(str(tmp_path))) / f"new.{ODD}").write_bytes(data)

    ((_, found),) = taken(tmp_path)

    assert isinstance(found, str) or found.tasks == 0


@pytest.mark.parametrize("token", ["", ".", "..", "x", "c.13", "0123", "A" * 32, "0" * 33])
@pytest.mark.parametrize("kind", ["new.", "in.", "ask.", "took."])
def test_what_our_programs_would_not_call_so_is_left_alone(tmp_path: Path, kind: str, token: str) -> None:
    """An answer bears the same name, and no place is named by anybody but them."""
    own = Path(campaign_inbox.make_own_inbox_folder(str(tmp_path)))
    (own / f"{kind}{token}").write_bytes(b'{"verb": "cancel", "campaigns": [1]}\na\n')
    listed = files.list_campaign_inbox_files(str(tmp_path))

    assert list(files.take_new_campaign_files(listed, str(tmp_path))) == []
    assert list(files.take_owner_requests(listed, str(tmp_path))) == []
    assert files.list_campaign_inbox_files(str(tmp_path)) == listed


@pytest.mark.parametrize("data", [b"[" * 100_000, b"[]\na", b"\xff\n"])
def test_what_is_no_campaign_file_has_no_number(tmp_path: Path, data: bytes) -> None:
    """Anybody may call a file so before the service starts."""
    (tmp_path / "c.7").write_bytes(data)

    assert getattr(files.read_numbered_campaign_file(7, str(tmp_path)), "tasks", 0) == 0


ALICE, BOB = 1, 2
SAID = {"new": b"{}\na\n", "ask": b'{"verb": "cancel", "campaigns": [1]}'}


def brought(kind: str, folder: Path) -> list[int]:
    """Return whose files are taken."""
    listed = files.list_campaign_inbox_files(str(folder))
    new = [found for _, found in files.take_new_campaign_files(listed, str(folder))]
    asked = files.take_owner_requests(listed, str(folder))
    return [one.uid for one in (new if kind == "new" else asked) if not isinstance(one, str)]


def beside(kind: str, folder: Path) -> Path:
    """Put it where everybody may."""
    return folder / f"{kind}.{ODD}"


def begun(kind: str, folder: Path) -> Path:
    """Put it there as if it had been taken."""
    return folder / f"{'in' if kind == 'new' else 'took'}.{ODD}"


def bobs(kind: str, folder: Path) -> Path:
    """Put it into Bob's own folder."""
    return folder_of(BOB, folder) / f"{kind}.{ODD}"


def bobs_by_her_name(kind: str, folder: Path) -> Path:
    """Put it into a folder that Bob made before Alice had one."""
    made = folder_of(ALICE, folder)
    os.chown(made, BOB, -1)
    return made / f"{kind}.{ODD}"


def everybodys(kind: str, folder: Path) -> Path:
    """Put it into a folder of Alice's that she lets everybody write."""
    return folder_of(ALICE, folder, 0o777) / f"{kind}.{ODD}"


def another_groups(kind: str, folder: Path) -> Path:
    """Put it into one that a group of people may write."""
    made = folder_of(ALICE, folder)
    os.chown(made, -1, 7)
    return made / f"{kind}.{ODD}"


def by_a_link(kind: str, folder: Path) -> Path:
    """Put it behind a link."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (folder / f"u.{ALICE}").symlink_to(elsewhere)
    return elsewhere / f"{kind}.{ODD}"


@needs_root
@pytest.mark.parametrize("kind", ["new", "ask"])
@pytest.mark.parametrize("put", [beside, begun, bobs, bobs_by_her_name, everybodys, another_groups, by_a_link])
def test_whose_a_file_is_does_not_say_who_brought_it(
    tmp_path: Path, kind: str, put: Callable[[str, Path], Path]
) -> None:
    """Alice copied a file of Bob's into a folder of his: he can move hers."""
    of(ALICE, put(kind, tmp_path), SAID[kind])

    assert brought(kind, tmp_path) == []


@needs_root
@pytest.mark.parametrize("kind", ["new", "ask"])
def test_what_a_person_brings_is_taken(tmp_path: Path, kind: str) -> None:
    """Into a folder that nobody else can write but the service."""
    of(ALICE, folder_of(ALICE, tmp_path) / f"{kind}.{ODD}", SAID[kind])

    assert brought(kind, tmp_path) == [ALICE]
    assert (tmp_path / "begun").stat().st_mode & 0o077 == 0


@needs_root
def test_a_service_killed_while_it_takes_a_file_takes_it_later(tmp_path: Path) -> None:
    """And another's, moved at the last moment, not at all: the name says in whose folder it lay."""
    begun = tmp_path / "begun"
    begun.mkdir(mode=0o700)
    of(ALICE, begun / f"new.{ALICE}.{ODD}", SAID["new"])
    of(ALICE, begun / f"new.{BOB}.{'1' * 32}", SAID["new"])

    assert brought("new", tmp_path) == [ALICE]
    assert [path.name for path in begun.iterdir()] == [f"in.{ODD}"]


@needs_root
def test_nobody_keeps_another_from_bringing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes a folder of another's name before gets no file, and stops none."""
    monkeypatch.setattr(campaign_inbox, "_home_directory", lambda: "/dev/null")
    made = tmp_path / "u.0"
    made.mkdir()
    os.chown(made, BOB, -1)

    files.write_campaign_file_to_inbox(b"{}\na\n", str(tmp_path))

    assert os.listdir(made) == []
    assert brought("new", tmp_path) == [0]


@needs_root
@pytest.mark.parametrize("spoil", ["", "not a word", ODD])
def test_who_is_kept_from_that_brings_by_one_other_folder_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: str
) -> None:
    """Each process finds it, also where what the home kept is none, or is another's by now."""
    home, folder = tmp_path / "home", tmp_path / "campaigns"
    (home / ".gridbridge").mkdir(parents=True)
    for name in ("u.0", f"u.0.{ODD}"):
        (folder / name).mkdir(parents=True)
        os.chown(folder / name, BOB, -1)
    if spoil:
        (home / campaign_inbox.WORD).write_text(spoil)
    monkeypatch.setattr(campaign_inbox, "_home_directory", lambda: str(home))

    found = set[str]()
    for _ in range(3):
        campaign_inbox._random_inbox_token.cache_clear()
        found |= {campaign_inbox.make_own_inbox_folder(str(folder)), campaign_inbox.find_own_inbox_folder(str(folder))}

    (own,) = found
    assert own.startswith(f"{folder}/u.0.")
    assert len(os.listdir(folder)) == 3
    assert (home / campaign_inbox.WORD).stat().st_mode & 0o777 == 0o600


def test_without_a_home_each_process_brings_by_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is only looked for makes none."""
    monkeypatch.setattr(campaign_inbox, "_home_directory", lambda: "/dev/null")
    (tmp_path / f"u.{os.getuid()}").write_text("")

    assert campaign_inbox.find_own_inbox_folder(str(tmp_path)) == ""
    assert campaign_inbox.make_own_inbox_folder(str(tmp_path)) == campaign_inbox.make_own_inbox_folder(str(tmp_path))
    assert len(os.listdir(tmp_path)) == 2


@needs_root
def test_many_odd_files_and_folders_of_one_person_hide_nothing_and_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bob's own folders, some in Alice's name, files that are none, and far too many of a kind."""
    for number in range(3 * A_PERSON):
        tail = f"{number:032x}"
        of(BOB, tmp_path / f"u.{BOB}.{tail}", b"")
        (tmp_path / f"u.{ALICE}.{tail}").mkdir()
        os.chown(tmp_path / f"u.{ALICE}.{tail}", BOB, -1)
    flooded = folder_of(BOB, tmp_path)
    for number in range(3 * A_FOLDER):
        of(BOB, flooded / f"new.{number:032x}", SAID["new"])
    of(ALICE, folder_of(ALICE, tmp_path) / f"new.{ODD}", SAID["new"])
    opened = list[str]()
    really = os.open
    monkeypatch.setattr(os, "open", lambda path, *more: opened.append(path) or really(path, *more))
    listed = files.list_campaign_inbox_files(str(tmp_path))

    assert sorted(path.rpartition("/")[2] for path in opened) == [f"u.{ALICE}", f"u.{BOB}"]
    assert len(listed) == A_FOLDER + 1
    assert f"u.{ALICE}/new.{ODD}" in listed


def test_of_very_many_names_in_a_folder_some_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million of them would delay each look by seconds; what is taken makes room for the rest."""
    monkeypatch.setattr(campaign_inbox, "A_LISTING", 5)
    own = Path(campaign_inbox.make_own_inbox_folder(str(tmp_path)))
    for number in range(9):
        (own / f"new.{number:032x}").write_bytes(SAID["new"])
    taken = list[str]()

    for expected in (5, 4, 0):
        listed = files.list_campaign_inbox_files(str(tmp_path))
        here = [path for path in listed if not path.startswith("begun/")]
        assert len(here) == expected
        taken += [token for token, _ in files.take_new_campaign_files(here, str(tmp_path))]
        for token in taken:
            files.remove_refused_inbox_file(token, str(tmp_path))

    assert sorted(taken) == [f"{number:032x}" for number in range(9)]


def test_a_campaign_without_its_file_has_no_parts(tmp_path: Path) -> None:
    """Its owner may remove it, and it is removed a while after its end: it is purged once more."""
    folder = str(tmp_path)
    (tmp_path / "c.7").write_bytes(files.encode_campaign_file({"name": "n"}, ("a",)))

    files.remove_campaign_files(7, folder)
    files.remove_campaign_files(7, folder)

    assert os.listdir(folder) == []
    with pytest.raises(files.ForeignOrMissingCampaignFile, match="file was removed"):
        files.read_own_campaign_file(7, folder)


def test_a_huge_file_of_nothing_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(400 << 20)

    with pytest.raises(StateError, match="big"):
        files._require_valid_first_line(str(tmp_path / "big"))
