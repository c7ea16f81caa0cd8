"""Cost of the decisions of one cycle: 200 campaigns, 50 clusters, 1,000,000 tasks left.

Nothing is asked and nothing is done: it is what the rules take, as CPU of one process. In this
cycle tasks have ended, events are open, and users share the slots. The baseline is the same with a
tenth of the tasks.

The same with input files, 100,000 that tasks share in turn: each cluster is another number of seconds
away, and of each send the tasks are chosen by their files.
"""

import time
from dataclasses import replace
from datetime import UTC, datetime

from bench.brief import sized
from bench.rows import Row
from gridbridge.decisions.campaigns import campaign_cycle_planning
from gridbridge.decisions.campaigns.tasks_sharing_inputs import (
    MOST_OVERTAKING,
    choose_tasks_sharing_inputs,
    groups_of_next_tasks,
)
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
    FairShareInputs,
    InputCarryCost,
    JobRatio,
)
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    CampaignSuccessAtCluster,
)
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster

CAMPAIGNS, CLUSTERS, TASKS = 200, 50, sized(1_000_000, 100_000)
ENDED, EVENTS, USERS = 5000, 100, 20
FILES = 100_000
RANGES = [(task, task, task % (FILES // CAMPAIGNS)) for task in range(MOST_OVERTAKING)]  # of a campaign's tasks
MOST_S, MOST_WITH_INPUTS_S, MOST_TIMES = 1.0, 1.5, 1.2
RUNS = sized(7, 2)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def rows() -> list[Row]:
    """Measure the decisions; the fastest of some runs counts."""
    many, few = _took_s(_seen(TASKS)), _took_s(_seen(TASKS // 10))
    many_files, few_files = (_took_s(_with_inputs(_seen(tasks))) for tasks in (TASKS, TASKS // 10))
    return [
        Row(what="decisions of a cycle", measured=many, unit="s CPU", limit=MOST_S, baseline=few),
        Row(what="  of a tenth of the tasks", measured=many / few, unit="times", limit=MOST_TIMES, needs_whole=True),
        Row(what="the same with input files", measured=many_files, unit="s CPU", limit=MOST_WITH_INPUTS_S,
            baseline=few_files),
        Row(what="  of a tenth of the tasks", measured=many_files / few_files, unit="times", limit=MOST_TIMES,
            needs_whole=True),
    ]  # fmt: skip


def _took_s(seen: CampaignCycleSituation) -> float:
    return min(_once_s(seen) for _ in range(RUNS))


def _once_s(seen: CampaignCycleSituation) -> float:
    began = time.process_time()
    plan = campaign_cycle_planning.plan_campaign_cycle(seen)
    _choose_tasks(seen, plan)
    took_s = time.process_time() - began
    assert plan.sends
    return took_s


def _with_inputs(seen: CampaignCycleSituation) -> CampaignCycleSituation:
    return replace(
        seen,
        campaigns=tuple(replace(one, jdl=replace(one.jdl, inputs=("{1}",))) for one in seen.campaigns),
        carry_costs=tuple(
            InputCarryCost(campaign=one.number, cluster=name, task_s=0.1 * n, task_bytes=1e6, bytes_per_s=1e7 / (n + 1))
            for one in seen.campaigns
            for n, name in enumerate(one.jdl.clusters)
        ),
    )


def _choose_tasks(seen: CampaignCycleSituation, plan: CampaignCyclePlan) -> None:
    """Choose the tasks of each send among a campaign's next tasks, as their files are at half of the clusters."""
    here, others = frozenset(range(0, FILES // CAMPAIGNS, 2)), frozenset(range(1, FILES // CAMPAIGNS, 2))
    for send in plan.sends if seen.carry_costs else ():
        tasks = range(min(MOST_OVERTAKING, seen.waiting[send.campaign]))
        groups = groups_of_next_tasks(RANGES, tasks)
        choose_tasks_sharing_inputs(groups, here, others, send.tasks, send.unshared_first)


def _seen(tasks: int) -> CampaignCycleSituation:
    names = [f"cluster-{n}" for n in range(CLUSTERS)]
    campaigns = tuple(_campaign(n + 1, names, tasks // CAMPAIGNS) for n in range(CAMPAIGNS))
    pairs = [(one.number, name) for one in campaigns for name in names]
    return CampaignCycleSituation(
        campaigns=campaigns,
        waiting={one.number: tasks // CAMPAIGNS for one in campaigns},
        arrays=tuple(_array(number, names, name) for number, name in pairs),
        room={
            name: ClusterCapacityForCampaigns(free_slots=40, max_slots=400, flood_rate=0.1, slots=400, used=360)
            for name in names
        },
        max_tasks=1000,
        there=tuple(
            CampaignTaskCountsAtCluster(campaign=number, cluster=name, waiting=0, listed=2, slots=1.0)
            for number, name in pairs
        ),
        ended=tuple(map(_attempt, range(ENDED))),
        ratios=tuple(
            JobRatio(campaign=number, cluster=name, ratio=0.5, free=40, submitted=2) for number, name in pairs
        ),
        sharing=FairShareInputs(
            by=FairShareUnit.USER, first_tasks=5, mean_s={one.number: dict.fromkeys(names, 60.0) for one in campaigns}
        ),
        at=NOW,
        asked=frozenset(names),
        events=tuple(_event(n, names[n % CLUSTERS]) for n in range(EVENTS)),
        records=tuple(
            CampaignSuccessAtCluster(campaign=number, cluster=name, successes=30, durations_s=(60,) * 30)
            for number, name in pairs
        ),
    )


def _campaign(number: int, names: list[str], waiting: int) -> Campaign:
    user = number % USERS
    return Campaign(
        number=number,
        uid=1000 + user,
        owner=f"user-{user}",
        state=CampaignState.IN_TREATMENT,
        submitted_at=NOW,
        tasks=2 * waiting,
        ended=waiting,
        digest="",
        jdl=Jdl(name="bench", clusters={name: JdlSettingsAtCluster(exec_file="run") for name in names}),
    )


def _array(campaign: int, names: list[str], cluster: str) -> CampaignArray:
    return CampaignArray(
        campaign=campaign,
        number=names.index(cluster) + 1,
        cluster=cluster,
        state=ArraySubmissionState.RELEASED,
        size=20,
        job_id=campaign,
        intended_at=NOW,
    )


def _attempt(n: int) -> TaskAttempt:
    return TaskAttempt(
        campaign=n % CAMPAIGNS + 1,
        task=n,
        attempt=1,
        array=n % CLUSTERS + 1,
        place=1,
        outcome=TaskAttemptOutcome.SUCCESS if n % 10 else TaskAttemptOutcome.PREEMPTED,
        wallclock_s=60,
    )


def _event(n: int, cluster: str) -> CampaignEvent:
    return CampaignEvent(
        number=n + 1,
        kind=CampaignEventSubject.CAMPAIGN,
        code=CampaignEventCode.BLACKLIST,
        campaign=n % CAMPAIGNS + 1,
        cluster=cluster,
        opened_at=NOW,
        last_at=NOW,
    )
