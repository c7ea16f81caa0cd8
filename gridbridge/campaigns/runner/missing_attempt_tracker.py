"""Track how long tasks are missing from job lists, and which tasks had started.

The tracked times survive restarts, because each cycle from cron is a new process.
"""

import json
import logging
from collections.abc import Iterable, Set

from gridbridge.campaigns.store.deleted_and_missing_task_rows import Place, TaskMissingAtClusterRows
from gridbridge.errors import ParseError, StateError
from gridbridge.model.campaigns.campaign import CampaignArray, TaskAttempt
from gridbridge.model.campaigns.nikita_deletion_values import TaskMissingSince
from gridbridge.model.campaigns.task_attempt_ranges import (
    format_array_index_ranges,
    group_into_ranges,
    parse_array_index_ranges,
)
from gridbridge.model.fixed_paths import RUNNER_RAN
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock

MAX_BYTES = 64 << 20

Key = tuple[int, int]  # campaign and number of an array

_log = logging.getLogger(__name__)


class MissingAttemptTracker:
    """Tracks tasks that their clusters do not list and whose ends are unknown."""

    def __init__(
        self, missing_tasks: TaskMissingAtClusterRows, clock: Clock, path: str = RUNNER_RAN, *, is_dry: bool = False
    ) -> None:
        """Load what earlier runs stored; `path` is the file of started tasks."""
        self._is_dry = is_dry
        self._kept = missing_tasks
        self._path = path
        self._clock = clock
        self._known = missing_tasks.all()
        self._of: dict[Key, set[Place]] = {}  # stored missing tasks of each array
        self._since_s: dict[Key, dict[Place, float]] = {}  # monotonic time of first absence
        self._ran: dict[Key, Set[int]] = _read(path)  # started indices by array when last listed
        self._saved_ran = b""  # last written content of the file `path`
        self.changed: list[TaskMissingSince] = []  # tasks newly missing or listed again

    def begin(self) -> None:
        """Start a cycle: read the missing tasks from the state file."""
        self._known, self.changed, self._of = self._kept.all(), [], {}
        for position in self._known:
            self._of.setdefault(position[:2], set()).add(position)

    def observe(self, array: CampaignArray, listed: Set[int], running: Set[int]) -> None:
        """Record which indices of an array are listed, and which of those run."""
        of = array.campaign, array.number
        self._keep_ran(of, (self._ran.get(of, frozenset()) - listed) | running)
        if since_s := self._since_s.get(of):
            self._keep_since(of, {position: at for position, at in since_s.items() if position[2] not in listed})
        for position in self._of.get(of, ()):
            if position[2] in listed:
                self._change(position, is_missing=False)

    def ran(self, array: CampaignArray) -> Set[int]:
        """Return the indices of an array that had started when last listed."""
        return self._ran.get((array.campaign, array.number), frozenset())

    def keep(self, arrays: Iterable[CampaignArray]) -> None:
        """Save which indices of these arrays had started, for the next run of the program."""
        if self._is_dry:
            return
        of = {(array.campaign, array.number) for array in arrays}
        self._ran = {key: indices for key, indices in self._ran.items() if key in of}
        ran = {
            f"{campaign}.{array}": format_array_index_ranges(group_into_ranges(indices))
            for (campaign, array), indices in self._ran.items()
        }
        raw = json.dumps(ran).encode()
        try:
            if raw != self._saved_ran:
                safe_files.replace_file_atomically(self._path, raw)
                self._saved_ran = raw
        except StateError as error:
            _log.warning("event=not_kept why=%r", str(error))

    def for_s(self, missing: Iterable[TaskAttempt]) -> dict[TaskAttempt, float]:
        """Return for how many seconds each of these attempts has been missing."""
        now_s = self._clock.steady_s()
        durations_s = {}
        for attempt in missing:
            since_s = self._since_s.setdefault((attempt.campaign, attempt.array), {})
            durations_s[attempt] = now_s - since_s.setdefault(_position(attempt), now_s - self._before_s(attempt))
        return durations_s

    def settle(self, missing: Iterable[TaskAttempt], ended: Iterable[TaskAttempt]) -> None:
        """Forget the ended attempts, and keep the other attempts as missing."""
        over = {_position(attempt) for attempt in ended}
        for of in {position[:2] for position in over}:
            since_s = self._since_s.get(of, {})
            self._keep_since(of, {position: at for position, at in since_s.items() if position not in over})
            self._keep_ran(of, self._ran.get(of, frozenset()) - {position[2] for position in over})
        for position in map(_position, missing):
            if position not in over and position not in self._known:
                self._change(position, is_missing=True)

    def _keep_since(self, of: Key, since_s: dict[Place, float]) -> None:
        if since_s:
            self._since_s[of] = since_s
        else:
            self._since_s.pop(of, None)

    def _keep_ran(self, of: Key, indices: Set[int]) -> None:
        if indices:
            self._ran[of] = indices
        else:
            self._ran.pop(of, None)

    def _before_s(self, attempt: TaskAttempt) -> float:
        """Return how long an attempt was already missing when this process first saw it."""
        since = self._known.get(_position(attempt))
        return max(0.0, (self._clock.now() - since).total_seconds()) if since else 0.0

    def _change(self, position: Place, *, is_missing: bool) -> None:
        campaign, array, index = position
        since = self._clock.now() if is_missing else None
        self.changed.append(TaskMissingSince(campaign=campaign, array=array, place=index, since=since))


def _position(attempt: TaskAttempt) -> Place:
    return attempt.campaign, attempt.array, attempt.place


def _read(path: str) -> dict[Key, Set[int]]:
    """Load the indices of arrays that had started when an earlier run saw them."""
    try:
        ran = json.loads(safe_files.read_file_only_owner_writes(path, MAX_BYTES)[0])
        return {_array(of): _indices(str(indices)) for of, indices in ran.items()}
    except (OSError, StateError, ParseError, ValueError, AttributeError):
        return {}


def _array(of: str) -> Key:
    campaign, _, number = of.partition(".")
    return int(campaign), int(number)


def _indices(text: str) -> frozenset[int]:
    return frozenset(index for indices in parse_array_index_ranges(text) for index in indices)
