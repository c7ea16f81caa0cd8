"""Findings while the running service has another gridbridge.toml than the present file."""

from dataclasses import replace

import pytest

from gridbridge.decisions.site.service_fault_findings import (
    CONFIGURATION_ITEM,
    OLDER_IN_FORCE,
    is_config_reload_awaited,
    stale_configuration_findings,
    stale_configuration_reason,
)
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.model.site.site_check_facts import PollerProcessFacts, ServiceConfigurationFacts

ALIVE = PollerProcessFacts(is_running=True, pid=5, age_s=2.0)


def judged(poller: PollerProcessFacts, **how: bool) -> list[tuple[FindingSeverity, str, tuple[str, ...]]]:
    found = list(stale_configuration_findings(poller, **how))
    assert {each.item for each in found} <= {CONFIGURATION_ITEM}
    return [(each.state, each.found, tuple(one.value for one in each.mend)) for each in found]


def test_no_configuration_finding_without_a_running_service() -> None:
    assert judged(PollerProcessFacts(is_running=False)) == []
    assert judged(ALIVE) == []


def test_a_service_with_the_present_file_is_ok() -> None:
    known = ServiceConfigurationFacts(is_same=True)

    assert judged(replace(ALIVE, configuration=known)) == [(FindingSeverity.OK, "in force", ())]


@pytest.mark.parametrize(("pid", "mend"), [(5, ("kill -HUP 5",)), (0, ())])
def test_a_file_not_yet_in_force_has_a_sighup_command(pid: int, mend: tuple[str]) -> None:
    older = replace(ALIVE, pid=pid, configuration=ServiceConfigurationFacts(is_same=False))

    assert judged(older) == [(FindingSeverity.WARNING, OLDER_IN_FORCE, mend)]


def test_a_refused_file_is_broken_with_its_reasons() -> None:
    known = ServiceConfigurationFacts(is_same=False, refused=("FILE: one", "FILE: two"))
    found = f"{OLDER_IN_FORCE}; the service refuses the new file: FILE: one; FILE: two"

    assert judged(replace(ALIVE, configuration=known)) == [(FindingSeverity.BROKEN, found, ())]


def test_mistakes_that_check_reports_itself_are_not_repeated() -> None:
    known = ServiceConfigurationFacts(is_same=False, refused=("FILE: one",))

    found = judged(replace(ALIVE, configuration=known), is_right=False)

    assert found == [(FindingSeverity.WARNING, OLDER_IN_FORCE, ())]


@pytest.mark.parametrize(
    ("known", "expected", "told"),
    [
        (None, False, ""),
        (ServiceConfigurationFacts(is_same=True), False, ""),
        (
            ServiceConfigurationFacts(is_same=False),
            True,
            f"{OLDER_IN_FORCE}; the service reads the file within seconds",
        ),
        (ServiceConfigurationFacts(is_same=False, refused=("FILE: wrong",)), False, f"{OLDER_IN_FORCE}; the service"),
    ],
    ids=["no service", "in force", "not yet", "refused"],
)
def test_a_reload_is_awaited_only_of_a_service_that_has_not_refused(
    known: ServiceConfigurationFacts | None, expected: bool, told: str
) -> None:
    poller = replace(ALIVE, configuration=known)

    assert (is_config_reload_awaited(poller), stale_configuration_reason(poller)[: len(told) or None]) == (
        expected,
        told,
    )
