"""Reads hosts, jobs and tasks from a snapshot file, and plans moves for `gridbridge rebalance plan --from`."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

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
from gridbridge.rebalance.mover.rebalance_plan_by_target import (
    RebalancePlanWithInputs,
    RebalanceTarget,
    RebalanceTargetKind,
    check_target_and_plan_moves,
)

MS, MIN = 0.001, 60.0
HYDRAS: Mapping[str, tuple[str, float]] = {  # for each key of Hydra: the key of gridbridge.toml, and the unit's factor
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
    path: str, request: RebalanceTargetKind = RebalanceTargetKind.NONE, name: str = ""
) -> RebalancePlanWithInputs:
    """Plan moves for a snapshot file; raise ParseError for invalid JSON, ConfigError for other faults."""
    snapshot, policy = read_placement_snapshot_file(path)
    return check_target_and_plan_moves(
        path, snapshot, _rebalance_rules_of_policy(path, policy), RebalanceTarget(what=request, name=name)
    )


def _rebalance_rules_of_policy(path: str, policy: Mapping[str, object]) -> RebalanceSection:
    table: Any = {}
    names: dict[str, str] = {}
    problems = []
    for key, value in policy.items():
        own, times = HYDRAS.get(key, (key, 1.0))
        if times != 1.0 and isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(OverflowError):  # infinite numbers are rejected later, when the key's range is checked
                value = value * times
        if own in table:
            problems.append(f"{path}: policy: {key}: same meaning as {names[own]}; expected only one of these keys")
        names[own] = key
        table[own] = int(value) if isinstance(value, float) and value.is_integer() else value  # 3e11: 300000000000
    problems += [f"{path}: policy: {problem}" for problem in SECTION.find_section_problems(table)]
    if problems:
        raise ConfigError(tuple(problems))
    rules = SECTION.read(table)
    assert isinstance(rules, RebalanceSection)
    return rules


MOST_TOLD = 20
HOST_STATES: Mapping[str, PlacementHostState] = {  # words that people, Hydra and Grid Engine use for a host's state
    **dict.fromkeys(("", "ok", "up"), PlacementHostState.ALIVE),
    **dict.fromkeys(("draining", "failing_fs_okay"), PlacementHostState.DRAIN),
    "failing_fs_dead": PlacementHostState.DEAD,
    "full": PlacementHostState.DISK_FULL,
    **{state.value: state for state in PlacementHostState},
}
TASK_STATES: Mapping[str, PlacementTaskState] = {
    **dict.fromkeys(
        ("", "idle", "queued", "queued_host_unavail", "queued_no_slot", "qw", "hqw", "hold", "held"),
        PlacementTaskState.WAITING,
    ),
    "r": PlacementTaskState.RUNNING,
    "rebalance": PlacementTaskState.MOVING,
    **{state.value: state for state in PlacementTaskState},
}

Row = Mapping[str, object]
Fields = Mapping[str, tuple[str, Callable[[object], object]]]  # for each key: the field, and the parser of its value


def _parse_name(text: object) -> str:
    if not isinstance(text, str) or not 0 < len(text) < 256 or not text.isprintable():
        raise ValueError
    return text


def _parse_text(text: object) -> str:
    return _parse_name(text) if text != "" else ""


def _parse_names(names: object) -> tuple[str, ...]:
    if not isinstance(names, list):
        raise ValueError
    return tuple(map(_parse_name, names))


def _parse_bool(flag: object) -> bool:
    if not isinstance(flag, bool):
        raise ValueError
    return flag


def _parse_number(number: object, most: int) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= most:
        raise ValueError
    return number


def _parse_fraction(number: object) -> float:
    return float(_parse_number(number, 1))


def _parse_whole_number(number: object) -> int:
    if (value := _parse_number(number, 10**18)) != int(value):
        raise ValueError
    return int(value)


def _parse_time(text: object) -> datetime:
    if not isinstance(text, str):
        raise ValueError
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _normalize_state_word(text: object) -> str:
    return _parse_text(text).lower().replace("-", "_").replace(" ", "_")


# An unrecognised word for a state becomes UNKNOWN, so that nothing is moved.
def _parse_host_state(text: object) -> PlacementHostState:
    return HOST_STATES.get(_normalize_state_word(text), PlacementHostState.UNKNOWN)


def _parse_task_state(text: object) -> PlacementTaskState:
    return TASK_STATES.get(_normalize_state_word(text), PlacementTaskState.UNKNOWN)


RIGHT: Mapping[Callable[[object], object], str] = {  # for each parser of a value: which values it accepts
    **dict.fromkeys(
        (_parse_name, _parse_text, _parse_host_state, _parse_task_state), "a name: 1 to 255 printable characters"
    ),
    _parse_names: "a list of names",
    _parse_bool: "true or false",
    _parse_whole_number: "a whole number, 0 to 1e18",
    _parse_fraction: "a number, 0 to 1",
    _parse_time: "an ISO 8601 time with its zone, such as 2026-11-25T12:00:00+00:00",
}
OF_HOST: Fields = {
    "name": ("name", _parse_name),
    "kind": ("kind", _parse_text),
    "up": ("is_up", _parse_bool),
    "read_only": ("is_read_only", _parse_bool),
    "state": ("state", _parse_host_state),
    **{name: (name, _parse_whole_number) for name in ("used_bytes", "max_bytes", "slots")},
    "mean_active": ("mean_active", _parse_fraction),
    "zone": ("zone", _parse_text),
}
OF_JOB: Fields = {
    "name": ("name", _parse_name),
    "autobalance": ("is_autobalanced", _parse_bool),
    "replicas": ("replicas", _parse_whole_number),
    "last_run": ("last_run", _parse_time),
    "max_per_host": ("max_per_host", _parse_whole_number),
}
OF_TASK: Fields = {
    "job": ("job", _parse_name),
    "number": ("number", _parse_whole_number),
    "bytes": ("size_bytes", _parse_whole_number),
    "state": ("state", _parse_task_state),
    "live": ("live", _parse_name),
    "replicas": ("replicas", _parse_names),
    "slots": ("slots", _parse_whole_number),
}


def read_placement_snapshot_file(path: str) -> tuple[PlacementSnapshot, Row]:
    """Read a snapshot file; raise ParseError for invalid JSON, ConfigError with a line for each fault."""
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read(1 << 31))
    except OSError as error:
        raise ParseError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{path}: no JSON: {error}") from error
    reading = RebalanceSnapshotFileParser(path)
    parts = reading.parse_placement_snapshot(content), reading.parse_policy_values(content)
    if problems := reading.problems:
        more = len(problems) - MOST_TOLD
        raise ConfigError((*problems[:MOST_TOLD], *([f"{path}: {more} more faults"] if more > 0 else ())))
    return parts


class RebalanceSnapshotFileParser:
    """Parses a snapshot file and collects all faults."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.problems: list[str] = []

    def parse_placement_snapshot(self, content: object) -> PlacementSnapshot:
        """Return the file's content as a snapshot, and collect all mistakes in `problems`."""
        top = self._require_table(content, "", ("now", "policy", "hosts", "jobs", "tasks", "recent"))
        snapshot = PlacementSnapshot(
            **self._parse_row("", top, {"now": ("now", _parse_time)}, {"now": NEVER}),
            hosts=tuple(PlacementHost(**host) for host in self._parse_rows(top, "hosts", OF_HOST, {"name": ""})),
            jobs=tuple(PlacementJobOrDataset(**job) for job in self._parse_rows(top, "jobs", OF_JOB, {"name": ""})),
            tasks=tuple(
                PlacementTask(**task) for task in self._parse_rows(top, "tasks", OF_TASK, {"job": "", "number": 0})
            ),
            recent=self._parse_recent_moves(_table_or_empty(top, "recent")),
        )
        self._report_duplicates("hosts", [host.name for host in snapshot.hosts if host.name])
        self._report_duplicates("jobs", [job.name for job in snapshot.jobs if job.name])
        self._report_duplicates("tasks", [f"{task.job} {task.number}" for task in snapshot.tasks if task.job])
        return snapshot

    def parse_policy_values(self, content: object) -> Row:
        """Return the policy values of a snapshot file under the names that the file uses."""
        table = _table_or_empty(content, "policy") if isinstance(content, dict) else {}
        return self._require_table(table, "policy", None)

    def _parse_recent_moves(self, content: object) -> RecentPlacementMoveTimes:
        table, times = self._require_table(content, "recent", ("hosts", "replicated", "jobs")), {}
        for key in ("hosts", "replicated", "jobs"):
            row = self._require_table(_table_or_empty(table, key), f"recent.{key}", None)
            times[key] = self._parse_row(f"recent.{key}", row, {name: (name, _parse_time) for name in row}, {})
        return RecentPlacementMoveTimes(**times)

    def _parse_rows(self, top: Row, key: str, fields: Fields, required: Row) -> Iterator[dict[str, Any]]:
        rows = top.get(key)
        rows = [] if rows is None else rows
        if not isinstance(rows, list):
            self._report_fault(key, rows, "a list of tables")
            return
        for number, row in enumerate(rows):
            at = f"{key}[{number}]"
            yield self._parse_row(at, self._require_table(row, at, fields), fields, required)

    def _require_table(self, content: object, at: str, keys: Iterable[str] | None) -> Row:
        if not isinstance(content, dict):
            self._report_fault(at or "the file", content, "a table")
            return {}
        for key in content if keys is not None else ():
            if key not in (keys or ()):
                self._report_fault(f"{at}.{key}", "unknown", f"one of {', '.join(keys or ())}")
        return content

    def _parse_row(self, at: str, row: Row, fields: Fields, required: Row) -> dict[str, Any]:
        """Return a row's values by field name; a missing key or null gives the field's default."""
        values = {fields[key][0]: value for key, value in required.items()}
        for key, (name, read) in fields.items():
            if (content := row.get(key)) is None:
                if key in required:
                    self._report_fault(f"{at}.{key}", "missing", RIGHT[read])
                continue
            try:
                values[name] = read(content)
            except ValueError:
                self._report_fault(f"{at}.{key}", content, RIGHT[read])
        return values

    def _report_duplicates(self, kind: str, names: Iterable[str]) -> None:
        earlier = set[str]()
        for name in names:
            if name in earlier:
                self._report_fault(f"{kind}: {name}", "twice", "once")
            earlier.add(name)

    def _report_fault(self, key: str, content: object, right: str) -> None:
        words = content if content in ("missing", "unknown", "twice") else json.dumps(content)[:80]
        self.problems.append(f"{self._path}: {key.lstrip('.')}: {words}; expected {right}")


def _table_or_empty(table: Row, key: str) -> object:
    inner = table.get(key)
    return {} if inner is None else inner
