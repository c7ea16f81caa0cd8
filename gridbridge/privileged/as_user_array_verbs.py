"""gridbridge-as-user VERB FILE [CLUSTER ARRAY ...]: arrays, as a campaign's owner.

The service names the owner's campaign file and task numbers, never a command. The file has the
command, and must be unchanged since the first call. Each attempt of a task is submitted once, as
root's ledger records; `list-arrays` prints the ledger. `send-copies` sends copies of running tasks,
if the file allows copies. `delete-waiting` deletes tasks that have not begun, and prints the other
tasks' places. After `end-campaign` nothing is sent until the owner's request takes the campaign up
again (`take-up`). Exit status as for other verbs, and for an array 4: the cluster refuses it, 5:
the ledger has these tasks in another array, 6: the owner's account is unknown, 7: the ledger is
unreadable or missing, 8: the campaign has ended, 75: not now.
"""

import os
from typing import NoReturn

from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.errors import CampaignFileChanged, RootLedgerUnreadable
from gridbridge.model.campaigns.campaign_names import campaign_file_name
from gridbridge.model.campaigns.task_attempt_ranges import parse_array_index_ranges, parse_attempt_ranges
from gridbridge.model.fixed_paths import CAMPAIGNS
from gridbridge.privileged import acting_as_owner
from gridbridge.privileged.acting_as_owner import AsUserRequestRefusal
from gridbridge.privileged.as_user_array_arguments import (
    DELETE,
    DELETE_WAITING,
    SEND,
    SEND_COPIES,
    AsUserArrayArguments,
    is_short_ascii_number,
    read_config_or_not_yet_possible,
)
from gridbridge.privileged.campaign_owner_cluster_calls import CampaignOwnerConnection
from gridbridge.privileged.owner_worker import CampaignOwnerWorker

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from gridbridge.privileged.owner_worker import Answers


def perform_as_user_array_verb(arguments: list[str]) -> NoReturn:
    """Check a campaign verb's arguments, then act as the campaign's owner."""
    if arguments[0] == "list-arrays":
        _list(*_campaign(arguments, "c.CAMPAIGN", 2))
    if arguments[0] == "end-campaign":
        _end(*_campaign(arguments, "c.CAMPAIGN", 2))
    if arguments[0] == "take-up":
        _take_up(*_campaign(arguments, "c.CAMPAIGN REQUEST", 3))
    order = AsUserArrayArguments(arguments)
    with RootLedgerOfSubmittedTasks(order.campaign) as ledger:
        if order.verb in (SEND, SEND_COPIES):
            from gridbridge.privileged import send_arrays  # only some verbs need this import

            output = "".join(f"{line}\n" for line in send_arrays.send_campaign_arrays(order, ledger))
        else:
            output = f"{_acted(order, ledger)}\n"
    _leave(output)


def _leave(output: str) -> NoReturn:
    with os.fdopen(1, "wb", closefd=False) as out:
        out.write(output.encode("utf-8", "replace"))
    os._exit(0)


def _campaign(arguments: list[str], usage: str, words: int) -> "tuple[int, str]":
    """Parse a verb's arguments into the campaign number and the word after the number."""
    verb, file, *following = [*arguments, "", ""]
    number = file.removeprefix("c.")
    if len(arguments) != words or not is_short_ascii_number(number) or file == number:
        raise AsUserRequestRefusal(f"usage: gridbridge-as-user {verb} {usage}")
    return int(number), following[0]


def _list(campaign: int, _: str) -> NoReturn:
    """Print one line for each array in a campaign's ledger, with the job id last."""
    with RootLedgerOfSubmittedTasks(campaign) as ledger:
        _leave("".join(f"{' '.join(row)}\n" for row in ledger.arrays()))


def _end(campaign: int, _: str) -> NoReturn:
    with RootLedgerOfSubmittedTasks(campaign) as ledger:
        note_campaign_end_in_ledger(campaign, ledger)
    _leave("")


def note_campaign_end_in_ledger(campaign: int, ledger: RootLedgerOfSubmittedTasks, folder: str = CAMPAIGNS) -> None:
    """Note a campaign's end in root's ledger, if the campaign was or could be submitted."""
    if ledger.has_file or _claims_file(campaign, ledger, folder):
        ledger.end()


def _claims_file(campaign: int, ledger: RootLedgerOfSubmittedTasks, folder: str) -> bool:
    """Note an unsubmitted campaign's file; False for a file that root would never accept.

    Root refuses a missing file and a file with another campaign's number. If a user has replaced
    the file since, only the end is noted. Raises CampaignFileUnreadable for a file that is
    unreadable now.
    """
    from gridbridge.campaigns.store.campaign_file_verification import (
        RootVerifiedCampaignFiles,
        uid_blocking_campaign_file,
    )

    if os.path.isdir(folder) and not os.path.lexists(f"{folder}/{campaign_file_name(campaign)}"):
        return False
    try:
        if (uid := uid_blocking_campaign_file(campaign, folder)) is not None:
            acting_as_owner.require_ordinary_account(
                read_config_or_not_yet_possible(), campaign_file_name(campaign), uid
            )
            return True
        brought = RootVerifiedCampaignFiles(campaign, folder)
        acting_as_owner.require_ordinary_account(read_config_or_not_yet_possible(), brought.file, brought.uid)
        brought.claim(ledger)
    except (AsUserRequestRefusal, CampaignFileChanged):
        return False
    return True


def _take_up(campaign: int, request: str) -> NoReturn:
    """Note in root's ledger that the owner's request resumes an ended campaign."""
    # only one verb needs this import
    from gridbridge.privileged.new_attempt_conditions import require_owner_retry_request

    with RootLedgerOfSubmittedTasks(campaign) as ledger:
        ledger.take_up(require_owner_retry_request(request, campaign, ledger.uid))
    _leave("")


def _acted(order: AsUserArrayArguments, ledger: RootLedgerOfSubmittedTasks) -> str:
    """Release or delete an array; return its job id, empty without a job.

    If an array was submitted several times, only one of its jobs stays. For `delete-waiting`, the
    places of the tasks that had begun follow the job id.
    """
    if not ledger.uid and order.verb in (DELETE, DELETE_WAITING):
        return ""  # the campaign has no submitted array
    if not ledger.uid:  # an array that was never submitted can't be released
        raise RootLedgerUnreadable(f"{order.file}: root's ledger lacks the campaign")
    acting_as_owner.require_ordinary_account(order.config, order.file, ledger.uid)
    (array,) = order.arrays
    if order.verb == DELETE_WAITING:
        _require_there(order, ledger, array.array)
    job = ledger.job(array.array)
    is_repeated = ledger.was_repeated(array.array) or not job
    worker = CampaignOwnerWorker(ledger.uid, lambda person: _answers(order, person))
    if not job and (job := worker.ask("find", str(array))):
        ledger.submitted(array.array, job)
    begun = worker.ask("act", str(array), str(int(is_repeated)), job)
    return f"{job} {begun}".strip()


def _require_there(order: AsUserArrayArguments, ledger: RootLedgerOfSubmittedTasks, array: int) -> None:
    """Refuse places outside of an array, whose held tasks would stay held."""
    tasks = next((row[2] for row in ledger.arrays() if row[0] == str(array)), "")
    size = len(parse_attempt_ranges(tasks)) if tasks else 0
    if any(span[-1] > size for span in parse_array_index_ranges(order.indices)):
        raise AsUserRequestRefusal(f"{order.file}: array {array} has only {size} places")


def _answers(order: AsUserArrayArguments, person: str) -> "Answers":
    site = CampaignOwnerConnection(order, person)

    def answer(words: list[str]) -> str:
        verb, name, *arguments = words
        if verb == "find":
            return site.find(name)
        return site.act(name, "".join(arguments[1:]), is_repeated=arguments[0] == "1")

    return answer
