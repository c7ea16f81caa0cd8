"""The service's one connection to delta under a cut network and a full sshd.

One cut serves all tests of this module.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.lab import delta
from tests.lab.away import Since
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

SILENT_S = 45  # a question is waited for 16 s, and the next one comes 15 s later at most


@pytest.fixture(scope="module")
def ready(grid: Grid, open_to_delta: None) -> Iterator[Grid]:
    """Return the lab with its queue to delta open; afterwards delta has no job left."""
    delta.until_open(grid)
    grid.sh(delta.FAR, "rm -f ran go tasks ./*.[oe][0-9]*", user=delta.ACCOUNT)
    yield grid
    delta.empty(grid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The connections at delta before and after two answers, while eight tasks were there."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    starters: tuple[str, ...]


@pytest.fixture(scope="module")
def watched(ready: Grid) -> Watched:
    job = delta.submit(ready, "sleep 300\n", "-t", "1-8")
    ready.until(lambda: len(delta.far_jobs(ready)) == 8, "all tasks to be at delta", delta.LONG_S)
    ready.until(lambda: not delta.sessions(ready, delta.ACCOUNT), "the starters to have hung up")
    before = ready.until(lambda: delta.sessions(ready), "the service's connection")
    asked = [delta.answered_at(ready)]
    ready.until(lambda: delta.newly_asked(ready, asked) > 2, "more answers")
    after, starters = delta.sessions(ready), delta.sessions(ready, delta.ACCOUNT)
    ready.cell("alpha", "qdel", job)
    return Watched(before=tuple(before), after=tuple(after), starters=tuple(starters))


def test_jobs_that_wait_there_keep_no_connection_but_the_services_one(watched: Watched) -> None:
    assert ((), 1) == (watched.starters, len(watched.after))


def test_the_service_does_not_take_an_unknown_host_for_delta(ready: Grid) -> None:
    known = "/etc/ssh/ssh_known_hosts"
    ready.sh(delta.HOME, f"mv {known} {known}.kept")
    try:
        ready.sh(delta.FAR, f"kill {' '.join(delta.sessions(ready))}")
        words = f"gridbridge does not know {delta.FAR}'s host key"
        ready.until(lambda: words in ready.on(delta.HOME, "gridbridge", "status").out, "that to be told")
    finally:
        ready.sh(delta.HOME, f"mv {known}.kept {known}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    submitted: str
    running: str
    before: tuple[str, ...]


@pytest.fixture(scope="module")
def cut(ready: Grid) -> Cut:
    """Cut off delta while qsub waits for the frozen qmaster, until each interruption is noticed."""
    ready.sh(delta.HOME, "qdel -u alice; :", user="alice")
    ready.until(lambda: not delta.far_jobs(ready), "delta to be empty", delta.LONG_S)
    running = delta.submit(ready, f"until [ -e go ]; do sleep 0.2; done\n{delta.RAN}", name="running")
    delta.until_far(ready, "running", "r")
    before = ready.until(lambda: only_the_services(ready), "the service's connection")
    try:
        ready.sh(delta.FAR, "labctl freeze qmaster")
        submitted = delta.submit(ready, delta.RAN)
        ready.until(lambda: ready.on(delta.FAR, "pgrep", "-x", "qsub").out, "qsub to wait at delta")
        assert set(before) < set(delta.connections(ready))
        ready.lab("net", delta.FAR, "cut")
        watch = Since()
        delta.until_told(ready, submitted, f"no complete answer from {delta.FAR}, and the command may have run")
        delta.until_told(ready, running, "delta, which has not answered")
        ready.until(lambda: not delta.connections(ready), "the connection to be given up", watch.left(SILENT_S))
        ready.sh(delta.FAR, "touch go", user=delta.ACCOUNT)
        ready.until(lambda: running in delta.far_read(ready, "ran"), "the job to end at delta")
    finally:
        ready.sh(delta.FAR, "labctl thaw qmaster")
        ready.lab("net", delta.FAR, "heal")
    ready.sh(delta.FAR, "rm go", user=delta.ACCOUNT)
    return Cut(submitted=submitted, running=running, before=tuple(before))


def only_the_services(grid: Grid) -> list[str]:
    """Return the service's connection if it is the only one."""
    found = delta.connections(grid)
    return found if len(found) == len(delta.sessions(grid)) == 1 else []


@pytest.mark.long
def test_a_connection_of_the_service_that_a_cut_leaves_open_is_given_up_and_replaced(ready: Grid, cut: Cut) -> None:
    """Neither end closes the connection: requests over it get no answer any more."""
    asked = [delta.answered_at(ready)]
    ready.until(lambda: delta.newly_asked(ready, asked) > 2, "more answers")
    after = ready.until(lambda: only_the_services(ready), "one connection of the service")

    assert cut.before != tuple(after)


@pytest.mark.long
def test_a_job_that_ends_while_nobody_can_ask_comes_home_later(ready: Grid, cut: Cut) -> None:
    delta.until_ended_once(ready, cut.running)


def test_the_service_keeps_one_connection_and_makes_another_when_it_is_lost(ready: Grid, watched: Watched) -> None:
    """No new connection is made between two polls."""
    assert (1, watched.before) == (len(watched.before), watched.after)

    before = ready.until(lambda: delta.sessions(ready), "its connection")
    asked = [delta.answered_at(ready)]
    ready.sh(delta.FAR, f"kill {before[0]}")
    ready.until(lambda: delta.sessions(ready) not in ([], before), "another connection")
    ready.until(lambda: delta.newly_asked(ready, asked) > 2, "answers over it")

    assert 1 == len(delta.sessions(ready))


@pytest.mark.long
def test_a_network_that_is_cut_during_the_submission_leads_to_one_job(ready: Grid, cut: Cut) -> None:
    """The qmaster is frozen, so that qsub waits for its answer during the cut."""
    delta.until_ended_once(ready, cut.submitted)


@pytest.mark.long
def test_a_job_that_a_full_sshd_turns_away_waits_and_runs_once(ready: Grid) -> None:
    """The service's open connection keeps working; a new connection of the service has to wait, too."""
    with full_sshd(ready) as holder:
        job = delta.submit(ready, 'echo "$SGE_TASK_ID" >>tasks\n', "-t", "1-4")
        delta.until_told(ready, job, f"can't reach {delta.FAR}: kex_exchange_identification")
        asked = [delta.answered_at(ready)]
        ready.until(lambda: delta.newly_asked(ready, asked) > 2, "answers meanwhile")
        ready.sh(delta.FAR, f"kill {' '.join(delta.sessions(ready))}")
        ready.until(lambda: f"can't reach {delta.FAR}" in unreached(ready), "the service to be turned away")
        sent = delta.far_jobs(ready)
        ready.sh(delta.FAR, f"kill {holder}")
        ready.until_gone(job, limit_s=2 * delta.LONG_S)

    assert not sent
    assert ["1", "2", "3", "4"] == sorted(delta.far_read(ready, "tasks").split())
    assert {"0"} == {each["exit_status"] for each in ready.records(job)}
    assert 4 == len(delta.far_records(ready, job))


@contextmanager
def full_sshd(grid: Grid) -> Iterator[str]:
    """Fill the one login slot of delta's sshd; yield the process that holds it."""
    setting = "/etc/ssh/sshd_config.d/full.conf"
    hold = "exec 3<>/dev/tcp/localhost/22; read -r -u 3 _; sleep 600 >/dev/null 2>&1 & echo $!"
    lines = "MaxStartups 1\\nLoginGraceTime 0\\n"
    grid.sh(delta.FAR, f"printf '{lines}' >{setting}; labctl restart sshd")
    holder = grid.on(delta.FAR, "bash", "-c", hold).out.strip()
    try:
        yield holder
    finally:
        grid.sh(delta.FAR, f"rm {setting}; labctl restart sshd; kill {holder} 2>/dev/null; :")


def unreached(grid: Grid) -> str:
    told = json.loads(grid.on(delta.HOME, "gridbridge", "status", "--json").out)
    return next(str(each) for each in told["clusters"] if each["cluster"] == "delta")
