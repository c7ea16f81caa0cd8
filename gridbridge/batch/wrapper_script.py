"""The remote job's script: what is particular to one job, then the static wrapper job.sh.

The bundle needs nothing but sh on the remote side and no shared filesystem: the user's script,
arguments and environment travel inside it, quoted by the one function for it.
"""

from gridbridge.batch import home_id
from gridbridge.shell.runner import quote

BODY = f"{__file__.rpartition('/')[0]}/job.sh"
FIRST = b"{ gb_write_script &&"  # what job.sh does first for the job itself
PROGRAM = b'chmod 755 "$gb_script"'  # one process for all that has to be one
QUIET = "/dev/null"
C_SHELLS = ("csh", "tcsh")  # their -l must be the only argument
BOURNE_SHELLS = ("bash", "dash", "ksh", "sh", "zsh")  # of these `-c COMMAND NAME` sets $0
EMPTY = '""'
AS_TYPED = ("utf-8", "surrogateescape")  # the user's bytes, whatever their encoding
NEWLINE = "\x01"  # stands for a newline inside a value of the remote environment


class JobStartMode:
    """How Grid Engine starts a job (queue_conf(5) shell_start_mode, qsub(1) -b and -shell)."""

    POSIX = "posix_compliant"
    UNIX = "unix_behavior"
    STDIN = "script_from_stdin"
    BINARY = "-b y"
    BINARY_NO_SHELL = "-b y -shell n"


class WrappedJob:
    """What the wrapper is told about one job; all text is the user's and is quoted here."""

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
        self.claim = claim  # what claims the job in sh, of ours; empty: nothing does
        self.own = own  # what stands before Grid Engine's commands there (own); empty: nothing


def bundle(job: WrappedJob) -> bytes:
    """Write the whole script for the remote `qsub`."""
    with open(BODY, "rb") as body:
        ours = _header(job) + _script_writer(job.script) + _runner(job)
        whole = ours.encode(*AS_TYPED) + body.read()
    if job.own:
        whole = whole.replace(PROGRAM, PROGRAM + f" {home_id.FILES}".encode(), 1)
    before = (job.claim + job.own).encode()
    return whole.replace(FIRST, before + FIRST, 1) if before else whole


def _header(job: WrappedJob) -> str:
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
    return "#!/bin/sh\n" + "".join(f"gb_{key}={quote(value)}\n" for key, value in settings.items())


def _script_writer(script: bytes) -> str:
    """Define gb_write_script: it writes the user's script to $gb_script, to the byte."""
    text = quote(script.decode(*AS_TYPED))
    return f'gb_write_script() {{ printf %s {text} >"$gb_script"; }}\n'


def _runner(job: WrappedJob) -> str:
    """Define gb_job: the job's command in its environment, with its three streams.

    Its arguments, if any, are env's, for the environment that the remote execd made. A
    subshell, so that the wrapper's own standard error is where the shell tells of signals.
    """
    words = ["env", '"$@"', *_environment(job), *_command(job)]
    source = '"$gb_script"' if job.start == JobStartMode.STDIN else '"$gb_stdin"'
    errors = "2>&1" if job.stderr == job.stdout else '2>>"$gb_stderr"'
    return _finder(job) + (
        f'gb_job() (\nexec {" ".join(words)} <{source} >>"$gb_stdout" {errors} 4<&- 5>&- 6<&-\n)\n'
    )


def _program(job: WrappedJob) -> str:
    """Return what must be there to start the job: without it Grid Engine would not try."""
    if job.start == JobStartMode.BINARY_NO_SHELL:
        return job.arguments[0]
    return "" if job.start == JobStartMode.UNIX else job.shell


def _finder(job: WrappedJob) -> str:
    """Define gb_found: whether the program is there, by the job's own PATH."""
    path = "".join(f"PATH={quote(value)} " for name, value in job.environment if name == "PATH")
    return f'gb_found() {{\n{path}command -v "$gb_needs" >/dev/null\n}}\n'


def _environment(job: WrappedJob) -> list[str]:
    """Return the assignments; the remote side's own places come from its variables."""
    words = ['"GRIDBRIDGE_REMOTE_CELL=$SGE_CELL"']
    words += [quote(f"{name}={value}") for name, value in job.environment if name != "PATH"]
    words += _path(job)
    words += ['"GRIDBRIDGE_REMOTE_JOB_ID=$JOB_ID"', '"GRIDBRIDGE_REMOTE_JOB_NAME=$JOB_NAME"']
    if job.script:
        words.append('"JOB_SCRIPT=$gb_script"')
    return words


def _path(job: WrappedJob) -> list[str]:
    """Return the assignment of PATH, if its execd's is not the job's: TMPDIR comes first in it."""
    ours = '"PATH=$gb_private:$TMPDIR:"' if job.own else '"PATH=$TMPDIR:"'
    own = [f"{ours}{quote(value)}" for name, value in job.environment if name == "PATH"]
    return own or (['"PATH=$gb_private:$PATH"'] if job.own else [])


def _command(job: WrappedJob) -> list[str]:
    """Return the words that start the job as Grid Engine's shepherd would.

    shepherd's rules: -b y goes through the shell as one string, its words joined by blanks and
    an empty one as `""`; -shell n is started directly; unix_behavior lets the kernel read the
    script's first line; $0 of `-c` is the shell's own name.
    """
    arguments = [quote(argument) for argument in job.arguments]
    if job.start == JobStartMode.BINARY_NO_SHELL:
        return arguments
    shell = _shell(job)
    if job.start == JobStartMode.BINARY:
        line = "".join(f"{argument or EMPTY} " for argument in job.arguments)
        path = home_id.PATH_BEHIND_PROFILE if _may_lose_path(job) else ""
        return [*shell, "-c", path + quote(line), *_zeroth(job)]
    if job.start == JobStartMode.STDIN:
        return [*shell, "-s", *arguments]
    if job.start == JobStartMode.UNIX:
        return ['"$gb_script"', *arguments]
    behind = home_id.behind_profile(job.script) if _may_lose_path(job) else []
    return [*shell, *behind, '"$gb_script"', *arguments]


def _may_lose_path(job: WrappedJob) -> bool:
    """Say whether a profile may set a PATH without what stands before Grid Engine's commands."""
    return bool(job.own and job.login and job.shell.rpartition("/")[2] in BOURNE_SHELLS)


def _zeroth(job: WrappedJob) -> list[str]:
    name = job.shell.rpartition("/")[2]
    return [quote(f"-{name}" if job.login else name)] if name in BOURNE_SHELLS else []


def _shell(job: WrappedJob) -> list[str]:
    name = job.shell.rpartition("/")[2]
    if not job.login:
        return [quote(job.shell)]
    if name in C_SHELLS:
        rename = 'exec -a "$0" "$@"'
        return ["bash", "-c", quote(rename), quote(f"-{name}"), quote(job.shell)]
    return [quote(job.shell), "-l"]
