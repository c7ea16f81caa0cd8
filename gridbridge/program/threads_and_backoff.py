"""Threads for slow calls and pauses after failures; at the limit TasksMax a call fails at once."""

import logging
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Thread
from traceback import walk_tb
from typing import Generic, TypeVar

from gridbridge.errors import GridbridgeError, describe_error

Outcome = TypeVar("Outcome")
A_PERSON = 2  # largest number of threads for one person
Subject = TypeVar("Subject")
AT_ONCE = 100  # largest number of jobs in one query
Told = TypeVar("Told")
_log = logging.getLogger(__name__)


class ThreadNotStarted(GridbridgeError):
    """Raised when a thread could not start, so that a call was not made."""


def is_thread_start_failure(error: Exception) -> bool:
    """Say whether an error means that a thread could not start; Python has no exception class for this."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    is_of_start = bool(frames) and frames[-1].f_code is Thread.start.__code__
    return isinstance(error, RuntimeError) and is_of_start


class ThreadPool(ThreadPoolExecutor):
    """A thread pool in which a call fails if no thread can start."""

    def submit(self, act: Callable[..., Outcome], /, *args: object, **kwargs: object) -> "Future[Outcome]":
        """Make a call in a thread; the future fails with ThreadNotStarted if no thread can start."""
        promise: Future[Outcome] = Future()
        try:
            future = super().submit(_run_act_for_future, promise, partial(act, *args, **kwargs))
        except RuntimeError as error:
            if promise.cancel():
                promise = Future()
                promise.set_exception(ThreadNotStarted(f"{error}: the service has reached its limit of threads"))
            return promise
        future.add_done_callback(lambda finished: finished.cancelled() and promise.cancel())
        return promise


def _run_act_for_future(promise: "Future[Outcome]", act: Callable[[], Outcome]) -> None:
    if not promise.set_running_or_notify_cancel():
        return
    try:
        outcome = act()
    except BaseException as error:  # the future gets the error, as in any thread pool
        promise.set_exception(error)
    else:
        promise.set_result(outcome)


class OwnerThreadPools:
    """A small thread pool for each person who has unfinished calls."""

    def __init__(self) -> None:
        self._threads: dict[str, ThreadPool] = {}
        self._open: dict[str, list[Future[object]]] = {}

    def run_call_in_thread(self, owner: str, act: Callable[[Subject], Outcome], subject: Subject) -> "Future[Outcome]":
        """Make a call for a person in a thread, after earlier calls for the same person."""
        self._dismiss_idle_thread_pools()
        threads = self._threads.get(owner) or ThreadPool(A_PERSON, f"for-{owner}")
        self._threads[owner] = threads
        future = threads.submit(act, subject)
        self._open.setdefault(owner, []).append(future)  # type: ignore[arg-type]
        return future

    def shut_down_threads(self) -> None:
        """Stop all threads after their present calls."""
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    def _dismiss_idle_thread_pools(self) -> None:
        for owner, futures in list(self._open.items()):
            self._open[owner] = [future for future in futures if not future.done()]
            if not self._open[owner]:
                del self._open[owner]
                self._threads.pop(owner).shutdown(wait=False)


class RepeatedBackgroundQuery(Generic[Subject, Told]):
    def __init__(
        self,
        workers: OwnerThreadPools,
        cluster: str,
        name: str,
        ask: Callable[[Subject], Told],
        clock: Callable[[], float],
        pause_s: float = 0.0,
        first_s: float = 0.0,
    ) -> None:
        self._workers = workers
        self._cluster = cluster
        self._name = name
        self._ask = ask
        self._clock = clock
        self._pause_s = pause_s
        self._due_s = clock() + first_s
        self._asked: tuple[Subject, Future[Told]] | None = None

    def is_query_due(self) -> bool:
        """Say whether a query may start now: no query runs, and the pause is over. True begins a new pause."""
        if self._asked is not None or self._clock() < self._due_s:
            return False
        self._due_s = self._clock() + self._pause_s
        return True

    def start_query(self, subject: Subject) -> None:
        """Start a query in a thread; `take_query_result` returns the result later."""
        future = self._workers.run_call_in_thread(f"cluster {self._cluster}", self._ask, subject)
        self._asked = subject, future

    def take_query_result(self) -> tuple[Subject, Told] | None:
        """Return subject and result of a finished query, each only once; None if no further query has finished."""
        if self._asked is None or not self._asked[1].done():
            return None
        (subject, future), self._asked = self._asked, None
        try:
            return subject, future.result()
        except (GridbridgeError, OSError) as error:
            where = f"act={self._name} cluster={self._cluster}"
            _log.warning("event=failed %s why=%r", where, describe_error(error))
            return None


FIRST_S, LONGEST_S = 5.0, 300.0  # first and longest pause; most accounting records are written within seconds


def double_pause_after_failure(pause_s: float, first_s: float, longest_s: float) -> float:
    """Return twice the pause, at most `longest_s`; after the first failure (`pause_s` is 0) return `first_s`."""
    return min(longest_s, 2 * pause_s or first_s)


class BackoffBySubject:
    """Decides when a failed act may be tried again for each subject, such as a transfer."""

    def __init__(self, clock: Callable[[], float], first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._clock = clock
        # next try of each subject: its time, and the pause before it; sorted by the time of the last try
        self._next: dict[Hashable, tuple[float, float]] = {}

    def may_try(self, subject: Hashable) -> bool:
        """Say whether the act may be tried now for a subject; a permitted try begins a longer pause."""
        now_s = self._clock()
        while self._next:
            oldest, (due_at_s, _) = next(iter(self._next.items()))
            if now_s - due_at_s <= self._longest_s:
                break
            self.forget_failed_tries(oldest)
        due_at_s, last_s = self._next.get(subject, (now_s, 0.0))
        if now_s < due_at_s:
            return False
        wait_s = double_pause_after_failure(last_s, self._first_s, self._longest_s)
        self.forget_failed_tries(subject)
        self._next[subject] = now_s + wait_s, wait_s
        return True

    def forget_failed_tries(self, subject: Hashable) -> None:
        """Forget the failed tries for a subject, so that the act may be tried at once."""
        self._next.pop(subject, None)
