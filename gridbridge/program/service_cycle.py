"""Runs cycles of a program, one process at a time: gather facts, decide, note the decision, act."""

import logging
import os
import pwd
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeVar

from gridbridge.errors import ConfigError, GridbridgeError, describe_error
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.model.site_configuration import Policy
from gridbridge.program.configuration_in_force import ReloadableConfiguration
from gridbridge.program.threads_and_backoff import double_pause_after_failure, is_thread_start_failure
from gridbridge.shell import log_file_reopening_and_line_limits, program_lock_file
from gridbridge.shell.clock import Clock
from gridbridge.shell.log_file_reopening_and_line_limits import ReopeningLogHandler
from gridbridge.shell.program_startup import version_with_commit
from gridbridge.shell.service_signals_and_heartbeat import BEAT_S, ServiceHeartbeat
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry

FIRST_PAUSE_S = 5.0  # first pause after failed cycles; nobody clears a full disk sooner
LONGEST_PAUSE_S = 60.0
NOTHING = "nothing to be done"
# RuntimeError: a thread could not start; any other RuntimeError is a bug.
FAILURES = (GridbridgeError, OSError, RuntimeError)

Seen = TypeVar("Seen")
Plan = TypeVar("Plan")

_log = logging.getLogger(__name__)


class ProgramCycleSteps(Protocol[Seen, Plan]):
    """The steps of a program's cycle, in the order in which a cycle takes them."""

    @property
    def journal(self) -> DecisionJournal:
        """The journal that stores the decisions of the program."""

    def gather(self) -> Seen:
        """Return all facts for the decision; raise GridbridgeError if a fact can't be gathered."""

    def decide(self, situation: Seen) -> Plan:
        """Return the plan of the cycle, and change nothing."""

    def journal_entry(self, situation: Seen, plan: Plan) -> DecisionJournalEntry | None:
        """Return the journal entry of a decision; None for a decision without an action."""

    def apply(self, situation: Seen, plan: Plan) -> None:
        """Execute the plan; note each act before it begins, so that an interrupted act can be repeated."""


class StopSignals(Protocol):
    """What ends the cycles of a program."""

    @property
    def is_stopped(self) -> bool:
        """Whether the program must end."""

    def wait_for_signal(self, limit_s: float, /) -> bool:
        """Wait at most `limit_s` seconds for a signal; say whether the pause between two cycles is over."""


class CycleDaemon(Protocol[Seen, Plan]):
    @property
    def pause_s(self) -> float:
        """The pause between two cycles, in seconds."""

    def open_cycle(self) -> AbstractContextManager[ProgramCycleSteps[Seen, Plan]]:
        """Open a context for one cycle; raise GridbridgeError if the whole cycle failed."""

    def should_start_cycle_early(self) -> bool:
        """Say, during a pause, whether the next cycle must start at once."""

    def recover(self) -> None:
        """Load the stored state again after a failed cycle; raise GridbridgeError if loading fails."""

    def release(self) -> None:
        """Close files, locks and connections until `recover` is called; may be called twice."""


def take_program_lock(path: str, program: str, status: int) -> None:
    """Take the program's lock until this process ends; exit if another process holds the lock."""
    _exit_if_other_instance_runs(
        program, status, is_ours=program_lock_file.take_lock_until_exit(path, version_with_commit())
    )


@contextmanager
def hold_program_lock(path: str, program: str, status: int) -> Iterator[None]:
    """Hold the program's lock in a `with` block; exit if another process holds the lock."""
    with program_lock_file.MomentaryProgramLock(path) as is_ours:
        _exit_if_other_instance_runs(program, status, is_ours=is_ours)
        yield


def _exit_if_other_instance_runs(program: str, status: int, *, is_ours: bool) -> None:
    if not is_ours:
        line = log_file_reopening_and_line_limits.prefix_lines_with_time(
            f"{program}: another instance runs", sys.stderr
        )
        print(line, file=sys.stderr)  # noqa: T201 - no log may exist
        sys.exit(status)


def run_cycle_once(
    program: ProgramCycleSteps[Seen, Plan], report: Callable[[str], None], *, is_dry: bool = False
) -> Plan:
    """Run one cycle, and report its decision in one sentence; a dry run stores and executes nothing."""
    situation = program.gather()
    plan = program.decide(situation)
    entry = program.journal_entry(situation, plan)
    if entry and not is_dry:
        program.journal.store_decision(entry)
    if entry or is_dry:
        report(entry.sentence if entry else NOTHING)
    if not is_dry:
        program.apply(situation, plan)
    return plan


def run_cycles_forever(
    daemon: CycleDaemon[Seen, Plan],
    signals: StopSignals,
    life_sign: ServiceHeartbeat,
    clock: Clock,
    report: Callable[[str], None] = _log.debug,
) -> None:
    """Run cycles until a signal comes; after a failed cycle, pause and load the state again.

    Each further failure in a row doubles the pause. The first successful cycle logs the failure again, because a full
    disk may have lost the first log line.
    """
    trouble: Exception | None = None
    pause_s = 0.0
    while not signals.is_stopped:
        life_sign.send_heartbeat()
        before, trouble = trouble, _run_cycle_or_return_error(daemon, life_sign, report, has_failed=trouble is not None)
        if before and not trouble:
            _log.info("event=well_again after=%r", str(before))
        pause_s = double_pause_after_failure(pause_s, FIRST_PAUSE_S, LONGEST_PAUSE_S) if trouble else 0.0
        news = EarlyCycleStartCheck(daemon, trouble)
        _wait_for_next_cycle(pause_s or daemon.pause_s, news.should_end_pause, signals, life_sign, clock)
        trouble = news.trouble


def _run_cycle_or_return_error(
    daemon: CycleDaemon[Seen, Plan], life_sign: ServiceHeartbeat, report: Callable[[str], None], *, has_failed: bool
) -> Exception | None:
    try:
        if has_failed:
            life_sign.announce_long_step()
            daemon.recover()
        with daemon.open_cycle() as program:
            run_cycle_once(program, report)
    except FAILURES as error:
        return _release_files_after_failed_cycle(daemon, error)
    return None


def _release_files_after_failed_cycle(daemon: CycleDaemon[Seen, Plan], error: Exception) -> Exception:
    if isinstance(error, RuntimeError) and not is_thread_start_failure(error):
        raise error
    try:
        daemon.release()
    except FAILURES as other:
        _log.error("event=not_released why=%r", describe_error(other))
    _log.error("event=cycle_failed why=%r", describe_error(error))
    return error


class EarlyCycleStartCheck:
    """Asks during a pause whether the next cycle must start at once; keeps the last error."""

    def __init__(self, daemon: CycleDaemon[Seen, Plan], trouble: Exception | None) -> None:
        self._daemon = daemon
        self.trouble = trouble

    def should_end_pause(self) -> bool:
        """Return whether the next cycle must start at once; False after a failure."""
        try:
            return not self.trouble and self._daemon.should_start_cycle_early()
        except FAILURES as error:
            self.trouble = _release_files_after_failed_cycle(self._daemon, error)
            return False


def _wait_for_next_cycle(
    limit_s: float, wakes: Callable[[], bool], signals: StopSignals, life_sign: ServiceHeartbeat, clock: Clock
) -> None:
    deadline_s = clock.steady_s() + limit_s
    while True:
        left_s = deadline_s - clock.steady_s()
        life_sign.send_heartbeat()
        if signals.wait_for_signal(min(max(0.0, left_s), BEAT_S)) or left_s <= BEAT_S or wakes():
            return


def require_service_account(policy: Policy) -> None:
    """Raise ConfigError if this process does not run as the service's account."""
    account = policy.site.service_account
    runs_as = pwd.getpwuid(os.geteuid()).pw_name
    if not policy.is_single_user_site and runs_as != account:
        words = f'[site] service_account = "{account}": this process runs as {runs_as}'
        raise ConfigError((f"{CONFIG}: {words}; expected {account}",))


def start_service_log_on_stderr(policy: Policy) -> None:
    """Log to standard error, one event a line, with the time in UTC."""
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        format="%(asctime)sZ level=%(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
        handlers=[ReopeningLogHandler()],
    )
    for library in ("alembic", "paramiko"):
        logging.getLogger(library).setLevel(logging.WARNING)
    set_log_level(policy)


def set_log_level(policy: Policy) -> None:
    logging.getLogger().setLevel(policy.site.log_level.upper())


class ReloadingDaemon:
    """Runs a program's cycles, and rebuilds the program after a valid change of gridbridge.toml."""

    def __init__(
        self,
        daemon: CycleDaemon[Any, Any],
        configuration: ReloadableConfiguration,
        make: Callable[[Policy], CycleDaemon[Any, Any]],
    ) -> None:
        self._daemon = daemon
        self._configuration = configuration
        self._make = make
        self._is_changed = False

    @property
    def pause_s(self) -> float:
        return self._daemon.pause_s

    def open_cycle(self) -> AbstractContextManager[Any]:
        self.check_configuration()
        if self._is_changed:
            self._is_changed = False
            self._daemon.release()
            self._daemon = self._make(self._configuration.policy)
        return self._daemon.open_cycle()

    def check_configuration(self) -> None:
        self._is_changed = self._configuration.reload_if_changed() or self._is_changed

    def should_start_cycle_early(self) -> bool:
        """Say whether a cycle is due; after a change of gridbridge.toml no request is checked against the old one."""
        self.check_configuration()
        return self._is_changed or self._daemon.should_start_cycle_early()

    def recover(self) -> None:
        self._daemon.recover()

    def release(self) -> None:
        self._daemon.release()
