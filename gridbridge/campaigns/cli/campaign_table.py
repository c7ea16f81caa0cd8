"""Formats campaigns and tasks as text lines in CiGri's layout, summary rows and CSV."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import chain

from gridbridge.cli import output_and_errors
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    SENT,
    PublishedCampaign,
    PublishedCampaignTask,
    PublishedForecastErrors,
)
from gridbridge.model.campaigns.task_resource_usage import TaskUsageAtCluster
from gridbridge.model.published_status_and_reports import number_with_noun, replace_control_characters

HEAD = "Campaign id Name                User             Submission time     S  Progress"
TITLES = ("Campaign", "Name", "User", "Submission time", "S", "Progress")  # of a terminal narrower than HEAD
ROW = "{:<11} {:<19.19} {:<16.16} {:<19} {} {}"
MOMENT = "%Y-%m-%d %H-%M-%S"  # CiGri's format of times
IN_TREATMENT, HELD_BACK = CampaignState.IN_TREATMENT, "W"
LETTERS = {
    CampaignState.CANCELLED: "C",
    CampaignState.IN_TREATMENT: "R",
    CampaignState.TERMINATED: "T",
    CampaignState.PAUSED: "P",
}
SUMMARY_HEAD = ("Id", "User", "Status", "Type", "Waiting", "Running", "Finished", "ToFix Err")
USAGE_HEAD = ("Max s", "Peak MB", "Written MB")
KB_PER_MB = 1024
CLUSTER_HEAD = ("Cluster", "Waiting", "Running", "Ended", "Failed", "Tasks/h", "Mean s", *USAGE_HEAD)
TASK_HEAD = "Task       State           Cluster      Attempt Exit Seconds  Parameters"
COPY_ROW = "{:<10} {:<15} {:<12} {:>7}"
CSV_HEAD = ("id", "name", "user", "submission_time", "state", "ended", "failed", "waiting", "tasks")
TASK_CSV_HEAD = ("task", "state", "cluster", "attempt", "exit_status", "seconds", "parameters")
RANGE = re.compile(r"(\d{1,9}|\*)(?:-(\d{1,9}|\*))?", re.ASCII)


def cigri_campaign_line(campaign: PublishedCampaign) -> str:
    """Return a campaign's line in CiGri's format; long names are cut to the column width."""
    return ROW.format(*campaign_cells(campaign))


def campaign_cells(campaign: PublishedCampaign) -> tuple[str, ...]:
    moment = campaign.submitted_at.astimezone().strftime(MOMENT)
    percent = 100 * campaign.ended // campaign.tasks if campaign.tasks else 100
    letter = HELD_BACK if campaign.is_held_back and campaign.state is IN_TREATMENT else LETTERS[campaign.state]
    state = f"{letter}{'e' if campaign.events else ' '}"
    name, progress = replace_control_characters(campaign.name), f"{campaign.ended}/{campaign.tasks} ({percent}%)"
    return str(campaign.number), name, campaign.owner, moment, state, progress


def campaign_end_forecast_text(campaign: PublishedCampaign) -> str:
    """Describe when a campaign will probably end, or the failed tasks of an ended campaign."""
    if not campaign.state.is_alive:
        return f"{campaign.failed} of {number_with_noun(campaign.ended, 'ended task')} failed"
    times = (campaign.p50_at, campaign.p90_at)
    p50, p90 = ("unknown" if at is None else f"{at.astimezone():{MOMENT}}" for at in times)
    return f"forecast of the end: {p50} (P50), {p90} (P90)"


def end_forecast_error_text(forecast_errors: PublishedForecastErrors) -> str:
    whole = number_with_noun(forecast_errors.forecasts, "campaign")
    return (
        f"earlier forecasts: {forecast_errors.p90_held} of {whole} ended by their P90; "
        f"half missed their P50 by at most {forecast_errors.median_error:.0%}"
        " of the time left at the forecast"
    )


def campaign_summary_row(campaign: PublishedCampaign) -> tuple[str, ...]:
    to_fix = 0 if campaign.state is CampaignState.CANCELLED else campaign.failed
    numbers = (campaign.tasks_waiting, campaign.tasks_running, campaign.ended, to_fix)
    return (str(campaign.number), campaign.owner, campaign.state, campaign.type, *map(str, numbers))


def cluster_progress_rows(campaign: PublishedCampaign) -> list[tuple[str, ...]]:
    live = (campaign.tasks_waiting, campaign.tasks_running)
    counts = (*live, campaign.ended, campaign.failed, campaign.ended_per_h, campaign.mean_s)
    of_all = ("all", *counts, *_usage_cells(campaign.usage))
    rows = [
        (
            at.cluster or "(never sent)",
            *(at.waiting, at.running, at.ended or 0, at.failed or 0, at.ended_per_h, at.mean_s),
            *_usage_cells([usage for usage in campaign.usage if usage.cluster == at.cluster]),
        )
        for at in campaign.at
    ]
    return [tuple(map(_format_table_value, row)) for row in (*rows, of_all)]


def _usage_cells(usages: Sequence[TaskUsageAtCluster]) -> tuple[float | None, ...]:
    """Return the values of USAGE_HEAD for the usages of tasks at some clusters."""
    longest_s = max((usage.longest_s for usage in usages), default=None)
    if not any(usage.measured for usage in usages):
        return longest_s, None, None
    peak_kb, written_kb = max(usage.max_rss_kb for usage in usages), sum(usage.written_kb for usage in usages)
    return longest_s, peak_kb / KB_PER_MB, written_kb / KB_PER_MB


def _format_table_value(value: str | float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def parse_campaign_range(text: str) -> Callable[[int], bool]:
    """Parse a range such as n-m or *-n; return a function that tests numbers, or raise ValueError."""
    match = RANGE.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r:.40}: no range of ids; expected ID, n-m, n-*, *-n or *-*")
    first, last = match[1], match[2] or match[1]
    low = 0 if first == "*" else int(first)
    high = float("inf") if last == "*" else int(last)
    if high < low:
        raise ValueError(f"{text!r:.40}: the last number is less than the first")
    return lambda number: low <= number <= high


def format_task_for_display(task: PublishedCampaignTask, parameters: Sequence[str]) -> str:
    """Return a task as a line of text; the task's parameters are added if `parameters` is not empty."""
    return "{:<10} {:<15} {:<12} {:>7} {:>4} {:>7}  {}".format(*_task_row_values(task, parameters)).rstrip()


def print_task_lines(
    published_tasks: Iterable[PublishedCampaignTask], parameters: Sequence[str], is_headless: bool
) -> None:
    """Print a line for each task, and a line for each further attempt of a task."""
    if not is_headless:
        output_and_errors.print_line(TASK_HEAD)
    for task in published_tasks:
        output_and_errors.print_line(format_task_for_display(task, parameters))
        for copy in task.copies:
            state = SENT if copy.is_live else copy.outcome
            output_and_errors.print_line(COPY_ROW.format("  copy", state, copy.cluster, copy.attempt))


def print_campaigns_csv(campaigns: Iterable[PublishedCampaign], is_headless: bool, *, is_summary: bool) -> None:
    """Print campaigns as comma-separated values; `is_summary` selects the columns that CiGri has."""
    head, row = (SUMMARY_HEAD, campaign_summary_row) if is_summary else (CSV_HEAD, _campaign_csv_row)
    _print_csv(head, map(row, campaigns), is_headless)


def print_tasks_csv(
    published_tasks: Iterable[PublishedCampaignTask], parameters: Sequence[str], is_headless: bool
) -> None:
    rows = (_task_row_values(task, parameters, is_whole=True) for task in published_tasks)
    _print_csv(TASK_CSV_HEAD, rows, is_headless)


def task_json(task: PublishedCampaignTask, parameters: Sequence[str]) -> dict[str, object]:
    row: dict[str, object] = {
        "task": task.number,
        "state": task.state_word,
        "cluster": task.cluster or None,
        "attempt": task.attempt,
        "job_id": task.job_id or None,
        "place": task.place or None,
        "exit_status": task.exit_status,
        "wallclock_s": task.wallclock_s,
        "max_rss_kb": task.max_rss_kb,
        "written_kb": task.written_kb,
        "copies": [asdict(attempt) for attempt in task.copies],
        "is_suspect": task.is_suspect,
    }
    if parameters:
        row["parameters"] = parameters[task.number]
    return row


def _task_row_values(
    task: PublishedCampaignTask, parameters: Sequence[str], is_whole: bool = False
) -> tuple[object, ...]:
    words = parameters[task.number] if task.number < len(parameters) else ""
    status = "-" if task.exit_status is None else task.exit_status
    wallclock = "-" if task.wallclock_s is None else task.wallclock_s
    text = words if is_whole else replace_control_characters(words)
    word = f"{task.state_word} (sink)" if task.is_suspect and not is_whole else task.state_word
    return (task.number, word, task.cluster or "-", task.attempt, status, wallclock, text)


def _campaign_csv_row(campaign: PublishedCampaign) -> tuple[object, ...]:
    moment = campaign.submitted_at.isoformat()
    numbers = (campaign.ended, campaign.failed, campaign.waiting, campaign.tasks)
    return (campaign.number, campaign.name, campaign.owner, moment, campaign.state.value, *numbers)


def _print_csv(head: Sequence[str], rows: Iterable[Sequence[object]], is_headless: bool) -> None:
    for cells in chain(() if is_headless else (head,), rows):
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(cells)
        line, is_terminal = text.getvalue(), output_and_errors.is_stdout_terminal()
        output_and_errors.print_line(replace_control_characters(line) if is_terminal else line)
