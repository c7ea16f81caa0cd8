"""Who could not submit to a silent cluster is woken by its first answer, nobody else."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_messages_in_spool import StarterPhase
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.state import spool
from gridbridge.transfer.poller.answers_to_starters import StarterWakerAfterSilence
from tests.decisions.transfer.test_transfer_policy import a_snapshot, a_transfer

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
    recovery = StarterWakerAfterSilence(folder)

    woken = []
    for answer in (GOOD, SILENCE, SILENCE, GOOD, GOOD):
        recovery.wake_after_silence(answer, [one])
        woken.append(was_woken(end))

    assert woken == [False, False, False, True, False]


@pytest.mark.parametrize("other", [{"phase": StarterPhase.HELD}, {"remote": "gamma"}], ids=["submitted", "elsewhere"])
def test_the_first_answer_after_silence_wakes_no_other_starter(
    folder: str, sleeper: tuple[Transfer, int], other: dict[str, str]
) -> None:
    one, end = sleeper
    recovery = StarterWakerAfterSilence(folder)
    recovery.wake_after_silence(SILENCE, [one])
    recovery.wake_after_silence(GOOD, [one.but(**other)])

    assert not was_woken(end)
