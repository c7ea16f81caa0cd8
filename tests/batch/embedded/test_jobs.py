"""Tests of an embedded cluster's jobs and of its program's command lines: order, processes, files and answers."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.batch.batch_submission_outcome import JobSubmissionOutcome
from gridbridge.batch.embedded import embedded_job_processes, job_submission_and_control, status
from gridbridge.batch.embedded import embedded_program_calls as calls
from gridbridge.batch.embedded.embedded_job_store import VERSION, EmbeddedJobStore
from gridbridge.errors import CommandFailed, ParseError, StateError
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.transfer_route import EmbeddedClusterAccessSettings
from tests.batch.embedded.site import PROGRAM, Site
from tests.contract.waiting import stays, until

WAITING = "until [ -e go ]; do sleep 0.05; done\n"
SPEC = JobSpec(transfer="gb.a.1.0.1", request=JobRequest(), cwd="/", script=b"exit 0\n")
MANY = 5000
OF_LIBC = 0b11 << 31  # signals 32 and 33, which glibc's posix_spawn ignores


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, slots=2)
    yield site
    site.empty()


def reach(site: Site, python: str = sys.executable) -> EmbeddedClusterAccessSettings:
    return EmbeddedClusterAccessSettings(folder=site.folder, python=python, timeout_s=20)


def test_jobs_start_in_order_and_no_small_job_overtakes_a_large_job(site: Site) -> None:
    first = site.add(WAITING)
    wide = site.add(f"echo $JOB_ID >>{site.ran}\n", slots=2)
    narrow = site.add(f"echo $JOB_ID >>{site.ran}\n")
    site.look()
    site.until_running(first)
    waited = stays(lambda: site.database.used_slots(), for_s=0.5)
    (site.path / "go").touch()
    site.end(wide)
    site.end(narrow)

    assert (waited, site.ran.read_text().split()) == (True, [str(wide), str(narrow)])


def test_a_keeper_starts_the_next_waiting_job_itself(site: Site) -> None:
    jobs = [site.add_noting() for _ in range(8)]
    site.look()
    until(lambda: not site.database.live_jobs(), "all jobs to have ended")

    assert sorted(site.ran.read_text().split()) == sorted(map(str, jobs))


def test_additional_slots_start_additional_jobs(site: Site) -> None:
    jobs = [site.add(WAITING) for _ in range(4)]
    site.look()
    until(lambda: site.database.used_slots() == 2, "two jobs to run")
    site.run("create", "--slots=4")

    for job in jobs:
        site.until_running(job)


@pytest.mark.parametrize("slots", [3, 0, -1])
def test_a_job_with_an_impossible_number_of_slots_is_refused(site: Site, slots: int) -> None:
    answer = job_submission_and_control.submit_held_job(reach(site), SPEC.with_changes(pe="smp", slots=slots))

    assert (answer.result, site.database.live_jobs()) == (JobSubmissionOutcome.REFUSED, [])


def test_a_job_inherits_no_environment_from_the_caller(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_CALLER", "1")
    job = site.add("env >&2; umask; ls -A $TMPDIR; readlink /proc/self/fd/0\n", name="a b")
    site.end(job)

    *lines, umask, stdin = (site.path / "output").read_text().splitlines()
    seen = dict(line.split("=", 1) for line in lines)
    assert (umask, stdin, "OF_THE_CALLER" in seen) == ("0022", "/dev/null", False)
    assert (seen["JOB_ID"], seen["JOB_NAME"], seen["NSLOTS"]) == (str(job), "a b", "1")
    assert seen["TMPDIR"].startswith(site.folder)


def test_a_job_is_a_session_leader_without_ignored_signals(site: Site) -> None:
    """A caller such as nohup ignores signals."""
    job = site.add("grep SigIgn /proc/self/status; ps -o sid= -p $$; echo $$\n")
    argv = ("nohup", *PROGRAM, site.folder, "list")
    subprocess.run(argv, capture_output=True, check=True)
    site.end(job)

    ignored, session, first = (site.path / "output").read_text().split()[1:]
    assert (int(ignored, 16) & ~OF_LIBC, session) == (0, first)


def test_background_processes_of_a_job_end_with_the_job(site: Site) -> None:
    job = site.add("sleep 1000 & echo $! >left\n")
    site.end(job)
    left = int((site.path / "left").read_text())

    until(lambda: not embedded_job_processes.unique_process_id(left), "the process to be gone")


def test_job_output_is_appended_to_an_existing_file(site: Site) -> None:
    for text in ("one", "two"):
        site.end(site.add(f"echo {text}\n"))

    assert (site.path / "output").read_text() == "one\ntwo\n"


def test_an_ended_job_leaves_no_private_folder(site: Site) -> None:
    site.end(site.add("mkdir $TMPDIR/a; echo x >$TMPDIR/a/b\n"))

    until(lambda: not os.listdir(f"{site.folder}/active"), "the job's folder to be gone")


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ({"shell": b"/no/shell"}, "No such file or directory: /no/shell"),
        ({"shell": b"/etc/passwd"}, "Permission denied: /etc/passwd"),
        ({"cwd": b"/no/folder"}, "No such file or directory: /no/folder"),
        ({"output": b"/no/folder/output"}, "No such file or directory: /no/folder/output"),
    ],
    ids=["no-shell", "no-program", "no-folder", "no-output"],
)
def test_a_job_that_cannot_start_enters_error_state_and_frees_its_slot(
    site: Site, broken: dict[str, bytes], error: str
) -> None:
    job = site.add("exit 0\n", slots=2)
    with site.database.write_transaction():
        site.database.update_job(job, **broken)
    after = site.add_noting()
    site.look()
    site.end(after)

    found = site.database.live_job(job)
    assert (found.state_letters, found.error, found.pid) == ("Eqw", error, 0)
    assert status.query_job_details(reach(site), job)[0].errors == (error,)


def test_a_job_with_a_fifo_as_output_does_not_block_other_jobs(site: Site) -> None:
    """Opening a FIFO without a reader blocks for ever, and the database would stay locked."""
    os.mkfifo(site.path / "fifo")
    job = site.add("exit 0\n")
    with site.database.write_transaction():
        site.database.update_job(job, output=str(site.path / "fifo"))
    site.end(site.add_noting())

    assert site.database.live_job(job).error.startswith("No such device or address")


def test_thousands_of_waiting_jobs_are_listed_quickly(site: Site) -> None:
    job = site.add("exit 0\n", held=True, name="gb.alpha.1.0.1")
    clone = """
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
        INSERT INTO job (name, account, owner, shell, cwd, output, slots, submitted_at, held)
        SELECT name, account, owner, shell, cwd, output, slots, submitted_at, held FROM job, n"""
    with sqlite3.connect(f"{site.folder}/jobs.db") as file:
        file.execute(clone, (MANY,))
    began = time.monotonic()
    seen, _ = status.query_cluster_snapshot(reach(site), "c", frozenset({job}))
    listed_s = time.monotonic() - began
    job_submission_and_control.query_job_state(reach(site), str(job))
    asked_s = time.monotonic() - began - listed_s
    with sqlite3.connect(f"{site.folder}/jobs.db") as file:
        file.execute("DELETE FROM job")

    assert (len(seen.jobs), listed_s < 5, asked_s < 2) == (MANY + 1, True, True)


def test_a_signal_is_not_sent_to_a_process_with_a_reused_pid(site: Site) -> None:
    with subprocess.Popen(["sleep", "100"], start_new_session=True) as other:
        embedded_job_processes.signal_job_process_group(
            other.pid, f"{embedded_job_processes.boot_and_pid_namespace_id()} 12345", 9
        )
        with pytest.raises(StateError, match="another host"):
            embedded_job_processes.signal_job_process_group(other.pid, "a-boot pid:[1] 12345", 9)
        with pytest.raises(subprocess.TimeoutExpired):  # a signal would arrive with a delay
            other.wait(0.5)
        embedded_job_processes.signal_job_process_group(
            other.pid, embedded_job_processes.unique_process_id(other.pid), 9
        )

    assert other.returncode == -9


def test_a_submission_on_a_full_disk_fails_and_keeps_existing_jobs(site: Site) -> None:
    kept = site.add("exit 0\n", held=True)
    argv = ("prlimit", "--fsize=0", *PROGRAM, site.folder, "submit")
    done = subprocess.run(argv, input=b"exit 0\n", capture_output=True, check=False)

    assert (done.returncode, [job.id for job in site.database.live_jobs()]) == (os.EX_TEMPFAIL, [kept])


def test_a_database_of_a_newer_version_is_refused(site: Site) -> None:
    with sqlite3.connect(f"{site.folder}/jobs.db") as file:
        file.execute(f"PRAGMA user_version = {VERSION + 1}")

    try:
        with pytest.raises(StateError, match="newer"):
            EmbeddedJobStore(site.folder)
        with pytest.raises(CommandFailed, match="newer"):
            job_submission_and_control.query_job_state(reach(site), "1")
    finally:
        with sqlite3.connect(f"{site.folder}/jobs.db") as file:
            file.execute(f"PRAGMA user_version = {VERSION}")


@pytest.mark.root
def test_a_cluster_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    """The jobs of the other user would run under the caller's account."""
    site = Site(tmp_path, slots=1)
    os.chown(site.folder, 12345, -1)
    done = site.run("submit", stdin="exit 0\n")

    assert (done.returncode, "only the folder's owner may run jobs" in done.stderr) == (os.EX_TEMPFAIL, True)


def test_a_submission_without_cluster_may_be_retried_later(tmp_path: Path) -> None:
    """The cluster's disk may not be mounted yet."""
    nowhere = EmbeddedClusterAccessSettings(folder=str(tmp_path / "nowhere"), python=sys.executable, timeout_s=20)
    answer = job_submission_and_control.submit_held_job(nowhere, SPEC)

    assert (answer.result, list(tmp_path.iterdir())) == (JobSubmissionOutcome.LATER, [])


TEXT = st.binary(max_size=30).filter(lambda data: 0 not in data).map(os.fsdecode)
CLUSTER = calls.PrintedEmbeddedCluster(host="h", slots="2", used="1", waiting="0")
FOLDER = EmbeddedClusterAccessSettings(folder="/c", python="/usr/bin/python3", timeout_s=5)


@given(names=st.lists(TEXT, max_size=4), error=TEXT)
def test_an_answer_is_decoded_as_it_was_encoded(names: list[str], error: str) -> None:
    jobs = [calls.PrintedEmbeddedJob(id=str(n), name=name, error=error) for n, name in enumerate(names, 1)]

    cluster, read = calls.parse_embedded_cluster_and_jobs(calls.encode_embedded_answer(CLUSTER, *jobs))

    assert (vars(cluster), [vars(job) for job in read]) == (vars(CLUSTER), list(map(vars, jobs)))


def test_a_truncated_answer_is_a_parse_error() -> None:
    jobs = (calls.PrintedEmbeddedJob(id="1", name="a"), calls.PrintedEmbeddedJob(id="2", name=".\n."))
    whole = calls.encode_embedded_answer(CLUSTER, *jobs)

    for length in range(len(whole)):
        with pytest.raises(ParseError):
            calls.parse_embedded_cluster_and_jobs(whole[:length])


def test_an_answer_without_ends_is_valid_but_empty_output_is_not() -> None:
    end = calls.PrintedEmbeddedJobEnd(account="a", exit_status="0", host="h")

    assert calls.parse_embedded_job_ends(calls.encode_embedded_answer()) == []
    (read,) = calls.parse_embedded_job_ends(calls.encode_embedded_answer(end))
    assert vars(read) == vars(end)
    with pytest.raises(ParseError):
        calls.parse_embedded_job_ends(b"")


@pytest.mark.parametrize(
    ("request_", "lacks"),
    [
        (JobRequest(), ""),
        (JobRequest(hard=(("remote", ""),)), ""),
        (JobRequest(hard=(("gb_beta_up", ""),)), ""),
        (JobRequest(hard=(("h_rt", ""),)), "h_rt"),
        (JobRequest(notify=True), "-notify"),
        (JobRequest(checkpoint="c"), "checkpointing"),
    ],
    ids=["nothing", "a place at home", "a load value", "a limit", "notify", "checkpointing"],
)
def test_an_unsupported_request_is_refused_by_name(request_: JobRequest, lacks: str) -> None:
    reason = calls.explain_request_refusal(request_)

    assert reason == (f"an embedded cluster has no {lacks}" if lacks else "")


def test_each_part_of_a_job_is_one_option_even_if_it_begins_with_a_dash() -> None:
    spec = JobSpec(transfer="-gb", request=JobRequest(), shell="--held", pe="smp", slots=4)
    argv = calls.submit_held_job_argv(FOLDER, spec)

    assert {"--name=-gb", "--shell=--held", "--cwd=", "--slots=4"} <= set(argv)
