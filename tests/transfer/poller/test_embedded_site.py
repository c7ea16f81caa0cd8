"""Transfers between two embedded clusters without root: docs/how-to/embedded.md."""

from collections.abc import Iterator

import pytest

from tests.apart import Site

pytestmark = pytest.mark.apart

UNTIL = "while [ ! -e /mnt/go ]; do sleep 0.1; done"


@pytest.fixture
def site(apart: tuple[str, ...]) -> Iterator[Site]:
    """Return a site without home slots, so that all jobs are transferred."""
    made = Site(apart)
    yield made
    made.close()


def test_a_transferred_job_ends_with_the_same_exit_status_in_both_accountings(site: Site) -> None:
    """The job sees its local identity."""
    job = site.submit('echo "$JOB_ID $JOB_NAME $GRIDBRIDGE_REMOTE_JOB_ID $PWD"; exit 7')
    home = site.until_ended(job)
    away = site.end("beta", "1")

    assert (home.exit_status, away.exit_status) == ("7", "7")
    assert away.account == f"gb.alpha.{job}.0.1"
    assert site.sh("cat out") == f"{job} task 1 /mnt\n"


@pytest.mark.twin
@pytest.mark.parametrize(
    ("script", "slots", "output"),
    [("echo $NSLOTS", 2, "2\n"), ("echo run; [ -e /mnt/once ] || { touch /mnt/once; exit 99; }", 1, "run\nrun\n")],
    ids=["two slots", "exit status 99"],
)
def test_a_job_gets_its_slots_and_runs_again_after_exit_status_99(
    site: Site, script: str, slots: int, output: str
) -> None:
    job = site.submit(script, f"--slots={slots}")

    assert site.until_ended(job).exit_status == "0"
    assert site.sh("cat out") == output


@pytest.mark.twin
def test_a_job_killed_by_a_signal_ends_with_the_same_signal_at_home(site: Site) -> None:
    job = site.submit("kill -USR1 $$")

    assert site.until_ended(job).signal == "10"


@pytest.mark.twin
def test_suspend_and_resume_at_home_reach_the_remote_job(site: Site) -> None:
    job = site.submit(f"{UNTIL}; exit 5")
    site.until_away()
    site.embedded("alpha", f"suspend {job}")
    site.until(lambda: site.letters("beta") == "hs", "the suspension at beta")
    site.embedded("alpha", f"resume {job}")
    site.until(lambda: site.letters("beta") == "r", "the resumption at beta")
    site.sh("touch go")

    assert site.until_ended(job).exit_status == "5"


@pytest.mark.twin
def test_a_job_deleted_at_home_is_deleted_at_the_remote_cluster(site: Site) -> None:
    job = site.submit(UNTIL)
    site.until_away()
    site.embedded("alpha", f"delete {job}")

    assert site.until_ended(job).signal == "9"
    site.until(lambda: not site.job("beta"), "the remote job to be gone")


@pytest.mark.twin
def test_a_job_that_exits_with_100_is_in_error_state_until_it_is_cleared(site: Site) -> None:
    job = site.submit("[ -e /mnt/go ] || exit 100")
    site.until(lambda: "E" in site.letters("alpha", job), "the error state")
    site.sh("touch go")
    site.embedded("alpha", f"clear {job}")

    assert site.until_ended(job).exit_status == "0"


def test_a_job_that_the_remote_cluster_refuses_runs_at_home(apart: tuple[str, ...]) -> None:
    """The reason is shown while the job waits at home."""
    site = Site(apart, home_slots=2, away_slots=1)
    try:
        blocker = site.submit(UNTIL, "--slots=2", "--queue=embedded")
        job = site.submit("exit 3", "--slots=2")
        waiting = site.until(lambda: _stays(site, job), "the job to come home")
        site.sh("touch go")
        site.until_ended(blocker)
        home = site.until_ended(job)
    finally:
        site.close()

    assert "2 slots requested, but the cluster has 1" in waiting
    assert home.exit_status == "3"


def _stays(site: Site, number: str) -> str:
    job = site.job("alpha", number)
    return job.message if job and job.wanted == "embedded" and "q" in job.state else ""


@pytest.mark.parametrize(("is_alone", "status", "signal"), [(True, "8", ""), (False, "", "9")], ids=["alone", "both"])
def test_a_job_runs_once_whose_remote_keeper_was_killed_alone_or_with_the_job(
    site: Site, is_alone: bool, status: str, signal: str
) -> None:
    """The accounting of the remote cluster has no end; the wrapper of a job that lives on reports its end."""
    job = site.submit(f"echo run >>/mnt/runs; {UNTIL}; exit 8")
    site.until_away()
    first = _pid(site, "beta", "1")
    _kill(site, f"$(ps -o ppid= -p {first})" + ("" if is_alone else f" -{first}"))
    site.sh("touch go")
    end = site.until_ended(job)

    assert (end.exit_status, end.signal, site.sh("cat runs")) == (status, signal, "run\n")


def test_a_new_starter_adopts_the_running_job_after_starter_and_keeper_were_killed(site: Site) -> None:
    job = site.submit(f"echo run >>/mnt/runs; {UNTIL}; exit 6")
    site.until_away()
    first = _pid(site, "alpha", job)
    _kill(site, f"$(ps -o ppid= -p {first}) {first}")
    site.until(lambda: _runs_anew(site, job, first), "a new starter")
    site.sh("touch go")

    assert site.until_ended(job).exit_status == "6"
    assert site.sh("cat runs") == "run\n"


def _runs_anew(site: Site, job: str, first: str) -> bool:
    return "r" in site.letters("alpha", job) and _pid(site, "alpha", job) != first


def test_the_job_end_arrives_at_home_although_the_poller_was_killed(site: Site) -> None:
    """The load sensor starts a new poller."""
    job = site.submit(f"{UNTIL}; exit 4")
    site.until_away()
    _kill(site, "$(fuser /var/lib/gridbridge/poller.lock 2>/dev/null || pgrep -f transfer.poller.program)")
    site.sh("touch go")
    site.until(lambda: site.end("beta", "1"), "the end at beta")
    site.submit("exit 0")

    assert site.until_ended(job).exit_status == "4"


def _pid(site: Site, cluster: str, job: str) -> str:
    return site.sh(f"cat {cluster}/active/{job}/job_pid").strip()


def _kill(site: Site, pids: str) -> None:
    site.sh(f"kill -9 {pids}")
