"""How often the lab's beta is asked while poller and runner run, with 10 tasks and with 1,000.

Programs that note their calls stand in the place of beta's clients for a while. What is counted is
`qstat` for the status of all jobs, and `qacct`, which tells of ends, for each minute; 1,000 tasks
are one array that waits and runs on 100 slots.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.harvest import MANY, slots
from bench.rows import Row
from bench.site import CONFIG, POLLER, Site
from tests.lab.campaigns.runner import HOST, start, stop, submit
from tests.lab.grid import Grid

FOLDER, CALLS = "/opt/gb-bench-asked", "/tmp/gb-bench-asked"
WATCHED_S = 60.0
FEW_TASKS, MANY_TASKS = 10, 1000
PROGRAM = {"status": "qstat -s a -F", "ends": "qacct"}
CALLER = {"poller": POLLER, "runner": "gridbridge-runner"}
COUNTING = f"""
set -e
mkdir -p {FOLDER}
ln -sf /usr/lib/gridengine/* {FOLDER}/
for name in qstat qacct; do
    rm {FOLDER}/$name
    cat >{FOLDER}/$name <<END
#!/bin/sh
echo "\\$(cat /proc/\\$PPID/cmdline | tr '\\\\0' ' ') -- $name \\$*" >>{CALLS}
exec /usr/lib/gridengine/$name "\\$@"
END
    chmod 755 {FOLDER}/$name
done
: >{CALLS}
chmod 666 {CALLS}
cp -p {CONFIG} {CONFIG}.bench
sed -i '/^.cluster.beta.$/a binaries = "{FOLDER}"' {CONFIG}
"""


def rows() -> list[Row]:
    """Count with few tasks and with many."""
    grid = Grid()
    with _counting(grid), slots(grid, MANY):
        few, many = _calls(grid, FEW_TASKS), _calls(grid, MANY_TASKS)
    return [
        Row(
            what=f"{word} by the {who} a minute, {MANY_TASKS} tasks",
            measured=many[who, word],
            unit="calls",
            baseline=few[who, word],
        )
        for who in CALLER
        for word in PROGRAM
    ]


def _calls(grid: Grid, tasks: int) -> dict[tuple[str, str], float]:
    """Return the calls of each service by kind, for a minute, while so many tasks are there."""
    runs = "sleep 20" if tasks == MANY_TASKS else "sleep 300"
    jdl = {"name": "asked", "nb_jobs": tasks, "exec_file": runs, "walltime": "0:10"}
    number = submit(grid, jdl | {"type": "normal", "clusters": {"beta": {}}})
    grid.sh(HOST, f": >{CALLS}")
    time.sleep(WATCHED_S)
    lines = grid.sh(HOST, f"cat {CALLS}").splitlines()
    grid.on(HOST, "griddel", str(number), user="alice", timeout_s=200)
    return {
        (who, word): sum(_is_of(who, words, line) for line in lines)
        for who in CALLER
        for word, words in PROGRAM.items()
    }


def _is_of(who: str, words: str, line: str) -> bool:
    caller, _, called = line.partition(" -- ")
    return called.startswith(words) and CALLER[who] in caller


@contextmanager
def _counting(grid: Grid) -> Iterator[None]:
    grid.sh(HOST, COUNTING)
    _begin_anew(grid)
    try:
        yield
    finally:
        grid.sh(HOST, f"mv {CONFIG}.bench {CONFIG}; rm -rf {FOLDER}")
        _begin_anew(grid)


def _begin_anew(grid: Grid) -> None:
    """Have both services read the configuration."""
    Site()._restart_poller()
    stop(grid)
    start(grid)
