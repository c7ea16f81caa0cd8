"""gridbridge-as-user VERB RECORD: act on a remote job as the owner of the job's record.

The service account runs this program as root through one line in sudoers. RECORD is the name of a
file in the spool, never a command. The program acts as the owner of this file, never as root or a
system account. The remote job must belong to this owner, and have the transfer's name as account.
Exit status: 0 done, 1 failed, 2 refused, 3 the job id belongs to another job, 6 no such account.

VERB is hold, release, suspend, resume, delete or unstage. Verbs for a campaign's FILE: send-arrays
FILE CLUSTER ARRAY TASKS [ARRAY TASKS ...], send-copies FILE CLUSTER ARRAY TASKS, release-array FILE
CLUSTER ARRAY, delete-array FILE CLUSTER ARRAY [PLACES], delete-waiting FILE CLUSTER ARRAY PLACES,
add-tasks FILE CLUSTER ARRAY PLACE TASKS [PLACE TASKS ...],
list-arrays FILE, end-campaign FILE, take-up FILE REQUEST, carry-inputs FILE CLUSTER TASKS
[AT_CLUSTER], drop-inputs FILE CLUSTER, carry-checkpoints FILE CLUSTER TASKS SOURCE; bring-outputs,
drop-checkpoints, read-records and read-jobs FILE CLUSTER TASKS.
Verb notify-owner FILE WORD... runs the owner's program. With several masters, lead PROGRAM TERM HOST
records the leading one, which then names its term before each verb (term=PROGRAM.TERM); exit
status 10: another master leads. Verbs for datasets: look FILE..., verify FILE, copy FILE STORAGE
[LEAVING] and drop FILE STORAGE.

Example: sudo -n /opt/gridbridge/bin/gridbridge-as-user delete m.0123456789abcdef0123456789abcdef
"""

import os
import resource
import sys
from typing import NoReturn

from gridbridge.batch import load_submit_adapter
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model import transfer_messages_in_spool
from gridbridge.model.fixed_paths import CONFIG, MASTER_TERM, SPOOL
from gridbridge.model.transfer_messages_in_spool import TransferMessage, TransferMessageKind
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.model.transfer_route import remote_cluster_access_of_person
from gridbridge.privileged import as_user_refusals_and_user_switch as steps
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal
from gridbridge.shell import program_startup, remote_stage_folder, safe_files
from gridbridge.state import spool

VERBS = {
    "hold": "hold_job",
    "release": "release_job",
    "suspend": "suspend_or_hold_job",
    "resume": "resume_or_release_job",
    "delete": "delete_job",
    "unstage": "",  # removes the transfer's remote folder with staged files
}
LEAD = "lead"
REPLICA_VERBS = ("look", "verify", "copy", "drop")
ARRAY_VERBS = (
    *("send-arrays", "send-copies", "release-array", "delete-array", "delete-waiting", "add-tasks"),
    *("list-arrays", "end-campaign", "take-up", "carry-inputs", "drop-inputs", "bring-outputs"),
    *("carry-checkpoints", "drop-checkpoints", "read-jobs", "read-records"),
)


def main() -> None:
    """Carry out the request in the command line; print an error in one line on standard error."""
    program_startup.print_help_or_version_if_asked(__doc__)
    os.umask(0o077)
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        # a low limit of open files could truncate answers
        if (files_open := program_startup.raise_resource_limits()) < program_startup.FEWEST_FILES:
            raise steps.OwnerRequestNotYetPossible(f"the limit of open files is {files_open}; expected more")
        perform_as_user_request(sys.argv[1:])
    except (GridbridgeError, OSError) as error:
        steps.print_as_user_error_and_exit(error)


def perform_as_user_request(arguments: list[str]) -> NoReturn:
    """Check a request, then act on the remote job in a process of the job's owner."""
    is_of_master = bool(arguments) and arguments[0].startswith(MASTER_TERM)
    term, arguments = arguments[0] if is_of_master else "", arguments[is_of_master:]
    verb = arguments[0] if arguments else ""
    if term or verb in (LEAD, *ARRAY_VERBS):
        _check_master_and_perform_array_verb(term, arguments)
    if verb == "notify-owner":
        from gridbridge.privileged import notify_owner

        notify_owner.run_owner_notification_program(arguments[1:])
    if verb in REPLICA_VERBS:
        from gridbridge.privileged import as_user_replica_verbs

        as_user_replica_verbs.perform_as_user_replica_verb(arguments)
    if len(arguments) != 2 or verb not in VERBS:
        raise AsUserRequestRefusal(f"usage: gridbridge-as-user {'|'.join(VERBS)} RECORD")
    name, config = arguments[1], steps.read_root_configuration(CONFIG)
    record, uid = read_spool_record_and_owner(name)
    steps.require_ordinary_account(config, name, uid)
    cluster = configured_cluster_of_record(config, record)
    steps.require_existing_account(uid)
    steps.continue_in_time_limited_child()
    person = steps.switch_to_user(uid)
    remote = remote_cluster_access_of_person(cluster, record.remote, person)
    if verb == "unstage":
        remote_stage_folder.remove_stage_folder_of_record(remote.login, record.stage, record.transfer, steps.LIMIT_S)
        os._exit(0)
    adapter, owner = load_submit_adapter(remote), remote.account_of_user(person)
    remote_id = record.remote_id or adapter.find_held_job(remote, record.transfer, owner)
    if remote_id:
        found = adapter.query_owner_and_account(remote, remote_id)
        if steps.require_owned_remote_job(remote_id, found, (owner, record.transfer)):
            getattr(adapter, VERBS[verb])(remote, remote_id)
    os._exit(0)


def _check_master_and_perform_array_verb(term: str, arguments: list[str]) -> None:
    """Perform a verb about campaigns; raise MasterDeposed for any verb of a deposed master."""
    from gridbridge.privileged import as_user_array_verbs, master_term_check

    check = master_term_check.MasterTermCheck(term)
    if arguments[:1] == [LEAD]:
        as_user_array_verbs.print_and_exit(f"{master_term_check.record_or_show_master(arguments)}\n")
    check.require_current_term()
    if arguments and arguments[0] in ARRAY_VERBS:
        as_user_array_verbs.perform_as_user_array_verb(arguments, check.require_current_term)


def read_spool_record_and_owner(name: str) -> tuple[TransferMessage, int]:
    unique = name.removeprefix(spool.MESSAGE)
    if unique == name or not (unique.isascii() and unique.isalnum()):
        raise AsUserRequestRefusal(f"{name!r} is not the name of a spool record")
    try:
        data, facts = safe_files.read_file_only_owner_writes(f"{SPOOL}/{name}", transfer_messages_in_spool.MAX_BYTES)
        record = transfer_messages_in_spool.decode_transfer_message(data)
        parse_transfer_name(record.transfer)
    except (OSError, GridbridgeError) as error:
        raise AsUserRequestRefusal(f"{name}: {describe_error(error)}") from error
    id_ = record.remote_id or "0"
    if record.kind != TransferMessageKind.RECORD or not (id_.isascii() and id_.isdigit()):
        raise AsUserRequestRefusal(f"{name}: not a starter's record")
    return record, facts.st_uid


def configured_cluster_of_record(config: "dict[str, dict[str, object]]", record: TransferMessage) -> dict[str, object]:
    """Return the configuration section of a record's remote cluster."""
    cluster = config.get("cluster", {}).get(record.remote)
    if not isinstance(cluster, dict) or record.remote == config.get("site", {}).get("cluster"):
        raise AsUserRequestRefusal(f"{CONFIG}: {record.remote!r} is not a remote cluster")
    return cluster


if __name__ == "__main__":  # without root, batch/privileged_helper_calls runs this module
    main()
