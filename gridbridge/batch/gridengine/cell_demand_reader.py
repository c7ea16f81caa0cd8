"""Reads a cell's hosts and waiting jobs from `qstat -u '*' -xml -f -r` and `qhost -xml`.

An incomplete answer raises ParseError, because the balancer removes nodes of an idle cell.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import NamedTuple

from gridbridge.batch import qstat_state_letters
from gridbridge.batch.gridengine import cell_configuration_reader, qstat_xml_parser, sge_command_line_builders
from gridbridge.batch.gridengine.status import query_qconf_object, run_client_in_utc
from gridbridge.errors import ParseError
from gridbridge.model.campaigns.campaign_file_and_array_names import is_campaign_job_name
from gridbridge.model.elastic.elastic_nodes import short_host_name
from gridbridge.model.elastic.grid_engine_cell import (
    CellConfiguration,
    CellExecutionHost,
    CellQueueInstance,
    GridEngineCellSnapshot,
    JobAccessIdentity,
    RequestedValueComparison,
    RunningTaskGroup,
    TaskResourceRequests,
    WaitingJobGroup,
)
from gridbridge.model.transfer_name import WRAP
from gridbridge.model.transfer_route import GridEngineCellAccessSettings

# files with the output of `qstat -u '*' -xml -f -r`, of `qhost -xml`, and of qconf and other commands as JSON
QSTAT, QHOST, QCONF = "qstat.xml", "qhost.xml", "qconf.json"
OUTPUT_FILES: tuple[str, ...] = (QSTAT, QHOST)
OPTIONAL_FILES: tuple[str, ...] = (QCONF,)
GLOBAL = "global"  # qhost(1)'s name for the whole cell
LEFT = ("hc", "gc")  # qhost's prefixes of free consumables of a host and of the whole cell (qhost(1), -F)
REQUESTS = ("hard_request", "def_hard_request")
ASKING = frozenset((*REQUESTS, "requested_pe", "hard_req_queue"))
NOTHING = CellConfiguration()
UNITS = {"K": 1e3, "M": 1e6, "G": 1e9}  # suffixes of large load averages in qhost


def query_demand_outputs(cell: GridEngineCellAccessSettings) -> tuple[dict[str, bytes], str]:
    """Return the outputs of qstat, qhost and qconf, and the qmaster's host name; all times are in UTC."""
    qstat = (
        run_client_in_utc(cell, sge_command_line_builders.list_jobs_argv(cell, "-u", "*", "-xml", "-f", "-r"))
        .require_success()
        .stdout
    )
    table = cell_configuration_reader.query_cell_configuration(cell, qstat)
    resources = cell_configuration_reader.host_resources_to_query(qstat, table)
    shown = ("-F", ",".join(resources)) if resources else ()
    qhost = run_client_in_utc(cell, (f"{cell.binaries}/qhost", *shown, "-xml")).require_success().stdout
    master = query_qconf_object(cell, "-sss").decode("utf-8", "replace").strip()
    return {QSTAT: qstat, QHOST: qhost, QCONF: table}, master


def parse_demand_outputs(
    outputs: Mapping[str, bytes], zone: tzinfo, _queue: str
) -> tuple[GridEngineCellSnapshot, CellConfiguration]:
    try:
        layout = cell_configuration_reader.parse_cell_configuration(outputs.get(QCONF, b""))
    except ParseError as error:
        raise ParseError(f"{QCONF}: {error}") from error
    return parse_cell_demand(outputs[QSTAT], outputs[QHOST], zone, layout), layout


def parse_cell_demand(
    qstat: bytes, qhost: bytes, zone: tzinfo = UTC, laid_out: CellConfiguration = NOTHING
) -> GridEngineCellSnapshot:
    """Parse XML that qstat and qhost printed in time zone `zone`; raise ParseError if incomplete."""
    rows = qstat_xml_parser.parse_repaired_xml(qstat, lambda document: _QstatRowCollector(document, zone, laid_out))
    hosts = qstat_xml_parser.parse_repaired_xml(qhost, parse_qhost, "qhost")
    listed = {instance.host for instance in rows.instances}
    if listed and not hosts:
        raise ParseError("qhost: no hosts printed, but qstat printed queue instances")
    if not listed and any(short_host_name(host.name) in laid_out.hosts_with_queue for host in hosts):
        raise ParseError("qstat: no queue on any host, but qconf prints queues with hosts")
    of_all = next((host for host in hosts if host.name == GLOBAL), CellExecutionHost(name=GLOBAL))
    return GridEngineCellSnapshot(
        hosts=tuple(  # a host's own value of a resource replaces the whole cell's value (complex(5))
            replace(host, values=tuple((dict(of_all.values) | dict(host.values)).items()))
            for host in hosts
            if host is not of_all
        ),
        instances=tuple(rows.instances),
        waiting=rows.waiting_groups,
        granted=tuple(sorted(rows.granted.items())),
        left=of_all.left,
    )


class _EqualWaitingJobs:
    """The waiting jobs that have the same owner, request and state."""

    def __init__(self, submitted: str) -> None:
        self.jobs: list[int] = []
        self.kinds = Counter[tuple[str, str]]()  # {(owner, job name): number of tasks}
        self.first = self.oldest = submitted

    def add_job(self, job: int, tasks: int, submitted: str, kind: tuple[str, str]) -> None:
        self.jobs.append(job)
        self.kinds[kind] += tasks
        if submitted and (submitted < self.oldest or not self.oldest):
            self.oldest = submitted  # comparing these texts compares the times


class _WaitingJobGroupKey(NamedTuple):
    owner: str
    state: str
    is_deferred: bool
    is_dependent: bool
    is_campaign: bool
    shape: TaskResourceRequests


class _QstatRowCollector:
    def __init__(self, document: bytes, zone: tzinfo, laid_out: CellConfiguration) -> None:
        self.instances: list[CellQueueInstance] = []
        self.granted: Counter[str] = Counter()
        self._zone = zone
        self._laid_out = laid_out
        rows = laid_out.resources.values()
        self._exclusive = {row.name for row in rows if row.relation is RequestedValueComparison.EXCLUSIVE}
        self._has_owner_lists = any(access.depends_on_job_owner for access in laid_out.all_access_lists)
        by_project = any(access.depends_on_job_project for access in laid_out.all_access_lists)
        self._projects = laid_out.projects if by_project else None
        self._running: list[int] = []  # slots of each running task of the queue instance being read
        self._slots_of: Counter[tuple[str, str, str]] = Counter()  # {(owner, job name, start time): used slots}
        self._is_taken = False  # whether a task uses the whole host
        self._begun = defaultdict[int, set[str]](set)  # running tasks by array, for arrays with a limit (qsub -tc)
        self._groups: dict[_WaitingJobGroupKey, _EqualWaitingJobs] = {}
        for element in qstat_xml_parser.iterate_job_list(document):
            self._read_qstat_row(element)

    @property
    def waiting_groups(self) -> tuple[WaitingJobGroup, ...]:
        return tuple(self._waiting_job_group(key, group) for key, group in self._groups.items())

    def _waiting_job_group(self, key: _WaitingJobGroupKey, group: _EqualWaitingJobs) -> WaitingJobGroup:
        tasks, job = group.kinds.total(), group.jobs[0]
        most = self._laid_out.caps.get(job)
        capped = max(0, tasks + len(self._begun[job]) - most) if most else 0
        return WaitingJobGroup(
            shape=key.shape,
            state=qstat_xml_parser.parse_job_state_log_unknown(key.state),
            jobs=tuple(group.jobs),
            tasks=tasks,
            first_since=qstat_xml_parser.parse_printed_time(group.first, self._zone),
            oldest_since=qstat_xml_parser.parse_printed_time(group.oldest, self._zone),
            capped=min(capped, tasks),
            is_deferred=key.is_deferred,
            is_dependent=key.is_dependent,
            is_campaign=key.is_campaign,
            kinds=tuple((*kind, tasks) for kind, tasks in group.kinds.items()),
        )

    def _read_qstat_row(self, element: qstat_xml_parser.Element) -> None:
        """Read one row; the jobs of a queue instance precede the queue instance."""
        leafs = {str(child.tag): child.text or "" for child in element}
        if element.tag == qstat_xml_parser.QUEUE:
            self.instances.append(self._queue_instance_of_row(leafs))
            self._running, self._is_taken = [], False
            self._slots_of.clear()
            return
        state = qstat_xml_parser.parse_job_state_log_unknown(leafs["state"])
        if state.is_running:
            self._add_running_task(element, leafs)
        else:
            self._add_waiting_job(element, leafs)

    def _add_running_task(self, element: qstat_xml_parser.Element, leafs: Mapping[str, str]) -> None:
        slots = int(leafs["slots"])
        self._running.append(slots)
        begun = leafs.get("JAT_start_time", "")
        self._slots_of[leafs.get("JB_owner", ""), leafs.get("JB_name", ""), begun] += slots
        if "granted_pe" in leafs:
            granted = element.find("granted_pe")
            self.granted[(granted.get("name") if granted is not None else None) or ""] += slots
        if self._laid_out.caps:
            self._begun[int(leafs["JB_job_number"])].add(leafs.get("tasks", ""))
        if self._exclusive and "hard_request" in leafs:
            names = (child.get("name") or "" for child in element.iterfind("hard_request"))
            self._is_taken |= any(self._laid_out.full_resource_name(name) in self._exclusive for name in names)

    def _queue_instance_of_row(self, leafs: Mapping[str, str]) -> CellQueueInstance:
        queue, _, host = leafs["name"].partition("@")
        return CellQueueInstance(
            queue=queue,
            host=host,
            used=int(leafs["slots_used"]),
            reserved=int(leafs.get("slots_resv", "0")),
            total=int(leafs["slots_total"]),
            state=qstat_state_letters.parse_queue_state_letters(leafs.get("state", "")),
            running=tuple(self._running),
            is_taken=self._is_taken,
            begun=tuple(
                RunningTaskGroup(
                    owner=owner, name=name, slots=slots, since=qstat_xml_parser.parse_printed_time(since, self._zone)
                )
                for (owner, name, since), slots in self._slots_of.items()
            ),
            promised=self._laid_out.promised.get(leafs["name"], 0),
        )

    def _add_waiting_job(self, element: qstat_xml_parser.Element, leafs: Mapping[str, str]) -> None:
        submitted = leafs.get("JB_submission_time", "")
        job, owner = int(leafs["JB_job_number"]), leafs.get("JB_owner", "")
        key = _WaitingJobGroupKey(
            owner,
            leafs["state"],
            job in self._laid_out.deferred,
            "predecessor_jobs" in leafs,
            is_campaign_job_name(leafs.get("JB_name", "")),
            _parse_resource_requests(
                element, leafs, self._laid_out.full_resource_name, self._access_identity_of_job(job, owner)
            ),
        )
        if job in self._laid_out.caps:
            key = key._replace(shape=replace(key.shape, array=job))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _EqualWaitingJobs(submitted)
        group.add_job(
            job,
            qstat_xml_parser.count_tasks_in_ranges(leafs.get("tasks", "")),
            submitted,
            (owner, leafs.get("JB_name", "")),
        )

    def _access_identity_of_job(self, job: int, owner: str) -> JobAccessIdentity:
        """Return a job's user, group, project and checkpointing environment, as far as access lists name them."""
        return JobAccessIdentity(
            owner=owner if self._has_owner_lists else "",
            group=self._laid_out.owners_groups.get(job, "") if self._has_owner_lists else "",
            project=None if self._projects is None else self._projects.get(job, ""),
            checkpoint=self._laid_out.checkpoints.get(job, ""),
        )


def _parse_resource_requests(
    element: qstat_xml_parser.Element,
    leafs: Mapping[str, str],
    long_name: Callable[[str], str],
    identity: JobAccessIdentity,
) -> TaskResourceRequests:
    pe, requests, queues = "", list[tuple[str, str]](), list[str]()
    is_range = False
    if not ASKING.isdisjoint(leafs):
        for child in element:
            if child.tag == "requested_pe":
                pe = child.get("name") or ""
                is_range = not (child.text or "").isdigit()
            elif child.tag in REQUESTS:
                requests.append((long_name(child.get("name") or ""), child.text or ""))
            elif child.tag == "hard_req_queue":
                queues.append(child.text or "")
    slots = int(leafs["slots"])
    if not slots:
        raise ValueError("a waiting job requests 0 slots")
    return TaskResourceRequests(
        slots=slots if slots > 0 else slots + WRAP,  # qstat prints large numbers of slots as negative numbers
        pe=pe,
        requests=tuple(requests),
        queues=tuple(queues),
        is_range=is_range,
        identity=identity,
    )


def parse_qhost(document: bytes) -> tuple[CellExecutionHost, ...]:
    """Parse `qhost -xml`, which shows the whole cell as a host named `global`."""
    walked = qstat_xml_parser.iterate_xml_elements(document, "host")
    hosts = list[CellExecutionHost]()
    for _, element in walked:
        hosts.append(_parse_execution_host(element))
        qstat_xml_parser.free_parsed_element(element)
    if walked.root.tag != "qhost":
        raise ParseError(f"qhost: <{walked.root.tag}> is not a list of hosts")
    return tuple(hosts)


def _parse_execution_host(element: qstat_xml_parser.Element) -> CellExecutionHost:
    values = {child.get("name") or "": child.text or "" for child in element.iterfind("hostvalue")}
    name, resources = element.get("name") or "", list(element.iterfind("resourcevalue"))
    counted = LEFT if name == GLOBAL else LEFT[:1]
    return CellExecutionHost(
        name=name,
        load=_parse_host_load(values.get("load_avg", "")),
        left=tuple(_resource_name_and_text(resource) for resource in resources if resource.get("dominance") in counted),
        values=tuple(
            _resource_name_and_text(resource) for resource in resources if resource.get("dominance") not in LEFT
        ),
    )


def _resource_name_and_text(element: qstat_xml_parser.Element) -> tuple[str, str]:
    return element.get("name") or "", element.text or ""


def _parse_host_load(text: str) -> float | None:
    """Parse a load such as 3.19 or 1.2K; return None for `-`, which qhost prints for a silent host."""
    unit = UNITS.get(text[-1:], 0.0)
    try:
        return float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        return None
