"""Claim files in the shared spool: a claim belongs to its first creator.

Creating a missing name is atomic, on NFS, too (open(2), O_EXCL; symlink(2)). The home cluster's
claim is a symlink to itself, which can't be opened. The remote job's claim is a file that the
wrapper creates as the owner. A claim's name begins with the owner's uid, and a file of any other
uid is no claim. The service owns the folder and removes both kinds of claim.
"""

import os
import stat
from collections.abc import Container
from contextlib import suppress

from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.batch.remote_job_claim_script import GRANTS
from gridbridge.errors import ParseError, StateError
from gridbridge.model.fixed_paths import SPOOL
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.claim import FOLDER, NOT_SERVICES, claim_file_name, claim_key_file
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.model.transfer_route import BARE, Away
from gridbridge.shell import safe_files, ssh
from gridbridge.state.spool_reader import ResumableFolderScan

MAX_AGE_S = 86400  # age at which a job's claim without a known transfer is removed
# Jobs of other users must see a grant. A waiting job can't tell a hidden grant from a missing one.
GIVE = f"""umask 022
mkdir -p {GRANTS} && chmod a+x .gridbridge && chmod a+rx {GRANTS} || exit
case $(ls -ld .) in
    ?????????[xt]*) ;;
    *) echo "$PWD has to let jobs pass to {GRANTS}: chmod a+x" >&2; exit 1 ;;
esac
for name; do true >"{GRANTS}/$name" || exit; done"""
REMOVE = f'rm -f -- "{GRANTS}/$1"'


def take_home_claim(name: str, uid: int, spool: str = SPOOL) -> bool:
    """Take a claim for home, repeatably; False if the remote job has the claim.

    Raises StateError when the claim's holder can't be found out.
    """
    path = f"{spool}/{FOLDER}/{name}"
    try:
        _refuse_foreign(f"{spool}/{FOLDER}")
        os.symlink(name, path)
    except FileExistsError:
        return _is_homes(path, uid)
    except OSError as error:
        raise StateError(f"{_shown(path)}: {error.strerror}") from error
    return True


def _shown(path: str) -> str:
    """Return a claim file's path for messages, without the secret part of its name."""
    return f"{path[: -len(path.rpartition('.')[2]) // 2]}..."


def _is_homes(path: str, uid: int) -> bool:
    try:
        facts = os.lstat(path)
    except OSError as error:
        raise StateError(f"{_shown(path)}: {error.strerror}") from error
    is_link = stat.S_ISLNK(facts.st_mode)
    if facts.st_uid != (os.geteuid() if is_link else uid):
        raise StateError(f"{_shown(path)}: made by uid {facts.st_uid}, which may not claim")
    return is_link


def _refuse_foreign(folder: str) -> None:
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise StateError(f"{folder}: {NOT_SERVICES}")


def remove_claim(name: str, spool: str = SPOOL) -> None:
    """Remove the claim file of a remote job that can't run any more."""
    try:
        safe_files.remove_file(f"{spool}/{FOLDER}/{name}")
    except OSError as error:
        raise StateError(f"{_shown(f'{spool}/{FOLDER}/{name}')}: {error.strerror}") from error


def remove_old_claim_files(
    claimed: Container[str], now_s: float, spool: str = SPOOL, names: ResumableFolderScan | None = None
) -> None:
    """Remove old claim files of remote jobs without a known transfer, but no home claim.

    A home claim fences a late remote job. The next sweep with the same `names` continues.
    """
    try:
        _refuse_foreign(f"{spool}/{FOLDER}")
        entries = (names or ResumableFolderScan()).take(f"{spool}/{FOLDER}")
        strange = [entry.path for entry in entries if entry.name not in claimed]
    except (OSError, StateError):
        return  # the folder is missing if no cluster uses claims
    for path in strange:
        with suppress(OSError):  # the claim's owner may have removed the file
            _remove_old(path, now_s)


def _remove_old(path: str, now_s: float) -> None:
    facts = os.lstat(path)
    is_homes = stat.S_ISLNK(facts.st_mode) and facts.st_uid == os.geteuid()
    is_file = not stat.S_ISDIR(facts.st_mode)
    if is_file and not is_homes and facts.st_ctime < now_s - MAX_AGE_S:
        safe_files.remove_file(path)


def create_remote_grant_files(remote: Away, names: tuple[str, ...]) -> None:
    """Create grant files at a remote cluster; CommandFailed unless all files exist."""
    _ask(remote, GIVE, names)


def remove_remote_grant_file(remote: Away, name: str) -> None:
    """Remove a grant file at a remote cluster; safe to repeat."""
    _ask(remote, REMOVE, (name,))


def _ask(remote: Away, script: str, names: tuple[str, ...]) -> None:
    if not all(name.isascii() and name.replace(".", "0").isalnum() for name in names):
        raise ParseError(f"{names!r}: expected names of grants")
    argv = ("/bin/sh", "-c", script, "sh", *names)
    ssh.run_over_ssh(remote.login, argv, dict(BARE), remote.timeout_s).checked()


class ClaimAndGrantFiles:
    """The files of claims and grants, which decide whether a remote job may run."""

    def __init__(self, policy: Policy, spool: str = SPOOL) -> None:
        self._policy = policy
        self._spool = spool
        self._names = ResumableFolderScan()

    @property
    def is_amid_sweep(self) -> bool:
        """Whether a sweep of the claims folder is unfinished and goes on in the next sweep."""
        return self._names.is_amid

    def follow(self, policy: Policy) -> None:
        """Apply a changed gridbridge.toml to later acts on claims."""
        self._policy = policy

    def take(self, transfer: Transfer) -> bool:
        """Take a transfer's claim for home; False if the remote job has the claim."""
        return take_home_claim(claim_file_name(transfer.claim, transfer.uid), transfer.uid, self._spool)

    def remove(self, transfer: Transfer) -> None:
        """Remove a transfer's claim key, so that no job takes the claim, then its file."""
        remove_claim(claim_key_file(transfer.claim, transfer.uid)[0], self._spool)
        remove_claim(claim_file_name(transfer.claim, transfer.uid), self._spool)

    def sweep(self, claimed: frozenset[str], now_s: float) -> None:
        """Remove the claim files of jobs without a known transfer."""
        remove_old_claim_files(claimed, now_s, self._spool, self._names)

    def give_grants(self, cluster: str, transfers: tuple[Transfer, ...]) -> None:
        """Make the grants of transfers at a remote cluster; safe to repeat."""
        names = tuple(claim_file_name(transfer.claim, transfer.uid) for transfer in transfers)
        create_remote_grant_files(configured_cluster_address(self._policy, cluster), names)

    def remove_grant(self, transfer: Transfer) -> None:
        """Remove the grant file of a remote job that is gone."""
        remove_remote_grant_file(
            configured_cluster_address(self._policy, transfer.remote), claim_file_name(transfer.claim, transfer.uid)
        )
