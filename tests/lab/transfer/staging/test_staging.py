"""Files are copied to delta, which shares no filesystem with home, and back.

All jobs of this module run together; jobs that can not be staged come first.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.lab.configured import configured
from tests.lab.delta import ACCOUNT, FAR, HOME, LONG_S, STAGE, End, ends, far_jobs, many_slots, staged, until_open
from tests.lab.grid import Grid
from tests.lab.transfer.staging.staged import Job, begin, here, leave_nothing, put, send, send_all

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

JOBS: dict[str, Job] = {}  # each stands above its test


@pytest.fixture(scope="module")
def ready(grid: Grid, open_to_delta: None) -> Iterator[Grid]:
    """Return the lab with its queue to delta open; no job or file is left afterwards."""
    begin(grid)
    with many_slots(grid):
        yield grid
        leave_nothing(grid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Error messages of jobs by their staging option, and the files at delta at that time."""

    jobs: dict[str, str]
    told: dict[str, str]
    sent: tuple[str, ...]


@pytest.fixture(scope="module")
def refused(ready: Grid) -> Refused:
    put(ready, "wrong", "mkfifo pipe; mkdir up me; ln -s .. up/to; ln -s $PWD/me me/me")
    jobs = {one: send(ready, "wrong", Job(script="true\n", declared=one)) for one in WRONG}
    jobs[LATE] = send(ready, "wrong", Job(script="cat late\n", declared=LATE))
    ready.until(lambda: all("E" in ready.states().get(job, "") for job in jobs.values()), "errors")
    told = {one: ready.cell("alpha", "qstat", "-j", job).out for one, job in jobs.items()}
    sent = (*far_jobs(ready), *staged(ready))
    ready.cell("alpha", "qdel", *(jobs[one] for one in WRONG))
    return Refused(jobs=jobs, told=told, sent=sent)


@pytest.fixture(scope="module")
def mended(ready: Grid, refused: Refused) -> str:
    put(ready, "wrong", "echo now >late")
    ready.cell("alpha", "qmod", "-cj", refused.jobs[LATE])
    return refused.jobs[LATE]


@pytest.fixture(scope="module")
def at_gamma(ready: Grid, open_to_gamma: None) -> str:
    put(ready, "oar", "echo one >a")
    where = ("-wd", "/home/alice/staged/oar", "-o", "out", "-e", "err", "-q", "transfer-gamma")
    return ready.submit(*where, "-ac", "stage_in=a,stage_out=b", script="cat a; cp a b; exit 3\n")


@pytest.fixture(scope="module")
def undeclared_at_gamma(ready: Grid, open_to_gamma: None) -> str:
    put(ready, "plain", "")
    where = ("-wd", "/home/alice/staged/plain", "-o", "out", "-j", "y", "-q", "transfer-gamma")
    return ready.submit(*where, script="echo there\n")


@pytest.fixture(scope="module")
def carried(ready: Grid, mended: str, at_gamma: str, undeclared_at_gamma: str) -> dict[str, End]:
    """Submit all jobs that can be staged, and return their ends; two jobs for gamma run beside them."""
    names = send_all(ready, JOBS)
    over = ends(ready, names.values())
    return {name: over[job] for name, job in names.items()}


def has_ended(end: End, status: str = "0") -> None:
    """Assert the exit status of a job at home, and that none of its files was left at delta then."""
    assert ("0", status, ()) == (end.failed, end.exit_status, end.left)


JOBS["streams"] = Job(
    before="mkdir data; echo one >data/a; echo two >b; chmod 755 b; echo before >out",
    script="echo $PWD $JOB_ID\ncat data/a b; [ -x b ] && echo oops >&2; mkdir -p res/x; echo 3 >res/x/y; exit 7\n",
    declared="stage_in=data:b,stage_out=res:none",
)


def test_inputs_arrive_and_outputs_and_streams_are_home_when_the_job_ends(ready: Grid, carried: dict[str, End]) -> None:
    has_ended(carried["streams"], "7")

    where, *rest = here(ready, "streams", "tail -n +2 out").splitlines()
    pwd, _, job = where.partition(" ")
    assert f"/home/{ACCOUNT}/{STAGE}/gb.alpha.{job}.0.1/work" == pwd
    assert ["one", "two"] == rest
    assert "before\n" == here(ready, "streams", "head -1 out")
    assert "oops\n" == here(ready, "streams", "cat err")
    assert "3\n" == here(ready, "streams", "cat res/x/y")


JOBS["names"] = Job(
    before="mkdir -- '-x y'; printf 1 >'-x y/$(touch bad);\"'; printf 2 >\"$(printf 'n\\nl')\";"
    " printf 3 >'a,b'; printf 4 >'c:d'; printf 5 >'#e%'; ln -s /etc/hostname link",
    script='cat ./-x*/* n*l a,b c:d "#e%" link; mkdir -- "-o $"\n'
    'for n in -x* n* a,b c:d "#e%"; do cp -R -- "$n" "-o \\$/"; done\n',
    declared="stage_in=-x y:n%0Al:a%2Cb:c%3Ad:#e%25:link,stage_out=-o $",
)


def test_names_that_a_shell_chokes_on_arrive_to_the_byte(ready: Grid, carried: dict[str, End]) -> None:
    has_ended(carried["names"])

    assert f"12345{HOME}\n" == here(ready, "names", "cat out")
    assert "" == here(ready, "names", "cat err; ls bad 2>/dev/null || :")
    assert "12345" == here(ready, "names", "cd ./-o*; cat ./-x*/* n*l a,b c:d '#e%'")


LATE = "stage_in=late"
WRONG = {
    "stage_in=nothing": "stage_in: /home/alice/staged/wrong/nothing: no such file or folder",
    "stage_in=pipe": "stage_in: /home/alice/staged/wrong/pipe: neither a file nor a folder",
    "stage_in=up": "symlink /home/alice/staged/wrong/up/to leads to its parent folder",
    "stage_in=me": "symlink /home/alice/staged/wrong/me/me leads to its parent folder",
    "stage_in=../x": "stage_in: '../x' contains ..; expected a path below the working directory",
    "stage_in=a%zz": "stage_in=a%zz: expected two hexadecimal digits after %",
    "stage_out=/etc": "stage_out: '/etc' is absolute; expected a path below the working directory",
    "stage_in=/tmp/x:x": "stage_in: two paths have the same remote name 'x'",
}


@pytest.mark.parametrize(
    ("declared", "reason"),
    WRONG.items(),
    ids=["missing", "no file", "endless", "itself", "dots", "code", "absolute output", "the same name"],
)
def test_a_job_that_can_not_be_staged_is_in_error_with_the_reason_and_not_sent(
    refused: Refused, declared: str, reason: str
) -> None:
    assert reason in refused.told[declared]
    assert () == refused.sent


def test_an_error_that_was_mended_is_cleared_and_the_job_runs(ready: Grid, mended: str) -> None:
    ready.until_gone(mended)
    ready.until(lambda: ready.records(mended)[-1]["failed"] == "0", "a record of the end")

    assert "now\n" == here(ready, "wrong", "cat out")


JOBS["links"] = Job(
    before="mkdir -p data/v2 rel/7 deep; echo one >one.txt; ln -s one.txt in; echo two >two;"
    " ln -s ../two data/out; ln -s v2 data/in; echo three >data/v2/x; ln -s none data/no;"
    " ln -s 7 rel/now; echo four >rel/7/y; ln -s ../rel/now deep/far",
    script="cat in data/out data/in/x now/y deep/far/y; mkdir runs; echo 5 >runs/5\n"
    "ln -s runs last; ln -s last/5 res; ln -s none lost; mkdir box; ln -s ../runs/5 box/five\n",
    declared="stage_in=in:data/in:data:/home/alice/staged/links/rel/now:deep/far,stage_out=res:lost:box:last",
)


def test_symbolic_links_are_staged_as_the_files_they_lead_to(ready: Grid, carried: dict[str, End]) -> None:
    """Input links are copied as files; a link within an output folder stays a link."""
    has_ended(carried["links"])

    assert ["one", "two", "three", "four", "four"] == here(ready, "links", "cat out err").split()
    assert ["5", "5"] == here(ready, "links", "cat res last/5").split()
    found = here(ready, "links", "readlink lost box/five res last; :").split()
    assert ["none", "../runs/5"] == found


JOBS["stdin"] = Job(
    before="echo asked >question",
    script="cat; echo more >&2\n",
    declared="stage_in=",
    options=("-i", "/home/alice/staged/stdin/question", "-j", "y"),
)


def test_standard_input_and_merged_streams_are_carried(ready: Grid, carried: dict[str, End]) -> None:
    has_ended(carried["stdin"])

    assert "asked\nmore\n" == here(ready, "stdin", "cat out")


JOBS["signal"] = Job(script="echo half >res; echo said; kill -TERM $$\n", declared="stage_out=.")


def test_a_signal_brings_home_what_was_written_before_it(ready: Grid, carried: dict[str, End]) -> None:
    end = carried["signal"]

    assert ("143", ()) == (end.exit_status, end.left)
    assert "said\n" == here(ready, "signal", "cat out")
    assert "half\n" == here(ready, "signal", "cat res")


JOBS["undeclared"] = Job(before="echo before >out", script="pwd; echo oops >&2; echo kept >kept; exit 4\n")
JOBS["long"] = Job(before="", script="head -c 3000000 /dev/zero | tr '\\0' x\n")


def test_output_comes_home_to_where_it_was_asked_for_though_nothing_was_declared(
    ready: Grid, carried: dict[str, End]
) -> None:
    """The job works in the home of its account at delta; the account's other files stay there."""
    has_ended(carried["undeclared"], "4")
    has_ended(carried["long"])

    assert f"before\n/home/{ACCOUNT}\n" == here(ready, "undeclared", "cat out")
    assert "oops\n" == here(ready, "undeclared", "cat err; ls kept 2>/dev/null || :")
    assert "kept\n" == ready.sh(FAR, "cat kept && rm kept", user=ACCOUNT)
    assert "3000000" == here(ready, "long", "tr -d '\\n' <out | wc -c").strip()


def test_why_shows_the_path_of_output_that_does_not_come_home(ready: Grid, stays: str) -> None:
    ready.accounting(stays, limit_s=LONG_S)
    why = ready.on(HOME, "gridbridge", "why", stays, user="alice").out

    assert "the output stays at gamma-master in ~al_gamma/out and ~al_gamma/err" in why
    assert "" == here(ready, "stays", "cat out")
    assert "away\n" == ready.sh("gamma-master", "cat out && rm out err", user="al_gamma")


@pytest.fixture(scope="module")
def stays(ready: Grid, open_to_gamma: None) -> str:
    """Submit a job whose queue brings no output home, and return its id."""
    put(ready, "stays", "")
    where = ("-wd", "/home/alice/staged/stays", "-o", "out", "-e", "err", "-q", "transfer-gamma")
    with configured(ready, "/^\\[queue.transfer-gamma\\]/a staged = false"):
        job = ready.submit(*where, script="echo away\n")
        ready.until(lambda: f"gb.alpha.{job}." in ready.logged("released"), f"{job} to be there")
    return job


def test_a_queue_says_what_is_carried_for_jobs_that_declare_nothing(ready: Grid) -> None:
    """A job's own list replaces the queue's list, for inputs and outputs separately."""
    make, script = "echo usual >usual; echo own >own", "cat * >res; cat res\n"
    declared = {"usual": "", "own": "stage_in=own"}
    says = '/^\\[queue.transfer-delta\\]/a stage_in = "usual"\\nstage_out = "res"'
    with configured(ready, says):
        until_open(ready)
        jobs = {name: Job(before=make, script=script, declared=one) for name, one in declared.items()}
        for end in ends(ready, send_all(ready, jobs).values()).values():
            has_ended(end)

    for name in declared:
        assert f"{name}\n" * 2 == here(ready, name, "cat out res")


def test_files_are_staged_to_an_oar_cluster_as_well(ready: Grid, at_gamma: str) -> None:
    assert "3" == ready.accounting(at_gamma, limit_s=LONG_S)["exit_status"]
    assert ["one", "one"] == here(ready, "oar", "cat out b").split()
    assert "" == ready.sh("gamma-master", f"ls {STAGE}", user="al_gamma")


def test_output_comes_home_from_oar_without_declared_files(ready: Grid, undeclared_at_gamma: str) -> None:
    assert "0" == ready.accounting(undeclared_at_gamma, limit_s=LONG_S)["exit_status"]
    assert "there\n" == here(ready, "plain", "cat out")


@pytest.mark.parametrize(
    ("declared", "status", "told"),
    [
        ("stage_in=in", 0, f"-wd '~{ACCOUNT}/{STAGE}/gb.alpha.JOB.0.1/work'"),
        ("stage_in=in:a/in:a/in", 1, "stage_in: two paths have the same remote name 'a/in'"),
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
