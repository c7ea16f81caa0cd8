"""Describe the local job for the remote cluster, and submit the remote job with a hold.

execd sets SGE_STARTER_*, SGE_STD*_PATH; `handle_as_binary`, `no_shell`, limits are in active_jobs/N.T/config.
"""

import os

from gridbridge.batch import load_submit_adapter, remote_job_script_writer
from gridbridge.batch.batch_submission_outcome import ONE_HOP, JobSubmissionOutcome, JobSubmissionResult
from gridbridge.batch.remote_job_script_writer import RemoteJobScriptValues, ShellStartMode
from gridbridge.errors import UnmappableRequest
from gridbridge.model.job_request import JobRequest, JobSpec, is_home_only_resource
from gridbridge.model.transfer_messages_in_spool import TransferFailureCause
from gridbridge.model.transfer_name import is_transfer_name
from gridbridge.model.transfer_route import SshLogin, TransferRoute
from gridbridge.state import published_file_formats
from gridbridge.transfer.starter import task_notes
from gridbridge.transfer.starter.local_task import LocalTask, read_whole_file

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from gridbridge.transfer.starter.starter_step_context import StarterStepContext


INTERACTIVE = ("QLOGIN", "QRSH", "QRLOGIN", "INTERACTIVE")  # values of JOB_SCRIPT that name no script
LOCAL_IDENTITY = (  # variables that have the local job's values in the remote job
    *("JOB_ID", "JOB_NAME", "REQUEST", "REQNAME", "RESTARTED", "SHELL", "SGE_ACCOUNT", "SGE_CWD_PATH"),
    *("SGE_STDERR_PATH", "SGE_STDIN_PATH", "SGE_STDOUT_PATH"),
    *("SGE_TASK_FIRST", "SGE_TASK_ID", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE"),
)
HOME_JOB_ID = "GRIDBRIDGE_HOME_JOB_ID"
SUBMIT_SIDE = "SGE_O_"  # prefix of the variables by which qsub describes the submit host
DEVICES = "/dev/"  # prefix of paths that exist on every host and are not copied
SERIAL = "none"
PARALLEL = ("PE", "PE_HOSTFILE")  # variables that execd sets for a parallel job
EXECD_OWNS = (  # variables that execd sets, even if qsub -v sets them
    *("ARC", "ENVIRONMENT", "HOME", "HOSTNAME", "JOB_SCRIPT", "LOGNAME", "NHOSTS", "NQUEUES", "NSLOTS", "PWD", "QUEUE"),
    *("SGE_ARCH", "SGE_BINARY_PATH", "SGE_CELL", "SGE_CKPT_DIR", "SGE_CKPT_ENV", "SGE_CLUSTER_NAME"),
    *("SGE_EXECD_PORT", "SGE_JOB_SPOOL_DIR", "SGE_QMASTER_PORT", "SGE_ROOT", "TMP", "TMPDIR", "USER"),
)


def build_remote_job_spec(
    task: LocalTask,
    route: TransferRoute,
    transfer: str,
    request: JobRequest,
    config: dict[str, str],
    arguments: tuple[str, ...],
    stage: str = "",
    claim: str = "",
) -> RemoteJobScriptValues:
    """Return the values for the wrapper script; raise GridbridgeError if a file of the job is unreadable.

    `stage` is the remote folder for copied files, or empty; `claim` are shell lines that claim the task.
    """
    env, is_script = task.env, config["handle_as_binary"] != "1"
    start = env["SGE_STARTER_SHELL_START_MODE"] if is_script else ShellStartMode.BINARY
    if not is_script and config["no_shell"] == "1":
        start = ShellStartMode.BINARY_NO_SHELL
    has_own_commands = not route.identity and load_submit_adapter(route.remote_cluster_access).HAS_QSTAT
    own = remote_job_script_writer.home_job_id_shell_lines(task.job, env["SGE_TASK_ID"]) if has_own_commands else ""
    return RemoteJobScriptValues(
        transfer=transfer,
        spool=route.remote_spool,
        name=str(task.job),
        start=start,
        shell=env["SGE_STARTER_SHELL_PATH"],
        login=env.get("SGE_STARTER_USE_LOGIN_SHELL") == "true",
        arguments=arguments[1:] if is_script else arguments,
        environment=_remote_job_environment(task, request, config, is_script, route.identity),
        script=read_whole_file(env["JOB_SCRIPT"]) if is_script else b"",
        claim=claim,
        own=own,  # shell lines that let Grid Engine's commands accept the home job id in the remote job
        **_remote_stream_paths(route, env, stage),
    )


def has_standard_stream_files(env: dict[str, str]) -> bool:
    """Say whether a standard stream of a job is a file at home, so that the file must be copied."""
    streams = ("SGE_STDIN_PATH", "SGE_STDOUT_PATH", "SGE_STDERR_PATH")
    return not all(env[stream].startswith(DEVICES) for stream in streams)


def remote_output_location(env: dict[str, str], login: SshLogin) -> str:
    """Describe the files at the remote cluster in which a job's output stays; empty without output."""
    paths = dict.fromkeys((env["SGE_STDOUT_PATH"], env["SGE_STDERR_PATH"]))
    names = [path.rpartition("/")[2] for path in paths if not path.startswith(DEVICES)]
    account = login.user or env["LOGNAME"]
    files = " and ".join(f"~{account}/{name}" for name in names)
    return f"the output stays at {login.host} in {files}" if names else ""


def _remote_stream_paths(route: TransferRoute, env: dict[str, str], stage: str) -> dict[str, str]:
    merged = env["SGE_STDERR_PATH"] == env["SGE_STDOUT_PATH"]
    paths = {}
    for stream, name in {"stdin": "stdin", "stdout": "stdout", "stderr": "stdout" if merged else "stderr"}.items():
        path = env[f"SGE_{stream.upper()}_PATH"]
        is_same = not route.remote_ssh or path.startswith(DEVICES)
        paths[stream] = path if is_same else f"{stage}/{name}" if stage else path.rpartition("/")[2]
    return paths


def granted_parallel_environment(config: dict[str, str]) -> tuple[str, int]:
    """Return a job's parallel environment and its granted slots; ('', 1) for a serial job."""
    return (config["pe"], int(config["pe_slots"])) if config["pe"] != SERIAL else ("", 1)


def is_interactive_job(env: dict[str, str]) -> bool:
    """Say whether the starter's job is interactive (qrsh, qlogin)."""
    return env.get("JOB_SCRIPT", "") in INTERACTIVE or not env.get("SGE_STARTER_SHELL_PATH")


def _remote_job_environment(
    task: LocalTask, request: JobRequest, config: dict[str, str], is_script: bool, identity: str
) -> tuple[tuple[str, str], ...]:
    """Return the variables that the owner set and the job's identity at home, sorted by name."""
    values = task.read_job_environment()
    execds = EXECD_OWNS + LOCAL_IDENTITY + (PARALLEL if granted_parallel_environment(config)[0] else ())
    own = {name: values.get(name, "") for name in request.variables if name not in execds}
    if "PATH" in own:  # execd has put the local TMPDIR before the owner's PATH
        own["PATH"] = own["PATH"].removeprefix(f"{task.env['TMPDIR']}:")
    home = {name: task.env[name] for name in LOCAL_IDENTITY if name in task.env}
    home |= {name: value for name, value in task.env.items() if name.startswith(SUBMIT_SIDE)}
    if identity:  # JOB_ID is the remote job's id
        home[HOME_JOB_ID] = home.pop("JOB_ID")
    if not is_script:  # for a script, JOB_SCRIPT is the remote path
        home["JOB_SCRIPT"] = task.env["JOB_SCRIPT"]
    return tuple(sorted((own | home).items()))


LOGINS = 3  # after this number of rejected ssh logins the job is refused
SHUT_OUT_S = 600  # shortest time of rejected ssh logins before the job is refused
FIRST_REJECTED_LOGIN_NOTE = "shut_out"


CAUSES = {
    JobSubmissionOutcome.REFUSED: TransferFailureCause.REFUSED,
    JobSubmissionOutcome.DENIED: TransferFailureCause.DENIED,
    JobSubmissionOutcome.LATER: TransferFailureCause.UNREACHED,
    JobSubmissionOutcome.UNSURE: TransferFailureCause.UNREACHED,
    JobSubmissionOutcome.BARRED: TransferFailureCause.BARRED,
}


def submit_remote_job(step: "StarterStepContext") -> JobSubmissionResult:
    """Submit the remote job with a hold; raise UnmappableRequest for a request or job that can't be sent on."""
    if _has_job_come_from_other_cluster(step.task.env.get("SGE_ACCOUNT", "")):
        raise UnmappableRequest(ONE_HOP)
    request = step.request
    for name, value in request.hard:
        if name == "h_rt":
            # noted now, because Grid Engine may be silent later
            task_notes.write_note(f"{step.task.private}/{name}", value.encode())
    config = step.task.read_execd_config()
    step.record = step.record.with_changes(rerun=request.rerun)
    name, (pe, slots) = step.record.transfer, granted_parallel_environment(config)
    spec = JobSpec(transfer=name, request=request, pe=pe, slots=slots)
    spec = _translate_job_request(step, spec)
    spec = published_file_formats.exclude_forwarding_queues(spec, step.route.remote, step.task.published)
    stage_folder = make_remote_staging_folder(step, request, config)
    if step.away.login and not stage_folder:
        step.left_out = "; ".join(filter(None, (step.left_out, remote_output_location(step.task.env, step.away.login))))
    script = remote_job_script_writer.write_remote_job_script(
        build_remote_job_spec(
            step.task, step.route, name, request, config, step.arguments, stage_folder, claim_wrapper_lines(step)
        )
    )
    cwd = "" if step.route.remote_ssh else config["cwd"]  # working directory; empty: the home directory of the account
    if stage_folder and step.route.declares_staged_files(request.context):
        cwd = f"{stage_folder}/work"
    shell = step.route.remote_shell or "/bin/sh"
    return step.far.submit_held_job(step.away, spec.with_changes(shell=shell, cwd=cwd, script=script))


def _has_job_come_from_other_cluster(account: str) -> bool:
    if not account.startswith("gc."):
        return is_transfer_name(account)
    from gridbridge.model.campaigns.campaign_file_and_array_names import is_campaign_array_name  # few jobs need this

    return is_campaign_array_name(account)


def is_owner_ssh_login_barred(step: "StarterStepContext") -> bool:
    """Say whether the owner's ssh login was rejected often and long enough to give up."""
    is_often = step.task.count_starter_act_try("logins") >= LOGINS - 1
    return step.task.seconds_since_first_note(FIRST_REJECTED_LOGIN_NOTE) >= SHUT_OUT_S and is_often


def claim_wrapper_lines(step: "StarterStepContext") -> str:
    """Return the shell lines by which the remote job claims the right to run.

    The claim's key is written first, because the job's script names the key's file. A retried submission uses the same
    claim, if the configuration still has claims of this kind.
    """
    kind = step.route.remote_claim.partition(" ")[0]
    if not step.record.claim.startswith(f"{kind}."):
        if step.record.claim:
            step.save_and_send_record(claim="")
        return ""
    from gridbridge.batch import remote_job_claim_script

    write_claim_key(step)
    route = step.route
    return remote_job_claim_script.remote_job_claim_shell_lines(
        step.record.claim, route.remote_claim, route.remote_spool, os.getuid()
    )


def write_claim_key(step: "StarterStepContext") -> None:
    if step.record.claim:
        from gridbridge.batch import remote_job_claim_script

        remote_job_claim_script.write_remote_job_claim_key(step.record.claim, step.task.our_spool, os.getuid())


def make_remote_staging_folder(step: "StarterStepContext", request: JobRequest, config: dict[str, str]) -> str:
    """Create a remote folder if files or standard streams must be copied; return its path, or ''."""
    route, env = step.route, step.task.env
    is_wanted = route.declares_staged_files(request.context) or (route.staged and has_standard_stream_files(env))
    if not (step.record.stage or is_wanted):
        return ""
    from gridbridge.transfer.starter import file_staging

    return file_staging.prepare_file_staging(step, request, config)


def _translate_job_request(step: "StarterStepContext", spec: JobSpec) -> JobSpec:
    pairs = spec.request.hard + spec.request.soft
    has_names = spec.pe or spec.request.project or any(not is_home_only_resource(name) for name, _ in pairs)
    if not step.route.remote_mapped and not has_names:  # no name needs a translation
        return spec
    from gridbridge.transfer.request_translation import translate_request_for_queue

    queue, folder = step.record.queue, step.task.published
    spec, left_out = translate_request_for_queue(queue, step.route, spec, folder)
    step.left_out = "; ".join(left_out)
    return spec
