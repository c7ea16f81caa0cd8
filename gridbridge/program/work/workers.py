"""Threads for slow calls, two for each person, so that nobody delays other people.

A person can make calls slow: gridbridge-as-user runs that person's own processes and looks up their
jobs.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from gridbridge.program.work.threads import ThreadPool

A_PERSON = 2  # threads for each person

Subject = TypeVar("Subject")
Outcome = TypeVar("Outcome")


class OwnerThreadPools:
    """A small thread pool for each person with calls under way."""

    def __init__(self) -> None:
        self._threads: dict[str, ThreadPool] = {}
        self._open: dict[str, list[Future[object]]] = {}

    def do(
        self, owner: str, act: Callable[[Subject], Outcome], subject: Subject
    ) -> "Future[Outcome]":
        """Run a call for a person in a thread, after that person's earlier calls."""
        self._dismiss_idle()
        threads = self._threads.get(owner) or ThreadPool(A_PERSON, f"for-{owner}")
        self._threads[owner] = threads
        future = threads.submit(act, subject)
        self._open.setdefault(owner, []).append(future)  # type: ignore[arg-type]  # any outcome
        return future

    def dismiss(self) -> None:
        """Stop all threads; running calls finish by themselves."""
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    def _dismiss_idle(self) -> None:
        for owner, futures in list(self._open.items()):
            self._open[owner] = [future for future in futures if not future.done()]
            if not self._open[owner]:
                del self._open[owner]
                self._threads.pop(owner).shutdown(wait=False)
