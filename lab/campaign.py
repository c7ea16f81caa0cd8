"""The second part of make demo: a campaign fills alpha, beta and gamma beside local jobs.

Each task reads a file, which gamma gets before its tasks start, and its result comes home.
Somebody's jobs on the way displace best-effort tasks, which run again, and gamma does not answer
for a while. The runner's cycles follow each other quickly meanwhile; what that changes is put back.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from screen import Bars
from stages import CLUSTERS, Stage, concluded

TASKS = 300
LIMIT_S = 600  # a busy machine takes several times the 100 s of an idle one
LOOK_S = 1.0
HOME_S = 120.0  # after the end results may still come home that gamma could not give
LONG = 'test "$CIGRI_CLUSTER" = beta && test $1 -lt 100'  # there they make way, so they take longer
RUN = f"sh -c '{LONG} && sleep 5 || sleep 1; tr a-z A-Z <parts/$1.txt >results/$1.txt' sh"
MAY_WAIT = {"alpha": 6, "beta": 6, "gamma": 2}  # for each slot
AT_GAMMA = 0.2  # of the tasks have ended: then it goes
BETA_SLOTS = 4  # when more tasks are there somebody comes
BACK_S = 8.0  # gamma stays away for so long after the service has noticed it


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The state of the campaign at one poll."""

    state: str
    ended: int
    failed: int
    at: Mapping[str, int]  # tasks that ended, by cluster
    there: Mapping[str, int]  # tasks that wait or run there
    again: int  # tasks that were tried more than once
    is_gamma_away: bool  # as the service says
    home: int  # results at home


@dataclass(slots=True, kw_only=True)
class Story:
    """The events of the demo's campaign, each at most once."""

    done: list[str] = field(default_factory=list)
    job: str = ""  # somebody's at beta
    asked_at: float = 0.0
    waited_s: float | None = None  # that job, until it ran
    is_cut: bool = False
    noticed_at: float = 0.0
    is_healed: bool = False
    are_files_told: bool = False


def play(stage: Stage, tasks: int = TASKS) -> int:
    """Play the campaign; return the exit status."""
    begun = time.monotonic()
    with stage.quick_cycles(MAY_WAIT):
        number = _submit(stage, tasks)
        story = Story()
        last = _await_results(stage, number, tasks, _follow(stage, number, tasks, story))
        picture = stage.picture(number)
    wrong = _faults(stage, last, story, tasks, picture)
    _tell(stage, last, story)
    shown = f"when which of them ended where: {picture}"
    if last.state != "terminated":
        late = f"{last.ended} of {tasks} tasks have ended; {stage.late.format(number=number)}"
        wrong = [f"the campaign has not finished after {LIMIT_S} s: {late}"]
    return concluded(f"{tasks} tasks", wrong, begun, shown, stage.next.format(number=number))


def _submit(stage: Stage, tasks: int) -> int:
    """Submit the campaign and the local jobs beside it."""
    parts = f"for n in $(seq 0 {tasks - 1}); do echo part $n >$n.txt; done"
    stage.run(f"rm -rf {stage.files} && mkdir -p {stage.files}/parts && cd {stage.files}/parts && {parts}")
    jdl = {
        "name": "demo",
        "nb_jobs": tasks,
        "walltime": "0:5",
        "exec_file": RUN,
        "exec_directory": stage.directory,
        "inputs": [f"{stage.files}/./parts/{{}}.txt"],
        "outputs": ["results/{}.txt"],
        "outputs_to": stage.files,
        "clusters": {name: {} for name in CLUSTERS},
    }
    places = ", ".join(CLUSTERS)
    print(f"{stage.person} submits {tasks} best-effort tasks of 1 s to 5 s for {places}")
    print(f"in {stage.files} each task reads a file of parts, and its result comes home to results;")
    print(stage.read_words)
    told = stage.run("$BIN gridsub -", stdin=json.dumps(jdl))
    number = int(told.rpartition("CAMPAIGN_ID=")[2])
    print(f"as campaign {number}; {stage.other} has ordinary jobs of 20 s at alpha and gamma",
          flush=True)  # fmt: skip
    stage.fill()
    return number


def _follow(stage: Stage, number: int, tasks: int, story: Story) -> Look:
    """Poll until the campaign has ended, show its progress, and run the story's events."""
    bars, deadline = Bars(tasks, CLUSTERS), time.monotonic() + LIMIT_S
    try:
        while True:
            look = _look(stage, number)
            _act(stage, look, story, tasks)
            bars.show(look, story.done)
            if look.state != "in_treatment" or time.monotonic() > deadline:
                return look
            time.sleep(LOOK_S)  # the time between two pictures, not a wait for anything
    finally:
        bars.close()


def _await_results(stage: Stage, number: int, tasks: int, last: Look) -> Look:
    """Poll until all results are home that tasks of an ended campaign left."""
    deadline = time.monotonic() + HOME_S
    while last.state == "terminated" and last.home < tasks and time.monotonic() < deadline:
        time.sleep(LOOK_S)
        last = _look(stage, number)
    return last


def _look(stage: Stage, number: int) -> Look:
    results = f"cat {stage.files}/results/*.txt 2>/dev/null | grep '^PART [0-9]*$' | sort -u | wc -l"
    asked = f"$BIN gridstat {number} -f -d; echo ===; $BIN gridevents -g --json; echo ===; {results}"
    found, events, home = stage.run(asked).split("===\n")
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
        home=int(home),
    )


def _act(stage: Stage, look: Look, story: Story, tasks: int) -> None:
    """Submit another user's job to beta, then cut gamma off and reconnect it."""
    now = time.monotonic()
    if not story.are_files_told and look.at.get("gamma"):
        story.are_files_told = True
        story.done.append(f"gamma's first tasks have read {stage.their_files}; {look.home} results are home")
    if not story.job and look.there.get("beta", 0) > BETA_SLOTS:
        story.job = stage.submit_wide()
        story.asked_at = now
        story.done.append(f"{stage.other}'s job {story.job} at beta wants two slots of one host")
    elif story.job and story.waited_s is None and stage.has_begun(story.job):
        story.waited_s = now - story.asked_at
        story.done.append("it runs; the tasks that had its slots run again")
    if not story.is_cut and story.job and look.ended >= AT_GAMMA * tasks:
        stage.cut()
        story.is_cut = True
        story.done.append(stage.cut_words)
    if story.is_cut and not story.noticed_at and look.is_gamma_away:
        story.noticed_at = now
        story.done.append("gridevents knows: GET_JOBS; the others go on")
    if story.noticed_at and not story.is_healed and now > story.noticed_at + BACK_S:
        stage.heal()
        story.is_healed = True
        story.done.append("gamma answers again; what ended there meanwhile is counted")


def _faults(stage: Stage, last: Look, story: Story, tasks: int, picture: Path) -> list[str]:
    """Return what went wrong."""
    found = {
        f"{last.ended} tasks ended, {last.failed} of them failed": last.ended - last.failed < tasks,
        f"no task succeeded at {', '.join(set(CLUSTERS) - last.at.keys())}": len(last.at) < 3,
        "no task made way and ran again": not last.again,
        f"{stage.other}'s job at beta never ran": story.waited_s is None,
        "nobody noticed that gamma was away": not story.noticed_at,
        "gamma stayed away": last.is_gamma_away,
        "there is no picture": not picture.is_file(),
        f"{last.home} of {tasks} results are home": last.home < tasks,
    }
    return [words for words, is_so in found.items() if is_so]


def _tell(stage: Stage, last: Look, story: Story) -> None:
    print()
    for name in CLUSTERS:
        print(f"{name:<6} {last.at.get(name, 0):>4} tasks succeeded")
    waited = "never ran" if story.waited_s is None else f"waited {story.waited_s:.0f} s"
    print(f"{last.home} results are home in {stage.files}/results")
    print(f"{last.again} tasks made way or were lost, and ran again")
    print(f"{stage.other}'s job at beta {waited}")
