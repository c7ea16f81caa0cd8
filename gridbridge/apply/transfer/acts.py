"""The acts on transfers: each reads again what it depends on, and may be repeated."""

import logging
import os

from gridbridge.apply.adapters import adapter_of, status_of
from gridbridge.apply.clusters import away
from gridbridge.apply.transfer import grants
from gridbridge.apply.transfer.home import LocalTasks
from gridbridge.batch import submitter
from gridbridge.decisions.transfer.endings import verdict_of
from gridbridge.decisions.transfer.guards import RequestAtHome
from gridbridge.errors import NotOurs, StateError
from gridbridge.model.ids import TransferId
from gridbridge.model.job import JobEnd
from gridbridge.model.message import Cause, Message, Outcome, encode, short
from gridbridge.model.places import AS_USER, NOT_OURS, PUBLISHED, SPOOL
from gridbridge.model.policy import Policy
from gridbridge.model.route import Away
from gridbridge.model.transfer.claim import name_of
from gridbridge.model.transfer.plan import Act, Action, Orphan
from gridbridge.model.transfer.transfer import Transfer
from gridbridge.shell import files
from gridbridge.shell.runner import run
from gridbridge.state import claims, published, spool

SUDO = ("/usr/bin/sudo", "-n", AS_USER)
AS_USER_ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
UNLISTED = 0o711  # mode of a folder in which people open files whose names they know
PATIENCE_S = 60.0  # gridbridge-as-user limits each of its own commands

_log = logging.getLogger(__name__)


class Acts:
    """Carries out actions; the slow ones are called from a thread of their own."""

    def __init__(self, policy: Policy, folder: str = PUBLISHED, spool: str = SPOOL) -> None:
        self._policy = policy
        self._folder = folder
        self._spool = spool

    def follow(self, policy: Policy) -> None:
        """Obey a changed configuration from now on."""
        self._policy = policy

    def publish(self, action: Action) -> None:
        """Show the verdict and wake the starter that waits for it."""
        transfer = action.transfer
        if action.verdict:
            path = published.verdict_path(transfer.name, transfer.uid, self._folder)
            put(path, encode(action.verdict), UNLISTED)
        spool.wake(transfer.wake, self._spool, owner=transfer.uid)

    def reply(self, wake: str, uid: int, answer: Message) -> None:
        """Answer a restarted task's question and wake its starter; answers are limited."""
        if published.count_verdicts(uid, self._folder) < self._policy.poller.spool_files_per_uid:
            put(published.reply_path(wake, uid, self._folder), encode(answer), UNLISTED)
            spool.wake(wake, self._spool, owner=uid)

    def hide_names(self) -> None:
        """Let nobody list the answers to people: they bear the names of FIFOs."""
        published.hide_verdicts(UNLISTED, self._folder)

    def is_asleep(self, transfer: Transfer) -> bool:
        """Say whether a starter sleeps for a transfer."""
        return spool.is_asleep(transfer.wake, transfer.uid, self._spool)

    def retract(self, name: str, uid: int) -> None:
        """Remove a verdict: its transfer is over."""
        files.remove(published.verdict_path(name, uid, self._folder))

    def tidy(self, closed: Transfer) -> None:
        """Remove the verdict and the FIFO of a transfer that is over; may be repeated."""
        self.retract(closed.name, closed.uid)
        spool.remove_wake(closed.wake, self._spool)

    def sweep(self, open_transfers: frozenset[str], until: float) -> None:
        """Remove the answers that nobody fetched, and what nobody finished, until that time."""
        published.sweep(open_transfers, until, self._folder)

    def far(self, action: Action) -> Message | None:
        """Carry out an act that needs a cluster; a verdict comes back when one was learned."""
        if action.act is Act.DELETE_REMOTE:
            self._delete(action)
        elif action.act is Act.RELEASE_LOCAL:
            self._home.release(action)
        elif action.act is Act.ADOPT_LOCAL:
            self._home.adopt(action)
        elif action.act is Act.GUARD_LOCAL:
            self._home.guard(action)
        elif action.act is Act.UNPIN:
            self._home.unpin(action)
        elif action.act is Act.LOOK_UP_END:
            return self._look_up_end(action)
        elif action.act is Act.GIVE_UP:
            return self._give_up(action)
        return None

    @property
    def _home(self) -> LocalTasks:
        """The local cluster's tasks; ConfigError where nothing is to be done at one."""
        return LocalTasks(self._policy)

    def check_home(self, transfer: Transfer) -> None:
        """Raise GridbridgeError when no queue at home could run a transfer's job."""
        self._home.check(transfer)

    def requests_at_home(self, jobs: tuple[int, ...]) -> dict[int, RequestAtHome]:
        """Return what these local jobs ask for now; a job that is gone is left out."""
        return self._home.requests(jobs)

    def deferred_at_home(self) -> frozenset[int]:
        """Return the local jobs that wait for their start time."""
        return self._home.deferred()

    def free_copy(self, job: int) -> None:
        """Remove our start time and list of queues from a copy of a job that is away."""
        copy = TransferId(cluster=self._policy.site.cluster, job=job, task=0, attempt=0)
        self._home.free_copy(copy)

    def accounts(self, cluster: str, jobs: tuple[int, ...]) -> dict[int, str]:
        """Return the accounts of jobs at a cluster; those that are gone are left out."""
        where = away(self._policy, cluster)
        system = adapter_of(where).tells_accounts
        return system.accounts_of(where, jobs) if system else {}

    def delete_orphan(self, orphan: Orphan) -> None:
        """Delete a held job under a transfer's name, as operator: no record proves its owner."""
        where = away(self._policy, orphan.cluster)
        if any(
            found.name == orphan.name and found.account == orphan.name
            for found in status_of(where).details(where, orphan.job_id)
        ):
            submitter(where).delete(where, str(orphan.job_id))

    def unstage(self, transfer: Transfer) -> None:
        """Remove the files that were carried to another cluster for a transfer that is over."""
        _as_owner("unstage", transfer)

    def take_claim(self, transfer: Transfer) -> bool:
        """Take a claim that is a file, for home; False when the job has it."""
        return claims.take(name_of(transfer.claim, transfer.uid), transfer.uid, self._spool)

    def remove_claim(self, transfer: Transfer) -> None:
        """Remove a claim that is a file."""
        claims.remove(name_of(transfer.claim, transfer.uid), self._spool)

    def sweep_claims(self, known: frozenset[str], now_s: float) -> None:
        """Remove the claims of jobs that no transfer knows."""
        claims.sweep(known, now_s, self._spool)

    def give_grants(self, cluster: str, transfers: tuple[Transfer, ...]) -> None:
        """Make grants at another cluster; may be repeated."""
        names = tuple(name_of(one.claim, one.uid) for one in transfers)
        grants.give(away(self._policy, cluster), names)

    def remove_grant(self, transfer: Transfer) -> None:
        """Remove a grant of a job that is gone."""
        grants.remove(away(self._policy, transfer.remote), name_of(transfer.claim, transfer.uid))

    def _delete(self, action: Action) -> None:
        """Delete the remote job as its owner; a person whose site is embedded is nobody else."""
        if self._policy.is_personal:
            _delete_own(away(self._policy, action.transfer.remote), action.transfer)
        else:
            _as_owner("delete", action.transfer)

    def _give_up(self, action: Action) -> Message:
        """Delete a job in error state and learn why it got there."""
        transfer = action.transfer
        where = away(self._policy, transfer.remote)
        found = status_of(where).details(where, transfer.remote_id)
        reasons = [error for detail in found for error in detail.errors]
        self._delete(action)
        reason = short("; ".join((action.why, *reasons[:1])))
        return _error(transfer, Cause.BLOCKED, reason)

    def _look_up_end(self, action: Action) -> Message | None:
        """Read the end from the remote accounting; None while there is no record of it."""
        transfer = action.transfer
        where = away(self._policy, transfer.remote)
        end = status_of(where).end(where, transfer.remote_id, transfer.name)
        return self.judge(end, transfer) if end else None

    def judge(self, end: JobEnd, transfer: Transfer) -> Message:
        """Return the verdict that an end stands for; home says whether a lost job runs again."""
        if end.is_unseen and not transfer.rerun:
            transfer = transfer.but(rerun=self._home.rerun(transfer))
        return verdict_of(transfer, end)


def _as_owner(verb: str, transfer: Transfer) -> None:
    """Let gridbridge-as-user act for a transfer's owner; CommandFailed when it did not.

    Raises NotOurs when the id of its job is another job's by now.
    """
    done = run((*SUDO, verb, os.path.basename(transfer.record)), AS_USER_ENV, PATIENCE_S)
    if done.status == NOT_OURS:
        raise NotOurs(done.stderr.decode("utf-8", "replace").strip())
    done.checked()


def _delete_own(where: Away, transfer: Transfer) -> None:
    """Delete a remote job of our own, if it is still this transfer's."""
    far, job = submitter(where), str(transfer.remote_id)
    if far.owner_and_account(where, job)[1] == transfer.name:
        far.delete(where, job)


def no_trace(action: Action) -> Message:
    """Return the verdict on a job that the other cluster neither lists nor accounts for."""
    transfer = action.transfer
    reason = f"{transfer.remote} has no trace of job {transfer.remote_id}"
    return _error(transfer, Cause.VANISHED, reason)


def disputed(action: Action) -> Message:
    """Return the verdict on a job of which the other cluster's records tell different ends."""
    transfer = action.transfer
    reason = f"two records of job {transfer.remote_id} at {transfer.remote} disagree on its end"
    return _error(transfer, Cause.DISPUTED, reason)


def _error(transfer: Transfer, cause: str, reason: str) -> Message:
    return Message(transfer=transfer.name, outcome=Outcome.ERROR, cause=cause, reason=reason)


def put(path: str, data: bytes, mode: int = 0o755) -> None:
    """Publish a file, making its folder the first time, with this mode."""
    try:
        files.replace(path, data, durable=False)
    except StateError:
        _make_folder(os.path.dirname(path), mode)
        files.replace(path, data, durable=False)


def _make_folder(path: str, mode: int) -> None:
    try:
        os.makedirs(path, mode=mode, exist_ok=True)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
