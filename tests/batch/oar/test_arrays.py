"""Tests of OAR's arrays, each of whose tasks is a job."""

import json
from collections.abc import Callable
from types import ModuleType

import pytest

from gridbridge.batch.oar import status, submit
from gridbridge.batch.oar.oar_commands import Argv
from gridbridge.model.jobs_and_accounting import ArrayEndQuery
from gridbridge.model.transfer_route import OarServerAccess
from gridbridge.shell.program_runs import CompletedProgram
from tests.batch.oar.test_oar_output import shown

SERVER = OarServerAccess(timeout_s=15)
NAME = "gc.alpha.12.3"


def task(job: int, array: int, **other: object) -> dict[str, object]:
    """Return an array task as printed by oarstat."""
    known = {"name": NAME, "owner": "al_gamma", "array_id": array, "array_index": job - array + 1}
    return shown(Job_Id=job, **(known | other))


def noted(monkeypatch: pytest.MonkeyPatch, adapter: ModuleType, *jobs: dict[str, object]) -> list[Argv]:
    """Make a module's client programs print these jobs; return the list of command lines."""
    asked: list[Argv] = []

    def call(_server: OarServerAccess, argv: Argv, _stdin: bytes = b"", **_: object) -> CompletedProgram:
        asked.append(argv)
        return CompletedProgram(argv, 0, json.dumps({str(one["Job_Id"]): one for one in jobs}).encode(), b"")

    monkeypatch.setattr(adapter, "run_client", call)
    return asked


def frontend(scripts: str, jobs: list[dict[str, object]]) -> Callable[[OarServerAccess, Argv, bytes], CompletedProgram]:
    """Return a stand-in for OAR that knows stored scripts and jobs."""

    def call(_server: OarServerAccess, argv: Argv, _stdin: bytes = b"", **_: object) -> CompletedProgram:
        if "ls" in argv:
            return CompletedProgram(argv, 0, scripts.encode(), b"")
        if any("resubmit_job_id" in word for word in argv):
            return CompletedProgram(argv, 0, b"", b"")
        wanted = [one for one in jobs if "-j" not in argv or str(one["Job_Id"]) == argv[-1]]
        told = json.dumps({str(one["Job_Id"]): one for one in wanted}) if wanted else ""
        return CompletedProgram(argv, 0, told.encode(), b"")

    return call


@pytest.mark.parametrize(
    ("scripts", "found", "others"),
    [
        ("array.20\n", "20", ["30"]),
        ("array.30\n", "30", ["20"]),
        ("array.20.begun\n", "", ["20", "30"]),
        ("job.20\n", "", ["20", "30"]),
    ],
    ids=["the first", "the second", "none", "no array's"],
)
def test_a_lost_array_is_found_if_its_script_arrived(
    monkeypatch: pytest.MonkeyPatch, scripts: str, found: str, others: list[str]
) -> None:
    held = [task(job, array, state="Hold") for array in (20, 30) for job in (array, array + 1)]
    monkeypatch.setattr(submit, "run_client", frontend(scripts, held))

    assert submit.find_held_job(SERVER, NAME, "al_gamma") == found
    assert submit.find_duplicate_arrays(SERVER, NAME, "al_gamma", found) == others


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("Waiting", "Waiting"), ("al_gamma", NAME)),
        (("Terminated", "Running"), ("al_gamma", NAME)),
        (("Terminated", "Error"), ("", "")),
    ],
)
def test_an_arrays_owner_is_known_while_one_task_lives(
    monkeypatch: pytest.MonkeyPatch, states: tuple[str, str], expected: tuple[str, str]
) -> None:
    """The array's id is the job id of its first task, which may have ended."""
    jobs = [task(20 + place, 20, state=state) for place, state in enumerate(states)]
    monkeypatch.setattr(submit, "run_client", frontend("", jobs))

    assert submit.query_owner_and_account(SERVER, "20") == expected


def test_ends_of_several_arrays_are_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    over = {"state": "Terminated", "exit_code": 256, "startTime": 5, "stopTime": 9}
    other = task(40, 40, name="gc.alpha.12.1", **over)
    jobs = [task(20, 20, **over), task(21, 20, state="Running"), other]

    asked = noted(monkeypatch, status, *jobs)
    arrays = [
        ArrayEndQuery(job_id=20, account=NAME, places=range(1, 3)),
        ArrayEndQuery(job_id=40, account="gc.alpha.12.4", places=range(7, 8)),
    ]
    found = status.query_array_ends(SERVER, arrays)

    assert {account: [*ends] for account, ends in found.items()} == {NAME: [1], "gc.alpha.12.4": []}
    assert [argv[-1] for argv in asked] == [
        "(array_id = 20 AND array_index IN (1, 2) OR array_id = 40 AND array_index IN (7))"
        " AND state IN ('Terminated', 'Error')"
    ]


def test_a_query_for_ends_has_a_limited_number_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(monkeypatch, status)
    many = status.ENDS_AT_ONCE + 1
    arrays = [
        ArrayEndQuery(job_id=20, account=NAME, places=range(1, many)),
        ArrayEndQuery(job_id=4000, account="gc.alpha.12.4", places=(7, 900)),
    ]
    status.query_array_ends(SERVER, arrays)

    assert len(asked) == 2
    assert asked[0][-1].count(",") == status.ENDS_AT_ONCE
    assert "array_id = 4000" not in asked[0][-1]
    assert asked[1][-1].startswith("(array_id = 4000 AND array_index IN (7, 900)) AND ")
