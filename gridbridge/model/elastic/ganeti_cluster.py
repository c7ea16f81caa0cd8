"""A Ganeti cluster as described in the text file of htools(1), and a plan that powers its nodes on or off."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from gridbridge.model.elastic.standby_and_wake_plan import STANDBY

NO_NODE = -1  # node index of a missing secondary node


class GanetiDiskMirroringKind(Enum):
    """Whether and how other nodes can use the disks of an instance."""

    NONE = "none"
    INTERNAL = "internal"  # a second copy on the instance's secondary node
    EXTERNAL = "external"  # every node can access the disks


class GanetiDiskTemplate(StrEnum):
    DISKLESS = "diskless"
    FILE = "file"
    SHARED_FILE = "sharedfile"
    PLAIN = "plain"
    BLOCK = "blockdev"
    DRBD = "drbd"
    RBD = "rbd"
    EXT = "ext"
    GLUSTER = "gluster"

    @property
    def disk_mirroring(self) -> GanetiDiskMirroringKind:
        if self in (GanetiDiskTemplate.DISKLESS, GanetiDiskTemplate.FILE, GanetiDiskTemplate.PLAIN):
            return GanetiDiskMirroringKind.NONE
        return GanetiDiskMirroringKind.INTERNAL if self is GanetiDiskTemplate.DRBD else GanetiDiskMirroringKind.EXTERNAL

    @property
    def uses_disk_of_node(self) -> bool:
        return self in (GanetiDiskTemplate.DRBD, GanetiDiskTemplate.PLAIN)


class GanetiInstanceStatus(StrEnum):
    RUNNING = "running"
    ERROR_UP = "ERROR_up"
    WRONG_NODE = "ERROR_wrongnode"
    NODE_DOWN = "ERROR_nodedown"
    NODE_OFFLINE = "ERROR_nodeoffline"
    ERROR_DOWN = "ERROR_down"
    DOWN = "ADMIN_down"
    USER_DOWN = "USER_down"
    OFFLINE = "ADMIN_offline"

    @property
    def uses_memory_of_node(self) -> bool:
        return self.name not in ("ERROR_DOWN", "DOWN", "USER_DOWN", "OFFLINE")

    @property
    def is_up(self) -> bool:
        """Whether the instance runs, so that live migration is possible."""
        return self in (GanetiInstanceStatus.RUNNING, GanetiInstanceStatus.ERROR_UP)


@dataclass(frozen=True, slots=True, kw_only=True)
class GanetiInstanceSize:
    mem: int  # MiB
    vcpus: int
    disk: int  # MiB
    disks: int
    nics: int
    spindles: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GanetiInstancePolicy:
    standard: GanetiInstanceSize
    limits: tuple[tuple[GanetiInstanceSize, GanetiInstanceSize], ...]
    templates: tuple[GanetiDiskTemplate, ...]
    vcpu_ratio: float  # virtual processors per physical processor
    spindle_ratio: float


SMALLEST = GanetiInstanceSize(mem=128, vcpus=1, disk=1024, disks=1, nics=1, spindles=1)
LARGEST = GanetiInstanceSize(mem=32768, vcpus=8, disk=1048576, disks=16, nics=8, spindles=12)
DEFAULT_POLICY = GanetiInstancePolicy(
    standard=SMALLEST,
    limits=((SMALLEST, LARGEST),),
    templates=tuple(GanetiDiskTemplate),
    vcpu_ratio=4.0,
    spindle_ratio=32.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GanetiNodeGroup:
    name: str
    uuid: str
    allocation: str
    tags: tuple[str, ...]
    networks: tuple[str, ...]
    policy: GanetiInstancePolicy = DEFAULT_POLICY


@dataclass(frozen=True, slots=True, kw_only=True)
class GanetiNode:
    name: str
    mem: float  # MiB
    own_mem: int  # MiB that the node itself uses
    free_mem: int  # MiB that the node reports as free
    disk: float  # MiB
    free_disk: int  # MiB
    cpus: float
    own_cpus: int
    cpu_speed: float
    is_offline: bool
    is_master: bool
    group: int  # index of the node's group
    spindles: int
    free_spindles: int
    has_own_spindles: bool  # exclusive storage: no two instances share a spindle
    tags: tuple[str, ...]

    @property
    def is_standby(self) -> bool:
        """Whether the node is offline and tagged as wakeable, so that a squeeze may power the node on."""
        return self.is_offline and any(tag.startswith(STANDBY) for tag in self.tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class GanetiInstance:
    """A virtual machine of Ganeti, with the indices of its primary and secondary nodes."""

    name: str
    mem: int  # MiB
    disk: int  # MiB
    vcpus: int
    status: GanetiInstanceStatus
    is_balanced: bool  # the instance may be moved to balance the cluster
    primary: int
    secondary: int  # node index, or NO_NODE
    template: GanetiDiskTemplate
    tags: tuple[str, ...]
    spindle_use: int
    spindles: int | None  # number of spindles reserved for the instance; None: unknown

    @property
    def is_movable(self) -> bool:
        """Whether the disks of the instance allow a move to another node."""
        return self.template.disk_mirroring is not GanetiDiskMirroringKind.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class GanetiCluster:
    groups: tuple[GanetiNodeGroup, ...]
    nodes: tuple[GanetiNode, ...]
    instances: tuple[GanetiInstance, ...]
    tags: tuple[str, ...]
    policy: GanetiInstancePolicy

    @property
    def names_without_common_domain(self) -> Mapping[str, str]:
        """A dict from each node's and instance's full name to the name without the common domain."""
        names = [node.name for node in self.nodes] + [instance.name for instance in self.instances]
        cut = len(_domain_shared_by_names(names))
        return {name: name[: len(name) - cut] for name in names}


def _domain_shared_by_names(names: list[str]) -> str:
    first = names[0] if names else ""
    ends = (first[at:] for at, letter in enumerate(first) if letter == ".")
    return next((end for end in ends if all(name.endswith(end) for name in names)), "")


class GanetiInstanceMoveKind(Enum):
    FAILOVER = "to its second copy"
    TO_ANY = "to any node"
    REPLACE_PRIMARY = "a new primary node; the secondary node stays"
    REPLACE_SECONDARY = "a new secondary"
    REPLACE_AND_FAILOVER = "a new secondary, which becomes the primary"
    FAILOVER_AND_REPLACE = "the secondary becomes the primary, with a new secondary"


@dataclass(frozen=True, slots=True, kw_only=True)
class GanetiInstanceMove:
    instance: int
    kind: GanetiInstanceMoveKind
    target: int  # node index; NO_NODE for a failover
    primary: int  # node index after the move
    secondary: int  # node index after the move
    nodes: frozenset[int]  # the instance's primary and secondary nodes, before and after the move


class GanetiSqueezeAction(Enum):
    OFFLINE = "Nodes to offline"
    ONLINE = "Nodes to online"
    NOTHING = "No action"


@dataclass(frozen=True, slots=True, kw_only=True)
class GanetiSqueezePlan:
    way: GanetiSqueezeAction
    nodes: tuple[int, ...] = ()
    is_enough: bool = True  # False: even with all standby nodes on, too little capacity is free
    offline_candidates: tuple[int, ...]
    online_candidates: tuple[int, ...]
    moves: tuple[GanetiInstanceMove, ...] = ()
    after: GanetiCluster
