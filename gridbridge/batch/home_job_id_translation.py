"""Translates the home JOB_ID for Grid Engine's commands inside a remote job.

home_id.sh stands in for each command. The stand-ins lie in the wrapper's folder, which is first in
the job's PATH.
"""

from gridbridge.shell.runner import quote_for_sh

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
