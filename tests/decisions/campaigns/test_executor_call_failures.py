"""A call has failed if its task has ended, and the outcome of the call does not come."""

import pytest

from gridbridge.decisions.campaigns import executor_call_failure_detection as rules
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign, PublishedCampaignTask
from tests.campaigns.cli.published_builder import make_shown_campaign

ALIVE, OVER = CampaignState.IN_TREATMENT, CampaignState.TERMINATED
RUNNING = PublishedCampaignTask(number=0, is_waiting=False)
DONE = PublishedCampaignTask(number=1, is_waiting=False, outcome=TaskAttemptOutcome.SUCCESS)
KILLED = PublishedCampaignTask(number=2, is_waiting=False, outcome=TaskAttemptOutcome.SIGNAL)

# campaign as published, calls without outcome of 4 tasks, failures read before
READS = {
    "no task has ended": (make_shown_campaign(tasks=4), 4, 0, False),
    "each ended task has its outcome": (make_shown_campaign(tasks=4, ended=2), 2, 0, False),
    "an ended task has no outcome": (make_shown_campaign(tasks=4, ended=2), 3, 0, True),
    "a task has failed, and calls were cancelled": (make_shown_campaign(tasks=4, ended=1, failed=1), 1, 0, True),
    "its failure was read": (make_shown_campaign(tasks=4, ended=1, failed=1), 3, 1, False),
    "the campaign is over": (make_shown_campaign(tasks=4, ended=3, state=OVER), 1, 0, True),
    "tasks still end": (make_shown_campaign(tasks=4, state=CampaignState.CANCELLED, ending_at=("beta",)), 4, 0, False),
}


@pytest.mark.parametrize(("shown", "calls", "failures_read", "is_read"), READS.values(), ids=READS)
def test_tasks_are_read_only_if_a_call_may_have_failed(
    shown: PublishedCampaign, calls: int, failures_read: int, is_read: bool
) -> None:
    assert rules.may_calls_have_failed(shown, 4, calls, failures_read) is is_read


@pytest.mark.parametrize(("state", "calls"), [(ALIVE, {11, 12}), (OVER, {10, 11, 12})], ids=["alive", "over"])
def test_ended_tasks_are_suspect_and_all_tasks_of_a_campaign_that_is_over(
    state: CampaignState, calls: set[int]
) -> None:
    shown = make_shown_campaign(state=state)
    tasks = {10: RUNNING, 11: DONE, 12: KILLED, 13: KILLED}

    assert rules.calls_with_ended_tasks(shown, tasks, {10, 11, 12}).keys() == calls


LATE = [
    (KILLED, 0.0, False, False),
    (KILLED, 5.0, False, True),
    (DONE, rules.LATE_FILES_S, False, False),
    (DONE, rules.LATE_FILES_S + 1, False, True),
    (DONE, rules.LATE_FILES_S + 1, True, False),
    (DONE, rules.LATE_OUTPUTS_S + 1, True, True),
    (RUNNING, 5.0, True, True),
]


@pytest.mark.parametrize(("task", "ended_for_s", "is_carried", "has_failed"), LATE)
def test_the_outcome_of_a_successful_task_may_come_late(
    task: PublishedCampaignTask, ended_for_s: float, is_carried: bool, has_failed: bool
) -> None:
    assert rules.has_call_failed(task, ended_for_s, is_carried=is_carried) is has_failed
