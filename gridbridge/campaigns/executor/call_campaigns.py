"""Runs an Executor's calls as tasks of a campaign, and finds the tasks that ended without an outcome of their call."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from gridbridge.campaigns.executor.call_files import note_standard_error
from gridbridge.campaigns.executor.call_program import TAIL_BYTES, TAIL_LINES
from gridbridge.campaigns.store import campaign_client
from gridbridge.campaigns.store.campaign_client import CampaignSubmissionRefusal
from gridbridge.campaigns.submission import site_admission_rules, task_file_listing
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.decisions.campaigns import executor_call_failure_detection
from gridbridge.decisions.campaigns.event_texts_and_notifications import format_campaign_event_for_log
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign_events import BLACKLISTING_EVENTS, CampaignEventCode
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestVerb
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign, PublishedCampaignTask
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.shell.clock import Clock

DELAYING_EVENTS = frozenset(
    {
        CampaignEventCode.NO_CLUSTER,
        CampaignEventCode.FILE_REFUSED,
        CampaignEventCode.OUTPUT_ERROR,
        *BLACKLISTING_EVENTS,
    }
)
_log = logging.getLogger(__name__)


class CallFailed(GridbridgeError):
    """The task of a call ended without an outcome of the call, for example because the task was killed."""


@dataclass(slots=True)
class _CallsOfCampaign:
    tasks: int = 0
    open: set[int] = field(default_factory=set)  # calls without an outcome
    ended_s: dict[int, float] = field(default_factory=dict)  # when the task of an open call was first found ended
    failures_read: int = 0  # number of failed and cancelled tasks when tasks were last read
    is_published: bool = False


class ExecutorCallCampaigns:
    """The campaigns of an Executor's calls; a new campaign begins if the last campaign accepts no more tasks."""

    def __init__(self, parsed: ParsedJdl, paths: FixedPaths, clock: Clock) -> None:
        self._parsed = parsed
        self._paths = paths
        self._clock = clock
        self._calls: dict[int, _CallsOfCampaign] = {}  # in the order of submission
        self._campaign_of: dict[int, int] = {}
        self._closed_early: set[int] = set()  # calls with an outcome, whose campaign's number is not known yet
        self._additions, self._added_s = 0, float("-inf")
        self._logged_events: set[int] = set()
        self._lock = Lock()  # one thread sends calls, while another closes them

    @property
    def campaign_numbers(self) -> tuple[int, ...]:
        return tuple(self._calls)

    @property
    def pause_before_sending_s(self) -> float:
        """Seconds until tasks may be added again; each addition is a file, and sites limit the files of a person."""
        return max(0.0, self._added_s + min(60.0, 0.05 * self._additions) - self._clock.steady_s())

    def send_calls(self, calls: Sequence[int]) -> None:
        """Send calls as tasks; raise a GridbridgeError if the calls are refused, or if no runner answers."""
        lines = self._task_lines(calls)
        number = self._add_to_last_campaign(lines) or self._submit_campaign(lines)
        with self._lock:
            campaign = self._calls.setdefault(number, _CallsOfCampaign())
            campaign.tasks += len(calls)
            is_open = set(calls) - self._closed_early
            self._closed_early -= set(calls)
            campaign.open |= is_open
            self._campaign_of |= dict.fromkeys(is_open, number)

    def _task_lines(self, calls: Sequence[int]) -> tuple[str, ...]:
        lines = tuple(map(str, calls))
        jdl = self._parsed.jdl
        return tuple(task_file_listing.list_inputs_of_tasks(jdl, lines).lines) if jdl.inputs else lines

    def _add_to_last_campaign(self, lines: tuple[str, ...]) -> int:
        """Add tasks to the last campaign, and return the campaign's number; 0 if the campaign has ended."""
        if not self._calls:
            return 0
        number = self.campaign_numbers[-1]
        try:
            campaign_client.add_tasks_to_campaign(number, lines, self._paths)
        except CampaignSubmissionRefusal:
            return 0
        self._additions, self._added_s = self._additions + 1, self._clock.steady_s()
        return number

    def _submit_campaign(self, lines: tuple[str, ...]) -> int:
        parsed = replace(self._parsed, parameters=lines)
        admitted = site_admission_rules.admit_campaign_by_site_rules(parsed, self._paths)
        self._additions = 0
        return campaign_client.submit_campaign(admitted, self._paths)

    def record_finished_call(self, call: int) -> None:
        """Record that a call has its outcome, or was cancelled and needs no outcome."""
        with self._lock:
            if number := self._campaign_of.pop(call, 0):
                self._calls[number].open.discard(call)
                self._calls[number].ended_s.pop(call, None)
            else:
                self._closed_early.add(call)

    def cancel_unfinished(self) -> None:
        """Cancel the campaigns that have not ended; raise a GridbridgeError if no runner answers."""
        shown = {campaign.number: campaign for campaign in campaign_client.published_campaigns(self._paths.published)}
        alive = tuple(number for number in self._calls if number not in shown or shown[number].state.is_alive)
        if alive:
            campaign_client.ask_runner_to_act_on_campaigns(CampaignOwnerRequestVerb.CANCEL, alive, self._paths)

    def log_new_delays(self) -> None:
        """Log once each open event that may delay the calls' tasks or results."""
        with self._lock:
            numbers = {number for number, campaign in self._calls.items() if campaign.open}
        for event in campaign_client.published_events(self._paths.published) if numbers else ():
            is_new = event.number not in self._logged_events and not event.closed_at
            if is_new and event.campaign in numbers and event.code in DELAYING_EVENTS:
                self._logged_events.add(event.number)
                _log.warning("Executor: %s", format_campaign_event_for_log(event))

    def find_failed_calls(self) -> dict[int, CallFailed]:
        """Return the calls whose tasks have ended without an outcome; raise StateError for unreadable files."""
        with self._lock:
            failed = {
                call: (number, task)
                for number, campaign in self._calls.items()
                if campaign.open
                for call, task in self._failed_tasks_of_campaign(number, campaign).items()
            }
        return {call: self._failure_of_task(number, task) for call, (number, task) in failed.items()}

    def _failed_tasks_of_campaign(
        self, number: int, campaign: _CallsOfCampaign
    ) -> dict[int, PublishedCampaignTask | None]:
        """Return the tasks of calls that have failed, by call; None for tasks of a purged campaign."""
        shown = campaign_client.find_published_campaign(number, self._paths.published)
        if shown is None:
            limit_s = 0.0 if campaign.is_published else executor_call_failure_detection.LATE_CAMPAIGN_S
            return {call: None for call in campaign.open if self._ended_for_s(campaign, call) > limit_s}
        campaign.is_published = True
        counts = campaign.tasks, len(campaign.open), campaign.failures_read
        if not (campaign.ended_s or executor_call_failure_detection.may_calls_have_failed(shown, *counts)):
            return {}
        campaign.failures_read = shown.failed + shown.cancelled
        tasks = executor_call_failure_detection.calls_with_ended_tasks(shown, self._tasks_by_call(shown), campaign.open)
        is_carried = bool(self._parsed.jdl.outputs_to)
        return {
            call: task
            for call, task in tasks.items()
            if executor_call_failure_detection.has_call_failed(
                task, self._ended_for_s(campaign, call), is_carried=is_carried
            )
        }

    def _tasks_by_call(self, published_campaign: PublishedCampaign) -> dict[int, PublishedCampaignTask]:
        lines = campaign_client.own_task_parameters(published_campaign.number, self._paths.campaigns)
        tasks = campaign_client.list_published_tasks(published_campaign, 0, self._paths.published)
        return {int(line): task for line, task in zip(lines, tasks, strict=False) if line.isdecimal()}

    def _ended_for_s(self, campaign: _CallsOfCampaign, call: int) -> float:
        """Return for how many seconds an open call's task is known to have ended; 0 at the first time."""
        now_s = self._clock.steady_s()
        return now_s - campaign.ended_s.setdefault(call, now_s)

    def _failure_of_task(self, number: int, task: PublishedCampaignTask | None) -> CallFailed:
        if task is None:
            return CallFailed(f"campaign {number} no longer exists: it was purged before the call ended")
        name = f"{number}.{task.number}"
        status = "" if task.exit_status is None else f", exit status {task.exit_status}"
        where = f" at {task.cluster}" if task.cluster else ""
        error = CallFailed(f"task {name}{where} has no result: {task.state_word}{status}")
        note_standard_error(error, name, task.cluster, self._standard_error_of_task(number, task))
        return error

    def _standard_error_of_task(self, number: int, task: PublishedCampaignTask) -> list[str]:
        # imported late, because few calls fail in this way
        from gridbridge.campaigns.cli import task_output_reading_and_fetching as reading

        try:
            folders = reading.own_campaign_output_folders(number, self._paths)
            texts, _ = reading.read_task_output_tails([task], reading.ERR, TAIL_BYTES, folders)
        except (GridbridgeError, OSError):
            return []
        return texts.get(task.number, "").splitlines()[-TAIL_LINES:]
