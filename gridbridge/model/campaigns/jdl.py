"""What a campaign's JDL asks for, with every inherited key in its place."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gridbridge.model.amounts import HOUR_S

OUTLINED = ":"  # in the place of what runs, where something does


class CampaignType(StrEnum):
    """How a campaign is scheduled (CiGri scheduler specification, campaign types)."""

    DEFAULT = "default"
    TEST = "test"  # one task at each required cluster, and no other


@dataclass(frozen=True, slots=True, kw_only=True)
class AtCluster:
    """How a campaign's tasks run at one cluster."""

    exec_file: str  # a command line of sh, to which a task's parameters are added
    exec_directory: str = ""  # empty: the owner's home there
    slots: int = 1  # of each task
    nodes: int = 1  # of OAR, with as many of the slots on each; 0: wherever they are free
    environment: str = ""  # of Grid Engine: the parallel environment of more than one slot
    walltime_s: int = HOUR_S
    is_besteffort: bool = True
    project: str = ""
    queue: str = ""
    properties: str = ""  # of the hosts: "mem>=2000,gpu=YES", as `wanted` reads it
    prologue: str = ""  # lines of sh: once here, before the first task
    prologue_walltime_s: int = HOUR_S
    epilogue: str = ""  # the same, after the last
    epilogue_walltime_s: int = HOUR_S
    max_jobs: int = 0  # tasks of the campaign there at once; 0: as many as there is room for


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetWish:
    """A dataset that is added when its campaign is brought (gridbridge data)."""

    path: str  # absolute, on the transfer host
    replicas: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Jdl:
    """A campaign as it was asked for, without its tasks' parameters."""

    name: str
    type: CampaignType = CampaignType.DEFAULT
    clusters: Mapping[str, AtCluster] = field(default_factory=dict)
    is_idempotent: bool = False  # several attempts of a task may run at the same time
    outputs: tuple[str, ...] = ()  # files that a task leaves in a folder of its own
    datasets: Mapping[str, DatasetWish] = field(default_factory=dict)
    may_move: bool = True  # its waiting tasks, by rebalancing

    @property
    def has_steps(self) -> bool:
        """Whether it has a prologue or an epilogue anywhere."""
        return any(request.prologue or request.epilogue for request in self.clusters.values())

    @property
    def has_epilogue(self) -> bool:
        """Whether it has an epilogue anywhere."""
        return any(request.epilogue for request in self.clusters.values())

    @property
    def outline(self) -> "Jdl":
        """The same without the lines of sh and the words that only its tasks need."""
        return replace(
            self, clusters={name: _outline(request) for name, request in self.clusters.items()}
        )

    @property
    def may_be_copied(self) -> bool:
        """Whether a task that runs long may get a copy."""
        return (self.is_idempotent or bool(self.outputs)) and self.type is CampaignType.DEFAULT

    def slots_at(self, cluster: str) -> int:
        """Return how many slots a task takes at a cluster; 1 where it may not run."""
        return self.clusters[cluster].slots if cluster in self.clusters else 1


def _outline(request: AtCluster) -> AtCluster:
    return replace(
        request,
        exec_file="",
        exec_directory="",
        environment="",
        queue="",
        properties="",
        prologue=OUTLINED if request.prologue else "",
        epilogue=OUTLINED if request.epilogue else "",
    )
