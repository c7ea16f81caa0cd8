"""Folders in which people bring files, and which of them are looked at, in which order.

Each person has one, `u.UID`, into which nobody but that person and the service's group may write:
whose a file is does not say who brought it, but who could put it there does. Where somebody else
has made that name before, it is `u.UID.TOKEN`, with a word that nobody can know before, and that
person's home keeps: nobody but the service can list the folders.
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
from gridbridge.shell import files

TOKEN = re.compile("[0-9a-f]{32}")  # as files.random_name makes it
PERSONS = re.compile(rf"u\.(\d{{1,10}})(?:\.{TOKEN.pattern})?", re.ASCII)
BEGUN = "begun"  # the service's own folder, where what is taken in lies meanwhile
A_SCAN = 10  # files of a person in one look
# And at most so many bytes beside the first one: they are read while others wait.
A_SCAN_BYTES = {"new": 64 << 20, "in": 64 << 20, "ask": 64 << 10, "took": 64 << 10}
A_PERSON, A_FOLDER = 20, 50  # folders of a person, and files of a kind in one, that are looked at
A_LISTING = 20_000  # names in a folder that are listed: twice the campaign files that one may have
FOR_US = 0o770  # with the group of the folder, which is the service's
WORD = ".gridbridge/brings"  # below one's home: the token of one's folder
WORD_BYTES = 100


def mine(folder: str) -> str:
    """Return the folder in which we bring files, made if it is missing; StateError without it."""
    uid = os.geteuid()
    for name in _called(folder, chain(_known_word(), _new_word())):
        before = os.umask(0)  # no chmod: it would take away that what we bring is the group's
        try:
            with suppress(FileExistsError):
                os.mkdir(name, FOR_US)
            if _is_persons(os.lstat(name), uid, folder):
                return name
        except OSError as error:
            raise StateError(f"{name}: {error.strerror}") from error
        finally:
            os.umask(before)
    raise StateError(f"{folder}: what is made there is not of its group; is its mode 3733?")


def mine_now(folder: str) -> str:
    """Return the same where it is there, and make none; empty without it."""
    for name in _called(folder, _known_word()):
        with suppress(OSError):
            if _is_persons(os.lstat(name), os.geteuid(), folder):
                return name
    return ""


def _called(folder: str, words: Iterable[str]) -> Iterator[str]:
    """Give what our folder may be called."""
    path = f"{folder}/u.{os.geteuid()}"
    yield path
    yield from (f"{path}.{word}" for word in words)


def _known_word() -> Iterator[str]:
    """Give the word that our home keeps, if it has one."""
    with suppress(OSError, StateError, KeyError):
        data, _ = files.read(f"{_home()}/{WORD}", WORD_BYTES, os.geteuid())
        word = data.decode("ascii", "replace")
        if TOKEN.fullmatch(word):
            yield word


def _new_word() -> Iterator[str]:
    """Give a new one that our home keeps from now on, else one for this process alone."""
    word = _spare()
    with suppress(OSError, StateError, KeyError):
        path = f"{_home()}/{WORD}"
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        files.replace(path, word.encode(), 0o600)
    yield word


def _home() -> str:
    return pwd.getpwuid(os.geteuid()).pw_dir


@cache
def _spare() -> str:
    return files.random_name()


def _is_persons(facts: os.stat_result, uid: int, folder: str) -> bool:
    """Say whether nobody but that person and the service can put anything into it."""
    is_closed = stat.S_ISDIR(facts.st_mode) and facts.st_mode & 0o777 == FOR_US
    return is_closed and facts.st_uid == uid and facts.st_gid == os.stat(folder).st_gid


def names(folder: str) -> list[str]:
    """Return the paths of what people brought, and of what is begun, below the folder.

    Of a person's folder the first of each kind are enough: the next look finds others.
    """
    paths = [f"{BEGUN}/{name}" for name in files.names(f"{folder}/{BEGUN}")]
    for person in _persons(folder):
        with suppress(OSError), _opened(person, folder) as (end, _):
            paths += [f"{person}/{name}" for name in _first(_some_names(end))]
    return paths


def staying(kind: str, most: int, folder: str) -> dict[int, list[str]]:
    """Return the paths of files of a kind that stay where people bring them, by whose they are.

    As no later look finds others, of each person the first `most` of all are given.
    """
    paths: dict[int, list[str]] = {}
    for person in _persons(folder):
        with suppress(OSError), _opened(person, folder) as (end, uid):
            of_one = (f"{person}/{name}" for name in sorted(_some_names(end)) if is_of(name, kind))
            of_uid = paths.setdefault(uid, [])
            of_uid += islice(of_one, most - len(of_uid))
    return paths


def _persons(folder: str) -> Iterator[str]:
    """Give the folders of people, some of each; what else is called so costs next to nothing."""
    of_each = Counter[int]()
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        named = [entry for entry in entries if PERSONS.fullmatch(entry.name)]
        for entry in sorted(named, key=lambda entry: entry.name):
            with suppress(OSError):
                uid = int(entry.name.split(".")[1])
                is_theirs = (
                    entry.is_dir(follow_symlinks=False)
                    and entry.stat(follow_symlinks=False).st_uid == uid
                )
                of_each[uid] += is_theirs
                if is_theirs and of_each[uid] <= A_PERSON:
                    yield entry.name


def _some_names(end: int) -> list[str]:
    """Return what is in a person's folder; of very much the rest has to wait."""
    with os.scandir(end) as entries:
        return [entry.name for entry in islice(entries, A_LISTING)]


def _first(listed: Iterable[str]) -> Iterator[str]:
    """Give the first names of each kind."""
    of_each = Counter[str]()
    for name in sorted(listed):
        kind, _, token = name.partition(".")
        if TOKEN.fullmatch(token) and of_each[kind] < A_FOLDER:
            of_each[kind] += 1
            yield name


@contextmanager
def _opened(person: str, folder: str) -> Iterator[tuple[int, int]]:
    """Open a person's folder, give it and whose it is; OSError if others may write there."""
    options = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    end = os.open(f"{folder}/{person}", options)
    try:
        uid = int(person.split(".")[1])
        if not _is_persons(os.fstat(end), uid, folder):
            raise PermissionError(f"{person}: not uid {uid}'s alone")
        yield end, uid
    finally:
        os.close(end)


def begun(listed: Iterable[str], brought: str, taken_prefix: str, folder: str) -> list[str]:
    """Take what was brought, and return the tokens of all that is begun and not finished.

    `taken_prefix` begins its name then, below the folder. Its owner can't change it any more.
    """
    paths = list(listed)
    for path in of_kind(paths, brought, folder):
        with suppress(OSError):  # taken back, or something odd stands there
            paths.append(_move(path, folder))
    for path in paths:
        with suppress(OSError):
            _admit(path, brought, taken_prefix, folder)
    prefix = taken_prefix.removeprefix(f"{BEGUN}/")
    finished = (f"{BEGUN}/{name}" for name in files.names(f"{folder}/{BEGUN}"))
    return [path.removeprefix(taken_prefix) for path in of_kind(finished, prefix, folder)]


def _move(path: str, folder: str) -> str:
    """Take a file out of its person's folder; its name says whose that is."""
    person, _, name = path.partition("/")
    kind, _, token = name.partition(".")
    files.make_own_folder(f"{folder}/{BEGUN}")
    with _opened(person, folder) as (end, uid):
        moved = f"{BEGUN}/{kind}.{uid}.{token}"
        os.rename(name, f"{folder}/{moved}", src_dir_fd=end)
    return moved


def _admit(path: str, brought: str, taken_prefix: str, folder: str) -> None:
    """Begin what its owner brought; what another wrote is removed, whoever moved it there."""
    begin = f"{BEGUN}/{brought}"
    uid, _, token = path.removeprefix(begin).partition(".")
    if not path.startswith(begin):
        return
    if str(os.lstat(f"{folder}/{path}").st_uid) == uid:
        os.rename(f"{folder}/{path}", f"{folder}/{taken_prefix}{token}")
    else:
        files.remove(f"{folder}/{path}")


def of_kind(listed: Iterable[str], prefix: str, folder: str) -> list[str]:
    """Return paths of a kind, the first of each person: nobody's many files hide another's.

    Nor do anybody's large ones.
    """
    # Whatever number of folders somebody has.
    of_each: dict[tuple[bool, int], list[tuple[str, int]]] = {}
    for path in listed:
        if not is_of(path.rpartition("/")[2], prefix):
            continue
        with suppress(OSError):
            facts = os.lstat(f"{folder}/{path}")
            if not stat.S_ISDIR(facts.st_mode):
                key = path.startswith(f"{BEGUN}/"), facts.st_uid
                of_each.setdefault(key, []).append((path, facts.st_size))
    most = A_SCAN_BYTES[prefix.rstrip(".")]
    return [path for sized in of_each.values() for path in _first_of(sorted(sized), most)]


def _first_of(sized: list[tuple[str, int]], most: int) -> Iterator[str]:
    """Give the first path, and of the next ones those that have so many bytes together."""
    yield sized[0][0]
    total = 0
    for path, size in sized[1:A_SCAN]:
        if total + size <= most:
            total += size
            yield path


def is_of(name: str, prefix: str) -> bool:
    """Say whether a name is one that our programs give; what else lies there is left alone."""
    return name.startswith(prefix) and bool(TOKEN.fullmatch(name.removeprefix(prefix)))
