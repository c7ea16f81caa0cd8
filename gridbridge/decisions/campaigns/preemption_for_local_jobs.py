"""Choose the best-effort tasks to preempt, so that a waiting job of the local cluster can start.

Grid Engine itself preempts only when a job starts (queue_conf(5), subordinate_list). A job that waits for a consumable
does not start, so Grid Engine never frees the consumable.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter

from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    ArrayJobsById,
    ArrayTaskDeletion,
    CellRequestsAndResources,
    FreeQueueInstanceResources,
    LocalRequestBlockedByCampaigns,
    LocalRequestId,
    NikitaDeletionReason,
    PreemptibleTask,
    PreemptionHistory,
    RunningJobWithResources,
    TasksPreemptedForRequest,
    WaitingLocalRequest,
)
from gridbridge.model.published_status_and_reports import number_with_noun

MAX_REQUESTS = 3  # largest number of blocked requests of a cluster that nikita considers in a cycle
PREEMPTION_GRACE_S = 300.0  # the time in which preempted tasks end and the scheduler starts the request


def requests_with_recent_preemption(tried: PreemptionHistory, now: datetime) -> frozenset[LocalRequestId]:
    """Return local requests still in the pause after a preemption; each preemption doubles the pause."""
    return frozenset(
        request
        for request, ended_at in tried.items()
        if (now - ended_at[-1]).total_seconds() < PREEMPTION_GRACE_S * 2 ** (len(ended_at) - 1)
    )


def find_blocked_local_requests(
    cluster: str,
    cell: CellRequestsAndResources,
    campaign_jobs: ArrayJobsById,
    recent: Set[LocalRequestId] = frozenset(),
) -> tuple[LocalRequestBlockedByCampaigns, ...]:
    """Return the first local requests that a preemption would start, except the requests in `recent`."""
    tasks = tuple(_list_preemptible_tasks(cell, campaign_jobs))
    strangers = [holder for holder in cell.holders if not _is_preemptible_campaign_job(holder, campaign_jobs)]
    shut = {holder.host for holder in strangers if holder.alone}
    hosts = tuple(host for host in cell.places if host.host_name not in shut)
    others = frozenset(holder.host for holder in strangers)
    candidates = (
        LocalRequestBlockedByCampaigns(
            cluster=cluster,
            asked=shortage,
            places=hosts,
            free=cell.free,
            tasks=tuple(_tasks_with_requested_resources(tasks, shortage)),
            others=others,
        )
        for shortage in cell.asked
        if shortage.job not in campaign_jobs and (cluster, shortage.job, shortage.task) not in recent
    )
    return tuple(islice((request for request in candidates if choose_preemption_victims(request)), MAX_REQUESTS))


def _tasks_with_requested_resources(
    tasks: Iterable[PreemptibleTask], shortage: WaitingLocalRequest
) -> Iterator[PreemptibleTask]:
    names = shortage.amounts.keys() | shortage.defaults.keys()
    for task in tasks:
        if shortage.alone or task.alone or not names.isdisjoint(task.amounts):
            held = {name: n for name, n in task.amounts.items() if name in names}
            yield replace(task, amounts=held)


def _is_preemptible_campaign_job(holder: RunningJobWithResources, campaign_jobs: ArrayJobsById) -> bool:
    return holder.makes_way and holder.since is not None and holder.job in campaign_jobs


def _list_preemptible_tasks(cell: CellRequestsAndResources, campaign_jobs: ArrayJobsById) -> Iterator[PreemptibleTask]:
    for holder in cell.holders:
        if holder.since and _is_preemptible_campaign_job(holder, campaign_jobs):
            array = campaign_jobs[holder.job]
            yield PreemptibleTask(
                campaign=array.campaign,
                array=array.array,
                place=holder.task,
                host=holder.host,
                since=holder.since,
                amounts=holder.amounts,
                alone=holder.alone,
                is_ending=holder.is_deleting or array.is_ending or holder.task in array.ending,
            )


def plan_preemptions(requests: Iterable[LocalRequestBlockedByCampaigns]) -> tuple[TasksPreemptedForRequest, ...]:
    """Return at most one preemption per cluster, for the first local request that preemption starts."""
    by_cluster: dict[str, TasksPreemptedForRequest] = {}
    for request in requests:
        if request.cluster not in by_cluster and (choice := choose_preemption_victims(request)):
            host, tasks = choice
            by_cluster[request.cluster] = TasksPreemptedForRequest(
                cluster=request.cluster,
                job=request.asked.job,
                task=request.asked.task,
                host=host.host_name,
                lacked=list_lacking_resources(request, host),
                tasks=tasks,
            )
    return tuple(by_cluster.values())


def describe_preemption(way: TasksPreemptedForRequest) -> str:
    campaigns = ", ".join(map(str, sorted({task.campaign for task in way.tasks})))
    of = f"{number_with_noun(len(way.tasks), 'task')} of campaign {campaigns} at {way.cluster}"
    job = f"{way.job}.{way.task}" if way.task else way.job
    return f"ended for job {job}, which lacked {', '.join(way.lacked)}: {of}"


def is_preemption_of_request(shortage: WaitingLocalRequest, way: TasksPreemptedForRequest) -> bool:
    return (shortage.job, shortage.task) == (way.job, way.task)


def recompute_preemption(
    way: TasksPreemptedForRequest, cell: CellRequestsAndResources, campaign_jobs: ArrayJobsById
) -> TasksPreemptedForRequest | None:
    """Compute a preemption again; None if it would now preempt no task, or a task that was not chosen before."""
    shortages = tuple(shortage for shortage in cell.asked if is_preemption_of_request(shortage, way))
    hosts = tuple(host for host in cell.places if host.host_name == way.host)
    now = plan_preemptions(
        find_blocked_local_requests(way.cluster, replace(cell, asked=shortages, places=hosts), campaign_jobs)
    )
    keys = {_key_of_preemptible_task(task) for task in way.tasks}
    return next((current for current in now if keys.issuperset(map(_key_of_preemptible_task, current.tasks))), None)


def _key_of_preemptible_task(task: PreemptibleTask) -> tuple[int, int, int]:
    return task.campaign, task.array, task.place


def preemption_deletions_by_array(way: TasksPreemptedForRequest) -> tuple[ArrayTaskDeletion, ...]:
    return tuple(
        ArrayTaskDeletion(
            campaign=campaign,
            array=array,
            cluster=way.cluster,
            wiped_for=NikitaDeletionReason.MADE_WAY,
            places=tuple(range(index, index + 1) for _, _, index in victims),
        )
        for (campaign, array), victims in groupby(
            sorted(map(_key_of_preemptible_task, way.tasks)), key=itemgetter(0, 1)
        )
    )


AMOUNT_TOLERANCE = 1 - 1e-6  # this share of an amount is enough, because clusters print only three decimals

ResourceAmounts = dict[str, float]  # {resource: missing amount}; negative: more than enough is free
VictimChoice = tuple[FreeQueueInstanceResources, tuple[PreemptibleTask, ...]]


def choose_preemption_victims(request: LocalRequestBlockedByCampaigns) -> VictimChoice | None:
    """Choose the queue instance with fewest preemptions, and its victims; None if no preemption is needed or helps."""
    tasks, choices = _PreemptibleTasksByHost(request), list[VictimChoice]()
    for host in request.places:
        missing, barring = (
            _missing_resource_amounts(request, host, tasks),
            _tasks_to_clear_from_host(request, host, tasks),
        )
        if missing is None or barring is None:
            continue
        if not missing and not barring:
            return None
        if enough := _choose_tasks_to_preempt(missing, barring, host, tasks):
            choices.append((host, enough))
    return min(choices, key=_cost_of_preemption_choice, default=None)


def list_lacking_resources(
    request: LocalRequestBlockedByCampaigns, host: FreeQueueInstanceResources
) -> tuple[str, ...]:
    missing = _missing_resource_amounts(request, host, _PreemptibleTasksByHost(request)) or {}
    return tuple(sorted({*missing, *request.asked.alone}))


class _PreemptibleTasksByHost:
    def __init__(self, request: LocalRequestBlockedByCampaigns) -> None:
        in_order = sorted(request.tasks, key=_newest_task_first_key)
        self.every = [task for task in in_order if not task.is_ending]
        self.ending = [task for task in in_order if task.is_ending]
        self.on = defaultdict[str, list[PreemptibleTask]](list)
        for task in self.every:
            self.on[task.host].append(task)


def _newest_task_first_key(task: PreemptibleTask) -> tuple[float, int, int, int]:
    return -task.since.timestamp(), -task.campaign, -task.array, -task.place


def _cost_of_preemption_choice(choice: VictimChoice) -> tuple[int, list[float], str]:
    host, tasks = choice
    return len(tasks), sorted(-task.since.timestamp() for task in tasks), host.name


def _missing_resource_amounts(
    request: LocalRequestBlockedByCampaigns, host: FreeQueueInstanceResources, tasks: _PreemptibleTasksByHost
) -> ResourceAmounts | None:
    """Return what a host lacks for a request after the running deletions; None if it can never run the request."""
    free = {**request.free, **host.free}
    demanded = {name: n for name, n in request.asked.defaults.items() if name in free}
    demanded |= {name: n for name, n in request.asked.amounts.items() if n > host.own.get(name, 0)}
    if request.asked.slots > host.slots or not demanded.keys() <= free.keys():
        return None
    for task in tasks.ending:
        for name, amount in _resources_freed_by_task(task, host, free).items():
            free[name] += amount
    return {name: n for name, amount in demanded.items() if (n := amount * AMOUNT_TOLERANCE - free[name]) > 0}


def _tasks_to_clear_from_host(
    request: LocalRequestBlockedByCampaigns, host: FreeQueueInstanceResources, tasks: _PreemptibleTasksByHost
) -> list[PreemptibleTask] | None:
    """Return the tasks that must end because of exclusive use of the host; None if their end would not suffice."""
    on_host, alone = tasks.on[host.host_name], request.asked.alone
    if not alone:
        return [task for task in on_host if task.alone]
    return on_host if alone <= host.alone and host.host_name not in request.others else None


def _resources_freed_by_task(
    task: PreemptibleTask, host: FreeQueueInstanceResources, names: Iterable[str]
) -> ResourceAmounts:
    given = names if task.host == host.host_name else (name for name in names if name not in host.free)
    return {name: task.amounts[name] for name in given if task.amounts.get(name, 0) > 0}


def _choose_tasks_to_preempt(
    missing: Mapping[str, float],
    barring: list[PreemptibleTask],
    host: FreeQueueInstanceResources,
    tasks: _PreemptibleTasksByHost,
) -> tuple[PreemptibleTask, ...]:
    lacking, needed = dict(missing), list[PreemptibleTask]()
    for task in barring:
        _subtract_resources_freed_by_task(task, host, lacking)
    is_everywhere = not missing.keys() <= host.free.keys()
    candidates = tasks.every if is_everywhere else tasks.on[host.host_name]
    for task in (task for task in candidates if task.host != host.host_name or task not in barring):
        if not _is_any_resource_missing(lacking):
            break
        if any(lacking[name] > 0 for name in _resources_freed_by_task(task, host, lacking)):
            _subtract_resources_freed_by_task(task, host, lacking)
            needed.append(task)
    if _is_any_resource_missing(lacking):
        return ()
    return tuple(sorted((*barring, *_drop_needless_preemptions(needed, host, lacking)), key=_newest_task_first_key))


def _is_any_resource_missing(lacking: ResourceAmounts) -> bool:
    return any(n > 0 for n in lacking.values())


def _subtract_resources_freed_by_task(
    task: PreemptibleTask, host: FreeQueueInstanceResources, lacking: ResourceAmounts
) -> None:
    for name, amount in _resources_freed_by_task(task, host, lacking).items():
        lacking[name] -= amount


def _drop_needless_preemptions(
    tasks: list[PreemptibleTask], host: FreeQueueInstanceResources, lacking: ResourceAmounts
) -> list[PreemptibleTask]:
    needed = list[PreemptibleTask]()
    for task in reversed(tasks):
        gives = _resources_freed_by_task(task, host, lacking)
        if all(lacking[name] + amount <= 0 for name, amount in gives.items()):
            for name, amount in gives.items():
                lacking[name] += amount
        else:
            needed.append(task)
    return needed
