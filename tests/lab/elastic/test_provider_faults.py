"""The command provider against the lab's power service, and against each of its faults."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.grid import Grid
from tests.lab.grid import unprepared_grid as unprepared_grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(300)]

MASTER = "alpha-master"
PYTHON = "/opt/gridbridge/venv/bin/python3"
TAGS = {"gridbridge": "alpha", "gridbridge-pool": "small"}
SETTINGS = """\
[site]
cluster = "alpha"
[provider.lab]
program = "/opt/gridlab/power-node"
timeout_s = {timeout_s}
[pool.small]
provider = "lab"
"""
CALLS = """\
import dataclasses, json, sys
from gridbridge.config import configuration_file
from gridbridge.errors import GridbridgeError
from gridbridge.elastic.providers.provider_registry import make_provider_of_pool

settings, calls = sys.argv[1], json.loads(sys.argv[2])
policy = configuration_file.parse_configuration("FILE", settings.encode())
provider = make_provider_of_pool(policy, "small")
for verb, *words in calls:
    try:
        if verb == "create":
            print(json.dumps(dataclasses.asdict(provider.create_machine(*words)), default=str))
        elif verb == "list":
            told = [dataclasses.asdict(one) for one in provider.list_machines()]
            print(json.dumps(told, default=str))
        else:
            (machine,) = [one for one in provider.list_machines() if one.name == words[0]]
            provider.destroy_machine(machine)
            provider.destroy_machine(machine)
            print(json.dumps(verb))
    except GridbridgeError as error:
        print(json.dumps([type(error).__name__, str(error)]))
"""


@pytest.fixture(autouse=True)
def rented(grid: Grid) -> Iterator[None]:
    give_back(grid)
    yield
    give_back(grid)


def give_back(grid: Grid) -> None:
    grid.lab("faults")
    script = """for id in $(/opt/gridlab/power-node list </dev/null | grep -o 'lab-[0-9a-f]*'); do
        echo "{\\"id\\": \\"$id\\"}" | /opt/gridlab/power-node destroy; done"""
    grid.sh(MASTER, script)


def ask(grid: Grid, *calls: tuple[Any, ...], timeout_s: float = 30) -> list[Any]:
    """Return the results of successive provider calls; an error is returned as its class and message."""
    given = (SETTINGS.format(timeout_s=timeout_s), json.dumps(calls))
    done = grid.on(MASTER, PYTHON, "-I", "-", *given, stdin=CALLS)
    assert (0, len(calls)) == (done.status, len(done.out.splitlines())), done
    return [json.loads(line) for line in done.out.splitlines()]


def create(name: str) -> tuple[Any, ...]:
    return ("create", name, TAGS)


def test_a_node_is_created_runs_and_is_removed(grid: Grid) -> None:
    """Removing the node a second time is no error."""
    (made,) = ask(grid, create("alpha-n7"))
    grid.until(lambda: "running" == ask(grid, ("list",))[0][0]["state"], "the node to boot")
    ((up,),) = ask(grid, ("list",))
    gone, none = ask(grid, ("destroy", "alpha-n7"), ("list",))

    assert ("alpha-n7", TAGS, "") == (made["name"], made["tags"], made["host_key"])
    assert up["host_key"].startswith("ssh-ed25519 ")
    assert (made["id"], "10.77.0.13", "running") == (up["id"], up["address"], up["state"])
    assert ("destroy", []) == (gone, none)


@pytest.mark.parametrize(
    ("fault", "limit_s", "create_is", "list_is", "left"),
    [
        ("refuse", 30, "ProviderRequestRepeatable", "ProviderRequestRepeatable", 0),
        ("capacity", 30, "ProviderOutOfMachines", [], 0),
        ("hang", 1, "ProviderOutcomeUnknown", "ProviderOutcomeUnknown", 0),
        ("lost", 1, "ProviderOutcomeUnknown", "ProviderOutcomeUnknown", 1),
    ],
)
def test_a_list_shows_whether_an_unconfirmed_request_was_executed(
    grid: Grid, fault: str, limit_s: float, create_is: str, list_is: object, left: int
) -> None:
    """An unconfirmed node may exist. Its tags show that it belongs to the site."""
    grid.lab("faults", fault)
    created, listed = ask(grid, create("alpha-n7"), ("list",), timeout_s=limit_s)
    grid.lab("faults")
    (there,) = ask(grid, ("list",))

    assert create_is == created[0], created
    assert list_is == (listed[0] if listed else []), listed
    assert [TAGS] * left == [one["tags"] for one in there]


def test_a_node_that_was_confirmed_but_not_made_is_not_listed(grid: Grid) -> None:
    grid.lab("faults", "lie")
    created, listed = ask(grid, create("alpha-n7"), ("list",))

    assert ("running", []) == (created["state"], listed)


def test_a_node_that_never_boots_stays_pending_without_a_host_key(grid: Grid) -> None:
    grid.lab("faults", "never")
    created, (listed,) = ask(grid, create("alpha-n7"), ("list",))

    assert created == listed
    assert ("pending", "") == (listed["state"], listed["host_key"])


def test_foreign_machines_are_ignored_and_malformed_lists_refused(grid: Grid) -> None:
    """A well-formed list that lacks nodes is accepted."""
    ask(grid, create("alpha-n7"), create("alpha-n8"))
    (whole,) = grid.until(lambda: _running(ask(grid, ("list",))), "both to boot")
    grid.lab("faults", "others")
    (others,) = ask(grid, ("list",))
    grid.lab("faults", "garbled")
    (garbled,) = ask(grid, ("list",))
    grid.lab("faults", "partial")
    (partial,) = ask(grid, ("list",))

    assert ["alpha-n7", "alpha-n8"] == [one["name"] for one in whole]
    assert whole == [one for one in others if one["tags"].get("gridbridge") == "alpha"]
    assert len(whole) < len(others)
    assert "ProviderPermanentFailure" == garbled[0]
    assert garbled[1].startswith("/opt/gridlab/power-node list: no JSON: ")
    assert whole[:1] == partial


def _running(told: list[Any]) -> list[Any]:
    return told if {"running"} == {one["state"] for one in told[0]} else []
