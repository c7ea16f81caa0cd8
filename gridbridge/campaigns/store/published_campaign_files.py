"""Publishes campaigns and task states, but no task parameters, and reads the published files."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from gridbridge.errors import StateError
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_events import PublishedCampaignEvents
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointCarryState
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    CampaignTaskEndCounts,
    PublishedCampaignList,
    PublishedCampaignTask,
    PublishedClusterSlotsList,
    RebalancedTaskAttempt,
    TaskCheckpoint,
    TaskPreemption,
)
from gridbridge.model.campaigns.send_reasons import PublishedTaskSendExplanations
from gridbridge.model.campaigns.speculative_attempts import PublishedCompetingAttempt
from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.shell import safe_files
from gridbridge.state import published_files, published_json

NAMES: Mapping[type, str] = {
    PublishedCampaignList: "campaigns.json",
    PublishedTaskSendExplanations: "campaign_cycle.json",
    PublishedCampaignEvents: "campaign-events.json",
    PublishedClusterSlotsList: "campaign-clusters.json",
}

T = TypeVar("T")
A_FILE = 1000  # at most this many tasks in one published file
MAX_BYTES = 64 << 20  # at most this many bytes of a published file: a task may have a thousand preemptions
ENDS = "ends"
TOUCHING = "campaigns/touching"
NONE = "-"


def publish_campaign_value(value: object, folder: str = PUBLISHED) -> None:
    """Publish a value in the file for the value's class, such as `campaigns.json`."""
    safe_files.replace_file_atomically(
        f"{folder}/{NAMES[type(value)]}", published_json.encode_published_value(value), durable=False
    )


def read_published_campaign_value(kind: type[T], folder: str = PUBLISHED) -> T | None:
    return published_json.read_published_value(f"{folder}/{NAMES[kind]}", kind)


def publish_campaign_task_file(
    campaign: int, part: int, tasks: Iterable[PublishedCampaignTask], folder: str = PUBLISHED
) -> None:
    """Publish up to 1000 tasks of a campaign in one file, in place of the old file."""
    path = f"{_published_folder_of_campaign(campaign, folder)}/tasks.{part}"
    published_files.publish_file(path, "".join(map(_format_task_line, tasks)).encode())


def read_published_task_file(campaign: int, part: int, folder: str = PUBLISHED) -> dict[int, PublishedCampaignTask]:
    """Return {task number: task} for the submitted tasks in one published file of a campaign."""
    path = f"{_published_folder_of_campaign(campaign, folder)}/tasks.{part}"
    try:
        lines = _read_published_file_or_empty(path).decode().splitlines()
        return {task.number: task for task in map(_parse_task_line, lines)}
    except (ValueError, IndexError, KeyError) as error:
        raise StateError(f"{path}: not what this version of gridbridge publishes") from error


def append_published_task_end_counts(
    campaign: int, ends: Iterable[CampaignTaskEndCounts], folder: str = PUBLISHED
) -> None:
    """Append counts of ended tasks to a campaign's published file; negative counts undo earlier counts."""
    path = f"{_published_folder_of_campaign(campaign, folder)}/{ENDS}"
    published_files.make_published_folder(os.path.dirname(path))
    try:
        with open(path, "a", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o644)
            for end in ends:
                numbers = f"{end.tasks} {end.failed} {end.timed} {end.wallclock_s} {end.cancelled}"
                file.write(f"{end.at.timestamp():.0f} {end.cluster} {numbers}\n")
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


def read_published_task_end_counts(campaign: int, folder: str = PUBLISHED) -> tuple[CampaignTaskEndCounts, ...]:
    """Return the published counts of a campaign's ended tasks, in the order of recording."""
    data = _read_published_file_or_empty(f"{_published_folder_of_campaign(campaign, folder)}/{ENDS}")
    return tuple(_parse_end_counts(data.decode("ascii", "replace").splitlines()))


def mark_campaigns_being_published(campaigns: Iterable[int], folder: str = PUBLISHED) -> None:
    """Record the campaigns whose published tasks are about to change."""
    published_files.make_published_folder(f"{folder}/campaigns")
    text = "".join(f"{number}\n" for number in sorted(campaigns))
    safe_files.replace_file_atomically(f"{folder}/{TOUCHING}", text.encode(), durable=False)


def campaigns_half_published(folder: str = PUBLISHED) -> frozenset[int]:
    """Return the campaigns whose tasks were being published when a process was killed."""
    return frozenset(map(int, _read_published_file_or_empty(f"{folder}/{TOUCHING}").split()))


def campaigns_with_published_tasks(folder: str = PUBLISHED) -> frozenset[int]:
    try:
        names = os.listdir(f"{folder}/campaigns")
    except FileNotFoundError:
        return frozenset()
    return frozenset(int(name) for name in names if name.isascii() and name.isdigit())


def clear_campaigns_being_published(folder: str = PUBLISHED) -> None:
    safe_files.remove_file(f"{folder}/{TOUCHING}")


def remove_published_campaign_tasks(campaign: int, folder: str = PUBLISHED) -> None:
    shutil.rmtree(_published_folder_of_campaign(campaign, folder), ignore_errors=True)


def _read_published_file_or_empty(path: str) -> bytes:
    try:
        return safe_files.read_file_only_owner_writes(path, MAX_BYTES)[0]
    except FileNotFoundError:
        return b""


def _published_folder_of_campaign(campaign: int, folder: str) -> str:
    return f"{folder}/campaigns/{campaign}"


def _format_task_line(task: PublishedCampaignTask) -> str:
    identity = (task.number, task.attempt, task.outcome.value, int(task.is_waiting))
    location = (task.cluster or NONE, task.job_id, task.place)
    numbers = map(
        _format_number_or_none, (task.exit_status, task.wallclock_s, task.max_rss_kb, task.written_kb, task.beyond_s)
    )
    copies = (
        f"{copy.attempt}:{copy.cluster}:{copy.outcome.value}:{_format_number_or_none(copy.beyond_s)}"
        for copy in task.copies
    )
    ways = (f"{way.attempt}:{way.cluster}:{way.job}:{'+'.join(way.lacked)}" for way in task.made_way)
    moves = (f"{move.attempt}:{move.cluster}:{move.to}" for move in task.moved)
    checkpoints = [_format_checkpoint(task.checkpoint)] if task.checkpoint else ()
    lists = (",".join(words) or NONE for words in (copies, ways, moves, checkpoints))
    return f"{' '.join(map(str, (*identity, *location, *numbers, *lists)))}\n"


def _format_checkpoint(left: TaskCheckpoint) -> str:
    return f"{left.attempt}:{left.cluster}:{left.to}:{left.carry_s}:{left.lost_s}:{left.state}"


def _format_number_or_none(number: int | None) -> int | str:
    return NONE if number is None else number


def _parse_task_line(line: str) -> PublishedCampaignTask:
    """Parse a published line. Empty columns are skipped for speed: a campaign may have 100,000 lines."""
    words = line.split(" ")
    number, attempt, outcome, waits, cluster, job, index, status, wallclock = words[:9]
    memory, written, beyond, copies, ways, moves, checkpoint = words[9:]
    return PublishedCampaignTask(
        number=int(number),
        attempt=int(attempt),
        outcome=TaskAttemptOutcome(outcome),
        is_waiting=waits == "1",
        cluster="" if cluster == NONE else cluster,
        job_id=int(job),
        place=int(index),
        exit_status=None if status == NONE else int(status),
        wallclock_s=None if wallclock == NONE else int(wallclock),
        max_rss_kb=None if memory == NONE else int(memory),
        written_kb=None if written == NONE else int(written),
        beyond_s=None if beyond == NONE else int(beyond),
        copies=() if copies == NONE else tuple(map(_parse_competing_attempt, copies.split(","))),
        made_way=() if ways == NONE else tuple(map(_parse_preemption, ways.split(","))),
        moved=() if moves == NONE else tuple(map(_parse_moved_attempt, moves.split(","))),
        checkpoint=None if checkpoint == NONE else _parse_checkpoint(checkpoint),
    )


def _parse_preemption(words: str) -> TaskPreemption:
    attempt, cluster, job, lacked = words.split(":")
    return TaskPreemption(attempt=int(attempt), cluster=cluster, job=int(job), lacked=tuple(lacked.split("+")))


def _parse_checkpoint(words: str) -> TaskCheckpoint:
    attempt, cluster, to, carry_s, lost_s, state = words.split(":")
    return TaskCheckpoint(
        attempt=int(attempt),
        cluster=cluster,
        to=to,
        carry_s=int(carry_s),
        lost_s=int(lost_s),
        state=CheckpointCarryState(state),
    )


def _parse_moved_attempt(words: str) -> RebalancedTaskAttempt:
    attempt, cluster, to = words.split(":")
    return RebalancedTaskAttempt(attempt=int(attempt), cluster=cluster, to=to)


def _parse_competing_attempt(text: str) -> PublishedCompetingAttempt:
    attempt, cluster, outcome, beyond = text.split(":")
    beyond_s = None if beyond == NONE else int(beyond)
    ended = TaskAttemptOutcome(outcome)
    return PublishedCompetingAttempt(attempt=int(attempt), cluster=cluster, outcome=ended, beyond_s=beyond_s)


def _parse_end_counts(lines: Iterable[str]) -> Iterator[CampaignTaskEndCounts]:
    names = ("tasks", "failed", "timed", "wallclock_s", "cancelled")
    for line in lines:
        with suppress(ValueError):  # a power failure may have cut a line
            at, cluster, *numbers = line.split(" ")
            counts = dict(zip(names, map(int, numbers), strict=True))
            yield CampaignTaskEndCounts(at=datetime.fromtimestamp(int(at), UTC), cluster=cluster, **counts)
