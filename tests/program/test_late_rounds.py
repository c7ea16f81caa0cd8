"""check and status report rebalancing rounds that do not end."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.model.rebalance.published_rebalance_rounds import RebalanceRoundKind
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.program import status_and_why_reports
from gridbridge.rebalance.mover import rebalance_round_runner
from gridbridge.site.cli import status_command
from gridbridge.state import published_json

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def told(folder: Path, at: datetime) -> list[tuple[str, FindingSeverity, str]]:
    found = status_and_why_reports.rebalance_round_findings(at, str(folder))
    return [(one.item, one.state, one.found) for one in found]


def test_a_site_without_rebalance_rounds_has_no_finding(tmp_path: Path) -> None:
    assert (told(tmp_path, NOON), status_and_why_reports.overdue_rebalance_sentences(NOON, str(tmp_path))) == ([], ())


@pytest.mark.parametrize(
    ("kind", "hours", "state"),
    [
        (RebalanceRoundKind.TASKS, 0.4, FindingSeverity.OK),
        (RebalanceRoundKind.TASKS, 0.6, FindingSeverity.WARNING),
        (RebalanceRoundKind.DATASETS, 2.9, FindingSeverity.OK),
        (RebalanceRoundKind.DATASETS, 3.1, FindingSeverity.WARNING),
        (RebalanceRoundKind.READING, 27, FindingSeverity.WARNING),
    ],
)
def test_an_overdue_rebalance_round_is_a_warning(
    tmp_path: Path, kind: RebalanceRoundKind, hours: float, state: FindingSeverity
) -> None:
    """A later round that failed does not hide the overdue round."""
    folder, at = str(tmp_path), NOON + hours * HOUR
    published_json.publish_rebalance_round_begin(kind, NOON, folder)
    published_json.publish_rebalance_round_begin(kind, at, folder)

    assert [one[:2] for one in told(tmp_path, at)] == [(f"rebalancing: {kind.value}", state)]
    assert len(status_and_why_reports.build_site_status_report(at, folder).late) == (state is FindingSeverity.WARNING)


def test_check_and_status_say_since_when_no_round_has_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published_json.publish_rebalance_round_begin(RebalanceRoundKind.DATASETS, NOON - 30 * HOUR, str(tmp_path))
    published_json.publish_rebalance_round_end(RebalanceRoundKind.DATASETS, NOON - 29 * HOUR, str(tmp_path))
    assert told(tmp_path, NOON) == [("rebalancing: datasets", FindingSeverity.OK, "the last round ended 29 h ago")]

    published_json.publish_rebalance_round_begin(RebalanceRoundKind.DATASETS, NOON - 27 * HOUR, str(tmp_path))

    assert told(tmp_path, NOON) == [
        ("rebalancing: datasets", FindingSeverity.WARNING, "no round has ended since a round began 27 h ago")
    ]
    status_command.print_status_report(status_and_why_reports.build_site_status_report(NOON, str(tmp_path)), NOON)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "rebalancing: no round about datasets has ended since a round began 27 h ago"


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_failed_round_stays_open_unless_a_user_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    for act in (
        published_json.publish_rebalance_round_begin,
        published_json.publish_rebalance_round_end,
        published_json.read_published_rebalance_round,
    ):
        monkeypatch.setattr(act, "__defaults__", (str(tmp_path),))
    with (
        pytest.raises(ZeroDivisionError),
        rebalance_round_runner._publish_round_begin_and_end(RebalanceRoundKind.TASKS, is_asked=is_asked),
    ):
        raise ZeroDivisionError
    failed = published_json.read_published_rebalance_round(RebalanceRoundKind.TASKS)
    with rebalance_round_runner._publish_round_begin_and_end(RebalanceRoundKind.TASKS):
        pass
    last = published_json.read_published_rebalance_round(RebalanceRoundKind.TASKS)

    assert failed
    assert last
    assert (failed.is_open, last.is_open) == (not is_asked, False)


def test_a_rebalance_pause_is_a_note_until_it_ends(tmp_path: Path) -> None:
    folder = str(tmp_path)
    published_json.publish_rebalance_pause(NOON - 3 * HOUR, folder)

    (found,) = status_and_why_reports.rebalance_round_findings(NOON, folder)
    assert (found.item, found.state) == ("rebalancing: quiesce", FindingSeverity.NOTE)
    assert found.hint.endswith("gridbridge rebalance quiesce --off")
    assert len(status_and_why_reports.build_site_status_report(NOON, folder).late) == 1

    published_json.publish_rebalance_pause(None, folder)
    assert (told(tmp_path, NOON), status_and_why_reports.overdue_rebalance_sentences(NOON, folder)) == ([], ())
