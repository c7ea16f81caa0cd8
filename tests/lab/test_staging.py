"""Files are carried to delta, which sees none of ours, and back, whatever happens on the way."""

# ruff: noqa: SIM300 - `expected == actual` (style.md 33)

import json
from collections.abc import Iterator

import pytest

from tests.lab.away import kill, starter
from tests.lab.configured import configured
from tests.lab.grid import Grid
from tests.lab.test_ssh import (
    ACCOUNT,
    FAR,
    HOME,
    LONG_S,
    far_jobs,
    far_read,
    submit,
    until_open,
    until_told,
)

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

STAGE = ".gridbridge/stage"
BIG_MB = 300  # takes seconds, so that something can happen meanwhile


@pytest.fixture(scope="module")
def ready(grid: Grid, open_to_delta: None) -> Grid:
    """Return the lab with its queue to delta open."""
    until_open(grid)
    return grid


@pytest.fixture(autouse=True)
def work(ready: Grid) -> Iterator[str]:
    """Return a working directory of alice, and leave nothing anywhere."""
    ready.sh(HOME, "rm -rf staged; mkdir staged", user="alice")
    yield "/home/alice/staged"
    ready.lab("net", FAR, "heal")
    ready.sh(FAR, "labctl start sshd; umount -l /home/al_delta/.gridbridge 2>/dev/null; :")
    ready.sh(HOME, "qdel -u alice; :", user="alice")
    ready.until(lambda: not ready.states(), "home to be empty", LONG_S)
    ready.until(lambda: not far_jobs(ready), "delta to be empty")
    ready.sh(FAR, f"rm -rf {STAGE} ran", user=ACCOUNT)
    ready.sh(HOME, "rm -rf staged", user="alice")
    until_open(ready)


def put(grid: Grid, script: str) -> None:
    """Make the inputs, in the working directory."""
    grid.sh(HOME, f"cd staged && {script}", user="alice")


def send(grid: Grid, script: str, declared: str, *options: str) -> str:
    where = ("-wd", "/home/alice/staged", "-o", "out", "-e", "err")
    return submit(grid, script, *where, *(("-ac", declared) if declared else ()), *options)


def here(grid: Grid, script: str) -> str:
    return grid.sh(HOME, f"cd staged && {script}", user="alice")


def staged(grid: Grid) -> list[str]:
    """Return the folders that lie at delta."""
    return far_read_list(grid, f"ls {STAGE} 2>/dev/null || :")


def far_read_list(grid: Grid, script: str) -> list[str]:
    return grid.sh(FAR, script, user=ACCOUNT).split()


def until_ended(grid: Grid, job: str, status: str = "0", limit_s: float = LONG_S) -> None:
    """Wait for the end at home, after which nothing lies at delta."""
    record = grid.accounting(job, limit_s=limit_s)

    assert ("0", status) == (record["failed"].split()[0], record["exit_status"])
    assert [] == staged(grid)


def test_inputs_go_there_and_outputs_and_streams_are_home_when_the_job_ends(ready: Grid) -> None:
    put(ready, "mkdir data; echo one >data/a; echo two >b; chmod 755 b; echo before >out")
    script = (
        "pwd; cat data/a b; [ -x b ] && echo oops >&2; mkdir -p res/x; echo 3 >res/x/y; exit 7\n"
    )
    job = send(ready, script, "stage_in=data:b,stage_out=res:none")
    until_ended(ready, job, "7")

    pwd, *rest = here(ready, "tail -n +2 out").splitlines()
    assert f"/home/{ACCOUNT}/{STAGE}/gb.alpha.{job}.0.1/work" == pwd
    assert ["one", "two"] == rest
    assert "before\n" == here(ready, "head -1 out")
    assert "oops\n" == here(ready, "cat err")
    assert "3\n" == here(ready, "cat res/x/y")


def test_names_that_a_shell_chokes_on_arrive_to_the_byte(ready: Grid) -> None:
    put(ready, "mkdir -- '-x y'; printf 1 >'-x y/$(touch bad);\"'; printf 2 >\"$(printf 'n\\nl')\"")
    put(ready, "printf 3 >'a,b'; printf 4 >'c:d'; printf 5 >'#e%'; ln -s /etc/hostname link")
    names = "-x y:n%0Al:a%2Cb:c%3Ad:#e%25:link"
    script = (
        'cat ./-x*/* n*l a,b c:d "#e%" link; mkdir -- "-o $"\n'
        'for n in -x* n* a,b c:d "#e%"; do cp -R -- "$n" "-o \\$/"; done\n'
    )
    job = send(ready, script, f"stage_in={names},stage_out=-o $")
    until_ended(ready, job)

    assert f"12345{HOME}\n" == here(ready, "cat out")
    assert "" == here(ready, "cat err; ls bad 2>/dev/null || :")
    assert "12345" == here(ready, "cd ./-o*; cat ./-x*/* n*l a,b c:d '#e%'")


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("stage_in=nothing", "stage_in: /home/alice/staged/nothing: no such file or folder"),
        ("stage_in=pipe", "stage_in: /home/alice/staged/pipe: neither a file nor a folder"),
        ("stage_in=up", "/home/alice/staged/up/to leads to a folder that holds it"),
        ("stage_in=me", "/home/alice/staged/me/me leads to a folder that holds it"),
        ("stage_in=../x", "stage_in: '../x' leads out with ..; a path below the working directory"),
        ("stage_in=a%zz", "stage_in=a%zz: % has to be followed by two hexadecimal digits"),
        ("stage_out=/etc", "stage_out: '/etc' is absolute; a path below the working directory"),
        ("stage_in=/tmp/x:x", "stage_in: two of the paths would be 'x' there"),
    ],
    ids=[
        "missing",
        "no file",
        "endless",
        "itself",
        "dots",
        "code",
        "absolute output",
        "the same name",
    ],
)
def test_what_can_not_be_carried_is_told_in_the_error_state_and_nothing_is_sent(
    ready: Grid, declared: str, reason: str
) -> None:
    put(ready, "mkfifo pipe; mkdir up me; ln -s .. up/to; ln -s $PWD/me me/me")
    job = send(ready, "true\n", declared)
    ready.until(lambda: "E" in ready.states().get(job, ""), f"{job} to be in error state")

    assert reason in ready.cell("alpha", "qstat", "-j", job).out
    assert ([], []) == (far_jobs(ready), staged(ready))


def test_an_error_that_was_mended_is_cleared_and_the_job_runs(ready: Grid) -> None:
    job = send(ready, "cat late\n", "stage_in=late")
    ready.until(lambda: "E" in ready.states().get(job, ""), f"{job} to be in error state")
    put(ready, "echo now >late")
    ready.cell("alpha", "qmod", "-cj", job)
    ready.until_gone(job)
    ready.until(lambda: ready.records(job)[-1]["failed"] == "0", "a record of the end")

    assert "now\n" == here(ready, "cat out")


def test_links_bring_what_they_lead_to(ready: Grid) -> None:
    """There all links do; home those that are declared, and one in a folder stays a link."""
    put(ready, "mkdir -p data/v2 rel/7 deep; echo one >one.txt; ln -s one.txt in; echo two >two")
    put(ready, "ln -s ../two data/out; ln -s v2 data/in; echo three >data/v2/x; ln -s none data/no")
    put(ready, "ln -s 7 rel/now; echo four >rel/7/y; ln -s ../rel/now deep/far")
    script = (
        "cat in data/out data/in/x now/y deep/far/y; mkdir runs; echo 5 >runs/5\n"
        "ln -s runs last; ln -s last/5 res; ln -s none lost; mkdir box; ln -s ../runs/5 box/five\n"
    )
    inputs = "in:data/in:data:/home/alice/staged/rel/now:deep/far"
    job = send(ready, script, f"stage_in={inputs},stage_out=res:lost:box:last")
    until_ended(ready, job)

    assert ["one", "two", "three", "four", "four"] == here(ready, "cat out err").split()
    assert ["5", "5"] == here(ready, "cat res last/5").split()
    assert ["none", "../runs/5"] == here(ready, "readlink lost box/five res last; :").split()


def test_standard_input_and_merged_streams_are_carried(ready: Grid) -> None:
    put(ready, "echo asked >question")
    options = ("-i", "/home/alice/staged/question", "-j", "y")
    job = send(ready, "cat; echo more >&2\n", "stage_in=", *options)
    until_ended(ready, job)

    assert "asked\nmore\n" == here(ready, "cat out")


def test_a_signal_brings_home_what_was_written_before_it(ready: Grid) -> None:
    job = send(ready, "echo half >res; echo said; kill -TERM $$\n", "stage_out=.")
    record = ready.accounting(job)

    assert "143" == record["exit_status"].split()[0]
    assert ("said\n", "half\n") == (here(ready, "cat out"), here(ready, "cat res"))
    assert [] == staged(ready)


def big(grid: Grid, name: str = "big") -> str:
    """Make a file that takes a while to carry; return its checksum."""
    put(grid, f"head -c {BIG_MB}M /dev/urandom >{name}")
    return here(grid, f"sha256sum <{name}").split()[0]


def arriving(grid: Grid) -> int:
    """Return how many bytes of the inputs are at delta."""
    sizes = grid.sh(
        FAR, f"find {STAGE} -type f -size +100k -printf '%s\\n' 2>/dev/null || :", user=ACCOUNT
    )
    return sum(map(int, sizes.split()))


def until_half(grid: Grid, count: object) -> None:
    """Wait until a part of the big file has been carried."""
    assert callable(count)
    grid.until(lambda: count() > 1 << 20, "a part to be carried")


def coming(grid: Grid) -> int:
    """Return how many bytes of the outputs are here, under whatever name."""
    sizes = here(grid, "find . -type f -size +100k ! -name big -printf '%s\\n'")
    return sum(map(int, sizes.split()))


FAULTS = {
    "the network is cut": lambda grid, job: cut(grid),
    "the step is killed": lambda grid, job: kill(grid, step_of(grid, job)),
    "rsync is killed": lambda grid, job: grid.sh(HOME, "pkill -KILL -u alice -x rsync"),
    "sshd there is killed": lambda grid, job: grid.sh(FAR, f"pkill -KILL -f '^sshd: {ACCOUNT}'"),
}


def step_of(grid: Grid, job: str) -> str:
    """Return the process that carries: the starter's Python."""
    rows = grid.sh(HOME, f"pgrep -P {starter(grid, job)} -f methods.starter").split()
    return rows[0]


def cut(grid: Grid) -> None:
    grid.lab("net", FAR, "cut")
    grid.until(lambda: not grid.on(HOME, "pgrep", "-u", "alice", "-x", "rsync").out, "it to end")
    grid.lab("net", FAR, "heal")


@pytest.mark.parametrize("fault", FAULTS)
def test_inputs_that_were_cut_go_on_and_the_job_starts_with_all_of_them(
    ready: Grid, fault: str
) -> None:
    known = big(ready)
    job = send(ready, "sha256sum <big; echo $JOB_ID >>~/ran\n", "stage_in=big")
    until_half(ready, lambda: arriving(ready))
    FAULTS[fault](ready, job)
    until_ended(ready, job, limit_s=2 * LONG_S)

    assert known == here(ready, "cat out").split()[0]
    assert [job] == far_read(ready, "ran").split()


@pytest.mark.parametrize("fault", FAULTS)
def test_outputs_that_were_cut_go_on_and_the_job_ends_with_all_of_them(
    ready: Grid, fault: str
) -> None:
    """A killed rsync can't take its temporary file away; all others do."""
    make = f"head -c {BIG_MB}M /dev/urandom >res; sha256sum <res; echo $JOB_ID >>~/ran\n"
    job = send(ready, make, "stage_out=res")
    until_half(ready, lambda: coming(ready))
    FAULTS[fault](ready, job)
    until_ended(ready, job, limit_s=2 * LONG_S)

    assert here(ready, "cat out") == here(ready, "sha256sum <res")
    assert ["err", "out", "res"] == here(ready, "ls -A -I '.res.??????'").split()
    assert [job] == far_read(ready, "ran").split()


@pytest.mark.parametrize("when", ["in", "there", "out"])
def test_a_deleted_job_leaves_nothing_there(ready: Grid, when: str) -> None:
    big(ready)
    declared = {"in": "stage_in=big", "there": "stage_in=", "out": "stage_out=res"}[when]
    script = {"there": "sleep 300\n"}.get(when, f"head -c {BIG_MB}M /dev/urandom >res\n")
    job = send(ready, script, declared)
    count = {"in": lambda: arriving(ready), "out": lambda: coming(ready)}.get(when)
    if count:
        until_half(ready, count)
    else:
        ready.until(lambda: any(" r " in row for row in far_jobs(ready)), "it to run")
    ready.cell("alpha", "qdel", job)
    ready.until_gone(job)

    ready.until(lambda: not staged(ready) and not far_jobs(ready), "nothing to be left", LONG_S)


def test_outputs_of_a_job_whose_starter_was_killed_are_kept_there(ready: Grid) -> None:
    """Grid Engine's rule: the job has failed at home, and nothing of it comes after that."""
    job = send(ready, f"head -c {BIG_MB}M /dev/urandom >res; sha256sum <res\n", "stage_out=res")
    until_half(ready, lambda: coming(ready))
    kill(ready, starter(ready, job))
    record = ready.accounting(job)
    (folder,) = staged(ready)
    until_told(ready, job, f"kept at delta, {STAGE}/{folder}")
    proved = far_read_list(ready, f"cd {STAGE}/{folder} && cat stdout && sha256sum <work/res")

    assert ("100", "137") == (record["failed"].split()[0], record["exit_status"].split()[0])
    assert proved[0] == proved[2]


def test_a_full_disk_there_is_waited_for_with_its_reason(ready: Grid) -> None:
    """Once there is room the job runs, with all of its inputs."""
    known = big(ready)
    base = f"/home/{ACCOUNT}/.gridbridge"
    ready.sh(FAR, f"mkdir -p {base} && mount -t tmpfs -o size=50m,mode=777 none {base}")
    job = send(ready, "sha256sum <big\n", "stage_in=big")
    until_told(ready, job, "No space left on device")
    ready.sh(FAR, f"umount -l {base}")  # no other host there saw it
    until_ended(ready, job, limit_s=2 * LONG_S)

    assert known == here(ready, "cat out").split()[0]


def test_a_queue_says_what_is_carried_for_jobs_that_declare_nothing(ready: Grid) -> None:
    """What a job declares itself goes before it, each list for itself."""
    put(ready, "echo usual >usual; echo own >own")
    says = '/^\\[queue.transfer-delta\\]/a stage_in = "usual"\\nstage_out = "res"'
    with configured(ready, says):
        until_open(ready)
        for declared in ("", "stage_in=own"):
            until_ended(ready, send(ready, "cat * >res; cat res\n", declared))

    assert ["usual", "own"] == here(ready, "cat out").split()
    assert "own\n" == here(ready, "cat res")


def test_a_cluster_of_oar_is_served_as_well(ready: Grid, open_to_gamma: None) -> None:
    put(ready, "echo one >a")
    where = ("-wd", "/home/alice/staged", "-o", "out", "-e", "err", "-q", "transfer-gamma")
    job = ready.submit(*where, "-ac", "stage_in=a,stage_out=b", script="cat a; cp a b; exit 3\n")

    assert "3" == ready.accounting(job, limit_s=LONG_S)["exit_status"]
    assert ["one", "one"] == here(ready, "cat out b").split()
    assert "" == ready.sh("gamma-master", f"ls {STAGE}", user="al_gamma")


@pytest.mark.parametrize(
    ("declared", "status", "told"),
    [
        (
            "stage_in=in",
            0,
            f"-wd '~{ACCOUNT}/{STAGE}/gb.alpha.JOB.0.1/work'",
        ),
        ("stage_in=in:a/in:a/in", 1, "stage_in: two of the paths would be 'a/in' there"),
    ],
)
def test_a_staged_job_is_explained(ready: Grid, declared: str, status: int, told: str) -> None:
    words = ("explain", "--to", "delta", "--", "-ac", declared, "-b", "y", "true")
    done = ready.on(HOME, "gridbridge", *words, user="alice")

    assert (status, True) == (done.status, told in done.out + done.err), done


def test_check_misses_rsync_there(ready: Grid) -> None:
    well = rsync_item(ready)
    ready.sh(FAR, "mv /usr/bin/rsync /usr/bin/rsync.kept")
    broken = rsync_item(ready)
    ready.sh(FAR, "mv /usr/bin/rsync.kept /usr/bin/rsync")

    assert ("ok", "warning") == (well["state"], broken["state"])
    assert "missing on delta-master" == broken["found"]


def rsync_item(grid: Grid) -> dict[str, str]:
    told = json.loads(grid.on(HOME, "gridbridge", "check", "--json").out)
    item: dict[str, str]
    (item,) = [each for each in told["items"] if each["name"] == "delta: rsync"]
    return item
