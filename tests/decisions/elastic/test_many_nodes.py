"""A round of many nodes takes no longer for each of them."""

import time
from collections.abc import Callable

import pytest

from gridbridge.decisions.elastic import listed, rounds
from gridbridge.decisions.elastic.demand.deciding import decide
from gridbridge.decisions.elastic.life import Patience
from gridbridge.decisions.elastic.squeeze.resting import rest
from gridbridge.decisions.elastic.starcluster import decide as by_starcluster
from gridbridge.model.elastic.machines import OWNER_TAG, POOL_TAG, Machine, MachineState
from gridbridge.model.elastic.nodes import NodeState
from gridbridge.model.elastic.owned import Act, HostSeen, Owned, World
from gridbridge.model.elastic.plan import Situation
from gridbridge.model.elastic.sections import Balance, Demand, Pool, Squeeze
from tests.decisions.elastic.cells import NOON, ago, instance, situation

MANY, MOST_S = 3000, 1.5  # of CPU: where each node looks at all others it is a minute
RULES, POOLS = Balance(max_nodes=9999), {"usual": Pool(slots=4)}
NAMES = tuple(f"n{number}" for number in range(MANY))


@pytest.fixture(scope="module")
def world() -> World:
    """Return nodes that have been idle for long."""
    tags = {OWNER_TAG: "alpha", POOL_TAG: "usual"}
    states = NodeState.READY, MachineState.RUNNING
    return World(
        now=NOON,
        cluster="alpha",
        kept=tuple(
            Owned(
                name=one,
                pool="usual",
                state=states[0],
                since=ago(50),
                machine=f"i-{one}",
                up_since=ago(50),
                idle_since=ago(50),
            )
            for one in NAMES
        ),
        machines={
            "usual": tuple(
                Machine(id=f"i-{one}", name=one, state=states[1], tags=tags) for one in NAMES
            )
        },
        hosts={one: HostSeen(is_busy=False, is_silent=False) for one in NAMES},
        pools=frozenset(POOLS),
    )


@pytest.fixture(scope="module")
def seen(world: World) -> Situation:
    """Return their cell."""
    return situation(*map(instance, NAMES), nodes=rounds.shown(world.kept, world))


def test_each_node_is_decided_about_by_itself(world: World, seen: Situation) -> None:
    plan = decide(seen, RULES, Demand(), POOLS)
    patience = Patience(boot_s=300, join_s=300, silent_s=300)
    done: dict[str, Callable[[], int]] = {
        "starcluster": lambda: len(by_starcluster(seen, RULES).remove),
        "shown": lambda: len(rounds.shown(world.kept, world)),
        "dues": lambda: sum(
            one.act is Act.REMOVE for one in rounds.dues(world, plan, RULES, patience)
        ),
        "rest": lambda: len(rest(seen, plan, RULES, Squeeze(target_reserve=0.0)).off),
        "unlisted": lambda: MANY - len(listed.unlisted(world, {})),
    }

    for name, work in done.items():
        begun = time.process_time()
        found = work()
        took_s = time.process_time() - begun

        assert found >= MANY - 1, name
        assert took_s < MOST_S, name
