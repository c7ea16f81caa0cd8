"""One cycle of a program that acts: gather, decide, keep, apply; once from cron, or for ever.

A program has its own verbs; what they have in common is here: that only one of it runs, that each
decision is kept with the rows that it looked at and told in one sentence, that a dry run changes
nothing, and what follows when a cycle fails.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

from gridbridge.errors import GridbridgeError, plain_words
from gridbridge.program import log_file
from gridbridge.program.journal import DecisionJournal, JournalEntry
from gridbridge.program.version import version
from gridbridge.program.work.backoff import doubled
from gridbridge.program.work.threads import has_no_room
from gridbridge.shell import poller_lock
from gridbridge.shell.clock import Clock
from gridbridge.shell.signals import ProcessSignals
from gridbridge.shell.watchdog import BEAT_S, Watchdog

FIRST_PAUSE_S = 5.0  # after a cycle that failed: nobody clears a full disk sooner
LONGEST_PAUSE_S = 60.0  # after many in a row; it doubles
NOTHING = "nothing to be done"
# The last two: no process, file or thread could be had. Any other RuntimeError is a fault.
FAILURES = (GridbridgeError, OSError, RuntimeError)

Seen = TypeVar("Seen")
Plan = TypeVar("Plan")

_log = logging.getLogger(__name__)


class CycleProgram(Protocol[Seen, Plan]):
    """The verbs of a program, in the order in which a cycle calls them."""

    @property
    def journal(self) -> DecisionJournal:
        """Where its decisions are kept."""
        ...

    def gather(self) -> Seen:
        """Return everything that a decision may look at; GridbridgeError if that fails."""
        ...

    def decide(self, situation: Seen) -> Plan:
        """Return what to do, and do nothing."""
        ...

    def entry(self, situation: Seen, plan: Plan) -> JournalEntry | None:
        """Return a decision's sentence and rows; None for one that is no news."""
        ...

    def apply(self, situation: Seen, plan: Plan) -> None:
        """Do it: intent is written before each act, and each may be repeated."""
        ...


class CycleDaemon(Protocol[Seen, Plan]):
    """A program that runs until it is told to stop."""

    @property
    def pause_s(self) -> float:
        """How long it waits between two cycles."""
        ...

    def open_cycle(self) -> AbstractContextManager[CycleProgram[Seen, Plan]]:
        """Begin a cycle of the program, and end it; GridbridgeError when it failed as a whole."""
        ...

    def has_news(self) -> bool:
        """Say whether the next cycle shall come at once; asked in each pause, now and then."""
        ...

    def recover(self) -> None:
        """Take up what is kept, after a cycle that failed; GridbridgeError when that fails too."""
        ...

    def release(self) -> None:
        """Give back all that is held of the machine, until it recovers. May be repeated."""
        ...


def hold(path: str, program: str, status: int) -> None:
    """Be the only process of a program; if there is another, say so and exit."""
    _require_alone(program, status, is_ours=poller_lock.take(path, version()))


@contextmanager
def held(path: str, program: str, status: int) -> Iterator[None]:
    """Be the only process that does this; if there is another, say so and exit."""
    with poller_lock.MomentaryLock(path) as is_ours:
        _require_alone(program, status, is_ours=is_ours)
        yield


def _require_alone(program: str, status: int, *, is_ours: bool) -> None:
    if not is_ours:
        line = log_file.dated(f"{program}: another one runs", sys.stderr)
        print(line, file=sys.stderr)  # noqa: T201 - no log may exist
        sys.exit(status)


def once(
    program: CycleProgram[Seen, Plan], report: Callable[[str], None], *, is_dry: bool = False
) -> Plan:
    """Do one cycle and say it in one sentence; a dry run keeps and applies nothing."""
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


def run_forever(
    daemon: CycleDaemon[Seen, Plan],
    signals: ProcessSignals,
    life_sign: Watchdog,
    clock: Clock,
    report: Callable[[str], None] = _log.debug,
) -> None:
    """Do cycles until told to stop; after one that failed recover what is kept, and go on.

    Each failure in a row doubles the pause; a signal ends it. The log may lie on the same full
    disk, so a trouble is told once more when it is over.
    """
    trouble: Exception | None = None
    pause_s = 0.0
    while not signals.is_stopped:
        life_sign.beat()
        before, trouble = trouble, _try(daemon, life_sign, report, has_failed=trouble is not None)
        if before and not trouble:
            _log.info("event=well_again after=%r", str(before))
        pause_s = doubled(pause_s, FIRST_PAUSE_S, LONGEST_PAUSE_S) if trouble else 0.0
        news = _News(daemon, trouble)
        _pause(pause_s or daemon.pause_s, news.wake, signals, life_sign, clock)
        trouble = news.trouble


def _try(
    daemon: CycleDaemon[Seen, Plan],
    life_sign: Watchdog,
    report: Callable[[str], None],
    *,
    has_failed: bool,
) -> Exception | None:
    """Do a cycle, after one that failed with a recovery before it; return why it failed."""
    try:
        if has_failed:
            life_sign.begin()
            daemon.recover()
        with daemon.open_cycle() as program:
            once(program, report)
    except FAILURES as error:
        return _failed(daemon, error)
    return None


def _failed(daemon: CycleDaemon[Seen, Plan], error: Exception) -> Exception:
    if isinstance(error, RuntimeError) and not has_no_room(error):
        raise error
    try:
        daemon.release()
    except FAILURES as other:
        _log.error("event=not_released why=%r", plain_words(other))
    _log.error("event=cycle_failed why=%r", plain_words(error))
    return error


class _News:
    """What may end a pause; nothing does after a failure, and looking for news may be one."""

    def __init__(self, daemon: CycleDaemon[Seen, Plan], trouble: Exception | None) -> None:
        self._daemon = daemon
        self.trouble = trouble

    def wake(self) -> bool:
        """Say whether the next cycle shall come at once."""
        try:
            return not self.trouble and self._daemon.has_news()
        except FAILURES as error:
            self.trouble = _failed(self._daemon, error)
            return False


def _pause(
    limit_s: float,
    wakes: Callable[[], bool],
    signals: ProcessSignals,
    life_sign: Watchdog,
    clock: Clock,
) -> None:
    """Sleep so long, or until a signal or news come, and show meanwhile that we live."""
    deadline_s = clock.steady_s() + limit_s
    while True:
        left_s = deadline_s - clock.steady_s()
        life_sign.beat()
        if signals.wait(min(max(0.0, left_s), BEAT_S)) or left_s <= BEAT_S or wakes():
            return
