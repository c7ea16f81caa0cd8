"""Acts as another person: whose files and jobs they are is checked, and the time is limited.

What gridbridge-as-user's verbs have in common. Root runs all of it but what follows `become`.
"""

import os
import pwd
import select
import tomllib
from typing import NoReturn

from gridbridge.errors import (
    AlreadySubmitted,
    CampaignClosed,
    GridbridgeError,
    LedgerLost,
    NotACopy,
    NotAsBrought,
    NotOurs,
    NotRead,
    StateError,
    UntrustedFile,
    plain_words,
)
from gridbridge.model.places import (
    HAS_ENDED,
    NO_FILE,
    NO_LEDGER,
    NO_OWNER,
    NOT_NOW,
    NOT_OURS,
    REFUSED_THERE,
    SUBMITTED_BEFORE,
)
from gridbridge.privileged import scope
from gridbridge.privileged.scope import FIRST_SIGNAL, ProcessScope
from gridbridge.shell import account, files, trust

CONFIG_MAX_BYTES = 1 << 20
FAILED, REFUSED = 1, 2
LIMIT_S = 45  # less than the service waits
MIN_UID = 1000  # the configuration may say another
# What reading JSON that a person wrote may raise, whatever it is.
UNREADABLE = (OSError, StateError, ValueError, KeyError, TypeError, RecursionError)


class OwnerRefusal(GridbridgeError):
    """A request that this program carries out for nobody."""


class NoAccount(OwnerRefusal):
    """A uid that nobody has, or that nobody tells of now."""


class RefusedThere(GridbridgeError):
    """What its cluster will never take."""


class OwnerNotReady(GridbridgeError):
    """What may be done later: nothing was done."""


class NoOwner(OwnerNotReady):
    """Nobody tells of the owner's account now; nothing was done."""


STATUS = {
    **dict.fromkeys((OwnerRefusal, NoAccount, UntrustedFile, NotAsBrought, NotACopy), REFUSED),
    CampaignClosed: HAS_ENDED,
    OwnerNotReady: NOT_NOW,
    NotRead: NO_FILE,
    RefusedThere: REFUSED_THERE,
    NotOurs: NOT_OURS,
    AlreadySubmitted: SUBMITTED_BEFORE,
    NoOwner: NO_OWNER,
    LedgerLost: NO_LEDGER,
}


def leave(error: Exception) -> NoReturn:
    """Say why in a line, and end with the status that stands for it."""
    os.write(2, f"gridbridge-as-user: {in_a_line(error)}\n".encode("utf-8", "replace"))
    os._exit(status_of(error))


def in_a_line(error: Exception) -> str:
    """Return what it says as a part of a line, whatever a cluster or a person wrote there."""
    return " ".join(plain_words(error).split())[:1000]


def lift_limits() -> None:
    """Have the limits of root: by its own the service could have a cluster's answer fail."""
    if (files_open := account.lift_limits()) < account.FEWEST_FILES:
        raise OwnerNotReady(f"no more than {files_open} files may be open")


def status_of(error: Exception) -> int:
    """Return the exit status that stands for an error."""
    return STATUS.get(type(error), FAILED)


def read_config(path: str) -> "dict[str, dict[str, object]]":
    """Read the configuration; what root runs obeys only what root has written."""
    if trust.demanded() is not None:
        trust.require(path)
    try:
        return tomllib.loads(files.read(path, CONFIG_MAX_BYTES, trust.demanded())[0].decode())
    except (OSError, ValueError, GridbridgeError) as error:
        raise OwnerRefusal(f"{path}: {plain_words(error)}") from error


def require_person(config: "dict[str, dict[str, object]]", file: str, uid: int) -> None:
    """Refuse to act as root or as an account of the system."""
    if uid < max(1, _number(config.get("site", {}).get("min_uid", MIN_UID))):
        raise OwnerRefusal(f"{file}: nothing is done as uid {uid}")


def require_account(uid: int) -> None:
    """Raise NoOwner if the person's account is gone, before anything is noted or done."""
    try:
        pwd.getpwuid(uid)
    except KeyError as error:
        raise NoOwner(f"uid {uid} has no account") from error


def become(uid: int) -> str:
    """Become that person, with their groups, for ever; return their login name.

    Who is that person is it already; anybody else but root may become nobody.
    """
    try:
        person = pwd.getpwuid(uid)
    except KeyError as error:
        raise NoAccount(f"uid {uid} has no account") from error
    if os.geteuid() == uid:
        return person.pw_name
    os.initgroups(person.pw_name, person.pw_gid)
    os.setresgid(person.pw_gid, person.pw_gid, person.pw_gid)
    os.setresuid(uid, uid, uid)
    scope.confine()
    return person.pw_name


def go_on_apart(limit_s: float = LIMIT_S) -> None:
    """Go on in a child with a scope of its own; the parent ends as the child ends."""
    child = ProcessScope(limit_s)
    if child.pid:
        watch(child, limit_s)


def watch(child: ProcessScope, limit_s: float = LIMIT_S) -> NoReturn:
    """End as the child ends.

    The person as whom the child works can stop it, so the parent limits its time.
    """
    poll = select.poll()
    poll.register(os.pidfd_open(child.pid), select.POLLIN)
    if not poll.poll(limit_s * 1000):
        child.end()
        raise GridbridgeError(f"not done within {limit_s} s")
    status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
    if status < 0 or status > FIRST_SIGNAL:
        raise GridbridgeError(f"its process was ended by signal {abs(status) % FIRST_SIGNAL}")
    os._exit(status)


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else MIN_UID
