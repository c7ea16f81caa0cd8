"""What `setup campaigns` and `setup data` make and remove."""

from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.decisions.site.campaign_and_data_findings import (
    campaign_program_findings,
    campaign_program_removal_edits,
    dataset_round_finding,
    dataset_round_removal_edits,
    storage_folder_finding,
)
from gridbridge.model.fixed_paths import CAMPAIGN_CRON, CAMPAIGN_PROGRAMS, DATASET_CRON
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity, SetupEdit, SetupEditVerb
from gridbridge.model.site.site_check_facts import PathFacts, ServiceStartFacts
from gridbridge.site.setup_edits import setup_edit_command

CONF = Path(__file__).parents[3] / "conf"
SHIPPED_CRON = (CONF / "cron.d/gridbridge-campaigns").read_text()
BY_CRON = ServiceStartFacts(account="gridbridge", cron=SHIPPED_CRON, has_cron_file=True)
UNITS = {name: f"/etc/systemd/system/{name}.service" for name in CAMPAIGN_PROGRAMS}
BY_SYSTEMD = ServiceStartFacts(
    account="gridbridge", has_systemd=True, units=UNITS, enabled=frozenset(CAMPAIGN_PROGRAMS)
)


def campaign_lines(facts: ServiceStartFacts) -> list[str]:
    return [setup_edit_command(edit) for finding in campaign_program_findings(facts) for edit in finding.mend]


def states(*findings: CheckFinding) -> set[FindingSeverity]:
    return {finding.state for finding in findings}


@pytest.mark.parametrize(
    "facts",
    [BY_CRON, BY_SYSTEMD, replace(BY_CRON, has_systemd=True)],
    ids=["the shipped file of cron", "units", "cron beside systemd"],
)
def test_a_complete_start_of_campaigns_needs_no_change(facts: ServiceStartFacts) -> None:
    assert states(*campaign_program_findings(facts)) == {FindingSeverity.OK}


def test_a_file_of_cron_keeps_its_lines_and_gets_the_missing_ones() -> None:
    ours = "# by night\n0 3 * * * gridbridge /opt/gridbridge/oar-hooks/runner\n"
    (finding,) = campaign_program_findings(replace(BY_CRON, cron=ours))
    (edit,) = finding.mend

    assert edit.value == ours + SHIPPED_CRON.splitlines()[-1] + "\n"
    assert setup_edit_command(edit).endswith(
        f"| install -m 0644 -o root -g root /dev/stdin {CAMPAIGN_CRON}.new && mv -T {CAMPAIGN_CRON}.new {CAMPAIGN_CRON}"
    )


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (replace(BY_SYSTEMD, units={}, enabled=frozenset()), ["copy", "start", "copy", "start"]),
        (replace(BY_SYSTEMD, enabled=frozenset({CAMPAIGN_PROGRAMS[0]})), ["start"]),
        (
            replace(BY_SYSTEMD, units={}, enabled=frozenset(), has_transfer_queues=False),
            ["copy", "start", "copy", "start", "copy", "start"],
        ),
    ],
    ids=["a bare host", "interrupted", "with the poller"],
)
def test_units_are_copied_once_and_started(facts: ServiceStartFacts, expected: list[str]) -> None:
    """A site without transfer queues has no load sensor that starts the poller."""
    made = ["start" if "systemctl enable --now" in line else "copy" for line in campaign_lines(facts)]

    assert made == expected


def test_units_run_under_the_sites_service_account() -> None:
    shipped = {name: (CONF / f"systemd/{name}.service").read_text() for name in CAMPAIGN_PROGRAMS}
    bare = ServiceStartFacts(account="svc", has_systemd=True, shipped_units=shipped)
    edits = [edit for finding in campaign_program_findings(bare) for edit in finding.mend]
    written = [edit.value for edit in edits if edit.verb is SetupEditVerb.WRITE_FILE]

    assert ["\nUser=svc\n" in text and "User=gridbridge" not in text for text in written] == [True, True]


def test_removal_deletes_what_setup_made_and_only_stops_units_of_a_package() -> None:
    packaged = replace(BY_SYSTEMD, units={"gridbridge-runner": "/usr/lib/systemd/system/gridbridge-runner.service"})

    assert [setup_edit_command(edit) for edit in campaign_program_removal_edits(packaged)] == [
        "systemctl disable --now gridbridge-runner.service"
    ]
    assert [*campaign_program_removal_edits(replace(packaged, enabled=frozenset()))] == []
    assert [edit.name for edit in campaign_program_removal_edits(BY_SYSTEMD)][1::2] == list(UNITS.values())
    assert [*campaign_program_removal_edits(BY_CRON)] == [removed(CAMPAIGN_CRON)]
    assert [*dataset_round_removal_edits(BY_CRON)] == [removed(DATASET_CRON)]


def removed(path: str) -> SetupEdit:
    return SetupEdit(verb=SetupEditVerb.REMOVE_FILE, name=path)


def test_the_rounds_for_datasets_are_made_once() -> None:
    (edit,) = dataset_round_finding(ServiceStartFacts(account="gridbridge")).mend

    assert edit.value.startswith("*/15 * * * * gridbridge /opt/gridbridge/bin/gridbridge rebalance data --apply >>")
    assert states(dataset_round_finding(replace(BY_CRON, cron=edit.value))) == {FindingSeverity.OK}
    assert states(dataset_round_finding(replace(BY_CRON, cron=f"#{edit.value}"))) == {FindingSeverity.BROKEN}


@pytest.mark.parametrize(
    ("mode", "is_folder", "lines"),
    [
        (None, True, ["mkdir '/d d' && chmod 1777 '/d d'"]),
        (0o1777, True, []),
        (0o755, True, []),
        (0o777, True, ["chmod +t '/d d'"]),
        (0o644, False, []),
    ],
    ids=["missing", "sticky", "made by an administrator", "not sticky", "a file"],
)
def test_the_folder_of_a_storage_area_is_sticky_or_closed(mode: int | None, is_folder: bool, lines: list[str]) -> None:
    facts = None if mode is None else PathFacts(owner=0, owner_name="root", mode=mode, is_folder=is_folder)
    finding = storage_folder_finding("data", "/d d", facts, "far")

    assert [edit.value for edit in finding.mend if finding.state is not FindingSeverity.OK] == lines
    assert (finding.state is FindingSeverity.OK) == (is_folder and not lines)
