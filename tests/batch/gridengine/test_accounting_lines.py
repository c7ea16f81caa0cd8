"""Tests of accounting lines as written by several versions of Grid Engine."""

import json
import subprocess
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import accounting_record_parser as parser
from gridbridge.batch.gridengine import client_commands
from gridbridge.elastic.simulation.replay_workload import parse_accounting_tasks
from gridbridge.errors import ParseError
from gridbridge.model.elastic.replay_tasks_and_results import RecordedReplayTask, ReplayExclusionReason
from gridbridge.model.jobs_and_accounting import ArrayEndQuery
from tests.batch.gridengine.cells import cell_of_scripts

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
            "rusage": {"ru_wallclock": 600, "ru_utime": 5.5, "ru_stime": 0.5, "ru_maxrss": 5456},
            "usage": {"wallclock": 600.1, "cpu": 6.0},
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
        client_commands.search_accounting_argv(cell, [ACCOUNT]),
        client_commands.search_rotated_accounting_argv(cell, [ACCOUNT], 0),
    ):
        done = subprocess.run(argv, capture_output=True, check=False)

        assert (done.returncode, done.stdout.decode()) == (0, f"{FORMS[form][0]}\n")
