"""Tests of OAR's arrays, each of whose tasks is a job, and of deleting jobs."""

import json
from types import ModuleType

import pytest

from gridbridge.batch.oar import oar_commands, status, submit
from gridbridge.batch.oar.oar_commands import Argv
from gridbridge.model.jobs_and_accounting import ArrayEndQuery
from gridbridge.model.transfer_route import OarServerAccess
from gridbridge.shell.program_runs import CompletedProgram
from tests.batch.oar.test_oar_output import shown

SERVER = OarServerAccess(timeout_s=15)
NAME = "gc.alpha.12.3"
KILLED_BEFORE = 6  # exit status of oardel for a job that was deleted before


def task(job: int, array: int, **other: object) -> dict[str, object]:
    known = {"name": NAME, "owner": "al_gamma", "array_id": array, "array_index": job - array + 1}
    return shown(Job_Id=job, **(known | other))


def noted(monkeypatch: pytest.MonkeyPatch, adapter: ModuleType, *jobs: dict[str, object]) -> list[Argv]:
    """Make a module's client programs print these jobs; return the list of recorded command lines."""
    asked: list[Argv] = []

    def call(_server: OarServerAccess, argv: Argv, _stdin: bytes = b"", **_: object) -> CompletedProgram:
        asked.append(argv)
        return CompletedProgram(argv, 0, json.dumps({str(one["Job_Id"]): one for one in jobs}).encode(), b"")

    monkeypatch.setattr(adapter, "run_client", call)
    return asked


class Frontend:
    """OAR's programs; oardel finds jobs in `ended` already deleted, and `copy` is the resubmitted job."""

    def __init__(self, *jobs: dict[str, object], scripts: str = "", ended: str = "", copy: object = None) -> None:
        self.jobs, self.scripts, self.ended, self.copy = jobs, scripts, ended, copy
        self.deleted: list[str] = []
        self.queries = 0

    def __call__(self, _server: OarServerAccess, argv: Argv, _stdin: bytes = b"", **_: object) -> CompletedProgram:
        if "/usr/bin/oardel" in argv:
            self.deleted.append(argv[-1])
            return CompletedProgram(argv, KILLED_BEFORE if argv[-1] == self.ended else 0, b"", b"")
        if "ls" in argv:
            return CompletedProgram(argv, 0, self.scripts.encode(), b"")
        self.queries += 1
        if any("resubmit_job_id" in word for word in argv):
            return CompletedProgram(argv, 0, json.dumps({"0": self.copy}).encode() if self.copy else b"", b"")
        wanted = {str(one["Job_Id"]): one for one in self.jobs if "-j" not in argv or str(one["Job_Id"]) == argv[-1]}
        return CompletedProgram(argv, 0, json.dumps(wanted).encode(), b"")


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
    monkeypatch.setattr(submit, "run_client", Frontend(*held, scripts=scripts))

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
    monkeypatch.setattr(submit, "run_client", Frontend(*jobs))

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


ENDED = shown(Job_Id=13, state="Error")
COPY = shown(Job_Id=15, state="Waiting", resubmit_job_id=14)
OWNER = ("al_gamma", "gb.alpha.12.0.1")


def test_a_living_job_is_deleted_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    frontend = Frontend(ENDED, copy=COPY)
    monkeypatch.setattr(submit, "run_client", frontend)
    submit.delete_job(SERVER, "13")

    assert (frontend.deleted, frontend.queries) == (["13"], 0)


@pytest.mark.parametrize(("copy", "owner", "deleted"), [(COPY, OWNER, ["13", "15"]), (None, ("", ""), ["13"])])
def test_only_resubmitted_jobs_of_an_ended_job_are_deleted(
    monkeypatch: pytest.MonkeyPatch, copy: object, owner: tuple[str, str], deleted: list[str]
) -> None:
    frontend = Frontend(ENDED, ended="13", copy=copy)
    monkeypatch.setattr(submit, "run_client", frontend)
    found = submit.query_owner_and_account(SERVER, "13")
    submit.delete_job(SERVER, "13")

    assert (found, frontend.deleted) == (owner, deleted)


def test_resubmitted_jobs_are_queried_by_name_and_owner() -> None:
    assert oar_commands.show_named_jobs_argv(SERVER, "gb.alpha.12.0.1", "o'x", oar_commands.LIVE_COPY)[-1] == (
        "job_name = 'gb.alpha.12.0.1' AND job_user = 'o''x' AND resubmit_job_id <> 0"
        " AND state NOT IN ('Terminated', 'Error')"
    )


def test_live_tasks_of_several_arrays_are_one_query() -> None:
    assert oar_commands.show_live_array_tasks_argv(SERVER, "7", "12")[-1] == (
        "array_id IN (7, 12) AND state NOT IN ('Terminated', 'Error')"
    )


CAMPAIGN = "gc.alpha.3.1"
JOBS = [
    shown(Job_Id=40, name=CAMPAIGN, array_id=40, array_index=1, state="Running"),
    shown(Job_Id=42, name=CAMPAIGN, array_id=40, array_index=2, state="Waiting"),
    shown(Job_Id=43, name=CAMPAIGN, array_id=40, array_index=3, state="Waiting"),
    shown(Job_Id=44, name=CAMPAIGN, array_id=40, array_index=4, state="Error"),
    shown(Job_Id=45, name="another", array_id=40, array_index=4, state="Waiting"),
]


@pytest.mark.parametrize(
    ("places", "about", "deleted"), [("2-4", "40 2 3", ("42", "43")), ("1", "40 1", ("40",)), ("1-3", "40 1 2 3", ())]
)
def test_only_live_tasks_at_the_given_indices_are_deleted(
    monkeypatch: pytest.MonkeyPatch, places: str, about: str, deleted: tuple[str, ...]
) -> None:
    calls = noted(monkeypatch, submit, *JOBS)
    submit.delete_array_tasks(SERVER, "40", CAMPAIGN, places)

    (argv,) = calls[1:]
    assert argv[argv.index("/usr/bin/oardel") + 1 :] == (deleted or ("40", "42", "43"))
    assert argv[4:6] == ("delete_tasks", about)


def test_no_oardel_runs_if_no_task_at_the_indices_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = noted(monkeypatch, submit, *JOBS)
    submit.delete_array_tasks(SERVER, "40", CAMPAIGN, "4,9")

    assert len(calls) == 1


def test_deleting_all_live_tasks_deletes_the_array_and_its_script(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = noted(monkeypatch, submit, *JOBS[:4])
    submit.delete_array_tasks(SERVER, "40", CAMPAIGN, "1-3")

    (argv,) = calls[1:]
    assert argv[4:6] == ("delete_array", "40")
    assert argv[-2:] == ("--array", "40")
