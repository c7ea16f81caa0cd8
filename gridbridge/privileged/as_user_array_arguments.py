"""Parses the arguments of gridbridge-as-user about a campaign's arrays."""

from contextlib import suppress

from gridbridge.batch import read_root_login
from gridbridge.errors import FileWritableByOthers, GridbridgeError, ParseError
from gridbridge.model.campaigns.campaign_file_and_array_names import (
    LEAST_CHECKPOINT_S,
    MOST_CHECKPOINT_S,
    USUAL_CHECKPOINT_S,
    CampaignArrayId,
)
from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_array_index_ranges
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.model.transfer_name import is_valid_cluster_name
from gridbridge.model.transfer_route import AnyClusterAccessSettings, remote_cluster_access_of_person
from gridbridge.privileged import as_user_refusals_and_user_switch
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal, OwnerRequestNotYetPossible

SEND, SEND_COPIES, RELEASE, DELETE = "send-arrays", "send-copies", "release-array", "delete-array"
DELETE_WAITING, ADD = "delete-waiting", "add-tasks"
CHECKPOINT, GROUP, ORDINARY = "checkpoint=", "group=", "ordinary"
MOST_OF_GROUP, LONGEST_GROUP_S, LONGEST_WAIT_S = 1000, 31_536_000, 3600
USAGE = {
    SEND: "[ordinary] [checkpoint=SECONDS] [group=TASKS,SECONDS[,WAIT]] ARRAY TASKS [ARRAY TASKS ...]",
    SEND_COPIES: "[checkpoint=SECONDS] ARRAY TASKS",
    RELEASE: "ARRAY",
    DELETE: "ARRAY [PLACES]",
    DELETE_WAITING: "ARRAY PLACES",
    ADD: "ARRAY PLACE TASKS [PLACE TASKS ...]",
}


class AsUserArrayArguments:
    def __init__(self, arguments: list[str]) -> None:
        """Parse arguments and read the configuration; raise AsUserRequestRefusal for invalid arguments."""
        self.verb, file, cluster, *words = [*arguments, "", ""][: max(3, len(arguments))]
        self.config = read_config_or_not_yet_possible()
        self.section = self.config.get("cluster", {}).get(cluster)
        site = str(self.config.get("site", {}).get("cluster", ""))
        campaign = file.removeprefix("c.")
        after_cluster = words
        # whether the arrays are ordinary jobs of tasks of type semi-best-effort
        self.is_ordinary = self.verb == SEND and words[:1] == [ORDINARY]
        words = words[1:] if self.is_ordinary else words
        self.checkpoint_s = USUAL_CHECKPOINT_S  # used only if the JDL gives no interval
        key, is_given, seconds = words[0].partition(CHECKPOINT) if words else ("", "", "")
        if is_given and not key and _is_checkpoint_interval(seconds) and self.verb in (SEND, SEND_COPIES):
            self.checkpoint_s, words = int(seconds), words[1:]
        group = _parse_grouped_tasks_argument(words[0]) if words and self.verb == SEND else None
        # tasks of a job, seconds after which the job begins no task, and seconds for which it waits for further tasks
        self.group = group or (1, 0, 0)
        words = words[1:] if group else words
        self.settings = tuple(after_cluster[: len(after_cluster) - len(words)])  # the words for the ledger
        array = [words.pop(0)] if self.verb == ADD and words else []
        numbers = words[::2]
        self.tasks = tuple(words[1::2])  # the task attempts of each array, as texts such as `0-9:1,12:2`
        is_complete = self._are_arguments_complete(numbers) and all(map(is_short_ascii_number, array))
        if not (is_short_ascii_number(campaign) and file != campaign and is_complete):
            raise AsUserRequestRefusal(f"usage: gridbridge-as-user {self.verb} c.CAMPAIGN CLUSTER {USAGE[self.verb]}")
        if not isinstance(self.section, dict) or not is_valid_cluster_name(site):
            raise OwnerRequestNotYetPossible(f"{CONFIG}: no cluster {cluster!r}")
        self.file, self.campaign, self.cluster = file, int(campaign), cluster
        self.is_of_copies = self.verb == SEND_COPIES
        self.places = tuple(map(int, numbers)) if array else ()  # array indices of the jobs that get further tasks
        self.arrays = tuple(
            CampaignArrayId(site, self.campaign, int(number)) for number in array * len(numbers) or numbers
        )
        self.indices = "".join(self.tasks)  # indices of tasks to delete, as `1-5,9`; empty for the whole array
        if self.verb in (DELETE, DELETE_WAITING) and self.tasks:
            try:
                parse_array_index_ranges(self.indices)  # raises for an empty text, which would delete the whole array
            except ParseError as error:
                raise AsUserRequestRefusal(str(error)) from error

    def is_configured_cluster(self, cluster: str) -> bool:
        return isinstance(self.config.get("cluster", {}).get(cluster), dict)

    def with_cluster(self, cluster: str) -> "AsUserArrayArguments":
        from copy import copy  # imported here, because few calls concern several clusters

        order = copy(self)
        order.cluster, order.section = cluster, self.config["cluster"][cluster]
        with suppress(OwnerRequestNotYetPossible):  # without a login the cluster counts as silent
            order.read_login_of_cluster()
        return order

    def read_login_of_cluster(self) -> None:
        """Read, as root, the login that the owner's process needs; raise OwnerRequestNotYetPossible."""
        try:
            read_root_login(self.access_and_account_of_user("")[0])
        except GridbridgeError as error:
            raise OwnerRequestNotYetPossible(str(error)) from error

    def access_and_account_of_user(self, person: str) -> "tuple[AnyClusterAccessSettings, str]":
        assert isinstance(self.section, dict)
        far = remote_cluster_access_of_person(self.section, self.cluster, person)
        return far, far.account_of_user(person)

    def _are_arguments_complete(self, numbers: list[str]) -> bool:
        words, most = len(self.tasks), 100_000 if self.verb in (SEND, ADD) else 1
        least = 0 if self.verb in (RELEASE, DELETE) else len(numbers)
        expected = 0 if self.verb == RELEASE else len(numbers)
        are_numbers = all(map(is_short_ascii_number, numbers)) and len(set(numbers)) == len(numbers)
        return are_numbers and 0 < len(numbers) <= most and least <= words <= expected


def is_short_ascii_number(text: str) -> bool:
    """Say whether a text is an ASCII number of at most 9 digits."""
    return text.isascii() and text.isdigit() and len(text) < 10


def _is_checkpoint_interval(text: str) -> bool:
    return is_short_ascii_number(text) and LEAST_CHECKPOINT_S <= int(text) <= MOST_CHECKPOINT_S


def _parse_grouped_tasks_argument(text: str) -> "tuple[int, int, int] | None":
    key, is_given, numbers = text.partition(GROUP)
    words = [*numbers.split(","), "0"][:3] if numbers.count(",") < 3 else []
    if key or not is_given or len(words) < 3 or not all(map(is_short_ascii_number, words)):
        return None
    tasks, begin_s, wait_s = map(int, words)
    is_allowed = 1 < tasks <= MOST_OF_GROUP and begin_s <= LONGEST_GROUP_S and wait_s <= LONGEST_WAIT_S
    return (tasks, begin_s, wait_s) if is_allowed else None


def read_config_or_not_yet_possible() -> "dict[str, dict[str, object]]":
    """Read root's configuration; raise OwnerRequestNotYetPossible if the file is invalid."""
    try:
        return as_user_refusals_and_user_switch.read_root_configuration(CONFIG)
    except (AsUserRequestRefusal, FileWritableByOthers) as error:
        raise OwnerRequestNotYetPossible(str(error)) from error


class ArraySendProgress:
    def __init__(self, array: CampaignArrayId, index: int) -> None:
        self.array = array
        self.place = index  # position of the array in the arguments
        self.job = ""
        self.is_new = False  # whether this call submits the array for the first time
        self.error: Exception | None = None

    def printed_result_line(self) -> str:
        """Return the line that send-arrays prints: exit status, job id or 0, and error."""
        if not self.error:
            return f"0 {self.job or 0} "
        status = as_user_refusals_and_user_switch.exit_status_of_as_user_error(self.error)
        return f"{status} {self.job or 0} {as_user_refusals_and_user_switch.limited_error_line(self.error)}"
