"""A file with hosts, jobs and tasks: to see what would be moved, for support, and for tests."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

from gridbridge.errors import ConfigError, ParseError
from gridbridge.model.rebalance.note_age import NEVER
from gridbridge.model.rebalance.placement_snapshot import (
    HostState,
    PlacementHost,
    PlacementJob,
    PlacementSnapshot,
    PlacementTask,
    RecentMoves,
    TaskState,
)

MOST_BYTES = 1 << 31
A_TIME = "an ISO 8601 time with its zone, such as 2026-11-25T12:00:00+00:00"
A_NAME = "a name: 1 to 255 printable characters"
A_PART = "a number, 0 to 1"
MOST = 10**18
WHOLE = "a whole number, 0 to 1e18"
YES = "true or false"
NAMES = "a list of names"
KEYS = ("now", "policy", "hosts", "jobs", "tasks", "recent")
OF_HOST = [
    "name",
    "kind",
    "up",
    "read_only",
    "state",
    "used_bytes",
    "max_bytes",
    "slots",
    "mean_active",
    "zone",
]
OF_JOB = ["name", "autobalance", "replicas", "last_run", "max_per_host"]
OF_TASK = ["job", "number", "bytes", "state", "live", "replicas", "slots"]
OF_RECENT = ["hosts", "replicated", "jobs"]
MOST_TOLD = 20
HOST_STATES: Mapping[str, HostState] = {  # what people, Hydra and Grid Engine call them
    "": HostState.ALIVE,
    "ok": HostState.ALIVE,
    "up": HostState.ALIVE,
    "draining": HostState.DRAIN,
    "failing_fs_okay": HostState.DRAIN,
    "failing_fs_dead": HostState.DEAD,
    "full": HostState.DISK_FULL,
    **{one.value: one for one in HostState},
}
TASK_STATES: Mapping[str, TaskState] = {
    "": TaskState.WAITING,
    "idle": TaskState.WAITING,
    "queued": TaskState.WAITING,
    "queued_host_unavail": TaskState.WAITING,
    "queued_no_slot": TaskState.WAITING,
    "qw": TaskState.WAITING,
    "hqw": TaskState.WAITING,
    "hold": TaskState.WAITING,
    "held": TaskState.WAITING,
    "r": TaskState.RUNNING,
    "rebalance": TaskState.MOVING,
    **{one.value: one for one in TaskState},
}

Value = TypeVar("Value")
Word = TypeVar("Word", bound=StrEnum)
Row = Mapping[str, object]


def read(path: str) -> tuple[PlacementSnapshot, Row]:
    """Read a file: what is to be decided about, and what it says of the rules.

    ParseError for what is no JSON, ConfigError with a line for each thing that is wrong.
    """
    try:
        with open(path, "rb") as file:
            told = json.loads(file.read(MOST_BYTES))
    except OSError as error:
        raise ParseError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{path}: no JSON: {error}") from error
    reading = _Reading(path)
    found = reading.snapshot(told), reading.policy(told)
    if reading.problems:
        raise ConfigError(tuple(reading.told()))
    return found


class _Reading:
    """What is read of a file, and what is wrong with it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.problems: list[str] = []

    def told(self) -> Iterator[str]:
        """Give a line for each thing that is wrong, the first of many."""
        yield from self.problems[:MOST_TOLD]
        if (more := len(self.problems) - MOST_TOLD) and more > 0:
            yield f"{self._path}: {more} more are wrong"

    def snapshot(self, told: object) -> PlacementSnapshot:
        """Read it whole."""
        top = self._table(told, "", KEYS)
        snapshot = PlacementSnapshot(
            now=self._required(top, "", "now", _time, A_TIME, NEVER),
            hosts=tuple(self._host(*row) for row in self._rows(top, "hosts", OF_HOST)),
            jobs=tuple(self._job(*row) for row in self._rows(top, "jobs", OF_JOB)),
            tasks=tuple(self._task(*row) for row in self._rows(top, "tasks", OF_TASK)),
            recent=self._recent(_given(top, "recent")),
        )
        self._twice("hosts", [host.name for host in snapshot.hosts if host.name])
        self._twice("jobs", [job.name for job in snapshot.jobs if job.name])
        self._twice("tasks", [f"{one.job} {one.number}" for one in snapshot.tasks if one.job])
        return snapshot

    def policy(self, told: object) -> Row:
        """Return what it says of the rules, by their names in gridbridge.toml."""
        found = _given(told, "policy") if isinstance(told, dict) else {}
        return self._table(found, "policy", None)

    def _host(self, at: str, row: Row) -> PlacementHost:
        return PlacementHost(
            name=self._required(row, at, "name", _name, A_NAME, ""),
            kind=self._as(row, at, "kind", _text, A_NAME, ""),
            is_up=self._as(row, at, "up", _bool, YES, True),
            is_read_only=self._as(row, at, "read_only", _bool, YES, False),
            state=self._word(row, at, HOST_STATES, HostState.UNKNOWN),
            used_bytes=self._as(row, at, "used_bytes", _whole, WHOLE, 0),
            max_bytes=self._as(row, at, "max_bytes", _whole, WHOLE, 0),
            slots=self._as(row, at, "slots", _whole, WHOLE, 1),
            mean_active=self._as(row, at, "mean_active", _part, A_PART, 0.0),
            zone=self._as(row, at, "zone", _text, A_NAME, ""),
        )

    def _job(self, at: str, row: Row) -> PlacementJob:
        return PlacementJob(
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
            state=self._word(row, at, TASK_STATES, TaskState.UNKNOWN),
            live=self._as(row, at, "live", _name, A_NAME, ""),
            replicas=self._as(row, at, "replicas", _names, NAMES, ()),
            slots=self._as(row, at, "slots", _whole, WHOLE, 1),
        )

    def _recent(self, told: object) -> RecentMoves:
        table = self._table(told, "recent", OF_RECENT)
        return RecentMoves(
            hosts=self._times(table, "hosts"),
            replicated=self._times(table, "replicated"),
            jobs=self._times(table, "jobs"),
        )

    def _times(self, table: Row, key: str) -> Mapping[str, datetime]:
        at = f"recent.{key}"
        row = self._table(_given(table, key), at, None)
        found = {name: self._as(row, at, name, _time, A_TIME, None) for name in row}
        return {name: time for name, time in found.items() if time}

    def _rows(self, top: Row, key: str, keys: Sequence[str]) -> Iterator[tuple[str, Row]]:
        told = top.get(key)
        told = [] if told is None else told
        if not isinstance(told, list):
            self._wrong(key, told, "a list of tables")
            return
        for number, one in enumerate(told):
            at = f"{key}[{number}]"
            yield at, self._table(one, at, keys)

    def _table(self, told: object, at: str, keys: Sequence[str] | None) -> Row:
        if not isinstance(told, dict):
            self._wrong(at or "the file", told, "a table")
            return {}
        for key in told if keys is not None else ():
            if key not in (keys or ()):
                self._wrong(f"{at}.{key}".lstrip("."), "unknown", f"one of {', '.join(keys or ())}")
        return told

    def _word(self, row: Row, at: str, words: Mapping[str, Word], unknown: Word) -> Word:
        """Read a state; a word that nobody knows is one of its own, by which nothing is moved."""
        told = self._as(row, at, "state", _text, A_NAME, "")
        return words.get(told.lower().replace("-", "_").replace(" ", "_"), unknown)

    def _as(
        self, row: Row, at: str, key: str, read: Callable[[object], Value], right: str, usual: Value
    ) -> Value:
        """Read a value; null and a missing one are the usual one."""
        told = row.get(key)
        if told is None:
            return usual
        try:
            return read(told)
        except (TypeError, ValueError):
            self._wrong(f"{at}.{key}".lstrip("."), told, right)
            return usual

    def _required(
        self, row: Row, at: str, key: str, read: Callable[[object], Value], right: str, none: Value
    ) -> Value:
        """Read a value that has to be there; null is none."""
        if row.get(key) is None:
            self._wrong(f"{at}.{key}".lstrip("."), "missing", right)
        return self._as(row, at, key, read, right, none)

    def _twice(self, what: str, names: Sequence[str]) -> None:
        if len(set(names)) == len(names):
            return
        seen = set[str]()
        for name in names:
            if name in seen:
                self._wrong(f"{what}: {name}", "twice", "once")
            seen.add(name)

    def _wrong(self, key: str, told: object, right: str) -> None:
        words = told if told in ("missing", "unknown", "twice") else json.dumps(told)[:80]
        self.problems.append(f"{self._path}: {key}: {words}; expected {right}")


def _given(table: Row, key: str) -> object:
    """Return a table of a table; null is as usual, which is an empty one."""
    found = table.get(key)
    return {} if found is None else found


def _name(told: object) -> str:
    if not isinstance(told, str) or not 0 < len(told) < 256 or not told.isprintable():
        raise ValueError
    return told


def _text(told: object) -> str:
    return _name(told) if told != "" else ""


def _bool(told: object) -> bool:
    if not isinstance(told, bool):
        raise TypeError
    return told


def _whole(told: object) -> int:
    if isinstance(told, bool) or not isinstance(told, int | float):
        raise TypeError
    if not 0 <= told <= MOST or told != int(told):
        raise ValueError
    return int(told)


def _part(told: object) -> float:
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told <= 1:
        raise ValueError
    return float(told)


def _names(told: object) -> tuple[str, ...]:
    if not isinstance(told, list):
        raise TypeError
    return tuple(map(_name, told))


def _time(told: object) -> datetime:
    if not isinstance(told, str):
        raise TypeError
    found = datetime.fromisoformat(told)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
