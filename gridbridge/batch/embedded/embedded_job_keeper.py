"""The keeper process of an embedded cluster: starts and supervises waiting jobs, one at a time.

There is no scheduler. A command after which a job could start, and a keeper that has started a job, starts another
keeper. A keeper ends when no job can start.
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

from gridbridge.batch.embedded import embedded_job_control, embedded_job_processes, embedded_job_start
from gridbridge.batch.embedded.embedded_cluster_rows import EmbeddedJob, EmbeddedJobEnd
from gridbridge.batch.embedded.embedded_job_control import EmbeddedJobWalltimeAndPreemptionEnforcer
from gridbridge.batch.embedded.embedded_job_start import (
    SCRIPT,
    TMPDIR,
    EmbeddedJobFirstProcess,
    EmbeddedJobStartFailure,
    embedded_job_private_folder,
)
from gridbridge.batch.embedded.embedded_job_store import EmbeddedJobStore

AGAIN, IN_ERROR = 99, 100  # a starter's exit statuses for a rerun and for the error state (sge_shepherd(8))
LOAD_REPORT_S = 40  # period of load sensor calls: load_report_time, sge_conf(5)
RETRY_S = 1.0  # pause before the next try to write a job's end
SPARED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)  # signals that a keeper ignores


def run_embedded_jobs_in_turn(database: EmbeddedJobStore) -> None:
    for number in SPARED:
        signal.signal(number, signal.SIG_IGN)
    while True:
        opened = embedded_job_start.find_open_embedded_transfer_queues(database)
        if not database.next_startable_job(opened):
            return
        if started := _start_next_job(database, opened):
            start_embedded_keeper_if_needed(database)
            _supervise_job_until_end(database, *started)


def start_embedded_keeper_if_needed(database: EmbeddedJobStore) -> None:
    """Start a keeper if a job could start; preempt tasks if a job needs slots; ignore failures."""
    with suppress(OSError, sqlite3.OperationalError):
        if database.next_startable_job() or embedded_job_start.find_open_embedded_transfer_queues(database):
            embedded_job_processes.start_embedded_daemon(database.folder, "keep")
        embedded_job_control.preempt_embedded_tasks(database)


def remove_embedded_job_folder(folder: str, job: int) -> None:
    shutil.rmtree(embedded_job_private_folder(folder, job), ignore_errors=True)


def _start_next_job(
    database: EmbeddedJobStore, opened: Container[str]
) -> tuple[EmbeddedJob, EmbeddedJobFirstProcess] | None:
    """Start the next waiting job, selected in one transaction; return None if no job can start."""
    child = None
    try:
        with database.write_transaction():
            job = database.next_startable_job(opened)
            child = _prepare_first_process_of_job(database, job) if job else None
    except BaseException:
        if child:
            child.end_process_without_job()
        raise
    if not (job and child):
        return None
    if trouble := child.run_job():
        with database.write_transaction():
            os.waitpid(child.pid, 0)
            database.update_job(job.id, error=trouble, pid=0, birth="", started_at=None, at="")
        database.keepers.unlock_job(job.id)
        remove_embedded_job_folder(database.folder, job.id)
        return None
    return job, child


def _prepare_first_process_of_job(database: EmbeddedJobStore, job: EmbeddedJob) -> EmbeddedJobFirstProcess | None:
    database.keepers.lock_job(job.id)
    try:
        _make_private_job_folder(database, job)
        argv, environment = embedded_job_start.embedded_job_command_line(database, job)
        child = EmbeddedJobFirstProcess(job, embedded_job_private_folder(database.folder, job.id), argv, environment)
    except EmbeddedJobStartFailure as error:
        database.update_job(job.id, error=str(error))
        database.keepers.unlock_job(job.id)
        remove_embedded_job_folder(database.folder, job.id)
        return None
    database.update_job(job.id, pid=child.pid, birth=child.birth, started_at=time.time(), at=job.at, reason="")
    return child


def _make_private_job_folder(database: EmbeddedJobStore, job: EmbeddedJob) -> None:
    private = embedded_job_private_folder(database.folder, job.id)
    shutil.rmtree(private, ignore_errors=True)  # a killed keeper may have left this folder
    os.makedirs(f"{private}/{TMPDIR}")
    with open(f"{private}/{SCRIPT}", "wb") as file:
        file.write(database.job_script(job))
    if job.at:
        embedded_job_start.write_embedded_execd_files(job, private)


def _supervise_job_until_end(database: EmbeddedJobStore, job: EmbeddedJob, child: EmbeddedJobFirstProcess) -> None:
    """Write a job's accounting record at its end; wait while the disk is full, unless the folder is gone.

    The process is reaped in the transaction, so that no other process gets the pid while the job counts as running.
    """
    limits = EmbeddedJobWalltimeAndPreemptionEnforcer(database, job, child.pid)
    _await_job_end(database, job, child, limits)
    embedded_job_start.run_embedded_queue_method(database, job, "epilog")
    end = None
    while True:
        try:
            with database.write_transaction():
                end = end or _kill_job_group_and_reap_first_process(child)
                now = database.live_job(job.id)
                is_over = _account_or_requeue_job(database, now, limits.add_kill_reason_to_job_end(now, end))
            break
        except sqlite3.OperationalError as error:
            if not database.has_database_file():
                return
            sys.stderr.write(f"job {job.id}: the end is not recorded yet: {error}\n")
            time.sleep(RETRY_S)
    if is_over:
        database.keepers.unlock_job(job.id)
        remove_embedded_job_folder(database.folder, job.id)


def _await_job_end(
    database: EmbeddedJobStore,
    job: EmbeddedJob,
    child: EmbeddedJobFirstProcess,
    limits: EmbeddedJobWalltimeAndPreemptionEnforcer,
) -> None:
    """Wait until a job's first process has ended, without reaping the process.

    Meanwhile the load sensor of a transfer queue runs. The sensor starts a missing poller, because the poller reports
    the remote job's end.
    """
    wait_s = LOAD_REPORT_S if job.at else limits.seconds_until_kill_check
    end = os.pidfd_open(child.pid)
    poll = select.poll()
    poll.register(end, select.POLLIN)
    while not poll.poll(None if wait_s is None else math.ceil(wait_s * 1000)):
        if job.at:
            embedded_job_start.call_embedded_load_sensor(database, job)
        else:
            limits.kill_job_if_due()
            wait_s = limits.seconds_until_kill_check
    os.close(end)


def _account_or_requeue_job(database: EmbeddedJobStore, job: EmbeddedJob, end: EmbeddedJobEnd) -> bool:
    """Write an ended job's accounting record, or requeue a job whose starter ended with 99 or 100.

    Returns False for a requeued job, whose folder and lock may already belong to another keeper.
    """
    private = embedded_job_private_folder(database.folder, job.id)
    if not job.at or job.deleting or end.exit_status not in (AGAIN, IN_ERROR):
        database.record_job_end(job, end)
        return True
    database.requeue_job(
        job, embedded_job_start.read_embedded_starter_error(private) if end.exit_status == IN_ERROR else ""
    )
    # removed before the unlock, because another keeper may run the job after the unlock
    remove_embedded_job_folder(database.folder, job.id)
    database.keepers.unlock_job(job.id)
    return False


def _kill_job_group_and_reap_first_process(child: EmbeddedJobFirstProcess) -> EmbeddedJobEnd:
    os.killpg(child.pid, signal.SIGKILL)
    _, status, usage = os.wait4(child.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return EmbeddedJobEnd(
        exit_status=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        user_s=usage.ru_utime,
        system_s=usage.ru_stime,
        max_rss_kb=usage.ru_maxrss,
        written_kb=usage.ru_oublock // 2,  # blocks of 512 bytes
    )
