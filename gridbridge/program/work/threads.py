"""Thread pools that report a thread that cannot start as a failure.

When the service has reached its thread limit (TasksMax), Python raises RuntimeError for a new
thread, and its work would stay queued for other threads.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Thread
from traceback import walk_tb
from typing import TypeVar

from gridbridge.errors import GridbridgeError

Outcome = TypeVar("Outcome")


class ThreadNotStarted(GridbridgeError):
    """A thread could not start, so its work was not done."""


def is_thread_start_failure(error: Exception) -> bool:
    """Return whether an error means that a thread could not start.

    Python has no exception class for this.
    """
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    is_of_start = bool(frames) and frames[-1].f_code is Thread.start.__code__
    return isinstance(error, RuntimeError) and is_of_start


class ThreadPool(ThreadPoolExecutor):
    """A thread pool whose futures fail if no thread can start."""

    def submit(
        self, act: Callable[..., Outcome], /, *args: object, **kwargs: object
    ) -> "Future[Outcome]":
        """Run a call in a thread; the future fails with ThreadNotStarted if none can start."""
        promise: Future[Outcome] = Future()
        try:
            future = super().submit(_keep, promise, partial(act, *args, **kwargs))
        except RuntimeError as error:
            return promise if not promise.cancel() else _failed(error)
        future.add_done_callback(
            lambda finished: promise.cancel() if finished.cancelled() else None
        )
        return promise


def _keep(promise: "Future[Outcome]", act: Callable[[], Outcome]) -> None:
    """Run the call of a future, unless the future was cancelled."""
    if not promise.set_running_or_notify_cancel():
        return
    try:
        outcome = act()
    except BaseException as error:  # the future holds the error, as in any pool
        promise.set_exception(error)
    else:
        promise.set_result(outcome)


def _failed(error: RuntimeError) -> "Future[Outcome]":
    failed: Future[Outcome] = Future()
    failed.set_exception(ThreadNotStarted(f"{error}: the service has all that it may start"))
    return failed
