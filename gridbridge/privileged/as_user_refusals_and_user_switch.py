"""Steps that all requests of gridbridge-as-user share: as root up to `switch_to_user`, then as owner."""

import os
import pwd
import select
import tomllib
from typing import NoReturn

from gridbridge import errors
from gridbridge.errors import GridbridgeError, RemoteJobNotOurs, StateError, describe_error, error_on_one_line
from gridbridge.model import fixed_paths
from gridbridge.privileged import process_scope
from gridbridge.privileged.process_scope import FIRST_SIGNAL, UserProcessScope
from gridbridge.shell import safe_files

FAILED, REFUSED = 1, 2
LIMIT_S = 45  # time limit of a request, less than the service's timeout for gridbridge-as-user
MIN_UID = 1000  # default of key min_uid in [site]
# Reading a user's JSON file may raise these exceptions.
UNREADABLE = (OSError, StateError, ValueError, KeyError, TypeError, RecursionError)


class AsUserRequestRefusal(GridbridgeError):
    """Raised for a request that gridbridge-as-user refuses to every caller."""


class MissingUserAccount(AsUserRequestRefusal):
    """Raised if the name service finds no account for a uid now."""


class JobNeverAcceptedByCluster(GridbridgeError):
    """Raised for a job that the cluster will never accept."""


class OwnerRequestNotYetPossible(GridbridgeError):
    """Raised for a request that is not possible yet; the request had no effect, and a later call may succeed."""


class OwnerAccountUnavailable(OwnerRequestNotYetPossible):
    """Raised if the name service does not find the request's owner now; the request had no effect."""


STATUS = {
    AsUserRequestRefusal: REFUSED,
    MissingUserAccount: REFUSED,
    errors.FileWritableByOthers: REFUSED,
    errors.CampaignFileChanged: REFUSED,
    errors.SpeculativeCopyRefusal: REFUSED,
    errors.CampaignEndInRootLedger: fixed_paths.HAS_ENDED,
    OwnerRequestNotYetPossible: fixed_paths.NOT_NOW,
    errors.CampaignFileUnreadable: fixed_paths.NO_FILE,
    JobNeverAcceptedByCluster: fixed_paths.REFUSED_THERE,
    RemoteJobNotOurs: fixed_paths.NOT_OURS,
    errors.ArrayTasksAlreadyInLedger: fixed_paths.SUBMITTED_BEFORE,
    OwnerAccountUnavailable: fixed_paths.NO_OWNER,
    errors.RootLedgerUnreadable: fixed_paths.NO_LEDGER,
    errors.MasterDeposed: fixed_paths.DEPOSED,
}


def print_as_user_error_and_exit(error: Exception) -> NoReturn:
    os.write(2, f"gridbridge-as-user: {limited_error_line(error)}\n".encode("utf-8", "replace"))
    os._exit(exit_status_of_as_user_error(error))


def limited_error_line(error: Exception) -> str:
    """Return an error's text in one line of at most 1000 characters."""
    return error_on_one_line(error)[:1000]


def exit_status_of_as_user_error(error: Exception) -> int:
    return STATUS.get(type(error), FAILED)


def read_root_configuration(path: str) -> "dict[str, dict[str, object]]":
    """Read the configuration; raise AsUserRequestRefusal for a file that others than root can write."""
    owner = safe_files.required_trusted_file_owner()
    if owner is not None:
        safe_files.require_trusted_path(path)
    try:
        return tomllib.loads(safe_files.read_file_only_owner_writes(path, 1 << 20, owner)[0].decode())
    except (OSError, ValueError, GridbridgeError) as error:
        raise AsUserRequestRefusal(f"{path}: {describe_error(error)}") from error


def require_ordinary_account(config: "dict[str, dict[str, object]]", file: str, uid: int) -> None:
    """Raise AsUserRequestRefusal for root and for system accounts (uid below [site] min_uid)."""
    least = config.get("site", {}).get("min_uid")
    if uid < max(1, int(least) if isinstance(least, int | float) else MIN_UID):
        raise AsUserRequestRefusal(f"{file}: uid {uid} is not an ordinary account")


def require_existing_account(uid: int) -> None:
    """Raise OwnerAccountUnavailable for a uid without an account; callers check this before any act."""
    try:
        pwd.getpwuid(uid)
    except KeyError as error:
        raise OwnerAccountUnavailable(f"uid {uid} has no account") from error


def switch_to_user(uid: int) -> str:
    """Switch this process to a user and the user's groups for good; return the login name.

    Only root can switch. A process that already runs as the user is not changed.
    """
    try:
        person = pwd.getpwuid(uid)
    except KeyError as error:
        raise MissingUserAccount(f"uid {uid} has no account") from error
    if os.geteuid() == uid:
        return person.pw_name
    os.initgroups(person.pw_name, person.pw_gid)
    os.setresgid(person.pw_gid, person.pw_gid, person.pw_gid)
    os.setresuid(uid, uid, uid)
    process_scope.limit_user_processes()
    return person.pw_name


def continue_in_time_limited_child(limit_s: float = LIMIT_S) -> None:
    """Continue in a child process with its own scope; the parent exits with the child's status."""
    child = UserProcessScope(limit_s)
    if child.pid:
        exit_with_child(child, limit_s)


def exit_with_child(child: UserProcessScope, limit_s: float = LIMIT_S) -> NoReturn:
    """Exit with a child's status; the parent limits the child's time, because the user can suspend the child."""
    poll = select.poll()
    poll.register(os.pidfd_open(child.pid), select.POLLIN)
    if not poll.poll(limit_s * 1000):
        child.kill_scope_processes()
        raise GridbridgeError(f"the request was not done within {limit_s} s")
    status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
    if status < 0 or status > FIRST_SIGNAL:
        raise GridbridgeError(f"the process was ended by signal {abs(status) % FIRST_SIGNAL}")
    os._exit(status)


def environment_of_person(name: str, home: str) -> dict[str, str]:
    return {"HOME": home, "USER": name, "LOGNAME": name, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


def require_owned_remote_job(job: str, owner_and_account: tuple[str, str], expected: tuple[str, str]) -> bool:
    """Say whether a job was found; raise RemoteJobNotOurs if the job has another owner or account (qsub -A)."""
    if owner_and_account[0] and owner_and_account != expected:
        (owner, account), (theirs, name) = owner_and_account, expected
        raise RemoteJobNotOurs(f"job {job} of {owner} has account {account!r}; expected account {name} of {theirs}")
    return bool(owner_and_account[0])
