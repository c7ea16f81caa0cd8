"""Writes a remote job's script: its values, then job.sh; needs only sh and no shared filesystem."""

from gridbridge.shell.program_runs import quote_for_sh

BODY = f"{__file__.rpartition('/')[0]}/job.sh"
FIRST = b"{ gb_write_script &&"  # line of job.sh at which the job's preparation begins
PROGRAM = b'chmod 755 "$gb_script"'  # line of job.sh that makes the script executable
QUIET = "/dev/null"
C_SHELLS = ("csh", "tcsh")  # shells that accept -l only as the sole argument
BOURNE_SHELLS = ("bash", "dash", "ksh", "sh", "zsh")  # shells in which NAME of `-c COMMAND NAME` becomes $0
EMPTY = '""'
AS_TYPED = ("utf-8", "surrogateescape")  # leaves a user's bytes unchanged, even if the bytes are not UTF-8
NEWLINE = "\x01"  # character that replaces newlines in the environment of the remote job


class ShellStartMode:
    """Grid Engine's ways to start a job (queue_conf(5) shell_start_mode, qsub(1) -b, -shell)."""

    POSIX = "posix_compliant"
    UNIX = "unix_behavior"
    STDIN = "script_from_stdin"
    BINARY = "-b y"
    BINARY_NO_SHELL = "-b y -shell n"


class RemoteJobScriptValues:
    def __init__(
        self,
        *,
        transfer: str,
        spool: str,
        name: str,
        start: str,
        shell: str,
        login: bool,
        arguments: tuple[str, ...],
        environment: tuple[tuple[str, str], ...],
        script: bytes = b"",
        stdin: str = QUIET,
        stdout: str = QUIET,
        stderr: str = QUIET,
        claim: str = "",
        own: str = "",
    ) -> None:
        self.transfer = transfer
        self.spool = spool
        self.name = name
        self.start = start
        self.shell = shell
        self.login = login
        self.arguments = arguments
        self.environment = environment
        self.script = script
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.claim = claim  # sh lines that claim the task; empty: no claim
        self.own = own  # sh lines that write stand-ins for Grid Engine's commands


def write_remote_job_script(job: RemoteJobScriptValues) -> bytes:
    with open(BODY, "rb") as body:
        script = quote_for_sh(job.script.decode(*AS_TYPED))
        writer = f'gb_write_script() {{ printf %s {script} >"$gb_script"; }}\n'
        ours = _shell_settings_header(job) + writer + _shell_function_running_job(job)
        whole = ours.encode(*AS_TYPED) + body.read()
    if job.own:
        whole = whole.replace(PROGRAM, PROGRAM + f" {FILES}".encode(), 1)
    before = (job.claim + job.own).encode()
    return whole.replace(FIRST, before + FIRST, 1) if before else whole


def _shell_settings_header(job: RemoteJobScriptValues) -> str:
    settings = {
        "transfer": job.transfer,
        "spool": job.spool,
        "name": job.name,
        "stdin": job.stdin,
        "stdout": job.stdout,
        "stderr": job.stderr,
        "needs": _required_shell_or_program(job),
        "soh": NEWLINE,
    }
    return "#!/bin/sh\n" + "".join(f"gb_{key}={quote_for_sh(value)}\n" for key, value in settings.items())


def _shell_function_running_job(job: RemoteJobScriptValues) -> str:
    """Return the sh function gb_job, which runs the job's command with its environment and three streams.

    gb_job is a subshell, so that the shell's messages about signals go to the wrapper's standard error.
    """
    words = ["env", '"$@"', *_env_arguments_of_job(job), *_job_command_words(job)]
    source = '"$gb_script"' if job.start == ShellStartMode.STDIN else '"$gb_stdin"'
    errors = "2>&1" if job.stderr == job.stdout else '2>>"$gb_stderr"'
    path = "".join(f"PATH={quote_for_sh(value)} " for name, value in job.environment if name == "PATH")
    finder = f'gb_found() {{\n{path}command -v "$gb_needs" >/dev/null\n}}\n'
    return finder + (f'gb_job() (\nexec {" ".join(words)} <{source} >>"$gb_stdout" {errors} 4<&- 5>&- 6<&-\n)\n')


def _required_shell_or_program(job: RemoteJobScriptValues) -> str:
    """Return the shell or program without which Grid Engine can't start the job; may be empty."""
    if job.start == ShellStartMode.BINARY_NO_SHELL:
        return job.arguments[0]
    return "" if job.start == ShellStartMode.UNIX else job.shell


def _env_arguments_of_job(job: RemoteJobScriptValues) -> list[str]:
    words = ['"GRIDBRIDGE_REMOTE_CELL=$SGE_CELL"']
    words += [quote_for_sh(f"{name}={value}") for name, value in job.environment if name != "PATH"]
    if own_path := [quote_for_sh(value) for name, value in job.environment if name == "PATH"]:
        before = "$gb_private:$TMPDIR:" if job.own else "$TMPDIR:"
        words += [f'"PATH={before}"{value}' for value in own_path]
    elif job.own:
        words.append('"PATH=$gb_private:$PATH"')
    words += ['"GRIDBRIDGE_REMOTE_JOB_ID=$JOB_ID"', '"GRIDBRIDGE_REMOTE_JOB_NAME=$JOB_NAME"']
    if job.script:
        words.append('"JOB_SCRIPT=$gb_script"')
    return words


def _job_command_words(job: RemoteJobScriptValues) -> list[str]:
    """Return the words that start the job as Grid Engine's shepherd would.

    With -b y the shell gets one text; with -shell n there is no shell; with unix_behavior the kernel reads `#!`.
    """
    arguments = [quote_for_sh(argument) for argument in job.arguments]
    if job.start == ShellStartMode.BINARY_NO_SHELL:
        return arguments
    shell = _shell_start_words(job)
    if job.start == ShellStartMode.BINARY:
        line = "".join(f"{argument or EMPTY} " for argument in job.arguments)
        path = PATH_BEHIND_PROFILE if _may_profile_replace_path(job) else ""
        name = job.shell.rpartition("/")[2]
        zeroth = [quote_for_sh(f"-{name}" if job.login else name)] if name in BOURNE_SHELLS else []
        return [*shell, "-c", path + quote_for_sh(line), *zeroth]
    if job.start == ShellStartMode.STDIN:
        return [*shell, "-s", *arguments]
    if job.start == ShellStartMode.UNIX:
        return ['"$gb_script"', *arguments]
    behind = shell_args_restoring_path(job.script) if _may_profile_replace_path(job) else []
    return [*shell, *behind, '"$gb_script"', *arguments]


def _may_profile_replace_path(job: RemoteJobScriptValues) -> bool:
    return bool(job.own and job.login and job.shell.rpartition("/")[2] in BOURNE_SHELLS)


def _shell_start_words(job: RemoteJobScriptValues) -> list[str]:
    name = job.shell.rpartition("/")[2]
    if not job.login:
        return [quote_for_sh(job.shell)]
    if name in C_SHELLS:
        rename = 'exec -a "$0" "$@"'
        return ["bash", "-c", quote_for_sh(rename), quote_for_sh(f"-{name}"), quote_for_sh(job.shell)]
    return [quote_for_sh(job.shell), "-l"]


HOME_ID_BODY = f"{__file__.rpartition('/')[0]}/home_id.sh"
COMMANDS = ("qalter", "qdel", "qhold", "qmod", "qrls", "qstat", "qsub")
FILES = " ".join(f'"$gb_private/{name}"' for name in COMMANDS)
CALL = '#!/bin/sh\n. "${0%/*}/own"\n'
PATH_BEHIND_PROFILE = "\"PATH='$gb_private':\\$PATH; \""  # sets PATH at the start of a `-c` command
RUN_BEHIND_PROFILE = '"PATH=\'$gb_private\':\\$PATH; . \\"\\$0\\""'
MINDS_THAT = b"(return"  # text in scripts that test whether they are sourced


def home_job_id_shell_lines(job: int, task: str) -> str:
    """Return sh lines that write stand-ins of Grid Engine's commands, which translate the home job id.

    The stand-ins (home_id.sh) are first in the job's PATH; job.sh refuses the job if a stand-in is missing.
    """
    with open(HOME_ID_BODY, encoding="utf-8") as body:
        text = f"gb_own={job} gb_task={quote_for_sh(task)}\n{body.read()}"
    return f"""printf 'gb_there=%s %s' "$JOB_ID" {quote_for_sh(text)} >"$gb_private/own" &&
    for gb_each in {FILES}; do printf %s {quote_for_sh(CALL)} >"$gb_each" || break; done
"""


def shell_args_restoring_path(script: bytes) -> list[str]:
    """Return the shell arguments that restore PATH after a login shell's profile has replaced it.

    The result is empty if the script runs no stand-in (COMMANDS) or tests whether it is sourced.
    """
    if MINDS_THAT in script or not any(name.encode() in script for name in COMMANDS):
        return []
    return ["-c", RUN_BEHIND_PROFILE]
