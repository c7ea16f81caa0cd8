"""Sends an Executor's calls in batches, and completes their futures, in two threads that end with the last call."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Condition, RLock, Thread
from typing import Any, TypeVar

from gridbridge.campaigns.executor.call_campaigns import ExecutorCallCampaigns
from gridbridge.campaigns.executor.call_files import ExecutorCallFolder, ExecutorCallOutcome
from gridbridge.errors import GridbridgeError
from gridbridge.shell.clock import Clock

GATHER_S, MOST_GATHERED = 0.05, 20  # calls are sent if none was added for 0.05 s, at the latest after 20 * 0.05 s
FIRST_LOOK_S, LAST_LOOK_S = 0.05, 0.5  # shortest and longest pause between two searches for outcomes
FAILURE_LOOK_S = 5.0  # pause between two readings of the published tasks

T = TypeVar("T")


class CallFuture(Future[T]):
    """The future of a call; it can be cancelled until a task has started the call."""

    def __init__(self, number: int, withdraw: Callable[[int], bool]) -> None:
        super().__init__()
        self.number = number
        self._withdraw = withdraw

    def cancel(self) -> bool:
        """Cancel the call; return False if the call has started or is done."""
        if self._withdraw(self.number) and super().cancel():
            self.set_running_or_notify_cancel()  # notifies the threads that wait for the future
        return self.cancelled()


class ExecutorCallDispatcher:
    def __init__(self, folder: ExecutorCallFolder, campaigns: ExecutorCallCampaigns, clock: Clock) -> None:
        self._folder = folder
        self._campaigns = campaigns
        self._clock = clock
        self._removal = RLock()  # the garbage collector may call `close` at any line
        self._changed = Condition()  # guards the fields below
        self._unsent: dict[int, CallFuture[Any]] = {}
        self._sent: dict[int, CallFuture[Any]] = {}
        self._threads: dict[Callable[[], None], Thread] = {}
        self._holds = 0
        self._is_closed = self._is_removed = self._has_cancelled_tasks = False

    def require_open_executor(self) -> None:
        """Raise RuntimeError after `close`, as all Executors of Python do."""
        if self._is_closed:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def add_call(self, future: CallFuture[Any]) -> None:
        with self._changed:
            self.require_open_executor()
            for run in (self._send_calls, self._collect_outcomes):
                if run not in self._threads:
                    thread = Thread(target=run, name=f"gridbridge.Executor{run.__name__}", daemon=False)
                    thread.start()  # no daemon: the interpreter exits only after the last call
                    self._threads[run] = thread
            self._unsent[future.number] = future
            self._changed.notify_all()

    @contextmanager
    def hold_calls(self) -> Iterator[None]:
        """Send the calls that a `with` block submits together, at the end of the block."""
        with self._changed:
            self._holds += 1
        try:
            yield
        finally:
            with self._changed:
                self._holds -= 1
                self._changed.notify_all()

    def withdraw_call(self, number: int) -> bool:
        """Withdraw a call that no task has started; say whether this was possible."""
        with self._changed:
            is_sent = number in self._sent
            if number not in self._unsent and not (is_sent and self._folder.is_shared):
                return False
            if not self._folder.withdraw_call(number):
                return False
            (self._sent if is_sent else self._unsent).pop(number)
            if is_sent:
                self._has_cancelled_tasks = True
                self._campaigns.record_finished_call(number)
            self._changed.notify_all()
        return True

    def close(self, *, cancels: bool = False) -> None:
        """Refuse further calls; `cancels` cancels calls that have not started. The folder goes after the last call."""
        with self._changed:
            self._is_closed = True
            calls = [*self._unsent.values(), *self._sent.values()] if cancels else []
        for future in calls:
            future.cancel()
        self._remove_folder_if_idle()

    def wait_for_threads(self) -> None:
        with self._changed:
            threads = [*self._threads.values()]
        for thread in threads:
            thread.join()
        self._remove_folder_if_idle()  # waits for a thread that is about to end

    def _send_calls(self) -> None:
        while calls := self._wait_for_calls_to_send():
            try:
                self._campaigns.send_calls([*calls])
            except Exception as error:  # an exception of any class becomes the outcome of the calls
                for number in calls:
                    self._folder.withdraw_call(number)
                    self._complete_future_of_call(number, ExecutorCallOutcome(error=error))

    def _wait_for_calls_to_send(self) -> tuple[int, ...]:
        """Wait until nobody adds calls, then return the calls to send; end the thread if there are none."""
        with self._changed:
            if self._unsent:
                self._changed.wait_for(lambda: not self._unsent, self._campaigns.pause_before_sending_s)
            gathered = -1
            for _ in range(MOST_GATHERED):
                if gathered == (gathered := len(self._unsent)):
                    break
                self._changed.wait_for(lambda: False, GATHER_S)
            self._changed.wait_for(lambda: not self._holds)
            calls = dict(self._unsent)
            self._sent |= calls
            self._unsent.clear()
            if not calls:
                del self._threads[self._send_calls]
        for future in calls.values() if not self._folder.is_shared else ():
            future.set_running_or_notify_cancel()  # without a shared folder the start of a task is not observed
        return tuple(calls)

    def _collect_outcomes(self) -> None:
        pause_s, looked_s = FIRST_LOOK_S, self._clock.steady_s()
        while self._has_calls_after_pause(pause_s):
            try:
                pause_s = FIRST_LOOK_S if self._end_calls_with_outcome() else min(2 * pause_s, LAST_LOOK_S)
                if self._clock.steady_s() - looked_s >= FAILURE_LOOK_S:
                    self._end_failed_calls()
                    looked_s = self._clock.steady_s()
            except Exception as error:  # the thread must not end before the calls do
                is_temporary = isinstance(error, OSError) and not isinstance(error, FileNotFoundError)
                if not is_temporary:  # a network filesystem may recover, a removed folder does not
                    self._end_all_calls(error)
        self._remove_folder_if_idle()

    def _has_calls_after_pause(self, pause_s: float) -> bool:
        """Say after a pause whether there are unfinished calls; if not, end the thread."""
        with self._changed:
            self._changed.wait_for(lambda: not self._has_unfinished_calls, pause_s)
            if not self._has_unfinished_calls:
                del self._threads[self._collect_outcomes]
            return self._has_unfinished_calls

    @property
    def _has_unfinished_calls(self) -> bool:
        return bool(self._unsent or self._sent)

    def _end_calls_with_outcome(self) -> bool:
        """Mark started calls as running; complete the calls that have an outcome, and say whether there were any."""
        for number in self._folder.list_started_calls():
            future = self._sent.get(number)
            if future and not future.running():
                future.set_running_or_notify_cancel()
        numbers = self._folder.list_calls_with_outcome()
        for number in numbers:
            self._complete_future_of_call(number, self._folder.read_and_remove_outcome(number))
        return bool(numbers)

    def _end_failed_calls(self) -> None:
        with suppress(GridbridgeError):  # unreadable published files are read again later
            for number, error in self._campaigns.find_failed_calls().items():
                self._complete_future_of_call(number, ExecutorCallOutcome(error=error))
            self._campaigns.log_new_delays()

    def _end_all_calls(self, error: Exception) -> None:
        with self._changed:
            self._sent |= self._unsent
            self._unsent.clear()
            calls = [*self._sent]
        for number in calls:
            self._complete_future_of_call(number, ExecutorCallOutcome(error=error))

    def _complete_future_of_call(self, number: int, outcome: ExecutorCallOutcome) -> None:
        with self._changed:
            future = self._sent.pop(number, None)
            if future:
                self._campaigns.record_finished_call(number)
                self._changed.notify_all()
        if not future or not (future.running() or future.set_running_or_notify_cancel()):
            return
        if outcome.error is not None:
            future.set_exception(outcome.error)
        else:
            future.set_result(outcome.value)

    def _remove_folder_if_idle(self) -> None:
        with self._removal:
            with self._changed:
                if not self._is_closed or self._has_unfinished_calls or self._is_removed:
                    return
                self._is_removed = True
            self._folder.remove()
            if self._has_cancelled_tasks:
                with suppress(GridbridgeError):  # without the folder these tasks end at once
                    self._campaigns.cancel_unfinished()
