"""Decide how many short tasks one job runs, one after another (CiGri v3: temporal grouping).

With [runner] pull, running jobs get further tasks, as many as they run in the next cycles.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Mapping
from dataclasses import replace
from math import ceil

from gridbridge.decisions.campaigns.file_server_task_limits import count_succeeded_tasks
from gridbridge.model.campaigns.campaign import ALONE, Campaign, CampaignCluster, CampaignState, TaskGroupSize
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation
from gridbridge.model.campaigns.grouped_tasks import MOST_TASKS_OF_JOB, PullingJob, TasksForRunningJob
from gridbridge.model.campaigns.jdl import CampaignType, JdlSettingsAtCluster

REQUESTED_JOB_S = 900.0  # in CiGri, the tasks of a group take 900 s together
JOB_PER_SHORT_TASK = 10  # without a key in the JDL, a job of several tasks lasts this many times `group_below_s`
UNMEASURED_TASKS = 50  # number of tasks in a job before the first task has ended, as in CiGri
MOST_TASKS = 1000  # largest number of tasks in a job
PART_OF_WALLTIME = 4  # tasks begin in this part of the walltime, so that each task may use most of it
LEAST_MEAN_S = 0.1  # smallest mean run time, because run times are whole seconds
NEVER_S = 1e9  # mean run time that stands for a cluster where no task has succeeded


def largest_task_group(
    campaign: Campaign, request: JdlSettingsAtCluster, mean_s: float | None, group_below_s: float
) -> TaskGroupSize:
    """Return how many tasks of this mean run time a job may run; `mean_s` is None before the first success.

    Tasks that the JDL wants side by side share the job's time, so that their mean is that of their turns. Test
    campaigns, and tasks with checkpoints, are not grouped. A task that shares a job gets no speculative attempt. So
    tasks that may get speculative attempts are grouped only if the JDL wants this.
    """
    is_wanted, measured_s, lanes = (
        request.temporal_grouping,
        NEVER_S if mean_s is None else mean_s,
        request.side_by_side,
    )
    if not _may_tasks_share_job(campaign):
        return ALONE
    is_short = measured_s < group_below_s and not campaign.jdl.allows_speculative_attempts
    if is_wanted is False or not (is_wanted or is_short):
        return TaskGroupSize(tasks=lanes, begin_s=request.walltime_s // PART_OF_WALLTIME) if lanes > 1 else ALONE
    job_s = REQUESTED_JOB_S if is_wanted else JOB_PER_SHORT_TASK * group_below_s
    begin_s = min(job_s, request.walltime_s / PART_OF_WALLTIME)
    tasks = min(MOST_TASKS, int(begin_s / max(measured_s, LEAST_MEAN_S)) + 1)
    tasks = UNMEASURED_TASKS if measured_s >= NEVER_S else tasks
    tasks = max(tasks, lanes)
    return TaskGroupSize(tasks=tasks, begin_s=int(begin_s)) if tasks > 1 else ALONE


def count_tasks_side_by_side(campaign: Campaign, cluster: str) -> int:
    """Return how many tasks fill a job of a campaign; 1 if the campaign's next jobs run a single task."""
    jdl = campaign.jdl
    are_single = not _may_tasks_share_job(campaign) or jdl.inputs or campaign.succeeded < jdl.first_tasks
    return 1 if are_single else jdl.clusters[cluster].side_by_side


def _may_tasks_share_job(campaign: Campaign) -> bool:
    return campaign.jdl.type is CampaignType.DEFAULT and not campaign.jdl.checkpoint_files


def task_group_sizes(
    situation: CampaignCycleSituation, jobs: Mapping[CampaignCluster, int], unsent: Mapping[int, int]
) -> dict[CampaignCluster, TaskGroupSize]:
    """Return how many tasks a job runs, by campaign and cluster, where jobs of this cycle may run several tasks.

    `jobs` has the numbers of jobs, `unsent` the campaigns' tasks beyond a task for each job. A campaign's tasks are
    spread over all its jobs: larger groups would leave slots without a task, but smaller groups than the tasks side by
    side would leave slots of a job unused. The tasks of `first_tasks` and tasks whose input files are carried are not
    grouped.
    """
    total = Counter[int]()
    for (number, _), count in jobs.items():
        total[number] += count
    campaigns = {campaign.number: campaign for campaign in situation.campaigns}
    succeeded = count_succeeded_tasks(situation)
    carrying = {(cost.campaign, cost.cluster) for cost in situation.carry_costs}
    sizes = {}
    for number, cluster in (pair for pair, count in jobs.items() if count and pair not in carrying):
        campaign, mean_s = campaigns[number], situation.sharing.mean_s.get(number, {}).get(cluster)
        if succeeded[number] < campaign.jdl.first_tasks:
            continue
        request = campaign.jdl.clusters[cluster]
        size = largest_task_group(campaign, request, mean_s, situation.group_below_s)
        size = _with_further_tasks(
            size, request.walltime_s, situation, is_measured=mean_s is not None and mean_s < NEVER_S
        )
        more = unsent.get(number, 0)
        filled = min(count_tasks_side_by_side(campaign, cluster), 1 - -more // total[number])
        tasks = max(filled, min(size.tasks, 1 + more // total[number]))
        if tasks > 1:
            sizes[number, cluster] = replace(size, tasks=tasks)
    return sizes


def _with_further_tasks(
    group: TaskGroupSize, walltime_s: int, situation: CampaignCycleSituation, *, is_measured: bool
) -> TaskGroupSize:
    """Let a job get further tasks until a quarter of its walltime is left; at first it has tasks for a few cycles."""
    if group == ALONE or not situation.pull_wait_s or group.begin_s <= 0:
        return group
    first_s = min(group.begin_s, situation.pull_ahead_s) if is_measured else group.begin_s
    return TaskGroupSize(
        tasks=max(2, ceil(group.tasks * first_s / group.begin_s)),
        begin_s=walltime_s - walltime_s // PART_OF_WALLTIME,
        wait_s=situation.pull_wait_s,
    )


def tasks_for_running_jobs(
    situation: CampaignCycleSituation, sent: Mapping[int, int], closed: Container[CampaignCluster] = ()
) -> tuple[TasksForRunningJob, ...]:
    """Return the further tasks of running jobs; `sent` has the number of tasks that this cycle sends, by campaign.

    A job with tasks for less than half of `pull_ahead_s`, at its own rate, gets tasks for `pull_ahead_s`, but none
    that would not begin in time. A job of which most tasks fail gets none, because its host may be at fault. The jobs
    of a campaign share its last tasks evenly.
    """
    jobs = defaultdict[int, list[PullingJob]](list)
    for job in situation.pulling:
        jobs[job.campaign].append(job)
    added = list[TasksForRunningJob]()
    for campaign in situation.campaigns:
        number, avoiding = campaign.number, situation.kept_off.get(campaign.number, ())
        unsent = situation.waiting.get(number, 0) - sum(kind.tasks for kind in avoiding) - sent.get(number, 0)
        able = [
            job
            for job in jobs[number]
            if campaign.state is CampaignState.IN_TREATMENT
            and job.cluster in campaign.jdl.clusters
            and (number, job.cluster) not in closed
            and job.cluster in situation.room
            and not situation.room[job.cluster].is_closed
        ]
        for at, job in enumerate(able):
            tasks = min(_tasks_that_job_needs(job, situation.pull_ahead_s), -(-unsent // (len(able) - at)))
            if tasks > 0:
                unsent -= tasks
                added.append(
                    TasksForRunningJob(
                        campaign=number, cluster=job.cluster, array=job.array, index=job.index, tasks=tasks
                    )
                )
    return tuple(added)


def _tasks_that_job_needs(job: PullingJob, ahead_s: float) -> int:
    if not job.ended or not job.last_end_s or 2 * job.failed > job.ended:
        return 0
    per_s = job.ended / job.last_end_s
    left = max(0.0, job.tasks - job.begun - per_s * job.age_s)
    if job.age_s - (job.tasks - job.begun) / per_s > job.wait_s / 2:
        return 0  # the job may end before it gets the tasks
    until_s = min(ahead_s, job.begin_s - job.last_end_s - job.age_s)
    is_low = left < per_s * ahead_s / 2
    return min(ceil(per_s * until_s - left), MOST_TASKS_OF_JOB - job.tasks) if is_low else 0
