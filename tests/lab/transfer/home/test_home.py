"""A job that beta refuses permanently comes home, runs at alpha, and never runs twice."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from tests.lab.away import QUIET, ends, global_setting, is_known, lines, reason, why
from tests.lab.configured import configured, restart
from tests.lab.grid import Grid, between
from tests.lab.phases import Outcomes, Phases, Steps, as_it_is, closed_home, no_jobs_left

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

REQUEST = ("hard resource_list", "soft resource_list", "hard_queue_list", "context")
PROJECT = "homeonly"  # of alpha alone
NO_PROJECT = f"beta has no project {PROJECT}"
OURS = ("-P", PROJECT)
SCRIPT = "echo $HOSTNAME >>$JOB_NAME.ran\n"


def project(grid: Grid) -> AbstractContextManager[None]:
    definition = f"name {PROJECT}\\noticket 0\\nfshare 0\\nacl NONE\\nxacl NONE\\n"
    add, remove = f"printf '{definition}' >/tmp/prj && qconf -Aprj /tmp/prj", f"qconf -dprj {PROJECT}"
    return between(lambda script: grid.sh("alpha-master", script), add, remove)


def without_values(grid: Grid) -> AbstractContextManager[None]:
    change = "qconf {} queue complex_values remote=FALSE all.q"
    return between(lambda way: grid.sh("alpha-master", change.format(way)), "-dattr", "-mattr")


@contextmanager
def closed_without_values(grid: Grid) -> Iterator[None]:
    with without_values(grid), closed_home(grid):
        yield


PHASES: Phases = {
    "home is closed and says nothing of remote": closed_without_values,
    "home is open and says nothing of remote": without_values,
    "home is closed": closed_home,
    "home is open": as_it_is,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    marked: str  # what `qstat -j` told then
    hosts: tuple[str, ...]  # where it ran, without a node's number
    statuses: tuple[str, ...]
    remote_ids: tuple[str, ...]
    why: str


@pytest.fixture(scope="module")
def came(grid: Grid) -> Iterator[Outcomes]:
    patient = configured(grid, r"/^\[breaker\]/a failures = 999")
    scenarios = (one, many, by_queue, *NOWHERE.values(), *SOMEWHERE.values(), for_now, brought)
    with project(grid), patient, no_jobs_left(grid):
        grid.until(lambda: not is_known(grid, "project", PROJECT), "beta not to know the project")
        yield Outcomes(grid, *scenarios, phases=PHASES)
        grid.sh("alpha-master", "rm -f /var/lib/gridbridge/published/breakers.json")
    restart(grid)  # what it knows of them it keeps as long as it runs


def refused(grid: Grid, name: str, *options: str, count: int = 1, home: str = "home is open") -> Steps[Home]:
    """Submit a job that crosses and that beta refuses, and let it run at home."""
    job = grid.submit("-N", name, *QUIET, *options, script=SCRIPT)
    grid.until(lambda: "gridbridge_refused" in detail(grid, job), f"{job} to be marked")
    grid.until(lambda: waits_at_home(grid, job), f"{job} to be home")
    marked = detail(grid, job)

    yield home
    records = grid.until(lambda: ends(grid, job, count), f"{count} ends of {job}", 90)
    return Home(
        marked=marked,
        hosts=tuple(host.partition("-n")[0] for host in lines(grid, f"{name}.ran")),
        statuses=tuple(record["exit_status"] for record in records),
        remote_ids=tuple(grid.remote_ids(job)),
        why=why(grid, job),
    )


def waits_at_home(grid: Grid, job: str) -> bool:
    """Say whether a job waits at home, neither in the transfer queue nor held."""
    found = {state for key, state in grid.states().items() if key.partition(".")[0] == job}
    return bool(found) and found <= {"qw", "Rq"}


def detail(grid: Grid, job: str) -> str:
    return grid.cell("alpha", "qstat", "-j", job).out


def asked(told: str, name: str) -> str:
    """Return a line of `qstat -j` without its blanks."""
    found = (line.partition(":")[2] for line in told.splitlines() if line.startswith(name))
    return next(found, "").strip()


def one(grid: Grid) -> Steps[Home]:
    yield "home is closed"
    options = ("-l", "h_rt=100", "-l", "s_rt=90", "-soft", "-l", "h_fsize=1G", "-hard")
    return (yield from refused(grid, "one", *OURS, *options, "-pe", "smp", "1-2"))


def test_a_refused_job_runs_at_home_with_all_that_it_asked_for(came: Outcomes) -> None:
    job = came.of(one)

    assert set(asked(job.marked, "hard resource_list").split(",")) == {*("h_rt=100", "s_rt=90", "remote=false")}
    assert asked(job.marked, "soft resource_list") == "h_fsize=1G"
    assert NO_PROJECT in asked(job.marked, "context")
    assert job.hosts == ("alpha",)
    assert job.statuses == ("0",)
    assert NO_PROJECT in job.why
    assert job.remote_ids == ()


def many(grid: Grid) -> Steps[Home]:
    yield "home is closed"
    return (yield from refused(grid, "many", *OURS, "-t", "1-5", count=5))


def test_a_whole_array_is_marked_once_and_each_task_runs_once(came: Outcomes) -> None:
    job = came.of(many)

    assert len(job.statuses) == 5
    assert job.hosts == ("alpha",) * 5


def nowhere(grid: Grid, options: tuple[str, ...]) -> Steps[tuple[str, str]]:
    """Submit a job that no queue at home could run; return its reason and its requests."""
    yield "home is open"
    job = grid.submit(*OURS, *QUIET, *options, script=SCRIPT)
    return reason(grid, job), detail(grid, job)


NOWHERE = {
    "queue": partial(nowhere, options=("-q", "transfer-beta")),
    "remote": partial(nowhere, options=("-l", "remote=true")),
}


@pytest.mark.parametrize("way", NOWHERE.keys())
def test_a_refused_job_that_no_home_queue_could_run_is_in_error_with_the_reason(came: Outcomes, way: str) -> None:
    told, now_asked = came.of(NOWHERE[way])

    assert NO_PROJECT in told
    assert "no local queue can run the job either" in told
    assert "remote=false" not in now_asked


def somewhere(grid: Grid, name: str, options: tuple[str, ...]) -> Steps[Home]:
    yield "home is closed"
    return (yield from refused(grid, name, *OURS, *options))


SOMEWHERE = {
    "a list with a queue at home": partial(somewhere, name="listed", options=("-q", "transfer-beta,all.q")),
    "a load value": partial(somewhere, name="loaded", options=("-l", "mem_free=1M")),
}


@pytest.mark.parametrize("way", SOMEWHERE.keys())
def test_a_refused_job_that_some_home_queue_could_run_comes_home(came: Outcomes, way: str) -> None:
    assert came.of(SOMEWHERE[way]).hosts == ("alpha",)


def by_queue(grid: Grid) -> Steps[Home]:
    home = "home is open and says nothing of remote"
    return (yield from refused(grid, "byqueue", *OURS, "-l", "h_rt=100", home=home))


def test_a_queue_list_keeps_a_job_home_where_queues_do_not_define_remote(came: Outcomes) -> None:
    job = came.of(by_queue)

    assert asked(job.marked, "hard_queue_list").startswith("!transfer-beta")
    assert asked(job.marked, "hard resource_list") == "h_rt=100"
    assert job.hosts == ("alpha",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """A job that beta refused for now."""

    before: dict[str, str]
    after: dict[str, str]
    state: str
    why: str
    statuses: tuple[str, ...]
    hosts: tuple[str, ...]


def for_now(grid: Grid) -> Steps[Delayed]:
    with global_setting(grid, "beta-master", "max_u_jobs", "1"):
        other = grid.submit("-N", "other", *QUIET, cluster="beta", script="sleep 600\n")
        options = ("-h", "-N", "now", "-l", "h_rt=900", "-soft", "-l", "h_fsize=1G")
        job = grid.transfer(*options, *QUIET, script=SCRIPT)
        before = request(grid, job)
        grid.cell("alpha", "qrls", job)

        yield "home is closed"
        grid.until(lambda: tries(grid, job) > 1, "two refusals")
        after, state, told = request(grid, job), grid.states()[job], why(grid, job)
        grid.cell("beta", "qdel", other)

        yield "home is open"
        records = grid.until(lambda: ends(grid, job), "its end", 90)
    return Delayed(
        before=before,
        after=after,
        state=state,
        why=told,
        statuses=tuple(record["exit_status"] for record in records),
        hosts=tuple(host.partition("-n")[0] for host in lines(grid, "now.ran")),
    )


def test_a_temporary_refusal_leaves_the_job_unchanged_and_guarded(came: Outcomes) -> None:
    """Beta allows alice one job (max_u_jobs), and she already has it."""
    job = came.of(for_now)

    assert job.before == job.after
    assert job.state == "r"
    assert "tried in vain" in job.why
    assert job.statuses == ("0",)
    assert job.hosts == ("beta",)


def request(grid: Grid, job: str) -> dict[str, str]:
    told = detail(grid, job)
    return {name: asked(told, name) for name in REQUEST}


def tries(grid: Grid, job: str) -> int:
    """Return how often the task's own log shows a refusal by beta."""
    log = f"/tmp/{job}.1.transfer-beta/.gridbridge/log"
    return grid.on("alpha-master", "cat", log).out.count("allowed per user")


def brought(grid: Grid) -> Steps[Home]:
    yield "home is closed"
    return (yield from refused(grid, "brought", "-A", "gb.omega.7.0.1"))


def test_a_job_that_a_transfer_brought_is_not_sent_on(came: Outcomes) -> None:
    """The job's account is the name of a transfer, of any site."""
    job = came.of(brought)

    assert job.hosts == ("alpha",)
    assert job.remote_ids == ()
