"""Decide whether a task runs at home or remotely: the side that holds the claim runs the task.

A claim is a file that belongs to its first creator: creating a missing name is atomic, even on NFS (open(2), O_EXCL;
symlink(2)). Home's claim is a symlink to itself; the remote job's wrapper script creates a file. Without a shared spool
a remote job needs a grant from home, which is stored in the state file before the poller sends it.
"""

import logging
import os
import stat
from collections.abc import Container
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.batch.remote_job_claim_script import GRANTS
from gridbridge.decisions.transfer.recall_policy import does_job_wait_for_claim_grant
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation
from gridbridge.errors import ParseError, StateError
from gridbridge.model.fixed_paths import SPOOL
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer import claim_and_guard
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferKey
from gridbridge.model.transfer_messages_in_spool import REQUEUE, TransferFailureCause, TransferMessage, TransferOutcome
from gridbridge.model.transfer_route import BARE, AnyClusterAccessSettings
from gridbridge.program.threads_and_backoff import BackoffBySubject, OwnerThreadPools
from gridbridge.shell import safe_files, ssh
from gridbridge.shell.clock import Clock
from gridbridge.state.spool_reader import ResumableFolderScan
from gridbridge.transfer.local_task_acts import ReloadablePollerComponent
from gridbridge.transfer.poller.transfer_ledger import TransferLedger

MAX_AGE_S = 86400  # age at which the claim file of a job without a transfer is removed
# All users must see a grant, because a job can't tell a hidden grant from a missing grant.
GRANT_SCRIPT = f"""umask 022
mkdir -p {GRANTS} && chmod a+x .gridbridge && chmod a+rx {GRANTS} || exit
case $(ls -ld .) in
    ?????????[xt]*) ;;
    *) echo "$PWD has to let jobs pass to {GRANTS}: chmod a+x" >&2; exit 1 ;;
esac
for name; do true >"{GRANTS}/$name" || exit; done"""
GRANT_REMOVAL_SCRIPT = f'rm -f -- "{GRANTS}/$1"'


def claim_task_for_home(name: str, uid: int, spool: str = SPOOL) -> bool:
    """Claim a task for home; return False if the remote job has the claim.

    Safe to repeat. Raises StateError if nobody knows which side has the claim.
    """
    path = f"{spool}/{claim_and_guard.CLAIMS_FOLDER}/{name}"
    try:
        _require_own_claims_folder(f"{spool}/{claim_and_guard.CLAIMS_FOLDER}")
        os.symlink(name, path)
    except FileExistsError:
        return _is_claim_of_home(path, uid)
    except OSError as error:
        raise StateError(f"{_claim_path_without_secret(path)}: {error.strerror}") from error
    return True


def _claim_path_without_secret(path: str) -> str:
    """Return a claim file's path for use in messages, without the secret part of the file's name."""
    return f"{path[: -len(path.rpartition('.')[2]) // 2]}..."


def _is_claim_of_home(path: str, uid: int) -> bool:
    try:
        facts = os.lstat(path)
    except OSError as error:
        raise StateError(f"{_claim_path_without_secret(path)}: {error.strerror}") from error
    is_link = stat.S_ISLNK(facts.st_mode)
    if facts.st_uid != (os.geteuid() if is_link else uid):
        made_by = f"made by uid {facts.st_uid}; expected the job's owner or the service"
        raise StateError(f"{_claim_path_without_secret(path)}: {made_by}")
    return is_link


def _require_own_claims_folder(folder: str) -> None:
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise StateError(f"{folder}: {claim_and_guard.CLAIMS_FOLDER_NOT_OWNED_BY_SERVICE}")


def remove_claim_file(name: str, spool: str = SPOOL) -> None:
    """Remove the file by which a remote job has claimed its task, once the job can't run any more."""
    path = f"{spool}/{claim_and_guard.CLAIMS_FOLDER}/{name}"
    try:
        safe_files.remove_file(path)
    except OSError as error:
        raise StateError(f"{_claim_path_without_secret(path)}: {error.strerror}") from error


def remove_claim_files_without_transfer(
    claimed: Container[str], now_s: float, spool: str = SPOOL, names: ResumableFolderScan | None = None
) -> None:
    """Remove some old claims without a transfer, but keep home's claims: a late remote job must find them."""
    try:
        _require_own_claims_folder(f"{spool}/{claim_and_guard.CLAIMS_FOLDER}")
        entries = (names or ResumableFolderScan()).list_next_folder_portion(f"{spool}/{claim_and_guard.CLAIMS_FOLDER}")
        strange = [entry.path for entry in entries if entry.name not in claimed]
    except (OSError, StateError):
        return  # no cluster uses claims
    for path in strange:
        with suppress(OSError):  # the claim file's owner may have removed the file
            _remove_claim_file_if_old(path, now_s)


def _remove_claim_file_if_old(path: str, now_s: float) -> None:
    facts = os.lstat(path)
    is_homes = stat.S_ISLNK(facts.st_mode) and facts.st_uid == os.geteuid()
    is_file = not stat.S_ISDIR(facts.st_mode)
    if is_file and not is_homes and facts.st_ctime < now_s - MAX_AGE_S:
        safe_files.remove_file(path)


def _run_grant_script(remote: AnyClusterAccessSettings, script: str, names: tuple[str, ...]) -> None:
    if not all(name.isascii() and name.replace(".", "0").isalnum() for name in names):
        raise ParseError(f"{names!r}: expected names of grants")
    argv = ("/bin/sh", "-c", script, "sh", *names)
    ssh.run_over_ssh(remote.login, argv, dict(BARE), remote.timeout_s).require_success()


class ClaimAndGrantFiles(ReloadablePollerComponent):
    """The files by which a remote job learns whether the job may run: claims at home, grants at remote clusters."""

    def __init__(self, policy: Policy, spool: str = SPOOL) -> None:
        super().__init__(policy)
        self._spool = spool
        self._names = ResumableFolderScan()

    @property
    def is_claim_file_sweep_unfinished(self) -> bool:
        return self._names.is_folder_scan_unfinished

    def claim_transfer_for_home(self, transfer: Transfer) -> bool:
        """Claim a transfer's task for home; return False if the remote job has the claim."""
        name = claim_and_guard.claim_file_name(transfer.claim, transfer.uid)
        return claim_task_for_home(name, transfer.uid, self._spool)

    def remove_claim_files(self, transfer: Transfer) -> None:
        """Remove a transfer's claim key and then its claim file, so that no remote job can claim the task."""
        key_name, _ = claim_and_guard.claim_key_file_name_and_contents(transfer.claim, transfer.uid)
        remove_claim_file(key_name, self._spool)
        remove_claim_file(claim_and_guard.claim_file_name(transfer.claim, transfer.uid), self._spool)

    def sweep_claim_files(self, claimed: frozenset[str], now_s: float) -> None:
        remove_claim_files_without_transfer(claimed, now_s, self._spool, self._names)

    def create_grant_files(self, cluster: str, transfers: tuple[Transfer, ...]) -> None:
        """Create a grant file for each remote job at the cluster, so that the job may run; safe to repeat."""
        names = tuple(claim_and_guard.claim_file_name(transfer.claim, transfer.uid) for transfer in transfers)
        _run_grant_script(configured_cluster_access(self.policy, cluster), GRANT_SCRIPT, names)

    def remove_grant_file(self, transfer: Transfer) -> None:
        name = claim_and_guard.claim_file_name(transfer.claim, transfer.uid)
        _run_grant_script(configured_cluster_access(self.policy, transfer.remote), GRANT_REMOVAL_SCRIPT, (name,))


AT_ONCE = 500  # largest number of jobs in one command
FIRST_S, LONGEST_S = 2.0, 20.0  # pause before the first retry, and longest pause before a later retry

DOUBT_S = 30.0  # a job without permission ends within this time after its wait for permission (claim_wait_s)

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class RemoteJobClaimService(ReloadablePollerComponent):
    """Decides whether home or the remote job runs a task, and permits remote jobs to run."""

    policy: Policy
    _ledger: TransferLedger
    _files: ClaimAndGrantFiles
    _workers: OwnerThreadPools
    _clock: Clock

    def __post_init__(self) -> None:
        self._backoff = BackoffBySubject(self._clock.steady_s, FIRST_S, LONGEST_S)
        self._due: dict[str, dict[TransferKey, Transfer]] = {}  # transfers with unsent permission to run, by cluster
        self._sent: dict[str, tuple[tuple[Transfer, ...], Future[None]]] = {}
        self._removing: dict[TransferKey, Future[None]] = {}

    def load_unsent_grants(self) -> None:
        """Load the grants that an earlier process may not have sent; `send_grants` sends them again."""
        for transfer in self._ledger.open_transfers():
            needs_grant = claim_and_guard.does_claim_need_home_grant(transfer.claim)
            if needs_grant and transfer.claimed == claim_and_guard.JOB and not transfer.verdict:
                self._due.setdefault(transfer.remote, {})[transfer.transfer_key] = transfer

    def record_due_grants(self, situation: TransferSituation) -> None:
        """Record a grant for each remote job that waits for its permission to run."""
        for transfer in tuple(self._ledger.open_transfers()):
            if transfer.claim and does_job_wait_for_claim_grant(transfer, situation):
                self._ledger.store_transfer(transfer.with_changes(claimed=claim_and_guard.JOB))
                self._ledger.add_history_line(transfer, f"granted: the remote job has started at {transfer.remote}")
                self._due.setdefault(transfer.remote, {})[transfer.transfer_key] = transfer

    def send_grants(self) -> None:
        """Send the recorded grants, with one command at a time for each cluster."""
        for cluster in tuple(self._sent):
            self._handle_result_of_sent_grants(cluster)
        for cluster, due in tuple(self._due.items()):
            due = {key: transfer for key, transfer in due.items() if key in self._ledger.open}
            self._due[cluster] = due
            if not due or cluster in self._sent or cluster not in self.policy.clusters:
                continue
            if self._backoff.may_try(cluster):
                batch = tuple(due.values())[:AT_ONCE]
                give = partial(self._files.create_grant_files, cluster)
                self._sent[cluster] = batch, self._workers.run_call_in_thread(f"cluster {cluster}", give, batch)

    def recall_task_by_claim(self, transfer: Transfer, why: str) -> bool:
        """Claim a waiting task for home; return False if the remote job has the claim, or may have it."""
        try:
            is_had = transfer.claimed != claim_and_guard.JOB and (
                claim_and_guard.does_claim_need_home_grant(transfer.claim)
                or self._files.claim_transfer_for_home(transfer)
            )
        except StateError as error:
            _log.warning("event=no_recall name=%s why=%r", transfer.name, str(error))
            return False
        if is_had:
            end = TransferMessage(
                transfer=transfer.name,
                outcome=TransferOutcome.REQUEUE,
                claim=claim_and_guard.HOME,
                cause=TransferFailureCause.RECALLED,
                reason=why,
            )
            now = self._clock.now()
            claimed = transfer.with_changes(claimed=claim_and_guard.HOME, verdict=end, cause=end.cause, updated_at=now)
            self._ledger.store_transfer(claimed)
            self._ledger.add_history_line(transfer, f"claimed by home: {why}")
        else:
            self._ledger.store_transfer(transfer.with_changes(claimed=claim_and_guard.JOB))
            late = f"recall: too late, the remote job at {transfer.remote} has the claim"
            self._ledger.add_history_line(transfer, late)
        return is_had

    def limit_fenced_attempts(self, transfer: Transfer, end: TransferMessage) -> TransferMessage:
        """Return a remote job's result; return an error if too many remote jobs of the task were kept from running."""
        self._log_grant_unseen_by_remote_job(transfer, end)
        queue = self.policy.queues.get(transfer.queue)
        if end.claim != claim_and_guard.FENCED or queue is None:
            return end
        before = self._ledger.attempts_of_task(transfer.name, transfer.uid)
        earlier = (attempt for attempt in before if attempt.name != transfer.name)
        times = 1 + sum(attempt.cause == TransferFailureCause.UNGRANTED for attempt in earlier)
        if times <= queue.recall_limit:
            return end
        return end.with_changes(outcome=TransferOutcome.ERROR, reason=f"{end.reason}, {times} times")

    def _log_grant_unseen_by_remote_job(self, transfer: Transfer, end: TransferMessage) -> None:
        """Log a remote job that ended without its permission to run, although the permission was sent."""
        cluster = self.policy.clusters.get(transfer.remote)
        needs_grant = claim_and_guard.does_claim_need_home_grant(transfer.claim)
        if not cluster or not needs_grant or end.exit_status != str(REQUEUE):
            return
        waited_s = float(end.wallclock_s or 0)
        if transfer.claimed == claim_and_guard.JOB and 0 <= waited_s - cluster.claim_wait_s < DOUBT_S:
            _log.warning("event=unseen_grant name=%s cluster=%s", transfer.name, transfer.remote)
            self._ledger.add_history_line(transfer, f"ended with 99 after {waited_s:.0f} s: the grant may be unseen")

    def are_claim_files_removed(self, ended_transfer: Transfer) -> bool:
        """Say whether a transfer's claim file and grant file are gone; if not, begin to remove both."""
        kind, _ = claim_and_guard.split_claim_name(ended_transfer.claim)
        if kind == claim_and_guard.FILE:
            try:
                self._files.remove_claim_files(ended_transfer)
            except StateError as error:
                _log.warning("event=failed act=remove_claim why=%r", str(error))
                return False
            return True
        is_granted = kind == claim_and_guard.GRANT and ended_transfer.claimed == claim_and_guard.JOB
        if not is_granted or ended_transfer.remote not in self.policy.clusters:
            return True
        name = ended_transfer.transfer_key
        if name not in self._removing:
            if self._backoff.may_try(name):
                self._removing[name] = self._workers.run_call_in_thread(
                    f"cluster {ended_transfer.remote}", self._files.remove_grant_file, ended_transfer
                )
            return False
        if not self._removing[name].done():
            return False
        if failure := self._removing.pop(name).exception():
            _log.warning("event=failed act=remove_grant name=%s why=%r", name[0], str(failure))
            return False
        self._backoff.forget_failed_tries(name)
        return True

    @property
    def is_claim_file_sweep_unfinished(self) -> bool:
        return self._files.is_claim_file_sweep_unfinished

    def sweep_claim_files(self) -> None:
        transfers = (*self._ledger.open_transfers(), *self._ledger.ended.values())
        claims = {(transfer.claim, transfer.uid) for transfer in transfers}
        keys = (claim_and_guard.claim_key_file_name_and_contents(*claim)[0] for claim in claims)
        names = (claim_and_guard.claim_file_name(*claim) for claim in claims)
        self._files.sweep_claim_files(frozenset({*names, *keys}), self._clock.now_s())

    def _handle_result_of_sent_grants(self, cluster: str) -> None:
        batch, sent = self._sent[cluster]
        if not sent.done():
            return
        del self._sent[cluster]
        if error := sent.exception():
            _log.warning("event=failed act=grant cluster=%s why=%r", cluster, str(error))
            return
        self._backoff.forget_failed_tries(cluster)
        for transfer in batch:
            self._due[cluster].pop(transfer.transfer_key, None)
            _log.info("event=granted name=%s cluster=%s", transfer.name, cluster)
