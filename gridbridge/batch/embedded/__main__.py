"""The program of an embedded cluster: python3 -I -m gridbridge.batch.embedded FOLDER VERB ...

Exit status (sysexits.h): 0 done, 65 refused for ever, 66 no such job, 75 not done: retry; others: unclear.
"""

import argparse
import os
import pwd
import signal
import socket
import sqlite3
import sys
from typing import Any

from gridbridge.batch.embedded import embedded_job_control, embedded_job_keeper
from gridbridge.batch.embedded.embedded_cluster_rows import (
    EmbeddedJob,
    EmbeddedJobEnd,
    EmbeddedJobRequest,
    EmbeddedTransferQueue,
)
from gridbridge.batch.embedded.embedded_job_store import EmbeddedJobStore, EmbeddedRequestRefusal, NoSuchEmbeddedJob
from gridbridge.batch.embedded.embedded_program_calls import (
    PrintedEmbeddedCluster,
    PrintedEmbeddedJob,
    PrintedEmbeddedJobEnd,
    encode_embedded_answer,
)
from gridbridge.errors import ParseError, StateError
from gridbridge.model.fixed_paths import METHODS

KEEPERLESS = "the keeper process died: the exit status of the job will be unknown"


def main() -> int:
    """Carry out one verb on an embedded cluster, then start a keeper process if a job can start."""
    arguments = _build_argument_parser().parse_args()
    try:
        database = EmbeddedJobStore(arguments.folder, create=arguments.verb == "create")
        for job in database.end_or_requeue_lost_jobs():
            embedded_job_keeper.remove_embedded_job_folder(database.folder, job)
        answer = _carry_out_verb(database, arguments)
    except NoSuchEmbeddedJob as error:
        return _print_error(error, os.EX_NOINPUT)
    except (EmbeddedRequestRefusal, ParseError) as error:
        return _print_error(error, os.EX_DATAERR)
    except (StateError, sqlite3.OperationalError) as error:
        return _print_error(error, os.EX_TEMPFAIL)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    sys.stdout.buffer.write(answer)
    sys.stdout.flush()
    embedded_job_keeper.start_embedded_keeper_if_needed(database)
    return os.EX_OK


def _print_error(error: Exception, status: int) -> int:
    sys.stderr.write(f"{error}\n")
    return status


def _carry_out_verb(database: EmbeddedJobStore, arguments: argparse.Namespace) -> bytes:
    if arguments.verb == "create":
        database.local_slots = arguments.slots
    elif arguments.verb == "queue":
        names = ("name", "slots", "methods", "remote", "pending_limit")
        database.save_transfer_queue(EmbeddedTransferQueue(**{name: getattr(arguments, name) for name in names}))
    elif arguments.verb == "submit":
        return b"%d\n" % _submit_embedded_job_from_arguments(database, arguments)
    elif arguments.verb == "list":
        return _encode_cluster_and_jobs(database, arguments.job, arguments.name)
    elif arguments.verb == "ended":
        return (
            _encode_array_task_ends(database, arguments.job)
            if arguments.tasks
            else _encode_job_end(database, arguments.job)
        )
    elif arguments.verb == "keep":
        embedded_job_keeper.run_embedded_jobs_in_turn(database)
    else:
        change, *options = VERBS[arguments.verb]
        change(database, arguments.job, *(getattr(arguments, option) for option in options))
    return b""


# the function of each verb, and the options that the function takes
VERBS: dict[str, tuple[Any, ...]] = {
    "hold": (embedded_job_control.hold_embedded_job,),
    "release": (embedded_job_control.release_embedded_job, "name"),
    "suspend": (embedded_job_control.suspend_embedded_job,),
    "resume": (embedded_job_control.resume_embedded_job,),
    "delete": (embedded_job_control.delete_embedded_job,),
    "release-array": (embedded_job_control.release_embedded_array, "name"),
    "delete-array": (embedded_job_control.delete_embedded_array, "places"),
    "clear": (embedded_job_control.clear_embedded_job_error,),
    "pin": (embedded_job_control.pin_embedded_job_to_queue, "queue"),
    "stay": (embedded_job_control.keep_embedded_job_home, "reason"),
}
HELP = {"places": "the tasks' array indices; empty: all tasks"}


def _submit_embedded_job_from_arguments(database: EmbeddedJobStore, arguments: argparse.Namespace) -> int:
    same = ("name", "account", "shell", "output", "slots", "held", "queue", "tasks", "yields")
    request = EmbeddedJobRequest(
        **{name: getattr(arguments, name) for name in same},
        cwd=arguments.cwd or SUBMIT["cwd"],  # campaigns give no directory, because task.sh changes the directory
        script=sys.stdin.buffer.read(),
        walltime_s=arguments.walltime,
    )
    return database.add_job(request, pwd.getpwuid(os.getuid()).pw_name)


def _encode_cluster_and_jobs(database: EmbeddedJobStore, number: int, name: str) -> bytes:
    with database.read_transaction():
        cluster = PrintedEmbeddedCluster(
            host=socket.gethostname(),
            slots=str(database.local_slots),
            used=str(database.used_slots()),
            waiting=str(database.waiting_job_count),
            yielding=str(database.preemptible_slots),
            queues=" ".join(
                f"{queue.name}={database.used_slots(queue.name)}/{queue.slots}" for queue in database.transfer_queues()
            ),
        )
        jobs = (number and database.live_array_tasks(number)) or database.live_jobs(number, name)
        return encode_embedded_answer(cluster, *(_embedded_job_in_printed_form(database, job) for job in jobs))


def _embedded_job_in_printed_form(database: EmbeddedJobStore, job: EmbeddedJob) -> PrintedEmbeddedJob:
    is_kept = not job.pid or database.keepers.is_job_locked(job.id)
    return PrintedEmbeddedJob(
        id=str(job.id),
        name=job.name,
        account=job.account,
        owner=job.owner,
        facts=" ".join(job.facts),
        state=job.state_letters,
        slots=str(job.slots),
        since=f"{job.started_at or job.submitted_at:.3f}",
        error=job.error,
        message=job.reason if is_kept else KEEPERLESS,
        queue=job.at,
        wanted=job.wanted,
        array=str(job.array or ""),
        place=str(job.place or ""),
    )


def _encode_job_end(database: EmbeddedJobStore, number: int) -> bytes:
    ended_job = database.job_end(number)
    return encode_embedded_answer(*([_job_end_in_printed_form(*ended_job)] if ended_job else []))


def _encode_array_task_ends(database: EmbeddedJobStore, array: int) -> bytes:
    lines = (
        _job_end_in_printed_form(task.account, task.end, place=str(task.place), wallclock_s=f"{task.wallclock_s:.3f}")
        for task in database.array_task_ends(array)
    )
    return encode_embedded_answer(*lines)


def _job_end_in_printed_form(account: str, end: EmbeddedJobEnd, **of_a_task: str) -> PrintedEmbeddedJobEnd:
    return PrintedEmbeddedJobEnd(
        account=account,
        exit_status="" if end.exit_status is None else str(end.exit_status),
        signal="" if end.signal is None else str(end.signal),
        reason=end.reason,
        host=socket.gethostname(),
        user_s=f"{end.user_s:.6f}",
        system_s=f"{end.system_s:.6f}",
        max_rss_kb=str(end.max_rss_kb),
        written_kb=str(end.written_kb),
        killed_for=end.killed_for,
        **of_a_task,
    )


def _build_argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="embedded", allow_abbrev=False)
    parser.add_argument("folder")
    verb = parser.add_subparsers(dest="verb", required=True)
    create = verb.add_parser("create", help="make a cluster, or change the number of slots")
    create.add_argument("--slots", type=int, required=True)
    submit = verb.add_parser("submit", help="submit the script on standard input")
    for option, default in SUBMIT.items():
        submit.add_argument(f"--{option}", default=default)
    submit.add_argument("--slots", type=int, default=1)
    submit.add_argument("--held", action="store_true")
    submit.add_argument("--tasks", type=int, default=0, help="number of array tasks; 0: a single job")
    submit.add_argument("--walltime", type=int, default=0, help="walltime of each task, in seconds")
    submit.add_argument("--yields", action="store_true", help="make the job preemptible")
    show = verb.add_parser("list", help="show the cluster's state and jobs; --job and --name select jobs")
    show.add_argument("--job", type=int, default=0)
    show.add_argument("--name", default="")
    verb.add_parser("keep", help="start and supervise jobs until no job can start")
    ended = verb.add_parser("ended")
    ended.add_argument("job", type=int)
    ended.add_argument("--tasks", action="store_true", help="show how each task of an array ended")
    for name, (_, *options) in VERBS.items():
        change = verb.add_parser(name)
        change.add_argument("job", type=int)
        for option in options:
            change.add_argument(f"--{option}", default="", help=HELP.get(option))
    queue = verb.add_parser("queue", help="make or change a transfer queue")
    queue.add_argument("name")
    queue.add_argument("--slots", type=int, required=True)
    queue.add_argument("--remote", required=True, help="cluster to which the queue sends jobs")
    queue.add_argument("--pending-limit", type=int, default=0)
    queue.add_argument("--methods", default=METHODS)
    return parser


SUBMIT = {"name": "job", "account": "", "shell": "/bin/sh", "cwd": "/", "output": "/dev/null", "queue": ""}

if __name__ == "__main__":
    sys.exit(main())
