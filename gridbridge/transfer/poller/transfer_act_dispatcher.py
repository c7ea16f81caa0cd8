"""Run acts that need a cluster in threads; no act runs twice at the same time."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

from gridbridge.decisions.transfer.remote_accounting_verdicts import home_verdict_from_accounting
from gridbridge.errors import ConflictingRemoteJobEnds, GridbridgeError, RemoteJobNotOurs, describe_error
from gridbridge.model.transfer.transfer_round_plan import TransferAction, TransferActKind
from gridbridge.model.transfer.transfer_row import Transfer, TransferKey
from gridbridge.model.transfer_message import TransferMessage, shorten_reason_for_storage
from gridbridge.program.jobs_of_removed_accounts import OwnerlessJobNotDeleted
from gridbridge.program.work.backoff import BackoffBySubject
from gridbridge.program.work.thread_pools import OwnerThreadPools
from gridbridge.transfer.acts.remote_jobs import TransferActRunner
from gridbridge.transfer.poller.usage_records import RemoteUsageService

AGAIN_S = 2.0  # first pause before a failed act is retried; each retry doubles the pause
LONGEST_S = 60.0  # longest pause before a failed act is retried

Name = tuple[TransferActKind, str, int]

_log = logging.getLogger(__name__)


class TransferActDispatcher:
    """The acts that threads do for transfers now, and the pauses of failed acts."""

    def __init__(
        self,
        acts: TransferActRunner,
        workers: OwnerThreadPools,
        usage_records: RemoteUsageService,
        clock: Callable[[], float],
    ) -> None:
        self._acts = acts
        self._workers = workers
        self._usage_records = usage_records
        self._clock = clock
        self._backoff = BackoffBySubject(clock)  # pauses between look-ups of a job's end
        self._failing: dict[Name, BackoffBySubject] = {}  # pauses of acts whose last run failed
        self.disputed: set[TransferKey] = set()  # transfers with conflicting ends
        self.not_ours: list[Transfer] = []  # transfers whose remote job id is another job's
        self.not_deleted: list[tuple[Transfer, str]] = []  # owner's account is gone
        self.open: dict[Name, tuple[TransferAction, Future[TransferMessage | None]]] = {}

    def may_begin(self, action: TransferAction) -> bool:
        """Return whether an act's retry pause is over and no thread is doing the act.

        Look-ups of a job's end and failed acts are retried after growing pauses.
        """
        name = _name(action)
        failing = self._failing.get(name)
        if name in self.open or (failing and not failing.may_try(name)):
            return False
        return action.act is not TransferActKind.LOOK_UP_END or self._backoff.may_try(action.transfer.key)

    def begin(self, action: TransferAction) -> None:
        """Start an act in a thread; a job's end known from accounting needs no query."""
        self.open[_name(action)] = action, self._future(action)

    def take_done(self) -> Iterator[tuple[TransferAction, TransferMessage | None]]:
        """Yield each finished act, with the job's end if found; log failed acts."""
        for name in [name for name, (_, future) in self.open.items() if future.done()]:
            action, future = self.open.pop(name)
            try:
                verdict = future.result()
            except ConflictingRemoteJobEnds as error:
                _log.warning("event=disputed_end name=%s why=%r", action.transfer.name, str(error))
                self.disputed.add(action.transfer.key)
                yield action, None
            except RemoteJobNotOurs as error:
                _log.warning("event=not_ours act=%s why=%r", action.act.value, shorten_reason_for_storage(str(error)))
                self.not_ours.append(action.transfer)
                self._pause(name)
            except OwnerlessJobNotDeleted as error:
                self.not_deleted.append((action.transfer, str(error)))
                self._pause(name)
            except (GridbridgeError, OSError) as error:
                _log.warning(
                    "event=failed act=%s why=%r", action.act.value, shorten_reason_for_storage(describe_error(error))
                )
                self._pause(name)
            except Exception:  # a fault in one act must not stop the round
                _log.exception("event=fault act=%s name=%s", action.act.value, action.transfer.name)
                self._pause(name)
            else:
                self._failing.pop(name, None)
                yield action, verdict

    def forget(self, transfer: TransferKey) -> None:
        """Forget a transfer's retry pauses, so that the transfer's next act begins at once."""
        self.disputed.discard(transfer)
        self._backoff.forget(transfer)
        for act in TransferActKind:
            self._failing.pop((act, *transfer), None)

    def recover(self) -> None:
        """Forget the retry pauses of all failed acts, as a silent cluster answers again."""
        self._failing.clear()

    def _pause(self, name: Name) -> None:
        """Pause a failed act before its retry, except the release of a local task."""
        if name not in self._failing and name[0] is not TransferActKind.RELEASE_LOCAL:
            self._failing[name] = BackoffBySubject(self._clock, AGAIN_S, LONGEST_S)
            self._failing[name].may_try(name)

    def _future(self, action: TransferAction) -> "Future[TransferMessage | None]":
        is_sought = action.act is TransferActKind.LOOK_UP_END
        try:
            end = self._usage_records.end(action.transfer) if is_sought else None
        except ConflictingRemoteJobEnds as error:
            return _failed(error)
        if end is None and is_sought and self._usage_records.tells(action.transfer):
            return _completed(None)
        if end is None:
            return self._workers.do(action.transfer.owner, self._acts.far, action)
        if end.is_unseen:
            judge = partial(self._acts.judge, end)
            return self._workers.do(action.transfer.owner, judge, action.transfer)
        return _completed(home_verdict_from_accounting(action.transfer, end))


def _completed(verdict: TransferMessage | None) -> Future[TransferMessage | None]:
    future: Future[TransferMessage | None] = Future()
    future.set_result(verdict)
    return future


def _failed(error: Exception) -> Future[TransferMessage | None]:
    failed: Future[TransferMessage | None] = Future()
    failed.set_exception(error)
    return failed


def _name(action: TransferAction) -> Name:
    return (action.act, *action.transfer.key)
