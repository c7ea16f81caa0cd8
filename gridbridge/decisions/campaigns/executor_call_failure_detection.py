"""Decide which calls of an Executor have failed: the task has ended, and the outcome of the call is missing."""

from collections.abc import Collection, Mapping

from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign, PublishedCampaignTask

LATE_FILES_S = 60.0  # after this time every host sees a new file of a shared filesystem
LATE_OUTPUTS_S = 7200.0  # within this time a failed copy home is tried again ([failures] probe_max_s)
LATE_CAMPAIGN_S = 60.0  # a new campaign is published within this time


def is_campaign_over(published_campaign: PublishedCampaign) -> bool:
    """Say whether no task of a campaign runs or will run."""
    return not published_campaign.state.is_alive and not published_campaign.ending_at


def may_calls_have_failed(published_campaign: PublishedCampaign, tasks: int, calls: int, failures_read: int) -> bool:
    """Say whether the published tasks must be read, which is slow for many tasks.

    `tasks` is the number of sent tasks, and `calls` the number of calls without an outcome. `failures_read` tasks had
    failed when the tasks were last read. A cancelled call has its outcome before its task ends.
    """
    has_failures = published_campaign.failed + published_campaign.cancelled != failures_read
    return is_campaign_over(published_campaign) or has_failures or published_campaign.ended > tasks - calls


def calls_with_ended_tasks(
    published_campaign: PublishedCampaign, tasks: Mapping[int, PublishedCampaignTask], calls: Collection[int]
) -> dict[int, PublishedCampaignTask]:
    """Return the calls whose task has ended, as {call: task}; every call counts if the campaign is over."""
    is_over = is_campaign_over(published_campaign)
    return {call: task for call, task in tasks.items() if call in calls and (is_over or task.has_ended)}


def has_call_failed(task: PublishedCampaignTask, ended_for_s: float, *, is_carried: bool) -> bool:
    """Say whether a call has failed, `ended_for_s` seconds after its task was first found ended; never at 0 s.

    The outcome of a successful task may come late, and later still if outputs are carried home.
    """
    late_s = LATE_OUTPUTS_S if is_carried else LATE_FILES_S
    return ended_for_s > (late_s if task.outcome is TaskAttemptOutcome.SUCCESS else 0.0)
