"""make demo PART=rebalance: tasks that wait at full beta go where room is, and data leaves gamma.

Bob's jobs fill alpha and beta, so alice's tasks cross and wait at beta. A round of rebalancing
moves them to clusters that have room, where each runs once. Then gamma is drained: a replica that
lies there is made elsewhere before it goes. What the demo changes of gridbridge.toml is put back.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Sequence

from stages import BETA, HOST, TOML, concluded, fetched, keep, sh

KEPT = f"{TOML}.rebalance"
PLOT = "/tmp/demo-rebalance.png"
PNG = b"\x89PNG"
TASKS, TASK_S = 2, 5  # delta has as many slots
FULL_S = 120  # bob's jobs, which are deleted before
SLOTS = 4  # of alpha, and of beta
LIMIT_S = 60
LOOK_S = 0.5
DATASET = "demo-reads"
NEEDS = """\
This part of the demo needs root on Debian 12, for it moves tasks between clusters of the lab;
docs/how-to/lab.md says more. Nothing was done."""
AT_ONCE = (
    *("least_wait_s = 0", "host_rest_s = 0", "job_rest_s = 0", "replicated_rest_s = 0"),
    *("full_free_bytes = 0", "level = 0", "disk_share = 1.0"),  # all areas lie on one disk
)
FILL = f"qsub -terse -N bobs -q all.q -t 1-{SLOTS} -b y -o /dev/null -j y sleep {FULL_S}"
SUBMIT = "qsub -terse -b y -o /dev/null -j y sh -c"
MADE = f"""mkdir -p {DATASET} && cd {DATASET}
for n in 1 2 3; do head -c 500000 /dev/urandom >$n.fa; done"""
NEXT = """
The lab stays up. Go on by hand:
  lab/lab on alpha-master -- gridbridge rebalance plan
  lab/lab on alpha-master -u alice -- gridbridge data add reads FOLDER --replicas 2"""


def play() -> int:
    """Play it in the lab; return the exit status."""
    begun = time.monotonic()
    keep(KEPT)
    rules = "\\n".join(AT_ONCE)
    names = "|".join(rule.partition(" ")[0] for rule in AT_ONCE)
    sh(rf"sed -i -E '/^({names}) = /d; s/^\[rebalance\]$/&\n{rules}/' {TOML}")
    try:
        wrong = [*_tasks(), *_data()]
        picture = fetched(PLOT, "rebalance.png")
    finally:
        sh(f"mv {KEPT} {TOML}; gridbridge undrain gamma >/dev/null 2>&1; rm -f {PLOT}")
    wrong += [] if picture.read_bytes().startswith(PNG) else ["there is no picture"]
    shown = f"disk and load of each host before and after: {picture}"
    return concluded(f"{TASKS} tasks and 1 dataset", wrong, begun, shown, NEXT)


def _tasks() -> list[str]:
    """Have alice's tasks wait at beta and be moved; return what is wrong."""
    _say(f"bob's jobs fill alpha and beta; alice submits {TASKS} tasks, which cross to beta")
    sh("qmod -d transfer-delta")
    fills = [(host, sh(FILL, host=host, user="bob").partition(".")[0]) for host in (HOST, BETA)]
    try:
        _until(lambda: all(_running(host) == SLOTS for host, _ in fills), "both clusters are full")
        sent = [f"{SUBMIT} 'sleep {TASK_S}; exit {n}'" for n in range(1, TASKS + 1)]
        jobs = [sh(one, user="alice").strip() for one in sent]
        _until(lambda: _plan(jobs) == TASKS, "all of them wait at beta, and delta has no work")
        sh("qmod -e transfer-delta")
        _until(lambda: "transfer-delta" in sh("gridbridge status | grep yes"), "delta is open")
        _say(sh("gridbridge rebalance fail beta --apply").partition("\n")[0])
        _until(lambda: not set(jobs) & set(_listed()), "alice's tasks have ended")
    finally:
        for host, job in fills:
            sh(f"qdel {job}", host=host, user="bob")
        sh("qmod -e transfer-delta")
    return [fault for n, job in enumerate(jobs, 1) if (fault := _fault(job, n))]


def _data() -> list[str]:
    """Have a dataset's replica leave a cluster that is drained; return what is wrong."""
    sh(MADE, user="alice")
    try:
        _say(sh(f"gridbridge data add {DATASET} {DATASET} --replicas 2", user="alice"))
        sh(f"gridbridge data replicate {DATASET} --to gamma-data", user="alice")
        sh(f"gridbridge data drop {DATASET} --storage beta-data 2>/dev/null", user="alice")
        _say("gamma is drained")
        sh("gridbridge drain gamma --reason demo")
        sh(f"gridbridge rebalance plan --plot {PLOT}")
        _say(json.loads(sh("gridbridge rebalance data --apply --json"))["sentence"])
        told = json.loads(sh(f"gridbridge data verify {DATASET} --json", user="alice"))
        whole = sorted(one["storage"] for one in told["replicas"] if one["whole"])
        _say(f"{DATASET} is whole in {' and '.join(whole)}")
    finally:
        sh(f"gridbridge data drop {DATASET} --lost; rm -r {DATASET}", user="alice")
    is_right = len(whole) == 2 and "gamma-data" not in whole
    return [] if is_right else [f"{DATASET} is whole in {' '.join(whole)}"]


def _say(words: str) -> None:
    print(words.strip(), flush=True)


def _until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for something, or end the demo."""
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        if time.monotonic() > deadline:
            sys.exit(f"make demo: not within {LIMIT_S} s: {what}")
        time.sleep(LOOK_S)  # the time between two looks, not a wait for anything


def _running(host: str) -> int:
    """Return how many of bob's jobs run on a cluster."""
    return sum(row[4:5] == ["r"] for row in map(str.split, sh("qstat -u bob", host=host).split("\n")))


def _plan(jobs: Sequence[str]) -> int:
    """Return how many of the jobs a round would look at."""
    told = json.loads(sh("gridbridge rebalance fail beta --json"))
    known = {one["job"] for one in (*told["moves"], *told["rejected"])}
    return len(known & {f"gb.alpha.{job}" for job in jobs})


def _listed() -> list[str]:
    return [row.split()[0] for row in sh("qstat -u alice").splitlines() if row[:1].isspace()]


def _fault(job: str, status: int) -> str:
    """Say what is wrong with the end of a task; empty when nothing is."""
    record = sh(f"qacct -j {job}", user="alice")
    ended = re.findall(r"^exit_status +(\d+)", record, re.MULTILINE)
    if ended[-1:] != [str(status)]:
        return f"job {job} ended with {' '.join(ended) or 'nothing'}, not {status}"
    why = sh(f"gridbridge why {job}", user="alice")
    return "" if "rebalanced" in why else f"job {job} was not moved: {why}"
