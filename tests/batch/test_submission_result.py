"""Tests of the outcome of a submission, and of the search for a job whose submission was not answered."""

from pathlib import Path

import pytest

from gridbridge.batch.batch_submission_outcome import JobSubmissionOutcome, failed_submission_result
from gridbridge.batch.gridengine import job_submission_and_control as gridengine
from gridbridge.batch.gridengine.job_submission_and_control import (
    find_duplicate_arrays,
    find_held_job,
    query_job_state,
    submit_held_job,
)
from gridbridge.batch.oar import job_submission_and_control as oar
from gridbridge.errors import CommandFailed, HostNotReached, ParseError
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from gridbridge.shell.program_runs import CompletedProgram
from tests.batch.gridengine.cells import cell_of_scripts
from tests.builders.qstat import job_list, job_row
from tests.states import job_state


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (CommandFailed(("qsub",), 127), JobSubmissionOutcome.LATER),
        (HostNotReached(("ssh",), 255), JobSubmissionOutcome.LATER),
        (CommandFailed(("qsub",), None), JobSubmissionOutcome.UNSURE),
        (CommandFailed(("ssh",), 255), JobSubmissionOutcome.UNSURE),
    ],
    ids=["not there", "not reached", "no answer in time", "cut"],
)
def test_only_a_submission_that_was_never_sent_is_retried(error: CommandFailed, result: str) -> None:
    assert failed_submission_result(error).result == result


QSUB = [
    ('Unable to run job: the checkpoint object "timeout error" does not exist.', JobSubmissionOutcome.REFUSED),
    ("Unable to run job: job rejected: critical errors in site policy: ask for h_rt.", JobSubmissionOutcome.REFUSED),
    (
        "Unable to run job: failed receiving gdi request response for mid=1 "
        "(got syncron message receive timeout error).",
        JobSubmissionOutcome.UNSURE,
    ),
    ('Unable to run job: denied: host "h" is not a submit host', JobSubmissionOutcome.DENIED),
    ("Unable to run job: job rejected: Only 3 jobs are allowed per user", JobSubmissionOutcome.BARRED),
    ("critical error: can't read bootstrap file", JobSubmissionOutcome.LATER),
    ('error: unable to contact qmaster using port 6444 on host "beta"', JobSubmissionOutcome.LATER),
]


@pytest.mark.parametrize(
    ("words", "expected"),
    QSUB,
    ids=["a name", "a site's words", "no answer", "not from this host", "a person's limit", "no cell", "no qmaster"],
)
def test_a_submission_is_classified_by_qsubs_message(words: str, expected: str) -> None:
    answer = CompletedProgram(("qsub",), 1, b"", f"{words}\nExiting.".encode())

    assert gridengine._parse_qsub_answer(answer).result == expected


MISSING_COLUMN = 'column "nonesuch" does not exist'
CHATTER = "[ADMISSION RULE] Modify resource description with type constraints\n"
FAILED = "[ERROR] Oarsub failed, please verify your request syntax.\n"
NO_COLUMN = 'DBD::Pg::st execute failed: ERROR:  column "nonesuch" does not exist\nLINE 4: ...\n'
SERVER_DOWN = "[ERROR] Cannot connect to executor gamma-master:6666. Job is killed.\n"
DATABASE_DOWN = "DBI connect('database=oar',...) failed: Connection refused at OAR/IO.pm line 307.\n"
ARRAY = "Simple array job submission is used\n"
NO_FILE = "/!\\ Invalid stdout file name (bad character)\n"
TOO_MUCH = "There are not enough resources for your request\n"
NO_QUEUE = "ERROR : The queue nosuch does not exist\n"
BY_RULE = "[ADMISSION RULE] Set default walltime to 7200.\n[ADMISSION RULE] at most 1 h here\n\n"


@pytest.mark.parametrize(
    ("status", "said", "result", "reason"),
    [
        (0, f"{CHATTER}OAR_JOB_ID=12\n", JobSubmissionOutcome.ACCEPTED, ""),
        (8, f"{CHATTER}{NO_COLUMN}OAR_JOB_ID=-5\n{FAILED}", JobSubmissionOutcome.REFUSED, MISSING_COLUMN),
        (8, f"{TOO_MUCH}OAR_JOB_ID=-5\n{FAILED}", JobSubmissionOutcome.REFUSED, TOO_MUCH),
        (251, f"{CHATTER}{ARRAY}{NO_COLUMN}", JobSubmissionOutcome.REFUSED, MISSING_COLUMN),
        (251, f"{CHATTER}{ARRAY}{TOO_MUCH}", JobSubmissionOutcome.REFUSED, TOO_MUCH),
        (251, f"{CHATTER}{ARRAY}{DATABASE_DOWN}", JobSubmissionOutcome.UNSURE, DATABASE_DOWN),
        (244, NO_FILE, JobSubmissionOutcome.REFUSED, NO_FILE),
        (248, f"{CHATTER}{NO_QUEUE}", JobSubmissionOutcome.REFUSED, NO_QUEUE),
        (254, BY_RULE, JobSubmissionOutcome.REFUSED, "at most 1 h here"),
        (9, f"{CHATTER}OAR_JOB_ID=6\n{SERVER_DOWN}", JobSubmissionOutcome.UNSURE, SERVER_DOWN),
        (8, f"{DATABASE_DOWN}OAR_JOB_ID=\n", JobSubmissionOutcome.UNSURE, DATABASE_DOWN),
        (142, DATABASE_DOWN, JobSubmissionOutcome.UNSURE, DATABASE_DOWN),
        (-14, DATABASE_DOWN, JobSubmissionOutcome.UNSURE, DATABASE_DOWN),
        (0, CHATTER, JobSubmissionOutcome.UNSURE, CHATTER.removeprefix("[ADMISSION RULE] ")),
        (75, "", JobSubmissionOutcome.LATER, "oarsub printed no reason and ended with exit status 75"),
        (127, "", JobSubmissionOutcome.LATER, "oarsub printed no reason and ended with exit status 127"),
    ],
    ids=[
        *("accepted", "property", "resources", "an array's property", "an array's resources"),
        *("an array, database down", "output", "queue", "rule", "server down", "database down"),
        *("alarm", "alarm by ssh", "no id", "cut script", "no oarsub"),
    ],
)
def test_an_oarsub_answer_is_classified_by_status_and_message(status: int, said: str, result: str, reason: str) -> None:
    """The message `Job is killed` is wrong: the held job exists and is found by its name."""
    answer = oar._parse_oarsub_answer(CompletedProgram(("oarsub",), status, said.encode(), b""))

    remote_id = "12" if result == JobSubmissionOutcome.ACCEPTED else ""
    assert (answer.result, answer.remote_id, answer.reason) == (result, remote_id, reason.strip())


NAME = "gb.alpha.8.0.1"
END = "</detailed_job_info>"
UNKNOWN = "<unknown_jobs><element/></unknown_jobs>"
SWEEP = "gc.alpha.8.1"
TASKS = "1-3:1"
VARIABLE = "<element><VA_variable>{}</VA_variable><VA_value>{}</VA_value></element>"
MAIL = "__SGE_PREFIX__O_MAIL"
QSTAT = """\
case "$*" in
"-j g"*) echo everybody may have jobs of a name; exit 1 ;;
"-j "*) echo "$2" >>{0}/asked; cat {0}/shown ;;
"-s a -u alice -xml") cat {0}/listed ;;
*) exit 1 ;;
esac
"""


def a_job(number: int, owner: str = "alice", account: str = NAME) -> str:
    return (
        f"<element><JB_job_number>{number}</JB_job_number><JB_owner>{owner}</JB_owner>"
        f"<JB_account>{account}</JB_account></element>"
    )


def cell_of(folder: Path, shown: str, *rows: str) -> GridEngineCellAccessSettings:
    (folder / "listed").write_bytes(job_list(*rows))
    (folder / "shown").write_text(shown)
    return cell_of_scripts(folder, qstat=QSTAT.format(folder))


def listed(number: int, name: str = NAME, owner: str = "alice", tasks: str = "") -> str:
    return job_row(number, JB_name=name, JB_owner=owner, **({"tasks": tasks} if tasks else {}))


ROWS = (listed(12), listed(9), listed(8, "work"), listed(7, owner="bob"))


def asked(folder: Path) -> list[str]:
    path = folder / "asked"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        (f"{UNKNOWN}", ""),
        (a_job(12) + END, "12"),
        (a_job(9) + a_job(12) + END, "9"),
        (a_job(9, owner="bob") + a_job(12) + END, "12"),
        (a_job(9, account="sge") + a_job(12) + END, "12"),
        (a_job(9, owner="bob") + END, ""),
    ],
    ids=["none", "one", "the oldest", "not another's", "not without account", "only another's"],
)
def test_the_owners_oldest_job_of_a_name_is_found(tmp_path: Path, shown: str, found: str) -> None:
    assert find_held_job(cell_of(tmp_path, shown, *ROWS), NAME, "alice") == found


def test_details_of_other_users_jobs_are_not_queried(tmp_path: Path) -> None:
    """Details of other users' jobs could exceed the size limit."""
    find_held_job(cell_of(tmp_path, a_job(9) + a_job(12) + END, *ROWS), NAME, "alice")

    assert asked(tmp_path) == ["9,12"]


def test_a_job_with_a_truncated_name_in_the_list_is_found(tmp_path: Path) -> None:
    assert find_held_job(cell_of(tmp_path, a_job(9) + END, listed(9, NAME[:10])), NAME, "alice") == "9"


@pytest.mark.parametrize(("row", "name"), [(listed(8, "work"), NAME), (listed(13, "x"), SWEEP)], ids=["job", "array"])
def test_no_details_are_queried_if_the_owner_has_no_candidate(tmp_path: Path, row: str, name: str) -> None:
    assert find_held_job(cell_of(tmp_path, "", row), name, "alice") == ""
    assert asked(tmp_path) == []


@pytest.mark.parametrize(("name", "answer"), [(NAME, ""), (NAME, "<detailed_job_info>"), (NAME, a_job(9)), (SWEEP, "")])
def test_a_truncated_job_detail_is_refused(tmp_path: Path, name: str, answer: str) -> None:
    with pytest.raises(ParseError):
        find_held_job(cell_of(tmp_path, answer, *ROWS, listed(12, "x", tasks=TASKS)), name, "alice")


def test_a_truncated_job_list_is_refused(tmp_path: Path) -> None:
    cell = cell_of(tmp_path, UNKNOWN)
    (tmp_path / "listed").write_text("<job_info>")

    with pytest.raises(ParseError):
        find_held_job(cell, NAME, "alice")


@pytest.mark.parametrize(
    ("job", "letters"), [("12.3", "hRwq"), ("12.4", "r"), ("12.5", "hRwq"), ("12.6", ""), ("12", ""), ("13.3", "")]
)
def test_a_task_state_is_found_in_a_range_or_in_a_row(tmp_path: Path, job: str, letters: str) -> None:
    rows = (job_row(12, "hRwq", tasks="1,3-5:2"), job_row(12, "r", tasks=4))
    (tmp_path / "answer").write_bytes(job_list(*rows))
    far = cell_of_scripts(tmp_path, qstat=f"exec cat {tmp_path}/answer")

    assert query_job_state(far, job) == job_state(letters)


def an_array(number: int, *marks: str, owner: str = "alice", name: str = MAIL) -> str:
    variables = "".join(VARIABLE.format(name, mark) for mark in marks)
    return (
        f"<element><JB_job_number>{number}</JB_job_number><JB_owner>{owner}</JB_owner>"
        f"<JB_account>other</JB_account><JB_env_list>{variables}<element><VA_variable>{MAIL}"
        "</VA_variable></element></JB_env_list></element>"
    )


ARRAYS = (listed(12, "x", tasks=TASKS), listed(14, "x", tasks=TASKS), listed(13, "x"))


@pytest.mark.parametrize(
    ("jobs", "found"),
    [
        ((an_array(12, SWEEP),), ["12"]),
        ((an_array(14, SWEEP), an_array(12, SWEEP)), ["12", "14"]),
        ((an_array(12, "evil", SWEEP), an_array(14, "gc.alpha.8.2")), ["12"]),
        ((an_array(12, SWEEP, owner="bob"), an_array(14, SWEEP, name="SGE_O_MAIL")), []),
    ],
    ids=["one", "several", "with another mark beside it", "another's, or a job's own variable"],
)
def test_a_renamed_array_is_found(tmp_path: Path, jobs: tuple[str, ...], found: list[str]) -> None:
    cell = cell_of(tmp_path, "".join(jobs) + END, *ARRAYS)
    oldest = find_held_job(cell, SWEEP, "alice")

    assert [oldest, *find_duplicate_arrays(cell, SWEEP, "alice", oldest)] == (found or [""])
    assert asked(tmp_path) == ["12,14"] * 2


def test_an_array_of_an_earlier_release_is_found_by_its_account(tmp_path: Path) -> None:
    job = an_array(9).replace("other", SWEEP) + an_array(12, "x") + END
    rows = (listed(9, SWEEP, tasks=TASKS), *ARRAYS)

    assert find_held_job(cell_of(tmp_path, job, *rows), SWEEP, "alice") == "9"


@pytest.mark.parametrize(("tasks", "mark"), [(3, SWEEP), (0, "none")], ids=["an array", "a job"])
def test_only_an_array_submission_is_marked_by_variable_mail(tmp_path: Path, tasks: int, mark: str) -> None:
    cell = cell_of_scripts(tmp_path, qsub=f"echo ${{MAIL-none}} >{tmp_path}/mark\necho 7")
    spec = JobSpec(transfer=SWEEP, request=JobRequest(), script=b"", tasks=tasks)

    assert submit_held_job(cell, spec).remote_id == "7"
    assert (tmp_path / "mark").read_text() == f"{mark}\n"
