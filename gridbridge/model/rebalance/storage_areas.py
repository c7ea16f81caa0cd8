"""Storage areas: what gridbridge.toml says of them, [storage.NAME], and what was measured."""

from dataclasses import dataclass, field

from gridbridge.model.settings import ABSOLUTE_PATH, CLUSTER_NAME, known, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A folder of a cluster in which people keep replicas of their datasets."""

    cluster: str = field(metadata=known("the cluster whose hosts see it", form=CLUSTER_NAME))
    path: str = field(metadata=known("the folder, as that cluster sees it", form=ABSOLUTE_PATH))
    max_bytes: int = setting(
        0, "the most bytes of one account there; 0: what the filesystem has", "bytes", 0, 10**18
    )
    bwlimit_kib_per_s: int = setting(
        0, "the fastest that a copy is carried into it; 0: no limit", "KiB/s", 0, 10**9
    )
    copies_at_once: int = setting(
        2, "the most copies of one person that go into it at once", "copies", 1, 1000
    )
    drained: bool = setting(
        False, "whether replicas leave it for other areas, and no replica comes", ""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredArea:
    """What was found of an area just now."""

    storage: str
    cluster: str
    size_bytes: int = 0
    free_bytes: int = 0  # for us, within max_bytes
    begun_bytes: int = 0  # of the copy that was begun there of the dataset in question
    is_read_only: bool = False
    fault: str = ""  # why it can't be used; empty when it can
