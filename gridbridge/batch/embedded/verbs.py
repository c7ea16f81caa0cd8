"""What can be done to the jobs of an embedded cluster, each by one transaction.

A signal is sent within its transaction: what is noted as running then has the process that is
noted (see keeper). A command that was killed in between is repeated by its caller.
"""

from signal import SIGCONT, SIGKILL, SIGSTOP

from gridbridge.batch.embedded.database import Database
from gridbridge.batch.embedded.job import Job
from gridbridge.batch.embedded.process import signal_group


def hold(database: Database, number: int) -> None:
    """Keep a waiting job from starting; a running one runs on."""
    with database.change():
        database.set(database.job(number).id, held=1)


def release(database: Database, number: int, name: str) -> None:
    """Let a held job start; under another name if one is given."""
    with database.change():
        job = database.job(number)
        database.set(job.id, held=0, name=name or job.name)


def suspend(database: Database, number: int) -> None:
    """Stop a running job, keep a waiting one from starting."""
    with database.change():
        job = database.job(number)
        _signal(job, SIGSTOP)
        database.set(job.id, held=1, suspended=int(job.pid > 0))


def resume(database: Database, number: int) -> None:
    """Take back what `suspend` did, whichever it was, also half done."""
    with database.change():
        job = database.job(number)
        _signal(job, SIGCONT)
        database.set(job.id, held=0, suspended=0)


def delete(database: Database, number: int) -> None:
    """End a running job, forget a waiting one; like Grid Engine, without accounting for that."""
    with database.change():
        job = database.job(number)
        _signal(job, SIGKILL)
        if job.pid:
            database.set(job.id, deleting=1)
        else:
            database.remove(job.id)


def _signal(job: Job, number: int) -> None:
    if job.pid:
        signal_group(job.pid, job.birth, number)
