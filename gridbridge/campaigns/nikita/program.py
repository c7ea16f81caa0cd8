"""The program gridbridge-nikita, which deletes campaign tasks that flood a cluster or are stuck."""

from gridbridge.campaigns.runner.campaign_program_start import CampaignProgramFactory, start_campaign_program
from gridbridge.model.fixed_paths import NIKITA_LOCK

DOES = "Delete campaign tasks that flood a cluster or are stuck at a cluster."


def main() -> None:
    start_campaign_program("gridbridge-nikita", DOES, 60, NIKITA_LOCK, _import_nikita_daemon)


def _import_nikita_daemon() -> CampaignProgramFactory:
    from gridbridge.campaigns.nikita.task_deletion_cycle import NikitaDaemon

    return NikitaDaemon
