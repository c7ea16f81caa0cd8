"""gridbridge.Executor: a concurrent.futures.Executor whose calls run as tasks of a campaign."""

import json
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from itertools import count
from typing import Any, ParamSpec, TypeVar

from gridbridge.campaigns.executor import call_files
from gridbridge.campaigns.executor.call_campaigns import ExecutorCallCampaigns
from gridbridge.campaigns.executor.call_dispatcher import CallFuture, ExecutorCallDispatcher
from gridbridge.campaigns.executor.call_files import PROGRAM, ExecutorCallFolder
from gridbridge.campaigns.executor.call_program import CALLS, RESULTS
from gridbridge.campaigns.submission import jdl_reader
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.errors import ConfigError
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.model.site_configuration import Policy
from gridbridge.program import configuration_in_force
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import quote_for_sh

P = ParamSpec("P")
T = TypeVar("T")
OWN_KEYS = ("clusters", "exec_file", "inputs", "nb_jobs", "outputs", "outputs_to", "param_file", "params")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorCallClusters:
    """The clusters at which calls run, and whether they share the caller's filesystem."""

    names: tuple[str, ...]
    are_sharing_files: bool


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
        chosen = _choose_call_clusters(tuple(clusters), shares_files, paths.configuration)
        parent = os.path.abspath(os.path.expanduser(folder))
        _parse_jdl_of_calls(chosen, parent, python, jdl)  # mistakes are reported before the folder is made
        call_folder = ExecutorCallFolder(parent, clock, is_shared=chosen.are_sharing_files)
        parsed = _parse_jdl_of_calls(chosen, call_folder.path, python, jdl)
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


def _choose_call_clusters(
    names: Sequence[str], are_sharing_files: bool | None, configuration: str
) -> ExecutorCallClusters:
    """Return the named clusters, by default all; a cluster reached by ssh does not share the caller's filesystem.

    Raises ConfigError for an unknown cluster.
    """
    policy, _ = configuration_in_force.load_config_or_one_in_force(configuration)
    if unknown := ", ".join(name for name in names if name not in policy.clusters):
        raise ConfigError((f"no cluster {unknown} here; the clusters are {', '.join(sorted(policy.clusters))}",))
    chosen = tuple(names) or _clusters_of_campaigns(policy)
    if are_sharing_files is None:
        are_sharing_files = not any(policy.clusters[name].has_own_accounts_and_files for name in chosen)
    return ExecutorCallClusters(names=chosen, are_sharing_files=are_sharing_files)


def _clusters_of_campaigns(policy: Policy) -> tuple[str, ...]:
    from gridbridge.batch.batch_adapter_table import ADAPTERS  # slow to load

    return tuple(name for name, cluster in policy.clusters.items() if ADAPTERS[cluster.kind].array_ends)


def _parse_jdl_of_calls(clusters: ExecutorCallClusters, folder: str, python: str, keys: Mapping[str, Any]) -> ParsedJdl:
    """Return the campaign of the calls in a folder, still without tasks; raise ConfigError for wrong JDL keys."""
    if wrong := ", ".join(sorted(set(OWN_KEYS).intersection(keys))):
        raise ConfigError((f"{wrong}: set by Executor itself; expected other keys of a JDL",))
    program = os.path.basename(sys.argv[0]) or "python"
    table = {"name": f"Executor of {program}", **keys, "clusters": {name: {} for name in clusters.names}}
    if clusters.are_sharing_files:
        # the folder is removed after the last outcome; later tasks, of cancelled calls, then end with 0 at once
        enter = f"[ -e {quote_for_sh(folder)} ] || exit 0; cd -P -- {quote_for_sh(folder)} && [ -O . ] || exit"
        table |= {"exec_file": f'{enter}; exec {quote_for_sh(python)} {PROGRAM} "$OLDPWD"'}
    else:
        table |= {"exec_file": f"exec {quote_for_sh(python)} {PROGRAM} .", "outputs_to": folder}
        table |= {"inputs": [f"{folder}/./{PROGRAM}", f"{folder}/./{CALLS}/{{}}"], "outputs": [f"{RESULTS}/{{}}"]}
    return jdl_reader.parse_jdl("Executor", json.dumps({**table, "nb_jobs": 1}))
