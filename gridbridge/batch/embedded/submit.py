"""What a transfer asks of an embedded cluster, one request each: the hot path's half."""

import os

from gridbridge.batch.embedded import embedded_commands
from gridbridge.batch.embedded.embedded_commands import Argv
from gridbridge.batch.embedded.embedded_output import JobLine, read_jobs
from gridbridge.batch.submission_result import Result, Submission, unanswered
from gridbridge.errors import CommandFailed, ParseError
from gridbridge.model.request import JobRequest, JobSpec
from gridbridge.model.route import EmbeddedFolder
from gridbridge.shell.runner import CompletedProgram, run

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from gridbridge.model.states import JobState

HAS_QSTAT = False
HAS_START_TIMES = False
WAITING = "waiting"  # of a job's facts (model.states)
ANSWERS = {os.EX_DATAERR: Result.REFUSED, os.EX_TEMPFAIL: Result.LATER}


def submit(folder: EmbeddedFolder, spec: JobSpec) -> Submission:
    """Submit a held job; never raises for what the cluster answers, or does not."""
    if reason := embedded_commands.refusal(spec.request, is_array=spec.tasks > 0):
        return Submission(Result.REFUSED, reason=reason)
    try:
        answer = _call(folder, embedded_commands.submit_held(folder, spec), spec.script)
    except CommandFailed as error:
        return unanswered(error)
    return _read_answer(answer)


def _read_answer(answer: CompletedProgram) -> Submission:
    number = answer.stdout.strip()
    if answer.status == 0 and number.isdigit():
        return Submission(Result.ACCEPTED, remote_id=number.decode())
    result = ANSWERS.get(answer.status, Result.UNSURE)
    return Submission(
        result, reason=CommandFailed(answer.argv, answer.status, b"", answer.stderr).reason
    )


def find_held(folder: EmbeddedFolder, transfer: str, owner: str) -> str:
    """Return the id of the owner's oldest job or array under the transfer's name, or nothing."""
    return next(iter(_named(folder, transfer, owner)), "")


def find_others(folder: EmbeddedFolder, transfer: str, owner: str, array: str) -> list[str]:
    """Return the ids of the owner's other arrays of that name; a released one has another name."""
    return [job for job in _named(folder, transfer, owner) if job != array]


def _named(folder: EmbeddedFolder, name: str, owner: str) -> dict[str, None]:
    jobs = _jobs(folder, embedded_commands.show_named(folder, name))
    ours = (job for job in jobs if (job.owner, job.account) == (owner, name))
    return dict.fromkeys(job.array or job.id for job in ours)


def owner_and_account(folder: EmbeddedFolder, job: str) -> tuple[str, str]:
    """Return whose job it is and its account, both empty when it neither waits nor runs."""
    jobs = _jobs(folder, embedded_commands.show_job(folder, job))
    return (jobs[0].owner, jobs[0].account) if jobs else ("", "")


def living(folder: EmbeddedFolder, arrays: dict[str, str]) -> dict[str, tuple[range, ...]]:
    """Return the places at which tasks of arrays wait or run; their account is their first name."""
    jobs = _jobs(folder, embedded_commands.show(folder))
    indices: dict[str, list[range]] = {array: [] for array in arrays}
    for job in jobs:
        if arrays.get(job.array) == job.account:
            indices[job.array].append(range(int(job.place), int(job.place) + 1))
    return {array: tuple(spans) for array, spans in indices.items()}


def state(folder: EmbeddedFolder, job: str) -> "JobState":
    """Return what a job is; UNSEEN when it neither waits nor runs."""
    from gridbridge.model.states import UNSEEN, JobState  # most transfers do without them

    jobs = _jobs(folder, embedded_commands.show_job(folder, job))
    return JobState(jobs[0].facts.split(), jobs[0].state) if jobs else UNSEEN


def release_as(folder: EmbeddedFolder, job: str, name: str) -> None:
    """Give a held job its real name and let it run."""
    _call(folder, embedded_commands.release_as(folder, job, name)).checked()


def release_arrays(folder: EmbeddedFolder, arrays: tuple[str, ...], name: str) -> None:
    """Give held arrays their real name and let their tasks start."""
    for array in arrays:
        _call(folder, embedded_commands.release_array(folder, array, name)).checked()


def delete_array(folder: EmbeddedFolder, array: str) -> None:
    """Delete all tasks of an array; one that is gone already is deleted."""
    _unless_gone(folder, embedded_commands.delete_array(folder, array))


def delete_places(folder: EmbeddedFolder, array: str, _name: str, indices: str) -> None:
    """Delete some tasks of an array; those that are gone already are deleted."""
    _unless_gone(folder, embedded_commands.delete_array(folder, array, indices))


def hold_places(
    folder: EmbeddedFolder, array: str, name: str, indices: tuple[range, ...]
) -> tuple[range, ...]:
    """Hold tasks of an array; return those that wait then."""
    for job in _at(folder, array, name, indices):
        _unless_gone(folder, embedded_commands.act(folder, "hold", job.id))
    held = _at(folder, array, name, indices)
    waiting = (int(job.place) for job in held if WAITING in job.facts.split())
    return tuple(range(index, index + 1) for index in waiting)


def release_places(folder: EmbeddedFolder, array: str, indices: tuple[range, ...]) -> None:
    """Let tasks of an array start again."""
    for job in _jobs(folder, embedded_commands.show(folder)):
        if job.array == array and any(int(job.place) in span for span in indices):
            _unless_gone(folder, embedded_commands.act(folder, "release", job.id))


def _at(folder: EmbeddedFolder, array: str, name: str, indices: tuple[range, ...]) -> list[JobLine]:
    """Return the tasks at some places of the array of that name."""
    jobs = _jobs(folder, embedded_commands.show(folder))
    ours = (job for job in jobs if (job.array, job.account) == (array, name))
    return [job for job in ours if any(int(job.place) in span for span in indices)]


def hold(folder: EmbeddedFolder, job: str) -> None:
    """Keep a waiting job from starting."""
    _call(folder, embedded_commands.act(folder, "hold", job)).checked()


def release(folder: EmbeddedFolder, job: str) -> None:
    """Let it start again."""
    _call(folder, embedded_commands.act(folder, "release", job)).checked()


def defer(folder: EmbeddedFolder, job: str, request: JobRequest) -> None:
    """Refuse: a job has no start time here, it is held (transfer/starter/task_guard)."""
    del folder, request
    raise ParseError(f"job {job} can't be given a start time")


def undefer(folder: EmbeddedFolder, job: str) -> None:
    """Refuse, as `defer`."""
    del folder
    raise ParseError(f"job {job} has no start time")


def suspend_any(folder: EmbeddedFolder, job: str) -> None:
    """Suspend a job that waits or runs; a gone one is left alone."""
    _unless_gone(folder, embedded_commands.act(folder, "suspend", job))


def resume_any(folder: EmbeddedFolder, job: str) -> None:
    """Take back what suspend_any did, whichever it was."""
    _unless_gone(folder, embedded_commands.act(folder, "resume", job))


def delete(folder: EmbeddedFolder, job: str) -> None:
    """Delete a job; one that is gone already is deleted."""
    _unless_gone(folder, embedded_commands.act(folder, "delete", job))


def request_of(folder: EmbeddedFolder, job: str) -> JobRequest:
    """Return what a job asked for at home: slots, which its starter is told, and nothing else."""
    if not _jobs(folder, embedded_commands.show_job(folder, job)):
        raise ParseError(f"job {job} is not listed")
    return JobRequest()


def queue_value(_folder: EmbeddedFolder, _queue: str, _name: str, _host: str) -> str:
    """Return a limit of a queue: there is none."""
    return ""


def _jobs(folder: EmbeddedFolder, argv: Argv) -> list[JobLine]:
    return read_jobs(_call(folder, argv).checked().stdout)[1]


def _unless_gone(folder: EmbeddedFolder, argv: Argv) -> None:
    answer = _call(folder, argv)
    if answer.status != os.EX_NOINPUT:
        answer.checked()


def _call(folder: EmbeddedFolder, argv: Argv, stdin: bytes = b"") -> CompletedProgram:
    return run(argv, folder.environment(), folder.timeout_s, stdin)
