"""Section [site] of gridbridge.toml, and values for the order of transfer queues."""

from dataclasses import dataclass, field
from enum import StrEnum

from gridbridge.model.config_key_descriptions import (
    ACCOUNT,
    CLUSTER_NAME,
    SSH_PLACE,
    STATE_URL,
    config_key_metadata,
    setting,
)

POSTGRESQL = "postgresql:"  # start of key `state` if several hosts may run the campaign service
LONGEST_LEASE_S = 20  # of a master of campaigns, who renews the lease
MAX_UID = 2**32 - 2  # (uid_t)-1 means "no such uid" to the kernel


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class QueueOrder(StrEnum):
    """The criterion by which the scheduler orders transfer queues for a job."""

    SEQ_NO = "seq_no"
    WAIT = "wait"
    COST = "cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSection:
    cluster: str = field(metadata=config_key_metadata("the home cluster's name, also the site's", form=CLUSTER_NAME))
    service_account: str = setting("gridbridge", "the account of gridbridge's service, never root", form=ACCOUNT)
    state: str = setting("sqlite:////var/lib/gridbridge/state.db", "the database of the service state", form=STATE_URL)
    master_lease_s: float = setting(15.0, "how long a master leads without its database", "s", 2, LONGEST_LEASE_S)
    min_uid: int = setting(1000, "the lowest uid of users for whom gridbridge acts", "", 1, MAX_UID)
    transfer_host: str = setting("", "the host that runs campaign commands for login nodes", form=SSH_PLACE)
    keep_decisions_h: float = setting(168.0, "how long decisions are kept for gridbridge replay", "h", 0, 8760)
    queue_order: QueueOrder = setting(QueueOrder.SEQ_NO, "the order in which transfer queues get jobs")
    log_level: LogLevel = setting(LogLevel.INFO, "the lowest level of logged lines")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueueWithClusterLoad:
    queue: str
    cluster: str
    seq_no: int | None  # None: the queue's seq_no differs between hosts
    is_heard: bool = True
    pending: int = 0  # tasks waiting at the remote cluster
    free_slots: int = 0
    slots: int = 0
    cost: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RenumberedTransferQueue:
    queue: str
    before: int
    after: int
    why: str
