"""Tests of accounting lines of several versions of Grid Engine, and of the search for them in accounting files."""

import gzip
import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gridbridge.batch.gridengine import accounting_record_parser as parser
from gridbridge.batch.gridengine import sge_command_line_builders
from gridbridge.batch.gridengine.status import NO_LINE, NOT_READ, query_array_ends
from gridbridge.elastic.simulation.replay_workload import parse_accounting_tasks
from gridbridge.errors import CommandFailed, ParseError
from gridbridge.model.elastic.replay_tasks_and_results import RecordedReplayTask, ReplayExclusionReason
from gridbridge.model.jobs_and_accounting import ArrayEndQuery, FutureDatedJobEnd
from tests.batch.gridengine.cells import cell_of_scripts
from tests.batch.gridengine.test_qacct import OURS, task
from tests.builders.golden import CAPTURED

ACCOUNT = "gb.alpha.7.0.1"
FRONT = f"all.q:n1:users:alice:solve:12:{ACCOUNT}:0"
SECONDS, MILLISECONDS = "1000:1060:1660", "1448376371581:1448376371857:1448376971857"
USED = "0:0:600:5.5:0.5:5456:0:0:0:0:23373:0:0:16:168:0:0:0:352:84:NONE:all:NONE:2:3:6.0:1.5:0.1"
CATEGORIES = ("-q all.q", "-l h_rt=1:0:0 -q all.q", "NONE", "-l a=0.0:x:0.0")
BEHIND = ":0.0:NONE:6099869696"
UNIVA = (
    "NONE:NONE:0:0:n1:/home/alice",
    "0:0:NONE:NONE:0:0:n1:NONE:NONE:62331.836000",
    "NONE:NONE:0:0:n1:/home/alice:qsub -l h_rt=1:00:00 job.sh:62331.83",
    "NONE:NONE:0:0:n1:/home/alice:qsub -l h_rt=24:00:00 -N x job.sh a:1:2",
    "NONE:NONE:0:1024:0:10:62.3",
)


def object_line(**changed: object) -> str:
    usual = {
        "job_number": 12,
        "task_number": 3,
        "start_time": 1730532913000000,
        "end_time": 1730533513000000,
        "owner": "alice",
        "account": ACCOUNT,
        "qname": "all.q",
        "hostname": "n1",
        "slots": 2,
        "job_name": "solve",
        "submission_time": 1730532853000000,
        "category": "",
        "failed": 0,
        "exit_status": 0,
        "usage": {
            "rusage": {"ru_wallclock": 600, "ru_utime": 5.5, "ru_stime": 0.5, "ru_maxrss": 5456, "ru_oublock": 168},
            "usage": {"wallclock": 600.1, "cpu": 6.0, "maxvmem": 6099869696},
        },
    }
    return json.dumps(usual | changed, separators=(",", ":"))


FORMS = {
    "8.1.9": [f"{FRONT}:{SECONDS}:{USED}:{each}{BEHIND}:0:0" for each in CATEGORIES],
    "6.1": [f"{FRONT}:{SECONDS}:{USED}:{each}{BEHIND}" for each in CATEGORIES],
    "Univa": [f"{FRONT}:{MILLISECONDS}:{USED}:{each}{BEHIND}:0:0:{more}" for each in CATEGORIES for more in UNIVA],
    "OCS": [object_line()],
}
LINES = [pytest.param(line, id=f"{form} {at}") for form in FORMS for at, line in enumerate(FORMS[form])]


@pytest.mark.parametrize("line", LINES)
def test_every_reader_parses_accounting_lines_of_every_version(line: str) -> None:
    data = f"{line}\n".encode()
    ((_, ran),) = parse_accounting_tasks([data])
    ((end, owner, name),) = parser.parse_task_end_times(data)
    ((_, usage),), skipped = parser.parse_records_by_account_prefix(data, "gb.")
    (record,) = parser.parse_accounting_records(data)

    assert isinstance(ran, RecordedReplayTask)
    assert (ran.slots, round(ran.run_s), ran.owner, ran.name) == (2, 600, "alice", "solve")
    assert (round(end.run_s), owner, name) == (600, "alice", "solve")
    assert (record.task, record.pe_task, record.user_s, record.account) == (3, "", 5.5, ACCOUNT)
    assert (record.max_rss_kb, record.max_vmem_kb, record.written_kb) == (5456, 6099869696 / 1024, 84)
    assert (usage, skipped) == (record, 0)
    assert record.started_at
    assert record.ended_at
    assert round((record.ended_at - record.started_at).total_seconds()) == 600


@pytest.mark.parametrize("line", LINES)
def test_an_array_tasks_end_is_parsed_from_every_version(line: str) -> None:
    task = line.replace(ACCOUNT, "gc.alpha.3.1")
    asked = [ArrayEndQuery(job_id=12, account="gc.alpha.3.1", places=(3,))]

    (found,) = parser.parse_array_task_records(f"# x\n{task}\n{line}\n".encode(), asked)

    assert (found.job_id, found.task, found.exit_status) == (12, 3, 0)


@pytest.mark.parametrize("line", [each for form in ("8.1.9", "6.1", "Univa") for each in FORMS[form]])
def test_a_part_of_a_parallel_task_is_recognized_in_every_version(line: str) -> None:
    part = line.replace(":0.0:NONE:6099869696", ":0.0:1.n2:6099869696")

    assert parser.parse_accounting_line(part)["pe_taskid"] == "1.n2"
    assert [why for _, why in parse_accounting_tasks([part.encode()])] == [ReplayExclusionReason.PART]


@pytest.mark.parametrize("behind", [":0:0", "", f":0:0:{UNIVA[0]}"])
def test_a_job_that_never_started_has_no_times_in_any_version(behind: str) -> None:
    line = f"{FRONT}:0:0:0:9:{USED[2:]}:NONE{BEHIND}{behind}".encode()

    assert [why for _, why in parse_accounting_tasks([line])] == [ReplayExclusionReason.NEVER_STARTED]
    assert list(parser.parse_task_end_times(line)) == []


@pytest.mark.parametrize(
    "line",
    [
        "all.q:n1:users:alice",
        f"{FRONT}:{SECONDS}:{USED}:NONE",
        f"{FRONT}:{SECONDS}:{USED}:NONE:0.0:NONE:many:0:0",
        object_line()[:-1],
        object_line(usage={}),
        object_line(usage=None),
        '{"job_number": 1}',
        "{" * 100_000,
    ],
)
def test_a_malformed_accounting_line_is_a_parse_error(line: str) -> None:
    with pytest.raises(ParseError, match="accounting"):
        parser.parse_accounting_line(line)


def test_a_forged_line_of_another_format_is_ignored() -> None:
    """A line feed in a request puts a whole line into the accounting file."""
    for inner in (FORMS["Univa"][0], FORMS["6.1"][0], FORMS["OCS"][0]):
        smuggled = f"{FRONT}:{SECONDS}:{USED}:-l a=x\n{inner}\nz{BEHIND}:0:0\n"
        at_the_end = f"{FRONT}:{SECONDS}:{USED}:-l a=x\n{inner}\n"

        assert parser.parse_records_by_account_prefix(smuggled.encode(), "gb.")[0] == ()
        assert parser.parse_records_by_account_prefix(at_the_end.encode(), "gb.")[0] == ()


def test_adjacent_json_records_are_all_parsed() -> None:
    object_ = FORMS["OCS"][0]

    assert len(parser.parse_records_by_account_prefix(f"{object_}\n{object_}\n--\n{object_}\n".encode(), "gb.")[0]) == 3


@pytest.mark.parametrize("name", ["accounting", "accounting.jsonl"])
def test_accounting_search_reads_the_file_format_that_the_cell_has(tmp_path: Path, name: str) -> None:
    cell = cell_of_scripts(tmp_path)
    common = tmp_path / cell.cell / "common"
    common.mkdir(parents=True)
    form = "8.1.9" if name == "accounting" else "OCS"
    (common / name).write_text(f"{FORMS[form][0]}\n")

    for argv in (
        sge_command_line_builders.search_accounting_argv(cell, [ACCOUNT]),
        sge_command_line_builders.search_rotated_accounting_argv(cell, [ACCOUNT], 0),
    ):
        done = subprocess.run(argv, capture_output=True, check=False)

        assert (done.returncode, done.stdout.decode()) == (0, f"{FORMS[form][0]}\n")


NOW = datetime.now(UTC)
BLOCKS = CAPTURED / "qacct-array.txt"


class AccountingCell:
    """A cell with an accounting file, and with a qacct that records its calls."""

    def __init__(self, folder: Path) -> None:
        self.calls, self.file = folder / "calls", folder / "b/common/accounting"
        self.file.parent.mkdir(parents=True)
        self.cell = cell_of_scripts(folder, qacct=f"echo $* >>'{self.calls}'\ncat '{BLOCKS}'")

    def query(self, *numbers: int, looks_since: datetime | None = None) -> dict[str, dict[int, Any]]:
        usual: dict[str, Any] = {"places": range(1, 9), "looks_since": looks_since}
        arrays = [ArrayEndQuery(job_id=number, account=f"gc.alpha.3.{number}", **usual) for number in numbers]
        return query_array_ends(self.cell, arrays)

    def ends(self, *numbers: int, **options: Any) -> dict[str, dict[int, int | None]]:
        """Return the exit status of each ended task, by the array's account and by task index."""
        return {
            account: {place: end.exit_status for place, end in ends.items()}
            for account, ends in self.query(*numbers, **options).items()
        }

    def replace_qacct(self, commands: str) -> None:
        (Path(self.cell.binaries) / "qacct").write_text(f"#!/bin/sh\n{commands}\n")


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> AccountingCell:
    return AccountingCell(tmp_path)


def _task(place: int, status: int, number: int) -> bytes:
    return task(place, status, (number, f"gc.alpha.3.{number}"))


def test_ends_of_several_arrays_are_read_without_qacct(site: AccountingCell) -> None:
    lines = (OURS, _task(1, 4, 7), _task(1, 5, 8), OURS, OURS, _task(2, 0, 7), _task(1, 0, 9))
    site.file.write_bytes(b"".join(lines))

    assert site.ends(7, 8) == {"gc.alpha.3.7": {1: 4, 2: 0}, "gc.alpha.3.8": {1: 5}}
    assert not site.calls.exists()


def test_an_array_without_records_has_no_ends(site: AccountingCell) -> None:
    site.file.write_bytes(OURS)

    assert site.ends(7, 8) == {}


def test_an_end_in_the_future_is_returned_as_future_dated(site: AccountingCell) -> None:
    fields = _task(1, 0, 7).split(b":")
    fields[10] = b"4102444800"
    site.file.write_bytes(b":".join(fields))

    found = site.query(7)["gc.alpha.3.7"][1]

    assert isinstance(found, FutureDatedJobEnd)
    assert (found.ended_at, found.host) == (datetime(2100, 1, 1, tzinfo=UTC), "alpha-n2")


def test_qacct_is_called_for_each_array_if_the_accounting_file_is_missing(site: AccountingCell) -> None:
    found = site.ends(7, 8)

    assert found == {"gc.alpha.3.7": {}, "gc.alpha.3.8": {}}
    assert site.calls.read_text().splitlines() == ["-j 7", "-j 8"]


def test_a_failed_qacct_raises_command_failed(site: AccountingCell) -> None:
    site.replace_qacct("exit 3")

    with pytest.raises(CommandFailed):
        site.ends(7)


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        ("error: unable to open /var/lib/gridengine/beta/common/accounting", False),
        ("/var/lib/gridengine/beta/common/accounting: Stale file handle", False),
        ("/var/lib/gridengine/beta/common/accounting: No such file or directory", True),
    ],
)
def test_an_unreadable_accounting_file_is_no_empty_accounting_file(
    site: AccountingCell, said: str, is_told: bool
) -> None:
    site.replace_qacct(f"echo no jobs running since startup; echo '{said}' >&2; exit 1")

    if is_told:
        assert site.ends(7) == {"gc.alpha.3.7": {}}
    else:
        with pytest.raises(CommandFailed):
            site.ends(7)


def test_a_rotated_file_is_read_if_the_current_file_is_missing(site: AccountingCell) -> None:
    Path(f"{site.file}.0").write_bytes(OURS + _task(1, 4, 7))

    assert site.ends(7) == {"gc.alpha.3.7": {1: 4}}


@pytest.mark.parametrize("name", ["accounting.3", "accounting.5.gz", "accounting-20261127.gz"])
def test_rotated_files_since_the_submission_are_searched(site: AccountingCell, name: str) -> None:
    kept = site.file.parent / name
    lines = OURS + _task(1, 0, 7)
    kept.write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
    written = NOW - timedelta(days=4)
    os.utime(kept, (written.timestamp(),) * 2)
    site.file.write_bytes(OURS)

    assert site.ends(7) == {}
    assert site.ends(7, looks_since=written - timedelta(days=1)) == {"gc.alpha.3.7": {1: 0}}
    assert site.ends(7, looks_since=written + timedelta(days=1)) == {}


def test_a_search_of_rotated_files_that_times_out_is_replaced_by_a_short_search(
    site: AccountingCell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sge_command_line_builders, "ALL_ACCOUNTED", "sleep 60")
    site.file.write_bytes(OURS + _task(1, 0, 7))
    site.cell = site.cell.with_time_limit(0.2)

    assert site.ends(7, looks_since=NOW) == {"gc.alpha.3.7": {1: 0}}
    assert "event=not_all_accounting_read cell=b" in caplog.text


DAY_S = 86400.0


@pytest.fixture(name="common")
def _common(tmp_path: Path) -> Path:
    common = tmp_path / "b" / "common"
    common.mkdir(parents=True)
    return common


def write_lines(file: Path, *accounts: str, days_old: float = 0) -> None:
    file.write_text("".join(f"all.q:host:{account}:0\n" for account in accounts))
    at = file.stat().st_mtime - days_old * DAY_S
    os.utime(file, (at, at))


def accounts_found(common: Path, *accounts: str) -> tuple[int, list[str]]:
    argv = sge_command_line_builders.search_accounting_argv(cell_of_scripts(common.parents[1]), list(accounts))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, [line.split(":")[2] for line in done.stdout.splitlines() if ":" in line]


def test_accounting_lines_of_an_account_are_found(common: Path) -> None:
    write_lines(common / "accounting", "gc.1.1", "x", "y", "gc.1.2", "z", "gc.1.22")

    assert accounts_found(common, "gc.1.2") == (0, ["y", "gc.1.2", "z"])


@pytest.mark.parametrize("name", ["accounting.0", "accounting.1", "accounting-20260101"])
def test_recently_rotated_files_are_searched_first(common: Path, name: str) -> None:
    write_lines(common / name, "gc.1.1", days_old=1)
    write_lines(common / "accounting", "gc.1.2")

    assert accounts_found(common, "gc.1.1", "gc.1.2") == (0, ["gc.1.1", "gc.1.2"])


@pytest.mark.parametrize(("name", "days_old"), [("accounting.0", 3), ("accounting.1.gz", 0), ("accounting.save", 0)])
def test_old_and_compressed_files_are_not_searched(common: Path, name: str, days_old: int) -> None:
    write_lines(common / name, "gc.1.1", days_old=days_old)
    write_lines(common / "accounting", "x")

    assert accounts_found(common, "gc.1.1") == (NO_LINE, [])


def test_a_missing_accounting_file_or_folder_is_reported(common: Path) -> None:
    write_lines(common / "accounting.0", "gc.1.1")
    missing = accounts_found(common, "gc.1.1")[0]
    (common / "accounting.0").unlink()
    common.rmdir()

    assert (missing, accounts_found(common, "gc.1.1")[0]) == (NOT_READ, NOT_READ)
