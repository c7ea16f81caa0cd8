"""Tasks a second into real Grid Engine and OAR, beside the same arrays submitted by hand.

On the lab's alpha-master: one call of gridbridge-as-user submits some arrays held, notes them in
root's ledger and releases them, as the runner has it do, with the script that has every task's
parameters. By hand the same person has one shell, or one ssh to gamma, for as many arrays:
`qsub -h` and `qalter -h U`, or `oarsub --hold` and `oarresume`, of each array after the other, with
a script of one line. Both sides' arrays are of one size, in turns, and are deleted at once. The
fastest turn of each side counts, for other work on the machine only adds to it.
"""

import json
import subprocess

from bench.brief import sized
from bench.rows import Row
from bench.site import HOST
from tests.lab.campaigns.runner import start
from tests.lab.grid import Grid

SIZE = {"beta": 1000, "gamma": 30}  # tasks of an array
AT_ONCE = sized((1, 5, 20), (1, 20))  # arrays of a call; a cycle sends twenty of a campaign to a cluster at most
TURNS = sized(5, 1)
LEAST = {1: 0.2, 20: 0.9}  # of by hand, by arrays of a call: one bears all that a call costs
FIRST = {"beta": 1000, "gamma": 5000}  # numbers of arrays: the runner's own are lower
SENT = 100  # so many tasks may have been sent before the campaign was paused
LIMIT_S = 500

MEASURE = """
import json, os, pwd, subprocess, sys, time
cluster, number, size, turns, most, first, begin = sys.argv[1], *map(int, sys.argv[2:])
helper = ("sudo", "-n", "/opt/gridbridge/bin/gridbridge-as-user")
person = ("sh", "-c")
cell = "PATH=$PATH:/usr/lib/gridengine SGE_CELL=beta SGE_QMASTER_PORT=6454 SGE_EXECD_PORT=6455"
there = "ssh -o BatchMode=yes al_gamma@gamma-master"

def run(argv):
    who = pwd.getpwnam("alice" if argv[0] == "sh" else "gridbridge")
    groups = os.getgrouplist(who.pw_name, who.pw_gid)
    ids = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": groups}
    env = {**os.environ, "HOME": who.pw_dir, "USER": who.pw_name}
    done = subprocess.run(argv, capture_output=True, text=True, cwd=who.pw_dir, env=env, **ids)
    if done.returncode:
        sys.exit(f"{argv}: {done.stdout} {done.stderr}")
    return done.stdout

def ours(turn):
    numbers = range(first + turn * most, first + turn * most + most)
    lows = [begin + (one - first) * size for one in numbers]
    tasks = [f"{low}-{low + size - 1}:1" for low in lows]
    words = (f"c.{number}", cluster)
    pairs = [word for pair in zip(map(str, numbers), tasks) for word in pair]
    told = run((*helper, "send-arrays", *words, *pairs)).splitlines()
    if [line.split()[0] for line in told] != ["0"] * most:
        sys.exit(f"{pairs}: {told}")
    return lambda: [run((*helper, "delete-array", *words, str(one))) for one in numbers]

def plain(turn):
    if cluster == "beta":
        qsub = f"qsub -terse -h -N plain -o /dev/null -j y -t 1-{size}"
        once = f"job=$(echo true | {qsub}) && qalter -h U ${{job%%.*}} >/dev/null"
        run((*person, f"export {cell}; cd /tmp; for one in {places}; do {once} || exit; done"))
        return lambda: run((*person, f"export {cell}; qdel -u alice; :"))
    oarsub = f"oarsub --hold --array {size} -l nodes=1,walltime=0:5:0 true"
    once = f"job=$({oarsub} | sed -n s/OAR_ARRAY_ID=//p) && oarresume --array $job >&2 && echo $job"
    jobs = run((*person, f"{there} 'for one in {places}; do {once}; done'")).split()
    return lambda: run((*person, f"{there} oardel --array {' '.join(jobs)}"))

places = " ".join(map(str, range(most)))
took = {"ours": [], "plain": []}
for turn in range(turns):
    for name, act in (("ours", ours), ("plain", plain)):
        began = time.monotonic()
        undo = act(turn)
        took[name].append(time.monotonic() - began)
        undo()
print(json.dumps(took))
"""


def rows() -> list[Row]:
    """Measure submission at both clusters."""
    grid = Grid()
    start(grid)
    number = _campaign(grid)
    begin, found = SENT, []
    try:
        for cluster, size in SIZE.items():
            first = FIRST[cluster]
            for most in AT_ONCE:
                found.append(_row(grid, cluster, number, most, first, begin))
                first, begin = first + TURNS * most, begin + TURNS * most * size
    finally:
        grid.on(HOST, "griddel", str(number), user="alice", timeout_s=200)
    return found


def _campaign(grid: Grid) -> int:
    """Submit a campaign of which the runner sends no task, because it is paused at once."""
    jdl = {"name": "injected", "nb_jobs": SENT + TURNS * sum(AT_ONCE) * sum(SIZE.values()), "type": "normal"}
    clusters: dict[str, dict[str, str]] = {name: {} for name in SIZE}
    text = json.dumps({**jdl, "exec_file": "true", "walltime": "0:5", "clusters": clusters})
    done = grid.on(HOST, "gridsub", "-", user="alice", stdin=text, timeout_s=200)
    number = int(done.out.rpartition("CAMPAIGN_ID=")[2])
    grid.on(HOST, "griddel", "-p", str(number), user="alice", timeout_s=200)
    return number


def _row(grid: Grid, cluster: str, number: int, most: int, first: int, begin: int) -> Row:
    size = SIZE[cluster]
    words = [cluster, *map(str, (number, size, TURNS, most, first, begin))]
    try:
        done = grid.on(HOST, "python3", "-c", MEASURE, *words, timeout_s=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise SystemExit(f"{cluster}: nothing within {LIMIT_S} s") from error
    if done.status:
        raise SystemExit(done.err)
    took = json.loads(done.out)
    ours, plain = (most * size / min(took[name]) for name in ("ours", "plain"))
    return Row(
        what=f"tasks injected into {cluster}, {most} arrays of {size} a call",
        measured=ours / plain,
        unit=f"times ({ours:.0f}/s)",
        limit=LEAST.get(most),
        baseline=plain,
        is_least=True,
        needs_whole=True,
    )
