"""What methods asked for: the last one that began counts, and what the service saw after it."""

import os
import subprocess
import sys
import time
from itertools import permutations
from pathlib import Path

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, TransferMessageKind, TransferOutcome
from gridbridge.transfer.starter import control_methods, task_notes
from gridbridge.transfer.starter.local_task import LocalTask
from tests.transfer.starter.cells import TRANSFER, Place

RUNNING, SUSPENDED = DesiredLocalJobState.RUNNING, DesiredLocalJobState.SUSPENDED
WISHES = {(100, 7): SUSPENDED, (100, 9): RUNNING, (101, 5): SUSPENDED}  # the last began last


def note(task: LocalTask, desired: str, order: tuple[int, int]) -> None:
    """Do what a method does whose shell began then."""
    task_notes.note_method_intent(task.private, desired, order)
    task.note_done("intent")


def told(place: Place) -> list[str]:
    return [one.desired for one in sorted(place.sent(TransferMessageKind.INTENT), key=lambda one: one.at)]


def see(place: Place, desired: str, age_s: float = 0.0) -> None:
    """Let the service say what it saw of the local job so long ago."""
    place.decide(outcome=TransferOutcome.AGREE, desired=desired, at=f"{time.time() - age_s:.3f}")


@pytest.mark.parametrize("ended", [*permutations(WISHES)])
def test_the_method_that_began_last_counts_in_whatever_order_they_end(
    place: Place, ended: tuple[tuple[int, int], ...]
) -> None:
    place.step()
    place.start_away()

    for order in ended:
        note(place.task(), WISHES[order], order)
    place.step()

    assert place.away() == "hs"
    assert told(place) == [SUSPENDED]


def test_one_that_ends_after_a_later_one_was_followed_changes_nothing(place: Place) -> None:
    place.step()
    place.start_away()
    note(place.task(), RUNNING, (200, 2))
    place.step()

    note(place.task(), SUSPENDED, (199, 1))
    place.step()

    assert place.away() == "r"
    assert told(place) == [RUNNING]


def test_no_note_but_the_last_is_kept(place: Place) -> None:
    place.step()
    for order, desired in WISHES.items():
        note(place.task(), desired, order)
    place.step()

    names = os.listdir(place.task().private)
    assert [name for name in names if name.startswith(("asked", "told"))] == ["told.101.5.suspended"]


def test_a_methods_shell_says_when_it_began_however_long_its_python_takes_to_come(place: Place) -> None:
    """On a loaded host the Python of the first may begin after that of the last has ended."""
    first = a_method(place, SUSPENDED, before="read go")
    while task_notes.boot_clock_sort_key() <= task_notes.process_start_ticks_and_pid(first.pid):
        os.sched_yield()
    last = a_method(place, RUNNING)
    statuses = [last.wait(30)]
    first.communicate(b"go\n", timeout=30)

    assert [*statuses, first.returncode] == [0, 0]
    assert task_notes.desired_state_in_note(task_notes.newest_intent_note(place.task().private)) == RUNNING


def a_method(place: Place, desired: str, before: str = ":") -> subprocess.Popen[bytes]:
    """Start the shell of a method, as the shepherd does, with something to do before its Python."""
    task = place.task()
    ask = (
        "import os, sys; from gridbridge.transfer.starter.local_task import LocalTask;"
        " LocalTask(dict(os.environ)).ask({!r})"
    )
    script = f'{before}; "{sys.executable}" -c "$0" || exit 1; exit 0'
    return subprocess.Popen(["sh", "-c", script, ask.format(desired)], env=task.env, stdin=subprocess.PIPE)


@pytest.mark.parametrize(("later_s", "expected"), [(0.5, SUSPENDED), (2.0, RUNNING)], ids=["at once", "later"])
def test_what_was_seen_within_a_second_of_a_method_may_have_been_seen_before_it(
    place: Place, later_s: float, expected: str
) -> None:
    """The service's clock is not the one that orders methods."""
    task = place.task()
    note(task, SUSPENDED, task_notes.boot_clock_sort_key(10))

    task.learn(RUNNING, task_notes.boot_clock_sort_key(10 - later_s))

    assert task_notes.desired_state_in_note(task_notes.newest_intent_note(task.private)) == expected


def test_a_process_began_before_those_that_it_started(tmp_path: Path) -> None:
    ours = task_notes.process_start_ticks_and_pid(os.getpid())

    assert task_notes.process_start_ticks_and_pid(os.getppid())[0] <= ours[0] <= task_notes.boot_clock_sort_key()[0]
    assert ours[1] == os.getpid()


@pytest.mark.parametrize("age_s", [0.0, -3600.0], ids=["now", "by a clock that was set back"])
def test_nothing_was_seen_later_than_now(age_s: float) -> None:
    """Else no method would be heard until then."""
    assert task_notes.boot_clock_sort_key(age_s)[0] <= task_notes.boot_clock_sort_key()[0]


@pytest.mark.parametrize(("seen", "before", "after"), [(SUSPENDED, "r", "hs"), (RUNNING, "hs", "r")])
def test_what_the_service_saw_is_followed_and_told(place: Place, seen: str, before: str, after: str) -> None:
    """A method that was to tell so was skipped; until the service knows the step is repeated."""
    place.step()
    (place.folder / "beta/41").write_text(before)
    see(place, seen)

    answers = [place.step().split()[0] for _ in range(2)]
    place.retract()

    assert answers == ["again", "again"]
    assert (place.away(), told(place)) == (after, [seen])
    assert place.step().startswith("wait ")


def test_a_method_that_began_after_the_service_had_looked_goes_before(place: Place) -> None:
    place.step()
    place.start_away()
    see(place, RUNNING, age_s=30)
    control_methods.note_local_job_suspended(place.task())
    note(place.task(), SUSPENDED, task_notes.boot_clock_sort_key())

    place.step()

    assert (place.away(), told(place)) == ("hs", [SUSPENDED])


def test_what_the_service_saw_later_than_a_method_goes_before_it(place: Place) -> None:
    place.step()
    place.start_away()
    note(place.task(), SUSPENDED, task_notes.boot_clock_sort_key(30))
    place.step()
    see(place, RUNNING, age_s=20)

    place.step()

    assert (place.away(), told(place)) == ("r", [SUSPENDED, RUNNING])


def test_a_job_that_is_held_there_since_its_submission_is_released_with_its_name(place: Place) -> None:
    note(place.task(), SUSPENDED, task_notes.boot_clock_sort_key(30))
    place.step()
    held = place.away()
    see(place, RUNNING)

    place.step()

    assert (held, place.away()) == ("hqw", "qw")
    assert place.calls("qalter -N sim -h U 41")


def test_what_is_suspended_there_by_somebody_else_stays_so(place: Place) -> None:
    place.step()
    (place.folder / "beta/41").write_text("s")
    see(place, RUNNING)

    place.step()

    assert place.away() == "s"


def test_a_wish_to_agree_ends_no_recall_that_was_begun(place: Place) -> None:
    place.step()
    place.decide(outcome=TransferOutcome.RECALL, reason="recalled from beta")
    place.step()
    see(place, RUNNING)

    place.step()

    assert place.away() == "hqw"


def test_an_end_goes_before_what_was_seen(place: Place) -> None:
    place.step()
    see(place, SUSPENDED)
    place.decide(outcome="exit", exit_status="3")

    assert place.step() == "exit 3"


def test_what_is_dead_is_neither_suspended_nor_resumed(place: Place) -> None:
    place.step()
    place.task().ask(DesiredLocalJobState.DEAD)
    see(place, RUNNING)

    assert place.step() == "signal 9"
    assert place.calls("beta qmod") == []


def test_a_word_that_the_spool_did_not_take_is_told_by_the_next_step(place: Place) -> None:
    place.step()
    place.start_away()
    note(place.task(), SUSPENDED, task_notes.boot_clock_sort_key())
    spool = place.folder / "spool"
    spool.rename(place.folder / "away")
    with pytest.raises(GridbridgeError):
        place.step()
    (place.folder / "away").rename(spool)

    place.step()

    assert (place.away(), told(place)) == ("hs", [SUSPENDED])


def test_an_adopted_job_that_was_suspended_runs_and_the_service_is_told(place: Place) -> None:
    place.step()
    (place.folder / "beta/41").write_text("hs")
    record = place.task().record()
    assert record
    place.task().save(record.but(desired=SUSPENDED))

    place.step()

    assert (place.away(), told(place)) == ("r", [RUNNING])
    assert TRANSFER in {one.transfer for one in place.sent(TransferMessageKind.INTENT)}
