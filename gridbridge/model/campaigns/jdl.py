"""The JDL of a campaign: its description in the job description language of CiGri."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gridbridge.model.campaigns.campaign_predecessors import CampaignPredecessor, PredecessorFailureAction
from gridbridge.model.campaigns.task_resource_usage import keep_memory_conditions
from gridbridge.model.grid_engine_amounts import HOUR_S

AUTOMATIC = 0  # value of checkpoint_s: the service chooses the interval from measured times
OUTLINED = ":"  # placeholder for shell lines that were removed


class CampaignType(StrEnum):
    """How a campaign is scheduled (CiGri scheduler specification, campaign types)."""

    DEFAULT = "default"
    TEST = "test"  # one task runs at each cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class JdlSettingsAtCluster:
    exec_file: str  # shell command to which a task's parameters are appended
    exec_directory: str = ""  # working directory; empty: the owner's home directory at the cluster
    slots: int = 1  # slots of a job
    nodes: int = 1  # OAR: number of nodes, with equally many slots on each; 0: any nodes
    environment: str = ""  # Grid Engine: parallel environment of multi-slot tasks
    walltime_s: int = HOUR_S
    is_besteffort: bool = True
    is_semi_besteffort: bool = False  # ordinary jobs up to a share of the cluster; ignored with `is_besteffort`
    is_nightly: bool = False  # a task runs only within the cluster's nights
    project: str = ""
    queue: str = ""
    properties: str = ""  # requested host properties, such as "mem>=2000,gpu=YES"
    prologue: str = ""  # shell lines that run once before the first task
    prologue_walltime_s: int = HOUR_S
    epilogue: str = ""  # shell lines that run once after the last task
    epilogue_walltime_s: int = HOUR_S
    max_jobs: int = 0  # largest number of jobs at the cluster at once; 0: no limit
    side_by_side: int = 1  # number of tasks that a job runs at the same time, in its slots
    temporal_grouping: bool | None = None  # whether a job runs several tasks; None: only if the tasks are short

    @property
    def is_partly_ordinary(self) -> bool:
        """Whether tasks are ordinary jobs up to a share of the cluster, and best-effort jobs above this share."""
        return self.is_semi_besteffort and not self.is_besteffort


@dataclass(frozen=True, slots=True, kw_only=True)
class JdlDataset:
    """A dataset that a campaign's submission registers, as `gridbridge data` would."""

    path: str  # absolute path on the transfer host
    replicas: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Jdl:
    """A campaign's JDL (its description in a job description language), without the tasks' parameters."""

    name: str
    type: CampaignType = CampaignType.DEFAULT
    clusters: Mapping[str, JdlSettingsAtCluster] = field(default_factory=dict)
    is_idempotent: bool = False  # several attempts of a task may run at once
    outputs: tuple[str, ...] = ()  # names or patterns of output files in a task's folder
    outputs_to: str = ""  # absolute path of the folder to which the outputs are brought; empty: not brought
    inputs: tuple[str, ...] = ()  # patterns of input files; the path in a task's folder follows `/./`
    datasets: Mapping[str, JdlDataset] = field(default_factory=dict)
    checkpoint_files: tuple[str, ...] = ()  # patterns of the files of a checkpoint in a task's folder; empty: none
    checkpoint_signal: str = "USR2"
    checkpoint_s: int = AUTOMATIC  # seconds between two checkpoints
    may_move: bool = True
    max_parallel: int = 0  # largest number of tasks at all clusters together; 0: no limit
    first_tasks: int = 0  # number of tasks that must succeed before further tasks are sent; 0: no limit
    after: tuple[CampaignPredecessor, ...] = ()
    on_failure: PredecessorFailureAction = PredecessorFailureAction.WAIT

    @property
    def has_prologue_or_epilogue(self) -> bool:
        return any(request.prologue or request.epilogue for request in self.clusters.values())

    @property
    def has_epilogue(self) -> bool:
        return any(request.epilogue for request in self.clusters.values())

    @property
    def jdl_without_shell_lines(self) -> "Jdl":
        """The JDL without shell lines and other texts that only running tasks need."""
        return replace(
            self,
            inputs=(OUTLINED,) if self.inputs else (),
            outputs_to=OUTLINED if self.outputs_to else "",
            clusters={name: _cluster_settings_without_shell_lines(request) for name, request in self.clusters.items()},
        )

    @property
    def allows_speculative_attempts(self) -> bool:
        return (self.is_idempotent or bool(self.outputs)) and self.type is CampaignType.DEFAULT

    def slots_at(self, cluster: str) -> int:
        """Return the slots of a task at a cluster; 1 if the JDL does not name the cluster."""
        return self.clusters[cluster].slots if cluster in self.clusters else 1


def _cluster_settings_without_shell_lines(request: JdlSettingsAtCluster) -> JdlSettingsAtCluster:
    return replace(
        request,
        exec_file="",
        exec_directory="",
        environment="",
        queue="",
        properties=keep_memory_conditions(request.properties),
        prologue=OUTLINED if request.prologue else "",
        epilogue=OUTLINED if request.epilogue else "",
    )
