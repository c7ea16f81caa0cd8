"""status, why and check read only published files, also those of rebalancing rounds that do not end."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.decisions.transfer.transfer_status_explanation import NEVER_PUBLISHED
from gridbridge.errors import ParseError, StateError
from gridbridge.model.published_status_and_reports import PublishedConfigurationStatus
from gridbridge.model.rebalance.published_rebalance_rounds import RebalanceRoundKind
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.model.site.site_check_facts import FolderFreeSpace
from gridbridge.program import status_and_why_reports
from gridbridge.program.status_and_why_reports import (
    JobWithoutTransfers,
    build_site_status_report,
    explain_transfers_of_local_job,
)
from gridbridge.rebalance.mover import rebalance_round_runner
from gridbridge.shell import local_host_facts
from gridbridge.site.cli import status_command
from gridbridge.state import published_json
from tests.shown import NOW, history, load, publish, service, shown, transfer
from tests.steps import steps


def test_status_names_a_full_folder_as_the_reason_of_a_silent_poller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = publish(tmp_path, shown(load=load(age_s=95)))
    monkeypatch.setattr(local_host_facts, "free_bytes_and_files_of_folder", lambda _: FolderFreeSpace(free_bytes=0))

    assert build_site_status_report(NOW, folder).alarm.endswith(
        f"closed; {folder} is full: 0 KiB are free, 1024 are needed"
    )


@pytest.mark.parametrize("is_silent", [True, False], ids=["silent", "alive"])
def test_status_and_why_report_a_wrong_configuration_line(tmp_path: Path, is_silent: bool) -> None:
    """A running poller publishes its refusal. If the poller is stopped, the commands check the file."""
    wrong = "[site] cluster"
    path = tmp_path / "gridbridge.toml"
    path.write_text("[site]\n")
    refused = PublishedConfigurationStatus(sha256="1f", since=NOW, refused_sha256="2e", refused=(wrong,))
    seen = shown(transfer(), load=load(age_s=95 if is_silent else 5), service=replace(service(), configuration=refused))
    folder = publish(tmp_path, seen, history(transfer(), "submitted to beta"))

    told = build_site_status_report(NOW, folder, str(path)).alarm
    alarm, _ = explain_transfers_of_local_job("12", NOW, folder, str(path))

    assert alarm == told
    assert wrong in told
    assert told.startswith("gridbridge-poller is silent") is is_silent


def test_status_of_an_empty_folder_reports_that_no_poller_ever_ran(tmp_path: Path) -> None:
    told = build_site_status_report(NOW, str(tmp_path))

    assert told.alarm == NEVER_PUBLISHED
    assert (told.clusters, told.queues, told.transfers) == ((), (), ())


def test_why_of_an_array_lists_its_tasks_in_order(tmp_path: Path) -> None:
    names = ("gb.alpha.12.10.1", "gb.alpha.12.2.1", "gb.alpha.120.1.1")
    tasks = [history(transfer(transfer=name)) for name in names]
    folder = publish(tmp_path, shown(), *tasks)

    assert [told.job for told in explain_transfers_of_local_job("12", NOW, folder)[1]] == ["12.2", "12.10"]
    assert [told.job for told in explain_transfers_of_local_job("12.10", NOW, folder)[1]] == ["12.10"]


def test_why_of_an_unknown_job_names_closed_queues(tmp_path: Path) -> None:
    closed = shown(load=load({"gb_beta_up": "1", "gb_beta_pending": "11"}))

    with pytest.raises(JobWithoutTransfers) as refused:
        explain_transfers_of_local_job("99", NOW, publish(tmp_path, closed))

    assert str(refused.value) == (
        "job 99: no transfer in the last 24 h "
        "(qstat -j 99 shows a waiting job, qacct -j 99 an ended job); "
        "transfer-beta takes no jobs: 11 jobs wait at beta; the limit is 10"
    )


@pytest.mark.parametrize("job", ["", "x", "0", "1.0", "1.2.3", "-1", "1/../2", "٣", "9" * 10])
def test_a_text_that_is_no_job_id_is_refused(tmp_path: Path, job: str) -> None:
    with pytest.raises(ParseError, match="is not a job id"):
        explain_transfers_of_local_job(job, NOW, str(tmp_path))


FOREIGN = [("service", text) for text in ('{"cluster": 1}', "null", "7", "[" * 100000, "\xff")]
IMPOSSIBLE = [("load", f"{head}\n") for head in ("nan 30", "1e300 30", "5 inf", "5 nan", "-1 30")]


@pytest.mark.parametrize(("name", "text"), FOREIGN + IMPOSSIBLE, ids=lambda text: text[:9])
def test_a_published_file_of_another_version_or_with_an_impossible_time_is_refused(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / ("service.json" if name == "service" else name)).write_text(text)

    why = r"service\.json: not what this version|load: the first line has an impossible time"
    with pytest.raises(StateError if name == "service" else ParseError, match=why):
        build_site_status_report(NOW, str(tmp_path))


def test_why_opens_only_the_files_of_its_job(tmp_path: Path) -> None:
    open_ones = [transfer(transfer=f"gb.alpha.{job}.0.1") for job in range(1, 21)]
    closed = [transfer(transfer=f"gb.alpha.{job}.1.1") for job in range(201, 701)]
    folder = publish(tmp_path, shown(*open_ones), *map(history, closed[-1:]))
    explain_transfers_of_local_job("700", NOW, folder)  # loads what it needs
    among_few = steps(lambda: explain_transfers_of_local_job("700", NOW, folder))
    publish(tmp_path, shown(*open_ones), *map(history, closed))

    assert steps(lambda: explain_transfers_of_local_job("700", NOW, folder)) <= among_few + 9 * len(closed)


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
def test_a_failed_round_stays_open_unless_a_user_started_it(tmp_path: Path, is_asked: bool) -> None:
    about = (RebalanceRoundKind.TASKS, str(tmp_path))
    with (
        pytest.raises(ZeroDivisionError),
        rebalance_round_runner._publish_round_begin_and_end(*about, is_asked=is_asked),
    ):
        raise ZeroDivisionError
    failed = published_json.read_published_rebalance_round(*about)
    with rebalance_round_runner._publish_round_begin_and_end(*about):
        pass
    last = published_json.read_published_rebalance_round(*about)

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
