"""What gridbridge.toml says of a site, [site]."""

from dataclasses import dataclass, field
from enum import StrEnum

from gridbridge.model.settings import (
    ACCOUNT,
    CLUSTER_NAME,
    SSH_PLACE,
    STATE_URL,
    config_key,
    config_key_metadata,
)

MAX_UID = 2**32 - 2  # the last one but the kernel's "no such uid", (uid_t)-1


class LogLevel(StrEnum):
    """The least important lines that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class QueueOrder(StrEnum):
    """By what transfer queues are ordered that would take a job."""

    SEQ_NO = "seq_no"
    WAIT = "wait"
    COST = "cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSection:
    """What holds for this machine and its cluster."""

    cluster: str = field(
        metadata=config_key_metadata("the name of this site and its cluster", form=CLUSTER_NAME)
    )
    service_account: str = config_key(
        "gridbridge", "the service's account, never root", form=ACCOUNT
    )
    state: str = config_key(
        "sqlite:////var/lib/gridbridge/state.db", "the state file", form=STATE_URL
    )
    min_uid: int = config_key(1000, "no program acts as a uid below this one", "", 1, MAX_UID)
    transfer_host: str = config_key("", "where grid commands of login nodes run", form=SSH_PLACE)
    keep_decisions_h: float = config_key(
        168.0, "how long decisions are kept for replay", "h", 0, 8760
    )
    queue_order: QueueOrder = config_key(QueueOrder.SEQ_NO, "what orders the transfer queues")
    log_level: LogLevel = config_key(LogLevel.INFO, "the least important lines that are logged")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOffer:
    """A transfer queue, with what its cluster last said of itself."""

    queue: str
    cluster: str
    seq_no: int | None  # of the queue now; None: it has several, for some hosts
    is_heard: bool = True  # the cluster has answered lately
    pending: int = 0  # tasks that wait there
    free_slots: int = 0
    slots: int = 0
    cost: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RenumberedQueue:
    """A queue that gets another number, and why."""

    queue: str
    before: int
    after: int
    why: str
