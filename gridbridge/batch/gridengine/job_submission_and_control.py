"""Submits and controls the jobs of a Grid Engine cell.

qsub has the same exit status for most errors, so qsub's message is parsed (measured: 8.1.9; sources: 6.2u5, OCS 9.2).
"""

from gridbridge.batch.batch_submission_outcome import (
    JobSubmissionOutcome,
    JobSubmissionResult,
    failed_submission_result,
)
from gridbridge.batch.gridengine import job_request_parser, sge_command_line_builders
from gridbridge.batch.gridengine.sge_command_line_builders import Argv
from gridbridge.errors import CommandFailed, ParseError
from gridbridge.model.campaigns.campaign_file_and_array_names import PREFIX
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.job_request import OWN_START, JobRequest, JobSpec, Pairs
from gridbridge.model.transfer_name import parse_qstat_task_ranges
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from gridbridge.shell.program_runs import ANSWER_BYTES, CompletedProgram, run_program

TYPE_CHECKING = False  # defined here, because importing the module typing would be slow
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from gridbridge.model.job_and_queue_states import JobState

HAS_QSTAT = True
HAS_START_TIMES = True
UTC = "UTC"
TRY_LATER = 25  # exit status if a limit of the cell is reached, e.g. max_u_jobs (qsub(1))
NOT_REACHED = (  # errors after which no job was submitted
    b"unable to contact qmaster",
    b"got select error",
    b"unable to send message",
    b"can't resolve host name",
    b"critical error:",
    b"unable to initialize environment",
)
OF_A_PERSON = b"jobs are allowed per user"  # error if limit max_u_jobs is reached
FROM_HERE = b"is not a submit host"
NO_ANSWER = (  # errors after which a job may have been submitted
    b"failed receiving gdi request response",
    b"timeout error",
    b"error reading answer list",
    b"has been submitted",  # qsub prints this, and fails, if an accepted job causes a warning
)
NO_BEST_EFFORT = f'unknown resource "{BEST_EFFORT}"'.encode()
A_CALL = 2000  # maximal number of task ranges in one command
OF_ARRAY = f"{PREFIX}."
MARK = "MAIL"  # variable with the submission name; qsub records the variable in the job (qsub(1))
RECORDED_MARK = b"__SGE_PREFIX__O_MAIL"  # name of the recorded variable SGE_O_MAIL in `qstat -j -xml`
JOB_NUMBER = b"<JB_job_number>"
UNKNOWN_JOB = b"<unknown_jobs"
END_OF_DETAIL = b"</detailed_job_info>"
JOBS_A_CALL = 1000
NO_QUEUES = (b"requests unknown queue", b"Wrong queue list format")  # errors of `qalter -q` for missing queues
ANY_QUEUE = "*"
DELETED = b"has deleted job"  # qdel's answer for a waiting job
DENIED_UNKNOWN = (b"does not exist", b"do not exist")


def submit_held_job(cell: GridEngineCellAccessSettings, spec: JobSpec) -> JobSubmissionResult:
    """Submit a held job; without best-effort queues, a preemptible job gets the lowest priority. Never raises."""
    if reason := sge_command_line_builders.explain_request_refusal(spec.request):
        return JobSubmissionResult(JobSubmissionOutcome.REFUSED, reason=reason)
    try:
        mark = spec.transfer if spec.tasks else ""
        answer = run_client(cell, sge_command_line_builders.submit_held_job_argv(cell, spec), spec.script, mark=mark)
        if answer.status and NO_BEST_EFFORT in answer.stderr + answer.stdout:
            ordinary = sge_command_line_builders.replace_preemptible_by_lowest_priority(spec)
            answer = run_client(
                cell, sge_command_line_builders.submit_held_job_argv(cell, ordinary), spec.script, mark=mark
            )
    except CommandFailed as error:
        return failed_submission_result(error)
    return _parse_qsub_answer(answer)


def _parse_qsub_answer(answer: CompletedProgram) -> JobSubmissionResult:
    last = answer.stdout.strip().rpartition(b"\n")[2].partition(b".")[0]
    if answer.status == 0 and last.isdigit():
        return JobSubmissionResult(JobSubmissionOutcome.ACCEPTED, remote_id=last.decode())
    words = (answer.stderr + answer.stdout).strip()
    message = b" ".join(words.lower().split(b'"')[::2])  # quoted parts are left out, because users may choose them
    reason = _first_error_line_of_qsub(words)
    if OF_A_PERSON in message:
        result = JobSubmissionOutcome.BARRED
    elif answer.status == TRY_LATER or any(sign in message for sign in NOT_REACHED):
        result = JobSubmissionOutcome.LATER
    elif answer.status <= 0 or any(sign in message for sign in NO_ANSWER):
        result = JobSubmissionOutcome.UNSURE
    else:
        result = JobSubmissionOutcome.DENIED if FROM_HERE in message else JobSubmissionOutcome.REFUSED
    return JobSubmissionResult(result, reason=reason)


def _first_error_line_of_qsub(words: bytes) -> str:
    """Return qsub's first error line, without prefix, warnings and the word `Exiting`."""
    lines = words.decode("utf-8", "replace").replace("Unable to run job: ", "").splitlines()
    telling = [line.strip() for line in lines if line.strip() not in ("", "Exiting.")]
    errors = [line for line in telling if not line.startswith("warning:")]
    return (errors or telling or ["qsub printed no reason"])[0]


def find_held_job(cell: GridEngineCellAccessSettings, transfer: str, owner: str) -> str:
    """Return the id of a user's oldest job that was submitted under a given name; empty if there is none."""
    return str(min(_find_jobs_by_submission_name(cell, transfer, owner), default=""))


def find_duplicate_arrays(cell: GridEngineCellAccessSettings, transfer: str, owner: str, array: str) -> list[str]:
    """Return the ids of a user's arrays with the submission name `transfer`, except `array` itself."""
    return [str(job) for job in _find_jobs_by_submission_name(cell, transfer, owner) if str(job) != array]


def _find_jobs_by_submission_name(cell: GridEngineCellAccessSettings, transfer: str, owner: str) -> list[int]:
    """Return the ids of a user's jobs that were submitted under a name.

    Only the user's jobs are queried: other users' jobs could make the output of `qstat -j NAME` too large.
    A renamed array is found by a variable SGE_O_*, which qalter can't remove (measured: 8.1.9).
    """
    listed = (
        run_client(cell, sge_command_line_builders.list_jobs_argv(cell, "-u", owner, "-xml")).require_success().stdout
    )
    shown = query_job_details_xml(cell, job_request_parser.parse_job_ids_by_name(listed, transfer, owner))
    jobs = {number for number, job in shown if job_request_parser.parse_owner_and_account(job) == (owner, transfer)}
    if transfer.startswith(OF_ARRAY):
        for number, job in query_job_details_xml(cell, job_request_parser.parse_array_ids(listed)):
            names = job_request_parser.parse_recorded_submit_variable(job, RECORDED_MARK)
            if job_request_parser.parse_owner_and_account(job)[0] == owner and transfer.encode() in names:
                jobs.add(number)
    return sorted(jobs)


def query_owner_and_account(cell: GridEngineCellAccessSettings, job: str) -> tuple[str, str]:
    xml = query_job_xml(cell, job)
    if UNKNOWN_JOB in xml:
        return "", ""
    return job_request_parser.parse_owner_and_account(xml)


def query_live_indices(cell: GridEngineCellAccessSettings, arrays: dict[str, str]) -> dict[str, tuple[range, ...]]:
    return job_request_parser.parse_array_indices_in_job_list(_query_own_jobs_xml(cell), arrays)


def hold_array_tasks(
    cell: GridEngineCellAccessSettings, array: str, _name: str, indices: tuple[range, ...]
) -> tuple[range, ...]:
    """Put a user hold on array tasks; return the indices of all waiting tasks that are held."""
    for tasks in _task_ranges_in_portions(array, indices):
        hold_job(cell, tasks, gone_is_fine=True)
    return job_request_parser.parse_array_indices_in_job_list(_query_own_jobs_xml(cell), (array,), b"pending", "h")[
        array
    ]


def release_array_tasks(cell: GridEngineCellAccessSettings, array: str, indices: tuple[range, ...]) -> None:
    for tasks in _task_ranges_in_portions(array, indices):
        release_job(cell, tasks, gone_is_fine=True)


def _task_ranges_in_portions(array: str, indices: tuple[range, ...]) -> "Iterator[str]":
    for begin in range(0, len(indices), A_CALL):
        portion = indices[begin : begin + A_CALL]
        yield ",".join(f"{array}.{span[0]}-{span[-1]}" for span in portion)


def query_job_request(cell: GridEngineCellAccessSettings, job: str) -> JobRequest:
    return job_request_parser.parse_job_request(query_job_xml(cell, job))


def query_job_requests(cell: GridEngineCellAccessSettings, jobs: tuple[int, ...]) -> dict[int, JobRequest]:
    """Return the requests of several jobs with one query; jobs that no longer exist are left out."""
    return {number: job_request_parser.parse_job_request(part) for number, part in query_job_details_xml(cell, jobs)}


def query_job_accounts(cell: GridEngineCellAccessSettings, jobs: tuple[int, ...]) -> dict[int, str]:
    """Return the account strings of several jobs with one query; jobs that no longer exist are left out."""
    return {
        number: job_request_parser.parse_owner_and_account(part)[1]
        for number, part in query_job_details_xml(cell, jobs)
    }


def query_job_details_xml(cell: GridEngineCellAccessSettings, jobs: tuple[int, ...]) -> "Iterator[tuple[int, bytes]]":
    """Yield each job's id and output of `qstat -j -xml`; raise ParseError if the output is incomplete."""
    for begin in range(0, len(jobs), JOBS_A_CALL):
        xml = query_job_xml(cell, ",".join(map(str, jobs[begin : begin + JOBS_A_CALL])))
        if not xml.rstrip().endswith(END_OF_DETAIL) and UNKNOWN_JOB not in xml:
            raise ParseError("qstat -j: the answer is truncated")
        for part in xml.split(JOB_NUMBER)[1:]:
            number = part.partition(b"<")[0]
            if number.isdigit():
                yield int(number), JOB_NUMBER + part


def query_job_xml(cell: GridEngineCellAccessSettings, job: str) -> bytes:
    return run_client(cell, sge_command_line_builders.show_job_detail_argv(cell, job)).require_success().stdout


def query_deferred_jobs(cell: GridEngineCellAccessSettings) -> frozenset[int]:
    """Return the ids of jobs that wait for their start time; raise ParseError for a truncated answer."""
    xml = run_client(cell, (f"{cell.binaries}/qstat", "-s", "ha", "-u", "*", "-xml")).require_success().stdout
    if not xml.rstrip().endswith(b"</job_info>"):
        raise ParseError("qstat -s ha: the answer is truncated")
    numbers = (part.partition(b"<")[0] for part in xml.split(JOB_NUMBER)[1:])
    return frozenset(int(number) for number in numbers if number.isdigit())


def hold_job(cell: GridEngineCellAccessSettings, job: str, gone_is_fine: bool = False) -> None:
    _run_client_or_raise(cell, "qalter", "-h", "u", job, gone_is_fine=gone_is_fine)


def release_job(cell: GridEngineCellAccessSettings, job: str, gone_is_fine: bool = False) -> None:
    _run_client_or_raise(cell, "qalter", "-h", "U", job, gone_is_fine=gone_is_fine)


def defer_job_restart(cell: GridEngineCellAccessSettings, job: str, request: JobRequest) -> None:
    run_client(
        cell, sge_command_line_builders.defer_restart_argv(cell, job, request.owner_requested_start), zone=UTC
    ).require_success()


def restore_start_time(cell: GridEngineCellAccessSettings, job: str) -> str:
    """Restore a saved start time, unless a user has set another start time; return the saved text if it is invalid."""
    request = query_job_request(cell, job)
    if request.is_deferred or OWN_START in dict(request.context):
        run_client(
            cell, sge_command_line_builders.restore_start_time_argv(cell, job, request.owner_requested_start), zone=UTC
        ).require_success()
    return request.invalid_start_time


def rename_and_release(cell: GridEngineCellAccessSettings, job: str, name: str) -> None:
    _run_client_or_raise(cell, "qalter", "-N", name, "-h", "U", job)


def release_arrays(cell: GridEngineCellAccessSettings, arrays: tuple[str, ...], name: str) -> None:
    """Release and rename held arrays in one request."""
    rename_and_release(cell, ",".join(arrays), name)


def delete_array(cell: GridEngineCellAccessSettings, array: str) -> None:
    _run_client_or_raise(cell, "qdel", array, gone_is_fine=True)


def delete_array_tasks(cell: GridEngineCellAccessSettings, array: str, _name: str, indices: str) -> None:
    _run_client_or_raise(cell, "qdel", array, "-t", indices, gone_is_fine=True)


def pin_job_to_queue(
    cell: GridEngineCellAccessSettings, job: str, queue: str, remember: str, hard: Pairs | None = None
) -> None:
    """Restrict a whole job to one queue; Grid Engine can't restrict a single task."""
    run_client(cell, sge_command_line_builders.pin_to_queue_argv(cell, job, queue, remember, hard)).require_success()


def restore_queue_list(cell: GridEngineCellAccessSettings, job: str, queues: str, hard: Pairs | None = None) -> str:
    """Restore a job's queue list; if the list has a deleted queue, allow any queue and return the list."""
    answer = run_client(cell, sge_command_line_builders.restore_queue_list_argv(cell, job, queues, hard))
    if answer.status and any(sign in answer.stdout + answer.stderr for sign in NO_QUEUES):
        run_client(
            cell, sge_command_line_builders.restore_queue_list_argv(cell, job, ANY_QUEUE, hard)
        ).require_success()
        return queues
    answer.require_success()
    return ""


def alter_job(cell: GridEngineCellAccessSettings, job: str, options: Argv) -> None:
    _run_client_or_raise(cell, "qalter", *options, job)


def delete_job(cell: GridEngineCellAccessSettings, job: str) -> None:
    _run_client_or_raise(cell, "qdel", job, gone_is_fine=True)


def delete_waiting_job(cell: GridEngineCellAccessSettings, job: str) -> bool | None:
    answer = run_client(cell, (f"{cell.binaries}/qdel", job))
    words = answer.stdout + answer.stderr
    if any(sign in words for sign in DENIED_UNKNOWN):
        return None
    answer.require_success()
    return DELETED in words


def suspend_or_hold_job(cell: GridEngineCellAccessSettings, job: str) -> None:
    """Suspend a running job, or hold a waiting job; a missing job is no error.

    The hold comes first, so that a waiting job can't start any more.
    """
    hold_job(cell, job, gone_is_fine=True)
    now = query_job_state(cell, job)
    is_stopped = now.is_waiting or now.is_by_hand or now.is_deleting
    if now.is_listed and not is_stopped:
        _run_client_or_raise(cell, "qmod", "-sj", job, gone_is_fine=True)


def resume_or_release_job(cell: GridEngineCellAccessSettings, job: str) -> None:
    """Resume or release a job after `suspend_or_hold_job`; a missing job is no error.

    A suspended job without a user hold was suspended by another user, and stays suspended.
    """
    now = query_job_state(cell, job)
    if now.is_held and now.is_by_hand:
        _run_client_or_raise(cell, "qmod", "-usj", job, gone_is_fine=True)
    release_job(cell, job, gone_is_fine=True)


def query_job_state(cell: GridEngineCellAccessSettings, job: str) -> "JobState":
    """Return the state of a job, or of a task such as `12.3`; UNSEEN if the job does not exist."""
    from gridbridge.batch.qstat_state_letters import parse_job_state_letters
    from gridbridge.model.job_and_queue_states import UNSEEN

    xml = _query_own_jobs_xml(cell)
    if not xml.rstrip().endswith(b"</job_info>"):
        raise ParseError("qstat -xml: the answer is truncated")
    number, _, task = job.partition(".")
    for entry in xml.split(b"<JB_job_number>")[1:]:
        row = entry.partition(b"</job_list>")[0]
        if row.partition(b"<")[0] != number.encode():
            continue
        tasks = row.partition(b"<tasks>")[2].partition(b"<")[0].decode()  # ranges such as `1-9:2,12`; empty: no array
        if any(int(task) in span for span in parse_qstat_task_ranges(tasks)) if tasks and task else tasks == task:
            return parse_job_state_letters(row.partition(b"<state>")[2].partition(b"<")[0].decode())
    return UNSEEN


def load_refused_job_marker() -> "ModuleType":
    from gridbridge.batch.gridengine import home_job_runnability_check

    return home_job_runnability_check


def query_queue_limit(cell: GridEngineCellAccessSettings, queue: str, name: str, host: str) -> str:
    lines = run_client(cell, (f"{cell.binaries}/qconf", "-sq", queue)).require_success().stdout.decode().splitlines()
    values = next((line.split()[1] for line in lines if line.split()[:1] == [name]), "")
    general, _, special = values.partition(",[")
    own = special.partition(f"{host}=")[2]
    return own.partition("]")[0] if own else general


def _query_own_jobs_xml(cell: GridEngineCellAccessSettings) -> bytes:
    return run_client(cell, sge_command_line_builders.list_jobs_argv(cell, "-xml")).require_success().stdout


def _run_client_or_raise(
    cell: GridEngineCellAccessSettings, program: str, *words: str, gone_is_fine: bool = False
) -> None:
    answer = run_client(cell, (f"{cell.binaries}/{program}", *words))
    is_gone = any(sign in answer.stdout + answer.stderr for sign in DENIED_UNKNOWN)
    if answer.status and not (gone_is_fine and is_gone):
        answer.require_success()


def run_client(
    cell: GridEngineCellAccessSettings,
    argv: Argv,
    stdin: bytes = b"",
    zone: str = "",
    mark: str = "",
    most_bytes: int = ANSWER_BYTES,
) -> CompletedProgram:
    """Run a client program of the cell, locally or by ssh.

    The program prints times in time zone `zone`; qsub records the text `mark` in the submitted job.
    """
    env = cell.command_environment() | ({"TZ": zone} if zone else {}) | ({MARK: mark} if mark else {})
    if cell.login is None:
        return run_program(argv, env, cell.timeout_s, stdin, most_bytes)
    from gridbridge.shell import ssh

    return ssh.run_over_ssh(cell.login, argv, env, cell.timeout_s, stdin, most_bytes=most_bytes)
