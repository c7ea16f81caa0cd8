"""Rebalancing sections of gridbridge.toml, with Hydra SpawnBalancer's defaults."""

from dataclasses import dataclass, field

from gridbridge.model.key_settings import ABSOLUTE_PATH, CLUSTER_NAME, config_key_metadata, setting

GB = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSection:
    """Limits of rebalancing: tolerated load differences, and moves of one round."""

    level: int = setting(
        1, "what rounds rebalance by themselves; 0: nothing, 1: what is uneven, "
"2: every job",
        "", 0, 2,
    )  # fmt: skip
    tasks_per_round: int = setting(10, "the most copies that one round moves", "copies", 1, 100000)
    bytes_per_round: int = setting(
        300 * GB, "the most bytes that one round moves to even hosts out", "bytes", 0, 10**18
    )
    tasks_per_host: int = setting(
        4, "the most copies of a job that one round takes from a host, or gives to one",
        "copies", 1, 100000,
    )  # fmt: skip
    min_task_bytes: int = setting(50_000_000, "smaller copies are not moved to even disks out", "bytes", 0, 10**18)
    disk_share: float = setting(0.75, "the largest part of a target's free disk that a copy takes", "", 0.01, 1)
    extreme_ratio: float = setting(
        1.1, "a host is heavy above the mean times this, and light below the mean divided by it",
        "", 1, 100,
    )  # fmt: skip
    other_extreme: float = setting(0.2, "the part of the hosts on the other side that is looked at", "", 0.01, 1)
    min_free_bytes: int = setting(20 * GB, "a host with no more free disk gets no copy", "bytes", 0, 10**18)
    full_free_bytes: int = setting(
        10 * GB, "a host with no more free disk is full: copies leave it", "bytes", 0, 10**18
    )
    least_wait_s: float = setting(60.0, "a task that has waited for less is not moved", "s", 0, 86400)
    active_s: float = setting(86400.0, "a job that ran within this time is active", "s", 0, 31536000)
    host_rest_s: float = setting(180.0, "the pause before a host that got a task gets another", "s", 0, 31536000)
    replicated_rest_s: float = setting(
        900.0, "how long a host offers half of its free disk after it got a replica",
        "s", 0, 31536000,
    )  # fmt: skip
    job_rest_s: float = setting(43200.0, "the pause before a round rebalances a job again", "s", 0, 31536000)
    sibling_weight: float = setting(40.0, "what each copy of the same job adds to a host's load", "", 0, 1000)
    active_weight: float = setting(30.0, "what used slots add to a host's load", "", 0, 1000)
    disk_weight: float = setting(70.0, "what used disk adds to a host's load", "", 0, 1000)
    moves_from_failed: int = setting(6, "the most copies on their way from failed hosts at once", "copies", 1, 100000)
    moves_from_full: int = setting(
        2, "the most copies on their way from hosts with a full disk at once", "copies", 1, 100000
    )
    copies_at_once: int = setting(
        4, "the most copies of datasets that a round has on their way at once", "copies", 1, 1000
    )
    verify_every_s: float = setting(86400.0, "a replica that was last read longer ago is read again", "s", 0, 31536000)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageAreaSection:
    """A storage area: a folder of a cluster for replicas of users' datasets."""

    cluster: str = field(metadata=config_key_metadata("the cluster whose hosts see it", form=CLUSTER_NAME))
    path: str = field(metadata=config_key_metadata("the folder, as that cluster sees it", form=ABSOLUTE_PATH))
    max_bytes: int = setting(0, "the most bytes of one account there; 0: what the filesystem has", "bytes", 0, 10**18)
    bwlimit_kib_per_s: int = setting(0, "the fastest that a copy is carried into it; 0: no limit", "KiB/s", 0, 10**9)
    copies_at_once: int = setting(2, "the most copies of one person that go into it at once", "copies", 1, 1000)
    drained: bool = setting(False, "whether replicas leave it for other areas, and no replica comes", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStorageArea:
    """The measured size, free space and faults of a storage area."""

    storage: str
    cluster: str
    size_bytes: int = 0
    free_bytes: int = 0  # free bytes for gridbridge, within max_bytes
    begun_bytes: int = 0  # size of the dataset's unfinished copy in the area
    is_read_only: bool = False
    fault: str = ""  # why the area is unusable; empty: the area is usable
