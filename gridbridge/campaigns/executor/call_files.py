"""Writes an Executor's calls into a folder of its owner, and reads the outcomes that tasks write there."""

import fcntl
import glob
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from types import FunctionType
from typing import Any

from gridbridge.campaigns.executor import call_program
from gridbridge.campaigns.executor.call_program import CALLS, PROTOCOL, RESULTS, STARTED
from gridbridge.errors import FileWritableByOthers
from gridbridge.model.published_status_and_reports import replace_control_characters
from gridbridge.shell import optional_libraries, safe_files
from gridbridge.shell.clock import Clock

PROGRAM, LOCK, PREFIX = "call.py", "lock", "executor."
KEPT_S = 30 * 86_400.0  # the folder of a killed program is kept this long after its last change
MAIN = "__main__"

try:
    import cloudpickle
except ImportError:
    cloudpickle = None


class RemoteTraceback(Exception):
    """The traceback at the cluster, as text: the `__cause__` of the exception that a call raised there."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorCallOutcome:
    """What a call returned or raised."""

    value: Any = None
    error: BaseException | None = None


class ExecutorCallFolder:
    """A folder with the calls of an Executor and their outcomes, which only its owner can read and write."""

    def __init__(self, parent: str, clock: Clock, *, is_shared: bool) -> None:
        os.makedirs(parent, 0o700, exist_ok=True)
        self.path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        self._require_trusted_path()
        self.is_shared = is_shared
        for name in (CALLS, RESULTS, *((STARTED,) if is_shared else ())):
            os.mkdir(f"{self.path}/{name}")
        shutil.copyfile(call_program.__file__, f"{self.path}/{PROGRAM}")
        # the kernel releases the lock when the process ends, however it ends
        self._lock = open(f"{self.path}/{LOCK}", "w", encoding="ascii")  # noqa: SIM115 - open until the folder's removal
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        _remove_old_folders_of_ended_programs(parent, clock.now().timestamp())

    def _require_trusted_path(self) -> None:
        """Raise FileWritableByOthers if another user can replace the folder, because outcomes are unpickled."""
        try:
            safe_files.require_trusted_path(self.path, owner=os.geteuid())
        except FileWritableByOthers:
            os.rmdir(self.path)
            raise

    def write_call(self, number: int, data: bytes) -> None:
        """Write a pickled call; raise StateError if the disk is full."""
        safe_files.replace_file_atomically(f"{self.path}/{CALLS}/{number}", data, 0o600, durable=False)

    def withdraw_call(self, number: int) -> bool:
        """Remove the file of a call that no task has started; return False if a task has started the call."""
        try:
            os.unlink(f"{self.path}/{CALLS}/{number}")
        except FileNotFoundError:
            return False
        return True

    def list_started_calls(self) -> list[int]:
        return _call_numbers_in_folder(f"{self.path}/{STARTED}") if self.is_shared else []

    def list_calls_with_outcome(self) -> list[int]:
        return _call_numbers_in_folder(f"{self.path}/{RESULTS}")

    def read_and_remove_outcome(self, number: int) -> ExecutorCallOutcome:
        """Read a call's outcome, and remove the files of the call; an unreadable outcome counts as an exception."""
        path = f"{self.path}/{RESULTS}/{number}"
        try:
            with open(path, "rb", opener=safe_files.open_regular_without_blocking) as file:
                outcome = _outcome_of_content(pickle.load(file))  # noqa: S301 - the owner's folder
        except Exception as error:  # the methods of a value may raise any exception
            outcome = ExecutorCallOutcome(error=error)
        for name in (RESULTS, CALLS, STARTED):
            _remove_file_or_folder(f"{self.path}/{name}/{number}")
        return outcome

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _remove_old_folders_of_ended_programs(parent: str, now_s: float) -> None:
    """Remove the folders of ended programs, KEPT_S seconds after the last change in a folder."""
    with suppress(OSError):
        for folder in (f"{parent}/{name}" for name in os.listdir(parent) if name.startswith(PREFIX)):
            with suppress(OSError):
                changed_at = max(os.stat(path).st_mtime for path in (folder, *glob.glob(f"{folder}/*")))
                if now_s - changed_at > KEPT_S:
                    with open(f"{folder}/{LOCK}", "r+", encoding="ascii") as lock:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(folder)


def _call_numbers_in_folder(folder: str) -> list[int]:
    return [int(name) for name in os.listdir(folder) if name.isdecimal()]


def _remove_file_or_folder(path: str) -> None:
    with suppress(FileNotFoundError):
        try:
            os.unlink(path)
        except IsADirectoryError:  # the account at the cluster made a folder in place of a file
            shutil.rmtree(path)


def _outcome_of_content(content: Mapping[str, Any]) -> ExecutorCallOutcome:
    error = content.get("error")
    if error is None:
        return ExecutorCallOutcome(value=content["value"])
    error.__cause__ = RemoteTraceback(content["traceback"])
    note_standard_error(error, content["task"], content["cluster"], content["stderr"])
    return ExecutorCallOutcome(error=error)


def note_standard_error(error: BaseException, task: str, cluster: str, lines: list[str]) -> None:
    """Add the last lines of a task's standard error to an exception."""
    if lines:
        shown = "".join(f"\n  {replace_control_characters(line.expandtabs())}" for line in lines)
        error.add_note(f"Standard error of task {task} at {cluster} ends with:{shown}")


def pickle_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], directory: str
) -> bytes:
    """Pickle a call, by value if cloudpickle is installed; raise any exception if the call can't be pickled.

    The call runs in `directory`, unless this is empty or its host has no such directory.
    """
    caller = {
        "import_path": (import_path := _import_path_of_caller()),
        "directory": directory,
        "folders": _owners_and_inodes((*import_path, directory)) if directory else {},
        "has_cloudpickle": cloudpickle is not None,
    }
    call = (function, args, dict(kwargs))
    head = pickle.dumps(caller, protocol=PROTOCOL)
    return head + (cloudpickle.dumps(call, protocol=PROTOCOL) if cloudpickle else _pickle_importable(call))


def _import_path_of_caller() -> list[str]:
    """Return the caller's module folders, without the interpreter's own folders."""
    own = tuple(f"{prefix}/lib" for prefix in {sys.prefix, sys.base_prefix})
    return [os.path.abspath(path) for path in sys.path if not path.startswith(own)]


def _owners_and_inodes(paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the owner and inode number of each path, by which a task recognises the same folder."""
    facts = {path: os.stat(path) for path in paths if os.path.exists(path)}
    return {path: (fact.st_uid, fact.st_ino) for path, fact in facts.items()}


class _ImportablePickler(pickle.Pickler):
    """Refuses functions and classes of the module `__main__`, which a task can't import."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, FunctionType)) and value.__module__ == MAIN:
            raise pickle.PicklingError(
                f"{value.__qualname__} belongs to the program itself, so a task can't import it; expected a function"
                f" of a module, or cloudpickle installed: {optional_libraries.installation_command('cloudpickle')}"
            )
        return NotImplemented


def _pickle_importable(call: object) -> bytes:
    data = BytesIO()
    _ImportablePickler(data, PROTOCOL).dump(call)
    return data.getvalue()
