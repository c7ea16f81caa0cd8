"""Campaigns that run side by side, each for some of the tests, while their runner is killed."""

import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.lab.campaigns import runner
from tests.lab.grid import Done, Grid

AT = {"beta": (runner.HOST, "alice"), "gamma": ("gamma-master", "al_gamma")}
KILLS = 4
SLOTS, USUAL_SLOTS = 4, 2  # of each host of beta's
WAIT_S = 300
FOLDER = "~/campaigns"
BOTH: Mapping[str, Any] = {"beta": {}, "gamma": {}}
REFUSED: Mapping[str, Any] = {"beta": {"max_jobs": 1}, "gamma": {"queue": "nosuch"}}
BETA: Mapping[str, Any] = {"beta": {}}
UNTIL = "until [ -e {} ]; do sleep 0.2; done"
UNTIL_CHANGED, UNTIL_UNREADY, UNTIL_REFUSED = (
    f"sh -c '{UNTIL.format(name)}'" for name in ("changed", "unready", "refused")
)
PATIENT = "0:20"  # a walltime for what other tests are to let go
# Each attempt leaves a line. A task asks to run again at once, one at the end; one is killed by
# itself, and others fail, two of them with what would be an order to Grid Engine.
RUN = f"""sh -c '{UNTIL.format("both")}; echo "$1 $CIGRI_CLUSTER" >>ran
env | grep ^CIGRI_ >env.$1; cat "$CIGRI_NODE_FILE" >nodes.$1
case $1 in
again) case $(readlink /proc/$$/fd/1) in *.1.out) exit 66 ;; esac ;;
later) case $(readlink /proc/$$/fd/1) in *.1.out) exit 67 ;; esac ;;
fails) exit 3 ;;
ninety-nine) exit 99 ;;
hundred) exit 100 ;;
killed) kill -9 $$ ;;
esac' sh"""
FAILING = {"fails": "exit status 3", "ninety-nine": "exit status 99", "hundred": "exit status 100"}
TWICE = ("again", "later")
PLAIN = (*(f"plain-{n}" for n in range(7)), "odd $(touch evil)")
PARAMETERS = [*TWICE, *FAILING, "killed", *PLAIN]
ADDED = ["more", "0 again"]  # to that campaign
# Each notes when it begins and ends, too.
ONCE = """sh -c 'echo $CIGRI_JOB_ID >>once; echo $(date +%s%N) 1 >>busy; sleep 1
echo $(date +%s%N) -1 >>busy'"""
AT_ONCE = 4  # of its tasks, at each cluster: half of what beta has
# A task fails where the prologue has not ended, or the epilogue has run; all leave a line.
STEPS: Mapping[str, Any] = {
    "prologue": ["sleep 2", "echo prologue >>steps # once", "mkdir there-$CIGRI_CLUSTER"],
    "epilogue": ["rmdir there-$CIGRI_CLUSTER", "echo epilogue >>steps"],
}
STEP = "sh -c 'echo $CIGRI_JOB_ID >>steps; test -d there-$CIGRI_CLUSTER'"
ASKING: Mapping[str, Any] = {
    "beta": {"properties": "arch = lx-* OR arch = nosuch"},
    "gamma": {"properties": "type = 'default' AND (type = 'nosuch' OR network_address <> 'nowhere')"},
}
NOSUCH: Mapping[str, Any] = {name: {"properties": "nosuch = 1"} for name in BOTH}
SLEEPING: Mapping[str, Any] = {"beta": {"max_jobs": 2}, "gamma": {"max_jobs": 1}}
PROJECT = "gbtests"
WIDE_AT = {"resources": "/resource_id=2", "project": PROJECT}
WIDE = """sh -c 'echo $(wc -l <$CIGRI_NODE_FILE) $CIGRI_RESOURCES \
${NSLOTS-$(wc -l <$OAR_NODEFILE)} ${OAR_PROJECT_NAME-} >wide'"""
UNREADY: Mapping[str, Any] = {"beta": {"max_jobs": 1}, "gamma": {"prologue": "echo no room >&2; exit 3"}}
JOB = """#!/bin/sh
#$ -N users -t 10-19 -tc 12
#$ -l h_rt=0:5:0
echo "$SGE_TASK_ID of $SGE_TASK_LAST at $CIGRI_CLUSTER: $1"
sleep 2  # or Grid Engine's zero seconds beside OAR's own would make beta look like a sink
[ "$SGE_TASK_ID" != 13 ] || { echo "bad luck" >&2; exit 3; }
"""


def jdl(exec_file: str, clusters: Mapping[str, Any] = BOTH, **other: Any) -> dict[str, Any]:
    known = {"name": "tests", "type": "normal", "exec_file": exec_file, "walltime": "0:5"}
    return {**known, "exec_directory": FOLDER, "clusters": clusters, **other}


JDLS: Mapping[str, dict[str, Any]] = {
    "kinds": jdl(RUN, params=PARAMETERS),
    "once": jdl(ONCE, nb_jobs=40, max_jobs=AT_ONCE),
    "test": jdl("true", nb_jobs=9),
    "first": jdl("sh -c 'test $1 = 0 || sleep 600' sh", {"gamma": {}}, nb_jobs=2),
    "sleeping": jdl("sleep 600", SLEEPING, nb_jobs=40, epilogue="echo after >>cancelled"),
    "changed": jdl(UNTIL_CHANGED, BETA, nb_jobs=4, max_jobs=1, walltime=PATIENT),
    "typo": jdl("sh -c 'echo what is that >&2; exit 3'", BETA, nb_jobs=60),
    "steps": jdl(STEP, ASKING, nb_jobs=12, **STEPS),
    "asking": jdl("true", NOSUCH, nb_jobs=4),
    "unready": jdl(UNTIL_UNREADY, UNREADY, nb_jobs=2, walltime=PATIENT),
    "refused": jdl(UNTIL_REFUSED, REFUSED, nb_jobs=4, walltime=PATIENT),
    "overrun": jdl("sleep 900", nb_jobs=1, walltime="0:0:20"),
    "wide": jdl(WIDE, dict.fromkeys(BOTH, WIDE_AT), nb_jobs=2),
}
OPTIONS = {"test": ("-t", "test"), "wide": ("-t", "test")}
ADD_PROJECT = f"""
printf 'name {PROJECT}\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n' >/tmp/project
qconf -sprj {PROJECT} >/dev/null 2>&1 || qconf -Aprj /tmp/project
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    numbers: Mapping[str, int]
    clusters: str
    _waited: Future[Done]

    def waited(self) -> Done:
        return self._waited.result()


def bring(grid: Grid) -> Brought:
    """Submit all campaigns, and kill the runner and root's helper again and again.

    The first two campaigns have more tasks than beta has slots, so that each has tasks at both clusters.
    """
    clear(grid)
    _make_folders(grid)
    grid.sh("beta-master", ADD_PROJECT)
    have_slots(grid, SLOTS)
    before = max((one["number"] for one in runner.campaigns(grid)), default=0)
    threads = ThreadPoolExecutor(1 + len(JDLS))
    waited = threads.submit(_wait_as_user, grid)
    numbers = {"users": grid.until(lambda: _after(grid, before), "the user's to be there")}
    _until_at_both(grid, numbers["users"])
    numbers["kinds"] = _submit(grid, "kinds")
    _until_at_both(grid, numbers["kinds"])
    clusters = grid.on(runner.HOST, "gridclusters", "--json", user="bob").out
    for host, user in AT.values():
        grid.sh(host, f"touch {FOLDER}/both", user=user)
    others = [name for name in JDLS if name not in numbers]
    numbers |= zip(others, threads.map(partial(_submit, grid), others), strict=True)
    added = threads.submit(_add, grid, numbers["once"])
    _kill(grid, numbers["once"])
    assert added.result().status == 0, added.result()
    _change(grid, numbers["changed"])
    return Brought(numbers=numbers, clusters=clusters, _waited=waited)


def _submit(grid: Grid, name: str) -> int:
    return runner.submit(grid, JDLS[name], *OPTIONS.get(name, ()))


def _add(grid: Grid, number: int) -> Done:
    argv = ("gridsub", "-c", str(number), "-J", json.dumps(ADDED))
    return grid.on(runner.HOST, *argv, user="alice", timeout_s=200)


def clear(grid: Grid) -> None:
    have_slots(grid, USUAL_SLOTS)
    runner.end_all(grid)
    for host, user in AT.values():
        grid.sh(host, f"rm -rf {FOLDER} ~/campaign.* ~/users", user=user)
    grid.sh("beta-master", f"qconf -dprj {PROJECT} >/dev/null 2>&1; :")


def _make_folders(grid: Grid) -> None:
    for host, user in AT.values():
        grid.sh(host, f"mkdir {FOLDER} ~/users", user=user)
    grid.sh(runner.HOST, f"cat >~/users/job.sh <<'end'\n{JOB}end", user="alice")


def _wait_as_user(grid: Grid) -> Done:
    argv = ("gridsub", "--wait", "--clusters", "beta,gamma", "users/job.sh", "it's $HOME")
    return grid.on(runner.HOST, *argv, user="alice", timeout_s=WAIT_S)


def have_slots(grid: Grid, slots: int) -> None:
    grid.sh("beta-master", f"qconf -rattr queue slots {slots} all.q")


def _after(grid: Grid, before: int) -> int:
    return max((n for one in runner.campaigns(grid) if (n := one["number"]) > before), default=0)


def _until_at_both(grid: Grid, number: int) -> None:
    both = {*BOTH}
    grid.until(lambda: runner.clusters_of(grid, number) == both, f"{number} to be at both", runner.CAMPAIGN_S)


def _change(grid: Grid, number: int) -> None:
    grid.until(lambda: runner.jobs_of(grid, number), "a task to be sent", runner.CAMPAIGN_S)
    grid.sh(runner.HOST, f"echo 4 >>/var/spool/gridbridge/campaigns/c.{number}", user="alice")
    grid.sh(runner.HOST, f"touch {FOLDER}/changed", user="alice")


def _kill(grid: Grid, number: int) -> None:
    """Kill the runner while it submits, releases and polls, and root's helper as well."""
    for kill in range(KILLS):
        seen = runner.published(grid, number)["ended"]
        grid.sh(runner.HOST, f"{runner.FIND} | xargs -r kill -9")
        if kill % 2:
            grid.sh(runner.HOST, "pgrep -of '[g]ridbridge-as-user .*-array' | xargs -r kill -9")
        runner.start(grid)
        grid.until(
            lambda: runner.published(grid, number)["ended"] > seen,  # noqa: B023 - it is asked at once
            "more tasks to end",
            runner.CAMPAIGN_S,
        )
