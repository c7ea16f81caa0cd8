"""Submits a starter's job to the remote cluster, with a translated request.

Code that few jobs need (mapping, claim, carried files) is imported on demand.
"""

import os

from gridbridge.batch import remote_job_script_writer
from gridbridge.batch.batch_submission_outcome import ONE_HOP, JobSubmissionOutcome, JobSubmissionResult
from gridbridge.errors import GridbridgeError, OwnerBarredAtCluster, SshLoginRefused, UnmappableRequest
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.transfer_message import TransferFailureCause
from gridbridge.model.transfer_name import is_transfer_name
from gridbridge.state import published_file_formats
from gridbridge.transfer.starter import remote_job_spec
from gridbridge.transfer.starter.remote_job_state_match import find_held_remote_job

LOGINS = 3  # number of refused ssh logins after which the job is refused
SHUT_OUT_S = 600  # shortest time of refused ssh logins after which the job is refused
SHUT_OUT = "shut_out"  # the note with the time of the first refused ssh login

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from gridbridge.transfer.starter.starter_step_context import StarterStepContext

CAUSES = {
    JobSubmissionOutcome.REFUSED: TransferFailureCause.REFUSED,
    JobSubmissionOutcome.DENIED: TransferFailureCause.DENIED,
    JobSubmissionOutcome.LATER: TransferFailureCause.UNREACHED,
    JobSubmissionOutcome.UNSURE: TransferFailureCause.UNREACHED,
    JobSubmissionOutcome.BARRED: TransferFailureCause.BARRED,
}


def submit_remote_job(step: "StarterStepContext") -> JobSubmissionResult:
    """Submit the remote job, held; raises UnmappableRequest or OwnerBarredAtCluster."""
    try:
        return _send(step)
    except SshLoginRefused as error:
        raise _judged(step, error) from error


def _send(step: "StarterStepContext") -> JobSubmissionResult:
    """Submit the remote job, unless the local job itself came from another cluster."""
    if _was_sent(step.task.env.get("SGE_ACCOUNT", "")):
        raise UnmappableRequest(ONE_HOP)
    request = step.request
    for name, value in request.hard:
        if name == "h_rt":
            step.task.note_limit(name, value)
    config = step.task.config()
    step.record = step.record.but(rerun=request.rerun)
    name, (pe, slots) = step.record.transfer, remote_job_spec.granted_parallel_environment(config)
    spec = JobSpec(transfer=name, request=request, pe=pe, slots=slots)
    spec = _kept_there(step, _translated(step, spec))
    stage_folder = make_remote_staging_folder(step, request, config)
    if step.away.login and not stage_folder:
        step.left_out = "; ".join(
            filter(None, (step.left_out, remote_job_spec.remote_output_location(step.task.env, step.away.login)))
        )
    script = remote_job_script_writer.write_remote_job_script(
        remote_job_spec.build_remote_job_spec(
            step.task, step.route, name, request, config, step.arguments, stage_folder, claim_wrapper_lines(step)
        )
    )
    cwd = remote_job_spec.remote_working_folder(
        step.route, config, stage_folder if step.route.declares(request.context) else ""
    )
    shell = step.route.remote_shell or "/bin/sh"
    return step.far.submit_held_job(step.away, spec.but(shell=shell, cwd=cwd, script=script))


def _was_sent(account: str) -> bool:
    """Say whether a job's account shows that a transfer or campaign has sent the job."""
    if not account.startswith("gc."):
        return is_transfer_name(account)
    from gridbridge.model.campaigns.campaign_names import is_campaign_array_name  # rarely needed

    return is_campaign_array_name(account)


def find_remote_job_of_killed_step(step: "StarterStepContext") -> str:
    """Return the id of a remote job that a killed step submitted, or an empty string."""
    try:
        return find_held_remote_job(step.away, step.record)
    except SshLoginRefused as error:
        raise _judged(step, error) from error


def _judged(step: "StarterStepContext", error: SshLoginRefused) -> GridbridgeError:
    """Return OwnerBarredAtCluster after many refusals of an ssh key, else the error."""
    is_often = step.task.tries("logins") >= LOGINS - 1
    is_long = step.task.known_for_s(SHUT_OUT) >= SHUT_OUT_S
    if not (is_often and is_long):
        return error
    step.note(stage="")
    return OwnerBarredAtCluster(str(error))


def claim_wrapper_lines(step: "StarterStepContext") -> str:
    """Return the wrapper's shell lines for the claim in the transfer's first note.

    A retried submission keeps its claim, but drops a claim of a kind that the configuration has
    dropped. The key of a claim by file is written before the script that names the key
    becomes readable.
    """
    kind = step.route.remote_claim.partition(" ")[0]
    if not step.record.claim.startswith(f"{kind}."):
        if step.record.claim:
            step.note(claim="")
        return ""
    from gridbridge.batch import remote_job_claim_script

    write_claim_key(step)
    route = step.route
    return remote_job_claim_script.remote_job_claim_shell_lines(
        step.record.claim, route.remote_claim, route.remote_spool, os.getuid()
    )


def write_claim_key(step: "StarterStepContext") -> None:
    """Write the key of the transfer's claim, if any, and replace an earlier key."""
    if step.record.claim:
        from gridbridge.batch import remote_job_claim_script

        remote_job_claim_script.write_remote_job_claim_key(step.record.claim, step.task.our_spool, os.getuid())


def make_remote_staging_folder(step: "StarterStepContext", request: JobRequest, config: dict[str, str]) -> str:
    """Create the remote staging folder if files are carried; return its path or "".

    A job without declared files has only its standard streams carried, if they are files.
    """
    route, env = step.route, step.task.env
    is_wanted = route.declares(request.context) or (route.staged and remote_job_spec.has_standard_stream_files(env))
    if not (step.record.stage or is_wanted):
        return ""
    from gridbridge.transfer.starter import file_staging

    return file_staging.begin_file_staging(step, request, config)


def _kept_there(step: "StarterStepContext", spec: JobSpec) -> JobSpec:
    """Exclude the remote job from the remote cluster's own transfer queues."""
    published = published_file_formats.read_non_forwarding_queues(step.route.remote, step.task.published)
    if not published:
        return spec
    from gridbridge.model import names_offered_by_cluster

    return spec.but(request=names_offered_by_cluster.decode_non_forwarding_queues(published).keep(spec.request))


def _translated(step: "StarterStepContext", spec: JobSpec) -> JobSpec:
    """Translate the job's request into the remote cluster's names."""
    if not (step.route.remote_mapped or remote_job_spec.has_names_remote_may_not_know(spec)):
        return spec
    from gridbridge.transfer.acts.request_translation import translate_request_for_queue

    queue, folder = step.record.queue, step.task.published
    spec, left_out = translate_request_for_queue(queue, step.route, spec, folder)
    step.left_out = "; ".join(left_out)
    return spec
