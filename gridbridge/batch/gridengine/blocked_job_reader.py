"""Reads waiting jobs, running tasks and free consumables from `qstat -F ... -r -u '*' -xml`.

A consumable belongs to a host (`hc`), to the cell (`gc`), or to a queue and only to tasks in this queue (`qc`), see
qstat(1), -F.
"""

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC

from gridbridge.batch import qstat_state_letters
from gridbridge.batch.gridengine import (
    job_submission_and_control,
    qconf_parser_and_edits,
    qstat_xml_parser,
    sge_command_line_builders,
)
from gridbridge.batch.gridengine.cell_object_queries import EXCLUSIVE, NOTHING, OF_ALL, OF_HOST, SLOTS
from gridbridge.batch.gridengine.job_request_parser import parse_job_request
from gridbridge.batch.gridengine.job_submission_and_control import run_client
from gridbridge.batch.gridengine.status import query_qconf_names, query_qconf_object, run_client_in_utc
from gridbridge.errors import ParseError
from gridbridge.model import grid_engine_amounts
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    Amounts,
    CellRequestsAndResources,
    FreeQueueInstanceResources,
    RunningJobWithResources,
    WaitingLocalRequest,
)
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.job_and_queue_states import JobState
from gridbridge.model.job_request import Pairs
from gridbridge.model.site.setup_findings_and_edits import QconfComplexRow
from gridbridge.model.transfer_name import parse_qstat_task_ranges
from gridbridge.model.transfer_route import GridEngineCellAccessSettings

MOST_SHAPES = 100
OF_QUEUE = "qc"
PER_JOB = "JOB"  # a job uses the requested amount once, whatever its number of slots (complex(5))
WILD = frozenset("*?[")  # wildcard characters in names of parallel environments (sge_types(1), wc_pe_name)


def query_blocked_jobs(cell: GridEngineCellAccessSettings) -> CellRequestsAndResources:
    table = CellConsumables(qconf_parser_and_edits.parse_complex_table(query_qconf_object(cell, "-sc")).values())
    shown = ",".join((*table.names, "remote", BEST_EFFORT))
    argv = sge_command_line_builders.list_jobs_argv(cell, "-F", shown, "-r", "-u", "*", "-xml")
    return parse_blocked_jobs(run_client_in_utc(cell, argv).require_success().stdout, table)


def query_instances_able_to_run_job(
    cell: GridEngineCellAccessSettings, shortage: WaitingLocalRequest
) -> frozenset[str]:
    """Return the queue instances that could run a job if all consumables were free.

    Returns none if the job's start time is in the future, or if its array runs its maximal number of tasks.
    """
    if shortage.job in job_submission_and_control.query_deferred_jobs(cell):
        return frozenset()
    xml = job_submission_and_control.query_job_xml(cell, str(shortage.job))
    most = qstat_xml_parser.parse_array_concurrency_limits(xml).get(shortage.job, 0)
    if most and len(qstat_xml_parser.parse_begun_tasks(xml)) >= most:
        return frozenset()
    environments = [shortage.pe] if shortage.pe else []
    if WILD.intersection(shortage.pe):  # qselect accepts no wildcards
        environments = fnmatch.filter(query_qconf_names(cell, "-spl"), shortage.pe)
    if shortage.pe and not environments:
        return frozenset()
    resources = ",".join(f"{name}={value}" if value else name for name, value in shortage.others)
    options = {
        "-l": resources,
        "-pe": ",".join(environments),
        "-q": ",".join(shortage.queues),
        "-U": parse_job_request(xml).owner,
    }
    words = (word for option, value in options.items() if value for word in (option, value))
    answer = run_client(cell, (f"{cell.binaries}/qselect", *words))  # qselect lists full queue instances too
    return frozenset(answer.stdout.decode("utf-8", "replace").split())


class CellConsumables:
    """A cell's consumables and exclusive resources; a job with an exclusive resource reserves a whole host."""

    def __init__(self, rows: Iterable[QconfComplexRow]) -> None:
        used = [row for row in rows if row.consumable != "NO"]
        self.alone = frozenset(row.name for row in used if row.relation == EXCLUSIVE)
        self._counted = {row.name: row for row in used if row.name not in self.alone}
        self.names = [*self._counted, *self.alone]

    def requested_amounts(self, pairs: Pairs, slots: int) -> Amounts:
        """Return the requested amount of each consumable, summed over all slots of a job."""
        return {
            name: amount * (1 if self._counted[name].consumable == PER_JOB else slots)
            for name, text in pairs
            if name in self._counted and (amount := parse_consumable_amount(text)) is not None
        }

    def amounts_used_without_request(self, pairs: Pairs, slots: int) -> Amounts:
        requested = {name for name, _ in pairs}
        rows = (row for name, row in self._counted.items() if name not in requested)
        defaults = ((row.name, "1" if row.name == SLOTS else row.default) for row in rows)
        defaults = ((name, text) for name, text in defaults if text.upper() not in NOTHING)
        return self.requested_amounts(tuple(defaults), slots)

    def requests_without_consumables(self, pairs: Pairs) -> Pairs:
        consumables = self._counted.keys() | self.alone
        return tuple(pair for pair in pairs if pair[0] not in consumables)

    def requested_exclusive_resources(self, pairs: Pairs) -> frozenset[str]:
        return frozenset(name for name, text in pairs if name in self.alone and text in qstat_xml_parser.TRUE)


def parse_consumable_amount(text: str) -> float | None:
    """Parse a number, an amount (3.5G) or a time; negative if overused, None for other text."""
    if text.upper() == "INFINITY":
        return grid_engine_amounts.MOST
    try:
        number = grid_engine_amounts.parse_grid_engine_amount(text.removeprefix("-"))
    except ParseError:
        return None
    return -number if text.startswith("-") else number


@qstat_xml_parser.with_qstat_xml_repair
def parse_blocked_jobs(data: bytes, table: CellConsumables) -> CellRequestsAndResources:
    """Parse qstat's list of jobs and queue instances; raise ParseError if the list is incomplete."""
    requests = dict[tuple[object, ...], WaitingLocalRequest]()
    running = list[RunningJobWithResources]()  # running tasks of the queue instance being read
    holders, instances, free_in_cell = (
        list[RunningJobWithResources](),
        list[FreeQueueInstanceResources](),
        dict[str, float](),
    )
    for element in qstat_xml_parser.iterate_job_list(data):
        leafs = {str(child.tag): child.text or "" for child in element}
        if element.tag == qstat_xml_parser.QUEUE:
            instance, makes_way, free = _queue_instance_with_free_resources(element, leafs, table)
            free_in_cell |= free
            host = leafs["name"].rpartition("@")[2]
            holders += (replace(holder, host=host, makes_way=makes_way) for holder in running)
            running = []
            instances += [instance] if instance else []
            continue
        state, pairs = (
            qstat_xml_parser.parse_job_state_log_unknown(leafs["state"]),
            tuple((request.get("name") or "", request.text or "") for request in element.iterfind("hard_request")),
        )
        if state.is_running:
            running.append(_running_job_with_resources(leafs, pairs, state, table))
        elif state.can_start and BEST_EFFORT not in dict(pairs):
            pe = next((environment.get("name") or "" for environment in element.iterfind("requested_pe")), "")
            queues = tuple(queue.text or "" for queue in element.iterfind("hard_req_queue"))
            shape = (leafs.get("JB_owner"), leafs["slots"], pairs, pe, queues)
            if shape not in requests and len(requests) < MOST_SHAPES:
                requests[shape] = replace(_waiting_job_request(leafs, pairs, table), pe=pe, queues=queues)
    return CellRequestsAndResources(
        asked=tuple(requests.values()), holders=tuple(holders), places=tuple(instances), free=free_in_cell
    )


def _running_job_with_resources(
    leafs: Mapping[str, str], pairs: Pairs, state: JobState, table: CellConsumables
) -> RunningJobWithResources:
    slots = int(leafs["slots"])
    return RunningJobWithResources(
        job=int(leafs["JB_job_number"]),
        task=_first_task_index(leafs),
        host="",
        since=qstat_xml_parser.parse_printed_time(leafs.get("JAT_start_time", ""), UTC) if state.has_begun else None,
        amounts={**table.amounts_used_without_request(pairs, slots), **table.requested_amounts(pairs, slots)},
        alone=table.requested_exclusive_resources(pairs),
        is_deleting=state.is_deleting,
    )


def _waiting_job_request(leafs: Mapping[str, str], pairs: Pairs, table: CellConsumables) -> WaitingLocalRequest:
    slots = int(leafs["slots"])
    return WaitingLocalRequest(
        job=int(leafs["JB_job_number"]),
        task=_first_task_index(leafs),
        slots=slots,
        amounts=table.requested_amounts(pairs, slots),
        defaults=table.amounts_used_without_request(pairs, slots),
        alone=table.requested_exclusive_resources(pairs),
        others=table.requests_without_consumables(pairs),
    )


def _queue_instance_with_free_resources(
    element: qstat_xml_parser.Element, leafs: Mapping[str, str], table: CellConsumables
) -> tuple[FreeQueueInstanceResources | None, bool, dict[str, float]]:
    """Return (open local batch instance or None, whether best-effort, the cell's free consumables)."""
    values = [(child.get("type"), child.get("name") or "", child.text or "") for child in element]
    own = {name: text for kind, name, text in values if kind == qstat_xml_parser.FIXED}
    of_host, of_cell, of_queue = (_consumable_amounts_of_kind(kind, values) for kind in (OF_HOST, OF_ALL, OF_QUEUE))
    makes_way = own.get(BEST_EFFORT) in qstat_xml_parser.TRUE
    is_open = not qstat_state_letters.parse_queue_state_letters(leafs.get("state", "")).facts
    if (
        makes_way
        or own.get("remote") in qstat_xml_parser.TRUE
        or not is_open
        or qstat_xml_parser.BATCH not in leafs.get("qtype", qstat_xml_parser.BATCH)
    ):
        return None, makes_way, of_cell
    alone = table.alone & of_host.keys()
    used = int(leafs["slots_used"]) + int(leafs.get("slots_resv", "0"))
    instance = FreeQueueInstanceResources(
        name=leafs["name"],
        slots=int(leafs["slots_total"]) - used,
        free={name: n for name, n in of_host.items() if name not in alone},
        own={name: n for name, n in of_queue.items() if name != SLOTS},
        alone=alone,
    )
    return instance, makes_way, of_cell


def _first_task_index(leafs: Mapping[str, str]) -> int:
    tasks = parse_qstat_task_ranges(leafs.get("tasks", ""))
    return tasks[0][0] if tasks else 0


def _consumable_amounts_of_kind(kind: str, values: list[tuple[str | None, str, str]]) -> dict[str, float]:
    return {
        name: amount
        for of, name, text in values
        if of == kind and (amount := parse_consumable_amount(text)) is not None
    }
