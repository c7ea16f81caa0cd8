"""Plan a rebalancing of the hosts, jobs and tasks in a snapshot file."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gridbridge.config.rebalance import SECTION
from gridbridge.errors import ConfigError
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.rebalance.mover.rebalance_decision import (
    RebalancePlanWithInputs,
    RebalanceScope,
    RebalanceTarget,
    check_target_and_plan_moves,
)
from gridbridge.rebalance.store import placement_snapshot_file

MS, MIN = 0.001, 60.0
HYDRAS: Mapping[str, tuple[str, float]] = {  # Hydra's key: gridbridge's key, factor of units
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
    """Plan the moves of a snapshot file: a round, or the moves of one host or job.

    Raises ParseError if the file is no JSON, and ConfigError with a line for each fault.
    """
    snapshot, policy = placement_snapshot_file.read_placement_snapshot_file(path)
    return check_target_and_plan_moves(path, snapshot, _rules(path, policy), RebalanceTarget(what=request, name=name))


def _rules(path: str, policy: Mapping[str, object]) -> RebalanceSection:
    """Return the default rules with the values of a snapshot file's policy."""
    table: Any = {}
    names: dict[str, str] = {}
    problems = []
    for key, value in policy.items():
        own, setting = _ours(key, value)
        if own in table:
            right = f"{names[own]} is the same; expected one of the two"
            problems.append(f"{path}: policy: {key}: {right}")
        names[own], table[own] = key, setting
    problems += [f"{path}: policy: {problem}" for problem in SECTION.problems(table)]
    if problems:
        raise ConfigError(tuple(problems))
    rules = SECTION.read(table)
    assert isinstance(rules, RebalanceSection)
    return rules


def _ours(key: str, value: object) -> tuple[str, object]:
    """Translate a Hydra policy key, name and unit, to gridbridge.toml's key."""
    own, times = HYDRAS.get(key, (key, 1.0))
    if times != 1.0 and isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):  # the section's parser rejects the number
            value = value * times
    return own, _whole_if_integral(value)


def _whole_if_integral(value: object) -> object:
    """Convert a float such as 3e11 to an int; return any other value unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
