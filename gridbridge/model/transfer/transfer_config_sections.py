"""Define the sections of gridbridge.toml on transfers: queues, poller, breaker, retention and mapping rules."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from gridbridge.model import grid_engine_amounts
from gridbridge.model.config_key_descriptions import (
    ANY_TEXT,
    ASKED,
    CLUSTER_NAME,
    OAR_QUEUE,
    OAR_TYPES,
    OBJECT_NAME,
    ConfigTextFormat,
    QueueDefaultRequests,
    config_key_metadata,
    setting,
)
from gridbridge.model.transfer import request_mapping_rules, staged_paths

STAGE_IN_FORMAT = ConfigTextFormat(
    holds=lambda text: not staged_paths.staging_path_list_problem(staged_paths.IN, text) and ANY_TEXT.holds(text),
    right="paths with : between them, as -ac stage_in takes them",
)
STAGE_OUT_FORMAT = ConfigTextFormat(
    holds=lambda text: not staged_paths.staging_path_list_problem(staged_paths.OUT, text) and ANY_TEXT.holds(text),
    right="paths below the working directory with : between them, as -ac stage_out takes them",
)
MAX_SLOTS = 9_999_999  # largest number of slots of a parallel environment (sge_pe(5))
YEAR_S = 31_536_000


class JobIdVariableSource(StrEnum):
    """The cluster, home or remote, whose job number a remote job finds in JOB_ID."""

    HOME = "home"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueueSection:
    """A [queue.NAME] section: a transfer queue at home, whose jobs run at a remote cluster."""

    cluster: str = field(metadata=config_key_metadata("the remote cluster that runs a queue's jobs", form=CLUSTER_NAME))
    pending_limit: int = field(metadata=config_key_metadata("waiting jobs that close the queue", "jobs", 0, MAX_SLOTS))
    slots: int = field(metadata=config_key_metadata("slots that gridbridge setup gives a queue", "slots", 1, MAX_SLOTS))
    asks: QueueDefaultRequests = setting(QueueDefaultRequests(), "the default requests of the queue's jobs", form=ASKED)
    oar_queue: str = setting("", "for OAR: the queue of jobs that request no queue", form=OAR_QUEUE)
    oar_type: str = setting("", "for OAR: types of the queue's jobs, as for oarsub -t", form=OAR_TYPES)
    remote_usage: bool = setting(True, "whether an epilog adds a remote job's usage to the local accounting")
    identity: JobIdVariableSource = setting(JobIdVariableSource.HOME, "the cluster whose job id is in JOB_ID")
    staged: bool = setting(True, "by ssh: whether every job's standard output and error are copied home")
    stage_in: str = setting("", "by ssh: the default list of files copied to the cluster", form=STAGE_IN_FORMAT)
    stage_out: str = setting("", "by ssh: the default list of files copied home after a job", form=STAGE_OUT_FORMAT)
    recall_wait_s: float = setting(600.0, "longest remote wait of a task, then it comes home; 0: none", "s", 0, YEAR_S)
    recall_limit: int = setting(2, "how often a task may be brought home", "recalls", 1, 100)
    recall_unreachable_s: float = setting(300.0, "how long a cluster is silent before tasks come home", "s", 10, YEAR_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerSection:
    """The [poller] section: settings of the process that queries the remote clusters."""

    interval_s: float = setting(5.0, "the least time between two queries of a cluster", "s", 5, 3600)
    query_share: float = setting(0.05, "the largest share of time that queries of a cluster take", "", 0.001, 1)
    spool_interval_s: float = setting(0.5, "the time between two readings of the spool folder", "s", 0.1, 60)
    stale_s: float = setting(30.0, "the age of load values above which a transfer queue closes", "s", 5, 86400)
    lost_polls: int = setting(2, "how many answers in a row lack a job before its end is looked up", "answers", 1, 100)
    ended_lookup_s: float = setting(600.0, "how long the accounting is searched for a missing job's end", "s", 1, 86400)
    vocabulary_s: float = setting(60.0, "the pause between readings of a cluster's resource names", "s", 5, 86400)
    spool_files_per_uid: int = setting(2000, "the most messages of a user in the spool folder", "files", 1, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSection:
    """The [breaker] section: how many failures close a cluster's transfer queues, and for how long."""

    failures: int = setting(5, "how many fast failures in a row close a cluster's queues", "jobs", 1, 1_000_000)
    fast_s: float = setting(60.0, "the time within which a failure counts as fast", "s", 1, 3600)
    pause_s: float = setting(60.0, "the first pause of closed queues; each further pause doubles", "s", 1, 86400)
    pause_max_s: float = setting(3600.0, "the longest pause of closed queues", "s", 1, 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSection:
    """The [retention] section: how long the service stores ended transfers and remote usage."""

    closed_h: float = setting(24.0, "how long the service keeps a finished transfer", "h", 0, 8760)
    accounting_d: float = setting(400.0, "how long the service keeps the usage of a remote job", "d", 1, 36500)


REMOTE_NAME_FORMAT = ConfigTextFormat(
    holds=lambda name: not name or OBJECT_NAME.holds(name), right=f"{OBJECT_NAME.right}; empty: the local name"
)
REMOTE_RESOURCE_NAME_FORMAT = ConfigTextFormat(
    holds=lambda name: REMOTE_NAME_FORMAT.holds(name.removeprefix("/")),
    right=f"{OBJECT_NAME.right}; for OAR also / and a level of oarsub -l; empty: the local name",
)
SLOT_SPREAD_FORMAT = ConfigTextFormat(
    holds=lambda text: (
        text in ("", *request_mapping_rules.SPREADS) or request_mapping_rules.is_fixed_slots_per_node(text)
    ),
    right=f"{', '.join(request_mapping_rules.SPREADS)}, or slots per node; empty for {request_mapping_rules.PE_SLOTS}",
)
REMOTE_QUEUE_FORMAT = ConfigTextFormat(holds=REMOTE_NAME_FORMAT.holds, right=f"{OBJECT_NAME.right}; empty: no queue")
MAPPING_RULE_NAME_FORMAT = ConfigTextFormat(  # a name, or * for all names without their own rule
    holds=lambda name: name == request_mapping_rules.ANY or OBJECT_NAME.holds(name),
    right=f'{OBJECT_NAME.right}; or "*"',
)
AMOUNT_FORMAT = ConfigTextFormat(holds=re.compile(r"[!-+\x2d-~]*").fullmatch, right="one value as qsub -l takes it")


class RemoteAmountUnit(StrEnum):
    AS_IT_IS = ""
    KILO = "k"
    KIBI = "K"
    MEGA = "m"
    MEBI = "M"
    GIGA = "g"
    GIBI = "G"
    TERA = "t"
    TEBI = "T"
    SECONDS = "s"
    MINUTES = "min"
    HOURS = "h"
    CLOCK = grid_engine_amounts.CLOCK


class PropertyRelation(StrEnum):
    AS_USUAL = ""
    EQUAL = "="
    AT_LEAST = ">="
    AT_MOST = "<="
    MORE = ">"
    LESS = "<"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceMappingRule:
    to: str = setting("", "the resource's name at the remote cluster", form=REMOTE_RESOURCE_NAME_FORMAT)
    scale: float = setting(1.0, "the factor by which the requested amount is multiplied", "", 1e-06, 1000000.0)
    unit: RemoteAmountUnit = setting(RemoteAmountUnit.AS_IT_IS, "the unit of the amount at the remote cluster")
    relation: PropertyRelation = setting(PropertyRelation.AS_USUAL, "for OAR: the comparison operator; empty: =")
    default: str = setting("", "the amount to request for jobs that do not request the resource", form=AMOUNT_FORMAT)
    drop: bool = setting(False, "whether the remote request omits the resource")
    require: bool = setting(False, "whether each job must request the resource")
    reject: str = setting("", "the reason for refusing jobs that request the resource", form=ANY_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeMappingRule:
    to: str = setting("", "the parallel environment's name at the remote cluster", form=REMOTE_NAME_FORMAT)
    scale: float = setting(1.0, "the factor by which granted slots are multiplied", "", 0.001, 1000.0)
    spread: str = setting("", "for OAR: how slots are placed on nodes (allocation_rule)", form=SLOT_SPREAD_FORMAT)
    reject: str = setting("", "the reason for refusing jobs that request the parallel environment", form=ANY_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectMappingRule:
    """The mapping rule for a project; the rule `*` also covers jobs without a project."""

    to: str = setting("", "the project's name at the remote cluster", form=REMOTE_NAME_FORMAT)
    drop: bool = setting(False, "whether remote jobs have no project")
    reject: str = setting("", "the reason for refusing jobs of the project", form=ANY_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMappingRule:
    """The mapping rule for a queue that a job requests; a queue without a rule exists only at home."""

    to: str = setting("", "the queue that is requested at the remote cluster", form=REMOTE_QUEUE_FORMAT)
    reject: str = setting("", "the reason for refusing jobs that request the queue", form=ANY_TEXT)


AnyRule: TypeAlias = ResourceMappingRule | PeMappingRule | ProjectMappingRule | QueueMappingRule
Rules: TypeAlias = Mapping[tuple[str, str], AnyRule]  # maps a kind and a name at home to the rule

KINDS: Mapping[str, tuple[type[AnyRule], ConfigTextFormat]] = MappingProxyType(
    {
        request_mapping_rules.RESOURCE: (ResourceMappingRule, OBJECT_NAME),
        request_mapping_rules.PE: (PeMappingRule, OBJECT_NAME),
        request_mapping_rules.PROJECT: (ProjectMappingRule, MAPPING_RULE_NAME_FORMAT),
        request_mapping_rules.QUEUE: (QueueMappingRule, MAPPING_RULE_NAME_FORMAT),
    }
)
