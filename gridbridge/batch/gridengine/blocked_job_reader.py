"""Reads waiting jobs, running tasks and free consumables from `qstat -F ... -r -u '*' -xml`.

A consumable belongs to a host (`hc`), the whole cell (`gc`) or a queue (`qc`); preemptible tasks use no consumables of
other queues (complex(5), host_conf(5), qstat(1) -F).
"""

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC
from functools import partial

from gridbridge.batch import qstat_state_letters
from gridbridge.batch.gridengine import client_commands, qconf, submit
from gridbridge.batch.gridengine.cell_object_queries import (
    EXCLUSIVE,
    NOTHING,
    OF_ALL,
    OF_HOST,
    SLOTS,
)
from gridbridge.batch.gridengine.parse import (
    BATCH,
    FIXED,
    QUEUE,
    TRUE,
    for_each_listed_job_and_queue,
    parse_array_concurrency_limits,
    parse_begun_tasks,
    parse_job_state_log_unknown,
    parse_printed_time,
    parse_repaired_xml,
)
from gridbridge.batch.gridengine.status import query_names
from gridbridge.batch.gridengine.submit import run_client
from gridbridge.batch.gridengine.submitted_request import parse_job_request
from gridbridge.errors import ParseError
from gridbridge.model import grid_engine_amounts
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    Amounts,
    CellRequestsAndResources,
    QueueInstanceResources,
    RunningJobWithResources,
    WaitingLocalRequest,
)
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.job_request import Pairs
from gridbridge.model.site.setup_findings_and_edits import QconfComplexRow
from gridbridge.model.states import JobState
from gridbridge.model.transfer_name import parse_qstat_task_ranges
from gridbridge.model.transfer_route import GridEngineCellAccess
from gridbridge.shell.program_runs import LIST_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lxml.etree import _Element

MOST_SHAPES = 100  # maximal number of different requests that are examined
OF_QUEUE = "qc"
PER_JOB = "JOB"  # a job uses the requested amount once, whatever its number of slots (complex(5))
WILD = frozenset("*?[")  # wildcard characters in names of parallel environments (sge_types(1), wc_pe_name)


def query_blocked_jobs(cell: GridEngineCellAccess) -> CellRequestsAndResources:
    """Return a cell's waiting jobs, running tasks and free consumables."""
    table = ConsumableTable(
        qconf.parse_complex_table(run_client(cell, qconf.qconf_command(cell, "-sc")).checked().stdout).values()
    )
    argv = client_commands.show_blocked_jobs_command(cell, table.names)
    answer = run_client(cell, argv, zone="UTC", most_bytes=LIST_BYTES).checked()
    return parse_blocked_jobs(answer.stdout, table)


def query_possible_instances(cell: GridEngineCellAccess, shortage: WaitingLocalRequest) -> frozenset[str]:
    """Return the queue instances that could run a job if all consumables were free.

    The result is empty if the job's start time is in the future, or if the array already has its maximal number of
    running tasks.
    """
    if shortage.job in submit.query_deferred_jobs(cell):
        return frozenset()
    xml = submit.query_job_xml(cell, str(shortage.job))
    most = parse_array_concurrency_limits(xml).get(shortage.job, 0)
    if most and len(parse_begun_tasks(xml)) >= most:
        return frozenset()
    environments = _environments(cell, shortage.pe)
    if shortage.pe and not environments:
        return frozenset()
    queues, owner = ",".join(shortage.queues), parse_job_request(xml).owner
    argv = client_commands.list_possible_queues_command(cell, owner, ",".join(environments), queues, shortage.others)
    return frozenset(run_client(cell, argv).stdout.decode("utf-8", "replace").split())


def _environments(cell: GridEngineCellAccess, pe: str) -> list[str]:
    """Return the parallel environments that match a requested name; qselect accepts no wildcards."""
    if not WILD.intersection(pe):
        return [pe] if pe else []
    return fnmatch.filter(query_names(cell, "-spl"), pe)


class ConsumableTable:
    """A cell's consumables, and its exclusive resources, by which a job reserves a whole host."""

    def __init__(self, rows: Iterable[QconfComplexRow]) -> None:
        used = [row for row in rows if row.consumable != "NO"]
        self.alone = frozenset(row.name for row in used if row.relation == EXCLUSIVE)
        self._counted = {row.name: row for row in used if row.name not in self.alone}

    @property
    def names(self) -> list[str]:
        """The names of all consumables and exclusive resources."""
        return [*self._counted, *self.alone]

    def amounts(self, pairs: Pairs, slots: int) -> Amounts:
        """Return the requested amount of each consumable, summed over all slots of a job."""
        return {
            name: amount * self._times(name, slots)
            for name, text in pairs
            if name in self._counted and (amount := parse_consumable_amount(text)) is not None
        }

    def defaults(self, pairs: Pairs, slots: int) -> Amounts:
        """Return the amounts of consumables that a job uses without a request."""
        requested = {name for name, _ in pairs}
        rows = (row for name, row in self._counted.items() if name not in requested)
        defaults = ((row.name, "1" if row.name == SLOTS else row.default) for row in rows)
        defaults = ((name, text) for name, text in defaults if text.upper() not in NOTHING)
        return self.amounts(tuple(defaults), slots)

    def others(self, pairs: Pairs) -> Pairs:
        """Return the requests for resources that are not consumable."""
        consumables = self._counted.keys() | self.alone
        return tuple(pair for pair in pairs if pair[0] not in consumables)

    def alone_by(self, pairs: Pairs) -> frozenset[str]:
        """Return the exclusive resources by which a job requests a whole host."""
        return frozenset(name for name, text in pairs if name in self.alone and text in TRUE)

    def _times(self, name: str, slots: int) -> int:
        return 1 if self._counted[name].consumable == PER_JOB else slots


def parse_consumable_amount(text: str) -> float | None:
    """Parse a number, an amount such as 3.5G, or a time; return None for other text.

    A negative free amount means that jobs use more than the cell has.
    """
    if text.upper() == "INFINITY":
        return grid_engine_amounts.MOST
    try:
        number = grid_engine_amounts.parse_grid_engine_amount(text.removeprefix("-"))
    except ParseError:
        return None
    return -number if text.startswith("-") else number


class _Crowd:
    """Collects waiting jobs, running tasks and free resources from the rows of qstat's list."""

    def __init__(self, table: ConsumableTable) -> None:
        self._table = table
        self._asked: dict[tuple[object, ...], WaitingLocalRequest] = {}
        self._running: list[RunningJobWithResources] = []  # running tasks read since the last queue instance
        self._holders: list[RunningJobWithResources] = []
        self._places: list[QueueInstanceResources] = []
        self._free: dict[str, float] = {}

    @property
    def cell(self) -> CellRequestsAndResources:
        return CellRequestsAndResources(
            asked=tuple(self._asked.values()), holders=tuple(self._holders), places=tuple(self._places), free=self._free
        )

    def take(self, element: "_Element") -> None:
        """Read one row; the jobs of a queue instance precede the queue instance."""
        if element.tag == QUEUE:
            self._take_queue(element)
            return
        leafs = {str(child.tag): child.text or "" for child in element}
        state, pairs = parse_job_state_log_unknown(leafs["state"]), _requests(element)
        if state.is_running:
            self._running.append(self._holder(leafs, pairs, state))
        elif state.can_start and BEST_EFFORT not in dict(pairs):
            self._ask(element, leafs, pairs)

    def _holder(self, leafs: Mapping[str, str], pairs: Pairs, state: JobState) -> RunningJobWithResources:
        slots = int(leafs["slots"])
        return RunningJobWithResources(
            job=int(leafs["JB_job_number"]),
            task=_first(leafs),
            host="",
            since=parse_printed_time(leafs.get("JAT_start_time", ""), UTC) if state.has_begun else None,
            amounts={**self._table.defaults(pairs, slots), **self._table.amounts(pairs, slots)},
            alone=self._table.alone_by(pairs),
            is_deleting=state.is_deleting,
        )

    def _ask(self, element: "_Element", leafs: Mapping[str, str], pairs: Pairs) -> None:
        slots = int(leafs["slots"])
        pe = next((environment.get("name") or "" for environment in element.iterfind("requested_pe")), "")
        queues = tuple(queue.text or "" for queue in element.iterfind("hard_req_queue"))
        shape = (leafs.get("JB_owner"), slots, pairs, pe, queues)
        if shape not in self._asked and len(self._asked) < MOST_SHAPES:
            self._asked[shape] = WaitingLocalRequest(
                job=int(leafs["JB_job_number"]),
                task=_first(leafs),
                slots=slots,
                amounts=self._table.amounts(pairs, slots),
                defaults=self._table.defaults(pairs, slots),
                alone=self._table.alone_by(pairs),
                pe=pe,
                queues=queues,
                others=self._table.others(pairs),
            )

    def _take_queue(self, element: "_Element") -> None:
        leafs = {str(child.tag): child.text or "" for child in element}
        values = [(child.get("type"), child.get("name") or "", child.text or "") for child in element]
        own = {name: text for kind, name, text in values if kind == FIXED}
        host, makes_way = leafs["name"].rpartition("@")[2], own.get(BEST_EFFORT) in TRUE
        free = {kind: _amounts(kind, values) for kind in (OF_HOST, OF_ALL, OF_QUEUE)}
        self._free |= free[OF_ALL]
        holders = (replace(holder, host=host, makes_way=makes_way) for holder in self._running)
        self._holders += holders
        self._running = []
        if not makes_way and own.get("remote") not in TRUE and _takes_work(leafs):
            alone = self._table.alone & free[OF_HOST].keys()
            counted = {name: n for name, n in free[OF_HOST].items() if name not in alone}
            self._places.append(
                QueueInstanceResources(
                    name=leafs["name"],
                    slots=_slots(leafs),
                    free=counted,
                    own={name: n for name, n in free[OF_QUEUE].items() if name != SLOTS},
                    alone=alone,
                )
            )


def _requests(element: "_Element") -> Pairs:
    requests = element.iterfind("hard_request")
    return tuple((request.get("name") or "", request.text or "") for request in requests)


def _first(leafs: Mapping[str, str]) -> int:
    tasks = parse_qstat_task_ranges(leafs.get("tasks", ""))
    return tasks[0][0] if tasks else 0


def _amounts(kind: str, values: list[tuple[str | None, str, str]]) -> dict[str, float]:
    return {
        name: amount
        for of, name, text in values
        if of == kind and (amount := parse_consumable_amount(text)) is not None
    }


def _takes_work(leafs: Mapping[str, str]) -> bool:
    is_open = not qstat_state_letters.parse_queue_state_letters(leafs.get("state", "")).facts
    return is_open and BATCH in leafs.get("qtype", BATCH)


def _slots(leafs: Mapping[str, str]) -> int:
    used = int(leafs["slots_used"]) + int(leafs.get("slots_resv", "0"))
    return int(leafs["slots_total"]) - used


def parse_blocked_jobs(data: bytes, table: ConsumableTable) -> CellRequestsAndResources:
    """Parse qstat's list of jobs and queue instances; raise ParseError if the list is incomplete."""
    return parse_repaired_xml(data, partial(_read_crowd, table=table))


def _read_crowd(document: bytes, *, table: ConsumableTable) -> CellRequestsAndResources:
    crowd = _Crowd(table)
    for_each_listed_job_and_queue(document, crowd.take)
    return crowd.cell
