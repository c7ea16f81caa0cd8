"""setup records former values once, and waits until the service has loaded or refused the configuration."""

from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest

from gridbridge.decisions.site.service_fault_findings import OLDER_IN_FORCE
from gridbridge.errors import CommandFailed, StateError
from gridbridge.model.site.setup_findings_and_edits import SetupEdit, SetupEditVerb, SharedSettingUndo
from gridbridge.model.site.site_check_facts import PollerProcessFacts, ServiceConfigurationFacts
from gridbridge.shell.clock import Clock
from gridbridge.site import setup_edits
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


def an_undo(former: str, attribute: str = "queue_sort_method") -> SharedSettingUndo:
    done = SetupEdit(verb=SetupEditVerb.SET_SCHEDULER, cell="alpha", attribute=attribute, value="seqno")
    back = SetupEdit(verb=SetupEditVerb.SET_SCHEDULER, cell="alpha", attribute=attribute, value=former)
    return SharedSettingUndo(done=done, undo=back)


@pytest.fixture
def notes(tmp_path: Path) -> str:
    return str(tmp_path / "former.json")


@pytest.mark.root
def test_the_first_recorded_former_value_is_kept(notes: str) -> None:
    setup_edits.record_former_settings((an_undo("load"),), notes)
    setup_edits.record_former_settings((an_undo("seqno"), an_undo("0:7:30", "load_adjustment_decay_time")), notes)

    assert [each.undo.value for each in setup_edits.read_former_settings(notes)] == ["load", "0:7:30"]


def test_no_former_settings_are_recorded_at_first(notes: str) -> None:
    setup_edits.delete_former_settings(notes)

    assert setup_edits.read_former_settings(notes) == []


@pytest.mark.root
def test_an_unreadable_record_of_former_settings_is_an_error(notes: str) -> None:
    Path(notes).write_text('[{"done": 1}]')

    with pytest.raises(StateError, match="invalid record of former settings"):
        setup_edits.read_former_settings(notes)


def test_a_failed_setup_edit_reports_standard_error() -> None:
    with pytest.raises(CommandFailed, match="no such thing"):
        setup_edits.run_setup_edit(SetupEdit.shell_command_edit("echo no such thing >&2; exit 3"), None)
