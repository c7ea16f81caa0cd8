"""Campaigns wait for campaigns on real clusters, and read their outputs at other clusters.

A campaign waits task by task or as a whole, for the retry of a failed task, or is cancelled by the failure.
"""

from collections.abc import Iterator

import pytest

from tests.lab.campaigns import runner
from tests.lab.campaigns.test_inputs import CARRIED
from tests.lab.gamma import ACCOUNT, FAR
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

WORKFLOW = "/home/alice/workflow"
FIRST = "sh -c '[ $0 != 1 ] || [ -e ~/workflow/mended ] || exit 3; echo read $0 >out/$0.txt'"


def jdl(name: str, tasks: int, command: str, *clusters: str, **keys: object) -> dict[str, object]:
    usual = {"name": name, "nb_jobs": tasks, "exec_file": command, "type": "normal"}
    to = {"outputs_to": WORKFLOW} if "outputs" in keys else {}
    return {**usual, "clusters": {cluster: {} for cluster in clusters}, **to, **keys}


@pytest.fixture
def home(site: Grid) -> Iterator[Grid]:
    site.sh(runner.HOST, "mkdir -p ~/workflow", user="alice")
    yield site
    site.sh(runner.HOST, "rm -rf ~/workflow", user="alice")


def test_a_workflow_waits_for_the_retry_of_a_failed_task(home: Grid) -> None:
    """The third campaign starts when all is mended; a fourth campaign is cancelled by the failure."""
    call, add_up = "sh -c 'sed s/read/call/ out/$0.txt >called/$0.txt'", "sh -c 'cat called/*.txt >sum.txt'"
    called = [f"{WORKFLOW}/./called/{task}.txt" for task in range(3)]
    to_calls = {"after": ["reads:same"], "inputs": [f"{WORKFLOW}/./out/{{}}.txt"]}
    reads = runner.submit(home, jdl("reads", 3, FIRST, "beta", outputs=["out/{}.txt"]))
    calls = runner.submit(home, jdl("calls", 3, call, "gamma", outputs=["called/{}.txt"], **to_calls))
    total = runner.submit(home, jdl("total", 1, add_up, "gamma", outputs=["sum.txt"], after=["calls"], inputs=called))
    never = runner.submit(home, jdl("never", 1, "true", "beta", after=[reads], on_failure="cancel"))

    home.until(lambda: runner.published(home, calls)["ended"] == 2, "two tasks to be called", runner.CAMPAIGN_S)
    runner.until_state(home, never, "cancelled")
    of_calls = runner.events_by_code(home, calls)["PREDECESSOR_FAILED"]
    why = home.on(runner.HOST, "gridbridge", "why", str(total), user="bob").out
    lines = home.on(runner.HOST, "gridstat", "-H", str(total), user="bob").out

    assert f"campaign {reads} (reads): 2 of 3 tasks succeeded, 1 failed" == of_calls["why"]
    assert of_calls["why"] == runner.events_by_code(home, never)["PREDECESSOR_FAILED"]["why"]
    assert f"waits for campaign {calls} (calls): 2 of 3 tasks succeeded" in why
    assert " W " in lines
    assert set() == runner.clusters_of(home, total) | runner.clusters_of(home, never)

    home.sh(runner.HOST, f"touch ~/workflow/mended && gridevents -c {reads} -r", user="alice")
    found = [runner.until_state(home, number, "terminated") for number in (reads, calls, total)]

    assert [(3, 0), (3, 0), (1, 0)] == [(campaign["ended"], campaign["failed"]) for campaign in found]
    assert runner.events_by_code(home, calls)["PREDECESSOR_FAILED"]["closed_at"]
    assert "call 0\ncall 1\ncall 2\n" == home.sh(runner.HOST, "cat ~/workflow/0/sum.txt", user="alice")
    home.until_none(
        lambda: home.sh(FAR, CARRIED, user=ACCOUNT).split(), "no carried file to be left", runner.CAMPAIGN_S
    )


@pytest.mark.long
def test_a_task_starts_from_an_output_at_its_cluster_that_can_not_come_home(home: Grid) -> None:
    """Both campaigns run at gamma; the folder for the outputs is away until the second campaign has ended."""
    home.sh(runner.HOST, "mkdir -p ~/workflow/kept", user="alice")
    command = "sh -c 'until [ -e ~/early ]; do sleep 1; done; echo read $0 >out/$0.txt'"
    reads = runner.submit(home, jdl("early-reads", 2, command, "gamma", outputs=["out/{}.txt"]))
    home.sh(runner.HOST, "mv ~/workflow ~/workflow.away", user="alice")
    later = {"after": [f"{reads}:same"], "inputs": [f"{WORKFLOW}/./out/{{}}.txt"]}
    keys = jdl("early-calls", 2, "sh -c 'grep -qx \"read $0\" out/$0.txt'", "gamma", **later)
    calls = runner.submit(home, keys)
    home.sh(FAR, "touch ~/early", user=ACCOUNT)
    found = runner.until_state(home, calls, "terminated")
    home.until(
        lambda: "OUTPUT_ERROR" in runner.events_by_code(home, reads), "an event about outputs", runner.CAMPAIGN_S
    )
    home.sh(runner.HOST, f"mv ~/workflow.away ~/workflow && gridevents -c {reads} -f", user="alice")
    home.until(
        lambda: home.sh(runner.HOST, "ls ~/workflow/out 2>/dev/null; :", user="alice").split() == ["0.txt", "1.txt"],
        "the outputs at home",
        runner.CAMPAIGN_S,
    )
    home.sh(FAR, "rm ~/early", user=ACCOUNT)

    assert (2, 0) == (found["ended"], found["failed"])
