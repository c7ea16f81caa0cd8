"""Whether a job could run in queues of the local cell, and what keeps it there.

`qsub -w v` verifies a request without submitting it, against the cell as if it were empty: full and
disabled queues count, load values do not. `qalter -w v` is of no use: of a running job it verifies
nothing, and it alters the lists that it is given (facts: 8.1.9).
"""

from collections.abc import Iterable

from gridbridge.batch.gridengine import client_commands
from gridbridge.batch.gridengine.client_commands import Argv
from gridbridge.batch.gridengine.submit import NOT_REACHED, TRY_LATER, call
from gridbridge.model.request import OURS, JobRequest, Pairs, Variant
from gridbridge.model.route import GridEngineCell

REFUSED = f"{OURS}refused"  # in a job's context: why it came home
REASON_CHARACTERS = 300
UNKNOWN = b"unknown resource ("  # no queue, host or `global` has a fixed value of it
FOUND = (
    b"found suitable queue"  # said before a uid below min_uid, such as the service's, is refused
)
SCRIPT = b"true\n"


def keep(
    cell: GridEngineCell, job: str, own: JobRequest, variants: Iterable[Variant], reason: str
) -> bool:
    """Mark a job so that it stays at home; False when no queue here could run it in any way."""
    for hard, queues in variants:
        if could_run(cell, instead(own, hard, queues)):
            mark(cell, job, hard=hard, queues=queues, reason=reason)
            return True
    return False


def instead(own: JobRequest, hard: Pairs | None, queues: str | None) -> JobRequest:
    """Return what a job asks for with one of its lists replaced."""
    kept = {"hard": own.hard if hard is None else hard}
    return own.but(queues=own.queues if queues is None else queues, **kept)


def could_run(cell: GridEngineCell, asked: JobRequest) -> bool:
    """Say whether some queue could run such a job, were it empty; CommandFailed if nobody says.

    A resource of which hosts only report a load value is left out: that changes all the time.
    """
    done = call(cell, verify_argv(cell, asked), SCRIPT)
    words = done.stderr + done.stdout
    if FOUND in words:
        return True
    if done.status < 0 or done.status == TRY_LATER or any(s in words.lower() for s in NOT_REACHED):
        done.checked()
    name = words.partition(UNKNOWN)[2].partition(b")")[0].decode("utf-8", "replace")
    others = tuple(pair for pair in asked.hard if pair[0] != name)
    if others == asked.hard or not _is_reported(cell, asked.queues, name):
        return False
    return could_run(cell, asked.but(hard=others))


def _is_reported(cell: GridEngineCell, queues: str, name: str) -> bool:
    """Say whether a host of some queue reports a load value (hl), whatever it is now."""
    among = ("-q", queues) if queues else ()
    done = call(cell, (f"{cell.binaries}/qstat", "-F", name, "-u", "root", *among))
    return f"hl:{name}=".encode() in done.checked().stdout


def verify_argv(cell: GridEngineCell, asked: JobRequest) -> Argv:
    """Verify a request; `-clear` comes first, since it takes back `-w` too."""
    options: Argv = ("-pe", *asked.ranges.split()) if asked.ranges else ()
    options += ("-q", asked.queues) if asked.queues else ()
    options += ("-P", asked.project) if asked.project else ()
    options += ("-ckpt", asked.checkpoint) if asked.checkpoint else ()
    options += client_commands.resources("-hard", asked.hard)
    return (f"{cell.binaries}/qsub", "-clear", "-C", "", "-w", "v", *options)


def mark(
    cell: GridEngineCell, job: str, *, hard: Pairs | None, queues: str | None, reason: str
) -> None:
    """Replace a job's list, and leave the reason in its context, where `qstat -j` shows it."""
    call(cell, mark_argv(cell, job, hard=hard, queues=queues, reason=reason)).checked()


def mark_argv(
    cell: GridEngineCell, job: str, *, hard: Pairs | None, queues: str | None, reason: str
) -> Argv:
    """Alter a whole job in one request; a list that is None stays as it is."""
    options: Argv = client_commands.resources("-hard", hard) if hard is not None else ()
    options += ("-hard", "-q", queues) if queues is not None else ()
    note = "".join(" " if each in "\n\t" else ";" if each == "," else each for each in reason)
    note = f"{REFUSED}={note[:REASON_CHARACTERS]}"
    return (f"{cell.binaries}/qalter", *options, "-ac", note, job)
