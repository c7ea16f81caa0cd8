"""A decision about campaigns is stored with its inputs and can be replayed."""

import json
from dataclasses import replace

from gridbridge.campaigns.runner import campaign_runner
from gridbridge.decisions.campaigns import campaign_cycle_planning as rules
from gridbridge.model.campaigns.campaign import TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import ClusterCapacityForCampaigns, ListedCampaignTaskCounts
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from tests.builders.campaigns import NOON, made_campaign, made_situation, released_array

CAMPAIGN = made_campaign(
    number=1,
    tasks=9,
    digest="abc",
    jdl=Jdl(name="sweep", clusters={"beta": JdlSettingsAtCluster(exec_file="run", max_jobs=5)}),
)


def test_a_stored_campaign_decision_is_replayed_from_json() -> None:
    array = released_array(size=2, job_id=7)
    seen = made_situation(
        campaigns=(CAMPAIGN,),
        waiting={1: 7},
        arrays=(array,),
        room={"beta": ClusterCapacityForCampaigns(free_slots=4)},
        there=(ListedCampaignTaskCounts(campaign=1, cluster="beta", waiting=1, listed=1),),
        tried={1: frozenset({"beta"})},
        ended=(TaskAttempt(campaign=1, task=0, attempt=1, array=1, place=1, outcome=TaskAttemptOutcome.RESUBMIT),),
    )
    plan = rules.plan_campaign_cycle(seen)

    entry = campaign_runner.campaign_cycle_journal_entry(seen, plan, NOON)

    assert entry.sentence == "1 task ended, 1 of them runs again; sent: 3 tasks of campaign 1 to beta"
    kept = json.loads(json.dumps(entry.inputs))
    assert (
        campaign_runner.replay_campaign_cycle_decision(kept)
        == rules.describe_campaign_cycle_plan(plan)
        == kept["actions"]
    )


def test_the_journal_stores_no_scripts_of_campaigns() -> None:
    wish = JdlSettingsAtCluster(exec_file="s" * 60_000, prologue="p" * 60_000, max_jobs=5)
    one = replace(CAMPAIGN, jdl=Jdl(name="sweep", clusters={"beta": wish}))
    room = {"beta": ClusterCapacityForCampaigns(free_slots=4)}
    seen = made_situation(campaigns=(one,), waiting={1: 7}, room=room)
    plan = rules.plan_campaign_cycle(seen)

    entry = campaign_runner.campaign_cycle_journal_entry(seen, plan, NOON)

    assert plan.steps
    assert len(json.dumps(entry.inputs)) < 2000
    assert campaign_runner.replay_campaign_cycle_decision(
        json.loads(json.dumps(entry.inputs))
    ) == rules.describe_campaign_cycle_plan(plan)


def test_a_cycle_that_does_nothing_has_no_journal_entry() -> None:
    seen = made_situation()

    assert campaign_runner.campaign_cycle_journal_entry(seen, rules.plan_campaign_cycle(seen), NOON) is None
