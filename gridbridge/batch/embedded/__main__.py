"""python3 -I -m gridbridge.batch.embedded FOLDER VERB ...: the embedded cluster's one program.

Exit status (sysexits.h): 0 done, 65 refused for good, 66 no such job, 75 nothing was done and
the same may be done later. Any other one, or none, says nothing of what was done.
"""

import argparse
import os
import pwd
import socket
import sqlite3
import sys
from collections.abc import Callable

from gridbridge.batch.embedded import job_verbs, keeper
from gridbridge.batch.embedded.embedded_job import (
    EmbeddedJob,
    EmbeddedJobEnd,
    EmbeddedQueue,
    NewJob,
)
from gridbridge.batch.embedded.embedded_output import ClusterLine, EndLine, JobLine, encode
from gridbridge.batch.embedded.job_store import JobStore, NoSuchEmbeddedJob, RequestRefused
from gridbridge.batch.state_letters import job_letters
from gridbridge.errors import ParseError, StateError
from gridbridge.model.places import METHODS

KEEPERLESS = "its keeper died: nobody will see how it ends"


def main() -> int:
    """Do what the arguments ask, then start what may start."""
    asked = _parser().parse_args()
    try:
        database = JobStore(asked.folder, create=asked.verb == "create")
        _look_after(database)
        answer = _perform(database, asked)
    except NoSuchEmbeddedJob as error:
        return _fail(error, os.EX_NOINPUT)
    except (RequestRefused, ParseError) as error:
        return _fail(error, os.EX_DATAERR)
    except (StateError, sqlite3.OperationalError) as error:
        return _fail(error, os.EX_TEMPFAIL)
    sys.stdout.buffer.write(answer)
    sys.stdout.flush()
    keeper.call(database)
    return os.EX_OK


def _fail(error: Exception, status: int) -> int:
    sys.stderr.write(f"{error}\n")
    return status


def _look_after(database: JobStore) -> None:
    """Account for the jobs whose keepers died; everybody who asks anything does."""
    for job in database.account_for_lost():
        keeper.clean(database.folder, job)


def _perform(database: JobStore, asked: argparse.Namespace) -> bytes:
    if asked.verb == "create":
        database.slots = asked.slots
    elif asked.verb == "queue":
        database.put_queue(_queue(asked))
    elif asked.verb == "submit":
        return b"%d\n" % _submit(database, asked)
    elif asked.verb == "list":
        return _list(database, asked.job, asked.name)
    elif asked.verb == "ended":
        return _ended_tasks(database, asked.job) if asked.tasks else _ended(database, asked.job)
    elif asked.verb == "keep":
        keeper.keep(database)
    else:
        VERBS[asked.verb](database, asked)
    return b""


VERBS: dict[str, Callable[[JobStore, argparse.Namespace], None]] = {
    "hold": lambda database, asked: job_verbs.hold(database, asked.job),
    "release": lambda database, asked: job_verbs.release(database, asked.job, asked.name),
    "suspend": lambda database, asked: job_verbs.suspend(database, asked.job),
    "resume": lambda database, asked: job_verbs.resume(database, asked.job),
    "delete": lambda database, asked: job_verbs.delete(database, asked.job),
    "release-array": lambda database, asked: job_verbs.release_array(
        database, asked.job, asked.name
    ),
    "delete-array": lambda database, asked: job_verbs.delete_array(
        database, asked.job, asked.places
    ),
    "clear": lambda database, asked: job_verbs.clear(database, asked.job),
    "pin": lambda database, asked: job_verbs.pin(database, asked.job, asked.queue),
    "stay": lambda database, asked: job_verbs.stay(database, asked.job, asked.reason),
}


def _queue(asked: argparse.Namespace) -> EmbeddedQueue:
    return EmbeddedQueue(asked.name, asked.slots, asked.methods, asked.remote, asked.pending_limit)


def _submit(database: JobStore, asked: argparse.Namespace) -> int:
    request = NewJob(
        name=asked.name,
        account=asked.account,
        shell=asked.shell,
        cwd=asked.cwd or SUBMIT["cwd"],  # a task goes to its directory by itself (batch/task.sh)
        output=asked.output,
        slots=asked.slots,
        held=asked.held,
        script=sys.stdin.buffer.read(),
        queue=asked.queue,
        tasks=asked.tasks,
        walltime_s=asked.walltime,
        yields=asked.yields,
    )
    return database.add(request, pwd.getpwuid(os.getuid()).pw_name)


def _list(database: JobStore, number: int, name: str) -> bytes:
    with database.one_view():
        cluster = ClusterLine(
            host=socket.gethostname(),
            slots=str(database.slots),
            used=str(database.used),
            waiting=str(database.waiting),
            yielding=str(database.yielding),
            queues=" ".join(
                f"{queue.name}={database.used_in(queue.name)}/{queue.slots}"
                for queue in database.queues()
            ),
        )
        found = (number and database.tasks(number)) or database.jobs(number, name)
        return encode(cluster, *(_line(database, job) for job in found))


def _line(database: JobStore, job: EmbeddedJob) -> JobLine:
    facts = job.facts
    is_kept = not job.pid or database.keepers.is_kept(job.id)
    return JobLine(
        id=str(job.id),
        name=job.name,
        account=job.account,
        owner=job.owner,
        facts=" ".join(facts),
        state=job_letters(facts),
        slots=str(job.slots),
        since=f"{job.started_at or job.submitted_at:.3f}",
        error=job.error,
        message=job.reason if is_kept else KEEPERLESS,
        queue=job.at,
        wanted=job.wanted,
        array=str(job.array or ""),
        place=str(job.place or ""),
    )


def _ended(database: JobStore, number: int) -> bytes:
    found = database.end_of(number)
    if found is None:
        return encode()
    account, end = found
    return encode(_end_line(account, end))


def _ended_tasks(database: JobStore, array: int) -> bytes:
    lines = (
        _end_line(one.account, one.end, place=str(one.place), wallclock_s=f"{one.wallclock_s:.3f}")
        for one in database.ends_of(array)
    )
    return encode(*lines)


def _end_line(account: str, end: EmbeddedJobEnd, **of_a_task: str) -> EndLine:
    return EndLine(
        account=account,
        exit_status="" if end.exit_status is None else str(end.exit_status),
        signal="" if end.signal is None else str(end.signal),
        reason=end.reason,
        host=socket.gethostname(),
        user_s=f"{end.user_s:.6f}",
        system_s=f"{end.system_s:.6f}",
        killed_for=end.killed_for,
        **of_a_task,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="embedded", allow_abbrev=False)
    parser.add_argument("folder")
    verb = parser.add_subparsers(dest="verb", required=True)
    create = verb.add_parser("create", help="make a cluster, or change its slots")
    create.add_argument("--slots", type=int, required=True)
    submit = verb.add_parser("submit", help="submit the script on standard input")
    for option, default in SUBMIT.items():
        submit.add_argument(f"--{option}", default=default)
    submit.add_argument("--slots", type=int, default=1)
    submit.add_argument("--held", action="store_true")
    submit.add_argument("--tasks", type=int, default=0, help="an array of so many")
    submit.add_argument("--walltime", type=int, default=0, help="of each, in seconds")
    submit.add_argument("--yields", action="store_true", help="it makes way for others")
    show = verb.add_parser("list", help="list the cluster and its jobs, one, or those of a name")
    show.add_argument("--job", type=int, default=0)
    show.add_argument("--name", default="")
    verb.add_parser("keep", help="start and keep jobs while there are any")
    for name in ("ended", *VERBS):
        verb.add_parser(name).add_argument("job", type=int)
    verb.choices["ended"].add_argument("--tasks", action="store_true", help="those of an array")
    for name in ("release", "release-array"):
        verb.choices[name].add_argument("--name", default="")
    verb.choices["delete-array"].add_argument("--places", default="", help="such as 1-5,9")
    _add_queue_verbs(verb)
    return parser


def _add_queue_verbs(verb: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    queue = verb.add_parser("queue", help="make a transfer queue, or change it")
    queue.add_argument("name")
    queue.add_argument("--slots", type=int, required=True)
    queue.add_argument("--remote", required=True, help="the cluster that it leads to")
    queue.add_argument("--pending-limit", type=int, default=0)
    queue.add_argument("--methods", default=METHODS)
    verb.choices["pin"].add_argument("--queue", default="")
    verb.choices["stay"].add_argument("--reason", default="")


SUBMIT = {
    "name": "job",
    "account": "",
    "shell": "/bin/sh",
    "cwd": "/",
    "output": "/dev/null",
    "queue": "",
}

if __name__ == "__main__":
    sys.exit(main())
