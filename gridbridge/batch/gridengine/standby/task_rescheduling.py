"""Which tasks on hosts may run elsewhere again, and has them do it (qmod(1), -rj).

Only jobs that asked for it are moved: `-r y`, or a checkpointing environment (qsub(1)); what their
queue would allow is not enough. A parallel job may be on other hosts too, and an interactive one
can't begin anew. A task that is suspended, or held while it runs, stays where it is.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gridbridge.batch.gridengine.client_commands import Argv
from gridbridge.batch.gridengine.parse import TRUE, whole
from gridbridge.batch.gridengine.submit import call
from gridbridge.batch.gridengine.submitted_request import INTERACTIVE
from gridbridge.model.elastic.cell import TaskShape
from gridbridge.model.elastic.cell_configuration import JobAccessIdentity
from gridbridge.model.places import BEST_EFFORT
from gridbridge.model.route import GridEngineCell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lxml.etree import _Element

AT_ONCE = 100  # hosts, or jobs, of one call
CE_VALUE = "CE_stringval"  # of a request, as it was written
RERUNS = "1"  # JB_restart of `-r y`
PUSHED = ("r", "Rr")  # what only runs
STOPPED = frozenset("sSTNPh")  # letters of what is suspended, or held while it runs


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTask:
    """A task on a host."""

    job: str
    task: str  # of an array, else empty
    slots: int
    state: str

    @property
    def is_stopped(self) -> bool:
        """Say whether it would not run elsewhere either before somebody lets it; not if it ends."""
        return "d" not in self.state and not STOPPED.isdisjoint(self.state)

    @property
    def name(self) -> str:
        """It as qmod knows it."""
        return f"{self.job}.{self.task}" if self.task else self.job


def running(cell: GridEngineCell, hosts: Sequence[str]) -> Argv:
    """Show what is on hosts, in the queues whose tasks count and in others."""
    where = ",".join(f"*@{host}" for host in hosts)
    shown = ("-s", "rs", "-F", BEST_EFFORT, "-u", "*", "-xml", "-f")
    return (f"{cell.binaries}/qstat", *shown, "-q", where)


def read_running(data: bytes) -> Mapping[str, tuple[HostTask, ...]]:
    """Read it by host; tasks that make way for others are left out."""
    by_host = defaultdict[str, list[HostTask]](list)
    for queue in whole(data).iterfind("queue_info/Queue-List"):
        values = {resource.get("name"): resource.text for resource in queue.iterfind("resource")}
        host = queue.findtext("name", "").partition("@")[2]
        if values.get(BEST_EFFORT) not in TRUE:
            by_host[host] += [_task(row) for row in queue.iterfind("job_list")]
    return {host: tuple(tasks) for host, tasks in by_host.items()}


def _task(row: "_Element") -> HostTask:
    return HostTask(
        job=row.findtext("JB_job_number", ""),
        task=row.findtext("tasks", ""),
        slots=int(row.findtext("slots") or 0),
        state=row.findtext("state", ""),
    )


def read_movable(data: bytes, now_s: float) -> Mapping[str, TaskShape]:
    """Read from `qstat -xml -j` which jobs may run elsewhere again, now, and what they ask for."""
    return {
        job.findtext("JB_job_number", ""): _shape(job)
        for job in whole(data).iterfind("djob_info/element")
        if _may_move(job, now_s)
    }


def _shape(job: "_Element") -> TaskShape:
    """Read what a job asks for; after a qalter its lists lack their inner tags (request.py)."""
    names, values = (_leafs(job, "JB_hard_resource_list", tag) for tag in ("CE_name", CE_VALUE))
    return TaskShape(
        requests=tuple(zip(names, values, strict=False)),
        queues=_leafs(job, "JB_hard_queue_list", "QR_name"),
        identity=JobAccessIdentity(
            owner=job.findtext("JB_owner", ""),
            group=job.findtext("JB_group", ""),
            project=job.findtext("JB_project", ""),
            checkpoint=job.findtext("JB_checkpoint_name", ""),
        ),
    )


def _leafs(job: "_Element", section: str, tag: str) -> tuple[str, ...]:
    element = job.find(section)
    return () if element is None else tuple(leaf.text or "" for leaf in element.iter(tag))


def _may_move(job: "_Element", now_s: float) -> bool:
    reruns = job.findtext("JB_restart") == RERUNS or bool(job.findtext("JB_checkpoint_name"))
    is_interactive = int(job.findtext("JB_type") or 0) & INTERACTIVE
    is_deferred = int(job.findtext("JB_execution_time") or 0) > now_s
    return reruns and job.find("JB_pe") is None and not is_interactive and not is_deferred


def movable(
    cell: GridEngineCell, hosts: Iterable[str], now_s: float
) -> Mapping[str, tuple[TaskShape, ...]]:
    """Return what each task on hosts asks for that may run elsewhere again."""
    by_host = tasks_on(cell, list(hosts))
    free = movable_jobs(cell, {task.job for tasks in by_host.values() for task in tasks}, now_s)
    return {
        host: tuple(
            replace(free[task.job], slots=task.slots)
            for task in tasks
            if task.job in free and not task.is_stopped
        )
        for host, tasks in by_host.items()
    }


def put_elsewhere(cell: GridEngineCell, host: str, now_s: float) -> bool:
    """Have the tasks of a closed host run elsewhere; False, and nothing done, if one may not.

    A task that is just starting or ending is left for the next look.
    """
    tasks = tasks_on(cell, [host]).get(host, ())
    free = movable_jobs(cell, {task.job for task in tasks}, now_s)
    if any(task.job not in free or task.is_stopped for task in tasks):
        return False
    for task in tasks:
        if task.state in PUSHED:
            call(cell, (f"{cell.binaries}/qmod", "-rj", task.name)).checked()
    return True


def tasks_on(cell: GridEngineCell, hosts: Sequence[str]) -> Mapping[str, tuple[HostTask, ...]]:
    """Return the tasks that are on hosts now."""
    by_host = dict[str, tuple[HostTask, ...]]()
    for at in range(0, len(hosts), AT_ONCE):
        answer = call(cell, running(cell, hosts[at : at + AT_ONCE]))
        by_host |= read_running(answer.checked().stdout)
    return by_host


def movable_jobs(
    cell: GridEngineCell, jobs: Iterable[str], now_s: float
) -> Mapping[str, TaskShape]:
    """Return which jobs may run elsewhere again; one that has ended meanwhile is none."""
    numbers, shapes = sorted(jobs, key=int), dict[str, TaskShape]()
    for at in range(0, len(numbers), AT_ONCE):
        named = ",".join(numbers[at : at + AT_ONCE])
        argv = (f"{cell.binaries}/qstat", "-xml", "-j", named)
        shapes |= read_movable(call(cell, argv).checked().stdout, now_s)
    return shapes
