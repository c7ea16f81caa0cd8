"""Keeps local tasks of an embedded cluster from restarting while their remote jobs exist, by a hold as the guard."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping

from gridbridge.batch.embedded import job_submission_and_control
from gridbridge.batch.embedded.embedded_program_calls import run_embedded_program
from gridbridge.errors import GridbridgeError
from gridbridge.model.job_request import JobRequest, Variant
from gridbridge.model.transfer_name import TransferAttemptId
from gridbridge.model.transfer_route import EmbeddedClusterAccessSettings


def remove_home_start_guard(folder: EmbeddedClusterAccessSettings, local: TransferAttemptId, guard: str) -> None:
    """Release a task from the hold that guards it."""
    job_submission_and_control.release_job(folder, local.local_job_or_task_id)


def pin_and_release_task(
    folder: EmbeddedClusterAccessSettings, local: TransferAttemptId, queue: str, guard: str
) -> None:
    pin_job_to_queue(folder, local.local_job_or_task_id, queue)
    remove_home_start_guard(folder, local, guard)


def set_home_start_guard(folder: EmbeddedClusterAccessSettings, local: TransferAttemptId, guard: str) -> None:
    """Hold a task, so that it does not start again."""
    job_submission_and_control.hold_job(folder, local.local_job_or_task_id)


def query_job_requests(folder: EmbeddedClusterAccessSettings, jobs: tuple[int, ...]) -> dict[int, JobRequest]:
    """Return no requests, because an embedded cluster's job list already shows all guards."""
    return {}


def query_deferred_jobs(folder: EmbeddedClusterAccessSettings) -> frozenset[int]:
    """Return no jobs: embedded jobs have no start time."""
    return frozenset()


def keep_job_off_queues(
    folder: EmbeddedClusterAccessSettings, local: TransferAttemptId, other_queues: Callable[[str], str]
) -> None:
    """Raise GridbridgeError: an embedded cluster recalls no jobs."""
    raise GridbridgeError(f"job {local.job} is not recalled, because embedded clusters recall no jobs")


def restore_queue_list(folder: EmbeddedClusterAccessSettings, local: TransferAttemptId) -> None:
    """Lift the restriction of a job to one queue."""
    pin_job_to_queue(folder, local.local_job_or_task_id, "")


def require_runnable_at_home(
    folder: EmbeddedClusterAccessSettings, local: TransferAttemptId, variants: Callable[[JobRequest], Iterable[Variant]]
) -> None:
    """Raise GridbridgeError: an embedded cluster recalls no jobs."""
    raise GridbridgeError(f"job {local.job} is not recalled, because embedded clusters recall no jobs")


def query_rerun_setting(
    folder: EmbeddedClusterAccessSettings,
    local: TransferAttemptId,
    transfer_queues: Collection[str],
    of_queues: Callable[[JobRequest, Mapping[str, str]], str],
) -> str:
    """Return `no`: an embedded cluster reruns no job."""
    return "no"


REFUSED = ""  # no name: embedded jobs have no context variables


def keep_refused_job_home(
    folder: EmbeddedClusterAccessSettings, job: str, own: JobRequest, variants: Iterable[Variant], reason: str
) -> bool:
    """Restrict a refused job to the queue `embedded`; return False if the queue has too few slots."""
    answer = run_embedded_program(folder, "stay", job, f"--reason={reason}")
    return answer.status != os.EX_DATAERR and bool(answer.require_success())


def pin_job_to_queue(folder: EmbeddedClusterAccessSettings, job: str, queue: str) -> None:
    """Restrict a job to one queue; an empty queue lifts the restriction."""
    run_embedded_program(folder, "pin", job, f"--queue={queue}").require_success()
