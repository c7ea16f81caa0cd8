"""make demo PART=elastic: alpha's queue fills, alpha grows from two hosts to five, and shrinks.

The balancer's rounds follow each other at once meanwhile, and nodes are given back after seconds;
what that changes of gridbridge.toml is put back. The machines come from the lab's power service.
"""

import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stages import TOML, concluded, fetched, keep, sh

ACCOUNT = "gridbridge-admin"
BALANCE = "/opt/gridbridge/bin/gridbridge-balance"
HOME = f"/var/lib/{ACCOUNT}"
KEPT = f"{TOML}.elastic"
RENT = f"{HOME}/demo.rent"  # the program that makes machines
STATS, PLOTS, LOG = f"{HOME}/demo.csv", f"{HOME}/demo.plots", f"{HOME}/demo.log"
ROUND = f"setpriv --reuid {ACCOUNT} --regid {ACCOUNT} --init-groups {BALANCE} --apply -D {STATS}"
SHOWN = "num_hosts"  # the picture that is named
PNG = b"\x89PNG"
OWN, MOST = 2, 5  # hosts of alpha's queue
TASKS, TASK_S = 30, 6
LIMIT_S = 180
LOOK_S = 0.5
NONE = "no gridbridge-balance is installed in the lab: nothing was done"
NEEDS = """\
This part of the demo needs root on Debian 12, for its nodes are hosts of the lab, in namespaces of
this machine; docs/how-to/lab.md says more. Nothing was done."""
SECTIONS = f"""
[balance]
max_nodes = {MOST + 1}
min_nodes = {OWN + 1}

[demand]
idle_timeout_s = 2.0
shrink_pause_s = 0.0
retry_s = 0.0

[bootstrap]
steps = "names people mounts execd"
people = "alice bob"
mounts = "{HOME}/demo.mounts"
user = "gridadm"
key = "{HOME}/demo.key"

[provider.rental]
program = "{RENT}"
timeout_s = 10.0

[pool.rented]
provider = "rental"
slots = 2
boot_s = 5.0
"""
PREPARE = f"""set -e
gridbridge setup balance --apply >/dev/null
cd {HOME}
rm -rf demo.*
install -m 600 -o {ACCOUNT} /etc/gridlab/gridadm.key demo.key
install -m 600 -o {ACCOUNT} /etc/gridlab/power-token demo.token
printf '#!/bin/sh\\nGRIDLAB_TOKEN={HOME}/demo.token exec /opt/gridlab/power-node "$@"\\n' >{RENT}
chmod 755 {RENT}
for folder in /home /opt/gridbridge /var/lib/gridengine/alpha/common; do
    echo "/export$folder $folder none bind 0 0"
done >demo.mounts
"""
CLEAR = f"gridbridge setup balance --remove --apply >/dev/null 2>&1; rm -rf {HOME}/demo.*"
NEXT = """
The lab stays up. Go on by hand:
  lab/lab on alpha-master -- gridbridge balance plan
  lab/lab on alpha-master -- gridbridge metrics
  lab/lab nodes"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The state of alpha at one poll."""

    waiting: int  # tasks
    running: int
    hosts: int  # of its queue, that work


@dataclass(slots=True, kw_only=True)
class Story:
    """Observations during the demo."""

    most_hosts: int = 0
    fewest_after: int | None = None  # once no task was left
    failed: list[str] = field(default_factory=list)  # rounds
    left: list[str] = field(default_factory=list)  # nodes that were not given back


def play() -> int:
    """Play the elastic part in the lab; return the exit status."""
    if sh(f"[ -x {BALANCE} ] || echo no"):
        print(f"make demo: {NONE}", file=sys.stderr)
        return 2
    begun = time.monotonic()
    _prepare()
    try:
        job = _submit()
        story = _follow(job)
        picture = _picture()
    finally:
        sh(f"mv {KEPT} {TOML}; {CLEAR}")
    wrong = faults(story, _ends(job), picture)
    return concluded(f"{TASKS} tasks", wrong, begun, f"how many hosts there were when: {picture}", NEXT)


def with_sections(toml: str) -> str:
    """Return a configuration with the demo's sections instead of its own."""
    kept = re.sub(r"(?ms)^\[(?:balance|demand|bootstrap|(?:pool|provider)\.[^]]+)\]\n.*?(?=^\[|\Z)", "", toml)
    return kept.rstrip("\n") + "\n" + SECTIONS


def _prepare() -> None:
    """Set the balancer up, after restoring what a killed demo left."""
    keep(KEPT)
    sh(PREPARE)
    sh(f"cat >{TOML}.new && mv {TOML}.new {TOML}", stdin=with_sections(sh(f"cat {TOML}")))


def _submit() -> str:
    print(f"alice submits {TASKS} tasks of {TASK_S} s; alpha has {OWN} hosts, and may have {MOST}",
          flush=True)  # fmt: skip
    asked = f"qsub -terse -q all.q -t 1-{TASKS} -b y -o /dev/null -j y sleep {TASK_S}"
    return sh(asked, user="alice").partition(".")[0]


def _follow(job: str) -> Story:
    """Run rounds until no task is left and alpha has only its own hosts; print changes."""
    story, begun, said = Story(), time.monotonic(), ""
    while time.monotonic() < begun + LIMIT_S:
        told = sh(f"{ROUND} 2>{LOG}; echo $?").splitlines()
        if told[-1:] != ["0"]:
            story.failed.append("; ".join((*told, sh(f"tail -n 3 {LOG}"))))
        now = look(sh("qstat -g d -u alice; echo ===; qstat -f -q all.q"), job)
        if (words := _words(now, told)) != said:
            print(f"{time.monotonic() - begun:4.0f} s  {words}", flush=True)
        said = words
        story.most_hosts = max(story.most_hosts, now.hosts)
        if not now.waiting and not now.running:
            story.fewest_after = min(story.fewest_after or now.hosts, now.hosts)
            if story.fewest_after <= OWN and not _nodes():
                break
        time.sleep(LOOK_S)  # the time between two rounds, not a wait for anything
    story.left = _nodes()
    return story


def _nodes() -> list[str]:
    """Return the names of the balancer's nodes that are not gone."""
    told = json.loads(sh("gridbridge balance status --json"))
    return [one["name"] for one in told["nodes"]]


def look(listed: str, job: str) -> Look:
    """Return how many tasks of a job wait and run, and which hosts of the queue work."""
    tasks, _, queues = listed.partition("===\n")
    states = [row[4] for row in map(str.split, tasks.splitlines()) if row[:1] == [job]]
    instances = [row for row in map(str.split, queues.splitlines()) if row and "all.q@" in row[0]]
    return Look(
        waiting=sum("q" in state for state in states),
        running=sum("q" not in state for state in states),
        hosts=sum(len(row) < 6 or not set(row[5]) & set("duE") for row in instances),
    )


def faults(story: Story, ends: Sequence[tuple[str, str]], picture: Path) -> list[str]:
    """Return what went wrong."""
    killed = [host for host, status in ends if status != "0"]
    found = {
        f"alpha had {story.most_hosts} hosts at most, not {MOST}": story.most_hosts != MOST,
        f"tasks were left after {LIMIT_S} s": story.fewest_after is None,
        f"alpha was left with {story.fewest_after} hosts, not {OWN}": story.fewest_after != OWN,
        f"{len(ends)} of {TASKS} tasks ended": len(ends) != TASKS,
        f"tasks did not end well at {', '.join(sorted(set(killed)))}": bool(killed),
        f"a round failed: {''.join(story.failed[:1])}": bool(story.failed),
        "there is no picture": not picture.read_bytes().startswith(PNG),
        f"the balancer has nodes left: {' '.join(story.left)}": bool(story.left),
    }
    return [words for words, is_so in found.items() if is_so]


def _words(now: Look, told: Sequence[str]) -> str:
    sentence = told[0] if told[1:] else ""
    counts = f"{now.waiting} tasks wait, {now.running} run on {now.hosts} hosts"
    return f"{counts}: {sentence}" if sentence else counts


def _ends(job: str) -> list[tuple[str, str]]:
    """Return the host and the exit status of each task, by accounting."""
    record = sh(f"qacct -j {job}", user="alice")
    hosts = re.findall(r"^hostname +(\S+)", record, re.MULTILINE)
    return list(zip(hosts, re.findall(r"^exit_status +(\d+)", record, re.MULTILINE), strict=True))


def _picture() -> Path:
    """Draw the rounds on the lab host and copy the picture to this machine."""
    sh(f"gridbridge balance plot --stats {STATS} --output-dir {PLOTS}")
    return fetched(f"{PLOTS}/{SHOWN}.png", "elastic.png")
