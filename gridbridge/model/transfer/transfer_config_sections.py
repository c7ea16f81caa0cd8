"""Sections of gridbridge.toml on transfers, with rules of request mappings."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from gridbridge.model import grid_engine_amounts
from gridbridge.model.key_settings import (
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

STAGED_IN = ConfigTextFormat(
    holds=lambda text: not staged_paths.staging_path_list_problem(staged_paths.IN, text) and ANY_TEXT.holds(text),
    right="paths with : between them, as -ac stage_in takes them",
)
STAGED_OUT = ConfigTextFormat(
    holds=lambda text: not staged_paths.staging_path_list_problem(staged_paths.OUT, text) and ANY_TEXT.holds(text),
    right="paths below the working directory with : between them, as -ac stage_out takes them",
)
MAX_SLOTS = 9_999_999  # largest `slots` of a parallel environment (sge_pe(5))
YEAR_S = 31_536_000


class ClusterOfShownJobId(StrEnum):
    """The cluster whose job number a remote job's JOB_ID shows."""

    HOME = "home"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueueSection:
    """A [queue.NAME] section: a home queue whose jobs run at a remote cluster."""

    cluster: str = field(metadata=config_key_metadata("the remote cluster that runs its jobs", form=CLUSTER_NAME))
    pending_limit: int = field(metadata=config_key_metadata("waiting jobs that close it", "jobs", 0, MAX_SLOTS))
    slots: int = field(metadata=config_key_metadata("its slots, as setup writes them", "slots", 1, MAX_SLOTS))
    asks: QueueDefaultRequests = setting(QueueDefaultRequests(), "what its jobs ask for by default", form=ASKED)
    oar_queue: str = setting("", "of OAR: the queue of jobs that ask for no queue", form=OAR_QUEUE)
    oar_type: str = setting("", "of OAR: its jobs' types, as oarsub -t takes them", form=OAR_TYPES)
    remote_usage: bool = setting(True, "whether an epilog adds remote usage to local accounting")
    identity: ClusterOfShownJobId = setting(ClusterOfShownJobId.HOME, "whether JOB_ID is the home or the remote number")
    staged: bool = setting(True, "by ssh: whether standard output and error of every job come home")
    stage_in: str = setting("", "by ssh: files carried there if a job names none", form=STAGED_IN)
    stage_out: str = setting("", "by ssh: files carried home if a job names none", form=STAGED_OUT)
    recall_wait_s: float = setting(600.0, "a task comes home after this; 0: never", "s", 0, YEAR_S)
    recall_limit: int = setting(2, "how often a task is recalled at most", "recalls", 1, 100)
    recall_unreachable_s: float = setting(300.0, "silence before tasks return", "s", 10, YEAR_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerSection:
    """The [poller] section: the one process that queries remote clusters."""

    interval_s: float = setting(5.0, "the least time between queries of a cluster", "s", 5, 3600)
    query_share: float = setting(0.05, "the largest share of time that queries take", "", 0.001, 1)
    spool_interval_s: float = setting(0.5, "the time between two looks at the spool", "s", 0.1, 60)
    stale_s: float = setting(30.0, "load values older than this close the queues", "s", 5, 86400)
    lost_polls: int = setting(2, "good answers without a job before a look-up", "answers", 1, 100)
    ended_lookup_s: float = setting(600.0, "how long a lost job's end is looked up", "s", 1, 86400)
    vocabulary_s: float = setting(60.0, "the pause between readings of names", "s", 5, 86400)
    spool_files_per_uid: int = setting(2000, "most spool messages of a user", "files", 1, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSection:
    """The [breaker] section: failures and pauses that close transfer queues."""

    failures: int = setting(5, "fast failures in a row that close the queues", "jobs", 1, 1_000_000)
    fast_s: float = setting(60.0, "a job that fails within this time failed fast", "s", 1, 3600)
    pause_s: float = setting(60.0, "the first pause of the queues; then it doubles", "s", 1, 86400)
    pause_max_s: float = setting(3600.0, "how long the queues close at most", "s", 1, 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSection:
    """The [retention] section: how long finished transfers and usage are stored."""

    closed_h: float = setting(24.0, "how long a finished transfer is remembered", "h", 0, 8760)
    accounting_d: float = setting(400.0, "how long a remote job's usage is kept", "d", 1, 36500)


THERE = ConfigTextFormat(
    holds=lambda name: not name or OBJECT_NAME.holds(name), right=f"{OBJECT_NAME.right}; empty for the same name"
)
RESOURCE_THERE = ConfigTextFormat(
    holds=lambda name: THERE.holds(name.removeprefix("/")),
    right=f"{OBJECT_NAME.right}; of OAR, / and the name of a level of -l; empty for the same name",
)
SPREAD = ConfigTextFormat(
    holds=lambda text: (
        text in ("", *request_mapping_rules.SPREADS) or request_mapping_rules.is_fixed_slots_per_node(text)
    ),
    right=f"{', '.join(request_mapping_rules.SPREADS)}, or so many a node; empty for {request_mapping_rules.PE_SLOTS}",
)
ASKED_FOR = ConfigTextFormat(holds=THERE.holds, right=f"{OBJECT_NAME.right}; empty for none")
RULE_NAME = ConfigTextFormat(  # a name, or * for the rule of all projects or queues
    holds=lambda name: name == request_mapping_rules.ANY or OBJECT_NAME.holds(name),
    right=f'{OBJECT_NAME.right}; or "*"',
)
AMOUNT = ConfigTextFormat(holds=re.compile(r"[!-+\x2d-~]*").fullmatch, right="one value as qsub -l takes it")


class RemoteAmountUnit(StrEnum):
    """The unit of an amount at the remote cluster."""

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


class OarPropertyRelation(StrEnum):
    """The SQL relation between an OAR property and the requested value."""

    AS_USUAL = ""
    EQUAL = "="
    AT_LEAST = ">="
    AT_MOST = "<="
    MORE = ">"
    LESS = "<"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceMappingRule:
    """The mapping rule for a resource that a job requests with -l."""

    to: str = setting("", "its name there", form=RESOURCE_THERE)
    scale: float = setting(1.0, "the factor of the amount", "", 1e-06, 1000000.0)
    unit: RemoteAmountUnit = setting(RemoteAmountUnit.AS_IT_IS, "the unit in which the amount is written there")
    relation: OarPropertyRelation = setting(OarPropertyRelation.AS_USUAL, "of OAR: how a property compares; empty is =")
    default: str = setting("", "the value that is asked for when a job asks for none", form=AMOUNT)
    drop: bool = setting(False, "whether it is left out there")
    require: bool = setting(False, "whether a job has to ask for it")
    reject: str = setting("", "why no job that asks for it can go there", form=ANY_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeMappingRule:
    """The mapping rule for a parallel environment."""

    to: str = setting("", "its name there", form=THERE)
    scale: float = setting(1.0, "the factor of the granted slots", "", 0.001, 1000.0)
    spread: str = setting("", "of OAR: how slots lie on nodes (allocation_rule)", form=SPREAD)
    reject: str = setting("", "why no job that asks for it can go there", form=ANY_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectMappingRule:
    """The mapping rule for a project; the rule `*` covers jobs without a project, too."""

    to: str = setting("", "its name there", form=THERE)
    drop: bool = setting(False, "whether jobs have no project there")
    reject: str = setting("", "why none of its jobs can go there", form=ANY_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMappingRule:
    """The mapping rule for a requested queue; an unmapped queue exists only at home."""

    to: str = setting("", "the queue that is asked for there", form=ASKED_FOR)
    reject: str = setting("", "why no job that asks for it can go there", form=ANY_TEXT)


AnyRule: TypeAlias = ResourceMappingRule | PeMappingRule | ProjectMappingRule | QueueMappingRule
Rules: TypeAlias = Mapping[tuple[str, str], AnyRule]  # rule by (kind, home name)

KINDS: Mapping[str, tuple[type[AnyRule], ConfigTextFormat]] = MappingProxyType(
    {
        request_mapping_rules.RESOURCE: (ResourceMappingRule, OBJECT_NAME),
        request_mapping_rules.PE: (PeMappingRule, OBJECT_NAME),
        request_mapping_rules.PROJECT: (ProjectMappingRule, RULE_NAME),
        request_mapping_rules.QUEUE: (QueueMappingRule, RULE_NAME),
    }
)
