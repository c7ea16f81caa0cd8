"""Tests of deleting an OAR job and the jobs into which OAR has resubmitted the job."""

import json

import pytest

from gridbridge.batch.oar import submit
from gridbridge.batch.oar.oar_commands import Argv
from gridbridge.model.transfer_route import OarServerAccess
from gridbridge.shell.program_runs import CompletedProgram
from tests.batch.oar.test_oar_output import shown

SERVER = OarServerAccess(timeout_s=15)
DONE, KILLED_BEFORE = 0, 6


class Frontend:
    """OAR's programs; oardel reports the jobs in `dead` as already deleted."""

    def __init__(self, dead: set[str], listed: str, copies: str) -> None:
        self.dead, self.listed, self.copies = dead, listed, copies
        self.deleted: list[str] = []
        self.asked = 0

    def __call__(self, _server: OarServerAccess, argv: Argv, _stdin: bytes = b"") -> CompletedProgram:
        """Answer a command line."""
        if "/usr/bin/oardel" in argv:
            self.deleted.append(argv[-1])
            status = KILLED_BEFORE if argv[-1] in self.dead else DONE
            return CompletedProgram(argv, status, b"", b"")
        self.asked += 1
        told = self.copies if "--sql" in argv else self.listed
        return CompletedProgram(argv, DONE, told.encode(), b"")


def listed(*jobs: dict[str, object]) -> str:
    return json.dumps({str(one["Job_Id"]): one for one in jobs}) if jobs else ""


OVER = listed(shown(Job_Id=13, state="Error"))
COPY = listed(shown(Job_Id=15, state="Waiting", resubmit_job_id=14))


def test_a_living_job_is_deleted_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    frontend = Frontend(set(), OVER, COPY)
    monkeypatch.setattr(submit, "run_client", frontend)
    submit.delete_job(SERVER, "13")

    assert (frontend.deleted, frontend.asked) == (["13"], 0)


def test_resubmitted_jobs_of_an_ended_job_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    frontend = Frontend({"13"}, OVER, COPY)
    monkeypatch.setattr(submit, "run_client", frontend)
    owner = submit.query_owner_and_account(SERVER, "13")
    submit.delete_job(SERVER, "13")

    assert owner == ("al_gamma", "gb.alpha.12.0.1")
    assert frontend.deleted == ["13", "15"]


def test_an_ended_job_without_resubmission_has_no_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    frontend = Frontend({"13"}, OVER, "")
    monkeypatch.setattr(submit, "run_client", frontend)
    owner = submit.query_owner_and_account(SERVER, "13")
    submit.delete_job(SERVER, "13")

    assert (owner, frontend.deleted) == (("", ""), ["13"])


def test_resubmitted_jobs_are_queried_by_name_and_owner() -> None:
    from gridbridge.batch.oar import oar_commands

    assert oar_commands.show_named_jobs_command(SERVER, "gb.alpha.12.0.1", "o'x", oar_commands.LIVE_COPY)[-1] == (
        "job_name = 'gb.alpha.12.0.1' AND job_user = 'o''x' AND resubmit_job_id <> 0"
        " AND state NOT IN ('Terminated', 'Error')"
    )


def test_live_tasks_of_several_arrays_are_one_query() -> None:
    from gridbridge.batch.oar import oar_commands

    assert oar_commands.show_live_array_tasks_command(SERVER, "7", "12")[-1] == (
        "array_id IN (7, 12) AND state NOT IN ('Terminated', 'Error')"
    )
