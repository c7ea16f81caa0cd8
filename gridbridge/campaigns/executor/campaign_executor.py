"""gridbridge.Executor: a concurrent.futures.Executor whose calls run as tasks of a campaign."""

import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from itertools import count
from typing import Any, ParamSpec, TypeVar

from gridbridge.campaigns.executor import call_files
from gridbridge.campaigns.executor.call_campaigns import ExecutorCallCampaigns
from gridbridge.campaigns.executor.call_dispatcher import CallFuture, ExecutorCallDispatcher
from gridbridge.campaigns.executor.call_files import ExecutorCallFolder
from gridbridge.campaigns.executor.jdl_of_calls import choose_call_clusters, parse_jdl_of_calls
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.shell.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")


class Executor(futures.Executor):
    """Runs calls at clusters; each call is a task of a campaign.

    The keyword arguments `jdl` are keys of a JDL for all clusters, such as `walltime="0:10"`. `folder` has the files
    of calls, and must be visible at the clusters. With `shares_files=False` the folder is not visible there, and the
    files are carried as `inputs` and `outputs`. `python` is the interpreter at the clusters. Raises ConfigError for
    wrong clusters or keys.
    """

    def __init__(
        self,
        clusters: Iterable[str] = (),
        *,
        folder: str = "~/.gridbridge/calls",
        python: str = sys.executable,
        shares_files: bool | None = None,
        paths: FixedPaths | None = None,
        **jdl: Any,
    ) -> None:
        paths, clock = paths or FixedPaths(), Clock()
        chosen = choose_call_clusters(tuple(clusters), shares_files, paths.configuration)
        parent = os.path.abspath(os.path.expanduser(folder))
        parse_jdl_of_calls(chosen, parent, python, jdl)  # mistakes are reported before the folder is made
        call_folder = ExecutorCallFolder(parent, clock, is_shared=chosen.are_sharing_files)
        parsed = parse_jdl_of_calls(chosen, call_folder.path, python, jdl)
        self._folder = call_folder
        self._campaigns = ExecutorCallCampaigns(parsed, paths, clock)
        self._dispatcher = ExecutorCallDispatcher(call_folder, self._campaigns, clock)
        self._pid = os.getpid()
        self._numbers = count()
        self._closing = weakref.finalize(self, _close_in_own_process, self._dispatcher, self._pid)

    @property
    def campaigns(self) -> tuple[int, ...]:
        """The numbers of the Executor's campaigns, for gridstat."""
        return self._campaigns.campaign_numbers

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> futures.Future[T]:
        """Submit a call; if the call can't be pickled, its future has the exception."""
        self._require_open()
        number = next(self._numbers)
        future = CallFuture[T](number, self._dispatcher.withdraw_call)
        try:
            data = call_files.pickle_call(fn, args, kwargs, os.getcwd() if self._folder.is_shared else "")
        except Exception as error:  # the methods of an argument may raise any exception
            future.set_exception(error)
            return future
        self._folder.write_call(number, data)
        self._dispatcher.add_call(future)
        return future

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """Return results in the order of the arguments; all calls are sent together, and `chunksize` has no effect."""
        columns = zip(
            *zip(*iterables, strict=False), strict=True
        )  # read before calls are held back: an iterable may wait for earlier calls
        arguments = tuple(columns)
        with self._dispatcher.hold_calls():
            return super().map(fn, *arguments, timeout=timeout, chunksize=chunksize)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse further calls; `cancel_futures` cancels calls that have not started; `wait` waits for all calls."""
        if os.getpid() != self._pid:
            return  # the threads stayed in the parent process
        self._dispatcher.close(cancels=cancel_futures)
        if wait:
            self._dispatcher.wait_for_threads()

    def _require_open(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError(f"this Executor belongs to process {self._pid}; expected a new Executor after a fork")
        self._dispatcher.require_open_executor()


def _close_in_own_process(dispatcher: ExecutorCallDispatcher, pid: int) -> None:
    if os.getpid() == pid:
        dispatcher.close()
