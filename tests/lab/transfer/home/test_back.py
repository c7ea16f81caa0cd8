"""Transfer queues in both directions: a job crosses at most once, never loops, and runs exactly once."""

from dataclasses import dataclass
from uuid import uuid4

import pytest

from tests.lab.abreast import abreast as abreast
from tests.lab.away import QUIET, full, lines, wait_for, why
from tests.lab.configured import configured
from tests.lab.grid import OTHER, Grid, between

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

SIXTEEN = 16  # tasks that find the other cluster full
MANY = 10  # jobs each way; each cluster has 4 slots
RAN = "echo $JOB_ID $HOSTNAME >>$JOB_NAME.ran; sleep 1; exit 3\n"
QUICK = r"/^\[queue.transfer-beta\]/a recall_wait_s = 10"
HOMES = pytest.mark.parametrize("home", ["alpha", "beta"])
# accounting(5): name, account, failed; rescheduled ones have failed 24 and 25
ENDS = "awk -F: '$5 == \"{name}\" && $12 != 24 && $12 != 25 {{ print $7 }}' $SGE_ROOT/{cell}/common/accounting"
ENDED_IN = (  # of beta, every queue that a transfer of a job of alpha's was in
    "awk -F: '$7 ~ /^gb[.]alpha[.]{job}[.]/ {{ print $1 }}' $SGE_ROOT/beta/common/accounting"
)


@pytest.fixture(autouse=True, scope="module")
def _open_with_fresh_notes(grid: Grid, open_back: None) -> None:
    grid.sh("alpha-master", "rm -f *.ran back.*", user="alice")


def cross(grid: Grid, home: str, name: str, *options: str, script: str = RAN) -> str:
    """Submit a job to the transfer queue; return its id."""
    queue = f"transfer-{OTHER[home]}"
    return grid.submit("-N", name, "-q", queue, *QUIET, *options, cluster=home, script=script)


def end_of(grid: Grid, job: str, cluster: str) -> str:
    """Wait for a job's end and return its exit status; the end of a rescheduled run does not count."""
    record = grid.accounting_of_end(job, 120, cluster)
    return record["exit_status"].split()[0]


def is_marked(grid: Grid, job: str, cluster: str) -> bool:
    """Say whether a job waits again after a transfer queue marked it."""
    told = grid.cell(cluster, "qstat", "-j", job).out
    waits = "r" not in grid.states(cluster).get(job, "")
    return waits and "this job came from another cluster" in told and "remote=false" in told


def asked(grid: Grid, job: str, cluster: str) -> list[str]:
    """Return a job's hard requests of queues and resources."""
    told = grid.cell(cluster, "qstat", "-j", job).out.splitlines()
    return [row.split()[-1] for row in told if row.startswith(("hard_queue", "hard resource"))]


@pytest.mark.usefixtures("abreast")
@HOMES
def test_a_job_crosses_and_its_end_status_and_output_come_back(grid: Grid, home: str) -> None:
    away = OTHER[home]
    script = 'echo "$1 on $HOSTNAME"; echo oops >&2; exit 7\n'
    files = ("-o", f"back.{home}.out", "-e", f"back.{home}.err")
    job = grid.submit(*("-N", "back", "-q", f"transfer-{away}", *files), cluster=home, script=script)

    record = grid.accounting(job, home)

    assert (record["exit_status"], record["failed"]) == ("7", "0")
    assert record["qname"] == f"transfer-{away}"
    assert [host.split("-n")[0] for host in lines(grid, files[1])] == [f" on {away}"]
    assert lines(grid, files[3]) == ["oops"]
    remote = grid.accounting(grid.remote_id(job, home), away)
    assert (remote["account"], remote["qname"]) == (f"gb.{home}.{job}.0.1", "all.q")


@pytest.mark.usefixtures("abreast")
@HOMES
def test_a_job_deleted_at_home_is_deleted_at_the_remote_cluster(grid: Grid, home: str) -> None:
    job = cross(grid, home, "gone", script="sleep 300\n")
    remote = grid.remote_id(job, home)
    wait_for(grid, remote, "r", OTHER[home], limit_s=90)

    grid.cell(home, "qdel", job)

    grid.until_gone(job, home)
    grid.until_gone(remote, OTHER[home])


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A job that waited at the other cluster; `before` is its output at that time."""

    job: str
    remote: str
    asked: list[str]
    before: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """Jobs that found the other cluster full; `hops` has one job for each home."""

    hops: dict[str, Kept]
    recalled: Kept
    many: str  # an array of SIXTEEN
    by_queue: Kept  # sent while beta's own queue said nothing of `remote`
    bounced: str  # at beta, of a site that knows nothing of its queue back


@pytest.fixture(scope="module")
def full_clusters(grid: Grid) -> Full:
    """Send jobs while both clusters are full; then free alpha, so that one job is recalled, then beta."""
    until_known(grid, "all_say=yes")
    with configured(grid, QUICK), full(grid, "beta"):
        job = grid.overflow("-N", "recalled", *QUIET, script=RAN)
        many = cross(grid, "alpha", "many", "-t", f"1-{SIXTEEN}")
        crossed = cross(grid, "alpha", "hop-alpha")
        alien = ("-N", "alien", "-A", "gb.gone.7.0.1", *QUIET)
        bounced = grid.submit(*alien, cluster="beta", script=RAN)
        with full(grid, "alpha"):
            hops = {"beta": kept(grid, cross(grid, "beta", "hop-beta"), "beta", "hop-beta")}
            hops["alpha"] = kept(grid, crossed, "alpha", "hop-alpha")
            recalled = kept(grid, job, "alpha", "recalled")
            grid.until(lambda: is_marked(grid, bounced, "beta"), f"{bounced} to be marked")
            by_queue = sent_to_silent_queue(grid)
        end_of(grid, job, "alpha")
    return Full(hops=hops, recalled=recalled, many=many, by_queue=by_queue, bounced=bounced)


def sent_to_silent_queue(grid: Grid) -> Kept:
    """Send a job while beta's own queue does not define `remote`."""
    change = ("queue", "complex_values", "remote=FALSE", "all.q")
    with between(lambda way: grid.cell("beta", "qconf", way, *change, user="root"), "-dattr", "-aattr"):
        until_known(grid, "queues=all.q")
        return kept(grid, cross(grid, "alpha", "by-queue"), "alpha", "by-queue")


def until_known(grid: Grid, last: str) -> None:
    """Wait until alpha's starters know whether beta's queues define `remote`."""
    path = "/var/lib/gridbridge/published/stays/beta"
    grid.until(lambda: grid.on("alpha-master", "cat", path).out.splitlines()[-1:] == [last], last, 30)


def kept(grid: Grid, job: str, home: str, name: str) -> Kept:
    remote, away = grid.remote_id(job, home), OTHER[home]
    wait_for(grid, remote, "qw", away)
    words = asked(grid, remote, away)
    return Kept(job=job, remote=remote, asked=words, before=lines(grid, f"{name}.ran"))


@HOMES
def test_a_job_that_finds_the_other_cluster_full_waits_there_and_is_not_sent_back(
    grid: Grid, full_clusters: Full, home: str
) -> None:
    """The open transfer queue there takes no such job: the remote job requests the other queues."""
    away, hop = OTHER[home], full_clusters.hops[home]
    job, remote = hop.job, hop.remote
    status = end_of(grid, job, home)
    end_of(grid, remote, away)

    assert (hop.before, hop.asked, status) == ([], ["remote=false"], "3")
    assert [line.partition("-n")[0] for line in lines(grid, f"hop-{home}.ran")] == [f"{job} {away}"]
    assert grid.remote_ids(job, home) == [remote]
    assert grid.remote_ids(remote, away) == []
    assert [one["qname"] for one in grid.records(job, home)] == [f"transfer-{away}"]
    records = [(one["qname"], one["failed"].split()[0]) for one in grid.records(remote, away)]
    assert records == [("all.q", "0")]


@pytest.mark.long
def test_no_job_at_a_full_cluster_starts_in_its_transfer_queue_back(grid: Grid, full_clusters: Full) -> None:
    grid.until_gone(full_clusters.many, limit_s=120)
    told = ENDED_IN.format(job=full_clusters.many)
    grid.until(lambda: len(grid.sh("alpha-master", told).split()) >= SIXTEEN, "their records", 30)

    assert grid.sh("alpha-master", told).split() == ["all.q"] * SIXTEEN


def test_jobs_request_queues_by_name_where_a_queue_does_not_define_remote(grid: Grid, full_clusters: Full) -> None:
    hop = full_clusters.by_queue
    status = end_of(grid, hop.job, "alpha")

    assert (hop.asked, status) == (["all.q"], "3")
    assert grid.accounting(hop.remote, "beta")["qname"] == "all.q"
    assert len(grid.records(hop.remote, "beta")) == 1


def test_a_job_that_a_transfer_brought_is_marked_by_a_queue_back(grid: Grid, full_clusters: Full) -> None:
    """The site of such a job has an older service, or its service does not know the queue yet."""
    job = full_clusters.bounced
    end_of(grid, job, "beta")
    records = [(one["qname"], one["failed"].split()[0]) for one in grid.records(job, "beta")]

    assert records == [("transfer-alpha", "25"), ("all.q", "0")]


@HOMES
def test_slots_of_a_transfer_queue_back_are_no_free_slots(grid: Grid, home: str) -> None:
    """Each cluster has 4 own slots and no jobs, and its transfer queue is open."""
    away = OTHER[home]

    def shown() -> list[list[str]]:
        rows = map(str.split, grid.on(f"{home}-master", "gridbridge", "status").out.splitlines())
        return [row[:4] for row in rows if row[:1] == [away]]

    assert grid.is_open(away)
    grid.until(lambda: shown() == [[away, "yes", "0", "4"]], f"{away} to show 4 free slots", 30)


def test_a_job_that_was_kept_from_going_back_can_still_be_recalled(grid: Grid, full_clusters: Full) -> None:
    """The job comes home by its own transfer, not through the other cluster's queue."""
    job, remote = full_clusters.recalled.job, full_clusters.recalled.remote

    assert end_of(grid, job, "alpha") == "3"
    assert "recalled from beta" in why(grid, job)
    assert [line.partition("-n")[0] for line in lines(grid, "recalled.ran")] == [f"{job} alpha"]
    assert grid.remote_ids(remote, "beta") == []


@pytest.mark.usefixtures("abreast")
@pytest.mark.parametrize("asks", [True, pytest.param(False, marks=pytest.mark.long)], ids=["sent away", "free to go"])
def test_many_jobs_each_way_at_once_run_once_each_with_one_hop_at_most(grid: Grid, asks: bool) -> None:
    names = {home: f"{home}{uuid4().hex[:8]}" for home in OTHER}
    jobs = {home: flood(grid, home, names[home], asks) for home in OTHER}
    statuses = {end_of(grid, job, home) for home in OTHER for job in jobs[home]}
    for cluster in OTHER:  # a job ends at home before the other cluster accounts for it
        grid.until(lambda c=cluster: not grid.states(c), f"{cluster} to list no job")

    assert statuses == {"3"}
    for home, away in OTHER.items():
        name, own = names[home], jobs[home]
        there = ends(grid, name, away)
        assert sorted(line.split()[0] for line in lines(grid, f"{name}.ran")) == sorted(own)
        assert len(own) == MANY
        assert len(there) == len(set(there))
        assert set(there) <= {f"gb.{home}.{job}.0.1" for job in own}
        assert set(ends(grid, name, home)) == {"sge"}
        assert len(there) == MANY if asks else there


def flood(grid: Grid, home: str, name: str, asks: bool) -> list[str]:
    """Submit many jobs; with `asks`, the jobs request the transfer queue."""
    queue = ("-q", f"transfer-{OTHER[home]}") if asks else ()
    options = ("-terse", "-N", name, *queue, *QUIET)
    line = f"for n in $(seq {MANY}); do qsub {' '.join(options)} <<'END'\n{RAN}END\ndone"
    return grid.cell(home, "sh", "-c", line).out.split()


def ends(grid: Grid, name: str, cluster: str) -> list[str]:
    out = grid.sh("alpha-master", ENDS.format(name=name, cell=cluster))
    return out.split()
