"""Statistics rows, ended tasks and published figures of rounds, also after log rotations and faults."""

import gzip
import logging
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.decisions.elastic.balancer_round_reports import BalancerRoundNodeChanges, count_balancer_round_figures
from gridbridge.elastic.balancer import balance_situation_sources, balancer_statistics_and_publication
from gridbridge.elastic.balancer.balancer_statistics_and_publication import (
    BalancerStatisticsPaths,
    local_accounting_file_path,
    publish_balancer_round,
    publish_round_without_cell_answer,
    record_balancer_statistics,
)
from gridbridge.elastic.balancer_round_queries import read_stored_task_ends
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePlanReason, BalanceSituation
from gridbridge.model.elastic.published_balance import (
    BalanceRoundStatistics,
    RecentlyEndedTasks,
    update_learnt_run_times,
)
from gridbridge.model.site_configuration import ClusterSection
from tests.decisions.elastic.cells import NOON, instance, situation
from tests.elastic.saved_rounds import save_round
from tests.measured import FIGURES

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
RECORD = (
    "all.q:alpha-n1:alice:alice:job:{job}:sge:0:{submitted}:{started}:{ended}:{failed}:0:0:0.1:0.1"
    ":4796.0:0:0:0:0:680:0:0:24.0:16:0:0:0:19:9:NONE:defaultdepartment:NONE:1:{task}:0.1:0.0:0.0:"
    "-l a=b,c=x\\:y:0.0:{part}:0.0:0:0\n"
)


def record(
    minutes: float, run_s: float, wait_s: float = 0.0, *, failed: int = 0, part: str = "NONE", task: int = 0
) -> str:
    ended = int(NOW.timestamp() - minutes * 60)
    return RECORD.format(
        job=7,
        submitted=int(ended - run_s - wait_s),
        started=int(ended - run_s),
        ended=ended,
        failed=failed,
        part=part,
        task=task,
    )


class Round:
    def __init__(self, folder: Path) -> None:
        (folder / "seen").mkdir()
        seen = balance_situation_sources.load_saved_balance_situation(str(save_round(folder / "seen")))
        self.seen: BalanceSituation = replace(seen, now=NOW)
        self.accounting = folder / "accounting"
        self.stats = folder / "stats.csv"
        self.kept = folder / "ends.json"

    def note(self, later: timedelta = timedelta()) -> BalanceRoundStatistics:
        seeing = BalancerStatisticsPaths(accounting=str(self.accounting), kept=str(self.kept), stats=str(self.stats))
        return record_balancer_statistics(replace(self.seen, now=NOW + later), "all.q", seeing)

    def add(self, *records: str) -> None:
        with self.accounting.open("a") as file:
            file.write("".join(records))


@pytest.fixture
def cell(tmp_path: Path) -> Round:
    return Round(tmp_path)


def test_a_row_has_the_columns_of_starcluster_and_a_time_with_a_zone(cell: Round) -> None:
    cell.add(record(5, 3600, 60), record(1, 1800, 30))
    found = cell.note()

    assert cell.stats.read_text() == (
        f"2026-03-01T12:00:30+00:00,3,{found.running},{found.queued},{found.slots},2700,45,{found.load:.2f}\n"
    )


def test_recorded_rows_can_be_read_back(cell: Round) -> None:
    found = [cell.note(timedelta(minutes=n)) for n in range(3)]

    assert balancer_statistics_and_publication.read_balancer_statistics(str(cell.stats)) == (
        tuple(replace(one, load=round(one.load, 2)) for one in found),
        (),
    )


def test_without_accounting_the_mean_times_are_0(cell: Round) -> None:
    found = cell.note()

    assert (found.duration_s, found.wait_s) == (0, 0)
    assert not cell.kept.exists()


def test_each_accounting_record_is_read_once(cell: Round) -> None:
    cell.add(record(5, 10))
    cell.note()
    place = read_stored_task_ends(str(cell.kept)).place
    cell.add(record(1, 30))

    assert place.offset == len(record(5, 10))
    assert cell.note().duration_s == 20
    assert read_stored_task_ends(str(cell.kept)).place.offset == place.offset + len(record(1, 30))


@pytest.mark.parametrize("is_copied", [False, True], ids=["renamed", "copied and cut"])
def test_tasks_that_ended_around_a_log_rotation_count(cell: Round, is_copied: bool) -> None:
    cell.add(record(9, 10))
    cell.note()
    cell.add(record(8, 20))
    old = cell.accounting.with_name("accounting.1")
    if is_copied:
        shutil.copy(cell.accounting, old)
        cell.accounting.write_text("")
    else:
        cell.accounting.rename(old)
    os.utime(old, (NOW.timestamp(),) * 2)  # long enough ago that nobody still writes to it
    cell.add(record(7, 60))
    cell.note(timedelta(minutes=1))

    assert cell.note(timedelta(minutes=2)).duration_s == 30


def test_an_immediately_compressed_rotation_loses_only_unread_records(cell: Round) -> None:
    cell.add(record(9, 10))
    cell.note()
    cell.accounting.with_name("accounting.1.gz").write_bytes(gzip.compress(cell.accounting.read_bytes()))
    cell.accounting.unlink()
    cell.add(record(7, 30))

    assert cell.note().duration_s == 20


def test_records_of_tasks_that_did_not_run_to_an_end_are_skipped(cell: Round) -> None:
    never = record(3, 100).replace(f":{int(NOW.timestamp() - 280)}:", ":0:")
    cell.add(
        "# a comment\n",
        "a line of something else\n",
        record(5, 40),
        record(5, 900, failed=25),
        record(5, 900, failed=24),
        record(5, 900, part="1.alpha-n2"),
        never,
    )

    assert cell.note().duration_s == 40


def test_a_damaged_file_of_ended_tasks_is_replaced(cell: Round) -> None:
    cell.add(record(5, 40))
    cell.kept.write_text('{"place": 7')

    assert cell.note().duration_s == 40
    assert read_stored_task_ends(str(cell.kept)).place.offset == len(record(5, 40))


def test_the_run_time_of_a_job_name_is_learnt_from_recent_tasks(cell: Round) -> None:
    cell.add(record(9, 10), record(8, 30))
    cell.note()
    first = read_stored_task_ends(str(cell.kept)).runtimes
    cell.add(record(5, 80))
    cell.note()
    second = read_stored_task_ends(str(cell.kept)).runtimes
    cell.add(*(record(4, 40) for _ in range(100)), *(record(3, 400) for _ in range(60)))
    cell.note()

    (whose,) = first
    assert (whose[0], first[whose], second[whose]) == ("alice", 20.0, 40.0)
    plain = (10 + 30 + 80 + 100 * 40 + 60 * 400) / 163
    assert plain + 50 < read_stored_task_ends(str(cell.kept)).runtimes[whose] < 400


def test_the_oldest_job_names_are_forgotten() -> None:
    many = [("alice", f"job{number}", 1.0) for number in range(3000)]
    found = update_learnt_run_times(update_learnt_run_times((), many), [("alice", "job1001", 1.0)])

    assert (len(found), found[-1].name, found[0].name) == (2000, "job1001", "job1000")


def test_many_job_names_of_one_owner_do_not_displace_names_of_others() -> None:
    many = [("bob", f"job{number}", 1.0) for number in range(3000)]
    found = update_learnt_run_times((), [("alice", "align", 5.0), ("carol", "sort", 7.0), *many])

    assert [(one.owner, one.name) for one in found[:3]] == [("alice", "align"), ("carol", "sort"), ("bob", "job1002")]
    assert len(found) == 2000


def test_of_very_many_owners_the_most_recent_are_kept() -> None:
    found = update_learnt_run_times((), [(f"owner{number}", "job", 1.0) for number in range(2500)])

    assert (len(found), found[0].owner, found[-1].owner) == (2000, "owner500", "owner2499")


def test_the_file_of_ended_tasks_has_one_entry_per_minute_of_the_last_week(cell: Round) -> None:
    cell.add(*(record(minutes, 10) for minutes in (20000, *(3 for _ in range(500)))))
    cell.note()

    kept_now = read_stored_task_ends(str(cell.kept)).minutes
    assert [(one.tasks, one.run_s) for one in kept_now] == [(500, 5000.0)]


def test_an_unwritable_statistics_file_stops_no_round(cell: Round, caplog: pytest.LogCaptureFixture) -> None:
    cell.stats.mkdir()
    with caplog.at_level(logging.WARNING):
        found = cell.note()

    assert found.hosts == 3
    assert f"{cell.stats}: Is a directory" in caplog.text


def test_all_users_may_read_the_statistics_and_only_the_owner_may_write(cell: Round) -> None:
    before = os.umask(0)
    try:
        cell.note()
    finally:
        os.umask(before)

    assert cell.stats.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("older", "invalid"),
    [("2026-03-01,3,1\n2026-03-01 11:59:30,3,1,2,8,60,5,0.5,extra\n", (1, 2)), ("2026-03-01T11:59:30+00:00,3,1", (1,))],
    ids=["other columns", "an incomplete row"],
)
def test_invalid_rows_are_kept_in_the_file_and_skipped(cell: Round, older: str, invalid: tuple[int, ...]) -> None:
    cell.stats.write_text(older)
    cell.note()

    found, left_out = balancer_statistics_and_publication.read_balancer_statistics(str(cell.stats))
    assert ([one.at for one in found], left_out) == ([NOW], invalid)
    assert cell.stats.read_text().startswith(older)


def test_the_accounting_file_is_where_grid_engine_writes_it_unless_configured() -> None:
    usual = ClusterSection(root="/sge", cell="")

    assert local_accounting_file_path(usual, "alpha") == "/sge/alpha/common/accounting"
    assert local_accounting_file_path(replace(usual, accounting="/log/acct"), "alpha") == "/log/acct"


ONE_NODE = situation(instance("n1", (1,)))
PLAN = BalancePlan(verdict=BalancePlanReason.WAITS, figures=FIGURES)


def publish(folder: Path, done: BalancerRoundNodeChanges) -> None:
    counted = count_balancer_round_figures(ONE_NODE, RecentlyEndedTasks(), "all.q")
    publish_balancer_round("alpha", ONE_NODE, PLAN, counted, done, str(folder))


def test_the_figures_of_successive_rounds_are_published_for_all_users(tmp_path: Path) -> None:
    folder = tmp_path / "published"
    publish(folder, BalancerRoundNodeChanges(added={"usual": 2}))
    publish(folder, BalancerRoundNodeChanges(added={"usual": 1}))
    publish_round_without_cell_answer("alpha", NOON, "no answer", folder=str(folder))

    found = balancer_statistics_and_publication.read_published_balance(str(folder))
    assert found is not None
    assert (found.rounds, found.blind_rounds, found.pools[0].added) == (3, 1, 3)
    history = balancer_statistics_and_publication.read_published_node_history(str(folder))
    assert history
    assert [one.hosts for one in history.samples] == [1]
    for name in ("balance.json", "nodes.json"):
        assert (folder / name).stat().st_mode & 0o777 == 0o644
    assert folder.stat().st_mode & 0o005 == 0o005


def test_an_unreadable_published_file_resets_the_counters(tmp_path: Path) -> None:
    for name in ("balance.json", "nodes.json"):
        (tmp_path / name).write_text("{")
    publish(tmp_path, BalancerRoundNodeChanges(added={"usual": 2}))

    found = balancer_statistics_and_publication.read_published_balance(str(tmp_path))
    assert found is not None
    assert (found.rounds, found.pools[0].added) == (1, 2)


def test_a_folder_that_cannot_be_created_stops_no_round(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        publish(tmp_path / "file" / "in", BalancerRoundNodeChanges())

    assert "event=not_shown" in caplog.text
