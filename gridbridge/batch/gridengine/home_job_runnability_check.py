"""Decides by `qsub -w v` whether a job could run in the local cell, and marks refused jobs.

The check assumes an empty cell. `qalter -w v` skips running jobs and changes a job's lists (measured: 8.1.9).
"""

from collections.abc import Iterable

from gridbridge.batch.gridengine import sge_command_line_builders
from gridbridge.batch.gridengine.job_submission_and_control import NOT_REACHED, TRY_LATER, run_client
from gridbridge.batch.gridengine.sge_command_line_builders import Argv
from gridbridge.model.job_request import OURS, JobRequest, Pairs, Variant
from gridbridge.model.transfer_route import GridEngineCellAccessSettings

REFUSED = f"{OURS}refused"  # name of the context variable that says why remote clusters refused a job
REASON_CHARACTERS = 300
UNKNOWN = b"unknown resource ("  # qsub's error if neither a queue, a host nor the cell has the resource
FOUND = b"found suitable queue"  # qsub prints this even for a user whose uid is below min_uid
SCRIPT = b"true\n"


def keep_refused_job_home(
    cell: GridEngineCellAccessSettings, job: str, own: JobRequest, variants: Iterable[Variant], reason: str
) -> bool:
    """Mark a refused job, which then stays at home; return False if no local queue could run the job."""
    for hard, queues in variants:
        if could_run_at_home(cell, replace_resources_and_queues(own, hard, queues)):
            run_client(
                cell, mark_refused_job_command(cell, job, hard=hard, queues=queues, reason=reason)
            ).require_success()
            return True
    return False


def replace_resources_and_queues(own: JobRequest, hard: Pairs | None, queues: str | None) -> JobRequest:
    conditions = {"hard": own.hard if hard is None else hard}
    return own.with_changes(queues=own.queues if queues is None else queues, **conditions)


def could_run_at_home(cell: GridEngineCellAccessSettings, request: JobRequest) -> bool:
    """Say whether a local queue could run a request in an empty cell; raise CommandFailed if unknown."""
    answer = run_client(cell, verify_request_command(cell, request), SCRIPT)
    words = answer.stderr + answer.stdout
    if FOUND in words:
        return True
    if answer.status < 0 or answer.status == TRY_LATER or any(s in words.lower() for s in NOT_REACHED):
        answer.require_success()
    name = words.partition(UNKNOWN)[2].partition(b")")[0].decode("utf-8", "replace")
    conditions = tuple(pair for pair in request.hard if pair[0] != name)
    if conditions == request.hard:
        return False
    among = ("-q", request.queues) if request.queues else ()
    reported = run_client(cell, (f"{cell.binaries}/qstat", "-F", name, "-u", "root", *among)).require_success().stdout
    if f"hl:{name}=".encode() not in reported:
        return False
    return could_run_at_home(cell, request.with_changes(hard=conditions))


def verify_request_command(cell: GridEngineCellAccessSettings, request: JobRequest) -> Argv:
    """Build the qsub command that checks a request. `-clear` must come first, because it cancels a preceding `-w`."""
    options: Argv = ("-pe", *request.ranges.split()) if request.ranges else ()
    options += ("-q", request.queues) if request.queues else ()
    options += ("-P", request.project) if request.project else ()
    options += ("-ckpt", request.checkpoint) if request.checkpoint else ()
    options += sge_command_line_builders.qsub_resource_options("-hard", request.hard)
    return (f"{cell.binaries}/qsub", "-clear", "-C", "", "-w", "v", *options)


def mark_refused_job_command(
    cell: GridEngineCellAccessSettings, job: str, *, hard: Pairs | None, queues: str | None, reason: str
) -> Argv:
    """Build the command that replaces a refused job's resources and queues; `qstat -j` shows `reason`."""
    options: Argv = sge_command_line_builders.qsub_resource_options("-hard", hard) if hard is not None else ()
    options += ("-hard", "-q", queues) if queues is not None else ()
    note = "".join(" " if character in "\n\t" else ";" if character == "," else character for character in reason)
    note = f"{REFUSED}={note[:REASON_CHARACTERS]}"
    return (f"{cell.binaries}/qalter", *options, "-ac", note, job)
