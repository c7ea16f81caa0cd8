"""Reads what a cell has and what waits there: `qstat -u '*' -xml -f -r` and `qhost -xml`.

Arrays stay one row, whatever number of tasks waits. A broken answer is a ParseError and never an
empty cell, since an idle cell is given back.
"""

from collections.abc import Mapping
from datetime import UTC, tzinfo
from functools import partial

from gridbridge.batch.gridengine import commands, letters, qconf
from gridbridge.batch.gridengine.parse import (
    QUEUE,
    count_tasks,
    drop,
    moment,
    read_state,
    read_xml,
    take_rows,
    walk,
)
from gridbridge.batch.gridengine.submit import call
from gridbridge.errors import ParseError
from gridbridge.model.elastic.cell import CellSeen, Host, Instance, Shape, Waiting
from gridbridge.model.elastic.saved import Documents
from gridbridge.model.route import Cell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lxml.etree import _Element

HOST = "host"
GLOBAL = "global"  # no host, but the whole cell (qhost(1))
UNITS = {"K": 1e3, "M": 1e6, "G": 1e9}  # of a load average that qhost has shortened


def printed(cell: Cell) -> tuple[Documents, str]:
    """Return what qstat and qhost print now, in UTC, and the qmaster's host.

    Raises CommandFailed when one of them does not answer.
    """
    qstat = call(cell, commands.every_job(cell), zone="UTC").checked().stdout
    qhost = call(cell, commands.hosts(cell), zone="UTC").checked().stdout
    master = call(cell, qconf.show(cell, "-sss")).checked().stdout
    return Documents(qstat=qstat, qhost=qhost), master.decode("utf-8", "replace").strip()


def read_cell(qstat: bytes, qhost: bytes, zone: tzinfo = UTC) -> CellSeen:
    """Read both documents; ParseError for anything but two whole ones.

    `zone` is that of the processes which printed them.
    """
    rows = read_xml(qstat, partial(_read_rows, zone=zone))
    hosts = read_xml(qhost, _read_hosts, "qhost")
    listed = {one.host for one in rows.instances}
    if listed and not hosts:
        raise ParseError("qhost: no host, though queues have some")
    return CellSeen(hosts=hosts, instances=tuple(rows.instances), waiting=rows.waiting)


class _Group:
    """The jobs of one shape and state, so far."""

    __slots__ = ("first", "jobs", "oldest", "tasks")

    def __init__(self, submitted: str) -> None:
        self.jobs: list[int] = []
        self.tasks = 0
        self.first = self.oldest = submitted

    def add(self, job: int, tasks: int, submitted: str) -> None:
        self.jobs.append(job)
        self.tasks += tasks
        if submitted and (submitted < self.oldest or not self.oldest):
            self.oldest = submitted  # times of one form and zone are in order as texts


class _Rows:
    """What one walk through a list gathers."""

    def __init__(self, zone: tzinfo) -> None:
        self.instances: list[Instance] = []
        self._zone = zone
        self._running: list[int] = []  # in the queue that is being walked through
        self._groups: dict[tuple[str, Shape], _Group] = {}

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """What waits, in the order of the list."""
        return tuple(self._waiting(*key, group) for key, group in self._groups.items())

    def _waiting(self, state: str, shape: Shape, group: _Group) -> Waiting:
        return Waiting(
            shape=shape,
            state=read_state(state),
            jobs=tuple(group.jobs),
            tasks=group.tasks,
            first_since=moment(group.first, self._zone),
            oldest_since=moment(group.oldest, self._zone),
        )

    def take(self, element: "_Element") -> None:
        """Take a row; the jobs of a queue come before the queue itself ends."""
        leafs = {str(child.tag): child.text or "" for child in element}
        if element.tag == QUEUE:
            self.instances.append(_instance(leafs, tuple(self._running)))
            self._running = []
            return
        state = read_state(leafs["state"])
        if state.is_running:
            self._running.append(int(leafs["slots"]))
        else:
            self._wait(element, leafs)

    def _wait(self, element: "_Element", leafs: Mapping[str, str]) -> None:
        shape = _shape(element, leafs)
        submitted = leafs.get("JB_submission_time", "")
        key = leafs["state"], shape
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(submitted)
        job, tasks = int(leafs["JB_job_number"]), leafs.get("tasks", "")
        group.add(job, count_tasks(tasks), submitted)


def _read_rows(document: bytes, *, zone: tzinfo) -> _Rows:
    rows = _Rows(zone)
    take_rows(document, rows.take)
    return rows


def _instance(leafs: Mapping[str, str], running: tuple[int, ...]) -> Instance:
    queue, _, host = leafs["name"].partition("@")
    return Instance(
        queue=queue,
        host=host,
        used=int(leafs["slots_used"]),
        reserved=int(leafs.get("slots_resv", "0")),
        total=int(leafs["slots_total"]),
        state=letters.read_queue(leafs.get("state", "")),
        running=running,
    )


def _shape(element: "_Element", leafs: Mapping[str, str]) -> Shape:
    """Read what a job asks for; most ask for nothing but slots."""
    pe, requests, queues = "", list[tuple[str, str]](), list[str]()
    if "requested_pe" in leafs or "hard_request" in leafs or "hard_req_queue" in leafs:
        for child in element:
            if child.tag == "requested_pe":
                pe = child.get("name") or ""
            elif child.tag == "hard_request":
                requests.append((child.get("name") or "", child.text or ""))
            elif child.tag == "hard_req_queue":
                queues.append(child.text or "")
    return Shape(slots=int(leafs["slots"]), pe=pe, requests=tuple(requests), queues=tuple(queues))


def _read_hosts(document: bytes) -> tuple[Host, ...]:
    found = list[Host]()
    walked = walk(document, HOST)
    for _, element in walked:
        name = element.get("name") or ""
        values = {one.get("name") or "": one.text or "" for one in element.iterfind("hostvalue")}
        if name != GLOBAL:
            cores, load = _number(values.get("num_proc", "")), _number(values.get("load_avg", ""))
            processors = None if cores is None else int(cores)
            found.append(Host(name=name, processors=processors, load=load))
        drop(element)
    if walked.root.tag != "qhost":
        raise ParseError(f"qhost: <{walked.root.tag}> is no list of hosts")
    return tuple(found)


def _number(text: str) -> float | None:
    """Read a value such as 3.19 or 1.2K; None where its host has not told it, which is a -."""
    unit = UNITS.get(text[-1:], 0.0)
    try:
        return float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        return None
