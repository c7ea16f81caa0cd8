"""What gridbridge.toml says of transfers; the sections of mappings are in `rules`."""

from dataclasses import dataclass, field
from enum import StrEnum

from gridbridge.model.settings import (
    ANY_TEXT,
    ASKED,
    CLUSTER_NAME,
    OAR_QUEUE,
    OAR_TYPES,
    TextFormat,
    known,
    setting,
)
from gridbridge.model.text_tables import QueueDefaults
from gridbridge.model.transfer import staged_paths

STAGED_IN = TextFormat(
    holds=lambda text: not staged_paths.fault(staged_paths.IN, text) and ANY_TEXT.holds(text),
    right="paths with : between them, as -ac stage_in takes them",
)
STAGED_OUT = TextFormat(
    holds=lambda text: not staged_paths.fault(staged_paths.OUT, text) and ANY_TEXT.holds(text),
    right="paths below the working directory with : between them, as -ac stage_out takes them",
)
MAX_SLOTS = 9_999_999  # sge_pe(5), slots
YEAR_S = 31_536_000


class Identity(StrEnum):
    """Whose number of a job its JOB_ID is."""

    HOME = "home"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQueue:
    """A local queue whose jobs run on another cluster."""

    cluster: str = field(metadata=known("the remote cluster that runs its jobs", form=CLUSTER_NAME))
    pending_limit: int = field(metadata=known("waiting jobs that close it", "jobs", 0, MAX_SLOTS))
    slots: int = field(metadata=known("its slots, as setup writes them", "slots", 1, MAX_SLOTS))
    asks: QueueDefaults = setting(QueueDefaults(), "what its jobs ask for by default", form=ASKED)
    oar_queue: str = setting("", "of OAR: the queue of jobs that ask for no queue", form=OAR_QUEUE)
    oar_type: str = setting("", "of OAR: its jobs' types, as oarsub -t takes them", form=OAR_TYPES)
    remote_usage: bool = setting(True, "whether an epilog adds remote usage to local accounting")
    identity: Identity = setting(Identity.HOME, "whether JOB_ID is the home or the remote number")
    staged: bool = setting(True, "by ssh: whether standard output and error of every job come home")
    stage_in: str = setting("", "by ssh: files carried there if a job names none", form=STAGED_IN)
    stage_out: str = setting("", "by ssh: files carried home if a job names none", form=STAGED_OUT)
    recall_wait_s: float = setting(600.0, "a task comes home after this; 0: never", "s", 0, YEAR_S)
    recall_limit: int = setting(2, "how often a task is recalled at most", "recalls", 1, 100)
    recall_unreachable_s: float = setting(300.0, "silence before tasks return", "s", 10, YEAR_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerSection:
    """The one process that asks remote clusters."""

    interval_s: float = setting(5.0, "the least time between queries of a cluster", "s", 5, 3600)
    query_share: float = setting(0.05, "the largest share of time that queries take", "", 0.001, 1)
    spool_interval_s: float = setting(0.5, "the time between two looks at the spool", "s", 0.1, 60)
    stale_s: float = setting(30.0, "load values older than this close the queues", "s", 5, 86400)
    lost_polls: int = setting(2, "good answers without a job before a look-up", "answers", 1, 100)
    ended_lookup_s: float = setting(600.0, "how long a lost job's end is looked up", "s", 1, 86400)
    vocabulary_s: float = setting(60.0, "the pause between readings of names", "s", 5, 86400)
    spool_files_per_uid: int = setting(2000, "most spool messages of a user", "files", 1, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What closes the queues to a cluster at which jobs fail."""

    failures: int = setting(5, "fast failures in a row that close the queues", "jobs", 1, 1_000_000)
    fast_s: float = setting(60.0, "a job that fails within this time failed fast", "s", 1, 3600)
    pause_s: float = setting(60.0, "the first pause of the queues; then it doubles", "s", 1, 86400)
    pause_max_s: float = setting(3600.0, "how long the queues close at most", "s", 1, 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long the service keeps what is over."""

    closed_h: float = setting(24.0, "how long a finished transfer is remembered", "h", 0, 8760)
    accounting_d: float = setting(400.0, "how long a remote job's usage is kept", "d", 1, 36500)
