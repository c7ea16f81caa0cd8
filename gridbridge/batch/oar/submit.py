"""What a transfer asks of an OAR server, one request each: the hot path's half of the adapter.

Only questions for a job's state load the JSON reader. OAR notes a hold and carries it out later;
an act that depends on the hold waits here for it.
"""

import time

from gridbridge.batch.oar import oar_commands
from gridbridge.batch.submission_result import Result, Submission, unanswered
from gridbridge.errors import CommandFailed
from gridbridge.model.request import JobSpec
from gridbridge.model.route import OarServer
from gridbridge.shell import ssh
from gridbridge.shell.runner import ANSWER_BYTES, CompletedProgram

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Callable

    from gridbridge.batch.oar.oar_output import OarJob
    from gridbridge.model.states import JobState

HAS_QSTAT = False
ID = b"OAR_JOB_ID="
RULE = "[ADMISSION RULE]"
BY_RULE = 254  # an admission rule died: its words come last
# What can't be had, by a job and by an array; an unknown queue; an output's name it can't use.
REFUSALS = (8, 251, 248, 243, 244, BY_RULE)
NOT_BEGUN = (75, 127)  # of far.sh, the script did not arrive; there is no oarsub
DATABASE = (b"DBI connect", b"closed the connection", b"terminating connection")
CHATTER = (ID.decode(), "[ERROR] Oarsub failed", "Simple array job submission is used", RULE)
KILLED_BEFORE = 6  # oardel
NOT_HELD = b"not in the Hold"
LOOK_AGAIN_S = 0.3


def submit(server: OarServer, spec: JobSpec) -> Submission:
    """Submit a held job; never raises for what the server answers, or does not."""
    if reason := oar_commands.refusal(spec.request):
        return Submission(Result.REFUSED, reason=reason)
    whole = job_file(spec, tells=bool(server.ends))
    try:
        answer = call(server, oar_commands.submit_held(server, spec, len(whole)), whole)
    except CommandFailed as error:
        return unanswered(error)
    return _read_answer(answer)


def job_file(spec: JobSpec, tells: bool) -> bytes:
    """Return the file that the job runs: keeper.pl, told what to start, and the script."""
    with open(oar_commands.KEEPER, "rb") as body:
        header = oar_commands.keeper(spec, tells).encode("utf-8", "surrogateescape")
        return header + body.read() + oar_commands.END_OF_KEEPER + spec.script


def _read_answer(answer: CompletedProgram) -> Submission:
    """Read oarsub's answer; exit status 9 says that a held job is killed, but it is still there."""
    words = answer.stdout + answer.stderr
    number = words.partition(ID)[2].partition(b"\n")[0]
    if answer.status == 0 and number.isdigit():
        return Submission(Result.ACCEPTED, remote_id=number.decode())
    reason = _reason(words, answer.status)
    if answer.status in NOT_BEGUN:
        return Submission(Result.LATER, reason=reason)
    if answer.status in REFUSALS and not any(sign in words for sign in DATABASE):
        return Submission(Result.REFUSED, reason=reason)
    return Submission(Result.UNSURE, reason=reason)


def _reason(words: bytes, status: int) -> str:
    """Return the line that says why, without what stands around it."""
    lines = [line.strip() for line in words.decode("utf-8", "replace").splitlines() if line.strip()]
    messages = [line for line in lines if not line.startswith(CHATTER)]
    if status == BY_RULE:
        messages = lines[-1:]
    line = (messages or lines or [f"oarsub said nothing: {status}"])[0]
    return line.rpartition("ERROR:")[2].removeprefix(RULE).strip()


def find_held(server: OarServer, transfer: str, owner: str) -> str:
    """Return the id of the owner's oldest job or array under the transfer's name, or nothing.

    OAR's jobs keep that name: one that was released is not meant, nor one whose script never
    got its place, because the answer to its submission came too late.
    """
    held = _held(server, transfer, owner)
    if not held:
        return ""
    scripts = call(server, oar_commands.show_scripts(server)).checked().stdout.decode().split()
    return next((job for job, script in held.items() if script in scripts), "")


def find_others(server: OarServer, transfer: str, owner: str, array: str) -> list[str]:
    """Return the ids of the owner's held arrays under the name, but for that one."""
    return [job for job in _held(server, transfer, owner) if job != array]


def _held(server: OarServer, transfer: str, owner: str) -> dict[str, str]:
    """Return the ids of a person's held jobs and arrays of a name, with their scripts' names."""
    jobs = [
        job for job in _jobs(server, oar_commands.show_held(server, transfer, owner)) if job.is_new
    ]
    return {
        job.array if job.is_of_array else job.id: job.script
        for job in sorted(jobs, key=lambda job: int(job.id))
    }


def owner_and_account(server: OarServer, job: str) -> tuple[str, str]:
    """Return whose job it is and its account, which is its name; empty once it is gone.

    OAR may have made copies of it, which have both from it.
    """
    oar_job = _listed(server, job) or next(iter(_copies(server, job)), None)
    oar_job = oar_job or _living(server, job)
    return (oar_job.owner, oar_job.account) if oar_job else ("", "")


def state(server: OarServer, job: str) -> "JobState":
    """Return what a job is; UNSEEN when it neither waits nor runs."""
    from gridbridge.model.states import UNSEEN

    oar_job = _listed(server, job)
    return oar_job.known if oar_job else UNSEEN


def release_as(server: OarServer, job: str, _name: str) -> None:
    """Let a held job start; OAR gives no job another name."""
    call(server, oar_commands.release(server, job)).checked()


def release_arrays(server: OarServer, arrays: tuple[str, ...], _name: str) -> None:
    """Let the held tasks of arrays start; those that were released before are no failure."""
    answer = call(server, oar_commands.release_arrays(server, arrays))
    lines = answer.stderr.splitlines()
    if not (lines and all(NOT_HELD in line for line in lines)):
        answer.checked()


def delete_array(server: OarServer, array: str) -> None:
    """Delete all tasks of an array; those that are over are deleted."""
    _delete(server, oar_commands.delete_array(server, array))


def delete_places(server: OarServer, array: str, name: str, indices: str) -> None:
    """Delete some tasks of an array, which are jobs; those that are over are deleted."""
    from gridbridge.model.campaigns.attempt_numbers import (
        parse_index_ranges,  # transfers do without it
    )

    ranges = parse_index_ranges(indices)
    living = [
        job for job in _jobs(server, oar_commands.show_living(server, array)) if not job.is_over
    ]
    ours = [job for job in living if job.account == name]
    jobs = {job.id: job.place for job in ours if any(job.place in span for span in ranges)}
    if len(jobs) == len(living):
        delete_array(server, array)
    elif jobs:
        _delete(server, oar_commands.delete_tasks(server, array, jobs))


def hold_places(
    server: OarServer, array: str, name: str, indices: tuple[range, ...]
) -> tuple[range, ...]:
    """Hold tasks of an array, which are jobs; return those that are held then."""
    for job in _at(server, array, name, indices):
        if job.is_waiting:
            _try_to_hold(server, job.id)
    held = (job.place for job in _at(server, array, name, indices) if job.is_held)
    return tuple(range(index, index + 1) for index in held)


def _try_to_hold(server: OarServer, job: str) -> None:
    try:
        hold(server, job)
    except CommandFailed:  # it has just been started, or is over
        return


def release_places(server: OarServer, array: str, indices: tuple[range, ...]) -> None:
    """Let held tasks start again."""
    for job in _jobs(server, oar_commands.show_living(server, array)):
        if job.is_held and any(job.place in span for span in indices):
            release(server, job.id)


def _at(server: OarServer, array: str, name: str, indices: tuple[range, ...]) -> "list[OarJob]":
    """Return the tasks at some places of the array of that name that are not over."""
    living = _jobs(server, oar_commands.show_living(server, array))
    ours = (job for job in living if job.account == name and not job.is_over)
    return [job for job in ours if any(job.place in span for span in indices)]


def _delete(server: OarServer, argv: oar_commands.Argv) -> None:
    answer = call(server, argv)
    if answer.status not in (0, KILLED_BEFORE):
        answer.checked()


def hold(server: OarServer, job: str) -> None:
    """Keep a waiting job from starting."""
    answer = call(server, oar_commands.hold(server, job))
    oar_job = _settled(server, job, lambda current: not current.is_waiting)
    if answer.status and (oar_job is None or not oar_job.is_held):
        answer.checked()


def release(server: OarServer, job: str) -> None:
    """Let it start again."""
    answer = call(server, oar_commands.release(server, job))
    if NOT_HELD not in answer.stderr:
        answer.checked()


def living(server: OarServer, arrays: dict[str, str]) -> dict[str, tuple[range, ...]]:
    """Return the places at which tasks of arrays wait or run; nobody can rename arrays of OAR."""
    indices: dict[str, list[range]] = {array: [] for array in arrays}
    for job in _jobs(server, oar_commands.show_living(server, *arrays)):
        if arrays.get(job.array) == job.account and not job.is_over:
            indices[job.array].append(range(job.place, job.place + 1))
    return {array: tuple(spans) for array, spans in indices.items()}


def suspend_any(server: OarServer, job: str) -> None:
    """Stop a running job, keep a waiting one from starting; a gone one is left alone.

    Its keeper stops it, for `oarhold -r` needs cpusets and gives its resources to others.
    """
    oar_job = _listed(server, job)
    if oar_job and oar_job.is_waiting:
        call(server, oar_commands.hold(server, job))  # refused if it has just been started
    if oar_job and oar_job.is_starting:
        oar_job = _settled(server, job, lambda current: not current.is_starting)
    if oar_job and oar_job.is_running and not oar_job.is_suspended:
        _unless_over(server, job, oar_commands.send(server, oar_commands.SUSPEND, job))


def resume_any(server: OarServer, job: str) -> None:
    """Take back what suspend_any did, whichever it was."""
    oar_job = _listed(server, job)
    if oar_job and oar_job.is_running and oar_job.is_suspended:
        _unless_over(server, job, oar_commands.send(server, oar_commands.RESUME, job))
    elif oar_job and (oar_job.is_held or oar_job.is_suspended):
        release(server, job)


def delete(server: OarServer, job: str) -> None:
    """Delete a job, or the jobs that OAR made from one that is over."""
    if not _unless_over(server, job, oar_commands.delete(server, job), KILLED_BEFORE):
        for copy in _copies(server, job):
            _unless_over(server, copy.id, oar_commands.delete(server, copy.id), KILLED_BEFORE)


def _unless_over(server: OarServer, job: str, argv: oar_commands.Argv, fine: int = 0) -> bool:
    """Do something to a job; that it is over by now is no failure. Say whether it was done."""
    answer = call(server, argv)
    if answer.status not in (0, fine) and _listed(server, job):
        answer.checked()
    return answer.status == 0


def _copies(server: OarServer, job: str) -> "list[OarJob]":
    """Return the live jobs that OAR made from a job that is over, and from those."""
    jobs = _jobs(server, oar_commands.show_job(server, job))
    if not jobs or not jobs[0].is_over:
        return []
    return _jobs(server, oar_commands.show_copies(server, jobs[0].name, jobs[0].owner))


def _living(server: OarServer, array: str) -> "OarJob | None":
    """Return a task of a campaign's array that is not over: the first may have ended long ago."""
    first = _jobs(server, oar_commands.show_job(server, array))
    if not first or not first[0].is_of_array:
        return None
    jobs = _jobs(server, oar_commands.show_living(server, array))
    return next((task for task in jobs if not task.is_over), None)


def _settled(
    server: OarServer, job: str, is_settled: "Callable[[OarJob], bool]"
) -> "OarJob | None":
    """Wait until the server has come to a job; None when it is over.

    Raises CommandFailed when that takes longer than the server's time limit.
    """
    deadline = time.monotonic() + server.timeout_s
    while (oar_job := _listed(server, job)) and not is_settled(oar_job):
        if time.monotonic() > deadline:
            words = f"OAR has not come to job {job}, it is {oar_job.state}".encode()
            raise CommandFailed(("oarstat",), None, b"", words, transient=True)
        time.sleep(LOOK_AGAIN_S)
    return oar_job


def _listed(server: OarServer, job: str) -> "OarJob | None":
    """Return a job that is not over, None when there is none of that id."""
    jobs = _jobs(server, oar_commands.show_job(server, job))
    return jobs[0] if jobs and not jobs[0].is_over else None


def _jobs(server: OarServer, argv: oar_commands.Argv) -> "list[OarJob]":
    from gridbridge.batch.oar.oar_output import read_jobs  # json: a submission does without it

    return read_jobs(call(server, argv).checked().stdout)


def call(
    server: OarServer, argv: oar_commands.Argv, stdin: bytes = b"", most_bytes: int = ANSWER_BYTES
) -> CompletedProgram:
    """Run one of OAR's programs where the server has them."""
    environment, limit_s = server.environment(), server.timeout_s
    return ssh.run(server.login, argv, environment, limit_s, stdin, most_bytes=most_bytes)
