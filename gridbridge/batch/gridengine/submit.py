"""What a transfer asks of the two cells, one request each: the hot path's half of the adapter.

Grid Engine's clients say the same exit status for most errors, so a failed submission is told
by its words (facts: qsub of 8.1.9; sources of 6.2u5 and OCS 9.2 where marked).
"""

from gridbridge.batch.gridengine import client_commands
from gridbridge.batch.gridengine.client_commands import Argv
from gridbridge.batch.gridengine.submitted_request import (
    jobs_listed,
    listed_places,
    owner_and_account_of,
    read_request,
)
from gridbridge.batch.submission_result import Result, Submission, unanswered
from gridbridge.errors import CommandFailed, ParseError
from gridbridge.model.campaigns.campaign_names import PREFIX
from gridbridge.model.ids import parse_task_ranges
from gridbridge.model.places import BEST_EFFORT
from gridbridge.model.request import OWN_START, JobRequest, JobSpec, Pairs
from gridbridge.model.route import GridEngineCell
from gridbridge.shell.runner import ANSWER_BYTES, CompletedProgram, run

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gridbridge.model.states import JobState

HAS_QSTAT = True
HAS_START_TIMES = True
UTC = "UTC"
TRY_LATER = 25  # qsub(1) EXIT STATUS: a limit of the cell, max_u_jobs and its kin
NOT_REACHED = (  # before the request was sent: nothing was submitted
    b"unable to contact qmaster",
    b"got select error",
    b"unable to send message",
    b"can't resolve host name",
    b"critical error:",
    b"unable to initialize environment",
)
OF_A_PERSON = b"jobs are allowed per user"  # max_u_jobs
FROM_HERE = b"is not a submit host"
NO_ANSWER = (  # after it was sent: the job may exist
    b"failed receiving gdi request response",
    b"timeout error",
    b"error reading answer list",
    b"has been submitted",  # after a warning that qsub takes for an error
)
NO_BEST_EFFORT = f'unknown resource "{BEST_EFFORT}"'.encode()
A_CALL = 2000  # ranges of tasks
OF_ARRAY = f"{PREFIX}."
MARK = "MAIL"  # a variable of qsub's environment that root does not set
JOB_NUMBER = b"<JB_job_number>"
UNKNOWN_JOB = b"<unknown_jobs"
END_OF_DETAIL = b"</detailed_job_info>"
JOBS_A_CALL = 1000
NO_QUEUES = (b"requests unknown queue", b"Wrong queue list format")  # of `qalter -q`
ANY_QUEUE = "*"
DELETED = b"has deleted job"  # of a started one: has registered the job ... for deletion
DENIED_UNKNOWN = (b"does not exist", b"do not exist")


def submit(cell: GridEngineCell, spec: JobSpec) -> Submission:
    """Submit a held job; never raises for what the cell answers, or does not.

    Where no queue has jobs that make way for others, one of these is the last of the ordinary ones.
    """
    if reason := client_commands.refusal(spec.request):
        return Submission(Result.REFUSED, reason=reason)
    try:
        mark = spec.transfer if spec.tasks else ""
        answer = call(cell, client_commands.submit_held(cell, spec), spec.script, mark=mark)
        if answer.status and NO_BEST_EFFORT in answer.stderr + answer.stdout:
            ordinary = client_commands.without_way(spec)
            answer = call(cell, client_commands.submit_held(cell, ordinary), spec.script, mark=mark)
    except CommandFailed as error:
        return unanswered(error)
    return _read_answer(answer)


def _read_answer(answer: CompletedProgram) -> Submission:
    last = answer.stdout.strip().rpartition(b"\n")[2].partition(b".")[0]
    if answer.status == 0 and last.isdigit():
        return Submission(Result.ACCEPTED, remote_id=last.decode())
    words = (answer.stderr + answer.stdout).strip()
    message = _unquoted(words.lower())
    reason = _first_line(words)
    if OF_A_PERSON in message:
        return Submission(Result.BARRED, reason=reason)
    if answer.status == TRY_LATER or any(sign in message for sign in NOT_REACHED):
        return Submission(Result.LATER, reason=reason)
    if answer.status <= 0 or any(sign in message for sign in NO_ANSWER):
        return Submission(Result.UNSURE, reason=reason)
    return Submission(Result.DENIED if FROM_HERE in message else Result.REFUSED, reason=reason)


def _unquoted(words: bytes) -> bytes:
    """Return qsub's own words: a person's, and an object's name, stand in quotes."""
    return b" ".join(words.split(b'"')[::2])


def _first_line(words: bytes) -> str:
    """Return the line that says why: not qsub's prefix, its warnings, or its `Exiting.`."""
    lines = words.decode("utf-8", "replace").replace("Unable to run job: ", "").splitlines()
    telling = [line.strip() for line in lines if line.strip() not in ("", "Exiting.")]
    errors = [line for line in telling if not line.startswith("warning:")]
    return (errors or telling or ["qsub said nothing"])[0]


def find_held(cell: GridEngineCell, transfer: str, owner: str) -> str:
    """Return the id of the owner's job that bears the transfer's name, empty when there is none.

    With several (an answer was lost and the job submitted again) the oldest is meant; another
    person's is never meant. Raises CommandFailed or ParseError when the cell did not say: then
    nothing is known.
    """
    return str(min(_named(cell, transfer, owner), default=""))


def find_others(cell: GridEngineCell, transfer: str, owner: str, array: str) -> list[str]:
    """Return the ids of the owner's other jobs of that name; released jobs have another name.

    Arrays are found even after somebody renamed them.
    """
    return [str(job) for job in _named(cell, transfer, owner) if str(job) != array]


def _named(cell: GridEngineCell, transfer: str, owner: str) -> list[int]:
    """Find a person's jobs of a name among that person's jobs alone.

    `qstat -j NAME` shows everybody's jobs of that name whole: anybody can make it too long to read.
    """
    listed = call(cell, client_commands.jobs_of(cell, owner)).checked().stdout
    jobs = _bearing(cell, listed, transfer, owner)
    if transfer.startswith(OF_ARRAY):
        from gridbridge.batch.gridengine.marked_arrays import marked  # answers are rarely lost

        jobs = sorted({*jobs, *marked(cell, listed, transfer, owner)})
    return jobs


def _bearing(cell: GridEngineCell, listed: bytes, transfer: str, owner: str) -> list[int]:
    jobs = tuple(jobs_listed(listed, transfer, owner))
    shown = details(cell, jobs) if jobs else ()
    return [number for number, job in shown if owner_and_account_of(job) == (owner, transfer)]


def owner_and_account(cell: GridEngineCell, job: str) -> tuple[str, str]:
    """Return whose job it is and its account, both empty when the cell does not know it."""
    xml = detail(cell, job)
    if UNKNOWN_JOB in xml:
        return "", ""
    return owner_and_account_of(xml)


def living(cell: GridEngineCell, arrays: dict[str, str]) -> dict[str, tuple[range, ...]]:
    """Return the places at which tasks of the caller's arrays wait or run."""
    return listed_places(call(cell, client_commands.own_status(cell)).checked().stdout, arrays)


def hold_places(
    cell: GridEngineCell, array: str, _name: str, indices: tuple[range, ...]
) -> tuple[range, ...]:
    """Put a user hold on tasks of an array; return those that wait then, and are held."""
    for tasks in _in_calls(array, indices):
        hold(cell, tasks, gone_is_fine=True)
    listed = call(cell, client_commands.own_status(cell)).checked().stdout
    return listed_places(listed, (array,), b"pending", "h")[array]


def release_places(cell: GridEngineCell, array: str, indices: tuple[range, ...]) -> None:
    """Take the user hold of tasks back."""
    for tasks in _in_calls(array, indices):
        release(cell, tasks, gone_is_fine=True)


def _in_calls(array: str, indices: tuple[range, ...]) -> "Iterator[str]":
    """Give tasks as qalter names them, so many at once as a command line may have."""
    for begin in range(0, len(indices), A_CALL):
        portion = indices[begin : begin + A_CALL]
        yield ",".join(f"{array}.{span[0]}-{span[-1]}" for span in portion)


def request_of(cell: GridEngineCell, job: str) -> JobRequest:
    """Return what a job asked for."""
    return read_request(detail(cell, job))


def requests_of(cell: GridEngineCell, jobs: tuple[int, ...]) -> dict[int, JobRequest]:
    """Return what several jobs asked for, in one request; those that are gone are left out."""
    return {number: read_request(part) for number, part in details(cell, jobs)}


def accounts_of(cell: GridEngineCell, jobs: tuple[int, ...]) -> dict[int, str]:
    """Return the accounts of several jobs, as above."""
    return {number: owner_and_account_of(part)[1] for number, part in details(cell, jobs)}


def details(cell: GridEngineCell, jobs: tuple[int, ...]) -> "Iterator[tuple[int, bytes]]":
    """Give the cell's answers about several jobs, by their ids; ParseError for half an answer."""
    for begin in range(0, len(jobs), JOBS_A_CALL):
        xml = detail(cell, ",".join(map(str, jobs[begin : begin + JOBS_A_CALL])))
        if not xml.rstrip().endswith(END_OF_DETAIL) and UNKNOWN_JOB not in xml:
            raise ParseError("qstat -j: not a whole answer")
        for part in xml.split(JOB_NUMBER)[1:]:
            number = part.partition(b"<")[0]
            if number.isdigit():
                yield int(number), JOB_NUMBER + part


def detail(cell: GridEngineCell, job: str) -> bytes:
    """Return all that the cell tells of a job; request.py reads it."""
    return call(cell, client_commands.detail(cell, job)).checked().stdout


def deferred(cell: GridEngineCell) -> frozenset[int]:
    """Return the jobs that wait for their start time; ParseError for half an answer."""
    xml = call(cell, client_commands.deferred(cell)).checked().stdout
    if not xml.rstrip().endswith(b"</job_info>"):
        raise ParseError("qstat -s ha: not a whole answer")
    numbers = (part.partition(b"<")[0] for part in xml.split(JOB_NUMBER)[1:])
    return frozenset(int(number) for number in numbers if number.isdigit())


def hold(cell: GridEngineCell, job: str, gone_is_fine: bool = False) -> None:
    """Put a user hold on a job or task, waiting or running."""
    _do(cell, client_commands.hold(cell, job), gone_is_fine)


def release(cell: GridEngineCell, job: str, gone_is_fine: bool = False) -> None:
    """Take the user hold back."""
    _do(cell, client_commands.release(cell, job), gone_is_fine)


def defer(cell: GridEngineCell, job: str, request: JobRequest) -> None:
    """Keep a whole job from being started again; its own start time is kept in its context."""
    call(cell, client_commands.defer(cell, job, request.own_start), zone=UTC).checked()


def undefer(cell: GridEngineCell, job: str) -> str:
    """Take that back; a start time that somebody has given it meanwhile stays.

    Returns what its owner has written in the place of its own time, if that is not a time.
    """
    request = request_of(cell, job)
    if request.is_deferred or OWN_START in dict(request.context):
        call(cell, client_commands.undefer(cell, job, request.own_start), zone=UTC).checked()
    return request.odd_start


def release_as(cell: GridEngineCell, job: str, name: str) -> None:
    """Give a held job its real name and let it run."""
    _do(cell, client_commands.release_as(cell, job, name))


def release_arrays(cell: GridEngineCell, arrays: tuple[str, ...], name: str) -> None:
    """Give held arrays their real name and let their tasks start, in one request."""
    _do(cell, client_commands.release_as(cell, ",".join(arrays), name))


def delete_array(cell: GridEngineCell, array: str) -> None:
    """Delete all tasks of an array; one that is gone already is deleted."""
    _do(cell, client_commands.delete(cell, array), gone_is_fine=True)


def delete_places(cell: GridEngineCell, array: str, _name: str, indices: str) -> None:
    """Delete some tasks of an array; those that are gone already are deleted."""
    _do(cell, client_commands.delete_places(cell, array, indices), gone_is_fine=True)


def pin(
    cell: GridEngineCell, job: str, queue: str, remember: str, hard: Pairs | None = None
) -> None:
    """Let a whole job start in this queue only; Grid Engine can't do it for a single task."""
    _do(cell, client_commands.pin(cell, job, queue, remember, hard))


def unpin(cell: GridEngineCell, job: str, queues: str, hard: Pairs | None = None) -> str:
    """Give a job its own list of queues back.

    Returns that list if there are no such queues, by its owner's words or by now; any will do then.
    """
    answer = call(cell, client_commands.unpin(cell, job, queues, hard))
    if answer.status and any(sign in answer.stdout + answer.stderr for sign in NO_QUEUES):
        _do(cell, client_commands.unpin(cell, job, ANY_QUEUE, hard))
        return queues
    answer.checked()
    return ""


def alter(cell: GridEngineCell, job: str, options: Argv) -> None:
    """Change a job's request."""
    _do(cell, client_commands.alter(cell, job, options))


def delete(cell: GridEngineCell, job: str) -> None:
    """Delete a job; one that is gone already is deleted."""
    _do(cell, client_commands.delete(cell, job), gone_is_fine=True)


def delete_waiting(cell: GridEngineCell, job: str) -> bool | None:
    """Delete a job; say whether it waited until then, None when it was not there.

    The qmaster says of the same request whether it forgot a waiting job or kills a started one.
    """
    answer = call(cell, client_commands.delete(cell, job))
    words = answer.stdout + answer.stderr
    if any(sign in words for sign in DENIED_UNKNOWN):
        return None
    answer.checked()
    return DELETED in words


def suspend_any(cell: GridEngineCell, job: str) -> None:
    """Suspend a job that waits or runs, or that starts while we look; a gone one is left alone.

    The hold comes first: a job that was waiting then can't start any more, one that is running
    afterwards is suspended, also where its queue is suspended already.
    """
    hold(cell, job, gone_is_fine=True)
    now = state(cell, job)
    is_stopped = now.is_waiting or now.is_by_hand or now.is_deleting
    if now.is_listed and not is_stopped:
        _do(cell, client_commands.suspend(cell, job), gone_is_fine=True)


def resume_any(cell: GridEngineCell, job: str) -> None:
    """Take back what suspend_any did, whichever it was.

    A suspended job without our hold, which comes first, was suspended by somebody else there.
    """
    now = state(cell, job)
    if now.is_held and now.is_by_hand:
        _do(cell, client_commands.unsuspend(cell, job), gone_is_fine=True)
    release(cell, job, gone_is_fine=True)


def state(cell: GridEngineCell, job: str) -> "JobState":
    """Return what a job is, or a task `12.3`; UNSEEN when it is not in the list.

    Raises ParseError for half an answer: that means nothing.
    """
    from gridbridge.batch.gridengine.sge_state_letters import (
        read_job,
    )  # most transfers do without them
    from gridbridge.model.states import UNSEEN

    xml = call(cell, client_commands.own_status(cell)).checked().stdout
    if not xml.rstrip().endswith(b"</job_info>"):
        raise ParseError("qstat -xml: not a whole answer")
    number, _, task = job.partition(".")
    for entry in xml.split(b"<JB_job_number>")[1:]:
        row = entry.partition(b"</job_list>")[0]
        tasks = row.partition(b"<tasks>")[2].partition(b"<")[0]
        if row.partition(b"<")[0] == number.encode() and _names(tasks.decode(), task):
            return read_job(row.partition(b"<state>")[2].partition(b"<")[0].decode())
    return UNSEEN


def _names(tasks: str, task: str) -> bool:
    """Say whether `1-9:2,12` names a task; nothing at all names the job itself."""
    if not (tasks and task):
        return tasks == task
    return any(int(task) in span for span in parse_task_ranges(tasks))


def queue_value(cell: GridEngineCell, queue: str, name: str, host: str) -> str:
    """Return a value of a queue's configuration as it holds on a host (queue_conf(5))."""
    lines = call(cell, client_commands.queue(cell, queue)).checked().stdout.decode().splitlines()
    values = next((line.split()[1] for line in lines if line.split()[:1] == [name]), "")
    general, _, special = values.partition(",[")
    own = special.partition(f"{host}=")[2]
    return own.partition("]")[0] if own else general


def _do(cell: GridEngineCell, argv: Argv, gone_is_fine: bool = False) -> None:
    answer = call(cell, argv)
    words = answer.stdout + answer.stderr
    if answer.status and not (gone_is_fine and any(sign in words for sign in DENIED_UNKNOWN)):
        answer.checked()


def call(
    cell: GridEngineCell,
    argv: Argv,
    stdin: bytes = b"",
    zone: str = "",
    mark: str = "",
    most_bytes: int = ANSWER_BYTES,
) -> CompletedProgram:
    """Run a client program where the cell has it, here or by ssh, in a time zone if that matters.

    A job that `qsub` submits keeps the mark (marked.py). The ssh module is loaded only for cells
    that need it: every transfer pays for the modules that it loads.
    """
    env = cell.environment() | ({"TZ": zone} if zone else {}) | ({MARK: mark} if mark else {})
    if cell.login is None:
        return run(argv, env, cell.timeout_s, stdin, most_bytes)
    from gridbridge.shell import ssh

    return ssh.run(cell.login, argv, env, cell.timeout_s, stdin, most_bytes=most_bytes)
