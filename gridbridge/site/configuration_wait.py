"""Waits until the service has the gridbridge.toml that is there: a line of what `setup` prints.

A queue that opens before its service knows it would take jobs that lead nowhere.
"""

from collections.abc import Callable

from gridbridge.config import policy_file
from gridbridge.decisions.site import stale_configuration
from gridbridge.errors import GridbridgeError
from gridbridge.model.places import CONFIG
from gridbridge.model.site.host_facts import PollerFacts
from gridbridge.program.configuration import digest
from gridbridge.shell.clock import Clock
from gridbridge.site.inspection import poller_facts

LIMIT_S = 30.0  # a service looks at the file in each round, and one round may be slow
LOOK_S = 0.2
NOBODY = "no gridbridge-poller runs: the queue is closed until the load sensor has started one"


def main() -> None:
    """Wait; say in a line what is wrong when a service lives and does not take the file."""
    clock = Clock()
    try:
        trouble = wait(_look(clock), clock)
    except GridbridgeError as error:
        raise SystemExit(str(error)) from error
    if trouble:
        raise SystemExit(trouble)


def left() -> str:
    """Say why the service does not have the file, if so: its queues are closed."""
    facts = _look(Clock())()
    return stale_configuration.trouble(facts) if facts.configuration else NOBODY


def _look(clock: Clock) -> Callable[[], PollerFacts]:
    sha256 = digest(policy_file.read(CONFIG))
    return lambda: poller_facts(sha256, clock.now_s())


def wait(look: Callable[[], PollerFacts], clock: Clock) -> str:
    """Look until the service has the file; return why it has not, at once where it refuses it.

    Where none lives nothing is waited for: without its load values the queue stays closed.
    """
    began_s = clock.steady_s()
    while stale_configuration.is_awaited(facts := look()) and clock.steady_s() - began_s < LIMIT_S:
        clock.sleep(LOOK_S)
    return stale_configuration.trouble(facts)


if __name__ == "__main__":
    main()
