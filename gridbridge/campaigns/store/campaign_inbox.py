"""Inbox folders, one for each person, from which the service takes campaign files and requests.

Only the person and the service's group may write into `u.UID`, so the folder proves who sent a file.
If another user has created `u.UID`, the person uses `u.UID.TOKEN`, with a token from the home directory.
"""

import os
import pwd
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain, islice

from gridbridge.errors import StateError
from gridbridge.shell import safe_files

TOKEN = re.compile("[0-9a-f]{32}")
PERSONS = re.compile(rf"u\.(\d{{1,10}})(?:\.{TOKEN.pattern})?", re.ASCII)
BEGUN = "begun"  # the service's folder of files that are being processed
A_SCAN = 10  # at most this many files of one person in one scan
# {kind of file: limit of bytes in one scan for a person's files after the first}
A_SCAN_BYTES = {"new": 64 << 20, "in": 64 << 20, "ask": 64 << 10, "took": 64 << 10}
A_PERSON, A_FOLDER = 20, 50  # largest number of a person's folders, and of files of one kind in a folder
A_LISTING = 20_000  # at most this many names in a folder are read: twice the allowed campaign files
FOR_US = 0o770  # mode of a person's inbox folder
WORD = ".gridbridge/brings"  # file in a home directory with the token of the person's inbox folder


def make_own_inbox_folder(folder: str) -> str:
    """Return this user's inbox folder, created if missing; raises StateError if the creation fails."""
    uid = os.geteuid()
    for name in _possible_inbox_paths(folder, chain(_read_inbox_token(), _create_inbox_token())):
        before = os.umask(0)  # umask 0: a chmod would clear the setgid bit
        try:
            with suppress(FileExistsError):
                os.mkdir(name, FOR_US)
            if _is_private_inbox(os.lstat(name), uid, folder):
                return name
        except OSError as error:
            raise StateError(f"{name}: {error.strerror}") from error
        finally:
            os.umask(before)
    raise StateError(f"{folder}: new folders do not get this folder's group; expected mode 3733")


def find_own_inbox_folder(folder: str) -> str:
    for name in _possible_inbox_paths(folder, _read_inbox_token()):
        with suppress(OSError):
            if _is_private_inbox(os.lstat(name), os.geteuid(), folder):
                return name
    return ""


def _possible_inbox_paths(folder: str, words: Iterable[str]) -> Iterator[str]:
    path = f"{folder}/u.{os.geteuid()}"
    yield path
    yield from (f"{path}.{word}" for word in words)


def _read_inbox_token() -> Iterator[str]:
    with suppress(OSError, StateError, KeyError):
        data, _ = safe_files.read_file_only_owner_writes(f"{_own_home_directory()}/{WORD}", 100, os.geteuid())
        word = data.decode("ascii", "replace")
        if TOKEN.fullmatch(word):
            yield word


def _create_inbox_token() -> Iterator[str]:
    word = _random_inbox_token()
    with suppress(OSError, StateError, KeyError):
        path = f"{_own_home_directory()}/{WORD}"
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        safe_files.replace_file_atomically(path, word.encode(), 0o600)
    yield word


def _own_home_directory() -> str:
    return pwd.getpwuid(os.geteuid()).pw_dir


@cache
def _random_inbox_token() -> str:
    return safe_files.random_file_name()


def _is_private_inbox(facts: os.stat_result, uid: int, folder: str) -> bool:
    """Return whether only this uid and the service's group can write into an inbox folder."""
    is_closed = stat.S_ISDIR(facts.st_mode) and facts.st_mode & 0o777 == FOR_US
    return is_closed and facts.st_uid == uid and facts.st_gid == os.stat(folder).st_gid


def make_folder_of_files_in_process(folder: str) -> None:
    """Make the service's folder of files in process, and move away such a folder that another user has made."""
    with suppress(FileNotFoundError):  # there is no inbox yet
        safe_files.make_private_folder(f"{folder}/{BEGUN}")


def list_inbox_files_of_all_users(folder: str) -> list[str]:
    """Return relative paths: files in process, and the first new files of each person and kind."""
    paths = [f"{BEGUN}/{name}" for name in safe_files.list_folder_or_empty(f"{folder}/{BEGUN}")]
    for person in _inbox_folder_names(folder):
        with suppress(OSError), _open_inbox_folder(person, folder) as (end, _):
            of_each = Counter[str]()
            for name in sorted(_first_inbox_names(end)):
                kind, _, token = name.partition(".")
                if TOKEN.fullmatch(token) and of_each[kind] < A_FOLDER:
                    of_each[kind] += 1
                    paths.append(f"{person}/{name}")
    return paths


def list_kept_inbox_files_by_uid(kind: str, most: int, folder: str) -> dict[int, list[str]]:
    paths: dict[int, list[str]] = {}
    for person in _inbox_folder_names(folder):
        with suppress(OSError), _open_inbox_folder(person, folder) as (end, uid):
            of_one = (f"{person}/{name}" for name in sorted(_first_inbox_names(end)) if is_inbox_file_name(name, kind))
            of_uid = paths.setdefault(uid, [])
            of_uid += islice(of_one, most - len(of_uid))
    return paths


def _inbox_folder_names(folder: str) -> Iterator[str]:
    of_each = Counter[int]()
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        named = [entry for entry in entries if PERSONS.fullmatch(entry.name)]
        for entry in sorted(named, key=lambda entry: entry.name):
            with suppress(OSError):
                uid = int(entry.name.split(".")[1])
                is_theirs = entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == uid
                of_each[uid] += is_theirs
                if is_theirs and of_each[uid] <= A_PERSON:
                    yield entry.name


def _first_inbox_names(end: int) -> list[str]:
    with os.scandir(end) as entries:
        return [entry.name for entry in islice(entries, A_LISTING)]


@contextmanager
def _open_inbox_folder(person: str, folder: str) -> Iterator[tuple[int, int]]:
    """Open an inbox folder; yield descriptor and uid. Raises OSError if other users can write."""
    options = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    end = os.open(f"{folder}/{person}", options)
    try:
        uid = int(person.split(".")[1])
        if not _is_private_inbox(os.fstat(end), uid, folder):
            raise PermissionError(f"{person}: users other than uid {uid} can write this folder")
        yield end, uid
    finally:
        os.close(end)


def take_new_inbox_files(listed: Iterable[str], brought: str, taken_prefix: str, folder: str) -> list[str]:
    """Move new files from prefix `brought` to `taken_prefix`; return the tokens of all files with `taken_prefix`."""
    paths = list(listed)
    for path in select_inbox_files_fairly(paths, brought, folder):
        with suppress(OSError):  # the owner withdrew the file, or the file is no plain file
            paths.append(_move_file_from_inbox(path, folder))
    for path in paths:
        with suppress(OSError):
            _accept_or_remove_moved_file(path, brought, taken_prefix, folder)
    prefix = taken_prefix.removeprefix(f"{BEGUN}/")
    finished = (f"{BEGUN}/{name}" for name in safe_files.list_folder_or_empty(f"{folder}/{BEGUN}"))
    return [path.removeprefix(taken_prefix) for path in select_inbox_files_fairly(finished, prefix, folder)]


def _move_file_from_inbox(path: str, folder: str) -> str:
    person, _, name = path.partition("/")
    kind, _, token = name.partition(".")
    safe_files.make_private_folder(f"{folder}/{BEGUN}")
    with _open_inbox_folder(person, folder) as (end, uid):
        moved = f"{BEGUN}/{kind}.{uid}.{token}"
        os.rename(name, f"{folder}/{moved}", src_dir_fd=end)
    return moved


def _accept_or_remove_moved_file(path: str, brought: str, taken_prefix: str, folder: str) -> None:
    """Accept a moved file if its owner also owns the inbox; otherwise remove the file."""
    begin = f"{BEGUN}/{brought}"
    uid, _, token = path.removeprefix(begin).partition(".")
    if not path.startswith(begin):
        return
    if str(os.lstat(f"{folder}/{path}").st_uid) == uid:
        os.rename(f"{folder}/{path}", f"{folder}/{taken_prefix}{token}")
    else:
        safe_files.remove_file(f"{folder}/{path}")


def select_inbox_files_fairly(listed: Iterable[str], prefix: str, folder: str) -> list[str]:
    """Return the first files of a kind for each person, limited by number and bytes."""
    # files are grouped by person, because a person may have several folders
    of_each: dict[tuple[bool, int], list[tuple[str, int]]] = {}
    for path in listed:
        if is_inbox_file_name(path.rpartition("/")[2], prefix):
            with suppress(OSError):
                facts = os.lstat(f"{folder}/{path}")
                if not stat.S_ISDIR(facts.st_mode):
                    key = path.startswith(f"{BEGUN}/"), facts.st_uid
                    of_each.setdefault(key, []).append((path, facts.st_size))
    chosen = list[str]()
    for sized in map(sorted, of_each.values()):
        chosen.append(sized[0][0])
        room = A_SCAN_BYTES[prefix.rstrip(".")]
        for path, size in sized[1:A_SCAN]:
            if size <= room:
                room -= size
                chosen.append(path)
    return chosen


def is_inbox_file_name(name: str, prefix: str) -> bool:
    """Return whether a file name consists of a prefix and a token."""
    return name.startswith(prefix) and bool(TOKEN.fullmatch(name.removeprefix(prefix)))
