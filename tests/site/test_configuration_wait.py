"""setup waits until the service has loaded or refused the new configuration, or no service runs."""

from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from gridbridge.decisions.site.service_fault_findings import OLDER_IN_FORCE
from gridbridge.model.site.site_check_facts import PollerProcessFacts, ServiceConfigurationFacts
from gridbridge.shell.clock import Clock
from gridbridge.site.configuration_wait import LIMIT_S, LOOK_S, wait_for_configuration_reload

OLD = ServiceConfigurationFacts(is_same=False)
NEW = ServiceConfigurationFacts(is_same=True)
REFUSED = ServiceConfigurationFacts(is_same=False, refused=("FILE: wrong",))


class Service(Clock):
    """A service with scripted configuration states, and a clock that only sleep() moves."""

    passed_s = 0.0

    def __init__(self, *seen: ServiceConfigurationFacts | None) -> None:
        super().__init__(steady=lambda: self.passed_s)
        self._seen: Iterator[ServiceConfigurationFacts | None] = chain(seen, repeat(seen[-1]))

    def look(self) -> PollerProcessFacts:
        return PollerProcessFacts(is_running=True, configuration=next(self._seen))

    def sleep(self, seconds: float) -> None:
        self.passed_s += seconds


@pytest.mark.parametrize(
    ("seen", "after_s", "told"),
    [
        ((OLD, OLD, NEW), 2 * LOOK_S, ""),
        ((OLD, REFUSED), LOOK_S, "FILE: wrong"),
        ((None,), 0, ""),
        ((OLD,), LIMIT_S, OLDER_IN_FORCE),
    ],
    ids=["taken", "refused", "no service", "never taken"],
)
def test_setup_waits_for_the_reload_with_a_time_limit(
    seen: tuple[ServiceConfigurationFacts | None, ...], after_s: float, told: str
) -> None:
    service = Service(*seen)

    trouble = wait_for_configuration_reload(service.look, service)

    assert (told in trouble, bool(told)) == (True, bool(trouble))
    assert service.passed_s == pytest.approx(after_s, abs=LOOK_S)
