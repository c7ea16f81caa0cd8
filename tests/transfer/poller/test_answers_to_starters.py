"""The poller wakes starters, and remembers job ends that home may have missed."""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from gridbridge.model.transfer.transfers_and_actions import OwnerSeenInHomeJobList, Transfer
from gridbridge.model.transfer_messages_in_spool import StarterPhase
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.shell.clock import Clock
from gridbridge.state import spool
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller.answers_to_starters import StarterWakerAfterClusterSilence, UndeliveredTaskEndTracker
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.decisions.transfer.test_transfer_policy import NOON, VERDICT, a_row, a_snapshot, a_transfer

SILENCE = ClusterQueryResult(cluster="beta", trouble="no answer in time")
GOOD = ClusterQueryResult(cluster="beta", snapshot=a_snapshot("beta", 0))


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / spool.WAKE).mkdir()
    return str(tmp_path)


@pytest.fixture
def sleeper(folder: str) -> Iterator[tuple[Transfer, int]]:
    """Return a transfer that waits to submit, and the reading end of its starter's FIFO."""
    wake = spool.create_starter_wake_fifo(folder)
    end = os.open(f"{folder}/{spool.WAKE}/{wake}", os.O_RDWR | os.O_NONBLOCK)
    yield a_transfer(wake=wake, uid=os.getuid(), phase=StarterPhase.SUBMITTING, remote_id=0), end
    os.close(end)


def was_woken(end: int) -> bool:
    try:
        return os.read(end, 1) == b"\n"
    except BlockingIOError:
        return False


def test_the_first_answer_after_silence_wakes_starters_that_wait_to_submit(
    folder: str, sleeper: tuple[Transfer, int]
) -> None:
    one, end = sleeper
    recovery = StarterWakerAfterClusterSilence(folder)

    woken = []
    for answer in (GOOD, SILENCE, SILENCE, GOOD, GOOD):
        recovery.wake_starters_after_silence(answer, [one])
        woken.append(was_woken(end))

    assert woken == [False, False, False, True, False]


@pytest.mark.parametrize("other", [{"phase": StarterPhase.HELD}, {"remote": "gamma"}], ids=["submitted", "elsewhere"])
def test_the_first_answer_after_silence_wakes_no_other_starter(
    folder: str, sleeper: tuple[Transfer, int], other: dict[str, str]
) -> None:
    one, end = sleeper
    recovery = StarterWakerAfterClusterSilence(folder)
    recovery.wake_starters_after_silence(SILENCE, [one])
    recovery.wake_starters_after_silence(GOOD, [one.with_changes(**other)])

    assert not was_woken(end)


ENDED = a_transfer(verdict=VERDICT, closed_at=NOON, listed=OwnerSeenInHomeJobList.YES)


def test_the_end_of_a_rescheduled_task_is_reported_once(state_file: StateFile) -> None:
    TransferRows(state_file).insert_or_update_transfer(ENDED)
    unheard_ends = UndeliveredTaskEndTracker(state_file, Clock())
    unheard_ends.load_closed_transfers(NOON + timedelta(minutes=1))
    put_back = a_snapshot("alpha", 1, a_row(7, "hRq"))

    assert unheard_ends.watched_local_jobs() == {7}
    assert unheard_ends.take_requeued_transfers(a_snapshot("alpha", 1, a_row(7, "hr")), frozenset()) == ()
    assert [one.name for one in unheard_ends.take_requeued_transfers(put_back, frozenset())] == [ENDED.name]
    assert unheard_ends.take_requeued_transfers(put_back, frozenset()) == ()
    assert unheard_ends.watched_local_jobs() == set()


@pytest.mark.parametrize("is_listed", [True, False], ids=["it waits again", "it is gone"])
def test_an_ended_task_is_reported_or_forgotten_in_spite_of_a_clock_that_is_set_back(
    state_file: StateFile, is_listed: bool
) -> None:
    wall_s = [7200.0]
    clock = Clock(lambda: wall_s[0], lambda: 0.0)
    unheard_ends = UndeliveredTaskEndTracker(state_file, clock)
    unheard_ends.watch_closed_transfer(ENDED)

    wall_s[0] -= 3600
    clock.detect_clock_step()
    rows = [a_row(7, "hRq")] if is_listed else []

    assert len(unheard_ends.take_requeued_transfers(a_snapshot("alpha", -3599, *rows), frozenset())) == is_listed
    assert unheard_ends.watched_local_jobs() == set()


@pytest.mark.parametrize(
    ("state", "queue", "expected"),
    [
        ("r", "all.q@n1", False),
        ("t", "all.q@n1", True),
        ("Rr", "all.q@n1", True),
        ("r", "transfer-beta@n1", True),
        ("r", "transfer-gamma@n1", True),
    ],
    ids=["new", "on its way", "put back", "its own queue", "another transfer queue"],
)
def test_an_ended_task_is_forgotten_once_another_job_reuses_its_number(
    state_file: StateFile, state: str, queue: str, expected: bool
) -> None:
    unheard_ends = UndeliveredTaskEndTracker(state_file, Clock())
    unheard_ends.watch_closed_transfer(ENDED)
    queues = frozenset({"transfer-beta", "transfer-gamma"})

    unheard_ends.take_requeued_transfers(a_snapshot("alpha", 1, a_row(7, state, queue=queue)), queues)

    assert unheard_ends.is_closed_transfer_watched(ENDED) == expected
