"""The balancer's rights as a set-up and the check see them on the master."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.model.site.host_facts import PathFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRights:
    """Who may do what in the cell that grows."""

    name: str  # the cluster's, in gridbridge.toml
    master: str  # the host of its qmaster
    managers: tuple[str, ...]
    admin_hosts: tuple[str, ...]
    queue_order: str = ""  # queue_sort_method, sched_conf(5)
    queues: frozenset[str] = frozenset()
    host_groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRound:
    """What the balancer published last."""

    at: datetime
    is_acting: bool
    sentence: str
    trouble: str = ""  # why it saw nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerFacts:
    """Everything by which the balancer's set-up is judged."""

    host: str  # this one
    uid: int  # of its account; 0: there is none
    paths: Mapping[str, PathFacts] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()  # paths that the user of the check may not look at
    sudoers: str = ""
    cron: str = ""
    has_unit: bool = False  # systemd runs it, and cron need not
    cell: CellRights | None = None  # None: the site's own cluster is not Grid Engine's
    has_fixed_nodes: bool = False  # its nodes rest and are woken, as OAR's
    may_be_root: bool | None = None  # sudo obeys the line; None: nobody but root is told
    service_may_too: bool | None = None
    last: LastRound | None = None  # None: it never did a round
