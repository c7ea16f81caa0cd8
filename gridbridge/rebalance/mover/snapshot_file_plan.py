"""Reads hosts, jobs and tasks from a snapshot file, and plans moves for `gridbridge rebalance plan --from`."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from cattrs.gen import override

from gridbridge.config.rebalance import SECTION
from gridbridge.errors import ConfigError, ParseError
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceHost,
    RebalanceHostState,
    RebalanceJobOrDataset,
    RebalanceSnapshot,
    RebalanceTask,
    RebalanceTaskState,
    RecentRebalanceMoveTimes,
)
from gridbridge.rebalance.mover.rebalance_plan_by_target import (
    RebalancePlanWithInputs,
    RebalanceTarget,
    RebalanceTargetKind,
    check_target_and_plan_moves,
)
from gridbridge.shell import json_documents
from gridbridge.shell.json_documents import JsonDocumentReader, json_value_hook

MS, MIN = 0.001, 60.0
HYDRAS: Mapping[str, tuple[str, float]] = {  # {key of Hydra: (key of gridbridge.toml, factor of the unit)}
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
    snapshot, policy = read_rebalance_snapshot_file(path)
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
            with suppress(OverflowError):  # infinite numbers are rejected later, with the key's other range errors
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


HOST_STATES: Mapping[str, RebalanceHostState] = {  # words that people, Hydra and Grid Engine use for a host's state
    **dict.fromkeys(("", "ok", "up"), RebalanceHostState.ALIVE),
    **dict.fromkeys(("draining", "failing_fs_okay"), RebalanceHostState.DRAIN),
    "failing_fs_dead": RebalanceHostState.DEAD,
    "full": RebalanceHostState.DISK_FULL,
    **{state.value: state for state in RebalanceHostState},
}
TASK_STATES: Mapping[str, RebalanceTaskState] = {
    **dict.fromkeys(
        ("", "idle", "queued", "queued_host_unavail", "queued_no_slot", "qw", "hqw", "hold", "held"),
        RebalanceTaskState.WAITING,
    ),
    "r": RebalanceTaskState.RUNNING,
    "rebalance": RebalanceTaskState.MOVING,
    **{state.value: state for state in RebalanceTaskState},
}


def _parse_name(text: str) -> str:
    if not 0 < len(text) < 256 or not text.isprintable():
        raise ValueError
    return text


def _parse_text(text: str) -> str:
    return text and _parse_name(text)


def _parse_number(number: float, most: int) -> float:
    if not 0 <= number <= most:
        raise ValueError
    return number


def _parse_whole_number(number: float) -> int:
    if (value := _parse_number(number, 10**18)) != int(value):
        raise ValueError
    return int(value)


def _parse_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _normalize_state_word(text: str) -> str:
    return _parse_text(text).lower().replace("-", "_").replace(" ", "_")


# An unrecognised word for a state becomes UNKNOWN, so that tasks stay where they are.
def _parse_host_state(text: str) -> RebalanceHostState:
    return HOST_STATES.get(_normalize_state_word(text), RebalanceHostState.UNKNOWN)


def _parse_task_state(text: str) -> RebalanceTaskState:
    return TASK_STATES.get(_normalize_state_word(text), RebalanceTaskState.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSnapshotFile(RebalanceSnapshot):
    policy: Mapping[str, Any] = field(default_factory=dict)  # rules, with the key names of the file

    def duplicate_names(self) -> Iterator[str]:
        """Yield a fault for each name that several hosts, jobs or tasks have."""
        names = Counter(f"hosts: {host.name}" for host in self.hosts)
        names.update(f"jobs: {job.name}" for job in self.jobs)
        names.update(f"tasks: {task.job} {task.number}" for task in self.tasks)
        yield from (f"{name}: twice; expected once" for name, count in names.items() if count > 1)


A_NAME, A_TIME = (
    "a name: 1 to 255 printable characters",
    "an ISO 8601 time with its zone, such as 2026-11-25T12:00:00+00:00",
)
_TEXT = override(struct_hook=json_value_hook(str, A_NAME, _parse_text))
_READER = JsonDocumentReader(
    {
        bool: json_value_hook(bool, "true or false"),
        datetime: json_value_hook(str, A_TIME, _parse_time),
        float: json_value_hook(int | float, "a number, 0 to 1", lambda number: float(_parse_number(number, 1))),
        int: json_value_hook(int | float, "a whole number, 0 to 1e18", _parse_whole_number),
        RebalanceHostState: json_value_hook(str, A_NAME, _parse_host_state),
        RebalanceTaskState: json_value_hook(str, A_NAME, _parse_task_state),
        str: json_value_hook(str, A_NAME, _parse_name),
    }
)
_READER.add_table(
    RebalanceHost,
    name=override(),
    kind=_TEXT,
    is_up=override(rename="up"),
    is_read_only=override(rename="read_only"),
    **dict.fromkeys(("state", "used_bytes", "max_bytes", "slots", "mean_active"), override()),
    zone=_TEXT,
)
_READER.add_table(
    RebalanceJobOrDataset,
    name=override(),
    is_autobalanced=override(rename="autobalance"),
    **dict.fromkeys(("replicas", "last_run", "max_per_host"), override()),
)
_READER.add_table(
    RebalanceTask,
    **dict.fromkeys(("job", "number"), override()),
    size_bytes=override(rename="bytes"),
    **dict.fromkeys(("state", "live", "replicas", "slots"), override()),
)
_READER.add_table(RecentRebalanceMoveTimes, **dict.fromkeys(("hosts", "replicated", "jobs"), override()))
_READER.add_table(
    RebalanceSnapshotFile, **dict.fromkeys(("now", "policy", "hosts", "jobs", "tasks", "recent"), override())
)


def read_rebalance_snapshot_file(path: str) -> tuple[RebalanceSnapshot, Mapping[str, object]]:
    """Read a snapshot file; raise ParseError for invalid JSON, ConfigError with a line for each fault."""
    try:
        with open(path, "rb") as file:
            data = file.read(1 << 31)
    except OSError as error:
        raise ParseError(f"{path}: {error.strerror}") from error
    snapshot, faults = _READER.read(json_documents.read_json_file(path, data), RebalanceSnapshotFile)
    if snapshot is None or (faults := list(snapshot.duplicate_names())):
        raise ConfigError(json_documents.mistake_lines(path, faults))
    parts = {part.name: getattr(snapshot, part.name) for part in fields(RebalanceSnapshot)}
    return RebalanceSnapshot(**parts), snapshot.policy
