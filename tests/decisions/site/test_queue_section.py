"""Findings about transfer queues, their section of gridbridge.toml, and the related settings."""

import shlex
from dataclasses import replace

import pytest

from gridbridge.batch.gridengine.qconf_parser_and_edits import setup_edit_shell_line
from gridbridge.decisions.site.transfer_queue_findings import (
    MAKE_SAFE_TMPDIR,
    queue_section_finding,
    queue_section_removal_edits,
    total_transfer_slots,
    user_spool_limit_finding,
    writable_tmpdir_findings,
)
from gridbridge.model.fixed_paths import CONFIG, PYTHON
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.model.transfer.transfer_config_sections import PollerSection, TransferQueueSection
from tests.decisions.site.setups import WANTED

EDIT = (PYTHON, "-I", "-m", "gridbridge.config.edit", CONFIG)
POLICY = Policy(
    site=SiteSection(cluster="alpha"),
    clusters={"alpha": ClusterSection(qmaster_port=1, execd_port=2)},
    queues={
        "transfer-beta": TransferQueueSection(cluster="beta", pending_limit=1, slots=200),
        "transfer-gamma": TransferQueueSection(cluster="gamma", pending_limit=1, slots=300),
    },
    poller=PollerSection(spool_files_per_uid=2000),
)


@pytest.mark.parametrize(("slots", "state"), [(500, FindingSeverity.OK), (501, FindingSeverity.WARNING)])
def test_the_spool_limit_needs_four_messages_per_slot(slots: int, state: FindingSeverity) -> None:
    assert user_spool_limit_finding(POLICY, slots).state == state


def test_a_low_spool_limit_has_its_remedy() -> None:
    found = user_spool_limit_finding(POLICY, 600)

    assert found.found == "2000, too few for 600 transfer slots of one user"
    assert found.right == "at least 2400"
    assert found.hint.startswith("raise the limit in [poller]")


def test_transfer_slots_are_summed_with_the_requested_queue() -> None:
    assert total_transfer_slots(POLICY) == 500
    assert total_transfer_slots(POLICY, WANTED) == 310


@pytest.mark.parametrize("is_wanted", [False, True])
def test_remote_usage_is_written_only_if_it_is_not_the_default(is_wanted: bool) -> None:
    known = replace(POLICY.queues["transfer-beta"], remote_usage=not is_wanted)
    new = queue_section_finding(replace(POLICY, queues={}), replace(WANTED, remote_usage=is_wanted))
    mended = queue_section_finding(
        replace(POLICY, queues={"transfer-beta": known}), replace(WANTED, remote_usage=is_wanted)
    )

    assert ("remote_usage = false" in new.mend[0].value) != is_wanted
    assert f"'remote_usage = {str(is_wanted).lower()}'" in mended.mend[0].value


def test_a_new_section_has_only_the_required_keys() -> None:
    """Edits keep comments and other keys (tests/config/test_edit.py)."""
    (edit,) = queue_section_finding(replace(POLICY, queues={}), WANTED).mend

    keys = ('cluster = "beta"', f"pending_limit = {WANTED.pending_limit}", f"slots = {WANTED.slots}")
    assert shlex.split(edit.value) == [*EDIT, "put", "queue", "transfer-beta", *keys]


def test_the_section_of_a_queue_is_removed() -> None:
    (edit,) = queue_section_removal_edits(POLICY, WANTED)

    assert shlex.split(edit.value) == [*EDIT, "drop", "queue", "transfer-beta"]


def test_keys_that_setup_does_not_manage_need_no_edit() -> None:
    known = TransferQueueSection(
        cluster=WANTED.remote,
        pending_limit=WANTED.pending_limit,
        slots=WANTED.slots,
        stage_out="res%2C1",
        recall_wait_s=5,
    )
    policy = replace(POLICY, queues={WANTED.queue: known})
    kept = queue_section_finding(policy, WANTED)
    mended = queue_section_finding(replace(POLICY, queues={WANTED.queue: replace(known, slots=9)}), WANTED)

    assert kept.state == FindingSeverity.OK
    assert mended.mend[0].value.endswith(f"put queue transfer-beta 'slots = {WANTED.slots}'")


QUEUES = {
    "all.q": {"tmpdir": "/tmp,[@big=/scratch],[n1=/tmp]"},
    "transfer-beta": {"tmpdir": "/tmp"},
    "safe.q": {"tmpdir": "/var/tmp/sge"},
    "odd.q": {"tmpdir": "NONE"},
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


def a_queue(starter: str = "NONE", remote: str = "FALSE") -> dict[str, str]:
    return {"starter_method": starter, "complex_values": f"remote={remote}"}
