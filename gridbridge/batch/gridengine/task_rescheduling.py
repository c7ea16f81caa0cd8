"""Finds tasks that may be rerun on other hosts, and reschedules the tasks (qmod(1), -rj).

Only serial batch tasks with `-r y` or a checkpointing environment move (qsub(1)), if not suspended or held.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gridbridge.batch.gridengine.job_request_parser import INTERACTIVE
from gridbridge.batch.gridengine.job_submission_and_control import run_client
from gridbridge.batch.gridengine.qstat_xml_parser import TRUE, Element, parse_short_xml
from gridbridge.batch.gridengine.sge_command_line_builders import host_queue_instances_argv
from gridbridge.model.elastic.grid_engine_cell import JobAccessIdentity, TaskResourceRequests
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.transfer_route import GridEngineCellAccessSettings

AT_ONCE = 100  # maximal number of hosts or jobs in one command
CE_VALUE = "CE_stringval"  # XML element with the requested value
RERUNS = "1"  # value of JB_restart for `qsub -r y`
PUSHED = ("r", "Rr")  # state letters of running tasks that are neither suspended nor held
STOPPED = frozenset("sSTNPh")  # state letters of suspended tasks, and of running tasks with a hold


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningHostTask:
    job: str
    task: str  # array task id; empty for a single job
    slots: int
    state: str

    @property
    def is_suspended_or_held(self) -> bool:
        """Whether the task is suspended or held, so that another host would not run the task."""
        return "d" not in self.state and not STOPPED.isdisjoint(self.state)

    @property
    def qmod_task_id(self) -> str:
        """The task's name for qmod, JOB or JOB.TASK."""
        return f"{self.job}.{self.task}" if self.task else self.job


def parse_tasks_on_hosts(data: bytes) -> Mapping[str, tuple[RunningHostTask, ...]]:
    """Parse the tasks of each host, without preemptible tasks."""
    by_host = defaultdict[str, list[RunningHostTask]](list)
    for queue in parse_short_xml(data).iterfind("queue_info/Queue-List"):
        values = {resource.get("name"): resource.text for resource in queue.iterfind("resource")}
        host = queue.findtext("name", "").partition("@")[2]
        if values.get(BEST_EFFORT) not in TRUE:
            by_host[host] += [
                RunningHostTask(
                    job=row.findtext("JB_job_number", ""),
                    task=row.findtext("tasks", ""),
                    slots=int(row.findtext("slots") or 0),
                    state=row.findtext("state", ""),
                )
                for row in queue.iterfind("job_list")
            ]
    return {host: tuple(tasks) for host, tasks in by_host.items()}


def parse_reschedulable_jobs(data: bytes, now_s: float) -> Mapping[str, TaskResourceRequests]:
    return {
        job.findtext("JB_job_number", ""): _parse_requests_in_job_xml(job)
        for job in parse_short_xml(data).iterfind("djob_info/element")
        if _is_job_reschedulable(job, now_s)
    }


def _parse_requests_in_job_xml(job: Element) -> TaskResourceRequests:
    """Parse a job's requests; after a qalter the lists in qstat's XML lack inner tags."""
    names, values = (_leaf_texts_in_job_section(job, "JB_hard_resource_list", tag) for tag in ("CE_name", CE_VALUE))
    return TaskResourceRequests(
        requests=tuple(zip(names, values, strict=False)),
        queues=_leaf_texts_in_job_section(job, "JB_hard_queue_list", "QR_name"),
        identity=JobAccessIdentity(
            owner=job.findtext("JB_owner", ""),
            group=job.findtext("JB_group", ""),
            project=job.findtext("JB_project", ""),
            checkpoint=job.findtext("JB_checkpoint_name", ""),
        ),
    )


def _leaf_texts_in_job_section(job: Element, section: str, tag: str) -> tuple[str, ...]:
    element = job.find(section)
    return () if element is None else tuple(leaf.text or "" for leaf in element.iter(tag))


def _is_job_reschedulable(job: Element, now_s: float) -> bool:
    reruns = job.findtext("JB_restart") == RERUNS or bool(job.findtext("JB_checkpoint_name"))
    is_interactive = int(job.findtext("JB_type") or 0) & INTERACTIVE
    is_deferred = int(job.findtext("JB_execution_time") or 0) > now_s
    return reruns and job.find("JB_pe") is None and not is_interactive and not is_deferred


def query_reschedulable_tasks(
    cell: GridEngineCellAccessSettings, hosts: Iterable[str], now_s: float
) -> Mapping[str, tuple[TaskResourceRequests, ...]]:
    by_host = query_tasks_on_hosts(cell, list(hosts))
    free = query_reschedulable_jobs(cell, {task.job for tasks in by_host.values() for task in tasks}, now_s)
    return {
        host: tuple(
            replace(free[task.job], slots=task.slots)
            for task in tasks
            if task.job in free and not task.is_suspended_or_held
        )
        for host, tasks in by_host.items()
    }


def reschedule_host_tasks(cell: GridEngineCellAccessSettings, host: str, now_s: float) -> bool:
    """Restart all tasks of a disabled host on other hosts, except tasks that are starting or ending.

    Returns False and changes nothing if a task may not move.
    """
    tasks = query_tasks_on_hosts(cell, [host]).get(host, ())
    free = query_reschedulable_jobs(cell, {task.job for task in tasks}, now_s)
    if any(task.job not in free or task.is_suspended_or_held for task in tasks):
        return False
    for task in tasks:
        if task.state in PUSHED:
            run_client(cell, (f"{cell.binaries}/qmod", "-rj", task.qmod_task_id)).require_success()
    return True


def query_tasks_on_hosts(
    cell: GridEngineCellAccessSettings, hosts: list[str]
) -> Mapping[str, tuple[RunningHostTask, ...]]:
    by_host = dict[str, tuple[RunningHostTask, ...]]()
    for at in range(0, len(hosts), AT_ONCE):
        answer = run_client(cell, host_queue_instances_argv(cell, hosts[at : at + AT_ONCE]))
        by_host |= parse_tasks_on_hosts(answer.require_success().stdout)
    return by_host


def query_reschedulable_jobs(
    cell: GridEngineCellAccessSettings, jobs: Iterable[str], now_s: float
) -> Mapping[str, TaskResourceRequests]:
    """Return the requests of jobs that may be rerun on other hosts; ended jobs are left out."""
    numbers, shapes = sorted(jobs, key=int), dict[str, TaskResourceRequests]()
    for at in range(0, len(numbers), AT_ONCE):
        named = ",".join(numbers[at : at + AT_ONCE])
        argv = (f"{cell.binaries}/qstat", "-xml", "-j", named)
        shapes |= parse_reschedulable_jobs(run_client(cell, argv).require_success().stdout, now_s)
    return shapes
