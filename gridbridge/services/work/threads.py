"""Threads that fail as other acts do: a machine may have no room for one more.

Where somebody has used up what a service may start (TasksMax), each new thread is a RuntimeError of
Python's, and what was to be done in it stays in the queue of others.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Thread
from traceback import walk_tb
from typing import TypeVar

from gridbridge.errors import GridbridgeError

Outcome = TypeVar("Outcome")


class NotStarted(GridbridgeError):
    """No thread could be started, so nothing was done."""


def has_no_room(error: Exception) -> bool:
    """Say whether an error is that no thread could be started: Python has no class for it."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    is_of_start = bool(frames) and frames[-1].f_code is Thread.start.__code__
    return isinstance(error, RuntimeError) and is_of_start


class Threads(ThreadPoolExecutor):
    """A pool that answers with a failure where it can't start a thread."""

    def submit(
        self, act: Callable[..., Outcome], /, *args: object, **kwargs: object
    ) -> "Future[Outcome]":
        """Have a thread do it; where none can be started, the outcome is NotStarted."""
        promise: Future[Outcome] = Future()
        try:
            asked = super().submit(_keep, promise, partial(act, *args, **kwargs))
        except RuntimeError as error:
            return promise if not promise.cancel() else _failed(error)
        asked.add_done_callback(lambda done: promise.cancel() if done.cancelled() else None)
        return promise


def _keep(promise: "Future[Outcome]", act: Callable[[], Outcome]) -> None:
    """Do what was promised, unless that was taken back meanwhile."""
    if not promise.set_running_or_notify_cancel():
        return
    try:
        outcome = act()
    except BaseException as error:  # whoever asked for it is told, as by any pool
        promise.set_exception(error)
    else:
        promise.set_result(outcome)


def _failed(error: RuntimeError) -> "Future[Outcome]":
    failed: Future[Outcome] = Future()
    failed.set_exception(NotStarted(f"{error}: the service has all that it may start"))
    return failed
