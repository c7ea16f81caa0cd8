"""Submits and controls jobs of a cell; the half of its adapter for hot programs.

Grid Engine's clients have the same exit status for most errors, so a failed submission is
classified by its message (measured: qsub of 8.1.9; sources of 6.2u5 and OCS 9.2 where noted).
"""

from gridbridge.batch.batch_submission_outcome import (
    JobSubmissionOutcome,
    JobSubmissionResult,
    failed_submission_result,
)
from gridbridge.batch.gridengine import client_commands
from gridbridge.batch.gridengine.client_commands import Argv
from gridbridge.batch.gridengine.submitted_request import (
    parse_array_indices,
    parse_job_ids_by_name,
    parse_job_request,
    parse_owner_and_account,
)
from gridbridge.errors import CommandFailed, ParseError
from gridbridge.model.campaigns.campaign_names import PREFIX
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.job_request import OWN_START, JobRequest, JobSpec, Pairs
from gridbridge.model.transfer_name import parse_qstat_task_ranges
from gridbridge.model.transfer_route import GridEngineCellAccess
from gridbridge.shell.program_runs import ANSWER_BYTES, CompletedProgram, run_program

TYPE_CHECKING = False  # importing typing takes as long as importing json
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gridbridge.model.states import JobState

HAS_QSTAT = True
HAS_START_TIMES = True
UTC = "UTC"
TRY_LATER = 25  # qsub(1) EXIT STATUS: a limit of the cell, e.g. max_u_jobs
NOT_REACHED = (  # errors before the request was sent: nothing was submitted
    b"unable to contact qmaster",
    b"got select error",
    b"unable to send message",
    b"can't resolve host name",
    b"critical error:",
    b"unable to initialize environment",
)
OF_A_PERSON = b"jobs are allowed per user"  # max_u_jobs
FROM_HERE = b"is not a submit host"
NO_ANSWER = (  # errors after the request was sent: the job may exist
    b"failed receiving gdi request response",
    b"timeout error",
    b"error reading answer list",
    b"has been submitted",  # qsub reports a mere warning as an error
)
NO_BEST_EFFORT = f'unknown resource "{BEST_EFFORT}"'.encode()
A_CALL = 2000  # most task ranges in one command
OF_ARRAY = f"{PREFIX}."
MARK = "MAIL"  # a variable of qsub's environment that root does not set
JOB_NUMBER = b"<JB_job_number>"
UNKNOWN_JOB = b"<unknown_jobs"
END_OF_DETAIL = b"</detailed_job_info>"
JOBS_A_CALL = 1000
NO_QUEUES = (b"requests unknown queue", b"Wrong queue list format")  # errors of `qalter -q`
ANY_QUEUE = "*"
DELETED = b"has deleted job"  # answer for a waiting job; a started one is "registered"
DENIED_UNKNOWN = (b"does not exist", b"do not exist")


def submit_held_job(cell: GridEngineCellAccess, spec: JobSpec) -> JobSubmissionResult:
    """Submit a held job; never raises for the cell's answer or its absence.

    In a cell without best-effort queues a preemptible job is submitted as an ordinary one with the
    lowest priority.
    """
    if reason := client_commands.explain_request_refusal(spec.request):
        return JobSubmissionResult(JobSubmissionOutcome.REFUSED, reason=reason)
    try:
        mark = spec.transfer if spec.tasks else ""
        answer = run_client(cell, client_commands.submit_held_job_command(cell, spec), spec.script, mark=mark)
        if answer.status and NO_BEST_EFFORT in answer.stderr + answer.stdout:
            ordinary = client_commands.preemptible_as_lowest_priority(spec)
            answer = run_client(cell, client_commands.submit_held_job_command(cell, ordinary), spec.script, mark=mark)
    except CommandFailed as error:
        return failed_submission_result(error)
    return _read_answer(answer)


def _read_answer(answer: CompletedProgram) -> JobSubmissionResult:
    last = answer.stdout.strip().rpartition(b"\n")[2].partition(b".")[0]
    if answer.status == 0 and last.isdigit():
        return JobSubmissionResult(JobSubmissionOutcome.ACCEPTED, remote_id=last.decode())
    words = (answer.stderr + answer.stdout).strip()
    message = _unquoted(words.lower())
    reason = _first_line(words)
    if OF_A_PERSON in message:
        return JobSubmissionResult(JobSubmissionOutcome.BARRED, reason=reason)
    if answer.status == TRY_LATER or any(sign in message for sign in NOT_REACHED):
        return JobSubmissionResult(JobSubmissionOutcome.LATER, reason=reason)
    if answer.status <= 0 or any(sign in message for sign in NO_ANSWER):
        return JobSubmissionResult(JobSubmissionOutcome.UNSURE, reason=reason)
    return JobSubmissionResult(
        JobSubmissionOutcome.DENIED if FROM_HERE in message else JobSubmissionOutcome.REFUSED, reason=reason
    )


def _unquoted(words: bytes) -> bytes:
    """Return qsub's message without quoted texts, which users may choose."""
    return b" ".join(words.split(b'"')[::2])


def _first_line(words: bytes) -> str:
    """Return the first error line of qsub, without its prefix, warnings and `Exiting.`."""
    lines = words.decode("utf-8", "replace").replace("Unable to run job: ", "").splitlines()
    telling = [line.strip() for line in lines if line.strip() not in ("", "Exiting.")]
    errors = [line for line in telling if not line.startswith("warning:")]
    return (errors or telling or ["qsub said nothing"])[0]


def find_held_job(cell: GridEngineCellAccess, transfer: str, owner: str) -> str:
    """Return the id of the owner's oldest job of the transfer's name, empty if none.

    Several jobs exist if an answer was lost and the job was submitted again. Raises CommandFailed
    or ParseError if the cell did not answer, so that nothing is known.
    """
    return str(min(_named(cell, transfer, owner), default=""))


def find_duplicate_arrays(cell: GridEngineCellAccess, transfer: str, owner: str, array: str) -> list[str]:
    """Return the ids of the owner's other jobs of this name; released jobs were renamed.

    Arrays are found even if an operator has renamed them.
    """
    return [str(job) for job in _named(cell, transfer, owner) if str(job) != array]


def _named(cell: GridEngineCellAccess, transfer: str, owner: str) -> list[int]:
    """Find a user's jobs of a name among that user's jobs only.

    `qstat -j NAME` shows all users' jobs of the name, so any user could make its output too long.
    """
    listed = run_client(cell, client_commands.list_jobs_of_owner_command(cell, owner)).checked().stdout
    jobs = _bearing(cell, listed, transfer, owner)
    if transfer.startswith(OF_ARRAY):
        # rarely needed: only after a lost answer
        from gridbridge.batch.gridengine.arrays_by_submitted_name import find_arrays_by_submitted_name

        jobs = sorted({*jobs, *find_arrays_by_submitted_name(cell, listed, transfer, owner)})
    return jobs


def _bearing(cell: GridEngineCellAccess, listed: bytes, transfer: str, owner: str) -> list[int]:
    jobs = tuple(parse_job_ids_by_name(listed, transfer, owner))
    shown = query_job_details_xml(cell, jobs) if jobs else ()
    return [number for number, job in shown if parse_owner_and_account(job) == (owner, transfer)]


def query_owner_and_account(cell: GridEngineCellAccess, job: str) -> tuple[str, str]:
    """Return a job's owner and account, both empty if the cell does not know it."""
    xml = query_job_xml(cell, job)
    if UNKNOWN_JOB in xml:
        return "", ""
    return parse_owner_and_account(xml)


def query_live_indices(cell: GridEngineCellAccess, arrays: dict[str, str]) -> dict[str, tuple[range, ...]]:
    """Return the indices of the caller's array tasks that wait or run."""
    return parse_array_indices(run_client(cell, client_commands.list_own_jobs_command(cell)).checked().stdout, arrays)


def hold_array_tasks(
    cell: GridEngineCellAccess, array: str, _name: str, indices: tuple[range, ...]
) -> tuple[range, ...]:
    """Put a user hold on array tasks; return the indices of waiting tasks that are held."""
    for tasks in _in_calls(array, indices):
        hold_job(cell, tasks, gone_is_fine=True)
    listed = run_client(cell, client_commands.list_own_jobs_command(cell)).checked().stdout
    return parse_array_indices(listed, (array,), b"pending", "h")[array]


def release_array_tasks(cell: GridEngineCellAccess, array: str, indices: tuple[range, ...]) -> None:
    """Remove the user hold of array tasks."""
    for tasks in _in_calls(array, indices):
        release_job(cell, tasks, gone_is_fine=True)


def _in_calls(array: str, indices: tuple[range, ...]) -> "Iterator[str]":
    """Yield an array's tasks in qalter's form, in portions that fit a command line."""
    for begin in range(0, len(indices), A_CALL):
        portion = indices[begin : begin + A_CALL]
        yield ",".join(f"{array}.{span[0]}-{span[-1]}" for span in portion)


def query_job_request(cell: GridEngineCellAccess, job: str) -> JobRequest:
    """Return a job's request."""
    return parse_job_request(query_job_xml(cell, job))


def query_job_requests(cell: GridEngineCellAccess, jobs: tuple[int, ...]) -> dict[int, JobRequest]:
    """Return the requests of several jobs by one query; gone jobs are left out."""
    return {number: parse_job_request(part) for number, part in query_job_details_xml(cell, jobs)}


def query_job_accounts(cell: GridEngineCellAccess, jobs: tuple[int, ...]) -> dict[int, str]:
    """Return the accounts of several jobs by one query; gone jobs are left out."""
    return {number: parse_owner_and_account(part)[1] for number, part in query_job_details_xml(cell, jobs)}


def query_job_details_xml(cell: GridEngineCellAccess, jobs: tuple[int, ...]) -> "Iterator[tuple[int, bytes]]":
    """Yield the cell's XML about several jobs, by job id; ParseError if it is incomplete."""
    for begin in range(0, len(jobs), JOBS_A_CALL):
        xml = query_job_xml(cell, ",".join(map(str, jobs[begin : begin + JOBS_A_CALL])))
        if not xml.rstrip().endswith(END_OF_DETAIL) and UNKNOWN_JOB not in xml:
            raise ParseError("qstat -j: not a whole answer")
        for part in xml.split(JOB_NUMBER)[1:]:
            number = part.partition(b"<")[0]
            if number.isdigit():
                yield int(number), JOB_NUMBER + part


def query_job_xml(cell: GridEngineCellAccess, job: str) -> bytes:
    """Return the cell's XML about a job, which submitted_request parses."""
    return run_client(cell, client_commands.show_job_detail_command(cell, job)).checked().stdout


def query_deferred_jobs(cell: GridEngineCellAccess) -> frozenset[int]:
    """Return the jobs that wait for their start time; ParseError for a truncated answer."""
    xml = run_client(cell, client_commands.list_deferred_jobs_command(cell)).checked().stdout
    if not xml.rstrip().endswith(b"</job_info>"):
        raise ParseError("qstat -s ha: not a whole answer")
    numbers = (part.partition(b"<")[0] for part in xml.split(JOB_NUMBER)[1:])
    return frozenset(int(number) for number in numbers if number.isdigit())


def hold_job(cell: GridEngineCellAccess, job: str, gone_is_fine: bool = False) -> None:
    """Put a user hold on a job or task, waiting or running."""
    _do(cell, client_commands.hold_job_command(cell, job), gone_is_fine)


def release_job(cell: GridEngineCellAccess, job: str, gone_is_fine: bool = False) -> None:
    """Remove the user hold of a job or task."""
    _do(cell, client_commands.release_job_command(cell, job), gone_is_fine)


def defer_restart(cell: GridEngineCellAccess, job: str, request: JobRequest) -> None:
    """Give a job a far start time so that it can't restart; its own is kept in its context."""
    run_client(cell, client_commands.defer_restart_command(cell, job, request.own_start), zone=UTC).checked()


def restore_start_time(cell: GridEngineCellAccess, job: str) -> str:
    """Restore a job's own start time; a start time that a user set meanwhile stays.

    Returns the text that its owner wrote in place of the kept time, if that is no time.
    """
    request = query_job_request(cell, job)
    if request.is_deferred or OWN_START in dict(request.context):
        run_client(cell, client_commands.restore_start_time_command(cell, job, request.own_start), zone=UTC).checked()
    return request.odd_start


def rename_and_release(cell: GridEngineCellAccess, job: str, name: str) -> None:
    """Give a held job its real name and release it."""
    _do(cell, client_commands.rename_and_release_command(cell, job, name))


def release_arrays(cell: GridEngineCellAccess, arrays: tuple[str, ...], name: str) -> None:
    """Give held arrays their real name and release their tasks, in one request."""
    _do(cell, client_commands.rename_and_release_command(cell, ",".join(arrays), name))


def delete_array(cell: GridEngineCellAccess, array: str) -> None:
    """Delete all tasks of an array; a gone array is no error."""
    _do(cell, client_commands.delete_job_command(cell, array), gone_is_fine=True)


def delete_array_tasks(cell: GridEngineCellAccess, array: str, _name: str, indices: str) -> None:
    """Delete the array tasks with these indices; gone tasks are no error."""
    _do(cell, client_commands.delete_array_tasks_command(cell, array, indices), gone_is_fine=True)


def pin_job_to_queue(
    cell: GridEngineCellAccess, job: str, queue: str, remember: str, hard: Pairs | None = None
) -> None:
    """Restrict a whole job to one queue; Grid Engine can't restrict a single task."""
    _do(cell, client_commands.pin_to_queue_command(cell, job, queue, remember, hard))


def restore_queue_list(cell: GridEngineCellAccess, job: str, queues: str, hard: Pairs | None = None) -> str:
    """Restore a job's own queue list.

    If these queues no longer exist, the job may start in any queue, and the list is returned.
    """
    answer = run_client(cell, client_commands.restore_queue_list_command(cell, job, queues, hard))
    if answer.status and any(sign in answer.stdout + answer.stderr for sign in NO_QUEUES):
        _do(cell, client_commands.restore_queue_list_command(cell, job, ANY_QUEUE, hard))
        return queues
    answer.checked()
    return ""


def alter_job(cell: GridEngineCellAccess, job: str, options: Argv) -> None:
    """Change a job's request."""
    _do(cell, client_commands.alter_job_command(cell, job, options))


def delete_job(cell: GridEngineCellAccess, job: str) -> None:
    """Delete a job; a gone job is no error."""
    _do(cell, client_commands.delete_job_command(cell, job), gone_is_fine=True)


def delete_waiting_job(cell: GridEngineCellAccess, job: str) -> bool | None:
    """Delete a job; return whether it was waiting, or None if it did not exist.

    The qmaster's answer shows whether a waiting job was removed or a started job is killed.
    """
    answer = run_client(cell, client_commands.delete_job_command(cell, job))
    words = answer.stdout + answer.stderr
    if any(sign in words for sign in DENIED_UNKNOWN):
        return None
    answer.checked()
    return DELETED in words


def suspend_or_hold_job(cell: GridEngineCellAccess, job: str) -> None:
    """Suspend a running job or hold a waiting one; a gone job is no error.

    The hold comes first, so that a waiting job can't start any more. A job that runs after the hold
    is suspended, even if its queue is suspended already.
    """
    hold_job(cell, job, gone_is_fine=True)
    now = query_job_state(cell, job)
    is_stopped = now.is_waiting or now.is_by_hand or now.is_deleting
    if now.is_listed and not is_stopped:
        _do(cell, client_commands.suspend_job_command(cell, job), gone_is_fine=True)


def resume_or_release_job(cell: GridEngineCellAccess, job: str) -> None:
    """Undo `suspend_or_hold_job`, whether it suspended or held the job.

    A suspended job without our hold was suspended by another user and stays suspended.
    """
    now = query_job_state(cell, job)
    if now.is_held and now.is_by_hand:
        _do(cell, client_commands.unsuspend_job_command(cell, job), gone_is_fine=True)
    release_job(cell, job, gone_is_fine=True)


def query_job_state(cell: GridEngineCellAccess, job: str) -> "JobState":
    """Return the state of a job, or of a task `12.3`; UNSEEN if it is not listed.

    Raises ParseError for a truncated answer, from which no state follows.
    """
    # most transfers need no state letters
    from gridbridge.batch.qstat_state_letters import parse_job_state_letters
    from gridbridge.model.states import UNSEEN

    xml = run_client(cell, client_commands.list_own_jobs_command(cell)).checked().stdout
    if not xml.rstrip().endswith(b"</job_info>"):
        raise ParseError("qstat -xml: not a whole answer")
    number, _, task = job.partition(".")
    for entry in xml.split(b"<JB_job_number>")[1:]:
        row = entry.partition(b"</job_list>")[0]
        tasks = row.partition(b"<tasks>")[2].partition(b"<")[0]
        if row.partition(b"<")[0] == number.encode() and _names(tasks.decode(), task):
            return parse_job_state_letters(row.partition(b"<state>")[2].partition(b"<")[0].decode())
    return UNSEEN


def _names(tasks: str, task: str) -> bool:
    """Say whether ranges such as `1-9:2,12` include a task; empty ranges stand for a single job."""
    if not (tasks and task):
        return tasks == task
    return any(int(task) in span for span in parse_qstat_task_ranges(tasks))


def query_queue_limit(cell: GridEngineCellAccess, queue: str, name: str, host: str) -> str:
    """Return a limit of a queue, with the value for one host (queue_conf(5))."""
    lines = run_client(cell, client_commands.show_queue_command(cell, queue)).checked().stdout.decode().splitlines()
    values = next((line.split()[1] for line in lines if line.split()[:1] == [name]), "")
    general, _, special = values.partition(",[")
    own = special.partition(f"{host}=")[2]
    return own.partition("]")[0] if own else general


def _do(cell: GridEngineCellAccess, argv: Argv, gone_is_fine: bool = False) -> None:
    answer = run_client(cell, argv)
    words = answer.stdout + answer.stderr
    if answer.status and not (gone_is_fine and any(sign in words for sign in DENIED_UNKNOWN)):
        answer.checked()


def run_client(
    cell: GridEngineCellAccess,
    argv: Argv,
    stdin: bytes = b"",
    zone: str = "",
    mark: str = "",
    most_bytes: int = ANSWER_BYTES,
) -> CompletedProgram:
    """Run a client program of the cell, locally or by ssh, in a time zone if one is given.

    A job that qsub submits keeps the mark (arrays_by_submitted_name). The ssh module is loaded only
    for cells that need it, because each transfer pays for the modules that it loads.
    """
    env = cell.environment() | ({"TZ": zone} if zone else {}) | ({MARK: mark} if mark else {})
    if cell.login is None:
        return run_program(argv, env, cell.timeout_s, stdin, most_bytes)
    from gridbridge.shell import ssh

    return ssh.run_over_ssh(cell.login, argv, env, cell.timeout_s, stdin, most_bytes=most_bytes)
