"""Reads what `qstat -xml` prints, of all versions: lists (-f or not) and `-j`.

The layout is that of Grid Engine's clients/qstat/qstat_xml.c and sge_cull_xml.c. A broken
answer is a ParseError and never an empty cluster, since an idle cluster is sent work.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import lru_cache, partial
from io import BytesIO
from typing import TypeVar

from lxml import etree

from gridbridge.batch.gridengine import letters
from gridbridge.errors import ParseError
from gridbridge.model.ids import PREFIX, read_tasks
from gridbridge.model.job import JobDetail
from gridbridge.model.places import BEST_EFFORT
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus, QueueStatus
from gridbridge.model.states import Fact, JobState

_LOG = logging.getLogger(__name__)
_OURS = f"{PREFIX}."
_TIMES = ("JAT_start_time", "JB_submission_time", "JAT_submission_time")  # the last is OCS's
_ROW, QUEUE = "job_list", "Queue-List"
_TRUE = {"1.000000", "1", "TRUE", "true"}
_FALSE = {"0.000000", "0", "FALSE", "false"}
FIXED = "qf"  # of a resource: the queue's own, and no consumable (qstat(1), -F)
BATCH = "B"  # among the types of a queue: neither interactive alone nor parallel alone
_PARTS = {"queue_info", "job_info"}  # both are printed even when they are empty
_Value = TypeVar("_Value")
_Leafs = dict[str, list[str]]


def parse_status(
    data: bytes,
    *,
    cluster: str,
    taken_at: datetime,
    wanted: Container[int] = (),
    transfer_queues: Container[str] = (),
    uncounted: Container[int] = (),
    zone: tzinfo | None = None,
) -> ClusterSnapshot:
    """Read `qstat -F ... -u '*' -xml`, keeping the jobs `wanted` and those named `gb.*`.

    The slots of transfer queues, also those of another site, are not free here, and those of
    best-effort queues count by themselves. Without -F (a ~/.sge_qstat may undo it) there are no
    queues. `uncounted` jobs are not pending. `zone` is that of qstat's own process, by default this
    system's. ParseError for anything but one whole document, repaired if need be.
    """
    read = partial(_read_lists, wanted=wanted, uncounted=uncounted, zone=zone)
    lists = read_xml(data, read)
    own = (
        each for each in lists.queues if not each.sends_away and each.queue not in transfer_queues
    )
    return ClusterSnapshot(
        cluster=cluster,
        taken_at=taken_at,
        queues=tuple(lists.queues),
        jobs=lists.jobs,
        pending=lists.pending,
        free_slots=sum(each.free_for_others for each in own),
        besteffort_slots=_besteffort(lists.queues),
    )


def _besteffort(queues: Iterable[QueueStatus]) -> int | None:
    """Count the free slots of best-effort queues; what another queue suspended takes nothing."""
    free = [each.free_slots for each in queues if each.is_besteffort]
    return sum(free) if free else None


def parse_job_detail(data: bytes) -> tuple[JobDetail, ...]:
    """Read `qstat -j JOB -xml`: one value a job found, none when the job is unknown.

    A name or pattern finds several. The names of the lists around the leafs vary by version
    and by the job's history, so only the leafs are read, in their order.
    """
    return read_xml(data, _read_details)


def parse_begun(data: bytes) -> list[int]:
    """Read the tasks of `qstat -j ARRAY -xml` that have begun; it names no others."""
    return read_xml(data, _read_begun)


def parse_caps(data: bytes) -> dict[int, int]:
    """Read of `qstat -j JOB,JOB -xml` how many tasks of each array may run at once (qsub(1) -tc).

    Jobs that may run any number are left out.
    """
    return read_xml(data, _read_caps)


def read_xml(data: bytes, read: Callable[[bytes], _Value], program: str = "qstat") -> _Value:
    """Read a document, repaired if need be; ParseError, which names the program, for others."""
    if b"<!" in data:  # a DTD, whose entities could stand for anything; qstat escapes every `<`
        raise ParseError(f"{program}: a document with declarations")
    try:
        return _attempt(data, read, program)
    except etree.XMLSyntaxError as broken:
        if not data.lstrip().startswith(b"<"):
            raise ParseError(_not_xml(data, program)) from broken
    try:
        return _attempt(_repair(data), read, program)
    except etree.XMLSyntaxError as broken:
        raise ParseError(f"{program}: broken XML: {broken.msg}") from broken


def _attempt(document: bytes, read: Callable[[bytes], _Value], program: str) -> _Value:
    try:
        return read(document)
    except KeyError as missing:
        raise ParseError(f"{program}: a job or queue without {missing.args[0]}") from missing
    except ValueError as wrong:
        raise ParseError(f"{program}: {wrong}") from wrong


def _not_xml(data: bytes, program: str) -> str:
    lines = data.decode("utf-8", "replace").splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    return f"{program}: no XML but {first[:100]!r}" if first else f"{program}: an empty answer"


def walk(document: bytes, *tags: str) -> "etree.iterparse[tuple[str, etree._Element]]":
    """Go through a document's elements of these tags as they end; all of them without any."""
    return etree.iterparse(
        BytesIO(document),
        tag=tags or None,
        remove_blank_text=True,  # half of the nodes, a fifth of the time
        collect_ids=False,
        resolve_entities=False,
        no_network=True,
        huge_tree=True,
    )


class _Lists:
    """What one walk through a document gathers."""

    def __init__(
        self, wanted: Container[int], uncounted: Container[int], zone: tzinfo | None
    ) -> None:
        self.queues: list[QueueStatus] = []
        self.jobs: dict[int, tuple[JobStatus, ...]] = {}
        self._wanted = wanted
        self._uncounted = uncounted
        self._zone = zone
        self._tasks: Counter[str] = Counter()  # by state letters, of which there are few

    @property
    def pending(self) -> int:
        return sum(n for text, n in self._tasks.items() if read_state(text).can_start)

    def take(self, element: etree._Element) -> None:
        leafs = {child.tag: child.text or "" for child in element}
        if element.tag == QUEUE:
            self.queues.append(_queue(leafs, _values(element)))
            return
        job_id = int(leafs["JB_job_number"])
        if job_id not in self._uncounted:
            self._tasks[leafs["state"]] += count_tasks(leafs.get("tasks", ""))
        if job_id in self._wanted or leafs["JB_name"].startswith(_OURS):
            row = _job(leafs, _queue_around(element, leafs), self._zone)
            self.jobs[job_id] = _joined(self.jobs.get(job_id, ()), row)


def _joined(rows: tuple[JobStatus, ...], row: JobStatus) -> tuple[JobStatus, ...]:
    """Add a row; with -f a parallel job has one on each host, which become one with all slots."""
    parts = [other for other in rows if other.tasks == row.tasks and other.state.is_running]
    if not (parts and row.state.is_running):
        return (*rows, row)
    whole = replace(parts[0], slots=parts[0].slots + row.slots)
    return tuple(whole if other is parts[0] else other for other in rows)


def _read_lists(
    document: bytes,
    *,
    wanted: Container[int],
    uncounted: Container[int],
    zone: tzinfo | None,
) -> _Lists:
    lists = _Lists(wanted, uncounted, zone)
    take_rows(document, lists.take)
    return lists


def take_rows(document: bytes, take: Callable[[etree._Element], None]) -> None:
    """Take each job and queue of a list, a queue after its jobs; ParseError for anything else."""
    walked = walk(document, _ROW, QUEUE)
    for _, element in walked:
        take(element)
        drop(element)
    check_whole(walked.root)


def drop(element: etree._Element) -> None:
    """Empty a row, and unlink the row before it: lxml still needs the current one itself."""
    element.clear()
    before, around = element.getprevious(), element.getparent()
    if before is not None and around is not None and before.tag == element.tag:
        around.remove(before)


def check_whole(root: etree._Element) -> None:
    """Raise ParseError for anything but a list of queues and jobs."""
    if root.tag == "job_info" and {child.tag for child in root} >= _PARTS:
        return
    words = " ".join(word for text in root.itertext() for word in str(text).split())
    raise ParseError(f"qstat: <{root.tag}> is not a job list: {words[:100] or 'no words in it'}")


def _queue(leafs: dict[str, str], values: dict[str | None, str | None]) -> QueueStatus:
    remote = values.get("remote")
    return QueueStatus(
        name=leafs["name"],
        slots_used=int(leafs["slots_used"]),
        slots_reserved=int(leafs.get("slots_resv", "0")),
        slots_total=int(leafs["slots_total"]),
        state=letters.read_queue(leafs.get("state", "")),
        takes_batch=BATCH in leafs.get("qtype", BATCH),
        sends_away=remote in _TRUE,
        says_stay=remote in _FALSE,
        is_besteffort=values.get(BEST_EFFORT) in _TRUE,
    )


def _values(queue: etree._Element) -> dict[str | None, str | None]:
    """Return what a queue says of its resources: a BOOL, which 8.1.9 prints as a number here."""
    own = (one for one in queue.iterfind("resource") if one.get("type") == FIXED)
    return {one.get("name"): one.text for one in own}


def _job(leafs: dict[str, str], queue: str, zone: tzinfo | None) -> JobStatus:
    return JobStatus(
        job_id=int(leafs["JB_job_number"]),
        tasks=read_tasks(leafs.get("tasks", "")),
        name=_text(leafs["JB_name"]),
        owner=_text(leafs["JB_owner"]),
        state=read_state(leafs["state"]),
        queue=queue,
        since=_since(leafs, zone),
        slots=int(leafs["slots"]),
    )


@lru_cache(maxsize=256)
def read_state(text: str) -> JobState:
    """Read state letters; of each combination with an unknown one the log tells once."""
    state = letters.read_job(text)
    if Fact.UNKNOWN in state.facts:
        _LOG.warning("event=unknown_job_state letters=%r", text)
    return state


def _queue_around(row: etree._Element, leafs: dict[str, str]) -> str:
    """With -f the queue is the element around its jobs; without, each row names it."""
    parent = row.getparent()
    if parent is not None and parent.tag == QUEUE:
        return parent.findtext("name") or ""
    return leafs.get("queue_name", "")


def _since(leafs: dict[str, str], zone: tzinfo | None) -> datetime | None:
    return moment(next((leafs[name] for name in _TIMES if leafs.get(name)), ""), zone)


def moment(text: str, zone: tzinfo | None) -> datetime | None:
    """Read a time that was printed in a zone, by default this system's; None for anything else."""
    try:
        printed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (printed if printed.tzinfo else printed.replace(tzinfo=zone)).astimezone(UTC)


@lru_cache(maxsize=1024)
def count_tasks(text: str) -> int:
    """Count the tasks that `1-9:2,12` names; without a range the job itself counts."""
    return sum(map(len, read_tasks(text))) if text else 1


def _read_details(document: bytes) -> tuple[JobDetail, ...]:
    """Begin a new job at each JB_job_number: that leaf comes first in every version."""
    jobs: list[_Leafs] = []
    walked = walk(document)
    for tag, text in _leafs(walked):
        if tag == "JB_job_number":
            jobs.append({})
        if jobs:
            jobs[-1].setdefault(tag, []).append(_text(text))
    if not jobs and walked.root.tag != "unknown_jobs":
        raise ParseError(f"qstat: no job in <{walked.root.tag}>")
    messages = jobs[-1].get("MES_message", []) if jobs else []  # printed once, after all jobs
    return tuple(_detail(job, messages) for job in jobs)


def _read_begun(document: bytes) -> list[int]:
    return [int(text) for tag, text in _leafs(walk(document)) if tag == "JAT_task_number"]


def _read_caps(document: bytes) -> dict[int, int]:
    found, job = dict[int, int](), 0
    for tag, text in _leafs(walk(document)):
        if tag == "JB_job_number":
            job = int(text)
        elif tag == "JB_ja_task_concurrency" and int(text) > 0:
            found[job] = int(text)
    return found


def _leafs(walk: Iterable[tuple[str, etree._Element]]) -> Iterator[tuple[str, str]]:
    for _, element in walk:
        if len(element) == 0:
            yield str(element.tag), element.text or ""


def _detail(leafs: _Leafs, messages: list[str]) -> JobDetail:
    first = {tag: texts[0] for tag, texts in leafs.items()}
    return JobDetail(
        job_id=int(first["JB_job_number"]),
        name=first["JB_job_name"],
        owner=first["JB_owner"],
        account=first.get("JB_account", ""),
        begun=tuple(map(int, leafs.get("JAT_task_number", ()))),
        errors=tuple(leafs.get("QIM_message", ())),
        messages=tuple(messages),
    )


def _text(raw: str) -> str:
    """Undo 8.1.9's own way to write a `<`."""
    return raw.replace("%lt;", "<")


_TAG = re.compile(r"<(?![?!])[^<>]*>")
_GOOD_TAG = re.compile(r"""</?[A-Za-z_][\w.-]*(\s+[\w:.-]+\s*=\s*("[^"]*"|'[^']*'))*\s*/?>""")
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_BARE_AND = re.compile(r"&(?!#?\w+;)")


def _repair(data: bytes) -> bytes:
    """Repair what Grid Engine is known to break: never add what is missing at the end."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    text = _UNPRINTABLE.sub("", _DECLARATION.sub("", text))
    text = _BARE_AND.sub("&amp;", text.replace("%lt;", "&lt;"))
    return _TAG.sub(lambda tag: tag[0] if _GOOD_TAG.fullmatch(tag[0]) else "", text).encode()
