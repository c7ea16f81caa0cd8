"""People's campaign files, as the service sees them, and what it answers.

A file is its owner's, in a folder of the service's that everybody may add to (mode 3733: sticky,
and its files are of the service's group, which may read them). A new one has a random name; the
one that was taken in is called by its campaign's number.
"""

import hashlib
import json
import os
import pwd
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.places import CAMPAIGNS, PUBLISHED
from gridbridge.shell import files

NEW = "new."
ASKED, TAKEN = "ask.", "took."
MAX_BYTES = 512 << 20
ASKED_BYTES = 1 << 16
UNLISTED = 0o711
A_SCAN = 10  # files of a person in one look


class NotTheirs(GridbridgeError):
    """A campaign's file can't be read: it is another's, or is no more."""


class Answer(StrEnum):
    """What became of a request about one campaign."""

    DONE = "done"
    UNKNOWN = "unknown"
    NOT_THEIRS = "not_theirs"
    NOT_PAUSED = "not_paused"
    PAUSED = "paused"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    NOT_ENDED = "not_ended"
    NO_TASK = "no_task"
    NOT_WAITING = "not_waiting"


class Verb(StrEnum):
    """What an owner may ask about a campaign."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    PURGE = "purge"
    CANCEL_TASK = "cancel_task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What somebody asks about campaigns."""

    token: str
    uid: int
    verb: Verb
    campaigns: tuple[int, ...]
    task: int = 0  # of CANCEL_TASK


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file that somebody brought."""

    token: str
    uid: int
    owner: str
    digest: str
    header: Any  # as JSON has it
    tasks: int


def encode(header: object, parameters: tuple[str, ...]) -> bytes:
    """Write a campaign file: a line of JSON, then a line a task."""
    lines = (json.dumps(header), *parameters)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def put(data: bytes, folder: str = CAMPAIGNS) -> str:
    """Put a campaign file of ours into the folder; return its token."""
    token = files.random_name()
    path = f"{folder}/{NEW}{token}"
    files.replace(path, data, mode=0o640)
    return token


def take_back(token: str, folder: str = CAMPAIGNS) -> bool:
    """Remove a file of ours that the service has not taken in; False when it has."""
    return _unlink(f"{folder}/{NEW}{token}")


def new(folder: str = CAMPAIGNS) -> Iterator[tuple[str, NewFile | str]]:
    """Give the tokens of new files, each with its content or what is wrong with it."""
    for name in _some(folder, NEW):
        token = name.removeprefix(NEW)
        try:
            yield token, _read(token, folder)
        except FileNotFoundError:  # taken back
            continue
        except (StateError, ValueError, KeyError) as error:
            yield token, str(error)


def ask(verb: str, campaigns: tuple[int, ...], folder: str = CAMPAIGNS, task: int = 0) -> str:
    """Ask for something about campaigns of ours; return the token of the answer."""
    token = files.random_name()
    data = json.dumps({"verb": verb, "campaigns": campaigns, "task": task}).encode()
    files.replace(f"{folder}/{ASKED}{token}", data, mode=0o640)
    return token


def asked(folder: str = CAMPAIGNS) -> Iterator[Asked]:
    """Give what people ask, which they can't take back from then on.

    What is no request is removed.
    """
    for name in _some(folder, ASKED):
        with suppress(FileNotFoundError):  # taken back
            os.rename(f"{folder}/{name}", f"{folder}/{TAKEN}{name.removeprefix(ASKED)}")
    for name in _some(folder, TAKEN):
        if found := _request(folder, name):
            yield found
        else:
            files.remove(f"{folder}/{name}")


def _request(folder: str, name: str) -> Asked | None:
    try:
        data, facts = files.read(f"{folder}/{name}", ASKED_BYTES)
        said = json.loads(data)
        numbers = tuple(int(number) for number in said["campaigns"])
        token, verb, task = name.removeprefix(TAKEN), Verb(said["verb"]), int(said.get("task", 0))
    except (OSError, StateError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Asked(token=token, uid=facts.st_uid, verb=verb, campaigns=numbers, task=task)


def _some(folder: str, prefix: str) -> list[str]:
    """Return names of a kind, the first of each person: nobody's many files hide another's."""
    of_uid: dict[int, list[str]] = {}
    for name in files.names(folder):
        with suppress(FileNotFoundError):
            if name.startswith(prefix):
                of_uid.setdefault(os.lstat(f"{folder}/{name}").st_uid, []).append(name)
    return [name for names in of_uid.values() for name in sorted(names)[:A_SCAN]]


def done(token: str, folder: str = CAMPAIGNS) -> None:
    """Remove a request that was answered."""
    files.remove(f"{folder}/{TAKEN}{token}")


def forget(token: str, folder: str = CAMPAIGNS) -> bool:
    """Take a request of ours back; False when it was answered."""
    return _unlink(f"{folder}/{ASKED}{token}")


def number(token: str, campaign: int, folder: str = CAMPAIGNS) -> None:
    """Call a file by its campaign's number; may be repeated."""
    try:
        os.rename(f"{folder}/{NEW}{token}", f"{folder}/c.{campaign}")
    except FileNotFoundError:
        return
    except OSError as error:
        raise StateError(f"{folder}/{NEW}{token}: {error.strerror}") from error


def brought(campaign: int, folder: str = CAMPAIGNS) -> tuple[Any, list[str]]:
    """Return the header and the parameters of a campaign of ours; NotTheirs for another's."""
    try:
        data, _ = files.read(f"{folder}/c.{campaign}", MAX_BYTES)
        first, *lines = data.decode("utf-8", "surrogateescape").split("\n")
        return json.loads(first), lines[:-1]
    except (OSError, StateError, ValueError) as error:
        raise NotTheirs(f"campaign {campaign}: its file is not yours to read") from error


def purge(campaign: int, folder: str = CAMPAIGNS) -> None:
    """Remove a campaign's file; may be repeated."""
    files.remove(f"{folder}/c.{campaign}")


def refuse(token: str, folder: str = CAMPAIGNS) -> None:
    """Remove a new file."""
    files.remove(f"{folder}/{NEW}{token}")


def answer_path(token: str, published: str = PUBLISHED) -> str:
    """Return where the answer to a new file appears."""
    return f"{published}/taken/{token}"


def answer(token: str, told: object, published: str = PUBLISHED) -> None:
    """Answer who brought a file, in JSON."""
    path = answer_path(token, published)
    with suppress(FileExistsError):
        os.mkdir(os.path.dirname(path), UNLISTED)
    files.replace(path, json.dumps(told).encode(), durable=False)


def _read(token: str, folder: str) -> NewFile:
    data, facts = files.read(f"{folder}/{NEW}{token}", MAX_BYTES)
    first, _, rest = data.partition(b"\n")
    return NewFile(
        token=token,
        uid=facts.st_uid,
        owner=pwd.getpwuid(facts.st_uid).pw_name,
        digest=hashlib.sha256(data).hexdigest(),
        header=json.loads(first),
        tasks=rest.count(b"\n"),
    )


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True
