"""make demo, its second part: a campaign fills alpha, beta and gamma beside local jobs.

Bob's jobs on the way displace best-effort tasks, which run again, and gamma can't be reached for a
while. The runner's cycles follow each other quickly meanwhile; what that changes is put back.
"""

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from grids import LAB
from screen import Bars

TASKS = 300
CLUSTERS = ("alpha", "beta", "gamma")
HOST, BETA, GAMMA = "alpha-master", "beta-master", "gamma-master"
LIMIT_S = 170
LOOK_S = 1.0
RUN = "sh -c 'test $1 -lt 36 && sleep 5 || sleep 1' sh"  # those that bob displaces take longer
MAY_WAIT = {"alpha": 3, "beta": 3, "gamma": 1}  # for each slot
PICTURE = Path(__file__).resolve().parent.parent / ".build" / "campaign.png"
TOML, KEPT = "/etc/gridbridge/gridbridge.toml", "/etc/gridbridge/gridbridge.toml.demo"
SETUP = "gridbridge setup besteffort beta"
PROGRAM = "/opt/gridbridge/bin/gridbridge-runner"
FIND = f"pgrep -u gridbridge -of '{PROGRAM} --loop'"
STOP = f"for n in 1 2 3 4 5 6 7 8 9 10; do {FIND} | xargs -r kill || break; sleep 0.5; done"
LOG = "/var/lib/gridbridge/runner.log"
START = f"setsid runuser -u gridbridge -- {PROGRAM} --loop >>{LOG} 2>&1 </dev/null &"
TO_GAMMA = "unreachable $(getent hosts gamma-master | cut -d ' ' -f 1)"
CUT, HEAL = f"ip route add {TO_GAMMA}", f"ip route del {TO_GAMMA}"
AT_GAMMA = 0.2  # of the tasks have ended: then it goes
BETA_SLOTS = 4  # when more tasks are there bob comes
BACK_S = 8.0  # gamma stays away for so long after the service has noticed it
PARALLEL = "qsub -terse -pe smp 2 -b y sleep 15"
ORDINARY = "qsub -terse -q all.q -t 1-2 -b y sleep 20"
OAR_JOB = "oarsub -l nodes=1,walltime=0:2:0 'sleep 20'"
NEXT = """
The lab and its campaign runner stay up. Go on by hand:
  lab/lab on alpha-master -u alice -- gridstat {number} -f
  lab/lab on alpha-master -u alice -- gridsub --array 1-100 -l h_rt=300 -- sleep 5
  lab/lab on alpha-master -u alice -- gridstat --watch"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The campaign as one look finds it."""

    state: str
    ended: int
    failed: int
    at: Mapping[str, int]  # tasks that ended, by cluster
    there: Mapping[str, int]  # tasks that wait or run there
    again: int  # tasks that were tried more than once
    is_gamma_away: bool  # as the service says


@dataclass(slots=True, kw_only=True)
class Story:
    """What is done on the way, each thing once."""

    done: list[str] = field(default_factory=list)
    job: str = ""  # bob's at beta
    asked_at: float = 0.0
    waited_s: float | None = None  # that job, until it ran
    is_cut: bool = False
    noticed_at: float = 0.0
    is_healed: bool = False


def play(tasks: int = TASKS) -> int:
    """Play it in the lab; return the exit status."""
    begun = time.monotonic()
    with _quick_cycles():
        number = _submit(tasks)
        story = Story()
        last = _follow(number, tasks, story)
        picture = _picture(number)
    wrong = _faults(last, story, tasks)
    _tell(last, story)
    for line in wrong:
        print(f"WRONG: {line}")
    print(f"{tasks} tasks, {len(wrong)} wrong, {time.monotonic() - begun:.0f} s")
    print(f"when which of them ended where: {picture}")
    print(NEXT.format(number=number))
    return 1 if wrong else 0


@contextmanager
def _quick_cycles() -> Iterator[None]:
    """Have best-effort queues at beta, a cycle each 5 s, and let more tasks wait."""
    _sh(f"[ ! -e {KEPT} ] || mv {KEPT} {TOML}; cp -p {TOML} {KEPT}; {STOP}; {SETUP} --apply")
    try:
        _sh(f"cat >{TOML}.new && mv {TOML}.new {TOML}; {START}", stdin=_quick(_sh(f"cat {TOML}")))
        yield
    finally:
        _sh(f"{HEAL} 2>/dev/null; {STOP}; mv {KEPT} {TOML}; {SETUP} --remove --apply; {START}")


def _quick(toml: str) -> str:
    toml = re.sub(r"(?ms)^(\[runner\]$.*?)^#?interval_s = \S+", r"\1interval_s = 5", toml, count=1)
    toml = re.sub(r"(?m)^\[campaigns\.\w+\]\n", "", re.sub(r"(?m)^flood_rate = .*\n", "", toml))
    return toml + "".join(
        f"\n[campaigns.{name}]\nflood_rate = {rate}\n" for name, rate in MAY_WAIT.items()
    )


def _submit(tasks: int) -> int:
    """Submit the campaign, and what runs beside it."""
    jdl = {
        "name": "demo",
        "nb_jobs": tasks,
        "walltime": "0:5",
        "exec_file": RUN,
        "exec_directory": "~",
        "clusters": {name: {} for name in CLUSTERS},
    }
    print(f"alice submits {tasks} best-effort tasks of 1 s to 5 s for {', '.join(CLUSTERS)}")
    told = _sh("gridsub -", user="alice", stdin=json.dumps(jdl))
    number = int(told.rpartition("CAMPAIGN_ID=")[2])
    print(f"as campaign {number}; bob has ordinary jobs of 20 s at alpha and gamma", flush=True)
    _sh(ORDINARY, user="bob")
    _sh(OAR_JOB, host=GAMMA, user="bo_gamma")
    return number


def _follow(number: int, tasks: int, story: Story) -> Look:
    """Look until the campaign has ended, show how far it is, and do what the story says."""
    bars, deadline = Bars(tasks, CLUSTERS), time.monotonic() + LIMIT_S
    try:
        while True:
            look = _look(number)
            _act(look, story, tasks)
            bars.show(look, story.done)
            if look.state != "in_treatment" or time.monotonic() > deadline:
                return look
            time.sleep(LOOK_S)  # the time between two pictures, not a wait for anything
    finally:
        bars.close()


def _look(number: int) -> Look:
    asked = f"gridstat {number} -f -d; echo ===; gridevents -g --json"
    found, _, events = _sh(asked, user="alice").partition("===\n")
    campaign = json.loads(found)
    jobs = campaign["jobs"]
    return Look(
        state=campaign["state"],
        ended=campaign["ended"],
        failed=campaign["failed"],
        at=Counter(one["cluster"] for one in jobs if one["state"] == "success"),
        there=Counter(one["cluster"] for one in jobs if one["state"] == "sent"),
        again=sum(one["attempt"] > 1 for one in jobs),
        is_gamma_away=any(one["cluster"] == "gamma" for one in json.loads(events or "[]")),
    )


def _act(look: Look, story: Story, tasks: int) -> None:
    """Let bob's job come to beta, then gamma go and come back."""
    now = time.monotonic()
    if not story.job and look.there.get("beta", 0) > BETA_SLOTS:
        story.job = _sh(PARALLEL, host=BETA, user="bob").strip()
        story.asked_at = now
        story.done.append(f"bob's job {story.job} at beta wants two slots of one host")
    elif story.job and story.waited_s is None and _runs(story.job):
        story.waited_s = now - story.asked_at
        story.done.append("it runs; the tasks that had its slots run again")
    if not story.is_cut and story.job and look.ended >= AT_GAMMA * tasks:
        _sh(CUT)
        story.is_cut = True
        story.done.append("gamma can't be reached any more")
    if story.is_cut and not story.noticed_at and look.is_gamma_away:
        story.noticed_at = now
        story.done.append("gridevents knows: GET_JOBS; the others go on")
    if story.noticed_at and not story.is_healed and now > story.noticed_at + BACK_S:
        _sh(HEAL)
        story.is_healed = True
        story.done.append("gamma can be reached again; what ended there meanwhile is counted")


def _runs(job: str) -> bool:
    """Say whether a job of bob's runs at beta, or has run."""
    rows = (line.split() for line in _sh("qstat -u bob", host=BETA).splitlines())
    return job not in [row[0] for row in rows if row and (len(row) < 5 or row[4] == "qw")]


def _picture(number: int) -> Path:
    """Have gridstat draw it, and bring the file to this machine."""
    name = f"/tmp/demo-{number}.png"
    _sh(f"gridstat {number} --plot {name}", user="alice")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(_run(HOST, "root", f"cat {name} && rm {name}", b""))
    return PICTURE


def _faults(last: Look, story: Story, tasks: int) -> list[str]:
    """Say what is not as it should be."""
    found = {
        f"the campaign is {last.state} after {LIMIT_S} s": last.state != "terminated",
        f"{last.ended} tasks ended, {last.failed} of them failed": last.ended - last.failed < tasks,
        f"no task succeeded at {', '.join(set(CLUSTERS) - last.at.keys())}": len(last.at) < 3,
        "no task made way and ran again": not last.again,
        "bob's job at beta never ran": story.waited_s is None,
        "nobody noticed that gamma was away": not story.noticed_at,
        "gamma stayed away": last.is_gamma_away,
    }
    return [words for words, is_so in found.items() if is_so]


def _tell(last: Look, story: Story) -> None:
    print()
    for name in CLUSTERS:
        print(f"{name:<6} {last.at.get(name, 0):>4} tasks succeeded")
    waited = "never ran" if story.waited_s is None else f"waited {story.waited_s:.0f} s"
    print(f"{last.again} tasks made way or were lost, and ran again; bob's job at beta {waited}")


def _sh(script: str, *, host: str = HOST, user: str = "root", stdin: str = "") -> str:
    return _run(host, user, script, stdin.encode()).decode()


def _run(host: str, user: str, script: str, stdin: bytes) -> bytes:
    argv: Sequence[str] = (LAB, "on", host, "-u", user, "--", "sh", "-c", script)
    done = subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, timeout=120, check=False)
    return done.stdout
