"""gridbridge-runner: runs campaign cycles, once from cron or for ever.

Exit status: 0, 1 when another one runs, 2 for a wrong set-up or use.
"""

import argparse
import sys

from gridbridge import config
from gridbridge.errors import GridbridgeError
from gridbridge.model.places import CONFIG, RUNNER_LOCK
from gridbridge.services import cycle, process
from gridbridge.shell.account import become
from gridbridge.shell.clock import Clock
from gridbridge.shell.life_sign import LifeSign
from gridbridge.shell.signals import Signals

ANOTHER_RUNS, WRONG = 1, 2


def main() -> None:
    """Run as the arguments say."""
    options = _options().parse_args()
    try:
        _run(is_loop=options.loop, is_dry=options.dry_run)
    except GridbridgeError as error:
        print(f"gridbridge-runner: {error}", file=sys.stderr)  # noqa: T201 - no log may exist
        sys.exit(WRONG)


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="gridbridge-runner",
        description="Take campaigns in, look what became of their tasks, and send more of them.",
        epilog="Example: gridbridge-runner --dry-run",
    )
    options.add_argument("--loop", action="store_true", help="go on until SIGTERM, every 15 s")
    options.add_argument("--dry-run", action="store_true", help="say what one cycle would do")
    return options


def _run(*, is_loop: bool, is_dry: bool) -> None:
    from gridbridge.services.campaigns.runner import Daemon  # half a second

    signals, clock = Signals(), Clock()
    policy = config.load(CONFIG)
    become(policy.site.service_account)
    process.start_log(policy)
    cycle.hold(RUNNER_LOCK, "gridbridge-runner", ANOTHER_RUNS)
    daemon = Daemon(policy, clock)
    if is_loop:
        cycle.run_forever(daemon, signals, LifeSign(RUNNER_LOCK), clock)
        return
    with daemon.open_cycle() as runner:
        cycle.once(runner, print, is_dry=is_dry)
