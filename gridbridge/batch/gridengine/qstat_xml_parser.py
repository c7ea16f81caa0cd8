"""Parses the XML that Grid Engine's client programs print; only this module uses lxml.

An incomplete answer raises ParseError and never becomes an empty cluster, because an idle cluster gets work.
The elements are those of Grid Engine's clients/qstat/qstat_xml.c and sge_cull_xml.c.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import lru_cache, wraps
from io import BytesIO
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

from lxml import etree

from gridbridge.batch import qstat_state_letters
from gridbridge.errors import ParseError
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.job_and_queue_states import JobState, JobStateFact
from gridbridge.model.jobs_and_accounting import JobAccountAndErrors
from gridbridge.model.transfer_name import PREFIX, parse_qstat_task_ranges

Element: TypeAlias = etree._Element
ROW, QUEUE = "job_list", "Queue-List"
_PARTS = {"queue_info", "job_info"}  # elements that qstat prints even without content
_Value = TypeVar("_Value")
_Options = ParamSpec("_Options")


def parse_repaired_xml(data: bytes, read: Callable[[bytes], _Value], program: str = "qstat") -> _Value:
    """Parse an XML document, after a repair if necessary; a ParseError names the program."""
    if b"<!" in data:  # qstat never prints a DTD, whose entities could expand to anything
        raise ParseError(f"{program}: the XML contains a DTD; expected none")
    try:
        return _read_or_raise_parse_error(data, read, program)
    except etree.XMLSyntaxError as broken:
        if not data.lstrip().startswith(b"<"):
            raise ParseError(_message_about_output_without_xml(data, program)) from broken
    try:
        return _read_or_raise_parse_error(_repair_xml(data), read, program)
    except etree.XMLSyntaxError as broken:
        raise ParseError(f"{program}: broken XML: {broken.msg}") from broken


def with_qstat_xml_repair(
    read: Callable[Concatenate[bytes, _Options], _Value],
) -> Callable[Concatenate[bytes, _Options], _Value]:
    """Decorate a reader of qstat's XML: broken XML is repaired, and all errors become ParseError."""

    @wraps(read)
    def repair_and_read(data: bytes, /, *args: _Options.args, **options: _Options.kwargs) -> _Value:
        return parse_repaired_xml(data, lambda document: read(document, *args, **options))

    return repair_and_read


def _read_or_raise_parse_error(document: bytes, read: Callable[[bytes], _Value], program: str) -> _Value:
    try:
        return read(document)
    except KeyError as missing:
        raise ParseError(f"{program}: a job or queue instance lacks {missing.args[0]}") from missing
    except ValueError as wrong:
        raise ParseError(f"{program}: {wrong}") from wrong


def _message_about_output_without_xml(data: bytes, program: str) -> str:
    lines = data.decode("utf-8", "replace").splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    return f"{program}: the answer is not XML: {first[:100]!r}" if first else f"{program}: the answer is empty"


def iterate_xml_elements(document: bytes, *tags: str) -> "etree.iterparse[tuple[str, etree._Element]]":
    """Yield each element with one of the tags as soon as it has ended; without tags yield all elements."""
    return etree.iterparse(
        BytesIO(document),
        tag=tags or None,
        remove_blank_text=True,  # parsing takes a fifth less time without nodes for blanks
        collect_ids=False,
        resolve_entities=False,
        no_network=True,
        huge_tree=True,
    )


def parse_short_xml(data: bytes, program: str = "qstat") -> etree._Element:
    """Parse a short XML document, after a repair if necessary; a ParseError names the program."""
    return parse_repaired_xml(data, etree.fromstring, program)


def iterate_job_list(document: bytes) -> Iterator[Element]:
    """Yield jobs, then their queue instance; raise ParseError at the end of any other document."""
    walked = iterate_xml_elements(document, ROW, QUEUE)
    for _, element in walked:
        yield element
        free_parsed_element(element)
    root = walked.root
    if root.tag != "job_info" or not {child.tag for child in root} >= _PARTS:
        words = " ".join(word for text in root.itertext() for word in str(text).split())
        raise ParseError(f"qstat: <{root.tag}> is not a job list: {words[:100] or 'no text'}")


def free_parsed_element(element: etree._Element) -> None:
    """Empty a parsed element, and unlink the preceding element."""
    element.clear()
    before, around = element.getprevious(), element.getparent()
    if before is not None and around is not None and before.tag == element.tag:
        around.remove(before)


def unescape_less_than(raw: str) -> str:
    """Restore `<`, for which Grid Engine 8.1.9 prints `%lt;`."""
    return raw.replace("%lt;", "<")


_TAG = re.compile(r"<(?![?!])[^<>]*>")
_GOOD_TAG = re.compile(r"""</?[A-Za-z_][\w.-]*(\s+[\w:.-]+\s*=\s*("[^"]*"|'[^']*'))*\s*/?>""")
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_BARE_AND = re.compile(r"&(?!#?\w+;)")


def _repair_xml(data: bytes) -> bytes:
    """Repair the known errors in Grid Engine's XML, but never complete a truncated document."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    text = _UNPRINTABLE.sub("", _DECLARATION.sub("", text))
    text = _BARE_AND.sub("&amp;", text.replace("%lt;", "&lt;"))
    return _TAG.sub(lambda tag: tag[0] if _GOOD_TAG.fullmatch(tag[0]) else "", text).encode()


_LOG = logging.getLogger(__name__)
_OURS = f"{PREFIX}."
_TIMES = ("JAT_start_time", "JB_submission_time", "JAT_submission_time")
TRUE = frozenset(("1.000000", "1", "TRUE", "true"))
_FALSE = frozenset(("0.000000", "0", "FALSE", "false"))
FIXED = "qf"  # type of a fixed resource value of a queue (qstat(1), -F)
_JOB, _TASK = "JB_job_number", "JAT_task_number"
BATCH = "B"


@with_qstat_xml_repair
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
    """Parse `qstat -F ... -u '*' -xml` into a snapshot; raise ParseError if incomplete.

    Slots of transfer queues do not count as free, and best-effort slots are counted separately. Jobs in `uncounted` do
    not count as pending. `zone` is qstat's time zone, by default this system's. If a ~/.sge_qstat cancels -F, there are
    no queues.
    """
    queues, jobs = list[QueueInstanceStatus](), dict[int, tuple[ClusterJobListRow, ...]]()
    tasks_in_state = Counter[str]()
    for element in iterate_job_list(data):
        leafs = {str(child.tag): child.text or "" for child in element}
        if element.tag == QUEUE:
            queues.append(_queue_instance_status(leafs, element))
            continue
        job_id = int(leafs["JB_job_number"])
        if job_id not in uncounted:
            tasks_in_state[leafs["state"]] += count_tasks_in_ranges(leafs.get("tasks", ""))
        if job_id in job_ids or leafs["JB_name"].startswith(_OURS):
            row = _job_list_row_of_leafs(leafs, _queue_instance_of_job(element, leafs), zone)
            jobs[job_id] = _add_or_merge_job_row(jobs.get(job_id, ()), row)
    own = (queue for queue in queues if not queue.sends_away and queue.queue_name not in transfer_queues)
    free_besteffort = [queue.free_slots for queue in queues if queue.is_besteffort]
    return ClusterSnapshot(
        cluster=cluster,
        taken_at=taken_at,
        queues=tuple(queues),
        jobs=jobs,
        pending=sum(n for text, n in tasks_in_state.items() if parse_job_state_log_unknown(text).can_start),
        free_slots=sum(queue.slots_free_for_ordinary_jobs for queue in own),
        besteffort_slots=sum(free_besteffort) if free_besteffort else None,
    )


def _add_or_merge_job_row(rows: tuple[ClusterJobListRow, ...], row: ClusterJobListRow) -> tuple[ClusterJobListRow, ...]:
    """Add a job's row; merge a parallel job's rows, one for each host, into one row with all slots."""
    parts = [earlier for earlier in rows if earlier.tasks == row.tasks and earlier.state.is_running]
    if not (parts and row.state.is_running):
        return (*rows, row)
    whole = replace(parts[0], slots=parts[0].slots + row.slots)
    return tuple(whole if earlier is parts[0] else earlier for earlier in rows)


def _queue_instance_status(leafs: dict[str, str], queue: Element) -> QueueInstanceStatus:
    """Parse a queue instance with its fixed resource values; 8.1.9 prints a BOOL as a number."""
    own = (resource for resource in queue.iterfind("resource") if resource.get("type") == FIXED)
    values = {resource.get("name"): resource.text for resource in own}
    remote = values.get("remote")
    return QueueInstanceStatus(
        name=leafs["name"],
        slots_used=int(leafs["slots_used"]),
        slots_reserved=int(leafs.get("slots_resv", "0")),
        slots_total=int(leafs["slots_total"]),
        state=qstat_state_letters.parse_queue_state_letters(leafs.get("state", "")),
        takes_batch=BATCH in leafs.get("qtype", BATCH),
        sends_away=remote in TRUE,
        says_stay=remote in _FALSE,
        is_besteffort=values.get(BEST_EFFORT) in TRUE,
    )


def _job_list_row_of_leafs(leafs: dict[str, str], queue: str, zone: tzinfo | None) -> ClusterJobListRow:
    return ClusterJobListRow(
        job_id=int(leafs["JB_job_number"]),
        tasks=parse_qstat_task_ranges(leafs.get("tasks", "")),
        name=unescape_less_than(leafs["JB_name"]),
        owner=unescape_less_than(leafs["JB_owner"]),
        state=parse_job_state_log_unknown(leafs["state"]),
        queue=queue,
        since=parse_printed_time(next((leafs[name] for name in _TIMES if leafs.get(name)), ""), zone),
        slots=int(leafs["slots"]),
    )


@lru_cache(maxsize=256)
def parse_job_state_log_unknown(text: str) -> JobState:
    """Parse a job's state letters, and log each combination with an unknown letter once."""
    state = qstat_state_letters.parse_job_state_letters(text)
    if JobStateFact.UNKNOWN in state.facts:
        _LOG.warning("event=unknown_job_state letters=%r", text)
    return state


def _queue_instance_of_job(row: Element, leafs: dict[str, str]) -> str:
    """Return a job's queue instance from the enclosing element, or else from the job's row."""
    parent = row.getparent()
    if parent is not None and parent.tag == QUEUE:
        return parent.findtext("name") or ""
    return leafs.get("queue_name", "")


def parse_printed_time(text: str, zone: tzinfo | None) -> datetime | None:
    """Parse a local time in a time zone, by default this system's; return None for other text."""
    try:
        printed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (printed if printed.tzinfo else printed.replace(tzinfo=zone)).astimezone(UTC)


@lru_cache(maxsize=1024)
def count_tasks_in_ranges(text: str) -> int:
    """Count the tasks in ranges such as `1-9:2,12`; an empty text counts as one task."""
    return sum(map(len, parse_qstat_task_ranges(text))) if text else 1


_Leafs = dict[str, list[str]]


@with_qstat_xml_repair
def parse_job_accounts_and_errors(data: bytes) -> tuple[JobAccountAndErrors, ...]:
    """Parse each job in `qstat -j JOB -xml` (maybe a pattern); the result is empty for an unknown job.

    Only leaf elements are read, in order, because enclosing elements vary by version and the job's history.
    """
    jobs, root = _leaf_texts_by_job(data)
    if not jobs and root.tag != "unknown_jobs":
        raise ParseError(f"qstat: <{root.tag}> contains no job")
    messages = jobs[-1].get("MES_message", []) if jobs else []  # qstat prints the messages after the last job
    return tuple(
        JobAccountAndErrors(
            job_id=int(job[_JOB][0]),
            name=job["JB_job_name"][0],
            owner=job["JB_owner"][0],
            account=job.get("JB_account", [""])[0],
            begun=tuple(map(int, job.get(_TASK, ()))),
            errors=tuple(job.get("QIM_message", ())),
            messages=tuple(messages),
        )
        for job in jobs
    )


def _leaf_texts_by_job(document: bytes, *tags: str) -> tuple[list[_Leafs], Element]:
    """Return for each job a dict from tag to the texts of leaf elements, and the root element.

    Without `tags` all leaf elements are read. JB_job_number is a job's first element in every version.
    """
    jobs: list[_Leafs] = []
    walked = iterate_xml_elements(document, *((_JOB, *tags) if tags else ()))
    for _, element in walked:
        if element.tag == _JOB:
            jobs.append({})
        if jobs and len(element) == 0:
            jobs[-1].setdefault(str(element.tag), []).append(unescape_less_than(element.text or ""))
    return jobs, walked.root


@with_qstat_xml_repair
def parse_begun_tasks(data: bytes) -> list[int]:
    """Parse the tasks in the output of `qstat -j ARRAY -xml`, which prints only tasks that have begun."""
    return [int(text) for job in _leaf_texts_by_job(data, _TASK)[0] for text in job.get(_TASK, ())]


@with_qstat_xml_repair
def parse_unix_groups_and_ckpts(data: bytes) -> dict[int, tuple[str, str]]:
    jobs, _ = _leaf_texts_by_job(data, "JB_group", "JB_checkpoint_name")
    return {int(job[_JOB][0]): (job.get("JB_group", [""])[-1], job.get("JB_checkpoint_name", [""])[-1]) for job in jobs}


@with_qstat_xml_repair
def parse_projects_of_jobs(data: bytes) -> dict[str, str]:
    """Parse the project of each job from `qstat -ext -xml`; jobs without a project are left out."""
    rows = ((row.findtext(_JOB, ""), row.findtext("JB_project")) for row in iterate_job_list(data))
    return {job: project for job, project in rows if project}


@with_qstat_xml_repair
def parse_array_concurrency_limits(data: bytes) -> dict[int, int]:
    """Parse each array's limit of running tasks (-tc); arrays without -tc are left out."""
    jobs, _ = _leaf_texts_by_job(data, "JB_ja_task_concurrency")
    caps = {int(job[_JOB][0]): int(job.get("JB_ja_task_concurrency", ["0"])[-1]) for job in jobs}
    return {job: most for job, most in caps.items() if most > 0}
