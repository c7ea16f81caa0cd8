"""What `gridbridge setup` shows before it changes anything."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gridbridge.model.site.setup_findings_and_edits import SetupEdit, SetupEditVerb
from gridbridge.model.site_configuration import Policy
from gridbridge.site import besteffort_setup, transfer_queue_setup
from gridbridge.site.cli import setup_command
from gridbridge.site.cli.setup_command import SetupAction
from gridbridge.site.setup_preview import SetupPreview
from tests.site.test_queue_setup import asked
from tests.site.test_queue_setup import mixed_site as mixed_site

RESTART = SetupEdit(verb=SetupEditVerb.RESTART, name="sge_execd on n1; its jobs continue", value="kill 1")


def test_changes_of_a_cell_are_shown_as_one_diff_per_object(mixed_site: Policy) -> None:
    lines = SetupPreview(mixed_site).difference_after(besteffort_setup.plan_besteffort_setup(mixed_site, asked()))

    assert lines[:3] == (
        "--- alpha: complexes",
        "+++ alpha: complexes",
        "+gb_besteffort gb_besteffort BOOL == FORCED NO 0 0",
    )
    assert lines[-4:] == (
        "--- alpha: queue all.q",
        "+++ alpha: queue all.q",
        "-subordinate_list NONE",
        "+subordinate_list gb-be1=1,gb-be2=2",
    )
    assert [line for line in lines if line.startswith("+slots")] == ["+slots 1", "+slots 1"]
    assert lines.count("--- /dev/null") == 2


def test_a_file_is_shown_with_the_lines_around_each_change(mixed_site: Policy, tmp_path: Path) -> None:
    """Comments of people stay: the diff has no line of them with a sign."""
    toml, cron, old = tmp_path / "toml", tmp_path / "cron", tmp_path / "old"
    toml.write_text("# ours\n[queue.q]\nslots = 4  # few\n\n# other\n[poller]\n")
    old.write_text("x\n")
    edits = (
        SetupEdit(verb=SetupEditVerb.PUT_KEYS, kind="queue", name="q", value="slots = 5"),
        SetupEdit(verb=SetupEditVerb.WRITE_FILE, name=str(cron), attribute="0644", value="a\nb\n"),
        SetupEdit(verb=SetupEditVerb.REMOVE_FILE, name=str(old)),
        RESTART,
    )
    steps = transfer_queue_setup.setup_steps_of_edits(mixed_site, edits)

    lines = SetupPreview(mixed_site, str(toml)).difference_after(steps)

    assert [line for line in lines if line[0] in "+-"] == [
        *(f"--- {toml}", f"+++ {toml}", "-slots = 4  # few", "+slots = 5  # few"),
        *("--- /dev/null", f"+++ {cron}", "+a", "+b"),
        *(f"--- {old}", "+++ /dev/null", "-x"),
    ]


def shown(action: SetupAction, policy: Policy, *edits: SetupEdit) -> str:
    steps = transfer_queue_setup.setup_steps_of_edits(policy, edits)
    command = click.Command(
        "x", callback=lambda: setup_command.act_on_setup_steps(steps, policy, action=action) and None
    )
    return CliRunner().invoke(command).output


def test_the_preview_names_what_restarts_and_what_to_type_next(mixed_site: Policy) -> None:
    assert shown(SetupAction.SHOW, mixed_site, RESTART) == (
        "1 change, in this order:\n"
        f"  restart {RESTART.name}\n\n"
        f"restarts: {RESTART.name}\n"
        "nothing is changed yet: --apply makes the changes, --script prints the commands\n"
    )


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (SetupAction.SHOW, "nothing to do\n"),
        (SetupAction.APPLY, "nothing to do\n"),
        (SetupAction.SCRIPT, "# nothing to do\n"),
    ],
)
def test_a_complete_set_up_is_one_line(action: SetupAction, text: str, mixed_site: Policy) -> None:
    assert shown(action, mixed_site) == text


def test_only_one_of_the_actions_can_be_chosen() -> None:
    done = CliRunner().invoke(setup_command.setup, ["host", "--script", "--dry-run"])

    assert (done.exit_code, "exclude each other" in done.output) == (2, True)
