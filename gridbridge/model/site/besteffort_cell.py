"""What a cell shows of all that best-effort queues touch, and which are wanted."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridbridge.model.attributes import Settings
from gridbridge.model.site.setup_findings import ComplexRow


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffortCell:
    """A cell as its qconf and qstat show it."""

    complexes: Mapping[str, ComplexRow]
    queues: Mapping[str, Settings]
    environments: Mapping[str, Settings]  # parallel ones, sge_pe(5)
    quotas: Mapping[str, str] = field(default_factory=dict)  # each sge_resource_quota(5)'s text
    slots: Mapping[str, Mapping[str, int]]  # of each queue, by host
    # consumables that each job takes of, whatever its queue: the hosts that have them, or `global`
    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedBestEffort:
    """What is asked for; None: choose."""

    cluster: str
    like: str | None = None  # the queue whose hosts and access they have
    most: int | None = None  # best-effort queues
