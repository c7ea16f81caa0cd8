"""Submits and controls an OAR server's jobs; calls that need a hold wait until OAR carries it out."""

import time

from gridbridge.batch.batch_submission_outcome import (
    JobSubmissionOutcome,
    JobSubmissionResult,
    failed_submission_result,
)
from gridbridge.batch.oar import oar_command_line_builders
from gridbridge.batch.oar.oar_programs import oar_frontend
from gridbridge.errors import CommandFailed
from gridbridge.model.job_request import JobSpec
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell.program_runs import CompletedProgram

TYPE_CHECKING = False  # defined here, because importing the module typing would be slow
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gridbridge.batch.oar.oar_output_parser import OarJob
    from gridbridge.model.job_and_queue_states import JobState

HAS_QSTAT = False
ID = b"OAR_JOB_ID="
RULE = "[ADMISSION RULE]"
BY_RULE = 254  # oarsub's exit status if an admission rule refuses a job; the last line has the reason
# oarsub's exit statuses after a refusal: impossible resources, unknown queue, unusable output name, admission rule
REFUSALS = (8, 251, 248, 243, 244, BY_RULE)
NOT_BEGUN = (75, 127)  # exit status of far.sh if the script did not arrive, and exit status if oarsub is missing
DATABASE = (b"DBI connect", b"closed the connection", b"terminating connection")
CHATTER = (ID.decode(), "[ERROR] Oarsub failed", "Simple array job submission is used", RULE)
KILLED_BEFORE = 6  # oardel's exit status for a job that was deleted before
NOT_HELD = b"not in the Hold"
LOOK_AGAIN_S = 0.3


def read_root_login(server: OarServerAccessSettings) -> None:
    """Read the login to OAR's REST interface, before this process continues as a job's owner."""
    if server.api:
        from gridbridge.batch.oar.oar_rest_requests import read_login_as_root  # programs by ssh need no HTTP

        read_login_as_root(server.api_login, server.api)


def submit_held_job(server: OarServerAccessSettings, spec: JobSpec) -> JobSubmissionResult:
    """Submit a held job; failures are returned, never raised."""
    frontend = oar_frontend(server)
    if reason := oar_command_line_builders.explain_request_refusal(spec.request) or frontend.explain_request_refusal(
        spec
    ):
        return JobSubmissionResult(JobSubmissionOutcome.REFUSED, reason=reason)
    try:
        answer = frontend.submit_held_job(spec, oar_job_file_contents(spec, tells=bool(server.ends)))
    except CommandFailed as error:
        return failed_submission_result(error)
    return _parse_oarsub_answer(answer)


def oar_job_file_contents(spec: JobSpec, tells: bool) -> bytes:
    """Return the file that OAR's job runs: keeper.pl with its settings, then the job script."""
    with open(oar_command_line_builders.KEEPER, "rb") as body:
        header = oar_command_line_builders.oar_job_keeper_perl_header(spec, tells).encode("utf-8", "surrogateescape")
        return header + body.read() + oar_command_line_builders.END_OF_KEEPER + spec.script


def _parse_oarsub_answer(answer: CompletedProgram) -> JobSubmissionResult:
    """Parse oarsub's answer; after exit status 9 (job killed) the held job still exists."""
    words = answer.stdout + answer.stderr
    number = words.partition(ID)[2].partition(b"\n")[0]
    if answer.status == 0 and number.isdigit():
        return JobSubmissionResult(JobSubmissionOutcome.ACCEPTED, remote_id=number.decode())
    reason = _reason_in_oarsub_output(words, answer.status)
    if answer.status in NOT_BEGUN:
        return JobSubmissionResult(JobSubmissionOutcome.LATER, reason=reason)
    if answer.status in REFUSALS and not any(sign in words for sign in DATABASE):
        return JobSubmissionResult(JobSubmissionOutcome.REFUSED, reason=reason)
    return JobSubmissionResult(JobSubmissionOutcome.UNSURE, reason=reason)


def _reason_in_oarsub_output(words: bytes, status: int) -> str:
    lines = [line.strip() for line in words.decode("utf-8", "replace").splitlines() if line.strip()]
    messages = [line for line in lines if not line.startswith(CHATTER)]
    if status == BY_RULE:
        messages = lines[-1:]
    line = (messages or lines or [f"oarsub printed no reason and ended with exit status {status}"])[0]
    return line.rpartition("ERROR:")[2].removeprefix(RULE).strip()


def find_held_job(server: OarServerAccessSettings, transfer: str, owner: str) -> str:
    """Return the id of a user's oldest job or array that has this name and was never released; else an empty text.

    A released job keeps its name, because OAR can't rename. A job whose script did not arrive is left out.
    """
    held = _find_held_jobs_and_scripts(server, transfer, owner)
    scripts = oar_frontend(server).find_whole_scripts(held.values()) if held else ()
    return next((job for job, script in held.items() if script in scripts), "")


def find_duplicate_arrays(server: OarServerAccessSettings, transfer: str, owner: str, array: str) -> list[str]:
    return [job for job in _find_held_jobs_and_scripts(server, transfer, owner) if job != array]


def _find_held_jobs_and_scripts(server: OarServerAccessSettings, transfer: str, owner: str) -> dict[str, str]:
    jobs = oar_frontend(server).find_jobs(
        oar_command_line_builders.jobs_by_name_condition(transfer, owner, "state = 'Hold'")
    )
    return {
        job.array if job.is_array_task else job.id: job.script_file_name for job in jobs if job.is_held_since_submission
    }


def query_owner_and_account(server: OarServerAccessSettings, job: str) -> tuple[str, str]:
    """Return owner and name of a job, or of the job as resubmitted by OAR; both are empty if the job has ended."""
    oar_job = _query_live_job(server, job) or next(iter(_find_resubmitted_jobs(server, job)), None)
    oar_job = oar_job or _first_live_task_of_array(server, job)
    return (oar_job.owner, oar_job.account) if oar_job else ("", "")


def query_job_state(server: OarServerAccessSettings, job: str) -> "JobState":
    from gridbridge.model.job_and_queue_states import UNSEEN

    oar_job = _query_live_job(server, job)
    return oar_job.job_state if oar_job else UNSEEN


def rename_and_release(server: OarServerAccessSettings, job: str, _name: str) -> None:
    """Release a held job; the job keeps its submission name, because OAR can't rename jobs."""
    oar_frontend(server).resume_job(job).require_success()


def release_arrays(server: OarServerAccessSettings, arrays: tuple[str, ...], _name: str) -> None:
    """Release the held tasks of arrays; tasks that are not held are no error."""
    answer = oar_frontend(server).resume_arrays(arrays)
    lines = answer.stderr.splitlines()
    if not (lines and all(NOT_HELD in line for line in lines)):
        answer.require_success()


def delete_array(server: OarServerAccessSettings, array: str) -> None:
    _require_deletion(oar_frontend(server).delete_array(array))


def delete_array_tasks(server: OarServerAccessSettings, array: str, name: str, indices: str) -> None:
    from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_array_index_ranges

    ranges = parse_array_index_ranges(indices)
    living = _query_live_array_tasks(server, array)
    jobs = {job.id: str(job.place) for job in _tasks_at_indices(living, name, ranges)}
    if len(jobs) == len(living):
        delete_array(server, array)
    elif jobs:
        _require_deletion(oar_frontend(server).delete_tasks(array, jobs))


def hold_array_tasks(
    server: OarServerAccessSettings, array: str, name: str, indices: tuple[range, ...]
) -> tuple[range, ...]:
    for job in _tasks_at_indices(_query_live_array_tasks(server, array), name, indices):
        try:
            if job.is_waiting:
                hold_job(server, job.id)
        except CommandFailed:  # the job has started or ended meanwhile
            continue
    held = (
        job.place for job in _tasks_at_indices(_query_live_array_tasks(server, array), name, indices) if job.is_held
    )
    return tuple(range(index, index + 1) for index in held)


def release_array_tasks(server: OarServerAccessSettings, array: str, indices: tuple[range, ...]) -> None:
    for job in _query_live_array_tasks(server, array):
        if job.is_held and any(job.place in span for span in indices):
            release_job(server, job.id)


def _query_live_array_tasks(server: OarServerAccessSettings, *arrays: str) -> "list[OarJob]":
    jobs = oar_frontend(server).find_live_tasks(arrays)
    return [job for job in jobs if not job.has_ended]


def _tasks_at_indices(jobs: "list[OarJob]", account: str, indices: "Iterable[range]") -> "list[OarJob]":
    spans = tuple(indices)
    return [job for job in jobs if job.account == account and any(job.place in span for span in spans)]


def _require_deletion(answer: CompletedProgram) -> None:
    if answer.status not in (0, KILLED_BEFORE):
        answer.require_success()


def hold_job(server: OarServerAccessSettings, job: str) -> None:
    answer = oar_frontend(server).hold_job(job)
    oar_job = _wait_for_job_state(server, job, lambda current: not current.is_waiting)
    if answer.status and (oar_job is None or not oar_job.is_held):
        answer.require_success()


def release_job(server: OarServerAccessSettings, job: str) -> None:
    answer = oar_frontend(server).resume_job(job)
    if NOT_HELD not in answer.stderr:
        answer.require_success()


def query_live_indices(server: OarServerAccessSettings, arrays: dict[str, str]) -> dict[str, tuple[range, ...]]:
    indices: dict[str, list[range]] = {array: [] for array in arrays}
    for job in _query_live_array_tasks(server, *arrays):
        if arrays.get(job.array) == job.account:
            indices[job.array].append(range(job.place, job.place + 1))
    return {array: tuple(spans) for array, spans in indices.items()}


def suspend_or_hold_job(server: OarServerAccessSettings, job: str) -> None:
    """Suspend a running job, or hold a waiting job; a missing job is no error.

    keeper.pl stops the processes: `oarhold -r` would need cpusets and give the job's resources to other jobs.
    """
    oar_job = _query_live_job(server, job)
    if oar_job and oar_job.is_waiting:
        oar_frontend(server).hold_job(job)  # oarhold rejects a job that has just started
    if oar_job and oar_job.is_waiting_or_starting:
        oar_job = _wait_for_job_state(server, job, lambda current: not current.is_waiting_or_starting)
    if oar_job and oar_job.is_running and not oar_job.is_suspended:
        _signal_job(server, job, oar_command_line_builders.SUSPEND)


def resume_or_release_job(server: OarServerAccessSettings, job: str) -> None:
    oar_job = _query_live_job(server, job)
    if oar_job and oar_job.is_running and oar_job.is_suspended:
        _signal_job(server, job, oar_command_line_builders.RESUME)
    elif oar_job and (oar_job.is_held or oar_job.is_suspended):
        release_job(server, job)


def delete_job(server: OarServerAccessSettings, job: str) -> None:
    """Delete a job; if OAR has resubmitted a job that ended, delete the resubmitted jobs."""
    if not _is_done_unless_job_ended(server, job, oar_frontend(server).delete_job(job), KILLED_BEFORE):
        for copy in _find_resubmitted_jobs(server, job):
            _is_done_unless_job_ended(server, copy.id, oar_frontend(server).delete_job(copy.id), KILLED_BEFORE)


def _signal_job(server: OarServerAccessSettings, job: str, signal: str) -> None:
    _is_done_unless_job_ended(server, job, oar_frontend(server).signal_job(job, signal))


def _is_done_unless_job_ended(
    server: OarServerAccessSettings, job: str, answer: CompletedProgram, fine: int = 0
) -> bool:
    """Say whether a command about a job succeeded; raise CommandFailed unless the job has ended."""
    if answer.status not in (0, fine) and _query_live_job(server, job):
        answer.require_success()
    return answer.status == 0


def _find_resubmitted_jobs(server: OarServerAccessSettings, job: str) -> "list[OarJob]":
    jobs = oar_frontend(server).show_job(job)
    if not jobs or not jobs[0].has_ended:
        return []
    condition = oar_command_line_builders.jobs_by_name_condition(
        jobs[0].name, jobs[0].owner, oar_command_line_builders.LIVE_COPY
    )
    return oar_frontend(server).find_jobs(condition)


def _first_live_task_of_array(server: OarServerAccessSettings, array: str) -> "OarJob | None":
    first = oar_frontend(server).show_job(array)
    return next(iter(_query_live_array_tasks(server, array)), None) if first and first[0].is_array_task else None


def _wait_for_job_state(
    server: OarServerAccessSettings, job: str, is_settled: "Callable[[OarJob], bool]"
) -> "OarJob | None":
    """Wait until `is_settled` is true of a job; return None if the job ends; raise CommandFailed on timeout."""
    deadline = time.monotonic() + server.timeout_s
    while (oar_job := _query_live_job(server, job)) and not is_settled(oar_job):
        if time.monotonic() > deadline:
            words = f"OAR has not yet changed the state of job {job}: {oar_job.state}".encode()
            raise CommandFailed(("oarstat",), None, b"", words, transient=True)
        time.sleep(LOOK_AGAIN_S)
    return oar_job


def _query_live_job(server: OarServerAccessSettings, job: str) -> "OarJob | None":
    jobs = oar_frontend(server).show_job(job)
    return jobs[0] if jobs and not jobs[0].has_ended else None
