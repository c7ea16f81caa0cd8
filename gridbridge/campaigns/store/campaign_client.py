"""Sends users' requests to the runner, and reads published campaigns, events and tasks."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

from gridbridge.campaigns.store import campaign_files_of_owners, published_campaign_files
from gridbridge.campaigns.store.campaign_files_of_owners import HIGHEST, ForeignOrMissingCampaignFile
from gridbridge.campaigns.store.published_campaign_files import A_FILE
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.campaigns.submission.jdl_writer_and_task_files import campaign_to_jdl_table
from gridbridge.decisions.campaigns import campaign_progress_and_forecast
from gridbridge.decisions.campaigns.event_texts_and_notifications import describe_campaign_event
from gridbridge.errors import GridbridgeError, ParseError, StateError
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_events import (
    BLACKLISTING_EVENTS,
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    PublishedCampaignEvents,
)
from gridbridge.model.campaigns.campaign_file_and_array_names import ADDS_TO, INPUT_GROUPS, UNIQUE
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply, CampaignOwnerRequestVerb
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.notification_subscriptions import IDENTITIES, NotificationChannel, NotificationSeverity
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    DROPPED,
    CampaignTaskEndCounts,
    PublishedCampaign,
    PublishedCampaignList,
    PublishedCampaignTask,
    PublishedClusterSlots,
    PublishedClusterSlotsList,
    PublishedForecastErrors,
)
from gridbridge.model.fixed_paths import CONFIG, ELSEWHERE, HOME, SPOOL, FixedPaths
from gridbridge.model.published_status_and_reports import PublishedClusterAnswer
from gridbridge.program.model_values_as_json import model_value_from_json
from gridbridge.shell import safe_files
from gridbridge.state import published_json

BY_SSH = f"or name the transfer host in {CONFIG} ([site] transfer_host)"
WHERE = f"submit campaigns on the transfer host, or where its {{}} and {{}} are mounted; {BY_SSH}"
MADE_BY = "an administrator creates the folder by `gridbridge setup host --apply`, or mounts it"
NOT_CHANGED = "no gridbridge-runner takes requests now; nothing is changed"
NOT_TOLD = "no gridbridge-runner takes requests now; the request has no answer"
UNANSWERED = (
    "gridbridge-runner took the request and has not answered: the request may be carried out, now or later;"
    " look at gridstat before you repeat the command"
)
ANSWER_S = 90.0  # a command waits this long for an answer; a runner started by cron answers within a minute
TAKEN_S = 600.0  # a command waits this long once the runner has taken a request: the runner may restart


class NoRunnerForRequest(GridbridgeError):
    """No runner took the request: nothing was stored or changed."""


class RunnerAnswerTimeout(GridbridgeError):
    """The runner took a request and did not answer: the request's outcome is unknown."""


class CampaignSubmissionRefusal(GridbridgeError):
    """The service refused a campaign."""


def submit_campaign(parsed: ParsedJdl, paths: FixedPaths) -> int:
    """Submit a campaign and return its number.

    Raises CampaignSubmissionRefusal, NoRunnerForRequest or RunnerAnswerTimeout.
    """
    groups = {INPUT_GROUPS: parsed.input_groups} if parsed.input_groups else {}
    return _send_campaign_file_to_runner(asdict(parsed.jdl) | groups, parsed.parameters, paths)


def add_tasks_to_campaign(number: int, parameters: tuple[str, ...], paths: FixedPaths) -> None:
    """Add tasks to the caller's own campaign; raises the errors of `submit_campaign`."""
    _send_campaign_file_to_runner({ADDS_TO: number}, parameters, paths)


def _send_campaign_file_to_runner(fields: dict[str, object], parameters: tuple[str, ...], paths: FixedPaths) -> int:
    _require_existing_spool_folder(paths)
    if os.geteuid() == 0 and os.stat(paths.campaigns).st_uid != 0:
        raise CampaignSubmissionRefusal("campaigns never run as root; submit as another user")
    header = {**fields, UNIQUE: safe_files.random_file_name()}
    try:
        data = campaign_files_of_owners.encode_campaign_file(header, parameters)
        token = campaign_files_of_owners.write_campaign_file_to_inbox(data, paths.campaigns)
    except StateError as error:
        raise NoRunnerForRequest(str(error)) from error
    if not _is_file_answered(token, paths.published, ANSWER_S) and campaign_files_of_owners.withdraw_campaign_file(
        token, paths.campaigns
    ):
        raise NoRunnerForRequest(
            "no gridbridge-runner takes campaigns now; nothing was stored. Start gridbridge-runner --loop"
        )
    answer = _wait_for_runner_answer(token, paths.published)
    if "campaign" not in answer:
        raise CampaignSubmissionRefusal(str(answer["refused"]))
    return int(answer["campaign"])


def ask_runner_to_act_on_campaigns(
    verb: CampaignOwnerRequestVerb,
    numbers: tuple[int, ...],
    paths: FixedPaths,
    task: int = 0,
    of: tuple[int, ...] = (),
) -> dict[int, CampaignOwnerRequestReply]:
    """Return the runner's reply for each number; a number that is too large gets the reply UNKNOWN."""
    possible = tuple(number for number in numbers if number <= campaign_files_of_owners.HIGHEST)
    if task > campaign_files_of_owners.HIGHEST:
        return dict.fromkeys(numbers, CampaignOwnerRequestReply.NO_TASK)
    answer = send_request_to_runner(verb, possible, paths, task, of=of) if possible else {}
    replies = {int(number): CampaignOwnerRequestReply(word) for number, word in answer.items()}
    return dict.fromkeys(numbers, CampaignOwnerRequestReply.UNKNOWN) | replies


def send_request_to_runner(
    verb: CampaignOwnerRequestVerb,
    numbers: tuple[int, ...],
    paths: FixedPaths,
    task: int = 0,
    subscription: Mapping[str, str] = campaign_files_of_owners.NO_WISH,
    of: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Send a request; return the runner's answer, or raise NoRunnerForRequest or RunnerAnswerTimeout."""
    _require_existing_spool_folder(paths)
    try:
        token = campaign_files_of_owners.write_owner_request_to_inbox(
            verb, numbers, paths.campaigns, task, subscription, of
        )
    except StateError as error:
        raise NoRunnerForRequest(str(error)) from error
    if not _is_file_answered(token, paths.published, ANSWER_S) and campaign_files_of_owners.withdraw_owner_request(
        token, paths.campaigns
    ):
        raise NoRunnerForRequest(NOT_TOLD if verb is CampaignOwnerRequestVerb.SUBSCRIPTIONS else NOT_CHANGED)
    return _wait_for_runner_answer(token, paths.published)


def _require_existing_spool_folder(paths: FixedPaths) -> None:
    folder, published = paths.campaigns, paths.published
    if os.path.isdir(folder):
        return
    if os.path.isdir(published):
        missing = folder if os.path.isdir(os.path.dirname(folder)) else os.path.dirname(folder)
        raise NoRunnerForRequest(f"{missing}: no such folder, though {published} is here; {MADE_BY}")
    raise NoRunnerForRequest(f"{folder}: no such folder; {WHERE.format(SPOOL, HOME)}")


def _is_file_answered(token: str, published: str, limit_s: float) -> bool:
    from gridbridge.shell.retry import poll_until  # slow import, because of tenacity

    path = campaign_files_of_owners.published_answer_path(token, published)
    return poll_until(lambda: os.path.exists(path), limit_s)


def _wait_for_runner_answer(token: str, published: str) -> dict[str, Any]:
    if not _is_file_answered(token, published, TAKEN_S):
        raise RunnerAnswerTimeout(UNANSWERED)
    with open(campaign_files_of_owners.published_answer_path(token, published), encoding="utf-8") as file:
        answer: dict[str, Any] = json.load(file)
        return answer


def require_published_files(folder: str) -> None:
    """Raise StateError on a host that does not see the service's published files."""
    if not os.path.isdir(folder):
        raise StateError(f"{folder}: no such folder; {ELSEWHERE}, {BY_SSH}")


def published_campaigns(folder: str) -> tuple[PublishedCampaign, ...]:
    """Return all published campaigns, sorted by number."""
    shown = published_campaign_files.read_published_campaign_value(PublishedCampaignList, folder)
    return shown.campaigns if shown else ()


def published_forecast_errors(folder: str) -> PublishedForecastErrors | None:
    shown = published_campaign_files.read_published_campaign_value(PublishedCampaignList, folder)
    return shown.errors if shown else None


def require_valid_notify_address(way: NotificationChannel, identity: str) -> None:
    form = IDENTITIES[way]
    if not form.holds(identity):
        raise ParseError(f"{identity!r:.80}: wrong form; expected {form.right}")


def change_own_subscription(
    verb: CampaignOwnerRequestVerb,
    way: NotificationChannel,
    identity: str,
    severity: NotificationSeverity,
    paths: FixedPaths,
) -> CampaignOwnerRequestReply:
    """Add or remove a subscription of the calling user; raises the errors of `send_request_to_runner`."""
    subscription = {"way": way.value, "identity": identity, "severity": severity.value}
    answer = send_request_to_runner(verb, (), paths, subscription=subscription)
    return CampaignOwnerRequestReply(answer["0"])


def own_notify_subscriptions(paths: FixedPaths) -> list[dict[str, str]]:
    answer = send_request_to_runner(CampaignOwnerRequestVerb.SUBSCRIPTIONS, (), paths)
    subscriptions: list[dict[str, str]] = answer["subscriptions"]
    return subscriptions


# older snapshots of the poller are not used
POLLED_FOR = timedelta(minutes=10)
TAIL_BYTES, TAIL_LINES = 4096, 5


def published_events(folder: str) -> tuple[CampaignEvent, ...]:
    """Return all published events, sorted by number."""
    shown = published_campaign_files.read_published_campaign_value(PublishedCampaignEvents, folder)
    return shown.events if shown else ()


def describe_event_to_user(event: CampaignEvent, states: Mapping[int, CampaignState]) -> str:
    """Describe an event, and its effect in the campaign's present state."""
    return describe_campaign_event(event, states.get(event.campaign))


def published_campaign_clusters(folder: str) -> tuple[PublishedClusterSlots, ...]:
    """Return the clusters that campaigns may use; slots unknown to the runner come from the poller."""
    grid = published_campaign_files.read_published_campaign_value(PublishedClusterSlotsList, folder)
    clusters = list[PublishedClusterSlots]()
    for cluster in grid.clusters if grid else ():
        path = f"{folder}/{published_json.CLUSTERS}/{cluster.name}.json"
        polled = published_json.read_published_value(path, PublishedClusterAnswer) if cluster.slots is None else None
        if grid and polled and not polled.trouble and polled.taken_at and polled.taken_at >= grid.at - POLLED_FOR:
            cluster = replace(
                cluster,
                answered_at=polled.taken_at,
                slots=polled.slots,
                used=polled.used,
                free=polled.free_slots if polled.besteffort_slots is None else polled.besteffort_slots,
                free_for_normal=polled.free_slots,
            )
        clusters.append(cluster)
    return tuple(clusters)


def select_published_events(
    events: Iterable[CampaignEvent], campaign: int | None, number: int | None, *, is_global: bool, is_all: bool
) -> tuple[CampaignEvent, ...]:
    """Select events by campaign and number. Closed events need `is_all` or an event number."""
    return tuple(
        event
        for event in events
        if (is_all or number is not None or not event.closed_at)
        and number in (None, event.number)
        and (campaign is None or event.campaign == campaign)
        and (not is_global or event.kind is CampaignEventSubject.CLUSTER)
    )


def cluster_outage_and_blacklisted_campaigns(
    events: Iterable[CampaignEvent], cluster: str
) -> tuple[bool, tuple[int, ...]]:
    """Return whether a cluster does not answer, and the campaigns that may not use the cluster now."""
    of = [event for event in events if event.cluster == cluster and not event.closed_at]
    is_down = any(event.code is CampaignEventCode.GET_JOBS for event in of)
    return is_down, tuple(sorted({event.campaign for event in of if event.code in BLACKLISTING_EVENTS}))


def first_failed_task_details(event: CampaignEvent, folder: str) -> tuple[str, tuple[str, ...]]:
    """Return the parameters and last error lines of an event's first task; empty without permission."""
    if event.first_task is None:
        return "", ()
    try:
        lines, directory = _read_parameters_and_directory(event, folder)
        home = os.path.expanduser("~")
        outputs = f"{os.path.join(home, directory.replace('$HOME', home, 1))}/campaign.{event.campaign}"
        is_ours = campaign_files_of_owners.uid_of_campaign_owner(event.campaign, folder) == os.geteuid()
        # root opens no path that a user chose
        words = _last_lines_of_standard_error(outputs, event) if is_ours else ()
        return _replace_unprintable_characters(lines[event.first_task]), words
    except (ForeignOrMissingCampaignFile, OSError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return "", ()


def failed_start_directory(event: CampaignEvent, folder: str) -> str:
    """Return the exec_directory of tasks that could not start; empty if the caller is not the owner."""
    if event.code is not CampaignEventCode.SETUP_ERROR:
        return ""
    try:
        return _replace_unprintable_characters(_read_parameters_and_directory(event, folder)[1]) or "$HOME"
    except (ForeignOrMissingCampaignFile, KeyError, TypeError, AttributeError):
        return ""


def _read_parameters_and_directory(event: CampaignEvent, folder: str) -> tuple[list[str], str]:
    header, lines = campaign_files_of_owners.read_own_campaign_file(event.campaign, folder)
    return lines, str(header["clusters"][event.cluster].get("exec_directory", ""))


def _last_lines_of_standard_error(folder: str, event: CampaignEvent) -> tuple[str, ...]:
    form = re.compile(rf"{event.first_task}\.(\d+)\.err")
    attempts = [int(match[1]) for name in os.listdir(folder) if (match := form.fullmatch(name))]
    if not attempts:
        return ()
    with open(f"{folder}/{event.first_task}.{max(attempts)}.err", "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    return tuple(map(_replace_unprintable_characters, text.splitlines()[-TAIL_LINES:]))


def _replace_unprintable_characters(line: str) -> str:
    """Replace characters that could control a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def find_published_campaign(number: int, folder: str) -> PublishedCampaign | None:
    return next((campaign for campaign in published_campaigns(folder) if campaign.number == number), None)


def list_published_tasks(campaign: PublishedCampaign, first: int, folder: str) -> Iterator[PublishedCampaignTask]:
    """Yield a campaign's tasks from number `first` on, including tasks that were never sent."""
    for part in range(first // A_FILE, (campaign.tasks - 1) // A_FILE + 1):
        sent = published_campaign_files.read_published_task_file(campaign.number, part, folder)
        low, high = part * A_FILE, min(campaign.tasks, (part + 1) * A_FILE)
        for number in range(max(first, low), high):
            task = sent.get(number) or PublishedCampaignTask(number=number, is_waiting=campaign.state.is_alive)
            is_suspect = task.outcome is TaskAttemptOutcome.SUCCESS and task.cluster in campaign.sinks
            yield replace(task, is_suspect=True) if is_suspect else task


def find_published_task(campaign: PublishedCampaign, number: int, folder: str) -> PublishedCampaignTask | None:
    return next(list_published_tasks(campaign, number, folder), None) if number < campaign.tasks else None


def finally_failed_tasks(campaign: PublishedCampaign, folder: str) -> tuple[PublishedCampaignTask, ...]:
    is_over = campaign.state is CampaignState.TERMINATED
    all_tasks = list_published_tasks(campaign, 0, folder)
    return tuple(task for task in all_tasks if task.has_failed or (is_over and task.state_word == DROPPED))


def campaign_with_cluster_progress(campaign: PublishedCampaign, folder: str) -> PublishedCampaign:
    ends = task_end_times_and_clusters(campaign, folder)
    return campaign_progress_and_forecast.add_ended_task_counts_to_campaign(campaign, ends)


def task_end_times_and_clusters(campaign: PublishedCampaign, folder: str) -> tuple[CampaignTaskEndCounts, ...]:
    return published_campaign_files.read_published_task_end_counts(campaign.number, folder)


def own_task_parameters(number: int, folder: str) -> list[str]:
    """Return the task parameters of the calling user's campaign; empty for another user's campaign."""
    try:
        return campaign_files_of_owners.read_own_campaign_file(number, folder)[1]
    except ForeignOrMissingCampaignFile:
        return []


def read_own_jdl(number: int, folder: str) -> object:
    """Return the JDL of the caller's campaign; raise ForeignOrMissingCampaignFile for other campaigns."""
    header, parameters = campaign_files_of_owners.read_own_campaign_file(number, folder)
    return campaign_to_jdl_table(model_value_from_json(header, Jdl), parameters)


def parse_cigri_job_id(text: str) -> tuple[int, int]:
    """Parse CAMPAIGN.TASK, a CIGRI_JOB_ID such as 12.0; raises ValueError for other texts."""
    campaign, dot, number = text.partition(".")
    if not dot or not all(part.isascii() and part.isdigit() for part in (campaign, number)):
        raise ValueError(f"{text!r:.40}: not a task of a campaign; expected CAMPAIGN.TASK, e.g. 12.0")
    return parse_campaign_number(campaign), parse_campaign_number(number)


def parse_campaign_number(digits: str) -> int:
    """Parse a campaign's number; too many digits give a number that no campaign has."""
    return int(digits) if len(digits) <= 1000 else HIGHEST + 1
