"""Parses the lists of `qstat -xml`, with or without -f, in all versions.

The layout is that of Grid Engine's clients/qstat/qstat_xml.c and sge_cull_xml.c. An incomplete
answer is a ParseError and never an empty cluster, because an idle cluster is sent work.
"""

import logging
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import lru_cache, partial

from gridbridge.batch.gridengine import sge_state_letters
from gridbridge.batch.gridengine.parse.documents import (
    QUEUE,
    for_each_listed_job_and_queue,
    parse_repaired_xml,
    unescape_less_than,
)
from gridbridge.model.cluster_snapshot import ClusterSnapshot, JobListRow, QueueInstanceStatus
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.states import JobState, JobStateFact
from gridbridge.model.transfer_name import PREFIX, parse_qstat_task_ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lxml.etree import _Element

_LOG = logging.getLogger(__name__)
_OURS = f"{PREFIX}."
_TIMES = ("JAT_start_time", "JB_submission_time", "JAT_submission_time")  # the last is OCS's name
TRUE = frozenset(("1.000000", "1", "TRUE", "true"))  # values of a BOOL resource
_FALSE = frozenset(("0.000000", "0", "FALSE", "false"))
FIXED = "qf"  # a queue's fixed value, not a consumable (qstat(1), -F)
BATCH = "B"  # queue type letter of queues for batch jobs


def parse_cluster_snapshot(
    data: bytes,
    *,
    cluster: str,
    taken_at: datetime,
    job_ids: Container[int] = (),
    transfer_queues: Container[str] = (),
    uncounted: Container[int] = (),
    zone: tzinfo | None = None,
) -> ClusterSnapshot:
    """Parse `qstat -F ... -u '*' -xml`, with the jobs `wanted` and the jobs named `gb.*`.

    The slots of transfer queues, also another site's, do not count as free, and the slots of
    best-effort queues are counted separately. Without -F (a ~/.sge_qstat may undo it) the answer
    has no queues. `uncounted` jobs are not pending. `zone` is the time zone of the qstat process,
    by default this system's. Raises ParseError for an incomplete document beyond repair.
    """
    read = partial(_read_lists, job_ids=job_ids, uncounted=uncounted, zone=zone)
    lists = parse_repaired_xml(data, read)
    own = (queue for queue in lists.queues if not queue.sends_away and queue.queue not in transfer_queues)
    return ClusterSnapshot(
        cluster=cluster,
        taken_at=taken_at,
        queues=tuple(lists.queues),
        jobs=lists.jobs,
        pending=lists.pending,
        free_slots=sum(queue.free_for_others for queue in own),
        besteffort_slots=_besteffort(lists.queues),
    )


def _besteffort(queues: Iterable[QueueInstanceStatus]) -> int | None:
    """Count the free slots of best-effort queues; suspended tasks of such queues use no slots."""
    free = [queue.free_slots for queue in queues if queue.is_besteffort]
    return sum(free) if free else None


class _Lists:
    """The queues and jobs that one pass through a document gathers."""

    def __init__(self, job_ids: Container[int], uncounted: Container[int], zone: tzinfo | None) -> None:
        self.queues: list[QueueInstanceStatus] = []
        self.jobs: dict[int, tuple[JobListRow, ...]] = {}
        self._wanted = job_ids
        self._uncounted = uncounted
        self._zone = zone
        self._tasks: Counter[str] = Counter()  # number of tasks by state letters

    @property
    def pending(self) -> int:
        return sum(n for text, n in self._tasks.items() if parse_job_state_log_unknown(text).can_start)

    def take(self, element: "_Element") -> None:
        leafs = {child.tag: child.text or "" for child in element}
        if element.tag == QUEUE:
            self.queues.append(_queue(leafs, _values(element)))
            return
        job_id = int(leafs["JB_job_number"])
        if job_id not in self._uncounted:
            self._tasks[leafs["state"]] += count_tasks_in_ranges(leafs.get("tasks", ""))
        if job_id in self._wanted or leafs["JB_name"].startswith(_OURS):
            row = _job(leafs, _queue_around(element, leafs), self._zone)
            self.jobs[job_id] = _joined(self.jobs.get(job_id, ()), row)


def _joined(rows: tuple[JobListRow, ...], row: JobListRow) -> tuple[JobListRow, ...]:
    """Add a row; a parallel job's rows, one a host with -f, become one row with all slots."""
    parts = [earlier for earlier in rows if earlier.tasks == row.tasks and earlier.state.is_running]
    if not (parts and row.state.is_running):
        return (*rows, row)
    whole = replace(parts[0], slots=parts[0].slots + row.slots)
    return tuple(whole if earlier is parts[0] else earlier for earlier in rows)


def _read_lists(document: bytes, *, job_ids: Container[int], uncounted: Container[int], zone: tzinfo | None) -> _Lists:
    lists = _Lists(job_ids, uncounted, zone)
    for_each_listed_job_and_queue(document, lists.take)
    return lists


def _queue(leafs: dict[str, str], values: dict[str | None, str | None]) -> QueueInstanceStatus:
    remote = values.get("remote")
    return QueueInstanceStatus(
        name=leafs["name"],
        slots_used=int(leafs["slots_used"]),
        slots_reserved=int(leafs.get("slots_resv", "0")),
        slots_total=int(leafs["slots_total"]),
        state=sge_state_letters.parse_queue_state_letters(leafs.get("state", "")),
        takes_batch=BATCH in leafs.get("qtype", BATCH),
        sends_away=remote in TRUE,
        says_stay=remote in _FALSE,
        is_besteffort=values.get(BEST_EFFORT) in TRUE,
    )


def _values(queue: "_Element") -> dict[str | None, str | None]:
    """Return the fixed resource values of a queue; 8.1.9 prints a BOOL as a number here."""
    own = (resource for resource in queue.iterfind("resource") if resource.get("type") == FIXED)
    return {resource.get("name"): resource.text for resource in own}


def _job(leafs: dict[str, str], queue: str, zone: tzinfo | None) -> JobListRow:
    return JobListRow(
        job_id=int(leafs["JB_job_number"]),
        tasks=parse_qstat_task_ranges(leafs.get("tasks", "")),
        name=unescape_less_than(leafs["JB_name"]),
        owner=unescape_less_than(leafs["JB_owner"]),
        state=parse_job_state_log_unknown(leafs["state"]),
        queue=queue,
        since=_since(leafs, zone),
        slots=int(leafs["slots"]),
    )


@lru_cache(maxsize=256)
def parse_job_state_log_unknown(text: str) -> JobState:
    """Parse state letters; each combination with an unknown letter is logged once."""
    state = sge_state_letters.parse_job_state_letters(text)
    if JobStateFact.UNKNOWN in state.facts:
        _LOG.warning("event=unknown_job_state letters=%r", text)
    return state


def _queue_around(row: "_Element", leafs: dict[str, str]) -> str:
    """Return a job's queue: the enclosing element with -f, else the row's own element."""
    parent = row.getparent()
    if parent is not None and parent.tag == QUEUE:
        return parent.findtext("name") or ""
    return leafs.get("queue_name", "")


def _since(leafs: dict[str, str], zone: tzinfo | None) -> datetime | None:
    return parse_printed_time(next((leafs[name] for name in _TIMES if leafs.get(name)), ""), zone)


def parse_printed_time(text: str, zone: tzinfo | None) -> datetime | None:
    """Parse a printed local time of a zone, by default this system's; None for other text."""
    try:
        printed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (printed if printed.tzinfo else printed.replace(tzinfo=zone)).astimezone(UTC)


@lru_cache(maxsize=1024)
def count_tasks_in_ranges(text: str) -> int:
    """Count the tasks that `1-9:2,12` names; an empty text counts as one job."""
    return sum(map(len, parse_qstat_task_ranges(text))) if text else 1
