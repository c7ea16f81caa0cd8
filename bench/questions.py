"""How often three programs query the lab's beta and gamma, for 10 and 1,000 tasks.

Programs that note their calls lie over the clients for a while: over `qstat` and `grep`, which
looks for ends in beta's accounting file, on the transfer host, and over `oarstat` on gamma's
frontend. What is counted is each question for the status of all jobs, each about ends, and each
about what lives of arrays that no list has and no record tells of, for a minute; 1,000 tasks wait
and run on 100 slots at beta, and on those that gamma has. However many they are, a cluster is asked
for its status once an interval of the poller's, by whoever of poller, runner and nikita needs it,
about ends once a cycle of the runner's (OAR in portions of 300 places), and about what lives once
at most: where nothing is lost nobody asks that.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.brief import sized
from bench.harvest import MANY, slots
from bench.rows import Row
from bench.site import POLLER
from tests.lab.campaigns.runner import HOST, start, stop, submit
from tests.lab.gamma import FAR
from tests.lab.grid import Grid

FOLDER = "/opt/gb-bench-asked"
CALLS = f"{FOLDER}/calls"
WATCHED_S = sized(60.0, 30.0)
PAUSE_S = 10.0  # for the first tasks to be sent
FEW_TASKS, MANY_TASKS = 10, sized(1000, 200)
STATUS_S, CYCLE_S = 5.0, 15.0  # interval_s of [poller] and of [runner], as the lab has them
CYCLES = WATCHED_S / CYCLE_S + 1  # at both ends of it
MOST = {"status": WATCHED_S / STATUS_S + 1, "ends": CYCLES, "living": CYCLES}
PROGRAMS = {
    HOST: ("/usr/lib/gridengine/qstat", "/usr/lib/gridengine/qacct", "/usr/bin/grep"),
    FAR: ("/usr/bin/oarstat",),
}
QUESTIONS = {  # cell, and a pattern of the call's first words, by host, cluster and kind of question
    (HOST, "beta", "status"): ("beta", "qstat -s a -F"),
    (HOST, "beta", "ends"): ("beta", "grep -aF"),
    (HOST, "beta", "ends, one array"): ("beta", "qacct -j"),
    (HOST, "beta", "living"): ("beta", "qstat -j"),
    (FAR, "gamma", "status"): ("", "oarstat --format 1 --sql "),
    (FAR, "gamma", "ends"): ("", r"oarstat -f -J --sql \(array_id"),
    (FAR, "gamma", "ends, one array"): ("", "oarstat -f -J --array"),
    (FAR, "gamma", "living"): ("", r"oarstat -f -J --sql array_id IN \([^)]*\) AND state NOT IN"),
}
CALLER = {"poller": POLLER, "runner": "gridbridge-runner", "nikita": "gridbridge-nikita"}
NIKITA = "/opt/gridbridge/bin/gridbridge-nikita --loop"
FIND_NIKITA = f"pgrep -u gridbridge -of '{NIKITA}'"
LOG = "/var/lib/gridbridge/nikita.log"
OVER = f"""
set -e
mkdir -p {FOLDER}
: >>{CALLS}
chmod 666 {CALLS}
for real in %s; do
    name=$(basename $real)
    cp -p $real {FOLDER}/$name
    cat >{FOLDER}/$name.sh <<END
#!/bin/sh
echo "\\$SGE_CELL \\$(tr '\\\\0' ' ' </proc/\\$PPID/cmdline) -- $name \\$*" >>{CALLS}
exec {FOLDER}/$name "\\$@"
END
    chmod 755 {FOLDER}/$name.sh
    mount --bind {FOLDER}/$name.sh $real
done
"""


def rows() -> list[Row]:
    """Count the queries for few and for many tasks."""
    grid = Grid()
    with _counting(grid), slots(grid, MANY):
        few, many = _calls(grid, FEW_TASKS), _calls(grid, MANY_TASKS)
    return [
        Row(
            what=f"{what}, {MANY_TASKS} tasks",
            measured=count,
            unit="/min",
            limit=MOST.get(what.partition(" ")[0]),
            baseline=few[what],
        )
        for what, count in many.items()
    ]


def _calls(grid: Grid, tasks: int) -> dict[str, float]:
    """Return the queries of each kind in a minute, while so many tasks are at both clusters."""
    runs = "sleep 20" if tasks == MANY_TASKS else "sleep 300"
    jdl = {"name": "asked", "nb_jobs": tasks, "exec_file": runs, "walltime": "0:10"}
    jdl |= {"type": "normal"}
    campaigns = [submit(grid, jdl | {"clusters": {name: {}}}) for name in ("beta", "gamma")]
    time.sleep(PAUSE_S)
    for host in PROGRAMS:
        grid.sh(host, f": >{CALLS}")
    time.sleep(WATCHED_S)
    found = _counted({host: grid.sh(host, f"cat {CALLS}").splitlines() for host in PROGRAMS})
    grid.on(HOST, "griddel", *map(str, campaigns), user="alice", timeout_s=200)
    return found


def _counted(noted: dict[str, list[str]]) -> dict[str, float]:
    """Count the queries of each kind, in total and by caller.

    The caller of a query at gamma's frontend can't be identified.
    """
    found: dict[str, float] = {}
    for (host, cluster, what), (cell, words) in QUESTIONS.items():
        callers = CALLER if host == HOST else {"all": ""}
        together = f"{what.partition(',')[0]} of {cluster}"
        for who, program in callers.items():
            count = sum(_is_of(line, cell, program, words) for line in noted[host])
            found[together] = found.get(together, 0) + count
            found[f"  {what} of {cluster} by {who}"] = count
    return found


def _is_of(line: str, cell: str, program: str, words: str) -> bool:
    caller, _, called = line.rpartition(" -- ")
    return bool(re.match(words, called)) and caller.startswith(cell) and program in caller


@contextmanager
def _counting(grid: Grid) -> Iterator[None]:
    for host, programs in PROGRAMS.items():
        grid.sh(host, OVER % " ".join(programs))
    stop(grid)
    start(grid)
    grid.sh(HOST, f"setsid runuser -u gridbridge -- {NIKITA} >>{LOG} 2>&1 </dev/null &")
    grid.until(lambda: grid.on(HOST, "sh", "-c", FIND_NIKITA).status == 0, "nikita to run")
    try:
        yield
    finally:
        grid.sh(HOST, f"{FIND_NIKITA} | xargs -r kill")
        for host, programs in PROGRAMS.items():
            grid.sh(host, f"umount {' '.join(programs)}; rm -rf {FOLDER}")
