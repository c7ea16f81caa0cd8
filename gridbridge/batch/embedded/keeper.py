"""Keepers: each starts a job that may start, sees it to its end, and then looks for another.

There is no scheduler. Whoever changes something starts a keeper if a job could start, and so
does each keeper that has started a job. To start a job is one transaction: it is the first that
waits, its slots are free, and its keeper has its lock, its process is ready but not let go.
A keeper that finds nothing to start ends.
"""

import math
import os
import select
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Container
from contextlib import suppress

from gridbridge.batch.embedded import process_identity, queue_methods
from gridbridge.batch.embedded import task_limits as limits
from gridbridge.batch.embedded.embedded_job import EmbeddedJob, EmbeddedJobEnd
from gridbridge.batch.embedded.first_process import SCRIPT, TMPDIR, FirstProcess, JobNotStarted
from gridbridge.batch.embedded.job_store import JobStore
from gridbridge.batch.embedded.queue_methods import private_folder
from gridbridge.batch.embedded.task_limits import TaskLimits

AGAIN, IN_ERROR = 99, 100  # exit statuses of a starter (sge_shepherd(8))
LOAD_REPORT_S = 40  # load_report_time, sge_conf(5)
RETRY_S = 1.0  # between two tries to write an end to a full disk
SPARED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)  # signals that end a job and not its keeper


def keep(database: JobStore) -> None:
    """Keep one job after the other while there are any."""
    for number in SPARED:
        signal.signal(number, signal.SIG_IGN)
    while True:
        opened = queue_methods.opened(database)
        if not database.next_to_start(opened):
            return
        if started := _start(database, opened):
            call(database)
            _see_through(database, *started)


def call(database: JobStore) -> None:
    """Start a keeper if there is work for one, and make way; if that fails the next one does it."""
    with suppress(OSError, sqlite3.OperationalError):
        if database.next_to_start() or queue_methods.opened(database):
            process_identity.detach(database.folder, "keep")
        limits.make_way(database)


def clean(folder: str, job: int) -> None:
    """Remove a job's private folder."""
    shutil.rmtree(private_folder(folder, job), ignore_errors=True)


def _start(database: JobStore, opened: Container[str]) -> tuple[EmbeddedJob, FirstProcess] | None:
    """Take the next job and start it; None when there is none or it can't be started."""
    child = None
    try:
        with database.change():
            job = database.next_to_start(opened)
            child = _make_ready(database, job) if job else None
    except BaseException:
        if child:
            child.abandon()
        raise
    if not (job and child):
        return None
    if trouble := child.let_go():
        _put_into_error(database, job, child, trouble)
        return None
    return job, child


def _put_into_error(
    database: JobStore, job: EmbeddedJob, child: FirstProcess, trouble: str
) -> None:
    """Take back that a job runs: its shell could not be executed."""
    with database.change():
        os.waitpid(child.pid, 0)
        database.set(job.id, error=trouble, pid=0, birth="", started_at=None, at="")
    database.keepers.let_go(job.id)
    clean(database.folder, job.id)


def _make_ready(database: JobStore, job: EmbeddedJob) -> FirstProcess | None:
    """Note a job as running with its process at the line; one that can't get there is in error."""
    database.keepers.take(job.id)
    try:
        _furnish(database, job)
        argv, environment = queue_methods.start(database, job)
        child = FirstProcess(job, private_folder(database.folder, job.id), argv, environment)
    except JobNotStarted as error:
        database.set(job.id, error=str(error))
        database.keepers.let_go(job.id)
        clean(database.folder, job.id)
        return None
    database.set(
        job.id, pid=child.pid, birth=child.birth, started_at=time.time(), at=job.at, reason=""
    )
    return child


def _furnish(database: JobStore, job: EmbeddedJob) -> None:
    private = private_folder(database.folder, job.id)
    shutil.rmtree(private, ignore_errors=True)  # of a keeper that was killed before its job began
    os.makedirs(f"{private}/{TMPDIR}")
    with open(f"{private}/{SCRIPT}", "wb") as file:
        file.write(database.script(job))
    if job.at:
        queue_methods.furnish(job, private)


def _see_through(database: JobStore, job: EmbeddedJob, child: FirstProcess) -> None:
    """Wait for a job's end and account for it.

    Its process is reaped within the transaction: as long as the job is noted as running nobody
    else can get its number, so that a signal to it always meets the job. A disk that takes no end
    is waited for; a cluster that somebody removed is not.
    """
    limits = TaskLimits(database, job, child.pid)
    _await_end(database, job, child, limits)
    queue_methods.run(database, job, "epilog")
    end = None
    while True:
        try:
            with database.change():
                end = end or _reap(child)
                now = database.job(job.id)
                is_over = _end(database, now, limits.judge(now, end))
            break
        except sqlite3.OperationalError as error:
            if not database.is_there():
                return
            sys.stderr.write(f"job {job.id}: its end waits: {error}\n")
            time.sleep(RETRY_S)
    if is_over:
        database.keepers.let_go(job.id)
        clean(database.folder, job.id)


def _await_end(
    database: JobStore, job: EmbeddedJob, child: FirstProcess, limits: TaskLimits
) -> None:
    """Wait until a job's first process has ended, and leave it to be reaped.

    Of a transfer queue's job the load sensor is asked now and then, as an execd asks it: it sees
    to it that a service is there to bring the job's end.
    """
    wait_s = LOAD_REPORT_S if job.at else limits.wait_s
    end = os.pidfd_open(child.pid)
    poll = select.poll()
    poll.register(end, select.POLLIN)
    while not poll.poll(None if wait_s is None else math.ceil(wait_s * 1000)):
        if job.at:
            queue_methods.report_load(database, job)
        else:
            limits.look()
            wait_s = limits.wait_s
    os.close(end)


def _end(database: JobStore, job: EmbeddedJob, end: EmbeddedJobEnd) -> bool:
    """Account for a job; a starter's 99 has it run again, its 100 stands for an error.

    False when it was put back: its folder and its lock may be the next keeper's already.
    """
    private = private_folder(database.folder, job.id)
    if not job.at or job.deleting or end.exit_status not in (AGAIN, IN_ERROR):
        database.account_for(job, end)
        return True
    database.put_back(job, queue_methods.blame(private) if end.exit_status == IN_ERROR else "")
    clean(database.folder, job.id)  # before anybody can start it again
    database.keepers.let_go(job.id)
    return False


def _reap(child: FirstProcess) -> EmbeddedJobEnd:
    """Kill what is left of the job's process group, and return how its first process ended."""
    os.killpg(child.pid, signal.SIGKILL)
    _, status, usage = os.wait4(child.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return EmbeddedJobEnd(
        exit_status=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        user_s=usage.ru_utime,
        system_s=usage.ru_stime,
        max_rss_kb=usage.ru_maxrss,
    )
