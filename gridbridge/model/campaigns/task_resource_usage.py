"""What the ended tasks of a campaign used at a cluster, and the memory that tasks request there."""

import re
from dataclasses import dataclass

from gridbridge.model.campaigns.host_property_request_parser import ALL, ANY, parse_required_host_properties

# Grid Engine's resources for memory (complex(5), queue_conf(5)); requests are for each slot
VIRTUAL = frozenset({"h_vmem", "s_vmem", "virtual_free", "vf"})
RESIDENT = frozenset({"h_rss", "s_rss", "mem_free", "mf"})
UNITS_KB = {"": 1 / 1024, "k": 1000 / 1024, "m": 1e6 / 1024, "g": 1e9 / 1024, "t": 1e12 / 1024}
UNITS_KB |= {"K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3}
AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)([kKmMgGtT]?)", re.ASCII)  # sge_types(5), memory_specifier


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUsageAtCluster:
    """Sums and maxima over attempts that ran until they ended by themselves, failed or overran their walltime."""

    campaign: int
    cluster: str
    ended: int = 0
    failed: int = 0  # attempts with a failure status or a signal
    overruns: int = 0  # attempts that overran their walltime
    beyond_memory: int = 0  # attempts with more memory than requested, or that failed with almost as much
    longest_s: int = 0
    measured: int = 0  # attempts whose memory and written bytes are known
    max_rss_kb: int = 0  # largest resident set of a process
    max_vmem_kb: int = 0  # largest virtual memory of all processes of an attempt; 0: not measured
    written_kb: int = 0  # kB written to filesystems by all measured attempts together


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTaskAttempt:
    """An ended attempt whose usage was read at its cluster after the end was recorded."""

    campaign: int
    task: int
    attempt: int
    cluster: str
    has_failed: bool
    max_rss_kb: int
    written_kb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMemoryRequest:
    resource: str
    kb: float  # memory for all slots of a task together
    is_virtual: bool


def parse_memory_requests(properties: str, slots: int) -> tuple[TaskMemoryRequest, ...]:
    """Return the requests for memory in the `properties` of a JDL; other conditions are ignored."""
    return tuple(
        TaskMemoryRequest(resource=name, kb=float(match[1]) * UNITS_KB[match[2]] * slots, is_virtual=name in VIRTUAL)
        for name, value in parse_required_host_properties(properties)
        if name in VIRTUAL | RESIDENT and (match := AMOUNT.fullmatch(value))
    )


def keep_memory_conditions(properties: str) -> str:
    """Return the conditions that request memory, joined as in `properties`."""
    conditions = (condition for condition in properties.split(ALL) if ANY not in condition)
    return ALL.join(condition for condition in conditions if parse_memory_requests(condition, 1))
