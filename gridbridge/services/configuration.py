"""gridbridge.toml while the service runs: which one is in force, and whether another has come.

A changed file is taken when it has stayed the same for a moment, since an editor may write it in
steps, and at once when that is asked for. One that is wrong is told and left alone.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from gridbridge import config
from gridbridge.decisions.site.reload import Stay, unchangeable
from gridbridge.errors import ConfigError, StateError
from gridbridge.model.places import CONFIG, IN_FORCE
from gridbridge.model.policy import Policy
from gridbridge.model.report import printable
from gridbridge.model.shown import ShownConfiguration
from gridbridge.shell import files, trust
from gridbridge.shell.clock import Clock

SETTLE_S = 0.5

Away = Callable[[], Iterable[Stay]]
Look = tuple[int, ...]  # what tells a file from the one that was there; empty: none can be seen

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A file that does not take force, and a line for each reason."""

    sha256: str = ""  # empty: it could not be read
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A valid file, and since when it is in force."""

    policy: Policy
    raw: bytes
    sha256: str
    since: datetime


class FileWatch:
    """Says when a file has changed: once for each change."""

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._taken = self._seen = look(path)
        self._seen_at_s = clock()

    def has_changed(self, at_once: bool = False) -> bool:
        """Say whether the file has changed since this last said so.

        It has to stay the same for a moment, unless the answer is wanted `at_once`: then it is
        yes, whatever is there.
        """
        now = look(self._path)
        if now != self._seen:
            self._seen, self._seen_at_s = now, self._clock()
        is_settled = self._clock() - self._seen_at_s >= SETTLE_S
        if not at_once and (now == self._taken or not is_settled):
            return False
        self._taken = now
        return True


class Configuration:
    """The file that is in force, and what was wrong with the last one that came after it."""

    def __init__(self, clock: Clock, path: str = CONFIG, earlier: InForce | None = None) -> None:
        """Read the first one, or where it is wrong have an earlier service's, else ConfigError."""
        self._path = path
        self._clock = clock
        self._watch = FileWatch(
            path, clock.steady_s
        )  # before it is read, so that no change is missed
        self.in_force, self.refused = _first(path, clock.now(), earlier)
        self._kept = ""  # what is known of the file that the next service finds

    @property
    def policy(self) -> Policy:
        """The configuration in force."""
        return self.in_force.policy

    def take(self, at_once: bool = False, away: Away = tuple) -> bool:
        """Look whether another file has come, and put it in force or refuse it; say whether so.

        `away` tells whose jobs are where: what they depend on can't change.
        """
        if not self._watch.has_changed(at_once):
            return False
        found = judge(self._path, self.in_force, self._clock.now(), away())
        if isinstance(found, Refusal):
            return self._refuse(found, at_once)
        is_news = found is not self.in_force or self.refused is not None
        self.in_force, self.refused = found, None
        if is_news or at_once:
            _tell(found)
        return is_news

    def go_on_from(self, earlier: InForce, away: Callable[[Policy], Iterable[Stay]]) -> None:
        """Have what an earlier service had, if what is away forbids what has come since."""
        is_other = earlier.sha256 != self.in_force.sha256
        stays = tuple(away(earlier.policy)) if is_other else ()
        found = unchangeable(earlier.policy, self.policy, self._path, stays) if stays else ()
        if found:
            self.refused = Refusal(sha256=self.in_force.sha256, problems=found)
            self.in_force = earlier

    def tell(self) -> None:
        """Log why the file that is there is not the one in force, if it is not."""
        if self.refused:
            self._refuse(self.refused, at_once=True)

    def keep(self, path: str = IN_FORCE) -> None:
        """Leave what is in force to the next service; StateError when there is no room for it."""
        if self._kept != self.in_force.sha256:
            files.replace(path, self.in_force.raw, mode=0o600)
            self._kept = self.in_force.sha256

    def _refuse(self, found: Refusal, at_once: bool) -> bool:
        """Leave the old one in force; who asks for it is told again what is wrong."""
        is_news = found != self.refused
        self.refused = found
        for problem in found.problems if is_news or at_once else ():
            _log.error("event=misconfigured sha256=%.12s why=%r", found.sha256, problem)
        return is_news

    def shown(self) -> ShownConfiguration:
        """Return what people may see of it."""
        refused = self.refused or Refusal(problems=())
        return ShownConfiguration(
            sha256=self.in_force.sha256,
            since=self.in_force.since,
            refused_sha256=refused.sha256,
            refused=tuple(map(printable, refused.problems)),
        )


def kept(now: datetime, path: str = IN_FORCE) -> InForce | None:
    """Return what an earlier service had; None without one that only we could have written.

    One that this version can't read counts as missing.
    """
    try:
        raw, _ = files.read(path, config.MAX_BYTES, os.geteuid())
        return _parsed(path, raw, now)
    except (OSError, StateError, ConfigError):
        return None


def judge(
    path: str, in_force: InForce, now: datetime, away: Iterable[Stay] = ()
) -> InForce | Refusal:
    """Read a file that came; return what is in force when it says the same."""
    found = _read(path, now, in_force)
    if isinstance(found, Refusal) or found is in_force:
        return found
    if problems := unchangeable(in_force.policy, found.policy, path, away):
        return Refusal(sha256=found.sha256, problems=problems)
    return found


def _first(path: str, now: datetime, earlier: InForce | None) -> tuple[InForce, Refusal | None]:
    """Return what a service begins with, and why that is not the file which is there."""
    found = _read(path, now)
    if not isinstance(found, Refusal):
        return found, None
    if earlier is None:
        raise ConfigError(found.problems)
    return earlier, found


def _read(path: str, now: datetime, in_force: InForce | None = None) -> InForce | Refusal:
    sha256 = ""
    try:
        raw = config.read(path)
        sha256 = digest(raw)
        if in_force and sha256 == in_force.sha256:
            return in_force
        return _parsed(path, raw, now)
    except ConfigError as error:
        return Refusal(sha256=sha256, problems=error.problems)


def _parsed(path: str, raw: bytes, now: datetime) -> InForce:
    """Return a file as it takes force now; ConfigError when it is wrong, or could be a stranger's.

    A site of embedded clusters has no rights but those of the one person whose it is.
    """
    policy = config.parse(path, raw)
    if not policy.is_personal:
        _trust(path)
    return InForce(policy=policy, raw=raw, sha256=digest(raw), since=now)


def _trust(path: str) -> None:
    try:
        trust.require(path, owner=os.geteuid())
    except OSError as error:
        raise ConfigError((f"{path}: {error.strerror}",)) from error


def look(path: str) -> Look:
    """Return what identifies a file, and who may change the way to it, which may have links.

    A file that was refused for a folder above it is judged again once that folder is mended.
    """
    try:
        seen = os.stat(path)
        way = tuple(map(os.lstat, trust.way(path)))
    except OSError:
        return ()
    rights = (number for each in way for number in (each.st_ino, each.st_uid, each.st_mode))
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, *rights)


def digest(raw: bytes) -> str:
    """Return the digest that identifies a file's content."""
    return hashlib.sha256(raw).hexdigest()


def _tell(found: InForce) -> None:
    words = f"cluster={found.policy.site.cluster} queues={','.join(found.policy.queues)}"
    _log.info("event=configured %s sha256=%.12s", words, found.sha256)
