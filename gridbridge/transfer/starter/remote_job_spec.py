"""Describes the local job for the remote wrapper (facts: starter_method, B2).

execd and the shepherd give a starter SGE_STARTER_* and SGE_STD*_PATH in the environment, and
`handle_as_binary`, `no_shell` and the limits in active_jobs/N.T/config.
"""

from gridbridge.batch import home_job_id_translation, load_submit_adapter
from gridbridge.batch.remote_job_script_writer import RemoteJobScriptValues, ShellStartMode
from gridbridge.errors import GridbridgeError
from gridbridge.model.job_request import JobRequest, JobSpec, is_home_only_resource
from gridbridge.model.transfer_route import SshLogin, TransferRoute
from gridbridge.transfer.starter.local_task import LocalTask

INTERACTIVE = ("QLOGIN", "QRSH", "QRLOGIN", "INTERACTIVE")  # JOB_SCRIPT values without a script
LOCAL_IDENTITY = (  # variables that keep their values of the home cluster
    "JOB_ID",
    "JOB_NAME",
    "REQUEST",
    "REQNAME",
    "RESTARTED",
    "SHELL",
    "SGE_ACCOUNT",
    "SGE_CWD_PATH",
    "SGE_STDERR_PATH",
    "SGE_STDIN_PATH",
    "SGE_STDOUT_PATH",
    "SGE_TASK_FIRST",
    "SGE_TASK_ID",
    "SGE_TASK_LAST",
    "SGE_TASK_STEPSIZE",
)
HOME_JOB_ID = "GRIDBRIDGE_HOME_JOB_ID"
SUBMIT_SIDE = "SGE_O_"  # prefix of variables in which qsub describes the submission at home
DEVICES = "/dev/"  # prefix of paths that every host has
SERIAL = "none"  # value of pe in execd's config file for a serial job
PARALLEL = ("PE", "PE_HOSTFILE")  # variables that execd sets for a parallel job
EXECD_OWNS = (  # variables that the execd of a job sets, whatever qsub -v says
    "ARC",
    "ENVIRONMENT",
    "HOME",
    "HOSTNAME",
    "JOB_SCRIPT",
    "LOGNAME",
    "NHOSTS",
    "NQUEUES",
    "NSLOTS",
    "PWD",
    "QUEUE",
    "SGE_ARCH",
    "SGE_BINARY_PATH",
    "SGE_CELL",
    "SGE_CKPT_DIR",
    "SGE_CKPT_ENV",
    "SGE_CLUSTER_NAME",
    "SGE_EXECD_PORT",
    "SGE_JOB_SPOOL_DIR",
    "SGE_QMASTER_PORT",
    "SGE_ROOT",
    "TMP",
    "TMPDIR",
    "USER",
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
    """Return the remote job's spec; GridbridgeError if the job's files are unreadable.

    `stage` is the transfer's remote staging folder or empty, `claim` the claim's shell lines.
    """
    env = task.env
    start = _start(env, config)
    is_script = start not in (ShellStartMode.BINARY, ShellStartMode.BINARY_NO_SHELL)
    return RemoteJobScriptValues(
        transfer=transfer,
        spool=route.remote_spool,
        name=str(task.job),
        start=start,
        shell=env["SGE_STARTER_SHELL_PATH"],
        login=env.get("SGE_STARTER_USE_LOGIN_SHELL") == "true",
        arguments=arguments[1:] if is_script else arguments,
        environment=_environment(task, request, config, is_script, route.identity),
        script=_script(env["JOB_SCRIPT"]) if is_script else b"",
        claim=claim,
        own=_own(task, route),
        **_streams(route, env, stage),
    )


def _own(task: LocalTask, route: TransferRoute) -> str:
    """Return shell lines that give Grid Engine's commands the job's remote id, or ""."""
    if route.identity or not load_submit_adapter(route.away).HAS_QSTAT:
        return ""
    return home_job_id_translation.home_job_id_commands_script(task.job, task.env["SGE_TASK_ID"])


def remote_working_folder(route: TransferRoute, config: dict[str, str], stage: str = "") -> str:
    """Return the job's remote working directory; empty for the account's home directory."""
    if stage:
        return f"{stage}/work"
    return "" if route.remote_ssh else config["cwd"]


def has_standard_stream_files(env: dict[str, str]) -> bool:
    """Say whether a job has a standard stream in a file, which a remote job can't open."""
    streams = ("SGE_STDIN_PATH", "SGE_STDOUT_PATH", "SGE_STDERR_PATH")
    return not all(env[stream].startswith(DEVICES) for stream in streams)


def remote_output_location(env: dict[str, str], login: SshLogin) -> str:
    """Name the remote files that keep the job's output; empty for no output."""
    paths = dict.fromkeys((env["SGE_STDOUT_PATH"], env["SGE_STDERR_PATH"]))
    names = [path.rpartition("/")[2] for path in paths if not path.startswith(DEVICES)]
    account = login.user or env["LOGNAME"]
    files = " and ".join(f"~{account}/{name}" for name in names)
    return f"the output stays at {login.host} in {files}" if names else ""


def _landing(route: TransferRoute, path: str, staged: str) -> str:
    """Return a stream's remote path: `staged`, if the job has a staging folder.

    At a cluster reached by ssh, a stream without a staging folder stays in the working directory.
    """
    if not route.remote_ssh or path.startswith(DEVICES):
        return path
    return staged or path.rpartition("/")[2]


def _streams(route: TransferRoute, env: dict[str, str], stage: str) -> dict[str, str]:
    """Return the remote paths of the three standard streams."""
    merged = env["SGE_STDERR_PATH"] == env["SGE_STDOUT_PATH"]
    names = {"stdin": "stdin", "stdout": "stdout", "stderr": "stdout" if merged else "stderr"}
    return {
        stream: _landing(route, env[f"SGE_{stream.upper()}_PATH"], stage and f"{stage}/{name}")
        for stream, name in names.items()
    }


def granted_parallel_environment(config: dict[str, str]) -> tuple[str, int]:
    """Return the parallel environment and granted slots; ("", 1) for a serial job."""
    return (config["pe"], int(config["pe_slots"])) if config["pe"] != SERIAL else ("", 1)


def has_names_remote_may_not_know(spec: JobSpec) -> bool:
    """Say whether a request has any name that a remote cluster may not know."""
    pairs = spec.request.hard + spec.request.soft
    return bool(spec.pe or spec.request.project) or any(not is_home_only_resource(name) for name, _ in pairs)


def is_interactive_job(env: dict[str, str]) -> bool:
    """Say whether the starter's job is interactive (qrsh, qlogin)."""
    return env.get("JOB_SCRIPT", "") in INTERACTIVE or not env.get("SGE_STARTER_SHELL_PATH")


def _start(env: dict[str, str], config: dict[str, str]) -> str:
    if config["handle_as_binary"] == "1":
        return ShellStartMode.BINARY_NO_SHELL if config["no_shell"] == "1" else ShellStartMode.BINARY
    return env["SGE_STARTER_SHELL_START_MODE"]


def _script(path: str) -> bytes:
    try:
        with open(path, "rb") as script:
            return script.read()
    except OSError as error:
        raise GridbridgeError(f"{path}: {error.strerror}") from error


def _environment(
    task: LocalTask, request: JobRequest, config: dict[str, str], is_script: bool, identity: str
) -> tuple[tuple[str, str], ...]:
    """Return the job's own variables and its identity at home, sorted by name."""
    values = task.environment()
    execds = EXECD_OWNS + LOCAL_IDENTITY + (PARALLEL if granted_parallel_environment(config)[0] else ())
    own = {name: values.get(name, "") for name in request.variables if name not in execds}
    if "PATH" in own:  # execd has put the local TMPDIR in front of the owner's PATH
        own["PATH"] = own["PATH"].removeprefix(f"{task.env['TMPDIR']}:")
    home = {name: task.env[name] for name in LOCAL_IDENTITY if name in task.env}
    home |= {name: value for name, value in task.env.items() if name.startswith(SUBMIT_SIDE)}
    if identity:  # the job's JOB_ID is the remote job number
        home[HOME_JOB_ID] = home.pop("JOB_ID")
    if not is_script:  # a script's JOB_SCRIPT is the path of the remote copy
        home["JOB_SCRIPT"] = task.env["JOB_SCRIPT"]
    return tuple(sorted((own | home).items()))
