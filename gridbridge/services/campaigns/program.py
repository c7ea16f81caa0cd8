"""gridbridge-runner: runs campaign cycles, once from cron or for ever."""

from gridbridge.model.places import RUNNER_LOCK
from gridbridge.services.campaigns.starting import MakeProgram, start

DOES = "Take campaigns in, look what became of their tasks, and send more of them."


def main() -> None:
    """Run as the arguments say."""
    start("gridbridge-runner", DOES, 15, RUNNER_LOCK, _load)


def _load() -> MakeProgram:
    from gridbridge.services.campaigns.runner import RunnerDaemon

    return RunnerDaemon
