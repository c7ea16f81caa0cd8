"""Which act is due for a node or the master's machine, and which facts a round records about nodes."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.elastic import (
    machine_list_reconciliation,
    node_acts_from_balance_plan,
    node_and_master_lifecycle,
)
from gridbridge.decisions.elastic.node_acts_from_balance_plan import busy_or_silent_state_by_host
from gridbridge.decisions.elastic.node_and_master_lifecycle import NodeLifecycleTimeouts
from gridbridge.decisions.elastic.node_costs_and_pool_choice import update_pool_failure_records
from gridbridge.decisions.elastic.nodes_needing_administrator import find_silent_hosts_without_machine
from gridbridge.elastic.balancer.balancer_round_decision import decide_balance_plan
from gridbridge.model.elastic import elastic_nodes
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import (
    MASTER_TAG,
    OWNER_TAG,
    POOL_TAG,
    BalancerNodeAct,
    BalancerNodesSnapshot,
    BalancerOwnedNode,
    BusyOrSilentHostState,
    ElasticNodeState,
    HostJoinStep,
    ProviderMachine,
    ProviderMachineState,
)
from gridbridge.model.elastic.elastic_nodes import NodeStateCause as Why
from gridbridge.model.elastic.grid_engine_cell import CellQueueInstance, WaitingJobGroup
from tests.decisions.elastic.cells import MASTER, NOON, ago, cases, instance, situation, waiting

PATIENCE = NodeLifecycleTimeouts(boot_s=600, join_s=300, silent_s=900)
POOL = "usual"
IDLE, BUSY, SILENT, STUCK = (
    BusyOrSilentHostState(is_busy=is_busy, is_silent=is_silent)
    for is_silent in (False, True)
    for is_busy in (False, True)
)


def machine(state: str = "running", *, owner: str = "alpha", **more: str) -> ProviderMachine:
    told = {"id": "m-1", "name": "alpha-n7", "address": "10.0.0.7", **more}
    tags = {OWNER_TAG: owner, POOL_TAG: POOL}
    return ProviderMachine(state=ProviderMachineState(state), tags=tags, **told)


def node(state: ElasticNodeState, seconds: float = 60, **more: object) -> BalancerOwnedNode:
    since = NOON - timedelta(seconds=seconds)
    told = {"machine": "m-1", **more}
    return BalancerOwnedNode(name="alpha-n7", pool=POOL, state=state, since=since, **told)  # type: ignore[arg-type]  # a test's


def world(
    kept: BalancerOwnedNode | None,
    machines: tuple[ProviderMachine, ...],
    host: BusyOrSilentHostState | None = None,
    *,
    unlisted_s: float = 120,
    silent_s: float = 3600,
) -> BalancerNodesSnapshot:
    return BalancerNodesSnapshot(
        now=NOON,
        cluster="alpha",
        kept=(kept,) if kept else (),
        machines={POOL: machines},
        hosts={"alpha-n7": host} if host else {},
        last_round=NOON - timedelta(seconds=60),
        pools=frozenset((POOL,)),
        unlisted={"alpha-n7 m-1": NOON - timedelta(seconds=unlisted_s)},
        silent={"alpha-n7 m-1": NOON - timedelta(seconds=silent_s)},
        addresses={"alpha-n7": "10.0.0.7"},
    )


def due(
    known: BalancerNodesSnapshot, patience: NodeLifecycleTimeouts = PATIENCE
) -> tuple[node_and_master_lifecycle.DueNodeAct, ...]:
    return node_and_master_lifecycle.due_node_acts(known, patience)


S = ElasticNodeState
RUNNING, PENDING, STOPPED = machine(), machine("pending"), machine("stopped")
IDLE_LONG = {"idle_since": NOON - timedelta(hours=1)}
LOST, MUTE = "evict removing: its machine is gone", "evict removing: its execution daemon is silent"
LATE = "evict removing: its machine did not join the cell in time"
NOT_MADE, NOT_BOOTED = (
    "forget gone: its provider did not make the machine",
    "forget gone: its machine did not boot in time",
)
OTHERS, DOUBLE = (
    "forget gone: its machine's tag names another owner",
    "booting, destroy failed: another machine has the node's name",
)
OF_MASTER = replace(RUNNING, tags={**RUNNING.tags, MASTER_TAG: "alpha"})
ROWS = {
    "asked for, and not listed yet": (node(S.REQUESTED, machine=""), (), None, ""),
    "its provider said later": (node(S.REQUESTED, machine="", cause=Why.LATER), (), None, "create requested"),
    "said to be made, and never listed": (node(S.REQUESTED, 200, machine=""), (), None, NOT_MADE),
    "listed, though its answer was lost": (node(S.REQUESTED, machine=""), (PENDING,), None, "booting"),
    "booted": (node(S.BOOTING), (RUNNING,), None, "join joining"),
    "never boots": (node(S.BOOTING, 700), (PENDING,), None, "destroy failed: its machine did not boot in time"),
    "vanishes while it boots": (node(S.BOOTING, 200), (), None, "forget gone: its provider does not list the machine"),
    "goes on joining": (node(S.JOINING), (RUNNING,), None, "join joining"),
    "never joins, and is paid for": (node(S.JOINING, 400), (RUNNING,), IDLE, LATE),
    "joined, was not noted, and runs tasks": (node(S.JOINING, 400), (RUNNING,), BUSY, "join joining"),
    "vanishes while it joins": (node(S.JOINING), (), None, LOST),
    "idle: the policy decides": (node(S.READY, **IDLE_LONG), (RUNNING,), IDLE, ""),
    "not listed, but its daemon reports": (node(S.READY), (), IDLE, ""),
    "not listed, but it runs tasks": (node(S.READY), (), BUSY, ""),
    "its machine is gone": (node(S.READY), (), STUCK, LOST),
    "silent for long, and nothing ran there": (node(S.READY, **IDLE_LONG), (RUNNING,), SILENT, MUTE),
    "silent for long, but it may run tasks still": (node(S.READY, **IDLE_LONG), (RUNNING,), STUCK, "ready"),
    **{
        f"{state.value}, and was stopped": (node(state), (STOPPED,), STUCK, LOST)
        for state in (S.JOINING, S.READY, S.DRAINING, S.STANDBY)
    },
    "said to be stopped, but it reports": (node(S.READY), (STOPPED,), BUSY, ""),
    "stopped, and an administrator keeps it": (node(S.READY, is_kept=True), (STOPPED,), SILENT, "standby"),
    "rests for as long as it is kept": (node(S.STANDBY, 9999, is_kept=True), (STOPPED,), SILENT, ""),
    "failed, and its machine is gone": (node(S.FAILED, 200, cause=Why.NEVER_BOOTED), (), None, NOT_BOOTED),
    "draining": (node(S.DRAINING), (RUNNING,), BUSY, "remove draining"),
    "draining, not listed, but it reports": (node(S.DRAINING), (), BUSY, ""),
    "dies while draining": (node(S.DRAINING, cause=Why.DRAINED), (), STUCK, LOST),
    "killed while removing": (node(S.REMOVING), (RUNNING,), IDLE, "evict removing"),
    "gone from both": (node(S.REMOVING, step=HostJoinStep.LEFT), (), None, "forget gone"),
    "gone from both, and its name may not be": (node(S.REMOVING, step=HostJoinStep.JOINED), (), None, "evict removing"),
    "taken for gone, and listed again": (node(S.REMOVING, cause=Why.VANISHED), (RUNNING,), STUCK, "join joining"),
    "taken for gone, and reports again": (node(S.REMOVING, cause=Why.VANISHED), (), BUSY, "join joining"),
    "was stopped, and is still there": (node(S.REMOVING, cause=Why.VANISHED), (STOPPED,), SILENT, LOST),
    "still gone": (node(S.REMOVING, cause=Why.VANISHED), (), STUCK, LOST),
    "switched on again": (node(S.STANDBY), (RUNNING,), None, "join joining"),
    "switched on again, without an address yet": (node(S.STANDBY, is_kept=True), (machine(address=""),), None, ""),
    "ours, though nobody knows it": (None, (RUNNING,), IDLE, "join joining"),
    "ours and booting, though nobody knows it": (None, (PENDING,), None, "booting"),
    "another cluster's": (None, (machine(owner="beta"),), BUSY, ""),
    "it was ours, and is another's now": (node(S.READY), (machine(owner="beta"),), IDLE, OTHERS),
    "the master's machine is no node": (None, (OF_MASTER,), IDLE, ""),
    "two machines of one name": (node(S.BOOTING), (PENDING, machine("pending", id="m-2")), None, DOUBLE),
}


@cases(("kept", "machines", "host", "expected"), ROWS)
def test_the_due_act_for_a_node(
    kept: BalancerOwnedNode | None,
    machines: tuple[ProviderMachine, ...],
    host: BusyOrSilentHostState | None,
    expected: str,
) -> None:
    told = [said(one) for one in due(world(kept, machines, host))]

    assert expected == ", ".join(told)


@pytest.mark.parametrize(
    "before",
    [node(S.STANDBY, is_kept=True), node(S.REMOVING, cause=Why.VANISHED)],
    ids=["rested", "was taken for gone"],
)
def test_a_returning_node_joins_at_the_present_address_of_its_machine(before: BalancerOwnedNode) -> None:
    """Another machine with another host key may have the old address."""
    before = replace(before, address="10.0.0.6")
    (told,) = due(world(before, (RUNNING,)))

    assert (BalancerNodeAct.JOIN, "10.0.0.7") == (told.act, told.node.address)


@pytest.mark.parametrize(
    ("seconds", "key", "expected"),
    [
        (60, "ssh-ed25519 AAAA", "join joining"),
        (60, "", "booting"),
        (700, "", "destroy failed: its machine did not boot in time"),
    ],
)
def test_a_machine_prepared_by_ssh_joins_once_its_host_key_is_known(seconds: float, key: str, expected: str) -> None:
    seen = world(node(S.BOOTING, seconds), (machine(host_key=key),))

    (act,) = due(seen, replace(PATIENCE, needs_key=True))

    assert said(act) == expected


@pytest.mark.parametrize("state", [S.BOOTING, S.JOINING, S.READY, S.DRAINING, S.STANDBY, S.FAILED])
def test_a_single_list_without_the_machine_of_a_node_changes_nothing(state: ElasticNodeState) -> None:
    told = due(world(node(state, 9999), (), STUCK, unlisted_s=60))

    assert all((one.act, one.node) == (None, one.before) for one in told)


def test_a_duplicate_machine_is_forgotten_while_the_other_works() -> None:
    """A list without the duplicate does not count as a list without the other machine."""
    double = node(S.FAILED, machine="m-2", cause=Why.DOUBLE)
    known = replace(world(node(S.READY), (), STUCK, unlisted_s=60), kept=(node(S.READY), double))
    unlisted = {**known.unlisted, "alpha-n7 m-2": NOON - timedelta(seconds=120)}

    told = due(replace(known, unlisted=unlisted))

    assert [("m-2", True)] == [(one.node.machine, one.is_over) for one in told]


OTHER = replace(RUNNING, id="m-2", address="10.0.0.8")


@pytest.mark.parametrize("state", [one for one in S if one is not S.GONE])
@pytest.mark.parametrize("host", [BUSY, STUCK])
def test_a_new_machine_replaces_an_unlisted_namesake(state: ElasticNodeState, host: BusyOrSilentHostState) -> None:
    """After a restored state file, the tasks on the host are those of the new machine."""
    kept = node(state, is_kept=True, cause=Why.VANISHED, up_since=NOON - timedelta(days=9))

    (act,) = due(known := world(kept, (OTHER,), host))

    assert ("join joining" if host is BUSY else "booting") == said(act)
    assert kept == act.before
    assert ("m-2", "10.0.0.8", True, NOON) == (
        *(act.node.machine, act.node.address, act.node.is_kept, act.node.up_since),
    )
    assert () == machine_list_reconciliation.nodes_adopted_this_round(known)


@pytest.mark.parametrize("host", [BUSY, STUCK])
def test_a_machine_is_left_alone_while_it_is_unclear_whether_an_older_machine_of_that_name_exists(
    host: BusyOrSilentHostState,
) -> None:
    """Too few lists lack the older machine, or no list was read."""
    briefly = world(node(S.READY), (OTHER,), host, unlisted_s=60)
    others = replace(OTHER, tags={**OTHER.tags, POOL_TAG: "other"})
    blind = replace(briefly, machines={"other": (others,)})
    asked = world(node(S.REQUESTED, machine=""), (), host)
    asked = replace(asked, machines={POOL: (), "other": (others,)})

    assert [()] * 3 == [due(one) for one in (briefly, blind, asked)]


@pytest.mark.parametrize("state", [S.JOINING, S.READY, S.DRAINING, S.STANDBY])
def test_a_single_list_that_reports_a_machine_as_stopped_changes_nothing(state: ElasticNodeState) -> None:
    """A machine that restarts may be reported as stopped, while its daemon is silent."""
    assert () == due(world(node(state), (STOPPED,), STUCK, unlisted_s=60))


@pytest.mark.parametrize(
    ("paused_s", "expected"),
    [(60, LATE), (101, "join joining"), (350, "join joining"), (None, "join joining")],
    ids=["late before", "late since", "no round for long", "no round ever"],
)
def test_a_late_joining_node_gets_one_more_round_after_a_pause_of_rounds(paused_s: float | None, expected: str) -> None:
    known = world(node(S.JOINING, 400), (RUNNING,), IDLE)
    last = None if paused_s is None else NOON - timedelta(seconds=paused_s)

    (act,) = due(replace(known, last_round=last))

    assert expected == said(act)


@pytest.mark.parametrize(
    ("host", "idle_s", "silent_s", "expected"),
    [
        (SILENT, 9999, 0, ""),
        (SILENT, 9999, 900, ""),
        (SILENT, 900, 9999, ""),
        (SILENT, 9999, 901, MUTE),
        (None, 9999, 901, MUTE),
        (IDLE, 9999, 9999, ""),
    ],
    ids=["just now", "not for long", "its task is over just now", "for long", "unknown", "heard"],
)
def test_an_idle_node_is_removed_after_a_long_silence(
    host: BusyOrSilentHostState | None, idle_s: float, silent_s: float, expected: str
) -> None:
    """A long idle time alone is no silence, for example after a restart of the qmaster."""
    kept = node(S.READY, idle_since=NOON - timedelta(seconds=idle_s))

    told = due(world(kept, (RUNNING,), host, silent_s=silent_s))

    assert expected == ", ".join(map(said, told))


def test_the_start_of_the_silence_of_a_node_is_recorded() -> None:
    known = world(node(S.READY), (RUNNING,), SILENT)

    assert known.silent == machine_list_reconciliation.silent_since_by_host(known, known.silent)
    assert {"alpha-n7 m-1": NOON} == machine_list_reconciliation.silent_since_by_host(known, {})
    assert {} == machine_list_reconciliation.silent_since_by_host(world(node(S.READY), (RUNNING,), BUSY), known.silent)


def test_the_time_since_which_no_list_has_a_machine_is_recorded() -> None:
    known = world(node(S.READY), ())
    before = known.unlisted
    silent = replace(known, machines={})

    assert (
        before
        == machine_list_reconciliation.machine_missing_since_by_node(known, before)
        == machine_list_reconciliation.machine_missing_since_by_node(silent, before)
    )
    assert {"alpha-n7 m-1": NOON} == machine_list_reconciliation.machine_missing_since_by_node(known, {})
    assert before == machine_list_reconciliation.machine_missing_since_by_node(world(node(S.READY), (STOPPED,)), before)
    assert {} == machine_list_reconciliation.machine_missing_since_by_node(world(node(S.READY), (RUNNING,)), before)


@pytest.mark.parametrize("host", [IDLE, SILENT])
@pytest.mark.parametrize("address", ["10.0.0.8", ""])
def test_a_machine_named_as_a_host_of_the_site_is_left_alone(host: BusyOrSilentHostState, address: str) -> None:
    known = world(None, (machine(address=address),), host)

    assert ((), ["m-1"]) == (
        due(known),
        [one.id for one in machine_list_reconciliation.machines_named_as_host_with_other_address(known)],
    )


def test_machines_of_two_providers_may_have_the_same_id() -> None:
    kept = node(S.READY, **IDLE_LONG)
    both = replace(
        world(kept, (RUNNING,), IDLE),
        machines={POOL: (RUNNING,), "other": (machine(owner="beta", name="theirs"),)},
        providers={POOL: "one", "other": "two"},
    )
    ours = replace(RUNNING, name="alpha-n8", tags={**RUNNING.tags, POOL_TAG: "other"})

    assert () == due(both)
    (act,) = due(replace(both, machines={POOL: (RUNNING,), "other": (ours,)}))
    assert ("alpha-n8", "booting") == (act.node.name, act.node.state.value)


def said(act: node_and_master_lifecycle.DueNodeAct) -> str:
    verb = act.act.value if act.act else "forget" if act.is_over else ""
    cause = f": {act.node.cause}" if act.node.cause else ""
    return f"{verb} {act.node.state.value}{cause}".strip()


@pytest.mark.parametrize("state", list(ElasticNodeState), ids=lambda one: one.value)
def test_no_act_is_due_for_nodes_of_a_pool_without_a_complete_machine_list(state: ElasticNodeState) -> None:
    blind = replace(world(node(state, 99999), (), SILENT), machines={})

    assert () == due(blind)


states = st.sampled_from([one for one in ElasticNodeState if one is not ElasticNodeState.GONE])
hosts = st.none() | st.builds(BusyOrSilentHostState, is_busy=st.booleans(), is_silent=st.booleans())
owners = st.sampled_from(["alpha", "beta", ""])
lists = st.lists(
    st.builds(machine, st.sampled_from(list(ProviderMachineState)), owner=owners, id=st.sampled_from("abc")),
    max_size=3,
    unique_by=lambda one: one.id,
)


@given(states, st.sampled_from(["", "a", "b"]), st.floats(0, 1e5), lists, hosts)
def test_no_machine_of_another_owner_is_ever_destroyed(
    state: ElasticNodeState,
    known: str,
    seconds: float,
    machines: list[ProviderMachine],
    host: BusyOrSilentHostState | None,
) -> None:
    kept = node(state, seconds, machine=known)
    others = {one.id for one in machines if not one.has_owner_tag_of_cluster("alpha")}

    ended = {
        one.node.machine
        for one in due(world(kept, tuple(machines), host))
        if one.act in (BalancerNodeAct.DESTROY, BalancerNodeAct.EVICT, BalancerNodeAct.REMOVE)
    }

    assert set() == ended & others


@given(states, st.floats(0, 1e5), st.booleans(), st.booleans())
def test_a_busy_host_that_reports_is_never_removed_as_gone(
    state: ElasticNodeState, seconds: float, is_listed: bool, is_kept: bool
) -> None:
    kept = node(state, seconds, is_kept=is_kept)
    machines = (RUNNING,) if is_listed else ()

    causes = {one.node.cause for one in due(world(kept, machines, BUSY))}

    if state in (ElasticNodeState.JOINING, ElasticNodeState.READY, ElasticNodeState.DRAINING):
        assert causes <= {Why.NONE}


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


LONG_AGO = NOON - timedelta(hours=2)
EARLIER = NOON - timedelta(minutes=9)


@pytest.mark.parametrize(
    ("state", "noted", "expected"),
    [
        pytest.param(S.READY, None, NOON, id="nobody has noted it yet: the round before saw tasks"),
        pytest.param(S.READY, EARLIER, EARLIER, id="an earlier round noted it"),
        pytest.param(S.BOOTING, None, None, id="it is on its way"),
    ],
)
def test_the_idle_time_of_a_ready_node_starts_at_the_first_round_that_sees_the_node_idle(
    state: elastic_nodes.ElasticNodeState, noted: datetime | None, expected: datetime | None
) -> None:
    kept = node(state, up_since=LONG_AGO, idle_since=noted)

    (shown,) = node_acts_from_balance_plan.elastic_nodes_for_policies([kept], world(kept, (RUNNING,), IDLE))

    assert expected == shown.idle_since


def test_a_joining_node_resets_the_failures_of_its_pool_but_not_a_lack_of_capacity() -> None:
    """The node was requested before the pool ran out of capacity."""
    known = {POOL: elastic_nodes.PoolFailureRecord(failures=2, failed_at=EARLIER, no_capacity_at=EARLIER)}

    found = update_pool_failure_records(known, [(node(S.JOINING), node(S.READY))], NOON)

    assert found == {POOL: elastic_nodes.PoolFailureRecord(no_capacity_at=EARLIER)}


@pytest.mark.parametrize(
    ("state", "machines", "expected"), [(S.READY, (), True), (S.READY, (RUNNING,), False), (S.BOOTING, (), False)]
)
def test_a_ready_node_that_no_provider_lists_is_unreachable(
    state: elastic_nodes.ElasticNodeState, machines: tuple[elastic_nodes.ProviderMachine, ...], expected: bool
) -> None:
    kept = node(state)
    (shown,) = node_acts_from_balance_plan.elastic_nodes_for_policies([kept], world(kept, machines, IDLE))

    assert expected == shown.is_unreachable


def test_a_new_node_gets_an_unused_name() -> None:
    """Machines of others with very high numbers are considered, too."""
    last = replace(RUNNING, id="m-8", name="alpha-n999999999", tags={})
    beyond = replace(last, id="m-9", name="alpha-n1000000000")
    known = world(node(S.READY), (RUNNING, last, beyond))

    assert node_acts_from_balance_plan.unused_names_for_new_nodes(known, "alpha-n", 2) == (
        "alpha-n1000000001",
        "alpha-n1000000002",
    )


def lost(since_min: float, own: frozenset[str]) -> tuple[str, ...]:
    """Return which of the silent hosts alpha-n8 and web1 is reported as a host without a machine."""
    hosts = {name: elastic_nodes.BusyOrSilentHostState(is_busy=False, is_silent=True) for name in ("alpha-n8", "web1")}
    since = NOON - timedelta(minutes=since_min)
    known = replace(world(None, (), None), hosts=hosts, silent={"alpha-n8 ": since, "web1 ": since})
    assert known.silent == machine_list_reconciliation.silent_since_by_host(known, known.silent)
    return find_silent_hosts_without_machine(known, "alpha-n", 900, own)


def test_a_silent_host_named_like_a_node_is_reported_after_15_minutes_unless_it_is_the_sites_own() -> None:
    own = frozenset({"alpha-n8"})

    told = [lost(1, frozenset()), lost(16, frozenset()), lost(16, own)]

    assert told == [(), ("alpha-n8",), ()]


def test_the_silence_of_a_host_ends_when_the_host_reports() -> None:
    hosts = {"web1": elastic_nodes.BusyOrSilentHostState(is_busy=False, is_silent=False)}
    known = replace(world(None, (), None), hosts=hosts)

    assert machine_list_reconciliation.silent_since_by_host(known, {"web1 ": EARLIER}) == {}
