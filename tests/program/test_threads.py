"""A service continues while no thread can start, does nothing twice, and retries failures ever less often."""

import os
import resource
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from gridbridge.program import threads_and_backoff
from gridbridge.program.threads_and_backoff import BackoffBySubject

NOBODY = 65_534


def without_room(act: Callable[[Callable[[], None]], object]) -> None:
    """Run an action in a process that can start no thread. The action's argument lifts this limit."""
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        return
    try:
        if not os.geteuid():
            os.setresuid(NOBODY, NOBODY, NOBODY)
        before = resource.getrlimit(resource.RLIMIT_NPROC)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, before[1]))
        act(lambda: resource.setrlimit(resource.RLIMIT_NPROC, before))
        os._exit(0)
    except BaseException:  # a test that fails; its process is no test's
        traceback.print_exc()
    finally:
        os._exit(1)


def test_work_without_a_thread_fails_and_is_never_done_later() -> None:
    def act(give_room: Callable[[], None]) -> None:
        done: list[int] = []
        pool = threads_and_backoff.ThreadPool(2)
        refused = pool.submit(done.append, 1)
        with pytest.raises(threads_and_backoff.ThreadNotStarted):
            refused.result(5)
        give_room()
        pool.submit(done.append, 2).result(5)

        assert done == [2]

    without_room(act)


def test_running_threads_continue_while_no_thread_can_start() -> None:
    def act(give_room: Callable[[], None]) -> None:
        give_room()
        limits = resource.getrlimit(resource.RLIMIT_NPROC)
        pool, go = threads_and_backoff.ThreadPool(2), threading.Event()
        first = pool.submit(go.wait, 5)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, limits[1]))
        with pytest.raises(threads_and_backoff.ThreadNotStarted):
            pool.submit(int).result(5)
        go.set()

        assert first.result(5) is True
        assert pool.submit(int).result(5) == 0

    without_room(act)


def test_work_for_an_owner_fails_without_a_thread() -> None:
    def act(_: Callable[[], None]) -> None:
        with pytest.raises(threads_and_backoff.ThreadNotStarted):
            threads_and_backoff.OwnerThreadPools().run_call_in_thread("alice", int, "1").result(5)

    without_room(act)


def test_failed_work_raises_its_error_and_dismissed_work_is_cancelled() -> None:
    pool, go = threads_and_backoff.ThreadPool(1), threading.Event()
    failing = pool.submit(int, "x")
    pool.submit(go.wait, 5)
    dismissed = pool.submit(int)
    with pytest.raises(ValueError, match="invalid literal"):
        failing.result(5)
    pool.shutdown(wait=False, cancel_futures=True)
    go.set()

    assert dismissed.cancelled()


def test_a_thread_start_failure_is_told_from_other_errors() -> None:
    def act(_: Callable[[], None]) -> None:
        with pytest.raises(RuntimeError) as raised:
            ThreadPoolExecutor(1).submit(int)

        assert threads_and_backoff.is_thread_start_failure(raised.value)

    without_room(act)
    assert not threads_and_backoff.is_thread_start_failure(RuntimeError("can't start new thread"))


def test_the_backoff_doubles_up_to_its_maximum_and_begins_anew_for_a_forgotten_subject() -> None:
    now_s, tried_s = [0.0], []
    backoff = BackoffBySubject(lambda: now_s[0], 5, 30)
    for now_s[0] in range(100):
        if backoff.may_try("x"):
            tried_s.append(now_s[0])
    backoff.may_try("y")
    backoff.forget_failed_tries("x")

    assert tried_s == [0, 5, 15, 35, 65, 95]
    assert (backoff.may_try("x"), backoff.may_try("y")) == (True, False)


def test_untried_subjects_take_no_memory() -> None:
    now_s = [0.0]
    backoff = BackoffBySubject(lambda: now_s[0], 5, 30)
    for now_s[0] in range(1000):
        backoff.may_try(now_s[0])

    assert len(backoff._next) <= 5 + 30 + 1
    assert not backoff.may_try(999)
