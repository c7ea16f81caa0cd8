"""Runs a provider's program; its exit status tells what came of it, as in sysexits.h."""

import os
from collections.abc import Mapping

from gridbridge.errors import (
    AskAgain,
    CommandFailed,
    NoCapacity,
    NotGranted,
    ProviderFailed,
    UntrustedFile,
)
from gridbridge.model.places import BALANCE_ACCOUNT
from gridbridge.shell import host, runner, trust

LATER, NO_CAPACITY = 75, 69  # EX_TEMPFAIL and EX_UNAVAILABLE
MOST_BYTES = 16 << 20  # a list of 20,000 nodes is shorter
WORDS = 200  # characters of what a program says last


def environment() -> dict[str, str]:
    """Return the environment of a site's own program: ours, but for its language."""
    return {**os.environ, "LC_ALL": "C"}


def trusted(path: str) -> str:
    """Return a path that root and we alone can change; ProviderFailed else.

    Who provides machines is in effect root on them, and so is the balancer's account: what only
    looks as somebody else trusts that, too. A path that leads nowhere is told when it is used.
    """
    me, balancer = os.geteuid(), host.uid_of(BALANCE_ACCOUNT)
    is_other = bool(balancer) and me not in (0, balancer)
    try:
        trust.require(path, owner=me)
    except UntrustedFile as error:
        if not is_other:
            raise ProviderFailed(str(error)) from error
        _require_balancers(path, balancer)
    except OSError:
        return path
    return path


def _require_balancers(path: str, balancer: int) -> None:
    """Raise ProviderFailed unless it is the balancer's; what mends that is told to others."""
    try:
        trust.require(path, owner=balancer)
    except UntrustedFile as error:
        raise ProviderFailed(f"others could have written {path}, for {error.wrong}") from error


def answer(
    argv: tuple[str, ...], env: Mapping[str, str], timeout_s: float, stdin: bytes = b""
) -> bytes:
    """Return what a program printed; its end decides what is raised."""
    try:
        return runner.run(argv, dict(env), timeout_s, stdin, MOST_BYTES).checked().stdout
    except CommandFailed as failed:
        message = f"{call_text(argv)}: {shown(failed.words)}"
        if failed.status == NO_CAPACITY:
            raise NoCapacity(message) from failed
        if failed.status == LATER:
            raise AskAgain(message) from failed
        if failed.transient:
            raise NotGranted(message) from failed
        raise ProviderFailed(message) from failed


def call_text(argv: tuple[str, ...]) -> str:
    """Return a call as messages name it."""
    return " ".join(argv)


def shown(words: str) -> str:
    """Return a program's words as one line of what can be printed."""
    return "".join(sign if sign.isprintable() else "?" for sign in words)[:WORDS]
