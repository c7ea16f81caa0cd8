"""Functions that tests send to an Executor; a task imports this module."""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn


class UnreadableError(Exception):
    """An exception that pickle can write, but not read."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


class EmptyError(Exception):
    """An exception that counts as false."""

    def __bool__(self) -> bool:
        return False


def square(number: int) -> int:
    return number * number


def divide_by_zero() -> float:
    sys.stderr.write("dividing\nby zero\n")
    return 1 / 0


def kill_oneself() -> None:
    sys.stderr.write("about to die\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def leave(status: int) -> NoReturn:
    sys.exit(status)


def end_process(status: int) -> None:
    os._exit(status)


def make_lock() -> object:
    return threading.Lock()


def raise_unreadable() -> None:
    raise UnreadableError("odd", "arguments")


def raise_empty() -> None:
    raise EmptyError("no entry")


def present_folder() -> str:
    return os.getcwd()


def wait_for_file(path: str) -> int:
    """Wait until a file exists; note each beginning in a file beside it."""
    with open(f"{path}.begun", "a") as file:
        file.write(f"{os.getpid()}\n")
    for _ in range(3000):
        if Path(path).exists():
            return len(Path(f"{path}.begun").read_text().splitlines())
        time.sleep(0.02)
    raise TimeoutError(path)
