"""One cycle of a program: gather, decide, journal, apply; from cron or in a loop.

Programs implement their own steps. This module ensures that one instance runs, that each decision
is journalled with its inputs and one sentence, that a dry run changes nothing, and that a failed
cycle is retried.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.program import log_rotation
from gridbridge.program.decision_journal import DecisionJournal, DecisionJournalEntry
from gridbridge.program.version import version_with_commit
from gridbridge.program.work.backoff import double_pause_after_failure
from gridbridge.program.work.thread_pools import is_thread_start_failure
from gridbridge.shell import poller_lock
from gridbridge.shell.clock import Clock
from gridbridge.shell.service_heartbeat import BEAT_S, ServiceHeartbeat
from gridbridge.shell.stop_and_reload_signals import StopAndReloadSignals

FIRST_PAUSE_S = 5.0  # pause after the first failed cycle: nobody clears a full disk sooner
LONGEST_PAUSE_S = 60.0  # longest pause; each failure in a row doubles the pause
NOTHING = "nothing to be done"
# OSError and RuntimeError: no process, file or thread could start. Any other RuntimeError is a bug.
FAILURES = (GridbridgeError, OSError, RuntimeError)

Seen = TypeVar("Seen")
Plan = TypeVar("Plan")

_log = logging.getLogger(__name__)


class ProgramCycleSteps(Protocol[Seen, Plan]):
    """The steps of a program, in the order in which a cycle calls them."""

    @property
    def journal(self) -> DecisionJournal:
        """The journal that stores the program's decisions."""
        ...

    def gather(self) -> Seen:
        """Return all inputs of the decision; GridbridgeError if they can't be gathered."""
        ...

    def decide(self, situation: Seen) -> Plan:
        """Plan the cycle's acts without any side effect."""
        ...

    def entry(self, situation: Seen, plan: Plan) -> DecisionJournalEntry | None:
        """Return the journal entry of a plan; None if there is nothing to report."""
        ...

    def apply(self, situation: Seen, plan: Plan) -> None:
        """Carry out the plan; each act is recorded first, so that it can be repeated."""
        ...


class CycleDaemon(Protocol[Seen, Plan]):
    """A program that runs cycles until it is stopped."""

    @property
    def pause_s(self) -> float:
        """The pause between two cycles, in seconds."""
        ...

    def open_cycle(self) -> AbstractContextManager[ProgramCycleSteps[Seen, Plan]]:
        """Open a context for one cycle; GridbridgeError if the cycle failed as a whole."""
        ...

    def has_news(self) -> bool:
        """Return whether the next cycle should start at once; called during each pause."""
        ...

    def recover(self) -> None:
        """Reload the stored state after a failed cycle; GridbridgeError if the reload fails."""
        ...

    def release(self) -> None:
        """Release files, locks and connections until the next recovery; repeatable."""
        ...


def take_program_lock(path: str, program: str, status: int) -> None:
    """Take the program's lock for the life of the process; exit if another instance has it."""
    _require_alone(program, status, is_ours=poller_lock.take_poller_lock(path, version_with_commit()))


@contextmanager
def hold_program_lock(path: str, program: str, status: int) -> Iterator[None]:
    """Hold the program's lock during a `with` block; exit if another process has it."""
    with poller_lock.MomentaryPollerLock(path) as is_ours:
        _require_alone(program, status, is_ours=is_ours)
        yield


def _require_alone(program: str, status: int, *, is_ours: bool) -> None:
    if not is_ours:
        line = log_rotation.prefix_lines_with_time(f"{program}: another one runs", sys.stderr)
        print(line, file=sys.stderr)  # noqa: T201 - no log may exist
        sys.exit(status)


def run_cycle_once(
    program: ProgramCycleSteps[Seen, Plan], report: Callable[[str], None], *, is_dry: bool = False
) -> Plan:
    """Run one cycle and report its sentence; a dry run journals and applies nothing."""
    situation = program.gather()
    plan = program.decide(situation)
    entry = program.entry(situation, plan)
    if entry and not is_dry:
        program.journal.keep(entry)
    if entry or is_dry:
        report(entry.sentence if entry else NOTHING)
    if not is_dry:
        program.apply(situation, plan)
    return plan


def run_cycles_forever(
    daemon: CycleDaemon[Seen, Plan],
    signals: StopAndReloadSignals,
    life_sign: ServiceHeartbeat,
    clock: Clock,
    report: Callable[[str], None] = _log.debug,
) -> None:
    """Run cycles until a signal arrives; after a failure, recover and go on.

    Each failure in a row doubles the pause, and a signal ends the pause. The log may be on the same
    full disk, so a failure is logged again once it is over.
    """
    trouble: Exception | None = None
    pause_s = 0.0
    while not signals.is_stopped:
        life_sign.beat()
        before, trouble = trouble, _try(daemon, life_sign, report, has_failed=trouble is not None)
        if before and not trouble:
            _log.info("event=well_again after=%r", str(before))
        pause_s = double_pause_after_failure(pause_s, FIRST_PAUSE_S, LONGEST_PAUSE_S) if trouble else 0.0
        news = _News(daemon, trouble)
        _pause(pause_s or daemon.pause_s, news.wake, signals, life_sign, clock)
        trouble = news.trouble


def _try(
    daemon: CycleDaemon[Seen, Plan], life_sign: ServiceHeartbeat, report: Callable[[str], None], *, has_failed: bool
) -> Exception | None:
    """Run one cycle, with a recovery before it if the last cycle failed; return the error."""
    try:
        if has_failed:
            life_sign.begin()
            daemon.recover()
        with daemon.open_cycle() as program:
            run_cycle_once(program, report)
    except FAILURES as error:
        return _failed(daemon, error)
    return None


def _failed(daemon: CycleDaemon[Seen, Plan], error: Exception) -> Exception:
    if isinstance(error, RuntimeError) and not is_thread_start_failure(error):
        raise error
    try:
        daemon.release()
    except FAILURES as other:
        _log.error("event=not_released why=%r", describe_error(other))
    _log.error("event=cycle_failed why=%r", describe_error(error))
    return error


class _News:
    """Checks during a pause whether the next cycle should start; this check may fail, too."""

    def __init__(self, daemon: CycleDaemon[Seen, Plan], trouble: Exception | None) -> None:
        self._daemon = daemon
        self.trouble = trouble

    def wake(self) -> bool:
        """Return whether the next cycle should start at once; never after a failure."""
        try:
            return not self.trouble and self._daemon.has_news()
        except FAILURES as error:
            self.trouble = _failed(self._daemon, error)
            return False


def _pause(
    limit_s: float, wakes: Callable[[], bool], signals: StopAndReloadSignals, life_sign: ServiceHeartbeat, clock: Clock
) -> None:
    """Sleep until a signal, a wake-up by the program or the end of the pause; feed the watchdog."""
    deadline_s = clock.steady_s() + limit_s
    while True:
        left_s = deadline_s - clock.steady_s()
        life_sign.beat()
        if signals.wait(min(max(0.0, left_s), BEAT_S)) or left_s <= BEAT_S or wakes():
            return
