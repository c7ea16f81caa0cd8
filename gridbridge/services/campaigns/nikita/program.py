"""gridbridge-nikita: deletes tasks that flood a cluster or are stuck there."""

from gridbridge.model.places import NIKITA_LOCK
from gridbridge.services.campaigns.starting import MakeProgram, start

DOES = "Delete tasks of campaigns that wait or run where they should not."


def main() -> None:
    """Run as the arguments say."""
    start("gridbridge-nikita", DOES, 60, NIKITA_LOCK, _load)


def _load() -> MakeProgram:
    from gridbridge.services.campaigns.nikita.service import NikitaDaemon

    return NikitaDaemon
