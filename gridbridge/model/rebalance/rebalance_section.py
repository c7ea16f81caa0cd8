"""Rebalancing sections of gridbridge.toml, with the defaults of Hydra's SpawnBalancer."""

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

from gridbridge.model.config_key_descriptions import (
    ABSOLUTE_PATH,
    CLUSTER_NAME,
    OBJECT_PREFIX,
    PATHS_AT_CLUSTERS,
    PROGRAM_OR_NONE,
    PathByCluster,
    setting,
)

GB = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSection:
    level: int = setting(
        1, "what rounds balance by themselves; 0: nothing, 1: uneven hosts and jobs, 2: every job", "", 0, 2
    )
    tasks_per_round: int = setting(10, "the most tasks or replicas that one round moves", "copies", 1, 100000)
    bytes_per_round: int = setting(300 * GB, "the most bytes that one round moves to balance hosts", "bytes", 0, 10**18)
    tasks_per_host: int = setting(
        4, "the most tasks of a job that one round takes from a host, or gives to a host",
        "copies", 1, 100000,
    )  # fmt: skip
    min_task_bytes: int = setting(
        50_000_000, "the size of the smallest task or replica that is moved to balance disks", "bytes", 0, 10**18
    )
    disk_share: float = setting(
        0.75, "the largest part of a target's free disk that one task or replica may fill", "", 0.01, 1
    )
    extreme_ratio: float = setting(
        1.1, "a host is heavy above the mean load times this ratio, and light below the mean divided by this ratio",
        "", 1, 100,
    )  # fmt: skip
    other_extreme: float = setting(
        0.2,
        "the fraction of all hosts that may take tasks from a heavy host, or give tasks to a light host",
        "",
        0.01,
        1,
    )
    min_free_bytes: int = setting(
        20 * GB, "a host with at most this free disk receives no task or replica", "bytes", 0, 10**18
    )
    full_free_bytes: int = setting(
        10 * GB,
        "a host with at most this free disk is full: tasks and replicas leave the host",
        "bytes",
        0,
        10**18,
    )
    least_wait_s: float = setting(60.0, "the least waiting time of a task that is moved", "s", 0, 86400)
    active_s: float = setting(86400.0, "how long after its last run a job counts as active", "s", 0, 31536000)
    host_rest_s: float = setting(180.0, "the pause between two tasks that a host receives", "s", 0, 31536000)
    replicated_rest_s: float = setting(
        900.0, "how long a host offers only half of its free disk after receiving a replica",
        "s", 0, 31536000,
    )  # fmt: skip
    job_rest_s: float = setting(43200.0, "the pause before a job is rebalanced again", "s", 0, 31536000)
    sibling_weight: float = setting(
        40.0, "the load that each task of a job adds to its host, when a host is chosen for the job", "", 0, 1000
    )
    active_weight: float = setting(30.0, "the weight of used slots in a host's load", "", 0, 1000)
    disk_weight: float = setting(70.0, "the weight of used disk in a host's load", "", 0, 1000)
    moves_from_failed: int = setting(
        6, "the most tasks or replicas that leave failed hosts at the same time", "copies", 1, 100000
    )
    moves_from_full: int = setting(
        2, "the most tasks or replicas that leave full hosts at the same time", "copies", 1, 100000
    )
    copies_at_once: int = setting(4, "the most replicas that a round copies at once", "copies", 1, 1000)
    verify_every_s: float = setting(86400.0, "how long after its last check a replica is read again", "s", 0, 31536000)


class StorageAreaKind(StrEnum):
    FOLDER = "folder"
    COMMAND = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageAreaSection:
    """A storage area for replicas of users' datasets: a folder of clusters, or an object store."""

    kind: StorageAreaKind = setting(
        StorageAreaKind.FOLDER, "a folder of clusters, or an object store that a program of the site reaches"
    )
    cluster: str = setting("", "the cluster with the storage area", form=CLUSTER_NAME)
    path: str = setting("", "the storage area's path on the cluster", form=ABSOLUTE_PATH)
    clusters: PathByCluster = setting(
        PathByCluster(), "instead of cluster and path: the clusters that share the area, with its path at each",
        form=PATHS_AT_CLUSTERS,
    )  # fmt: skip
    max_bytes: int = setting(
        0, "the most bytes of an account in the area; 0: the filesystem's size", "bytes", 0, 10**18
    )
    bwlimit_kib_per_s: int = setting(0, "the highest rate of copies into the area; 0: no limit", "KiB/s", 0, 10**9)
    copies_at_once: int = setting(2, "the most simultaneous copies of a user into the area", "copies", 1, 1000)
    program: str = setting("", "kind command: the program that puts, gets and removes objects", form=ABSOLUTE_PATH)
    prefix: str = setting("", "kind command: the first part of the names of all objects", form=OBJECT_PREFIX)
    timeout_s: float = setting(
        60.0, "kind command: the time limit of a call of the program, plus 1 s for each MB of the file", "s", 1, 86400
    )
    max_jobs: int = setting(
        0, "the most tasks of campaigns at the clusters that see the area, together; 0: no limit", "tasks", 0, 10**7
    )
    load_command: str = setting(
        "", "the program that prints the load of the area's file server; empty: no program", form=PROGRAM_OR_NONE
    )
    load_target: float = setting(1.0, "the load at which the limit of tasks keeps the file server", "", 1e-6, 1e12)
    load_gain: float = setting(
        0.5, "the relative change of the limit of tasks, divided by the relative deviation of the load", "", 0.01, 0.9
    )
    load_integral_s: float = setting(
        60.0, "the time in which a lasting deviation doubles the change of the limit of tasks", "s", 30, 86400
    )
    load_step: int = setting(10, "the largest change of the limit of tasks in a cycle", "tasks", 1, 100_000)
    load_keep_s: float = setting(
        120.0,
        "how long the limit of tasks stays without a load; then it falls by load_step in each cycle",
        "s",
        0,
        86400,
    )
    drained: bool = setting(False, "whether the area is emptied: no new replica, and present replicas move away", "")

    @property
    def paths_by_cluster(self) -> Mapping[str, str]:
        """The area's path at each cluster that sees it, in the order of gridbridge.toml; empty for an object store."""
        if self.kind is StorageAreaKind.COMMAND:
            return {}
        return self.clusters or {self.cluster: self.path}


def is_storage_area_drained(storage: str, clusters: Collection[str], drained: Set[str]) -> bool:
    """Say whether an area itself, or every cluster that sees the area, is in `drained`."""
    return storage in drained or (bool(clusters) and drained >= set(clusters))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStorageArea:
    storage: str
    clusters: tuple[str, ...]  # the clusters that see the area
    size_bytes: int = 0
    free_bytes: int = 0  # free bytes that gridbridge may use; `max_bytes` limits them
    begun_bytes: int = 0
    is_read_only: bool = False
    fault: str = ""
    is_store: bool = False  # whether the area is an object store, which no cluster sees
