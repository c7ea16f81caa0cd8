"""The program gridbridge-runner, which runs campaign cycles from cron or in a loop."""

from functools import partial

from gridbridge.campaigns.runner.campaign_program_start import CampaignProgramFactory, start_campaign_program
from gridbridge.model.fixed_paths import RUNNER_LOCK

DOES = "Accept campaigns, record the ends of campaign tasks, and submit further tasks."


def main() -> None:
    start_campaign_program("gridbridge-runner", DOES, 15, RUNNER_LOCK, _import_runner_daemon)


def _import_runner_daemon() -> CampaignProgramFactory:
    from gridbridge.campaigns.runner.background_readings import BackgroundPrograms
    from gridbridge.campaigns.runner.campaign_runner import CampaignRunnerDaemon

    return partial(CampaignRunnerDaemon, programs=BackgroundPrograms())
