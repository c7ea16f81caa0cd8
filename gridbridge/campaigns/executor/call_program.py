"""Runs a call of an Executor in a task, and writes the call's outcome.

Usage: python3 call.py DIRECTORY NUMBER, in the folder of the calls; the call runs in DIRECTORY, or in the
caller's folder. An Executor copies this file into the folder of its calls, because gridbridge is not installed at
clusters: this file uses the standard library alone, and cloudpickle if the caller has it. Exit status 0 means that the
outcome, a value or an exception, is written, or that the caller has cancelled the call.
"""

import os
import pickle
import sys

TYPE_CHECKING = False  # a call starts an interpreter, so slow modules are imported late or not at all
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any, BinaryIO

CALLS, STARTED, RESULTS = "calls", "started", "results"
PROTOCOL = 5  # pickle protocol of Python 3.8 and later
TAIL_BYTES, TAIL_LINES = 4096, 10


def run_call(directory: str, number: str) -> None:
    """Run a call, unless the caller has cancelled it; the file of the outcome appears complete."""
    folder = os.getcwd()
    try:
        path = claim_call(number)
    except FileNotFoundError:
        return
    with open(path, "rb") as file:
        caller = pickle.load(file)  # noqa: S301 - the owner's folder
        os.chdir(directory)
        _enter_context_of_caller(caller)
        outcome = _run_pickled_call(file)
    beside = f"{folder}/{RESULTS}/.{number}.{os.urandom(8).hex()}"
    with open(beside, "wb") as result:
        result.write(_pickle_outcome(outcome, caller))
    os.rename(beside, f"{folder}/{RESULTS}/{number}")


def claim_call(number: str) -> str:
    """Claim a call in the present folder by a rename; return the path of the claimed file.

    Caller and task may share the folder: then either the task's rename or the caller's removal succeeds. A second
    attempt uses the claim of the first attempt. Raises FileNotFoundError if the caller has cancelled the call.
    """
    waiting, started = f"{CALLS}/{number}", f"{STARTED}/{number}"
    if not os.path.isdir(STARTED):
        return waiting  # a copy of the call was carried to this cluster
    try:
        os.rename(waiting, started)
    except FileNotFoundError:
        os.stat(started)
    return started


def _enter_context_of_caller(caller: "dict[str, Any]") -> None:
    """Use the caller's import path and working directory, where this host has the same or trusted folders.

    A folder of the same name may belong to another user of this host, for example /tmp/work.
    """
    sys.path[:1] = [path for path in caller["import_path"] if _is_same_or_trusted(path, caller)]
    if _is_same_or_trusted(caller["directory"], caller):
        os.chdir(caller["directory"])


def _is_same_or_trusted(path: str, caller: "dict[str, Any]") -> bool:
    """Say whether this folder is the caller's folder, or belongs to this account or root.

    A folder that everyone can write is never trusted: the /tmp of two hosts may have equal inode numbers.
    """
    try:
        facts = os.stat(path)
    except OSError:
        return False
    is_callers = caller["folders"].get(path) == (facts.st_uid, facts.st_ino) and not facts.st_mode & 0o002
    is_roots = not facts.st_uid and not facts.st_mode & 0o022
    return is_callers or is_roots or facts.st_uid == os.geteuid()


def _run_pickled_call(file: "BinaryIO") -> "dict[str, Any]":
    try:
        function, args, kwargs = pickle.load(file)  # noqa: S301 - the owner's folder
        return {"value": function(*args, **kwargs)}
    except BaseException as error:  # a caller gets every exception, also SystemExit
        return _outcome_of_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))


def _outcome_of_exception(error: BaseException) -> "dict[str, Any]":
    """Return an exception, its traceback and the call's standard error; write the traceback to standard error."""
    import traceback

    tail = _last_lines_of_standard_error()
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    sys.stderr.write(text)
    return {"error": error, "traceback": text, "stderr": tail}


def _last_lines_of_standard_error() -> "list[str]":
    sys.stderr.flush()
    try:
        with open("/proc/self/fd/2", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-TAIL_LINES:]
    except OSError:
        return []  # standard error is a terminal or a pipe


def _pickle_outcome(outcome: "dict[str, Any]", caller: "dict[str, Any]") -> bytes:
    job = {"task": os.environ.get("CIGRI_JOB_ID", ""), "cluster": os.environ.get("CIGRI_CLUSTER", "")}
    try:
        return _pickle_and_check_readable({**outcome, **job}, caller)
    except Exception as error:  # the methods of a value may raise any exception
        if "error" in outcome:
            original = outcome["error"]
            outcome["error"] = RuntimeError(f"{type(original).__name__}: {original}")
        else:
            outcome = _outcome_of_exception(error)
        return pickle.dumps({**outcome, **job}, PROTOCOL)


def _pickle_and_check_readable(content: "dict[str, Any]", caller: "dict[str, Any]") -> bytes:
    """Pickle an outcome; raise an error if the outcome can't be pickled, or is an exception that can't be unpickled."""
    for pickler in _usable_pickle_modules(caller):
        try:
            data: bytes = pickler.dumps(content, PROTOCOL)
            break
        except Exception as error:  # the methods of a value may raise any exception
            problem = error
    else:
        raise problem
    if "error" in content:
        pickle.loads(data)  # noqa: S301 - written here
    return data


def _usable_pickle_modules(caller: "dict[str, Any]") -> "Iterator[ModuleType]":
    yield pickle
    if caller["has_cloudpickle"]:
        try:
            import cloudpickle  # imported late: slow, and needed only for values of classes of the caller's program
        except ImportError:
            return
        yield cloudpickle


if __name__ == "__main__":
    run_call(*sys.argv[1:3])
