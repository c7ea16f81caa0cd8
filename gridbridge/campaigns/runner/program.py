"""gridbridge-runner: runs campaign cycles, once from cron or for ever."""

from gridbridge.campaigns.runner.startup import MakeProgram, start
from gridbridge.model.places import RUNNER_LOCK

DOES = "Take campaigns in, look what became of their tasks, and send more of them."


def main() -> None:
    """Run as the arguments say."""
    start("gridbridge-runner", DOES, 15, RUNNER_LOCK, _load)


def _load() -> MakeProgram:
    from gridbridge.campaigns.runner.campaign_runner import RunnerDaemon

    return RunnerDaemon
