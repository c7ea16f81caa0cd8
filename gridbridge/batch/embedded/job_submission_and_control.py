"""Submits and controls jobs of an embedded cluster."""

import os

from gridbridge.batch.batch_submission_outcome import (
    JobSubmissionOutcome,
    JobSubmissionResult,
    failed_submission_result,
)
from gridbridge.batch.embedded import embedded_program_calls
from gridbridge.batch.embedded.embedded_program_calls import (
    PrintedEmbeddedJob,
    parse_embedded_cluster_and_jobs,
    run_embedded_program,
)
from gridbridge.errors import CommandFailed, ParseError
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.transfer_route import EmbeddedClusterAccessSettings
from gridbridge.shell.program_runs import CompletedProgram, run_program

TYPE_CHECKING = False  # defined here, because importing the module typing would be slow
if TYPE_CHECKING:
    from types import ModuleType

    from gridbridge.model.job_and_queue_states import JobState

HAS_QSTAT = False
HAS_START_TIMES = False
WAITING = "waiting"
ANSWERS = {os.EX_DATAERR: JobSubmissionOutcome.REFUSED, os.EX_TEMPFAIL: JobSubmissionOutcome.LATER}


def submit_held_job(folder: EmbeddedClusterAccessSettings, spec: JobSpec) -> JobSubmissionResult:
    if reason := embedded_program_calls.explain_request_refusal(spec.request, is_array=spec.tasks > 0):
        return JobSubmissionResult(JobSubmissionOutcome.REFUSED, reason=reason)
    argv = embedded_program_calls.submit_held_job_argv(folder, spec)
    try:
        answer = run_program(argv, folder.command_environment(), folder.timeout_s, spec.script)
    except CommandFailed as error:
        return failed_submission_result(error)
    return _parse_submit_answer(answer)


def _parse_submit_answer(answer: CompletedProgram) -> JobSubmissionResult:
    number = answer.stdout.strip()
    if answer.status == 0 and number.isdigit():
        return JobSubmissionResult(JobSubmissionOutcome.ACCEPTED, remote_id=number.decode())
    result = ANSWERS.get(answer.status, JobSubmissionOutcome.UNSURE)
    return JobSubmissionResult(
        result, reason=CommandFailed(answer.argv, answer.status, b"", answer.stderr).program_and_failure
    )


def find_held_job(folder: EmbeddedClusterAccessSettings, transfer: str, owner: str) -> str:
    return next(iter(_find_jobs_by_name(folder, transfer, owner)), "")


def find_duplicate_arrays(folder: EmbeddedClusterAccessSettings, transfer: str, owner: str, array: str) -> list[str]:
    return [job for job in _find_jobs_by_name(folder, transfer, owner) if job != array]


def _find_jobs_by_name(folder: EmbeddedClusterAccessSettings, name: str, owner: str) -> dict[str, None]:
    jobs = _query_embedded_jobs(folder, f"--name={name}")
    ours = (job for job in jobs if (job.owner, job.account) == (owner, name))
    return dict.fromkeys(job.array or job.id for job in ours)


def query_owner_and_account(folder: EmbeddedClusterAccessSettings, job: str) -> tuple[str, str]:
    jobs = _query_embedded_jobs(folder, f"--job={job}")
    return (jobs[0].owner, jobs[0].account) if jobs else ("", "")


def query_live_indices(folder: EmbeddedClusterAccessSettings, arrays: dict[str, str]) -> dict[str, tuple[range, ...]]:
    """Return each array's waiting and running indices; `arrays` maps ids to required account strings."""
    jobs = _query_embedded_jobs(folder)
    indices: dict[str, list[range]] = {array: [] for array in arrays}
    for job in jobs:
        if arrays.get(job.array) == job.account:
            indices[job.array].append(range(int(job.place), int(job.place) + 1))
    return {array: tuple(spans) for array, spans in indices.items()}


def query_job_state(folder: EmbeddedClusterAccessSettings, job: str) -> "JobState":
    from gridbridge.model.job_and_queue_states import UNSEEN, JobState  # most transfers need no JobState

    jobs = _query_embedded_jobs(folder, f"--job={job}")
    return JobState(jobs[0].facts.split(), jobs[0].state) if jobs else UNSEEN


def rename_and_release(folder: EmbeddedClusterAccessSettings, job: str, name: str) -> None:
    run_embedded_program(folder, "release", job, f"--name={name}").require_success()


def release_arrays(folder: EmbeddedClusterAccessSettings, arrays: tuple[str, ...], name: str) -> None:
    for array in arrays:
        run_embedded_program(folder, "release-array", array, f"--name={name}").require_success()


def delete_array(folder: EmbeddedClusterAccessSettings, array: str) -> None:
    _run_verb_ignoring_missing_job(folder, "delete-array", array)


def delete_array_tasks(folder: EmbeddedClusterAccessSettings, array: str, _name: str, indices: str) -> None:
    _run_verb_ignoring_missing_job(folder, "delete-array", array, f"--places={indices}")


def hold_array_tasks(
    folder: EmbeddedClusterAccessSettings, array: str, name: str, indices: tuple[range, ...]
) -> tuple[range, ...]:
    """Hold array tasks; return the indices of the tasks that have not started and are now held."""
    for job in _array_tasks_at_indices(folder, array, name, indices):
        _run_verb_ignoring_missing_job(folder, "hold", job.id)
    held = _array_tasks_at_indices(folder, array, name, indices)
    waiting = (int(job.place) for job in held if WAITING in job.facts.split())
    return tuple(range(index, index + 1) for index in waiting)


def release_array_tasks(folder: EmbeddedClusterAccessSettings, array: str, indices: tuple[range, ...]) -> None:
    for job in _query_embedded_jobs(folder):
        if job.array == array and any(int(job.place) in span for span in indices):
            _run_verb_ignoring_missing_job(folder, "release", job.id)


def _array_tasks_at_indices(
    folder: EmbeddedClusterAccessSettings, array: str, name: str, indices: tuple[range, ...]
) -> list[PrintedEmbeddedJob]:
    jobs = _query_embedded_jobs(folder)
    ours = (job for job in jobs if (job.array, job.account) == (array, name))
    return [job for job in ours if any(int(job.place) in span for span in indices)]


def hold_job(folder: EmbeddedClusterAccessSettings, job: str) -> None:
    run_embedded_program(folder, "hold", job).require_success()


def release_job(folder: EmbeddedClusterAccessSettings, job: str) -> None:
    run_embedded_program(folder, "release", job).require_success()


def defer_job_restart(folder: EmbeddedClusterAccessSettings, job: str, request: JobRequest) -> None:
    """Raise ParseError: an embedded job has no start time."""
    raise ParseError(f"job {job}: embedded clusters support no start times")


def restore_start_time(folder: EmbeddedClusterAccessSettings, job: str) -> None:
    """Raise ParseError: embedded jobs have no start time."""
    raise ParseError(f"job {job}: embedded clusters support no start times")


def suspend_or_hold_job(folder: EmbeddedClusterAccessSettings, job: str) -> None:
    _run_verb_ignoring_missing_job(folder, "suspend", job)


def resume_or_release_job(folder: EmbeddedClusterAccessSettings, job: str) -> None:
    _run_verb_ignoring_missing_job(folder, "resume", job)


def delete_job(folder: EmbeddedClusterAccessSettings, job: str) -> None:
    _run_verb_ignoring_missing_job(folder, "delete", job)


def query_job_request(folder: EmbeddedClusterAccessSettings, job: str) -> JobRequest:
    """Return an empty request, as embedded jobs request only slots; raise ParseError for an ended job."""
    if not _query_embedded_jobs(folder, f"--job={job}"):
        raise ParseError(f"job {job} neither waits nor runs")
    return JobRequest()


def load_refused_job_marker() -> "ModuleType":
    from gridbridge.batch.embedded import embedded_task_guards

    return embedded_task_guards


def query_queue_limit(_folder: EmbeddedClusterAccessSettings, _queue: str, _name: str, _host: str) -> str:
    """Return an empty text: queues of an embedded cluster have no limits."""
    return ""


def _query_embedded_jobs(folder: EmbeddedClusterAccessSettings, *selection: str) -> list[PrintedEmbeddedJob]:
    return parse_embedded_cluster_and_jobs(run_embedded_program(folder, "list", *selection).require_success().stdout)[1]


def _run_verb_ignoring_missing_job(folder: EmbeddedClusterAccessSettings, *words: str) -> None:
    answer = run_embedded_program(folder, *words)
    if answer.status != os.EX_NOINPUT:
        answer.require_success()
