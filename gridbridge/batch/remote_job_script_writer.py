"""Writes the remote job's script: the values of one job, then the static wrapper job.sh.

The script needs only sh on the remote side and no shared filesystem: it contains the user's script, arguments
and environment, quoted by one function.

home_id.sh stands in for each command. The stand-ins lie in the wrapper's folder, which is first in the job's
PATH.
"""

from gridbridge.shell.program_runs import quote_for_sh

BODY = f"{__file__.rpartition('/')[0]}/job.sh"
FIRST = b"{ gb_write_script &&"  # the first line of job.sh that acts for the job itself
PROGRAM = b'chmod 755 "$gb_script"'  # one chmod for all files saves processes
QUIET = "/dev/null"
C_SHELLS = ("csh", "tcsh")  # shells whose -l must be the only argument
BOURNE_SHELLS = ("bash", "dash", "ksh", "sh", "zsh")  # shells in which `-c COMMAND NAME` sets $0
EMPTY = '""'
AS_TYPED = ("utf-8", "surrogateescape")  # the user's bytes, whatever their encoding
NEWLINE = "\x01"  # stands for a newline inside a value of the remote environment


class ShellStartMode:
    """Grid Engine's ways to start a job (queue_conf(5) shell_start_mode, qsub(1) -b, -shell)."""

    POSIX = "posix_compliant"
    UNIX = "unix_behavior"
    STDIN = "script_from_stdin"
    BINARY = "-b y"
    BINARY_NO_SHELL = "-b y -shell n"


class RemoteJobScriptValues:
    """The values of one job for the wrapper script; user text is quoted when it is written."""

    __slots__ = (
        "arguments",
        "claim",
        "environment",
        "login",
        "name",
        "own",
        "script",
        "shell",
        "spool",
        "start",
        "stderr",
        "stdin",
        "stdout",
        "transfer",
    )

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
        self.claim = claim  # sh lines that claim the job; empty: no claim
        self.own = own  # sh lines that write the command stand-ins; empty: none


def write_remote_job_script(job: RemoteJobScriptValues) -> bytes:
    """Write the whole script for the remote submission."""
    with open(BODY, "rb") as body:
        ours = _header(job) + _script_writer(job.script) + _runner(job)
        whole = ours.encode(*AS_TYPED) + body.read()
    if job.own:
        whole = whole.replace(PROGRAM, PROGRAM + f" {FILES}".encode(), 1)
    before = (job.claim + job.own).encode()
    return whole.replace(FIRST, before + FIRST, 1) if before else whole


def _header(job: RemoteJobScriptValues) -> str:
    settings = {
        "transfer": job.transfer,
        "spool": job.spool,
        "name": job.name,
        "stdin": job.stdin,
        "stdout": job.stdout,
        "stderr": job.stderr,
        "needs": _program(job),
        "soh": NEWLINE,
    }
    return "#!/bin/sh\n" + "".join(f"gb_{key}={quote_for_sh(value)}\n" for key, value in settings.items())


def _script_writer(script: bytes) -> str:
    """Define gb_write_script, which writes the user's script unchanged to $gb_script."""
    text = quote_for_sh(script.decode(*AS_TYPED))
    return f'gb_write_script() {{ printf %s {text} >"$gb_script"; }}\n'


def _runner(job: RemoteJobScriptValues) -> str:
    """Define gb_job: the job's command with its environment and three streams.

    Arguments of gb_job are arguments of env(1), for variables that the remote execd made. gb_job is
    a subshell, so that the shell's messages about signals go to the wrapper's own standard error.
    """
    words = ["env", '"$@"', *_environment(job), *_command(job)]
    source = '"$gb_script"' if job.start == ShellStartMode.STDIN else '"$gb_stdin"'
    errors = "2>&1" if job.stderr == job.stdout else '2>>"$gb_stderr"'
    return _finder(job) + (f'gb_job() (\nexec {" ".join(words)} <{source} >>"$gb_stdout" {errors} 4<&- 5>&- 6<&-\n)\n')


def _program(job: RemoteJobScriptValues) -> str:
    """Return the program of the job; Grid Engine does not start a job whose program is missing."""
    if job.start == ShellStartMode.BINARY_NO_SHELL:
        return job.arguments[0]
    return "" if job.start == ShellStartMode.UNIX else job.shell


def _finder(job: RemoteJobScriptValues) -> str:
    """Define gb_found, which looks for the job's program in the job's own PATH."""
    path = "".join(f"PATH={quote_for_sh(value)} " for name, value in job.environment if name == "PATH")
    return f'gb_found() {{\n{path}command -v "$gb_needs" >/dev/null\n}}\n'


def _environment(job: RemoteJobScriptValues) -> list[str]:
    """Return the variable assignments; the remote side's values come from its variables."""
    words = ['"GRIDBRIDGE_REMOTE_CELL=$SGE_CELL"']
    words += [quote_for_sh(f"{name}={value}") for name, value in job.environment if name != "PATH"]
    words += _path(job)
    words += ['"GRIDBRIDGE_REMOTE_JOB_ID=$JOB_ID"', '"GRIDBRIDGE_REMOTE_JOB_NAME=$JOB_NAME"']
    if job.script:
        words.append('"JOB_SCRIPT=$gb_script"')
    return words


def _path(job: RemoteJobScriptValues) -> list[str]:
    """Return the assignment of PATH, with TMPDIR first, if the job has its own PATH."""
    ours = '"PATH=$gb_private:$TMPDIR:"' if job.own else '"PATH=$TMPDIR:"'
    own = [f"{ours}{quote_for_sh(value)}" for name, value in job.environment if name == "PATH"]
    return own or (['"PATH=$gb_private:$PATH"'] if job.own else [])


def _command(job: RemoteJobScriptValues) -> list[str]:
    """Return the words that start the job as Grid Engine's shepherd would.

    shepherd's rules: with -b y the shell gets one string, the words joined by blanks and an empty
    word as `""`; with -shell n the program is started directly; unix_behavior lets the kernel read
    the script's first line; $0 of `-c` is the shell's own name.
    """
    arguments = [quote_for_sh(argument) for argument in job.arguments]
    if job.start == ShellStartMode.BINARY_NO_SHELL:
        return arguments
    shell = _shell(job)
    if job.start == ShellStartMode.BINARY:
        line = "".join(f"{argument or EMPTY} " for argument in job.arguments)
        path = PATH_BEHIND_PROFILE if _may_lose_path(job) else ""
        return [*shell, "-c", path + quote_for_sh(line), *_zeroth(job)]
    if job.start == ShellStartMode.STDIN:
        return [*shell, "-s", *arguments]
    if job.start == ShellStartMode.UNIX:
        return ['"$gb_script"', *arguments]
    behind = shell_args_restoring_path(job.script) if _may_lose_path(job) else []
    return [*shell, *behind, '"$gb_script"', *arguments]


def _may_lose_path(job: RemoteJobScriptValues) -> bool:
    """Say whether a login profile may replace the PATH with the command stand-ins."""
    return bool(job.own and job.login and job.shell.rpartition("/")[2] in BOURNE_SHELLS)


def _zeroth(job: RemoteJobScriptValues) -> list[str]:
    name = job.shell.rpartition("/")[2]
    return [quote_for_sh(f"-{name}" if job.login else name)] if name in BOURNE_SHELLS else []


def _shell(job: RemoteJobScriptValues) -> list[str]:
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
PATH_BEHIND_PROFILE = "\"PATH='$gb_private':\\$PATH; \""  # PATH before a `-c` command
RUN_BEHIND_PROFILE = '"PATH=\'$gb_private\':\\$PATH; . \\"\\$0\\""'
MINDS_THAT = b"(return"  # scripts test with `return` whether they are sourced


def home_job_id_commands_script(job: int, task: str) -> str:
    """Return the sh lines that write the stand-ins of Grid Engine's commands.

    The stand-ins know a job's id and task at home; job.sh makes them executable and refuses the job
    if one is missing.
    """
    with open(HOME_ID_BODY, encoding="utf-8") as body:
        text = f"gb_own={job} gb_task={quote_for_sh(task)}\n{body.read()}"
    return f"""printf 'gb_there=%s %s' "$JOB_ID" {quote_for_sh(text)} >"$gb_private/own" &&
    for gb_each in {FILES}; do printf %s {quote_for_sh(CALL)} >"$gb_each" || break; done
"""


def shell_args_restoring_path(script: bytes) -> list[str]:
    """Return the shell arguments that restore PATH after a login shell's profile.

    Debian's profile replaces PATH. With these arguments the shell reads the script itself, under
    its own $0. The result is empty if the script names no such command, or tests for sourcing.
    """
    if MINDS_THAT in script or not any(name.encode() in script for name in COMMANDS):
        return []
    return ["-c", RUN_BEHIND_PROFILE]
