"""Decide which calls of an Executor have failed: their tasks have ended, and no outcome of the call came."""

from collections.abc import Collection, Mapping

from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign, PublishedCampaignTask

LATE_FILES_S = 60.0  # a shared filesystem shows a new file within this time
LATE_OUTPUTS_S = 7200.0  # a broken link home is tried again within this time ([failures] probe_max_s)
LATE_CAMPAIGN_S = 60.0  # a new campaign is published within this time


def is_campaign_over(shown: PublishedCampaign) -> bool:
    """Say whether no task of a campaign runs any more, or will."""
    return not shown.state.is_alive and not shown.ending_at


def may_calls_have_failed(shown: PublishedCampaign, tasks: int, calls: int, failures_read: int) -> bool:
    """Say whether tasks must be read, of which there may be many.

    `calls` of the `tasks` sent lack an outcome; `failures_read` tasks had failed when the tasks were read last. A
    cancelled call needs no outcome, so its task may be among the unended ones.
    """
    has_failures = shown.failed + shown.cancelled != failures_read
    return is_campaign_over(shown) or has_failures or shown.ended > tasks - calls


def calls_with_ended_tasks(
    shown: PublishedCampaign, tasks: Mapping[int, PublishedCampaignTask], calls: Collection[int]
) -> dict[int, PublishedCampaignTask]:
    """Return the ended tasks among {call: task}, and all tasks if the campaign is over, for calls without outcome."""
    is_over = is_campaign_over(shown)
    return {call: task for call, task in tasks.items() if call in calls and (is_over or task.has_ended)}


def has_call_failed(task: PublishedCampaignTask, ended_for_s: float, *, is_carried: bool) -> bool:
    """Say whether a call has failed whose task was first found ended some seconds ago; never at the first sight.

    The outcome of a successful task may come late, and later still if outputs are carried home.
    """
    late_s = LATE_OUTPUTS_S if is_carried else LATE_FILES_S
    return ended_for_s > (late_s if task.outcome is TaskAttemptOutcome.SUCCESS else 0.0)
