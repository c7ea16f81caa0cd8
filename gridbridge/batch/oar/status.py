"""Queries an OAR server's snapshot, job ends, resource names and set-up for the services."""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from gridbridge.batch.oar import oar_command_line_builders
from gridbridge.batch.oar.oar_command_line_builders import HERE
from gridbridge.batch.oar.oar_output_parser import ACTIVE, DELETED, OarJob, OarResource, oar_property_names
from gridbridge.batch.oar.oar_programs import oar_frontend
from gridbridge.batch.qstat_state_letters import render_queue_state_letters
from gridbridge.errors import GridbridgeError, SshAccessRejected
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.job_and_queue_states import JobStateFact, QueueInstanceState, QueueStartBlocker
from gridbridge.model.jobs_and_accounting import (
    ArrayEndQuery,
    ClusterArrayLimits,
    JobAccountAndErrors,
    JobEnd,
    JobKillReason,
)
from gridbridge.model.names_offered_by_cluster import ANY, NamesOfferedByCluster
from gridbridge.model.site.setup_findings_and_edits import CellQconfSettings
from gridbridge.model.site.site_check_facts import ClusterFacts
from gridbridge.model.transfer_name import PREFIX, job_ids_in_pushed_report
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell import ssh

_LOG = logging.getLogger(__name__)
QUEUE = "oar"  # name that stands for all queues of OAR
OURS = f"{PREFIX}."
UNABLE = 200  # exit status of a job's wrapper that can't start the user's script
SIGKILL = 9
NOT_STARTABLE = ("WORKING_DIRECTORY", "OUTPUT_FILES", "USER_SHELL")
KILLS = ("WALLTIME", DELETED)  # events of killed jobs, most specific first
PREEMPTED = "BESTEFFORT_KILL"
UNSEEN = ("EXTERMINATE_JOB", PREEMPTED, "RESUBMIT_JOB_AUTOMATICALLY")
KILLED_FOR = {PREEMPTED: JobKillReason.PLACE, "WALLTIME": JobKillReason.WALLTIME, DELETED: JobKillReason.DELETION}
NOT_TOLD = (None, None)
DELETED_BEFORE = JobEnd(killed_for=JobKillReason.DELETION, is_unstarted=True, reason=DELETED)
SIGNAL_BITS = 0x7F  # bits of the signal in a wait status (wait(2))


def query_cluster_snapshot(
    server: OarServerAccessSettings,
    cluster: str,
    job_ids: Collection[int],
    transfer_queues: Container[str] = (),
    uncounted: Collection[int] = (),
) -> tuple[ClusterSnapshot, float]:
    """Return a snapshot with the jobs in `job_ids`, and the query's duration in seconds.

    The snapshot also has jobs with a transfer's name that were never released. At most MOST_LINES waiting jobs are
    counted.
    """
    taken_at, began = datetime.now(UTC), time.monotonic()
    status = oar_frontend(server).query_status(job_ids, uncounted)
    took_s, jobs = time.monotonic() - began, status.jobs
    queues = _queue_instances_of_nodes(status.resources, status.yielding, taken_at.timestamp())
    is_shut = QUEUE in transfer_queues
    named = {job.id for job in jobs if job.name.startswith(OURS)}
    copies = [job for job in jobs if job.copy_of and job.id in named]
    new = {job.id for job in jobs if job.is_held_since_submission and not job.copy_of and job.id in named}
    ours = [job for job in jobs if int(job.id) in job_ids or job.id in new]
    rows = {int(job.id): (_job_list_row_of_oar_job(job),) for job in ours} | _array_rows_by_id(jobs, job_ids)
    snapshot = ClusterSnapshot(
        cluster=cluster,
        taken_at=taken_at,
        queues=queues,
        jobs=rows,
        copies=tuple(map(_job_list_row_of_oar_job, copies)),
        pending=status.pending,
        free_slots=0 if is_shut else sum(queue.slots_free_for_ordinary_jobs for queue in queues),
        besteffort_slots=sum(queue.free_slots for queue in queues),
    )
    return snapshot, took_s


HAS_OPERATORS = False
HAS_ENVIRONMENTS = False


def query_cluster_facts(server: OarServerAccessSettings, now: float) -> ClusterFacts:
    """Return an OAR server's version, clock offset and slots, or why the server does not answer."""
    frontend = oar_frontend(server)
    try:
        return ClusterFacts(
            version=frontend.query_version(),
            ahead_s=frontend.query_clock_s() - now,
            slots=count_batch_slots(server),
            master=frontend.host,
        )
    except GridbridgeError as error:
        return ClusterFacts(trouble=str(error), is_shut=isinstance(error, SshAccessRejected))


def require_root_login(server: OarServerAccessSettings) -> None:
    """Raise GridbridgeError unless OAR's REST interface admits the access's login as the access's account."""
    from gridbridge.batch.oar.oar_rest_frontend import OarRestFrontend  # programs of a cluster by ssh need no HTTP

    OarRestFrontend(server).require_account()


def read_remote_setup(server: OarServerAccessSettings, _of_host: str, home: CellQconfSettings) -> CellQconfSettings:
    """Return an OAR server's set-up, in which jobs of all parallel environments get the slots of one node."""
    frontend = oar_frontend(server)
    frontend.query_version()
    return CellQconfSettings.settings_with_only_master(frontend.host, home.environments)


def count_batch_slots(server: OarServerAccessSettings) -> int:
    """Return the number of slots of all nodes, without a query about jobs."""
    resources = oar_frontend(server).list_resources()
    return sum(queue.slots_total for queue in _queue_instances_of_nodes(resources, (), time.time()))


def query_job_end(server: OarServerAccessSettings, job_id: int, account: str) -> JobEnd | None:
    """Return how the job with this id and account string ended; None if unknown or deleted before start."""
    jobs, used = oar_frontend(server).show_job_and_usage(str(job_id))
    if not jobs or not jobs[0].has_ended or jobs[0].account != account:
        return None
    return _job_end_with_usage(jobs[0], used.get(jobs[0].owner, NOT_TOLD))


def query_array_ends(
    server: OarServerAccessSettings, arrays: Sequence[ArrayEndQuery]
) -> dict[str, dict[int, JobEnd | None]]:
    """Return how array tasks ended: {account string of the array: {task index: end}}."""
    frontend = oar_frontend(server)
    portions = _portions_of_array_tasks(arrays, frontend.MOST_ENDS)
    conditions = map(oar_command_line_builders.ended_array_tasks_condition, portions)
    jobs = [job for condition in conditions for job in frontend.find_jobs(condition)]
    return {
        array.account: {
            job.place: _job_end_with_usage(job) or DELETED_BEFORE
            for job in jobs
            if (int(job.array), job.account) == (array.job_id, array.account) and job.has_ended
        }
        for array in arrays
    }


def _portions_of_array_tasks(arrays: Iterable[ArrayEndQuery], most: int) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
    pairs = [(array.job_id, index) for array in arrays for index in array.places]
    for begin in range(0, len(pairs), most):
        by_array = groupby(pairs[begin : begin + most], key=itemgetter(0))
        yield [(array, tuple(index for _, index in group)) for array, group in by_array]


def query_begun_indices(server: OarServerAccessSettings, arrays: Mapping[int, str]) -> dict[int, frozenset[int]]:
    """Return the indices of each array's waiting and running tasks; ended arrays are left out."""
    living: dict[int, list[int]] = {}
    for job in oar_frontend(server).find_live_tasks([*map(str, arrays)]):
        if arrays.get(int(job.array)) == job.account and not job.has_ended:
            living.setdefault(int(job.array), []).append(job.place)
    return {array: frozenset(indices) for array, indices in living.items()}


def query_array_limits(_: OarServerAccessSettings) -> ClusterArrayLimits:
    """Return no limits: OAR does not limit arrays."""
    return ClusterArrayLimits()


def query_job_details(server: OarServerAccessSettings, job_id: int) -> tuple[JobAccountAndErrors, ...]:
    """Return the account string and message of a waiting or running job; empty for any other job."""
    jobs = oar_frontend(server).show_job(str(job_id))
    return tuple(
        JobAccountAndErrors(
            job_id=int(job.id),
            name=job.name,
            owner=job.owner,
            account=job.account,
            messages=(job.message,) if job.message else (),
        )
        for job in jobs
        if not job.has_ended
    )


def _array_rows_by_id(jobs: list[OarJob], job_ids: Container[int]) -> dict[int, tuple[ClusterJobListRow, ...]]:
    rows = defaultdict[int, list[ClusterJobListRow]](list)
    for job in jobs:
        if (array := int(job.array)) in job_ids and job.is_array_task:
            span = range(job.place, job.place + 1)
            rows[array].append(replace(_job_list_row_of_oar_job(job), job_id=array, tasks=(span,)))
    return {array: tuple(statuses) for array, statuses in rows.items()}


def _queue_instances_of_nodes(
    resources: list[OarResource], yielding: Container[str], now: float
) -> tuple[QueueInstanceStatus, ...]:
    """Return one queue instance for each node, with a slot for each resource.

    Standby nodes are free, because OAR wakes them. If a node has a living resource, its dead resources don't count.
    `yielding` has the ids of running best-effort jobs.
    """
    all_slots = [slot for slot in resources if slot.is_slot]
    silent = {slot.host for slot in all_slots} - {slot.host for slot in all_slots if slot.can_run_jobs(now)}
    slots = [slot for slot in all_slots if slot.host in silent or slot.can_run_jobs(now)]
    used = {slot.id for slot in slots if slot.jobs}
    occupied = {slot.id for slot in slots if any(job not in yielding for job in slot.jobs)}
    total = Counter(slot.host for slot in slots)
    busy = Counter(slot.host for slot in slots if slot.id in used)
    freed = Counter(slot.host for slot in slots if slot.id in used - occupied)
    drained = {slot.host for slot in slots if slot.is_drained}
    blockers = {QueueStartBlocker.UNREACHABLE: silent, QueueStartBlocker.DISABLED: drained}
    facts = {host: [fact for fact, hosts in blockers.items() if host in hosts] for host in total}
    return tuple(
        QueueInstanceStatus(
            name=f"{QUEUE}@{host}",
            slots_used=busy[host],
            slots_reserved=0,
            slots_total=total[host],
            slots_yielding=freed[host],
            state=QueueInstanceState(facts[host], render_queue_state_letters(facts[host])),
        )
        for host in sorted(total)
    )


def _job_list_row_of_oar_job(job: OarJob) -> ClusterJobListRow:
    state = job.job_state
    if JobStateFact.UNKNOWN in state.facts:
        _warn_of_unknown_job_state(job.state)
    is_active = job.state in ACTIVE
    return ClusterJobListRow(
        job_id=int(job.id),
        name=job.name,
        owner=job.owner,
        state=state,
        queue=f"{QUEUE}@{job.hosts[0]}" if is_active and job.hosts else "",
        since=datetime.fromtimestamp(job.started_at or job.submitted_at, UTC),
        slots=len(job.resources) or 1,
    )


@lru_cache(maxsize=256)
def _warn_of_unknown_job_state(state: str) -> None:
    _LOG.warning("event=unknown_job_state state=%r", state)


def _job_end_with_usage(job: OarJob, used: tuple[float | None, float | None] = NOT_TOLD) -> JobEnd | None:
    """Return a job's end with wallclock and CPU times; keeper.pl measured the CPU times."""
    end = _job_end_without_usage(job)
    if end is None:
        return None
    is_timed = 0 < job.started_at <= job.stopped_at
    wall_s = float(job.stopped_at - job.started_at) if is_timed else None
    return replace(end, wallclock_s=wall_s, user_s=used[0], system_s=used[1])


def _job_end_without_usage(job: OarJob) -> JobEnd | None:
    """Return how a job ended according to OAR's recorded wait status or, without one, the job's events."""
    host = next(iter(job.hosts), "")
    number = (job.exit_code or 0) & SIGNAL_BITS
    # a job that exited by itself at the moment of the preemption was not preempted
    if job.exit_code is not None and not (number and PREEMPTED in job.event_types):
        status = None if number else job.exit_code >> 8
        return JobEnd(
            exit_status=status,
            signal=number or None,
            killed_for=_kill_reason(job) if number else JobKillReason.UNKNOWN,
            reason=(_kill_event_text(job) or f"signal {number}") if number else "",
            host=host,
        )
    if reason := job.first_event_text(*NOT_STARTABLE):
        return JobEnd(exit_status=UNABLE, reason=reason, host=host)
    if reason := job.first_event_text(*UNSEEN):
        is_preempted = PREEMPTED in job.event_types
        return JobEnd(is_preempted=is_preempted, is_unstarted=not job.started_at, reason=reason, host=host)
    if not job.started_at and job.is_deleted:
        return None
    if reason := _kill_event_text(job):
        return JobEnd(signal=SIGKILL, killed_for=_kill_reason(job), reason=reason, host=host)
    reason = ": ".join(job.events[-1]) if job.events else job.state
    return JobEnd(is_unstarted=not job.started_at, reason=reason, host=host)


def _kill_reason(job: OarJob) -> JobKillReason:
    """Return why OAR killed a job; preemption and walltime come before users' deletions."""
    causes = (why for kind, why in KILLED_FOR.items() if kind in job.event_types)
    return next(causes, JobKillReason.UNKNOWN)


def _kill_event_text(job: OarJob) -> str:
    return next(filter(None, map(job.first_event_text, KILLS)), "")


def query_requestable_names(server: OarServerAccessSettings) -> NamesOfferedByCluster:
    """Return an OAR server's property names, and the nodes that run jobs or can be woken.

    Suspected nodes are included, because OAR accepts requests for them and most return soon.
    """
    resources, now = oar_frontend(server).list_resources(), time.time()
    slots = [resource for resource in resources if resource.is_slot and not resource.is_drained]
    everything = frozenset({ANY})
    return NamesOfferedByCluster(
        resource=oar_property_names(resources) | {oar_command_line_builders.WALLTIME, oar_command_line_builders.NODES},
        pe=everything,
        project=everything,
        queue=everything,
        rule=everything,
        node=frozenset(resource.host for resource in slots if resource.can_run_jobs(now) or resource.is_suspected),
    )


LISTENER = f"{HERE}/listen.pl"
COMMAND = "exec /usr/bin/env LC_ALL=C PATH=/usr/bin:/bin /usr/bin/perl - {}"  # sh and csh can run this


def listen_for_job_ends(server: OarServerAccessSettings) -> Iterator[list[int]]:
    """Yield the ids of jobs that report their end; yield an empty list about once a second.

    An id is only a hint: any frontend user may write to the FIFO. Raises CommandFailed if the connection ends.
    """
    if server.login is None:
        raise GridbridgeError("job ends can be pushed only over ssh")
    with open(LISTENER, "rb") as text:
        for chunk in ssh.stream_output_over_ssh(server.login, COMMAND.format(server.ends), text.read()):
            yield job_ids_in_pushed_report(chunk)
