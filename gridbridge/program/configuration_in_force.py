"""Reloads gridbridge.toml while a service runs; an invalid file is logged and not put in force."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from gridbridge.config import configuration_file
from gridbridge.decisions.site.service_fault_findings import AwayJob, find_unreloadable_changes
from gridbridge.errors import ConfigError, GridbridgeError, StateError
from gridbridge.model.fixed_paths import CONFIG, IN_FORCE
from gridbridge.model.published_status_and_reports import PublishedConfigurationStatus, replace_control_characters
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock

SETTLE_S = 0.5

AwayJobsQuery = Callable[[], Iterable[AwayJob]]
Look = tuple[int, ...]  # fingerprint of a file; empty: no file

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedConfiguration:
    sha256: str = ""  # empty: the file was unreadable
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveConfiguration:
    policy: Policy
    raw: bytes
    sha256: str
    since: datetime


Earlier = Callable[[], ActiveConfiguration | None]  # returns the configuration in force at the service's last run


class ConfigurationFileWatch:
    """Reports each change of a file once."""

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._taken = self._seen = fingerprint_file_and_path_modes(path)
        self._seen_at_s = clock()

    def has_changed(self, at_once: bool = False) -> bool:
        """Say whether the file has changed since the last call that returned True; with `at_once` return True.

        A change counts after half a second without further changes, because an editor may write in steps.
        """
        now = fingerprint_file_and_path_modes(self._path)
        if now != self._seen:
            self._seen, self._seen_at_s = now, self._clock()
        is_settled = self._clock() - self._seen_at_s >= SETTLE_S
        if not at_once and (now == self._taken or not is_settled):
            return False
        self._taken = now
        return True


class ReloadableConfiguration:
    """The gridbridge.toml in force, and the errors of a newer, refused file."""

    def __init__(self, clock: Clock, path: str = CONFIG, earlier: Earlier = lambda: None) -> None:
        """Read gridbridge.toml, or else the file in force at the last run; ConfigError if both are invalid."""
        self._path = path
        self._clock = clock
        # the watch begins before the first read, so that no change of the file is missed
        self._watch = ConfigurationFileWatch(path, clock.steady_s)
        outcome = _read_and_parse_configuration(path, clock.now())
        self.refused: RejectedConfiguration | None = None
        if isinstance(outcome, RejectedConfiguration):
            self.refused = outcome
            if (last := earlier()) is None:
                raise ConfigError(outcome.problems)
            outcome = last
        self.in_force = outcome
        self._kept = ""  # digest of the file that was saved for the next run of the service

    @property
    def policy(self) -> Policy:
        return self.in_force.policy

    def reload_if_changed(self, at_once: bool = False, away_jobs: AwayJobsQuery = tuple) -> bool:
        """Load or refuse a changed gridbridge.toml; say whether configuration or reported errors changed.

        Some keys can't change while `away_jobs` returns jobs at remote clusters.
        """
        if not self._watch.has_changed(at_once):
            return False
        outcome = load_changed_configuration(self._path, self.in_force, self._clock.now(), away_jobs())
        if isinstance(outcome, RejectedConfiguration):
            return self._refuse_configuration(outcome, at_once)
        is_news = outcome is not self.in_force or self.refused is not None
        self.in_force, self.refused = outcome, None
        if is_news or at_once:
            words = f"cluster={self.policy.site.cluster} queues={','.join(self.policy.queues)}"
            _log.info("event=configured %s sha256=%.12s", words, outcome.sha256)
        return is_news

    def keep_earlier_configuration(
        self, earlier: ActiveConfiguration, away_jobs: Callable[[Policy], Iterable[AwayJob]]
    ) -> None:
        """Keep the configuration of the last run, if the new configuration lacks parts that remote jobs need."""
        is_other = earlier.sha256 != self.in_force.sha256
        stays = tuple(away_jobs(earlier.policy)) if is_other else ()
        problems = find_unreloadable_changes(earlier.policy, self.policy, self._path, stays) if stays else ()
        if problems:
            self.refused = RejectedConfiguration(sha256=self.in_force.sha256, problems=problems)
            self.in_force = earlier

    def log_refusal(self) -> None:
        """Log why the present gridbridge.toml was refused; log nothing if the file is in force."""
        if self.refused:
            self._refuse_configuration(self.refused, at_once=True)

    def save_for_next_run(self, path: str = IN_FORCE) -> None:
        """Save the gridbridge.toml in force for the service's next run; raise StateError if the disk is full."""
        if self._kept != self.in_force.sha256:
            safe_files.replace_file_atomically(path, self.in_force.raw)
            self._kept = self.in_force.sha256

    def _refuse_configuration(self, rejected: RejectedConfiguration, at_once: bool) -> bool:
        is_news = rejected != self.refused
        self.refused = rejected
        for problem in rejected.problems if is_news or at_once else ():
            _log.error("event=misconfigured sha256=%.12s why=%r", rejected.sha256, problem)
        return is_news

    def status_to_publish(self) -> PublishedConfigurationStatus:
        refused = self.refused or RejectedConfiguration(problems=())
        return PublishedConfigurationStatus(
            sha256=self.in_force.sha256,
            since=self.in_force.since,
            refused_sha256=refused.sha256,
            refused=tuple(map(replace_control_characters, refused.problems)),
        )


def read_config_saved_by_service(now: datetime, path: str = IN_FORCE) -> ActiveConfiguration | None:
    """Return the gridbridge.toml that the service's last run saved; None if no valid file is saved.

    A file that an account other than the service's could write is not used.
    """
    try:
        raw, _ = safe_files.read_file_only_owner_writes(path, configuration_file.MAX_BYTES, os.geteuid())
        return _parse_trusted_configuration(path, raw, now)
    except (OSError, StateError, ConfigError):
        return None


def load_changed_configuration(
    path: str, in_force: ActiveConfiguration, now: datetime, away_jobs: Iterable[AwayJob] = ()
) -> ActiveConfiguration | RejectedConfiguration:
    """Read gridbridge.toml; return a new configuration, a refused file's errors, or unchanged `in_force`."""
    outcome = _read_and_parse_configuration(path, now, in_force)
    if isinstance(outcome, RejectedConfiguration) or outcome is in_force:
        return outcome
    if problems := find_unreloadable_changes(in_force.policy, outcome.policy, path, away_jobs):
        return RejectedConfiguration(sha256=outcome.sha256, problems=problems)
    return outcome


def _read_and_parse_configuration(
    path: str, now: datetime, in_force: ActiveConfiguration | None = None
) -> ActiveConfiguration | RejectedConfiguration:
    sha256 = ""
    try:
        raw = configuration_file.read_configuration_bytes(path)
        sha256 = sha256_of_file(raw)
        if in_force and sha256 == in_force.sha256:
            return in_force
        return _parse_trusted_configuration(path, raw, now)
    except ConfigError as error:
        return RejectedConfiguration(sha256=sha256, problems=error.problems)


def _parse_trusted_configuration(path: str, raw: bytes, now: datetime) -> ActiveConfiguration:
    """Return a configuration in force from `now`; ConfigError if it is invalid or others can write it.

    A site that belongs to one user trusts this user's files.
    """
    policy = configuration_file.parse_configuration(path, raw)
    if not policy.is_single_user_site:
        try:
            safe_files.require_trusted_path(path, owner=os.geteuid())
        except OSError as error:
            raise ConfigError((f"{path}: {error.strerror}",)) from error
    return ActiveConfiguration(policy=policy, raw=raw, sha256=sha256_of_file(raw), since=now)


def fingerprint_file_and_path_modes(path: str) -> Look:
    """Return a fingerprint of a file and of its parent folders' permissions, which shows when either changes."""
    try:
        status = os.stat(path)
        way = tuple(map(os.lstat, safe_files.folders_and_links_of_path(path)))
    except OSError:
        return ()
    rights = (number for facts in way for number in (facts.st_ino, facts.st_uid, facts.st_mode))
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, *rights)


def sha256_of_file(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def load_config_or_one_in_force(path: str) -> tuple[Policy, str]:
    """Return a valid configuration and the error of gridbridge.toml ('' if valid); ConfigError if none.

    If the file is invalid, users' commands use the service's configuration. Root never does, because account gridbridge
    may write that file.
    """
    try:
        return configuration_file.load_configuration(path), ""
    except ConfigError as error:
        if path == CONFIG and safe_files.required_trusted_file_owner() is None:
            with suppress(OSError, GridbridgeError):
                service = os.stat(os.path.dirname(IN_FORCE)).st_uid
                raw, _ = safe_files.read_file_only_owner_writes(IN_FORCE, configuration_file.MAX_BYTES, service)
                return configuration_file.parse_configuration(IN_FORCE, raw), error.problems[0]
        raise


def load_config_with_home_cluster(path: str) -> Policy:
    """Return a configuration; raise ConfigError if it has no section for the home cluster."""
    policy, _ = load_config_or_one_in_force(path)
    own = policy.site.cluster
    if own not in policy.clusters:
        names = ", ".join(f"[cluster.{name}]" for name in sorted(policy.clusters)) or "none"
        wrong = f"section [cluster.{own}] of the home cluster is missing; present: {names}"
        raise ConfigError((f'{path}: [site] cluster = "{own}": {wrong}',))
    return policy


def load_config_of_folder_or_site(folder: str, path: str) -> Policy:
    """Load the configuration file `path`; for a `folder` without `path`, return default settings."""
    if not folder:
        return load_config_with_home_cluster(path)
    if not path:
        return Policy(site=SiteSection(cluster=""), clusters={}, queues={})
    return load_config_or_one_in_force(path)[0]
