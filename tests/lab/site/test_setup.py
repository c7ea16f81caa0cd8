"""gridbridge setup makes a working transfer queue, makes no change twice, and can be undone."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from gridbridge.site.cli.setup_command import TO_GO_ON
from tests.lab.grid import Grid
from tests.lab.site.test_service_setup import killed_once

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

MASTER = "alpha-master"
TOML = "/etc/gridbridge/gridbridge.toml"
SETUP = "gridbridge setup transfer beta"
FAR_OUT = """
for far in delta gamma; do gridbridge setup transfer $far --remove --apply || exit; done
"""
FAR_IN = """
gridbridge setup transfer delta --apply; qconf -rattr queue seq_no 200 transfer-delta
gridbridge setup transfer gamma --apply; qconf -rattr queue seq_no 300 transfer-gamma
"""
FOUR = f"{SETUP} --slots 4 --apply"
REMOVE = f"{SETUP} --remove --apply"
JOBS = "job_load_adjustments"
PATHS = "PATH=$PATH:/usr/lib/gridengine; cd /tmp;"
DUMP = """
PATH=$PATH:/usr/lib/gridengine; export SGE_SINGLE_LINE=1
beta() { SGE_CELL=beta SGE_QMASTER_PORT=6454 SGE_EXECD_PORT=6455 "$@"; }
for what in -sc -ssconf -sconf '-sconf alpha-master' -sql '-sq all.q' -so -sm -ss -sh; do
    qconf $what 2>&1
done
qconf -se alpha-master | grep -o 'gb_[a-z_]*'
for what in -sc -ssconf -sconf -so -sm -ss -sh; do beta qconf $what 2>&1; done
grep . /etc/gridbridge/gridbridge.toml
"""
DEFAULTS = """
qconf -ssconf | sed -e 's/^queue_sort_method .*/queue_sort_method load/' \
    -e 's/^load_adjustment_decay_time .*/load_adjustment_decay_time 0:7:30/' >s; qconf -Msconf s
"""


@pytest.fixture(scope="module")
def site(grid: Grid) -> Iterator[Grid]:
    grid.sh(MASTER, "gridbridge setup host --apply")
    grid.sh(MASTER, f"cp -p {TOML} {TOML}.kept")
    clear(grid)
    grid.sh(MASTER, FAR_OUT)
    grid.sh(MASTER, REMOVE)
    yield grid
    grid.sh(MASTER, f"mv {TOML}.kept {TOML} && {SETUP} --apply")
    grid.sh(MASTER, f"{PATHS} {FAR_IN}")
    grid.switch("-d")
    until_open(grid)


@pytest.fixture
def bare(site: Grid) -> Iterator[Grid]:
    site.sh(MASTER, f"{PATHS} {DEFAULTS}")
    yield site
    clear(site)
    site.sh(MASTER, REMOVE)


@pytest.fixture(scope="class")
def built(site: Grid) -> Iterator[Grid]:
    site.sh(MASTER, f"{PATHS} {DEFAULTS}")
    site.sh(MASTER, FOUR)
    yield site
    site.sh(MASTER, REMOVE)


@pytest.fixture
def four(built: Grid) -> Iterator[Grid]:
    """Return the built site without jobs, once its queue is open."""
    until_open(built)
    yield built
    clear(built)


def clear(grid: Grid) -> None:
    grid.sh(MASTER, f"{PATHS} qmod -e all.q; qdel -u '*'; true")
    grid.until(lambda: not grid.states(), "all jobs to leave", 60)


def until_open(grid: Grid) -> None:
    command = "PATH=$PATH:/usr/lib/gridengine; qstat -f -q transfer-beta | grep ^transfer"
    grid.until(lambda: len(grid.on(MASTER, "sh", "-c", command).out.split()) == 5, "transfer-beta to be open", 60)


def queue_of(grid: Grid, job: str) -> str:
    return grid.accounting(job)["qname"]


class TestFourSlots:
    def test_a_job_goes_where_its_request_for_remote_sends_it(self, four: Grid) -> None:
        sent = four.submit("-l", "remote=true", "-b", "y", "true")
        kept = four.submit("-l", "remote=false", "-b", "y", "true")

        assert queue_of(four, sent) == "transfer-beta"
        assert queue_of(four, kept) == "all.q"

    def test_a_job_that_may_not_leave_waits_while_home_is_closed(self, four: Grid) -> None:
        four.cell("alpha", "qmod", "-d", "all.q", user="root")
        kept = four.submit("-l", "remote=false", "-b", "y", "true")
        free = four.submit("-b", "y", "true")

        assert queue_of(four, free) == "transfer-beta"
        assert four.states() == {kept: "qw"}

    def test_a_free_slot_at_home_is_used_first(self, four: Grid) -> None:
        jobs = [four.submit("-b", "y", "sleep", "1") for _ in range(3)]

        assert [queue_of(four, job) for job in jobs] == ["all.q"] * 3

    def test_a_repeated_setup_changes_nothing(self, four: Grid) -> None:
        before = four.sh(MASTER, DUMP)

        said = four.sh(MASTER, FOUR)

        assert said == "nothing to do\n"
        assert four.sh(MASTER, DUMP) == before

    def test_a_setup_of_another_cluster_changes_only_what_it_needs(self, four: Grid) -> None:
        shown = four.sh(MASTER, "gridbridge setup transfer delta --slots 4")
        others = [line for line in previewed_lines(shown, "transfer-delta") if "delta" not in line]

        assert {re.split("[ =]", line[1:])[0] for line in others} <= {"slots", "pending_limit", "entries", JOBS}
        assert "queue all.q" not in shown
        assert shown.endswith("\nrestarts: nothing\n" + TO_GO_ON + "\n")

    def test_removing_is_refused_while_jobs_are_in_the_queue(self, four: Grid) -> None:
        job = four.submit("-l", "remote=true", "-b", "y", "sleep", "300")
        four.until(lambda: "r" in four.states().get(job, ""), "the job to be sent")

        done = four.on(MASTER, *REMOVE.split())

        told = done.err.splitlines()
        assert (done.status, len(told)) == (2, 2)
        assert all("transfer-beta" in line for line in told)

    def test_removing_a_missing_queue_is_an_error(self, four: Grid) -> None:
        done = four.on(MASTER, *f"{REMOVE} --queue nosuch".split())

        told = "gridbridge: queue nosuch: no such transfer queue; expected one of: transfer-beta\n"
        assert (done.status, done.out, done.err) == (2, "", told)


def test_jobs_that_were_just_sent_count_as_waiting_there(bare: Grid) -> None:
    """Without damping all slots would fill at once, before the sensor reports the new jobs."""
    bare.sh(MASTER, f"{SETUP} --slots 12 --pending-limit 2 --apply")
    until_open(bare)

    bare.submit("-l", "remote=true", "-t", "1-12", "-b", "y", "sleep", "300")
    bare.until(lambda: [s for s in bare.states().values() if "r" in s], "a task to be sent")
    running = [state for state in bare.states().values() if "r" in state]

    assert 1 <= len(running) <= 4


# lines of DUMP that are no setting: heads of tables, messages, reported values, names of queues
UNSHOWN = re.compile(
    "|#-.*|#name .*|#alpha-master:|configuration .* not defined|no .* defined|gb_[a-z_]+|transfer-beta"
)


def changed_lines(before: str, after: str) -> list[str]:
    """Return the lines that only one of two dumps has, each with its sign and with single blanks."""
    old, new = (
        Counter(line for raw in dump.split("\n") if not UNSHOWN.fullmatch(line := " ".join(raw.split())))
        for dump in (before, after)
    )
    return sorted((*(f"-{line}" for line in (old - new).elements()), *(f"+{line}" for line in (new - old).elements())))


def previewed_lines(shown: str, queue: str = "transfer-beta") -> list[str]:
    """Return the changed lines that setup has shown, without those of the transfer queue, which DUMP leaves out."""
    blocks = shown.partition("\n\n")[2].rpartition("\n\n")[0].split("\n--- ")
    lines = (line for block in blocks if f"queue {queue}" not in block for line in block.split("\n")[2:])
    return sorted(line for line in lines if line[0] in "+-" and line[1:])


def test_setup_makes_the_changes_it_shows_and_removing_leaves_no_trace(bare: Grid) -> None:
    """Both cells and gridbridge.toml, with its comments, are as they were."""
    before = bare.sh(MASTER, DUMP)
    shown = bare.sh(MASTER, SETUP)
    unchanged = bare.sh(MASTER, DUMP)
    bare.sh(MASTER, f"{SETUP} --apply")
    made = bare.sh(MASTER, DUMP)
    until_open(bare)

    shown_removal = bare.sh(MASTER, f"{SETUP} --remove --dry-run")
    bare.sh(MASTER, f"{SETUP} --remove --apply")

    after = bare.sh(MASTER, DUMP)
    assert unchanged == before
    assert "\nrestarts: sge_execd on alpha-master; its jobs continue\n" in shown
    assert previewed_lines(shown) == changed_lines(before, made)
    assert previewed_lines(shown_removal) == changed_lines(made, after)
    assert changed_lines(before, after) == []


@pytest.mark.long
def test_a_killed_setup_and_a_killed_removal_are_completed_by_the_next_run(bare: Grid) -> None:
    before = bare.sh(MASTER, DUMP)
    bare.sh(MASTER, f"{PATHS} {killed_once(f'{SETUP} --apply', 'qconf -sc | grep -q ^gb_beta_up')}")
    partial = bare.sh(MASTER, SETUP)
    bare.sh(MASTER, f"{SETUP} --apply")
    whole = bare.sh(MASTER, SETUP)
    bare.sh(MASTER, f"{PATHS} {killed_once(REMOVE, '! qconf -sql | grep -q transfer-beta')}")
    bare.sh(MASTER, REMOVE)

    assert "in this order:" in partial
    assert whole == "nothing to do\n"
    assert changed_lines(before, bare.sh(MASTER, DUMP)) == []


@pytest.mark.long
def test_setup_prints_a_script_that_makes_the_same_changes(bare: Grid) -> None:
    bare.sh(MASTER, f"{SETUP} --script >/tmp/script && sh -e /tmp/script")
    until_open(bare)

    assert bare.sh(MASTER, f"{SETUP} --script") == "# nothing to do\n"


@pytest.mark.long
def test_an_existing_load_sensor_stays(bare: Grid) -> None:
    other = "/usr/local/sbin/other-sensor"
    script = f"""{PATHS}
cat >{other} <<'END'
#!/bin/sh
while read -r ask; do
    [ "$ask" = quit ] && exit
    printf 'begin\\nend\\n'
done
END
chmod 755 {other}; echo 'load_sensor {other}' >{MASTER}; qconf -Aconf {MASTER}"""
    bare.sh(MASTER, script)
    try:
        bare.sh(MASTER, f"{SETUP} --apply")
        listed = bare.sh(MASTER, f"{PATHS} SGE_SINGLE_LINE=1 qconf -sconf {MASTER} | grep ^load_sensor").split()[1]

        bare.sh(MASTER, f"{SETUP} --remove --apply")
        left = bare.sh(MASTER, f"{PATHS} SGE_SINGLE_LINE=1 qconf -sconf {MASTER} | grep ^load_sensor").split()[1]
    finally:
        bare.sh(MASTER, f"{PATHS} qconf -dconf {MASTER}; rm {other}")

    assert listed == f"{other},/opt/gridbridge/sge-methods/sensor"
    assert left == other


def test_short_jobs_have_a_tenth_of_the_slots_and_no_limit(bare: Grid) -> None:
    bare.sh(MASTER, f"{SETUP} --short-jobs --apply")

    queue = bare.sh(MASTER, f"{PATHS} qconf -sq transfer-beta | grep -E '^(slots|load_thr)'").split()

    assert queue == ["load_thresholds", "gb_beta_up=false", "slots", "1"]


@pytest.mark.parametrize("option", ["", " --remove"])
def test_an_ordinary_queue_is_neither_changed_nor_removed(option: str, site: Grid) -> None:
    done = site.on(MASTER, "sh", "-c", f"{SETUP} --queue all.q{option}")

    assert (done.status, done.out) == (2, "")
    assert done.err == "gridbridge: queue all.q: not a transfer queue; expected another --queue\n"


def test_an_unknown_cluster_is_an_error_of_one_line(site: Grid) -> None:
    done = site.on(MASTER, "gridbridge", "setup", "transfer", "nowhere")

    assert (done.status, done.out) == (2, "")
    assert done.err == f"gridbridge: {TOML}: no [cluster.nowhere]; expected one of: alpha, beta, delta, gamma\n"
