"""A task has ended once its cluster tells so, or has forgotten it for long."""

from gridbridge.decisions.campaigns.ends import ended, not_listed
from gridbridge.model.campaigns.campaign import Attempt, Outcome
from gridbridge.model.job import JobEnd


def attempt(place: int) -> Attempt:
    """Return the first attempt of a task."""
    return Attempt(campaign=1, task=place - 1, attempt=1, array=1, place=place)


def test_a_listed_task_lives_whatever_its_row_stands_for() -> None:
    """The waiting tasks of an array are one row."""
    pending = [attempt(place) for place in (1, 2, 3, 9)]

    assert not_listed(pending, [range(2, 4)]) == (pending[0], pending[3])


def test_a_task_that_nothing_tells_of_is_waited_for() -> None:
    """An accounting record comes some seconds later."""
    missing = {attempt(1): 0.0, attempt(2): 60.0, attempt(3): 61.0}

    found = ended(missing, {1: JobEnd(exit_status=3, wallclock_s=4.6)}, 600, 60.0)

    told = [(one.place, one.outcome, one.exit_status, one.wallclock_s) for one in found]
    assert told == [
        (1, Outcome.PROGRAM_ERROR, 3, 5),
        (3, Outcome.CANCELLED, None, None),
    ]
