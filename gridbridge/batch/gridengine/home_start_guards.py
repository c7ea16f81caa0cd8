"""Guards local tasks by a hold or far start time while their remote jobs exist; recalls jobs."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from gridbridge.batch.gridengine import cell_object_queries, home_job_runnability_check, job_submission_and_control
from gridbridge.batch.gridengine.job_submission_and_control import ANY_QUEUE
from gridbridge.batch.gridengine.job_submission_and_control import query_deferred_jobs as query_deferred_jobs
from gridbridge.batch.gridengine.job_submission_and_control import query_job_requests as query_job_requests
from gridbridge.batch.gridengine.sge_command_line_builders import STAYS
from gridbridge.errors import GridbridgeError
from gridbridge.model.job_request import OWN_HOLD, OWN_QUEUES, OWN_START, JobRequest, Variant
from gridbridge.model.transfer import claim_and_guard
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer_messages_in_spool import shorten_reason_for_storage
from gridbridge.model.transfer_name import TransferAttemptId
from gridbridge.model.transfer_route import GridEngineCellAccessSettings

_log = logging.getLogger(__name__)


def remove_home_start_guard(cell: GridEngineCellAccessSettings, local: TransferAttemptId, guard: str) -> None:
    if guard == HomeStartGuard.START:
        odd = job_submission_and_control.restore_start_time(cell, str(local.job))
        _log_overwritten_context(local, OWN_START, odd, "the stored value is no start time: the job may start at once")
    elif guard == HomeStartGuard.HOLD:
        job_submission_and_control.release_job(cell, local.local_job_or_task_id)


def pin_and_release_task(cell: GridEngineCellAccessSettings, local: TransferAttemptId, queue: str, guard: str) -> None:
    """Restrict a job to a transfer queue, save its queue list in its context, and release the task."""
    job = str(local.job)
    request = job_submission_and_control.query_job_request(cell, job)
    own = request.owner_requested_queues or ANY_QUEUE
    hard = (
        claim_and_guard.drop_remote_request(request.hard)
        if claim_and_guard.does_job_request_home(request.hard)
        else None
    )
    job_submission_and_control.pin_job_to_queue(cell, job, queue, remember=own, hard=hard)
    remove_home_start_guard(cell, local, guard)


def set_home_start_guard(cell: GridEngineCellAccessSettings, local: TransferAttemptId, guard: str) -> None:
    """Guard a task by a far start time, or by a hold that the job's context notes for the starter."""
    job = str(local.job)
    if guard == HomeStartGuard.START:
        job_submission_and_control.defer_job_restart(cell, job, job_submission_and_control.query_job_request(cell, job))
    elif guard == HomeStartGuard.HOLD:
        job_submission_and_control.alter_job(cell, job, ("-ac", f"{OWN_HOLD}=1"))
        job_submission_and_control.hold_job(cell, local.local_job_or_task_id)


def keep_job_off_queues(
    cell: GridEngineCellAccessSettings, local: TransferAttemptId, other_queues: Callable[[str], str]
) -> None:
    job = str(local.job)
    own = job_submission_and_control.query_job_request(cell, job)
    queues = other_queues(own.owner_requested_queues)
    if not queues or not home_job_runnability_check.could_run_at_home(
        cell, home_job_runnability_check.replace_resources_and_queues(own, None, queues)
    ):
        raise GridbridgeError("no other queue could run the job")
    job_submission_and_control.pin_job_to_queue(cell, job, queues, remember=own.owner_requested_queues or ANY_QUEUE)


def restore_queue_list(cell: GridEngineCellAccessSettings, local: TransferAttemptId) -> None:
    job = str(local.job)
    request = job_submission_and_control.query_job_request(cell, job)
    context = dict(request.context)
    hard = claim_and_guard.restrict_request_to_home(request.hard) if STAYS in context else None
    if own := context.get(OWN_QUEUES, ""):
        odd = job_submission_and_control.restore_queue_list(cell, job, own, hard)
        _log_overwritten_context(local, OWN_QUEUES, odd, "the queues do not exist: the job may start in any queue")


def require_runnable_at_home(
    cell: GridEngineCellAccessSettings, local: TransferAttemptId, variants: Callable[[JobRequest], Iterable[Variant]]
) -> None:
    own = job_submission_and_control.query_job_request(cell, str(local.job))
    requests = (
        home_job_runnability_check.replace_resources_and_queues(own, hard, queues) for hard, queues in variants(own)
    )
    if not any(home_job_runnability_check.could_run_at_home(cell, request) for request in requests):
        raise GridbridgeError("no queue of the home cluster could run the job")


def query_rerun_setting(
    cell: GridEngineCellAccessSettings,
    local: TransferAttemptId,
    transfer_queues: Collection[str],
    of_queues: Callable[[JobRequest, Mapping[str, str]], str],
) -> str:
    """Return a job's option `-r`; if the job has none, decide by the setting `rerun` of the local queues."""
    request = job_submission_and_control.query_job_request(cell, str(local.job))
    return request.rerun or of_queues(request, cell_object_queries.query_queue_rerun_settings(cell, transfer_queues))


def _log_overwritten_context(local: TransferAttemptId, name: str, value: str, why: str) -> None:
    if value:
        _log.warning(
            "event=bad_context job=%s %s=%a why=%r",
            local.local_job_or_task_id,
            name,
            shorten_reason_for_storage(value),
            why,
        )
