"""Reads hosts, jobs and tasks from a snapshot file, and plans moves for `gridbridge rebalance plan --from`."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from gridbridge.config.rebalance import SECTION
from gridbridge.errors import ConfigError, ParseError
from gridbridge.model.rebalance.placement_snapshot_and_moves import (
    NEVER,
    PlacementHost,
    PlacementHostState,
    PlacementJobOrDataset,
    PlacementSnapshot,
    PlacementTask,
    PlacementTaskState,
    RecentPlacementMoveTimes,
)
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.rebalance.mover.rebalance_decision import (
    HostOrJobToRebalance,
    RebalancePlanWithInputs,
    RebalanceScope,
    check_target_and_plan_moves,
)

MS, MIN = 0.001, 60.0
HYDRAS: Mapping[str, tuple[str, float]] = {  # for each key of Hydra: key of gridbridge.toml, factor between the units
    name: (own, times)
    for names, own, times in (
        (("autoBalanceLevel",), "level", 1.0),
        (("tasksMovedFullRebalance", "spawnbalance.tasks.fullbalance"), "tasks_per_round", 1.0),
        (("bytesMovedFullRebalance", "spawnbalance.bytes.fullbalance"), "bytes_per_round", 1.0),
        (("tasksMovedPerUnspecifiedHost", "spawnbalance.host.unspecified"), "tasks_per_host", 1.0),
        (("hostDiskFactor", "spawnbalance.host.factor"), "disk_share", 1.0),
        (("minTaskSizeBytes", "spawnbalance.mintaskbytes"), "min_task_bytes", 1.0),
        (("extremeHostRatio", "spawnbalance.extreme.ratio"), "extreme_ratio", 1.0),
        (("alleviateHostPercentage", "spawnbalance.alleviate.perc"), "other_extreme", 1.0),
        (("minFreeDiskSpaceToRecieveNewTasks", "spawnbalance.disk.free.newtasks"), "min_free_bytes", 1.0),
        (("minFreeDiskSpaceToRunJobs", "spawnbalance.disk.free.runjobs"), "full_free_bytes", 1.0),
        (("activeTaskMilliCutoff", "spawnbalance.active.task.cutoff"), "active_s", MS),
        (("siblingWeight", "spawnbalance.sib.wt"), "sibling_weight", 1.0),
        (("activeTaskWeight", "spawnbalance.active.task.wt"), "active_weight", 1.0),
        (("diskUsedWeight", "spawnbalance.disk.used.wt"), "disk_weight", 1.0),
        (("recentlyBalancedHosts", "spawnbalance.host.balance.interval.mins"), "host_rest_s", MIN),
        (("recentlyReplicatedToHosts", "spawnbalance.host.replicate.interval.mins"), "replicated_rest_s", MIN),
        (("recentlyAutobalancedJobs", "spawnbalance.job.autobalance.interval.mins"), "job_rest_s", MIN),
        (("maxMovingTasks", "host.fail.maxMovingTasks"), "moves_from_failed", 1.0),
        (("maxMovingTasksDiskFull", "host.fail.maxMovingTasksDiskFull"), "moves_from_full", 1.0),
    )
    for name in names
}


def plan_from_snapshot_file(
    path: str, request: RebalanceScope = RebalanceScope.NONE, name: str = ""
) -> RebalancePlanWithInputs:
    """Plan the moves for a snapshot file: for a round, one host or one job.

    Raises ParseError if the file is no JSON, and ConfigError with a line for each fault.
    """
    snapshot, policy = read_placement_snapshot_file(path)
    return check_target_and_plan_moves(
        path, snapshot, _rules(path, policy), HostOrJobToRebalance(what=request, name=name)
    )


def _rules(path: str, policy: Mapping[str, object]) -> RebalanceSection:
    table: Any = {}
    names: dict[str, str] = {}
    problems = []
    for key, value in policy.items():
        own, setting = _ours(key, value)
        if own in table:
            right = f"same meaning as {names[own]}; expected only one of these keys"
            problems.append(f"{path}: policy: {key}: {right}")
        names[own], table[own] = key, setting
    problems += [f"{path}: policy: {problem}" for problem in SECTION.problems(table)]
    if problems:
        raise ConfigError(tuple(problems))
    rules = SECTION.read(table)
    assert isinstance(rules, RebalanceSection)
    return rules


def _ours(key: str, value: object) -> tuple[str, object]:
    own, times = HYDRAS.get(key, (key, 1.0))
    if times != 1.0 and isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):  # the key's own range check rejects infinite numbers
            value = value * times
    return own, _whole_if_integral(value)


def _whole_if_integral(value: object) -> object:
    """Return a float such as 3e11 as an int, and any other value unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


MOST_BYTES = 1 << 31
A_TIME = "an ISO 8601 time with its zone, such as 2026-11-25T12:00:00+00:00"
A_NAME = "a name: 1 to 255 printable characters"
A_PART = "a number, 0 to 1"
MOST = 10**18
WHOLE = "a whole number, 0 to 1e18"
YES = "true or false"
NAMES = "a list of names"
KEYS = ("now", "policy", "hosts", "jobs", "tasks", "recent")
OF_HOST = ["name", "kind", "up", "read_only", "state", "used_bytes", "max_bytes", "slots", "mean_active", "zone"]
OF_JOB = ["name", "autobalance", "replicas", "last_run", "max_per_host"]
OF_TASK = ["job", "number", "bytes", "state", "live", "replicas", "slots"]
OF_RECENT = ["hosts", "replicated", "jobs"]
MOST_TOLD = 20
HOST_STATES: Mapping[str, PlacementHostState] = {  # words of people, Hydra and Grid Engine for a host's state
    "": PlacementHostState.ALIVE,
    "ok": PlacementHostState.ALIVE,
    "up": PlacementHostState.ALIVE,
    "draining": PlacementHostState.DRAIN,
    "failing_fs_okay": PlacementHostState.DRAIN,
    "failing_fs_dead": PlacementHostState.DEAD,
    "full": PlacementHostState.DISK_FULL,
    **{state.value: state for state in PlacementHostState},
}
TASK_STATES: Mapping[str, PlacementTaskState] = {
    "": PlacementTaskState.WAITING,
    "idle": PlacementTaskState.WAITING,
    "queued": PlacementTaskState.WAITING,
    "queued_host_unavail": PlacementTaskState.WAITING,
    "queued_no_slot": PlacementTaskState.WAITING,
    "qw": PlacementTaskState.WAITING,
    "hqw": PlacementTaskState.WAITING,
    "hold": PlacementTaskState.WAITING,
    "held": PlacementTaskState.WAITING,
    "r": PlacementTaskState.RUNNING,
    "rebalance": PlacementTaskState.MOVING,
    **{state.value: state for state in PlacementTaskState},
}

Value = TypeVar("Value")
Word = TypeVar("Word", bound=StrEnum)
Row = Mapping[str, object]


def read_placement_snapshot_file(path: str) -> tuple[PlacementSnapshot, Row]:
    """Read hosts, jobs, tasks and policy values from a snapshot file in JSON.

    Raises ParseError if the file is no JSON, and ConfigError with a line for each fault.
    """
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read(MOST_BYTES))
    except OSError as error:
        raise ParseError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{path}: no JSON: {error}") from error
    reading = _Reading(path)
    parts = reading.snapshot(content), reading.policy(content)
    if reading.problems:
        raise ConfigError(tuple(reading.messages()))
    return parts


class _Reading:
    """Parses a snapshot file and collects all faults."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.problems: list[str] = []

    def messages(self) -> Iterator[str]:
        """Yield a line for each of the first faults, and a line with the number of further faults."""
        yield from self.problems[:MOST_TOLD]
        if (more := len(self.problems) - MOST_TOLD) and more > 0:
            yield f"{self._path}: {more} more faults"

    def snapshot(self, content: object) -> PlacementSnapshot:
        top = self._table(content, "", KEYS)
        snapshot = PlacementSnapshot(
            now=self._required(top, "", "now", _time, A_TIME, NEVER),
            hosts=tuple(self._host(*row) for row in self._rows(top, "hosts", OF_HOST)),
            jobs=tuple(self._job(*row) for row in self._rows(top, "jobs", OF_JOB)),
            tasks=tuple(self._task(*row) for row in self._rows(top, "tasks", OF_TASK)),
            recent=self._recent(_inner_table(top, "recent")),
        )
        self._twice("hosts", [host.name for host in snapshot.hosts if host.name])
        self._twice("jobs", [job.name for job in snapshot.jobs if job.name])
        self._twice("tasks", [f"{task.job} {task.number}" for task in snapshot.tasks if task.job])
        return snapshot

    def policy(self, content: object) -> Row:
        """Return the policy values of a snapshot file under the names that the file uses."""
        table = _inner_table(content, "policy") if isinstance(content, dict) else {}
        return self._table(table, "policy", None)

    def _host(self, at: str, row: Row) -> PlacementHost:
        return PlacementHost(
            name=self._required(row, at, "name", _name, A_NAME, ""),
            kind=self._as(row, at, "kind", _text, A_NAME, ""),
            is_up=self._as(row, at, "up", _bool, YES, True),
            is_read_only=self._as(row, at, "read_only", _bool, YES, False),
            state=self._word(row, at, HOST_STATES, PlacementHostState.UNKNOWN),
            used_bytes=self._as(row, at, "used_bytes", _whole, WHOLE, 0),
            max_bytes=self._as(row, at, "max_bytes", _whole, WHOLE, 0),
            slots=self._as(row, at, "slots", _whole, WHOLE, 1),
            mean_active=self._as(row, at, "mean_active", _part, A_PART, 0.0),
            zone=self._as(row, at, "zone", _text, A_NAME, ""),
        )

    def _job(self, at: str, row: Row) -> PlacementJobOrDataset:
        return PlacementJobOrDataset(
            name=self._required(row, at, "name", _name, A_NAME, ""),
            is_autobalanced=self._as(row, at, "autobalance", _bool, YES, True),
            replicas=self._as(row, at, "replicas", _whole, WHOLE, 0),
            last_run=self._as(row, at, "last_run", _time, A_TIME, None),
            max_per_host=self._as(row, at, "max_per_host", _whole, WHOLE, None),
        )

    def _task(self, at: str, row: Row) -> PlacementTask:
        return PlacementTask(
            job=self._required(row, at, "job", _name, A_NAME, ""),
            number=self._required(row, at, "number", _whole, WHOLE, 0),
            size_bytes=self._as(row, at, "bytes", _whole, WHOLE, 0),
            state=self._word(row, at, TASK_STATES, PlacementTaskState.UNKNOWN),
            live=self._as(row, at, "live", _name, A_NAME, ""),
            replicas=self._as(row, at, "replicas", _names, NAMES, ()),
            slots=self._as(row, at, "slots", _whole, WHOLE, 1),
        )

    def _recent(self, content: object) -> RecentPlacementMoveTimes:
        table = self._table(content, "recent", OF_RECENT)
        return RecentPlacementMoveTimes(
            hosts=self._times(table, "hosts"),
            replicated=self._times(table, "replicated"),
            jobs=self._times(table, "jobs"),
        )

    def _times(self, table: Row, key: str) -> Mapping[str, datetime]:
        at = f"recent.{key}"
        row = self._table(_inner_table(table, key), at, None)
        times = {name: self._as(row, at, name, _time, A_TIME, None) for name in row}
        return {name: time for name, time in times.items() if time}

    def _rows(self, top: Row, key: str, keys: Sequence[str]) -> Iterator[tuple[str, Row]]:
        rows = top.get(key)
        rows = [] if rows is None else rows
        if not isinstance(rows, list):
            self._wrong(key, rows, "a list of tables")
            return
        for number, row in enumerate(rows):
            at = f"{key}[{number}]"
            yield at, self._table(row, at, keys)

    def _table(self, content: object, at: str, keys: Sequence[str] | None) -> Row:
        if not isinstance(content, dict):
            self._wrong(at or "the file", content, "a table")
            return {}
        for key in content if keys is not None else ():
            if key not in (keys or ()):
                self._wrong(f"{at}.{key}".lstrip("."), "unknown", f"one of {', '.join(keys or ())}")
        return content

    def _word(self, row: Row, at: str, words: Mapping[str, Word], unknown: Word) -> Word:
        """Parse the state of a host or task; an unrecognised word gives `unknown`, so that nothing is moved."""
        word = self._as(row, at, "state", _text, A_NAME, "")
        return words.get(word.lower().replace("-", "_").replace(" ", "_"), unknown)

    def _as(self, row: Row, at: str, key: str, read: Callable[[object], Value], right: str, usual: Value) -> Value:
        """Parse a value; null or a missing key gives the default."""
        content = row.get(key)
        if content is None:
            return usual
        try:
            return read(content)
        except (TypeError, ValueError):
            self._wrong(f"{at}.{key}".lstrip("."), content, right)
            return usual

    def _required(self, row: Row, at: str, key: str, read: Callable[[object], Value], right: str, none: Value) -> Value:
        if row.get(key) is None:
            self._wrong(f"{at}.{key}".lstrip("."), "missing", right)
        return self._as(row, at, key, read, right, none)

    def _twice(self, kind: str, names: Sequence[str]) -> None:
        if len(set(names)) == len(names):
            return
        earlier = set[str]()
        for name in names:
            if name in earlier:
                self._wrong(f"{kind}: {name}", "twice", "once")
            earlier.add(name)

    def _wrong(self, key: str, content: object, right: str) -> None:
        words = content if content in ("missing", "unknown", "twice") else json.dumps(content)[:80]
        self.problems.append(f"{self._path}: {key}: {words}; expected {right}")


def _inner_table(table: Row, key: str) -> object:
    inner = table.get(key)
    return {} if inner is None else inner


def _name(text: object) -> str:
    if not isinstance(text, str) or not 0 < len(text) < 256 or not text.isprintable():
        raise ValueError
    return text


def _text(text: object) -> str:
    return _name(text) if text != "" else ""


def _bool(flag: object) -> bool:
    if not isinstance(flag, bool):
        raise TypeError
    return flag


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError
    if not 0 <= number <= MOST or number != int(number):
        raise ValueError
    return int(number)


def _part(number: object) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        raise ValueError
    return float(number)


def _names(names: object) -> tuple[str, ...]:
    if not isinstance(names, list):
        raise TypeError
    return tuple(map(_name, names))


def _time(text: object) -> datetime:
    if not isinstance(text, str):
        raise TypeError
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
