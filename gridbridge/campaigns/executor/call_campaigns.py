"""Runs an Executor's calls as tasks of a campaign, and finds the tasks that ended without an outcome of their call."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from gridbridge.campaigns.executor.call_files import PROGRAM, note_standard_error
from gridbridge.campaigns.executor.call_program import CALLS, RESULTS, TAIL_BYTES, TAIL_LINES
from gridbridge.campaigns.store import campaign_client
from gridbridge.campaigns.store.campaign_client import CampaignSubmissionRefusal
from gridbridge.campaigns.submission import jdl_reader, site_admission_rules, task_file_listing
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.errors import ConfigError, GridbridgeError
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestVerb
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign, PublishedCampaignTask
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.model.site_configuration import Policy
from gridbridge.program import configuration_in_force
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import quote_for_sh

OWN_KEYS = ("clusters", "exec_file", "inputs", "nb_jobs", "outputs", "outputs_to", "param_file", "params")
LATE_FILES_S = 60.0  # a shared filesystem shows a new file within this time
LATE_OUTPUTS_S = 7200.0  # a broken link home is tried again within this time ([failures] probe_max_s)
PUBLISHED_S = 60.0  # a new campaign is published within this time


class CallFailed(GridbridgeError):
    """A call has no outcome: its task was killed, cancelled, or ended otherwise before the call did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallClusters:
    """The clusters at which calls run, and whether they share the caller's filesystem."""

    names: tuple[str, ...]
    are_sharing_files: bool


def choose_call_clusters(names: Sequence[str], are_sharing_files: bool | None, configuration: str) -> CallClusters:
    """Return the named clusters, or else all; clusters that are reached by ssh have a filesystem of their own.

    Raises ConfigError for an unknown cluster.
    """
    policy, _ = configuration_in_force.load_config_or_one_in_force(configuration)
    if unknown := ", ".join(name for name in names if name not in policy.clusters):
        raise ConfigError((f"no cluster {unknown} here; the clusters are {', '.join(sorted(policy.clusters))}",))
    chosen = tuple(names) or _clusters_of_campaigns(policy)
    if are_sharing_files is None:
        are_sharing_files = not any(policy.clusters[name].ssh for name in chosen)
    return CallClusters(names=chosen, are_sharing_files=are_sharing_files)


def _clusters_of_campaigns(policy: Policy) -> tuple[str, ...]:
    from gridbridge.batch.batch_adapter_table import ADAPTERS  # slow to load

    return tuple(name for name, cluster in policy.clusters.items() if ADAPTERS[cluster.kind].array_ends)


def parse_jdl_of_calls(clusters: CallClusters, folder: str, python: str, keys: Mapping[str, Any]) -> ParsedJdl:
    """Return the campaign of calls in a folder, as yet without tasks; raise ConfigError for wrong JDL keys."""
    if wrong := ", ".join(sorted(set(OWN_KEYS).intersection(keys))):
        raise ConfigError((f"{wrong}: set by Executor itself; expected other keys of a JDL",))
    program = os.path.basename(sys.argv[0]) or "python"
    table = {"name": f"Executor of {program}", **keys, "clusters": {name: {} for name in clusters.names}}
    if clusters.are_sharing_files:
        # the folder is removed with the last outcome: tasks of cancelled calls then end at once
        run = f"[ ! -e {quote_for_sh(folder)} ] || exec {quote_for_sh(python)} {quote_for_sh(folder)}/{PROGRAM}"
        table |= {"exec_file": f"{run} {quote_for_sh(folder)}"}
    else:
        table |= {"exec_file": f"exec {quote_for_sh(python)} {PROGRAM} .", "outputs_to": folder}
        table |= {"inputs": [f"{folder}/./{PROGRAM}", f"{folder}/./{CALLS}/{{}}"], "outputs": [f"{RESULTS}/{{}}"]}
    return jdl_reader.parse_jdl("Executor", json.dumps({**table, "nb_jobs": 1}), type_=CampaignType.DEFAULT)


@dataclass(slots=True)
class _CallsOfCampaign:
    """The calls that one campaign runs."""

    tasks: int = 0
    open: set[int] = field(default_factory=set)  # calls without an outcome
    ended_s: dict[int, float] = field(default_factory=dict)  # when the task of an open call was first seen ended
    is_published: bool = False


class CallCampaigns:
    """The campaign of an Executor's calls; a further campaign takes over if the last takes no more tasks."""

    def __init__(self, parsed: ParsedJdl, paths: FixedPaths, clock: Clock) -> None:
        self._parsed = parsed
        self._paths = paths
        self._clock = clock
        self._calls: dict[int, _CallsOfCampaign] = {}  # in the order of submission
        self._campaign_of: dict[int, int] = {}
        self._closed_early: set[int] = set()  # calls with an outcome, whose campaign's number is not known yet
        self._additions = 0
        self._lock = Lock()  # one thread sends calls, while another closes them

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(self._calls)

    @property
    def pause_s(self) -> float:
        """The least time between two additions of tasks, because a site limits each person's campaign files."""
        return min(60.0, 0.05 * self._additions)

    def send_calls(self, calls: Sequence[int]) -> None:
        """Send calls as tasks; raise a GridbridgeError if they are refused, or if no runner answers."""
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
        """Return the number of the last campaign; 0 if it takes no more tasks, for example because it has ended."""
        if not self._calls:
            return 0
        number = self.numbers[-1]
        try:
            campaign_client.add_tasks_to_campaign(number, lines, self._paths)
        except CampaignSubmissionRefusal:
            return 0
        self._additions += 1
        return number

    def _submit_campaign(self, lines: tuple[str, ...]) -> int:
        parsed = replace(self._parsed, parameters=lines)
        admitted = site_admission_rules.admit_campaign_by_site_rules(parsed, self._paths)
        return campaign_client.submit_campaign(admitted, self._paths)

    def close_call(self, call: int) -> None:
        """Note that a sent call has its outcome, or needs none."""
        with self._lock:
            if number := self._campaign_of.pop(call, 0):
                self._calls[number].open.discard(call)
            else:
                self._closed_early.add(call)

    def cancel_unfinished(self) -> None:
        """Cancel the tasks that are left, if any; raise a GridbridgeError if no runner answers."""
        shown = {campaign.number: campaign for campaign in campaign_client.published_campaigns(self._paths.published)}
        alive = tuple(number for number in self._calls if number not in shown or shown[number].state.is_alive)
        if alive:
            campaign_client.ask_runner_to_act_on_campaigns(CampaignOwnerRequestVerb.CANCEL, alive, self._paths)

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
        """Return the tasks of open calls that have failed, by call; None for tasks of a campaign that is gone."""
        shown = campaign_client.find_published_campaign(number, self._paths.published)
        if shown is None:
            limit_s = 0.0 if campaign.is_published else PUBLISHED_S
            return {call: None for call in campaign.open if self._has_waited(campaign, call, limit_s)}
        campaign.is_published = True
        is_over = not shown.state.is_alive and not shown.ending_at
        if not is_over and shown.ended <= campaign.tasks - len(campaign.open):
            return {}
        late_s = LATE_OUTPUTS_S if self._parsed.jdl.outputs_to else LATE_FILES_S
        return {
            call: task
            for call, task in self._ended_tasks_of_open_calls(shown, campaign, is_over=is_over)
            if self._has_waited(campaign, call, late_s if task.outcome is TaskAttemptOutcome.SUCCESS else 0.0)
        }

    def _ended_tasks_of_open_calls(
        self, shown: PublishedCampaign, campaign: _CallsOfCampaign, *, is_over: bool
    ) -> Iterator[tuple[int, PublishedCampaignTask]]:
        lines = campaign_client.own_task_parameters(shown.number, self._paths.campaigns)
        for task in campaign_client.list_published_tasks(shown, 0, self._paths.published):
            line = lines[task.number] if task.number < len(lines) else ""
            if (is_over or task.has_ended) and line.isdecimal() and int(line) in campaign.open:
                yield int(line), task

    def _has_waited(self, campaign: _CallsOfCampaign, call: int, limit_s: float) -> bool:
        """Say whether a call was found without an outcome before, at least `limit_s` ago."""
        now_s = self._clock.steady_s()
        since_s = campaign.ended_s.setdefault(call, now_s)
        return now_s > since_s and now_s - since_s >= limit_s

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
