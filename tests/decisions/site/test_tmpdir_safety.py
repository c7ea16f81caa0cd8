"""Only root may write to the folder in which execd creates TMPDIR; most sites use /tmp."""

from gridbridge.batch.gridengine.qconf_parser_and_edits import setup_edit_shell_line
from gridbridge.decisions.site.running_site_findings import worst_finding_state
from gridbridge.decisions.site.transfer_queue_findings import (
    MAKE_SAFE_TMPDIR,
    queues_by_tmpdir,
    writable_tmpdir_findings,
)
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity

QUEUES = {
    "all.q": {"tmpdir": "/tmp,[@big=/scratch],[n1=/tmp]"},
    "transfer-beta": {"tmpdir": "/tmp"},
    "safe.q": {"tmpdir": "/var/tmp/sge"},
    "odd.q": {"tmpdir": "NONE"},
}


def test_queues_are_grouped_by_tmpdir() -> None:
    assert queues_by_tmpdir(QUEUES) == {
        "/tmp": ("all.q", "transfer-beta"),
        "/scratch": ("all.q",),
        "/var/tmp/sge": ("safe.q",),
    }


def test_a_tmpdir_that_users_may_write_is_noted_with_its_commands() -> None:
    found = tuple(writable_tmpdir_findings("alpha", QUEUES, {"/tmp"}))

    assert {one.item: one.state for one in found} == {
        "tmpdir /tmp": FindingSeverity.NOTE,
        "tmpdir /scratch": FindingSeverity.OK,
        "tmpdir /var/tmp/sge": FindingSeverity.OK,
    }
    assert found[0].found == "all users may write to this tmpdir of all.q, transfer-beta"
    assert [setup_edit_shell_line(edit) for edit in found[0].mend] == [
        MAKE_SAFE_TMPDIR,
        "qconf -rattr queue tmpdir /var/tmp/sge all.q",
        "qconf -rattr queue tmpdir /var/tmp/sge transfer-beta",
    ]


def test_a_note_leaves_the_overall_state_ok() -> None:
    assert worst_finding_state(tuple(writable_tmpdir_findings("alpha", QUEUES, {"/tmp"}))) == FindingSeverity.OK
