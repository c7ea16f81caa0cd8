"""Submits, releases and deletes arrays as their owners, through gridbridge-as-user."""

from gridbridge.apply import as_user
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import Array, Attempt
from gridbridge.model.campaigns.numbers import write_attempts, write_places
from gridbridge.shell.runner import Completed

REFUSED = 2


class ArrayRefused(GridbridgeError):
    """A cluster, or root, will never take this array."""


def submit(array: Array, attempts: tuple[Attempt, ...]) -> int:
    """Submit an array held, or adopt what an earlier call submitted; return its id.

    Raises ArrayRefused, and CommandFailed when it is not known whether anything was submitted:
    the same call may be repeated.
    """
    tasks = write_attempts(tuple((one.task, one.attempt) for one in attempts))
    done = _call("submit-array", array, tasks)
    if done.status == REFUSED:
        raise ArrayRefused(as_user.last_words(done))
    return int(done.checked().stdout)


def release(array: Array) -> None:
    """Let the tasks of a submitted array start; may be repeated."""
    _call("release-array", array).checked()


def delete(array: Array) -> None:
    """End all tasks of an array; may be repeated."""
    _call("delete-array", array).checked()


def delete_places(array: Array, places: tuple[range, ...]) -> None:
    """End the tasks at some places of an array; may be repeated."""
    _call("delete-array", array, write_places(places)).checked()


def _call(verb: str, array: Array, *tasks: str) -> Completed:
    return as_user.call(verb, f"c.{array.campaign}", array.cluster, str(array.number), *tasks)
