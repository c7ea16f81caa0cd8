"""Waits until the service has read the new gridbridge.toml. The script of `gridbridge setup` runs this program."""

from collections.abc import Callable

from gridbridge.config import configuration_file
from gridbridge.decisions.site import service_fault_findings
from gridbridge.errors import GridbridgeError
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.model.site.site_check_facts import PollerProcessFacts
from gridbridge.program.configuration_in_force import sha256_of_file
from gridbridge.shell.clock import Clock
from gridbridge.site.site_inspection import inspect_poller

LIMIT_S = 30.0  # a service checks the file once in each round, and a round may be slow
LOOK_S = 0.2
NOBODY = "no gridbridge-poller runs: the queue is closed until the load sensor has started a poller"


def main() -> None:
    """Wait until a running service has read gridbridge.toml; exit with the reason if this fails."""
    clock = Clock()
    try:
        trouble = wait_for_configuration_reload(_poller_facts_reader(clock), clock)
    except GridbridgeError as error:
        raise SystemExit(str(error)) from error
    if trouble:
        raise SystemExit(trouble)


def configuration_lag_reason() -> str:
    """Return why the service has not read the present gridbridge.toml; empty if the service has read the file."""
    facts = _poller_facts_reader(Clock())()
    return service_fault_findings.stale_configuration_reason(facts) if facts.configuration else NOBODY


def _poller_facts_reader(clock: Clock) -> Callable[[], PollerProcessFacts]:
    sha256 = sha256_of_file(configuration_file.read_configuration_bytes(CONFIG))
    return lambda: inspect_poller(sha256, clock.now_s())


def wait_for_configuration_reload(look: Callable[[], PollerProcessFacts], clock: Clock) -> str:
    """Wait up to LIMIT_S seconds until the service uses gridbridge.toml; return why it does not, or ''."""
    began_s = clock.steady_s()
    while service_fault_findings.is_config_reload_awaited(facts := look()) and clock.steady_s() - began_s < LIMIT_S:
        clock.sleep(LOOK_S)
    return service_fault_findings.stale_configuration_reason(facts)


if __name__ == "__main__":
    main()
