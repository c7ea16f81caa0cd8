"""qevent is kept running, also after a failed start, and its pushed job ends are read up to a maximum rate."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from pytest_subprocess import FakeProcess

from gridbridge.batch.gridengine import sge_command_line_builders
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from gridbridge.program.pushed_job_end_receivers import (
    AGAIN_S,
    DIE_WITH_US,
    ENDS,
    WINDOW_S,
    JobEndListener,
    QeventJobEndReceiver,
)
from gridbridge.shell.retry import poll_until
from tests.program.test_threads import without_room

CELL = GridEngineCellAccessSettings(
    root="/sge", cell="beta", qmaster_port="6454", execd_port="6455", binaries="/usr/lib/gridengine", timeout_s=10
)
QEVENT = (*DIE_WITH_US, "/usr/lib/gridengine/qevent")
LIMIT_PER_S = 2.0
LIMIT_S = 30.0


@pytest.fixture
def clock() -> SimpleNamespace:
    return SimpleNamespace(now_s=0.0)


@pytest.fixture
def push(tmp_path: Path, clock: SimpleNamespace, fp: FakeProcess) -> Iterator[QeventJobEndReceiver]:
    fp.keep_last_process(True)
    argv = sge_command_line_builders.end_watcher_argv(CELL)
    one = QeventJobEndReceiver(argv, CELL.command_environment(), LIMIT_PER_S, str(tmp_path), lambda: clock.now_s)
    yield one
    one.stop_receiving_job_ends()


def runs(fp: FakeProcess) -> None:
    """Let qevent run until it gets a signal."""
    ended = Event()
    fp.register([*QEVENT, fp.any()], callback=lambda _: ended.wait(LIMIT_S), signal_callback=lambda *_: ended.set())


def test_qevent_is_started_once(push: QeventJobEndReceiver, fp: FakeProcess, clock: SimpleNamespace) -> None:
    runs(fp)
    for _ in range(3):
        push.take_ended_job_ids()
        clock.now_s += AGAIN_S

    (call,) = fp.calls
    assert list(call)[-6:] == [
        *("-trigger", "JB_END", "/opt/gridbridge/sge-methods/ended"),
        *("-trigger", "JB_TASK_END", "/opt/gridbridge/sge-methods/ended"),
    ]


def test_an_ended_qevent_is_restarted_after_a_pause(
    push: QeventJobEndReceiver, fp: FakeProcess, clock: SimpleNamespace
) -> None:
    """The qmaster of qevent may be down for longer than a moment."""
    fp.register([*QEVENT, fp.any()])
    started = []
    for now_s in (0.0, AGAIN_S / 2, AGAIN_S, AGAIN_S + 1):
        clock.now_s = now_s
        push.take_ended_job_ids()
        started.append(len(fp.calls))

    assert started == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [(b"", set()), (b"12\n13\n", {12, 13}), (b"12\nsome words\n", {12})],
    ids=["none", "two", "what is no number"],
)
def test_pushed_job_ends_are_read(
    push: QeventJobEndReceiver, fp: FakeProcess, tmp_path: Path, ends: bytes, expected: set[int]
) -> None:
    runs(fp)
    (tmp_path / ENDS).write_bytes(ends)

    assert push.take_ended_job_ids() == expected


def test_job_ends_above_the_rate_are_left_to_polling(
    push: QeventJobEndReceiver, fp: FakeProcess, clock: SimpleNamespace, tmp_path: Path
) -> None:
    runs(fp)
    many = int(LIMIT_PER_S * WINDOW_S) + 1
    (tmp_path / ENDS).write_text("".join(f"{number}\n" for number in range(1, many + 1)))
    flood = push.take_ended_job_ids()
    clock.now_s += 2 * WINDOW_S
    (tmp_path / ENDS).write_bytes(b"99\n")

    assert (flood, push.take_ended_job_ids()) == (frozenset(), {99})


def test_a_listener_without_a_thread_starts_later() -> None:
    def ends() -> Iterator[list[int]]:
        yield [7]

    def act(give_room: Callable[[], None]) -> None:
        listener = JobEndListener("gamma", ends, 10, time.monotonic)
        assert listener.take_ended_job_ids() == frozenset()
        give_room()

        assert poll_until(lambda: listener.take_ended_job_ids() == {7}, 10)

    without_room(act)
