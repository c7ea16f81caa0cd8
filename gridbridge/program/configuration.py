"""gridbridge.toml while the service runs: which file is in force, and whether it has changed.

A changed file is read when it has stayed the same for a moment, since an editor may write it in
steps, and at once when somebody asks for it. A wrong file is logged and does not come into force.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from gridbridge.config import policy_file
from gridbridge.decisions.configuration_reload import AwayJob, unchangeable
from gridbridge.errors import ConfigError, StateError
from gridbridge.model.places import CONFIG, IN_FORCE
from gridbridge.model.policy import Policy
from gridbridge.model.published import ShownConfiguration
from gridbridge.model.status_report import printable
from gridbridge.shell import files, trust
from gridbridge.shell.clock import Clock

SETTLE_S = 0.5

Away = Callable[[], Iterable[AwayJob]]
Look = tuple[int, ...]  # identifies a file, to notice another; empty: no file can be seen

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedConfiguration:
    """A file that does not come into force, and a line for each reason."""

    sha256: str = ""  # empty: it could not be read
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A valid file, and since when it is in force."""

    policy: Policy
    raw: bytes
    sha256: str
    since: datetime


Earlier = Callable[[], InForce | None]  # looks for the file that an earlier service had


def _none() -> None:
    """Find none."""


class FileWatch:
    """Notices that a file has changed: once for each change."""

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._taken = self._seen = look(path)
        self._seen_at_s = clock()

    def has_changed(self, at_once: bool = False) -> bool:
        """Say whether the file has changed since this last said so.

        It has to stay the same for a moment, unless `at_once` is given: then the answer is yes.
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
    """The file that is in force, and the mistakes of the last file that came after it."""

    def __init__(self, clock: Clock, path: str = CONFIG, earlier: Earlier = _none) -> None:
        """Read the file; only if it is wrong ask for an earlier service's; ConfigError without."""
        self._path = path
        self._clock = clock
        self._watch = FileWatch(
            path, clock.steady_s
        )  # looked at before it is read, so that no change is missed
        self.in_force, self.refused = _first(path, clock.now(), earlier)
        self._kept = ""  # the file that is kept for the next service

    @property
    def policy(self) -> Policy:
        """The configuration in force."""
        return self.in_force.policy

    def take(self, at_once: bool = False, away_jobs: Away = tuple) -> bool:
        """Put a changed file in force, or refuse it; say whether another is in force now.

        `away` tells whose jobs are away and where: what they depend on can't change.
        """
        if not self._watch.has_changed(at_once):
            return False
        outcome = judge(self._path, self.in_force, self._clock.now(), away_jobs())
        if isinstance(outcome, RejectedConfiguration):
            return self._refuse(outcome, at_once)
        is_news = outcome is not self.in_force or self.refused is not None
        self.in_force, self.refused = outcome, None
        if is_news or at_once:
            _tell(outcome)
        return is_news

    def go_on_from(
        self, earlier: InForce, away_jobs: Callable[[Policy], Iterable[AwayJob]]
    ) -> None:
        """Take an earlier service's file if jobs that are away forbid the changes since."""
        is_other = earlier.sha256 != self.in_force.sha256
        stays = tuple(away_jobs(earlier.policy)) if is_other else ()
        problems = unchangeable(earlier.policy, self.policy, self._path, stays) if stays else ()
        if problems:
            self.refused = RejectedConfiguration(sha256=self.in_force.sha256, problems=problems)
            self.in_force = earlier

    def tell(self) -> None:
        """Log why the file that is there is not in force, if it is not."""
        if self.refused:
            self._refuse(self.refused, at_once=True)

    def keep(self, path: str = IN_FORCE) -> None:
        """Keep the file in force for the next service; StateError when there is no room for it."""
        if self._kept != self.in_force.sha256:
            files.replace(path, self.in_force.raw)
            self._kept = self.in_force.sha256

    def _refuse(self, rejected: RejectedConfiguration, at_once: bool) -> bool:
        """Leave the old file in force; log the mistakes, again if somebody asked."""
        is_news = rejected != self.refused
        self.refused = rejected
        for problem in rejected.problems if is_news or at_once else ():
            _log.error("event=misconfigured sha256=%.12s why=%r", rejected.sha256, problem)
        return is_news

    def shown(self) -> ShownConfiguration:
        """Return what people may see of it."""
        refused = self.refused or RejectedConfiguration(problems=())
        return ShownConfiguration(
            sha256=self.in_force.sha256,
            since=self.in_force.since,
            refused_sha256=refused.sha256,
            refused=tuple(map(printable, refused.problems)),
        )


def kept(now: datetime, path: str = IN_FORCE) -> InForce | None:
    """Return an earlier service's file; None without one that only we could have written.

    One that this version can't read counts as missing.
    """
    try:
        raw, _ = files.read(path, policy_file.MAX_BYTES, os.geteuid())
        return _parsed(path, raw, now)
    except (OSError, StateError, ConfigError):
        return None


def judge(
    path: str, in_force: InForce, now: datetime, away_jobs: Iterable[AwayJob] = ()
) -> InForce | RejectedConfiguration:
    """Read a changed file; return the one in force if it says the same."""
    outcome = _read(path, now, in_force)
    if isinstance(outcome, RejectedConfiguration) or outcome is in_force:
        return outcome
    if problems := unchangeable(in_force.policy, outcome.policy, path, away_jobs):
        return RejectedConfiguration(sha256=outcome.sha256, problems=problems)
    return outcome


def _first(
    path: str, now: datetime, earlier: Earlier
) -> tuple[InForce, RejectedConfiguration | None]:
    """Return the file with which a service begins, and why that is not the one there."""
    outcome = _read(path, now)
    if not isinstance(outcome, RejectedConfiguration):
        return outcome, None
    if (last := earlier()) is None:
        raise ConfigError(outcome.problems)
    return last, outcome


def _read(
    path: str, now: datetime, in_force: InForce | None = None
) -> InForce | RejectedConfiguration:
    sha256 = ""
    try:
        raw = policy_file.read(path)
        sha256 = digest(raw)
        if in_force and sha256 == in_force.sha256:
            return in_force
        return _parsed(path, raw, now)
    except ConfigError as error:
        return RejectedConfiguration(sha256=sha256, problems=error.problems)


def _parsed(path: str, raw: bytes, now: datetime) -> InForce:
    """Return a file as one in force now; ConfigError if it is wrong, or others may write it.

    A site of embedded clusters has no other rights than its one person's.
    """
    policy = policy_file.parse(path, raw)
    if not policy.is_personal:
        _trust(path)
    return InForce(policy=policy, raw=raw, sha256=digest(raw), since=now)


def _trust(path: str) -> None:
    try:
        trust.require(path, owner=os.geteuid())
    except OSError as error:
        raise ConfigError((f"{path}: {error.strerror}",)) from error


def look(path: str) -> Look:
    """Return what identifies a file and the rights on its path, which may have links.

    A file that was refused for a folder above it is judged again once that folder is mended.
    """
    try:
        status = os.stat(path)
        way = tuple(map(os.lstat, trust.way(path)))
    except OSError:
        return ()
    rights = (number for facts in way for number in (facts.st_ino, facts.st_uid, facts.st_mode))
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        *rights,
    )


def digest(raw: bytes) -> str:
    """Return the digest that identifies a file's content."""
    return hashlib.sha256(raw).hexdigest()


def _tell(in_force: InForce) -> None:
    words = f"cluster={in_force.policy.site.cluster} queues={','.join(in_force.policy.queues)}"
    _log.info("event=configured %s sha256=%.12s", words, in_force.sha256)
