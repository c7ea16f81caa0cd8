"""The newest method decides, unless the poller's observation is newer."""

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
    """Note an intent with the start time of the method's shell."""
    task_notes.note_method_intent(task.private, desired, order)
    task.note_step_done("intent")


def told(place: Place) -> list[str]:
    return [one.desired for one in sorted(place.sent(TransferMessageKind.INTENT), key=lambda one: one.at)]


def see(place: Place, desired: str, age_s: float = 0.0) -> None:
    """Let the poller report a state of the local job from `age_s` ago."""
    place.decide(outcome=TransferOutcome.AGREE, desired=desired, at=f"{time.time() - age_s:.3f}")


@pytest.mark.parametrize("ended", [*permutations(WISHES)])
def test_the_method_that_began_last_decides_in_whatever_order_methods_end(
    place: Place, ended: tuple[tuple[int, int], ...]
) -> None:
    place.step()
    place.start_away()

    for order in ended:
        note(place.task(), WISHES[order], order)
    place.step()

    names = os.listdir(place.task().private)
    assert (place.away(), told(place)) == ("hs", [SUSPENDED])
    assert [name for name in names if name.startswith(("asked", "told"))] == ["told.101.5.suspended"]


def test_an_earlier_method_that_ends_late_changes_nothing(place: Place) -> None:
    place.step()
    place.start_away()
    note(place.task(), RUNNING, (200, 2))
    place.step()

    note(place.task(), SUSPENDED, (199, 1))
    place.step()

    assert place.away() == "r"
    assert told(place) == [RUNNING]


def test_methods_are_ordered_by_the_start_of_their_shells(place: Place) -> None:
    first = a_method(place, SUSPENDED, before="read go")
    while task_notes.boot_clock_sort_key() <= task_notes.process_start_ticks_and_pid(first.pid):
        os.sched_yield()
    last = a_method(place, RUNNING)
    statuses = [last.wait(30)]
    first.communicate(b"go\n", timeout=30)

    assert [*statuses, first.returncode] == [0, 0]
    assert task_notes.desired_state_in_note(task_notes.newest_intent_note(place.task().private)) == RUNNING


def a_method(place: Place, desired: str, before: str = ":") -> subprocess.Popen[bytes]:
    """Start the shell of a method, with a command before its Python."""
    task = place.task()
    ask = (
        "import os, sys; from gridbridge.transfer.starter.local_task import LocalTask;"
        " LocalTask(dict(os.environ)).note_intent({!r})"
    )
    script = f'{before}; "{sys.executable}" -c "$0" || exit 1; exit 0'
    return subprocess.Popen(["sh", "-c", script, ask.format(desired)], env=task.env, stdin=subprocess.PIPE)


@pytest.mark.parametrize(("later_s", "expected"), [(0.5, SUSPENDED), (2.0, RUNNING)], ids=["at once", "later"])
def test_an_observation_within_a_second_of_a_method_does_not_overrule_the_method(
    place: Place, later_s: float, expected: str
) -> None:
    task = place.task()
    note(task, SUSPENDED, task_notes.boot_clock_sort_key(10))

    task.note_observed_state(RUNNING, task_notes.boot_clock_sort_key(10 - later_s))

    assert task_notes.desired_state_in_note(task_notes.newest_intent_note(task.private)) == expected


def test_a_parent_process_has_an_earlier_start_than_its_child(tmp_path: Path) -> None:
    ours = task_notes.process_start_ticks_and_pid(os.getpid())

    assert task_notes.process_start_ticks_and_pid(os.getppid())[0] <= ours[0] <= task_notes.boot_clock_sort_key()[0]
    assert ours[1] == os.getpid()


@pytest.mark.parametrize("age_s", [0.0, -3600.0], ids=["now", "by a clock that was set back"])
def test_no_observation_has_a_sort_key_in_the_future(age_s: float) -> None:
    assert task_notes.boot_clock_sort_key(age_s)[0] <= task_notes.boot_clock_sort_key()[0]


@pytest.mark.parametrize(("seen", "before", "after"), [(SUSPENDED, "r", "hs"), (RUNNING, "hs", "r")])
def test_a_starter_follows_and_reports_a_suspension_request_of_the_poller(
    place: Place, seen: str, before: str, after: str
) -> None:
    place.step()
    (place.folder / "beta/41").write_text(before)
    see(place, seen)

    answers = [place.step().split()[0] for _ in range(2)]
    place.retract()

    assert answers == ["again", "again"]
    assert (place.away(), told(place)) == (after, [seen])
    assert place.step().startswith("wait ")


def test_a_method_that_began_after_the_observation_overrules_the_request(place: Place) -> None:
    place.step()
    place.start_away()
    see(place, RUNNING, age_s=30)
    control_methods.note_local_job_suspended(place.task())
    note(place.task(), SUSPENDED, task_notes.boot_clock_sort_key())

    place.step()

    assert (place.away(), told(place)) == ("hs", [SUSPENDED])


def test_an_observation_later_than_a_method_overrules_the_method(place: Place) -> None:
    place.step()
    place.start_away()
    note(place.task(), SUSPENDED, task_notes.boot_clock_sort_key(30))
    place.step()
    see(place, RUNNING, age_s=20)

    place.step()

    assert (place.away(), told(place)) == ("r", [SUSPENDED, RUNNING])


def test_a_job_held_since_submission_is_released_with_its_real_name(place: Place) -> None:
    note(place.task(), SUSPENDED, task_notes.boot_clock_sort_key(30))
    place.step()
    held = place.away()
    see(place, RUNNING)

    place.step()

    assert (held, place.away()) == ("hqw", "qw")
    assert place.calls("qalter -N sim -h U 41")


def test_a_job_suspended_remotely_by_another_person_stays_suspended(place: Place) -> None:
    place.step()
    (place.folder / "beta/41").write_text("s")
    see(place, RUNNING)

    place.step()

    assert place.away() == "s"


def test_a_suspension_request_does_not_end_a_recall(place: Place) -> None:
    place.step()
    place.decide(outcome=TransferOutcome.RECALL, reason="recalled from beta")
    place.step()
    see(place, RUNNING)

    place.step()

    assert place.away() == "hqw"


def test_a_job_end_overrules_a_suspension_request(place: Place) -> None:
    place.step()
    see(place, SUSPENDED)
    place.decide(outcome="exit", exit_status="3")

    assert place.step() == "exit 3"


def test_a_deleted_job_is_neither_suspended_nor_resumed(place: Place) -> None:
    place.step()
    place.task().note_intent(DesiredLocalJobState.DEAD)
    see(place, RUNNING)

    assert place.step() == "signal 9"
    assert place.calls("beta qmod") == []


def test_an_intent_that_the_spool_did_not_accept_is_sent_by_the_next_step(place: Place) -> None:
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


def test_an_adopted_suspended_job_is_resumed_and_reported(place: Place) -> None:
    place.step()
    (place.folder / "beta/41").write_text("hs")
    place.change_record(desired=SUSPENDED)

    place.step()

    assert (place.away(), told(place)) == ("r", [RUNNING])
    assert TRANSFER in {one.transfer for one in place.sent(TransferMessageKind.INTENT)}
