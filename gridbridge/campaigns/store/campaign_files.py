"""People's campaign files, as the service sees them, and what it answers.

A file is its owner's, brought in a folder of that person's below one of the service's that
everybody may add to (mode 3733: sticky, and what is made there is of the service's group, which may
read and take it). A new one has a random name; the service takes it to a folder of its own when it
begins, so that nobody takes it back from then on, and at last calls it by its campaign's number.
"""

import hashlib
import json
import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from gridbridge.campaigns.store import campaign_inbox as picked
from gridbridge.campaigns.store.campaign_reader import MAX_FIRST_BYTES, first_line
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.campaign_names import ADDS_TO, file_of
from gridbridge.model.campaigns.owner_request import OwnerRequest, OwnerVerb
from gridbridge.model.places import CAMPAIGNS, PUBLISHED, TAKEN_REQUEST, WISH
from gridbridge.shell import files
from gridbridge.state import published_files

NEW, BEGUN = "new.", f"{picked.BEGUN}/in."
ASKED, TAKEN = "ask.", TAKEN_REQUEST
KINDS = (NEW, ASKED, "in.", "took.")
MAX_BYTES = 512 << 20
ASKED_BYTES = 1 << 16
NO_WISH: Mapping[str, str] = {}
HIGHEST = 999_999_999  # number of a campaign, an event or a task


class NotTheirs(GridbridgeError):
    """A campaign's file can't be read: it is another's, or is no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file that somebody brought."""

    token: str
    uid: int
    owner: str  # empty while nobody knows that uid
    digest: str
    header: Any  # as JSON has it
    tasks: int
    size: int = 0  # bytes

    @property
    def adds_to(self) -> int | None:
        """The campaign to which it adds tasks; None: it is a campaign."""
        number = self.header.get(ADDS_TO) if isinstance(self.header, dict) else None
        return min(number, HIGHEST) if isinstance(number, int) else None


def encode(header: object, parameters: tuple[str, ...]) -> bytes:
    """Write a campaign file: a line of JSON, then a line a task."""
    lines = (json.dumps(header), *parameters)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def put(data: bytes, folder: str = CAMPAIGNS) -> str:
    """Put a campaign file of ours into the folder; return its token."""
    token = files.random_name()
    files.replace(f"{picked.mine(folder)}/{NEW}{token}", data, mode=0o640)
    return token


def take_back(token: str, folder: str = CAMPAIGNS) -> bool:
    """Remove a file of ours that the service has not taken in; False when it has."""
    return _unlink(f"{picked.mine(folder)}/{NEW}{token}")


def names(folder: str = CAMPAIGNS) -> list[str]:
    """Return what is there, for `new` and `take_requests`."""
    return picked.names(folder)


def new(listed: Iterable[str], folder: str = CAMPAIGNS) -> Iterator[tuple[str, NewFile | str]]:
    """Give the tokens of new files, each with its content or what is wrong with it.

    They can't be taken back from then on.
    """
    for token in picked.begun(listed, NEW, BEGUN, folder):
        try:
            yield token, _read(f"{folder}/{BEGUN}{token}", token)
        except StateError as error:
            yield token, str(error)
        except OSError:  # its owner has removed it, or it can't be read now
            continue
        except Exception as error:  # whatever somebody wrote there
            yield token, f"not what gridsub writes: {error!r:.200}"


def waiting(listed: Iterable[str], folder: str = CAMPAIGNS) -> list[str]:
    """Return the names of what `new` and `take_requests` would give, and leave all as it is."""
    names = list(listed)
    return [name for kind in KINDS for name in picked.of_kind(names, kind, folder)]


def ask(
    verb: str,
    campaigns: tuple[int, ...],
    folder: str = CAMPAIGNS,
    task: int = 0,
    subscription: Mapping[str, str] = NO_WISH,
    of: tuple[int, ...] = (),
) -> str:
    """Ask for something about what is ours; return the token of the answer.

    Of events root reads which campaigns they are of.
    """
    token = files.random_name()
    request = {"verb": verb, "campaigns": campaigns, "task": task, "of": of}
    data = json.dumps({**request, **subscription}).encode()
    files.replace(f"{picked.mine(folder)}/{ASKED}{token}", data, mode=0o640)
    return token


def requests(listed: Iterable[str], verb: OwnerVerb, folder: str = CAMPAIGNS) -> list[str]:
    """Return those of the names by which people ask for this; all are left where they are."""
    names = list(listed)
    kinds = (ASKED, TAKEN.removeprefix(f"{picked.BEGUN}/"))
    paths = [path for kind in kinds for path in picked.of_kind(names, kind, folder)]
    return [path for path in paths if _asks(f"{folder}/{path}", verb)]


def _asks(path: str, verb: OwnerVerb) -> bool:
    request = _request(path)
    return request is not None and request.verb is verb


def take_requests(listed: Iterable[str], folder: str = CAMPAIGNS) -> Iterator[OwnerRequest]:
    """Give what people ask, which they can't take back from then on.

    What is no request is removed.
    """
    for token in picked.begun(listed, ASKED, TAKEN, folder):
        if request := _request(f"{folder}/{TAKEN}{token}"):
            yield request
        else:
            remove_request(token, folder)


def _request(path: str) -> OwnerRequest | None:
    token = path.rpartition(".")[2]
    try:
        data, facts = files.read(path, ASKED_BYTES)
        table = json.loads(data)
        numbers = tuple(dict.fromkeys(_number(number) for number in table.get("campaigns", ())))
        verb, task = OwnerVerb(table["verb"]), _number(table.get("task", 0))
        subscription = {key: _text(table.get(key, "")) for key in ("way", "identity", "severity")}
    except Exception:  # whatever somebody wrote there
        return None
    return OwnerRequest(
        token=token, uid=facts.st_uid, verb=verb, numbers=numbers, task=task, **subscription
    )


def _number(value: object) -> int:
    if not isinstance(value, int) or abs(value) > HIGHEST:
        raise ValueError("no number of ours")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    value.encode()  # JSON allows half of a character, which no row can have
    return value


def remove_request(token: str, folder: str = CAMPAIGNS) -> None:
    """Remove a request that was answered."""
    _remove(f"{folder}/{TAKEN}{token}")


def drop(token: str, folder: str = CAMPAIGNS) -> None:
    """Remove what is refused or can't be done, a new file or a request."""
    for begun in (BEGUN, TAKEN):
        _remove(f"{folder}/{begun}{token}")


def keep_wish(token: str, folder: str = CAMPAIGNS) -> None:
    """Keep a request to be told by a program: root reads there which one; may be repeated."""
    with suppress(FileNotFoundError):
        os.rename(f"{folder}/{TAKEN}{token}", f"{folder}/{WISH}{token}")


def forget_wish(token: str, folder: str = CAMPAIGNS) -> None:
    """Remove such a request; may be repeated."""
    files.remove(f"{folder}/{WISH}{token}")


def forget(token: str, folder: str = CAMPAIGNS) -> bool:
    """Take a request of ours back; False when it was answered."""
    return _unlink(f"{picked.mine(folder)}/{ASKED}{token}")


def is_number_taken(campaign: int, folder: str = CAMPAIGNS) -> bool:
    """Say whether something there is called by a number: it is not overwritten."""
    return os.path.lexists(f"{folder}/{file_of(campaign)}")


def number(token: str, campaign: int, folder: str = CAMPAIGNS, part: int = 0) -> None:
    """Call a file by its campaign's number, and by its own if it is a part; may be repeated.

    What somebody called so in the meantime is moved aside.
    """
    begun, numbered = f"{folder}/{BEGUN}{token}", f"{folder}/{file_of(campaign, part)}"
    try:
        if os.path.lexists(begun) and os.path.lexists(numbered):
            os.rename(numbered, f"{folder}/{files.random_name('odd.')}")
        os.rename(begun, numbered)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StateError(f"{begun}: {error.strerror}") from error


def numbered(campaign: int, folder: str = CAMPAIGNS, part: int = 0) -> NewFile | None:
    """Read the file of a campaign or part; None when there is none, or none that can be read."""
    name = file_of(campaign, part)
    try:
        return _read(f"{folder}/{name}", name)
    except Exception:  # whatever somebody wrote there
        return None


def brought(
    campaign: int, folder: str = CAMPAIGNS, *, is_run: bool = False
) -> tuple[Any, list[str]]:
    """Return the header and all parameters of a campaign of ours; NotTheirs for another's.

    A campaign's file is removed some time after its end, and anybody may put another one there. So
    only our own is read. Root reads everybody's, but not to run what stands in it.
    """
    uid = os.geteuid()
    owner = uid if uid or is_run else None
    try:
        first, *lines = _texts(f"{folder}/{file_of(campaign)}", owner)
        for part in _parts(campaign, folder):
            lines += _texts(f"{folder}/{file_of(campaign, part)}", owner)[1:]
        return json.loads(first), lines
    except FileNotFoundError as error:
        raise NotTheirs(f"campaign {campaign}: its file is there no more") from error
    except (ValueError, RecursionError) as error:
        raise NotTheirs(f"campaign {campaign}: its file is damaged") from error
    except (OSError, StateError) as error:
        raise NotTheirs(f"campaign {campaign}: {_not_ours(uid)}") from error


def require_ours(campaign: int, folder: str = CAMPAIGNS) -> None:
    """Refuse another's campaign (NotTheirs), as far as its file is there."""
    uid = os.geteuid()
    with suppress(FileNotFoundError):
        if os.lstat(f"{folder}/{file_of(campaign)}").st_uid != uid:
            raise NotTheirs(f"campaign {campaign}: {_not_ours(uid)}")


def _not_ours(uid: int) -> str:
    return "its file is not yours to read" if uid else "its owner alone may do that"


def owner_of(campaign: int, folder: str = CAMPAIGNS) -> int:
    """Return the uid of whose campaign it is; NotTheirs where its file is there no more."""
    try:
        return os.lstat(f"{folder}/{file_of(campaign)}").st_uid
    except OSError as error:
        raise NotTheirs(f"campaign {campaign}: its file is there no more") from error


def held(parts: Iterable[tuple[int, int]], uid: int, folder: str = CAMPAIGNS) -> tuple[int, int]:
    """Return how many files of a person's campaigns lie there, and how many bytes they have.

    `parts` are those campaigns with 0 for the file itself. The folder is not listed: anybody may
    have put a million names there.
    """
    sizes = []
    for campaign, part in parts:
        with suppress(OSError):
            facts = os.lstat(f"{folder}/{file_of(campaign, part)}")
            if facts.st_uid == uid and stat.S_ISREG(facts.st_mode):
                sizes.append(facts.st_size)
    return len(sizes), sum(sizes)


def purge(campaign: int, folder: str = CAMPAIGNS) -> None:
    """Remove a campaign's files, the last part first; may be repeated."""
    for part in (*reversed(_parts(campaign, folder)), 0):
        _remove(f"{folder}/{file_of(campaign, part)}")


def _parts(campaign: int, folder: str) -> range:
    """Return the numbers of a campaign's parts; what another person put there is none.

    A campaign whose file is there no more has none.
    """
    uid = _owner_of(f"{folder}/{file_of(campaign)}")
    if uid is None:
        return range(1, 1)
    after = next(n for n in count(1) if _owner_of(f"{folder}/{file_of(campaign, n)}") != uid)
    return range(1, after)


def _owner_of(path: str) -> int | None:
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return None
    return facts.st_uid if stat.S_ISREG(facts.st_mode) else None


def _texts(path: str, owner: int | None) -> list[str]:
    data, _ = files.read(path, MAX_BYTES, owner)
    return data.decode("utf-8", "surrogateescape").split("\n")[:-1]


def answer_path(token: str, published: str = PUBLISHED) -> str:
    """Return where the answer to a new file appears."""
    return f"{published}/taken/{token}"


def answer(token: str, reply: object, published: str = PUBLISHED) -> None:
    """Answer who brought a file, in JSON."""
    published_files.put(
        answer_path(token, published), json.dumps(reply).encode(), published_files.UNLISTED
    )


def _read(path: str, token: str) -> NewFile:
    _require_head(path)
    data, facts = files.read(path, MAX_BYTES)
    return NewFile(
        token=token,
        uid=facts.st_uid,
        owner=_name_of(facts.st_uid),
        digest=hashlib.sha256(data).hexdigest(),
        header=json.loads(_first_line(path, data)),
        tasks=data.count(b"\n") - 1,
        size=len(data),
    )


def _require_head(path: str) -> None:
    """Refuse a file without a first line before all of it is read: half a gigabyte of nothing."""
    end = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        is_plain = stat.S_ISREG(
            os.fstat(end).st_mode
        )  # what else it may be is told by who reads it
        if is_plain:
            _first_line(path, os.read(end, MAX_FIRST_BYTES + 1))
    finally:
        os.close(end)


def _first_line(path: str, data: bytes) -> bytes:
    try:
        return first_line(data)
    except ValueError as error:
        raise StateError(f"{path}: {error}") from error


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _remove(path: str) -> None:
    """Remove a file; a folder that its owner made there instead is left alone."""
    with suppress(IsADirectoryError):
        files.remove(path)


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True
