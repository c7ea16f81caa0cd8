"""gridbridge-as-user VERB RECORD: do one thing to a remote job as the owner of its record.

Run as root by the service account through one sudoers line. It takes the name of a spool record,
never a command. It acts as the owner of that file, never as root or a system account, and the
remote job must be that person's and bear the record's transfer as its account. Exit status: 0 done,
1 failed, 2 refused, 3 the job of that id is not this transfer's.
"""

import os
import pwd
import resource
import select
import sys
import tomllib
from typing import NoReturn

from gridbridge.batch import submitter
from gridbridge.errors import GridbridgeError, NotOurs, Untrusted
from gridbridge.model import message
from gridbridge.model.configured import away
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import Kind, Message
from gridbridge.model.places import CONFIG, NOT_OURS, SPOOL
from gridbridge.model.route import Away
from gridbridge.shell import files, folder, trust
from gridbridge.shell.runner import SIGKILL
from gridbridge.state import spool

CONFIG_MAX_BYTES = 1 << 20
FAILED, REFUSED = 1, 2
LIMIT_S = 45  # less than the service waits
MIN_UID = 1000  # the configuration may say another
VERBS = {
    "hold": "hold",
    "release": "release",
    "suspend": "suspend_any",
    "resume": "resume_any",
    "delete": "delete",
    "unstage": "",  # removes the transfer's own folder
}


class Refused(GridbridgeError):
    """A request that this program carries out for nobody."""


def main() -> None:
    """Do what the two arguments ask; one line on standard error when that is refused."""
    os.umask(0o077)
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        perform(sys.argv[1:])
    except (GridbridgeError, OSError) as error:
        os.write(2, f"gridbridge-as-user: {str(error)[:1000]}\n".encode("utf-8", "replace"))
        os._exit({NotOurs: NOT_OURS, Refused: REFUSED, Untrusted: REFUSED}.get(type(error), FAILED))


def perform(arguments: list[str]) -> NoReturn:
    """Check everything; in a process of its own become the owner, check the remote job, act."""
    if len(arguments) != 2 or arguments[0] not in VERBS:
        raise Refused(f"usage: gridbridge-as-user {'|'.join(VERBS)} RECORD")
    verb, name = arguments
    config = read_config(CONFIG)
    record, uid = read_record(name)
    if uid < max(1, _number(config.get("site", {}).get("min_uid", MIN_UID))):
        raise Refused(f"{name}: nothing is done as uid {uid}")
    cluster = remote_cluster(config, record)
    if child := os.fork():
        watch(child)
    person = become(uid)
    remote = away(cluster, record.remote, person)
    if verb == "unstage":
        folder.remove_own(remote.login, record.stage, record.transfer, LIMIT_S)
        os._exit(0)
    adapter, owner = submitter(remote), remote.login.user if remote.login else person
    remote_id = record.remote_id or adapter.find_held(remote, record.transfer, owner)
    if remote_id and is_theirs(remote, remote_id, owner, record.transfer):
        getattr(adapter, VERBS[verb])(remote, remote_id)
    os._exit(0)


def watch(child: int, limit_s: float = LIMIT_S) -> NoReturn:
    """End as the child ends; the owner can stop the child, so its time is limited here."""
    poll = select.poll()
    poll.register(os.pidfd_open(child), select.POLLIN)
    if not poll.poll(limit_s * 1000):
        os.kill(child, SIGKILL)
        raise GridbridgeError(f"not done within {limit_s} s")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(status if status >= 0 else FAILED)


def read_config(path: str) -> "dict[str, dict[str, object]]":
    """Read the configuration; only root may have written it."""
    trust.require(path)
    try:
        return tomllib.loads(files.read(path, CONFIG_MAX_BYTES, owner=trust.ROOT)[0].decode())
    except (OSError, ValueError, GridbridgeError) as error:
        raise Refused(f"{path}: {error}") from error


def read_record(name: str) -> tuple[Message, int]:
    """Return a spool record and the uid that owns it."""
    unique = name.removeprefix(spool.MESSAGE)
    if unique == name or not (unique.isascii() and unique.isalnum()):
        raise Refused(f"{name!r} is no name of a spool record")
    try:
        data, facts = files.read(f"{SPOOL}/{name}", message.MAX_BYTES)
        record = message.decode(data)
        parse_transfer(record.transfer)
    except (OSError, GridbridgeError) as error:
        raise Refused(f"{name}: {error}") from error
    remote_id = record.remote_id or "0"
    if record.kind != Kind.RECORD or not (remote_id.isascii() and remote_id.isdigit()):
        raise Refused(f"{name}: not a starter's record")
    return record, facts.st_uid


def remote_cluster(config: "dict[str, dict[str, object]]", record: Message) -> dict[str, object]:
    """Return the cluster that the record names, which root has configured."""
    cluster = config.get("cluster", {}).get(record.remote)
    if not isinstance(cluster, dict) or record.remote == config.get("site", {}).get("cluster"):
        raise Refused(f"{CONFIG}: no remote cluster {record.remote!r}")
    return cluster


def become(uid: int) -> str:
    """Become that person, with their groups, for ever; return their login name."""
    try:
        person = pwd.getpwuid(uid)
    except KeyError as error:
        raise Refused(f"uid {uid} has no account") from error
    os.initgroups(person.pw_name, person.pw_gid)
    os.setresgid(person.pw_gid, person.pw_gid, person.pw_gid)
    os.setresuid(uid, uid, uid)
    return person.pw_name


def is_theirs(remote: Away, remote_id: str, theirs: str, transfer: str) -> bool:
    """Refuse a job that is another's, or not of this transfer; False when it is gone already."""
    owner, account = submitter(remote).owner_and_account(remote, remote_id)
    if owner and (owner, account) != (theirs, transfer):
        raise NotOurs(f"job {remote_id} is {owner}'s, account {account!r}: not {transfer}")
    return bool(owner)


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else MIN_UID
