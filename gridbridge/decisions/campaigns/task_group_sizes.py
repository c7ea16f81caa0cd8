"""Decide how many short tasks one job runs, one after another (CiGri v3: temporal grouping)."""

from collections import Counter
from collections.abc import Mapping

from gridbridge.decisions.campaigns.file_server_task_limits import count_succeeded_tasks
from gridbridge.model.campaigns.campaign import ALONE, Campaign, CampaignCluster, TaskGroupSize
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation
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
    is_possible = campaign.jdl.type is CampaignType.DEFAULT and not campaign.jdl.checkpoint_files
    if not is_possible:
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


def task_group_sizes(
    situation: CampaignCycleSituation, jobs: Mapping[CampaignCluster, int], unsent: Mapping[int, int]
) -> dict[CampaignCluster, TaskGroupSize]:
    """Return how many tasks a job runs, by campaign and cluster, where jobs of this cycle may run several tasks.

    `jobs` has the numbers of jobs, `unsent` the campaigns' tasks beyond a task for each job. A campaign's tasks are
    spread over all its jobs: larger groups would leave slots without a task. The tasks of `first_tasks` and tasks whose
    input files are carried are not grouped.
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
        size = largest_task_group(campaign, campaign.jdl.clusters[cluster], mean_s, situation.group_below_s)
        tasks = min(size.tasks, 1 + unsent.get(number, 0) // total[number])
        if tasks > 1:
            sizes[number, cluster] = TaskGroupSize(tasks=tasks, begin_s=size.begin_s)
    return sizes
