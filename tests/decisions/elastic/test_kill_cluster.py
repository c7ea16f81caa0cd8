"""When the machine of the master is destroyed: nothing else is left, and the machine has the master tag."""

from dataclasses import replace

from gridbridge.decisions.elastic import node_and_master_lifecycle
from gridbridge.decisions.elastic.node_acts_from_balance_plan import busy_or_silent_state_by_host
from gridbridge.elastic.balancer.balancer_round_decision import decide_balance_plan
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import (
    MASTER_TAG,
    BalancerNodesSnapshot,
    BalancerOwnedNode,
    ElasticNodeState,
    ProviderMachine,
    ProviderMachineState,
)
from gridbridge.model.elastic.grid_engine_cell import CellQueueInstance, WaitingJobGroup
from tests.decisions.elastic.cells import MASTER, NOON, ago, cases, instance, situation, waiting

OWN = ProviderMachine(
    id="m-0", name=MASTER, state=ProviderMachineState.RUNNING, tags={MASTER_TAG: "alpha"}, created=ago(50)
)
RULES = BalanceSection(kill_master=True, max_nodes=4, min_nodes=0)
NODE = BalancerOwnedNode(name="alpha-n1", pool="usual", state=ElasticNodeState.READY, since=NOON)


def ended(
    *machines: ProviderMachine,
    rules: BalanceSection = RULES,
    wait: tuple[WaitingJobGroup, ...] = (),
    there: tuple[CellQueueInstance, ...] = (instance(MASTER),),
    best_effort: frozenset[str] = frozenset(),
    hosts: tuple[str, ...] = (),
    kept: tuple[BalancerOwnedNode, ...] = (),
) -> bool:
    seen = replace(situation(*there, wait=wait, hosts=hosts), best_effort=best_effort)
    world = BalancerNodesSnapshot(
        now=NOON, cluster="alpha", kept=kept, machines={"usual": machines}, hosts=busy_or_silent_state_by_host(seen)
    )
    return node_and_master_lifecycle.master_machine_to_terminate(
        seen, world, decide_balance_plan(seen, rules), rules
    ) == ("usual", OWN)


def test_the_tagged_machine_of_an_idle_master_is_destroyed() -> None:
    assert ended(OWN)


@cases(
    "found",
    {
        "not allowed": ended(OWN, rules=replace(RULES, kill_master=False)),
        "jobs wait": ended(OWN, wait=(waiting(1, tasks=9),)),
        "a campaign's tasks wait": ended(OWN, wait=(waiting(1, tasks=9, is_campaign=True),)),
        "a held job waits": ended(OWN, wait=(waiting(1, state="hqw"),)),
        "a job with a start time waits": ended(OWN, wait=(waiting(1, is_deferred=True),)),
        "it is busy": ended(OWN, there=(instance(MASTER, [1]),)),
        "another host runs tasks": ended(OWN, there=(instance(MASTER), instance("fixed", [1]))),
        "another host is listed": ended(OWN, hosts=("fixed",)),
        "it runs best-effort tasks": ended(
            OWN, there=(instance(MASTER), instance(MASTER, [1], queue="idle.q")), best_effort=frozenset(("idle.q",))
        ),
        "a node is left": ended(OWN, kept=(NODE,)),
        "another cluster's": ended(replace(OWN, tags={MASTER_TAG: "beta"})),
        "no master": ended(replace(OWN, tags={"gridbridge": "alpha"})),
        "two of them": ended(OWN, replace(OWN, id="m-1")),
        "age unknown": ended(replace(OWN, created=None)),
        "the node's hour is paid for": ended(replace(OWN, created=ago(20))),
        "no machine": ended(),
    },
)
def test_the_machine_of_a_master_that_is_needed_or_not_clearly_tagged_is_kept(found: bool) -> None:
    assert not found
