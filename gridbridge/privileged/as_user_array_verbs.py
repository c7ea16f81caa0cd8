"""gridbridge-as-user VERB FILE [CLUSTER ARRAY ...]: acts on arrays as their campaign's owner.

The service names a campaign file and task numbers, never a command. The campaign file has the command, and must
not change after the first call. Root's ledger makes sure that each attempt is submitted only once.
The verbs and exit statuses 0 to 3 are listed in `as_user`. Further exit statuses: 4 refused by the cluster,
5 tasks already submitted in another array, 6 owner without account, 7 unreadable ledger, 8 campaign ended,
10 another master leads, 75 not possible yet.
"""

import os
from typing import NoReturn

from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks, group_of_jobs
from gridbridge.errors import CampaignFileChanged, RootLedgerUnreadable
from gridbridge.model.campaigns.campaign_file_and_array_names import campaign_file_name
from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_array_index_ranges, parse_attempt_ranges
from gridbridge.model.fixed_paths import CAMPAIGNS
from gridbridge.privileged import as_user_refusals_and_user_switch
from gridbridge.privileged.as_user_array_arguments import (
    ADD,
    DELETE,
    DELETE_WAITING,
    SEND,
    SEND_COPIES,
    AsUserArrayArguments,
    is_short_ascii_number,
    read_config_or_not_yet_possible,
)
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal
from gridbridge.privileged.campaign_owner_cluster_calls import CampaignOwnerClusterCalls
from gridbridge.privileged.owner_worker import Answers, CampaignOwnerWorker

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Callable


def perform_as_user_array_verb(arguments: list[str], require_lead: "Callable[[], None]") -> NoReturn:
    """Check the arguments about a campaign, then act as the campaign's owner."""
    if arguments[0] in ("list-arrays", "end-campaign", "take-up"):
        print_and_exit(_list_end_or_resume_campaign(arguments, require_lead))
    if arguments[0].startswith(("carry-", "drop-", "bring-", "read-")):
        from gridbridge.privileged import carry_task_files

        carry_task_files.run_owner_file_carrier(arguments)
    order = AsUserArrayArguments(arguments)
    order.read_login_of_cluster()
    with RootLedgerOfSubmittedTasks(order.campaign, require_lead=require_lead) as ledger:
        require_lead()  # checked under the lock, because an earlier master's call may have held the lock
        if order.verb in (SEND, SEND_COPIES):
            from gridbridge.privileged import send_arrays

            output = "".join(f"{line}\n" for line in send_arrays.send_campaign_arrays(order, ledger))
        elif order.verb == ADD:
            from gridbridge.privileged import tasks_of_running_jobs

            output = tasks_of_running_jobs.add_tasks_to_running_jobs(order, ledger)
        else:
            output = f"{_release_or_delete_array(order, ledger)}\n"
    print_and_exit(output)


def print_and_exit(output: str) -> NoReturn:
    with os.fdopen(1, "wb", closefd=False) as out:
        out.write(output.encode("utf-8", "replace"))
    os._exit(0)


def _list_end_or_resume_campaign(arguments: list[str], require_lead: "Callable[[], None]") -> str:
    verb, file, request = [*arguments, "", ""][:3]
    number = file.removeprefix("c.")
    usage = "c.CAMPAIGN REQUEST" if verb == "take-up" else "c.CAMPAIGN"
    if len(arguments) != 1 + len(usage.split()) or not is_short_ascii_number(number) or file == number:
        raise AsUserRequestRefusal(f"usage: gridbridge-as-user {verb} {usage}")
    campaign = int(number)
    with RootLedgerOfSubmittedTasks(campaign, require_lead=require_lead) as ledger:
        if verb == "list-arrays":
            return "".join(f"{' '.join(row)}\n" for row in ledger.list_submitted_arrays())
        if verb == "end-campaign":
            note_campaign_end_in_ledger(campaign, ledger)
        else:
            from gridbridge.privileged.earlier_attempts_ended_check import require_owner_retry_request

            ledger.reopen_campaign(require_owner_retry_request(request, campaign, ledger.uid))
    return ""


def note_campaign_end_in_ledger(campaign: int, ledger: RootLedgerOfSubmittedTasks, folder: str = CAMPAIGNS) -> None:
    """Record a campaign's end in root's ledger, even before a first submission.

    After this record no task of the campaign is sent.
    """
    if ledger.has_campaign_file or _record_campaign_file_in_ledger(campaign, ledger, folder):
        ledger.record_campaign_end()


def _record_campaign_file_in_ledger(campaign: int, ledger: RootLedgerOfSubmittedTasks, folder: str) -> bool:
    """Record an unsubmitted campaign's file in the ledger; return False for a file that root refuses.

    Root refuses a missing file, and a file of another campaign. If a user has replaced the file, root records only
    that the campaign has ended.
    Raises CampaignFileUnreadable if the file is unreadable now.
    """
    from gridbridge.campaigns.store.campaign_file_verification import (
        RootVerifiedCampaignFiles,
        owner_uid_of_invalid_campaign_file,
    )

    file = campaign_file_name(campaign)
    if os.path.isdir(folder) and not os.path.lexists(f"{folder}/{file}"):
        return False
    try:
        if (uid := owner_uid_of_invalid_campaign_file(campaign, folder)) is not None:
            as_user_refusals_and_user_switch.require_ordinary_account(read_config_or_not_yet_possible(), file, uid)
            return True
        brought = RootVerifiedCampaignFiles(campaign, folder)
        as_user_refusals_and_user_switch.require_ordinary_account(
            read_config_or_not_yet_possible(), brought.file, brought.uid
        )
        brought.record_unregistered_file(ledger)
    except (AsUserRequestRefusal, CampaignFileChanged):
        return False
    return True


def _release_or_delete_array(order: AsUserArrayArguments, ledger: RootLedgerOfSubmittedTasks) -> str:
    """Release or delete an array, and delete its duplicates; return the job id, or ''.

    For `delete-waiting`, the indices of tasks that had begun follow the job id.
    """
    if not ledger.uid and order.verb in (DELETE, DELETE_WAITING):
        return ""  # the campaign has no submitted array
    if not ledger.uid:  # without the owner's uid, no array was submitted that could be released
        raise RootLedgerUnreadable(f"{order.file}: root's ledger lacks the campaign")
    as_user_refusals_and_user_switch.require_ordinary_account(order.config, order.file, ledger.uid)
    (array,) = order.arrays
    if order.verb == DELETE_WAITING:
        _require_indices_in_array(order, ledger, array.array)
    job = ledger.job_id_of_array(array.array)
    is_repeated = ledger.may_be_submitted_twice(array.array) or not job
    worker = CampaignOwnerWorker(ledger.uid, lambda person: _array_request_handler(order, person))
    if not job and (job := worker.send_request_to_owner_process("find", str(array))):
        ledger.record_job_id_of_array(array.array, job)
    begun = worker.send_request_to_owner_process("act", str(array), str(int(is_repeated)), job)
    return f"{job} {begun}".strip()


def _require_indices_in_array(order: AsUserArrayArguments, ledger: RootLedgerOfSubmittedTasks, array: int) -> None:
    """Refuse indices beyond an array's end, because tasks that are held at such indices would never be released."""
    row = next((row for row in ledger.list_submitted_arrays() if row[0] == str(array)), None)
    size = -(-len(parse_attempt_ranges(row[2])) // group_of_jobs([*row[4:]])[0]) if row else 0
    if any(span[-1] > size for span in parse_array_index_ranges(order.indices)):
        raise AsUserRequestRefusal(f"{order.file}: array {array} has only {size} tasks")


def _array_request_handler(order: AsUserArrayArguments, person: str) -> Answers:
    site = CampaignOwnerClusterCalls(order, person)

    def answer_array_request(words: list[str]) -> str:
        verb, name, *arguments = words
        if verb == "find":
            return site.find_held_array(name)
        return site.release_or_delete_array(name, "".join(arguments[1:]), is_repeated=arguments[0] == "1")

    return answer_array_request
