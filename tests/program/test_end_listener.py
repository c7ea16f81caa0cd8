"""A job end listener whose thread cannot start is tried again without other effects."""

import time
from collections.abc import Callable, Iterator

from gridbridge.program.pushed_job_end_receivers import JobEndListener
from gridbridge.shell.retry import poll_until
from tests.program.test_threads import without_room


def test_a_listener_without_a_thread_starts_later() -> None:
    def ends() -> Iterator[list[int]]:
        yield [7]

    def act(give_room: Callable[[], None]) -> None:
        listener = JobEndListener("gamma", ends, 10, time.monotonic)
        assert listener.take_ended_job_ids() == frozenset()
        give_room()

        assert poll_until(lambda: listener.take_ended_job_ids() == {7}, 10)

    without_room(act)
