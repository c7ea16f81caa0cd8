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
    conditions = {"hard": own.hard if hard is None else hard}
    return own.but(queues=own.queues if queues is None else queues, **conditions)


def could_run(cell: GridEngineCell, request: JobRequest) -> bool:
    """Say whether some queue could run such a job, were it empty; CommandFailed if nobody says.

    A resource of which hosts only report a load value is left out: that changes all the time.
    """
    answer = call(cell, verify_argv(cell, request), SCRIPT)
    words = answer.stderr + answer.stdout
    if FOUND in words:
        return True
    if (
        answer.status < 0
        or answer.status == TRY_LATER
        or any(s in words.lower() for s in NOT_REACHED)
    ):
        answer.checked()
    name = words.partition(UNKNOWN)[2].partition(b")")[0].decode("utf-8", "replace")
    conditions = tuple(pair for pair in request.hard if pair[0] != name)
    if conditions == request.hard or not _is_reported(cell, request.queues, name):
        return False
    return could_run(cell, request.but(hard=conditions))


def _is_reported(cell: GridEngineCell, queues: str, name: str) -> bool:
    """Say whether a host of some queue reports a load value (hl), whatever it is now."""
    among = ("-q", queues) if queues else ()
    answer = call(cell, (f"{cell.binaries}/qstat", "-F", name, "-u", "root", *among))
    return f"hl:{name}=".encode() in answer.checked().stdout


def verify_argv(cell: GridEngineCell, request: JobRequest) -> Argv:
    """Verify a request; `-clear` comes first, since it takes back `-w` too."""
    options: Argv = ("-pe", *request.ranges.split()) if request.ranges else ()
    options += ("-q", request.queues) if request.queues else ()
    options += ("-P", request.project) if request.project else ()
    options += ("-ckpt", request.checkpoint) if request.checkpoint else ()
    options += client_commands.resources("-hard", request.hard)
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
    note = "".join(
        " " if character in "\n\t" else ";" if character == "," else character
        for character in reason
    )
    note = f"{REFUSED}={note[:REASON_CHARACTERS]}"
    return (f"{cell.binaries}/qalter", *options, "-ac", note, job)
