"""Files staged to delta and back arrive complete or not at all, despite faults during the copy.

The network between both is slow, so that each fault strikes in the middle of a copy.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.lab import delta
from tests.lab.away import kill, once, starter
from tests.lab.grid import Grid
from tests.lab.transfer.staging import staged

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]

SIZE = 40 << 20
PART = 1 << 18  # of it has been carried when a fault comes
MAKE = f"head -c {SIZE} /dev/urandom >res; sha256sum <res; echo $JOB_ID >>~/ran\n"
IN = staged.Job(script="sha256sum <big; echo $JOB_ID >>~/ran\n", declared="stage_in=big")
OUT = staged.Job(script=MAKE, declared="stage_out=res")
WELL = delta.End(failed="0", exit_status="0", left=())
WAITS = staged.Job(script="sleep 300\n", declared="stage_in=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A deleted job has no end."""

    jobs: Mapping[str, str]
    ends: Mapping[str, delta.End]
    is_held: bool  # at delta, the one that was suspended, once all of it was there


@pytest.fixture(scope="module")
def ready(grid: Grid, open_to_delta: None) -> Iterator[Grid]:
    """Return the lab with its queue to delta open, and a big file; no job or file is left afterwards."""
    staged.begin(grid)
    grid.sh(delta.HOME, f"head -c {SIZE} /dev/urandom >{staged.ROOT}/big", user="alice")
    with delta.many_slots(grid):
        yield grid
        staged.leave_nothing(grid)


@pytest.fixture(scope="module")
def known(ready: Grid) -> str:
    return staged.here(ready, ".", "sha256sum <big").split()[0]


def is_between(carried: int) -> bool:
    return PART < carried < SIZE


def descendants(grid: Grid, pid: str, name: str) -> list[str]:
    """Return the local descendants of a process that run this program."""
    rows = [row.split() for row in grid.on(delta.HOME, "ps", "-eo", "pid,ppid,comm").out.splitlines()]
    family = {pid}
    while more := {child for child, parent, *_ in rows if parent in family} - family:
        family |= more
    return [pid for pid, _, comm, *_ in rows if pid in family and comm == name]


def step_of(grid: Grid, job: str) -> str:
    """Return the starter's Python process, which copies the files."""
    rows = grid.sh(delta.HOME, f"pgrep -P {starter(grid, job)} -f starter.starter").split()
    return rows[0]


def kill_rsync(grid: Grid, job: str) -> None:
    found = descendants(grid, step_of(grid, job), "rsync")
    assert found
    kill(grid, *found)


def kill_sshd(grid: Grid, job: str) -> None:
    """Kill the sshd processes at delta that serve this job's connections."""
    told = grid.sh(delta.HOME, f"ss -Htnp state established dst {delta.FAR}:22").splitlines()
    ours = [f"pid={ssh}," for ssh in descendants(grid, step_of(grid, job), "ssh")]
    ports = [row.split()[2].rpartition(":")[2] for row in told if any(pid in row for pid in ours)]
    wanted = " or ".join(f"dport = :{port}" for port in ports)
    sshd = re.findall(r"pid=(\d+)", grid.sh(delta.FAR, f"ss -Htnp state established '( {wanted} )'"))
    assert sshd
    grid.on(delta.FAR, "kill", "-KILL", *sshd)  # one dies with the other


def delete(grid: Grid, job: str) -> None:
    grid.cell("alpha", "qdel", job)


def suspend(grid: Grid, job: str) -> None:
    grid.cell("alpha", "qmod", "-sj", job)


CUT = "the network is cut"
FAULTS: dict[str, Callable[[Grid, str], None]] = {
    "the step is killed": lambda grid, job: kill(grid, step_of(grid, job)),
    "rsync is killed": kill_rsync,
    "sshd there is killed": kill_sshd,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that strikes a job while its files are copied in or out, or while it runs."""

    job: staged.Job
    when: str
    strike: Callable[[Grid, str], None]


STRUCK = {
    **{f"in{n}": Fault(job=IN, when="in", strike=one) for n, one in enumerate(FAULTS.values())},
    **{f"out{n}": Fault(job=OUT, when="out", strike=one) for n, one in enumerate(FAULTS.values())},
    "del-in": Fault(job=IN, when="in", strike=delete),
    "del-there": Fault(job=WAITS, when="there", strike=delete),
    "del-out": Fault(job=OUT, when="out", strike=delete),
    "sus-in": Fault(job=IN, when="in", strike=suspend),
    "orphan": Fault(job=OUT, when="out", strike=lambda grid, job: kill(grid, starter(grid, job))),
}
DELETED = ("del-in", "del-there", "del-out")


@pytest.fixture(scope="module")
def ended(ready: Grid) -> Ended:
    """Cause the faults of single jobs, then the network cut, and wait for all ends."""
    with full_disk(ready):
        with staged.slow_line(ready):
            jobs = {name: offer(ready, name, one.job) for name, one in STRUCK.items()}
            strike_all(ready, jobs)
        jobs["full"] = offer_as_bob(ready)
        delta.until_told(ready, jobs["full"], "No space left on device", "bob")
    is_held = resume(ready, jobs["sus-in"])
    over = wait(ready, {name: job for name, job in jobs.items() if name not in DELETED})
    jobs |= cut_off(ready)
    over |= wait(ready, {name: jobs[name] for name in ("in3", "out3")})
    return Ended(jobs=jobs, ends=over, is_held=is_held)


def wait(grid: Grid, jobs: Mapping[str, str]) -> dict[str, delta.End]:
    over = delta.ends(grid, jobs.values(), 2 * delta.LONG_S)
    return {name: over[job] for name, job in jobs.items()}


def offer(grid: Grid, name: str, job: staged.Job) -> str:
    staged.put(grid, name, "ln ../big big" if job is IN else "")
    return staged.send(grid, name, job)


def strike_all(grid: Grid, jobs: Mapping[str, str]) -> None:
    """Let each fault strike as soon as its job is at the right step."""
    left = dict(STRUCK)

    def strike() -> bool:
        there, home, running = staged.arriving(grid), staged.coming(grid), delta.far_states(grid)
        for name, one in list(left.items()):
            carried = {"in": there.get(jobs[name], 0), "out": home.get(name, 0)}.get(one.when, 0)
            if is_between(carried) or (one.when == "there" and running.get(name) == "r"):
                left.pop(name).strike(grid, jobs[name])
        return not left

    try:
        grid.until(strike, "each fault to have come", delta.LONG_S)
    except AssertionError as error:
        raise AssertionError(f"{error}; to come: {sorted(left)}") from error


def resume(grid: Grid, job: str) -> bool:
    """Resume a job after its inputs are at delta and its starter sleeps; return whether the job was held.

    A remote job has the job's own name only after its release.
    """

    def is_there() -> bool:
        pids = grid.on(delta.HOME, "pgrep", "-P", starter(grid, job), "-f", "starter.starter").out
        return not pids and staged.arriving(grid).get(job, 0) == SIZE

    grid.until(is_there, "all of it to be there", delta.LONG_S)
    is_held = "sus-in" not in delta.far_states(grid)
    grid.cell("alpha", "qmod", "-usj", job)
    return is_held


def cut_off(grid: Grid) -> dict[str, str]:
    with staged.slow_line(grid):
        leaves = offer(grid, "out3", OUT)
        grid.until(lambda: is_between(staged.coming(grid).get("out3", 0)), "a part to be home")
        comes = offer(grid, "in3", IN)
        grid.until(lambda: is_between(staged.arriving(grid).get(comes, 0)), "a part to be there")
        assert is_between(staged.coming(grid)["out3"])
        grid.lab("net", delta.FAR, "cut")
        rsync = ("pgrep", "-u", "alice", "-x", "rsync")
        grid.until(lambda: not grid.on(delta.HOME, *rsync).out, "rsync to end")
        grid.lab("net", delta.FAR, "heal")
    return {"in3": comes, "out3": leaves}


@contextmanager
def full_disk(grid: Grid) -> Iterator[None]:
    base = f"/home/{delta.ACCOUNTS['bob']}/.gridbridge"
    grid.sh(delta.FAR, f"mkdir -p {base}", user=delta.ACCOUNTS["bob"])
    grid.sh(delta.FAR, f"mount -t tmpfs -o size=2m,mode=777 none {base}")
    try:
        yield
    finally:
        grid.sh(delta.FAR, f"umount -l {base}")


def offer_as_bob(grid: Grid) -> str:
    own = "/home/bob/staged"
    grid.sh(delta.HOME, f"rm -rf {own}; install -d -o bob {own}; install -o bob {staged.ROOT}/big {own}")
    where = ("-wd", own, "-o", "out", "-j", "y", "-ac", "stage_in=big")
    return delta.submit(grid, "sha256sum <big\n", *where, name="full", user="bob")


NUMBERS = [pytest.param(n, id=fault) for n, fault in enumerate((*FAULTS, CUT))]


@pytest.mark.parametrize("fault", NUMBERS)
def test_inputs_that_were_cut_go_on_and_the_job_starts_with_all_of_them(
    ready: Grid, ended: Ended, known: str, fault: int
) -> None:
    name = f"in{fault}"

    assert WELL == ended.ends[name]
    assert known == staged.here(ready, name, "cat out").split()[0]
    assert ended.jobs[name] in once(delta.far_read(ready, "ran").split())


@pytest.mark.parametrize("fault", NUMBERS)
def test_outputs_that_were_cut_go_on_and_the_job_ends_with_all_of_them(ready: Grid, ended: Ended, fault: int) -> None:
    """A killed rsync leaves its temporary file; all other temporary files are removed."""
    name = f"out{fault}"

    assert WELL == ended.ends[name]
    assert staged.here(ready, name, "cat out") == staged.here(ready, name, "sha256sum <res")
    assert ["err", "out", "res"] == staged.here(ready, name, "ls -A -I '.res.??????'").split()
    assert ended.jobs[name] in once(delta.far_read(ready, "ran").split())


@pytest.mark.parametrize("when", ["in", "there", "out"])
def test_a_deleted_job_leaves_no_file_at_the_remote_cluster(ready: Grid, ended: Ended, when: str) -> None:
    job = ended.jobs[f"del-{when}"]
    ready.until_gone(job)

    def left() -> list[str]:
        folders = [one for one in delta.staged(ready) if one.startswith(f"gb.alpha.{job}.")]
        return folders + delta.far_jobs(ready)

    ready.until(lambda: not left(), "nothing to be left", delta.LONG_S)


def test_a_job_suspended_on_its_way_stays_held_until_it_is_resumed(ready: Grid, ended: Ended, known: str) -> None:
    job = ended.jobs["sus-in"]

    assert ended.is_held
    assert WELL == ended.ends["sus-in"]
    assert known == staged.here(ready, "sus-in", "cat out").split()[0]
    assert job in once(delta.far_read(ready, "ran").split())


def test_outputs_of_a_job_whose_starter_was_killed_are_kept_there(ready: Grid, ended: Ended) -> None:
    """Grid Engine counts the job as failed, so no output comes home afterwards."""
    end = ended.ends["orphan"]
    (folder,) = end.left
    delta.until_told(ready, ended.jobs["orphan"], f"kept at delta, {delta.STAGE}/{folder}")
    script = f"cd {delta.STAGE}/{folder} && cat stdout && sha256sum <work/res"
    proved = ready.sh(delta.FAR, script, user=delta.ACCOUNT).split()

    assert ("100", "137") == (end.failed, end.exit_status)
    assert proved[0] == proved[2]


def test_a_full_disk_there_is_waited_for_with_its_reason(ready: Grid, ended: Ended, known: str) -> None:
    """After space is freed the job runs with all of its inputs."""
    assert WELL == ended.ends["full"]
    assert known == ready.sh(delta.HOME, "cat /home/bob/staged/out").split()[0]
