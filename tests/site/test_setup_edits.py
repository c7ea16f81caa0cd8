"""The former values of shared settings are recorded once, before setup changes them."""

from pathlib import Path

import pytest

from gridbridge.errors import CommandFailed, StateError
from gridbridge.model.site.setup_findings_and_edits import SetupEdit, SetupEditVerb, SharedSettingUndo
from gridbridge.site import setup_edits


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
