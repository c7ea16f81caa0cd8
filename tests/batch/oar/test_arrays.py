"""Tests of OAR's arrays, each of whose tasks is a job, and of deleting jobs."""

import pytest

from gridbridge.batch.oar import job_submission_and_control, oar_command_line_builders, oar_programs, status
from gridbridge.batch.oar.oar_command_line_builders import Argv
from gridbridge.model.jobs_and_accounting import ArrayEndQuery
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell.program_runs import CompletedProgram
from tests.batch.oar.test_oar_output import answer, shown

SERVER = OarServerAccessSettings(timeout_s=15)
NAME = "gc.alpha.12.3"
OARDEL = "/usr/bin/oardel"
KILLED_BEFORE = 6  # exit status of oardel for a job that was deleted before


Job = dict[str, object]


def task(job: int, array: int, **other: object) -> dict[str, object]:
    known = {"name": NAME, "owner": "al_gamma", "array_id": array, "array_index": job - array + 1}
    return shown(Job_Id=job, **(known | other))


class Frontend:
    """OAR's programs; oardel finds jobs in `ended` already deleted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *jobs: Job, scripts: str = "", ended: str = "") -> None:
        self.jobs, self.scripts, self.ended = jobs, scripts, ended
        self.copies: tuple[Job, ...] = ()  # resubmitted jobs
        self.argvs: list[Argv] = []
        monkeypatch.setattr(oar_programs, "run_client", self._run)

    @property
    def deleted(self) -> list[str]:
        return [argv[-1] for argv in self.argvs if OARDEL in argv]

    def _run(self, _server: OarServerAccessSettings, argv: Argv, _stdin: bytes = b"", **_: object) -> CompletedProgram:
        self.argvs.append(argv)
        if OARDEL in argv:
            return CompletedProgram(argv, KILLED_BEFORE if argv[-1] == self.ended else 0, b"", b"")
        if "ls" in argv:
            return CompletedProgram(argv, 0, self.scripts.encode(), b"")
        if any("resubmit_job_id" in word for word in argv):
            return CompletedProgram(argv, 0, answer(*self.copies), b"")
        wanted = [job for job in self.jobs if "-j" not in argv or str(job["Job_Id"]) == argv[-1]]
        return CompletedProgram(argv, 0, answer(*wanted), b"")


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
    Frontend(monkeypatch, *held, scripts=scripts)

    assert job_submission_and_control.find_held_job(SERVER, NAME, "al_gamma") == found
    assert job_submission_and_control.find_duplicate_arrays(SERVER, NAME, "al_gamma", found) == others


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
    Frontend(monkeypatch, *(task(20 + place, 20, state=state) for place, state in enumerate(states)))

    assert job_submission_and_control.query_owner_and_account(SERVER, "20") == expected


def test_ends_of_several_arrays_are_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    over = {"state": "Terminated", "exit_code": 256, "startTime": 5, "stopTime": 9}
    other = task(40, 40, name="gc.alpha.12.1", **over)
    frontend = Frontend(monkeypatch, task(20, 20, **over), task(21, 20, state="Running"), other)
    arrays = [
        ArrayEndQuery(job_id=20, account=NAME, places=range(1, 3)),
        ArrayEndQuery(job_id=40, account="gc.alpha.12.4", places=range(7, 8)),
    ]
    found = status.query_array_ends(SERVER, arrays)

    assert {account: [*ends] for account, ends in found.items()} == {NAME: [1], "gc.alpha.12.4": []}
    assert [argv[-1] for argv in frontend.argvs] == [
        "(array_id = 20 AND array_index IN (1, 2) OR array_id = 40 AND array_index IN (7))"
        " AND state IN ('Terminated', 'Error')"
    ]


def test_a_query_for_ends_has_a_limited_number_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    frontend = Frontend(monkeypatch)
    many = oar_programs.OarPrograms.MOST_ENDS + 1
    arrays = [
        ArrayEndQuery(job_id=20, account=NAME, places=range(1, many)),
        ArrayEndQuery(job_id=4000, account="gc.alpha.12.4", places=(7, 900)),
    ]
    status.query_array_ends(SERVER, arrays)

    first, second = (argv[-1] for argv in frontend.argvs)
    assert first.count(",") == oar_programs.OarPrograms.MOST_ENDS
    assert "array_id = 4000" not in first
    assert second.startswith("(array_id = 4000 AND array_index IN (7, 900)) AND ")


ENDED = shown(Job_Id=13, state="Error")
COPY = shown(Job_Id=15, state="Waiting", resubmit_job_id=14)
OWNER = ("al_gamma", "gb.alpha.12.0.1")


def test_a_living_job_is_deleted_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    frontend = Frontend(monkeypatch, ENDED)
    job_submission_and_control.delete_job(SERVER, "13")

    assert (frontend.deleted, len(frontend.argvs)) == (["13"], 1)


@pytest.mark.parametrize(("copies", "owner", "deleted"), [((COPY,), OWNER, ["13", "15"]), ((), ("", ""), ["13"])])
def test_only_resubmitted_jobs_of_an_ended_job_are_deleted(
    monkeypatch: pytest.MonkeyPatch, copies: tuple[Job, ...], owner: tuple[str, str], deleted: list[str]
) -> None:
    frontend = Frontend(monkeypatch, ENDED, ended="13")
    frontend.copies = copies
    found = job_submission_and_control.query_owner_and_account(SERVER, "13")
    job_submission_and_control.delete_job(SERVER, "13")

    assert (found, frontend.deleted) == (owner, deleted)


def test_resubmitted_jobs_are_queried_by_name_and_owner() -> None:
    assert oar_command_line_builders.jobs_by_name_condition(
        "gb.alpha.12.0.1", "o'x", oar_command_line_builders.LIVE_COPY
    ) == (
        "job_name = 'gb.alpha.12.0.1' AND job_user = 'o''x' AND resubmit_job_id <> 0"
        " AND state NOT IN ('Terminated', 'Error')"
    )


def test_live_tasks_of_several_arrays_are_one_query() -> None:
    assert oar_command_line_builders.live_array_tasks_condition("7", "12") == (
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
    ("jobs", "places", "deletions"),
    [
        (JOBS, "2-4", [("delete_tasks", "40 2 3", "42", "43")]),
        (JOBS, "1", [("delete_tasks", "40 1", "40")]),
        (JOBS, "1-3", [("delete_tasks", "40 1 2 3", "40", "42", "43")]),
        (JOBS, "4,9", []),
        (JOBS[:4], "1-3", [("delete_array", "40", "--array", "40")]),
    ],
    ids=["some", "one", "all but another job", "none alive", "the whole array with its script"],
)
def test_only_live_tasks_at_the_given_indices_are_deleted(
    monkeypatch: pytest.MonkeyPatch, jobs: list[Job], places: str, deletions: list[Argv]
) -> None:
    frontend = Frontend(monkeypatch, *jobs)
    job_submission_and_control.delete_array_tasks(SERVER, "40", CAMPAIGN, places)

    assert [(*argv[4:6], *argv[argv.index(OARDEL) + 1 :]) for argv in frontend.argvs[1:]] == deletions
