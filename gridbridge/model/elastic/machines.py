"""Machines as their provider tells of them: what nodes are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

OWNER_TAG = "gridbridge"  # its value is the cluster that owns the machine
POOL_TAG = "gridbridge-pool"  # the pool that it was created for
HOST_KEY_TAG = "gridbridge-host-key"  # of clouds that tell no host key by themselves
MASTER_TAG = "gridbridge-master"  # its value is the cluster whose master the machine is


class ProviderMachineState(StrEnum):
    """What a provider says of a machine."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"  # its disk stays, and it can be started again
    GONE = "gone"
    UNKNOWN = "unknown"  # a word that no provider of ours has


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderMachine:
    """A machine of a provider's."""

    id: str
    name: str
    state: ProviderMachineState
    address: str = ""  # empty: not known yet
    tags: Mapping[str, str] = field(default_factory=dict)
    host_key: str = ""  # of its ssh server, as in known_hosts without the host; empty: not told
    created: datetime | None = None  # None: not told

    def belongs_to(self, cluster: str) -> bool:
        """Say whether a cluster owns it: by its tag alone, whatever its name is."""
        return bool(cluster) and self.tags.get(OWNER_TAG) == cluster

    @property
    def pool(self) -> str:
        """The pool that it was created for; empty where no tag tells."""
        return self.tags.get(POOL_TAG, "")
