"""Translates JOB_ID, the number at home, for Grid Engine's commands inside a job that is away.

home_id.sh stands before each of them, in a folder of the wrapper that is first in the job's PATH.
"""

from gridbridge.shell.runner import quote

BODY = f"{__file__.rpartition('/')[0]}/home_id.sh"
COMMANDS = ("qalter", "qdel", "qhold", "qmod", "qrls", "qstat", "qsub")
FILES = " ".join(f'"$gb_private/{name}"' for name in COMMANDS)
CALL = '#!/bin/sh\n. "${0%/*}/own"\n'
PATH_BEHIND_PROFILE = "\"PATH='$gb_private':\\$PATH; \""  # of -c, within the wrapper
RUN_BEHIND_PROFILE = '"PATH=\'$gb_private\':\\$PATH; . \\"\\$0\\""'
MINDS_THAT = b"(return"  # as scripts do that find out whether they are read by another


def lines(job: int, task: str) -> str:
    """Return what writes FILES, in sh, for a job and its task at home; job.sh makes them programs.

    It refuses the job where one is missing, so nothing is told here.
    """
    with open(BODY, encoding="utf-8") as body:
        text = f"gb_own={job} gb_task={quote(task)}\n{body.read()}"
    return f"""printf 'gb_there=%s %s' "$JOB_ID" {quote(text)} >"$gb_private/own" &&
    for gb_each in {FILES}; do printf %s {quote(CALL)} >"$gb_each" || break; done
"""


def behind_profile(script: bytes) -> list[str]:
    """Return the words by which a login shell runs a script once its profile has set its PATH.

    Debian's sets one of its own. The shell reads the script itself then, under the same name, so it
    is done only where the script names one of the commands, and does not mind who reads it.
    """
    if MINDS_THAT in script or not any(name.encode() in script for name in COMMANDS):
        return []
    return ["-c", RUN_BEHIND_PROFILE]
