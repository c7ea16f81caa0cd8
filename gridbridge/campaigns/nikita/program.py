"""gridbridge-nikita: deletes tasks that flood a cluster or are stuck there."""

from gridbridge.campaigns.runner.startup import MakeProgram, start
from gridbridge.model.places import NIKITA_LOCK

DOES = "Delete tasks of campaigns that wait or run where they should not."


def main() -> None:
    """Run as the arguments say."""
    start("gridbridge-nikita", DOES, 60, NIKITA_LOCK, _load)


def _load() -> MakeProgram:
    from gridbridge.campaigns.nikita.nikita import NikitaDaemon

    return NikitaDaemon
