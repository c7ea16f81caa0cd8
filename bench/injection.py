"""Tasks a second into real Grid Engine and OAR, beside the same arrays submitted by hand.

On the lab's alpha-master: gridbridge-as-user submits an array held, and releases it, as the runner
has it do: with root's ledger, its own ssh, and the script with every task's parameters. By hand it
is `qsub -h` and `qalter -h U`, and at gamma `oarsub --hold` and `oarresume`, by one ssh each, as
the same person. Both sides' arrays are of one size, in turns, and are deleted at once.
"""

import json
import subprocess
from statistics import median

from bench.rows import Row
from bench.site import HOST
from tests.lab.campaigns.runner import start
from tests.lab.grid import Grid

SIZE = {"beta": 1000, "gamma": 30}  # tasks of an array
TURNS = 4
LEAST = 0.9
FIRST = {"beta": 1000, "gamma": 2000}  # numbers of arrays: the runner's own are lower
SENT = 100  # so many tasks may have been sent before the campaign was paused
LIMIT_S = 500

MEASURE = """
import json, os, pwd, subprocess, sys, time
cluster, number, size, turns, first, begin = sys.argv[1], *map(int, sys.argv[2:])
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
    low = begin + turn * size
    words = (f"c.{number}", cluster, str(first + turn))
    run((*helper, "submit-array", *words, f"{low}-{low + size - 1}:1"))
    run((*helper, "release-array", *words))
    return lambda: run((*helper, "delete-array", *words))

def plain(turn):
    if cluster == "beta":
        qsub = f"qsub -terse -h -N plain -o /dev/null -j y -t 1-{size}"
        given = f"export {cell}; cd /tmp; job=$(echo true | {qsub})"
        run((*person, f"{given} && qalter -h U ${{job%%.*}} >/dev/null"))
        return lambda: run((*person, f"export {cell}; qdel -u alice; :"))
    asked = f"{there} oarsub --hold --array {size} -l nodes=1,walltime=0:5:0 true"
    job = run((*person, f"{asked} | sed -n s/OAR_ARRAY_ID=//p")).strip()
    run((*person, f"{there} oarresume --array {job}"))
    return lambda: run((*person, f"{there} oardel --array {job}"))

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
    """Measure both clusters."""
    grid = Grid()
    start(grid)
    number = _campaign(grid)
    try:
        begins = (SENT, SENT + TURNS * SIZE["beta"])
        of = zip(SIZE, begins, strict=True)
        return [_row(grid, cluster, number, begin) for cluster, begin in of]
    finally:
        grid.on(HOST, "griddel", str(number), user="alice", timeout_s=200)


def _campaign(grid: Grid) -> int:
    """Bring a campaign of which the runner sends nothing: it is paused at once."""
    jdl = {"name": "injected", "nb_jobs": SENT + TURNS * sum(SIZE.values()), "type": "normal"}
    clusters: dict[str, dict[str, str]] = {name: {} for name in SIZE}
    text = json.dumps({**jdl, "exec_file": "true", "walltime": "0:5", "clusters": clusters})
    done = grid.on(HOST, "gridsub", "-", user="alice", stdin=text, timeout_s=200)
    number = int(done.out.rpartition("CAMPAIGN_ID=")[2])
    grid.on(HOST, "griddel", "-p", str(number), user="alice", timeout_s=200)
    return number


def _row(grid: Grid, cluster: str, number: int, begin: int) -> Row:
    size = SIZE[cluster]
    words = [cluster, *map(str, (number, size, TURNS, FIRST[cluster], begin))]
    try:
        done = grid.on(HOST, "python3", "-c", MEASURE, *words, timeout_s=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise SystemExit(f"{cluster}: nothing within {LIMIT_S} s") from error
    if done.status:
        raise SystemExit(done.err)
    took = json.loads(done.out)
    ours, plain = (size / median(took[name]) for name in ("ours", "plain"))
    return Row(
        what=f"tasks injected into {cluster}",
        measured=ours / plain,
        unit=f"times ({ours:.0f}/s)",
        limit=LEAST,
        baseline=plain,
        is_least=True,
    )
