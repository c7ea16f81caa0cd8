"""A simulated cloud and cell for balancer rounds: both can fail, report wrong facts, lose answers and kill the program.

The simulation counts killed tasks, machines and costs, and has its own clock.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from gridbridge.batch.optional_adapter_protocols import ExecutionHostMembership
from gridbridge.elastic.balancer.balancer_round_decision import BalancerRoundPlan, SiteBalancerSettings
from gridbridge.elastic.balancer.balancer_round_runner import BalancerRoundRunner
from gridbridge.elastic.balancer_state_file import BalancerStateRows
from gridbridge.elastic.node_and_power_acts import ChangeHostTag, NodeActRunner
from gridbridge.elastic.providers.provider_protocol_and_validation import MachineProvider
from gridbridge.errors import (
    ClusterStateUnknown,
    CommandFailed,
    HostNotReached,
    ProviderOutcomeUnknown,
    ProviderOutOfMachines,
    ProviderPermanentFailure,
    ProviderRequestRepeatable,
)
from gridbridge.model.elastic.balance_plan import BalancePolicyName, BalanceSituation
from gridbridge.model.elastic.balancer_config_sections import (
    BalanceSection,
    DemandPolicySection,
    MachineProviderSection,
    NodePoolSection,
    SqueezeSection,
)
from gridbridge.model.elastic.elastic_nodes import (
    HostCheckBeforeRemoval,
    HostJoinStep,
    MachineToJoinCell,
    ProviderMachine,
    ProviderMachineState,
)
from gridbridge.model.elastic.grid_engine_cell import CellExecutionHost, GridEngineCellSnapshot, TaskResourceRequests
from gridbridge.program.service_cycle import run_cycle_once
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile
from tests.decisions.elastic.cells import MASTER, NOON, instance, waiting

CLUSTER = "alpha"
POOL = "usual"
BEST = "best.q"  # its tasks make way
RACK = "rack"  # the site's own hosts, which are switched on and off
SLOTS = 2
BOOT_S = 90
OTHERS = ProviderMachine(id="theirs", name="alpha-n9", state=ProviderMachineState.RUNNING, tags={"gridbridge": "beta"})


class Killed(BaseException):
    """Ends the program at a call, as kill -9 would."""


@dataclass
class Trouble:
    """The rates at which calls fail."""

    random: Random = field(default_factory=Random)
    kills: float = 0.0  # of calls, as the next ones
    lost: float = 0.0  # done, but the answer never comes
    refused: float = 0.0
    never_boots: float = 0.0
    lies: float = 0.0

    def may_end(self) -> None:
        """Raise Killed, at the configured rate."""
        if self.random.random() < self.kills:
            raise Killed

    def strikes(self, rate: float) -> bool:
        return self.random.random() < rate


@dataclass
class Cloud:
    world: "World"
    trouble: Trouble
    capacity: int = 9
    is_silent: bool = False  # its list does not come
    refuses: bool = False  # to make any, for good
    garbles: bool = False  # it makes them, and nobody can read its answer
    untags: bool = False  # it gives no tags back
    keeps: bool = False  # it ends no machine
    left_out: bool = False  # its list leaves our machines out
    made: dict[str, ProviderMachine] = field(default_factory=dict)
    boots: dict[str, datetime] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)  # machines that stopped by themselves
    tells_age: bool = True  # when each machine was made
    asked: int = 0
    most: int = 0

    def create_machine(self, name: str, tags: Mapping[str, str]) -> ProviderMachine:
        self.trouble.may_end()
        self.asked += 1
        if self.refuses:
            raise ProviderPermanentFailure("wrong image")
        if self.trouble.strikes(self.trouble.refused):
            raise ProviderRequestRepeatable("later")
        if len(self.made) >= self.capacity:
            raise ProviderOutOfMachines("none left")
        machine = ProviderMachine(
            id=f"m-{self.asked}", name=name, state=ProviderMachineState.PENDING, tags=dict(tags), created=self.world.now
        )
        if self.trouble.strikes(self.trouble.lies):
            return machine
        self.made[machine.id] = machine
        self.most = max(self.most, len(self.made))
        never = self.trouble.strikes(self.trouble.never_boots)
        self.boots[machine.id] = self.world.now + timedelta(days=99 if never else 0, seconds=BOOT_S)
        self.trouble.may_end()
        if self.garbles:
            raise ProviderPermanentFailure("no JSON")
        if self.trouble.strikes(self.trouble.lost):
            raise ProviderOutcomeUnknown("no answer")
        return machine

    def destroy_machine(self, machine: ProviderMachine) -> None:
        self.trouble.may_end()
        assert machine.id != OTHERS.id
        if self.keeps:
            raise ProviderPermanentFailure("no right to")
        gone = self.made.pop(machine.id, None)
        if gone:
            self.world.cut(gone)
        if self.trouble.strikes(self.trouble.lost):
            raise ProviderOutcomeUnknown("no answer")

    def list_machines(self) -> tuple[ProviderMachine, ...]:
        """Return all machines, and a machine of another cluster."""
        self.trouble.may_end()
        if self.is_silent:
            raise ProviderOutcomeUnknown("no answer")
        made = () if self.left_out else self.made.values()
        return (*(self._now(one) for one in made), OTHERS)

    def _now(self, machine: ProviderMachine) -> ProviderMachine:
        machine = replace(machine, tags={}) if self.untags else machine
        machine = machine if self.tells_age else replace(machine, created=None)
        if machine.id in self.stopped:
            return replace(machine, state=ProviderMachineState.STOPPED)
        if self.world.now < self.boots[machine.id]:
            return machine
        return replace(machine, state=ProviderMachineState.RUNNING, address=f"10.0.0.{machine.id[2:]}")


@dataclass
class Switches:
    world: "World"
    up_at: dict[str, datetime | None]  # when each is up; None: it is off
    on: list[str] = field(default_factory=list)  # what was asked for, as the next one
    off: list[str] = field(default_factory=list)
    is_dead: bool = False  # who is switched on never comes up
    boot_s: float = BOOT_S
    deaf: set[str] = field(default_factory=set)  # hosts that don't go off, whoever asks
    broken: set[str] = field(default_factory=set)  # hosts whose controller refuses, whoever asks
    silent: set[str] = field(default_factory=set)  # hosts that don't tell whether they are on
    lying: set[str] = field(default_factory=set)  # hosts that are told to be off
    lost: int = 0  # how many of the next packets that switch one on nobody hears
    halt_s: float = 0.0  # how long one needs to go down; it hears no packet until then
    down_at: dict[str, datetime] = field(default_factory=dict)  # when those that go down are off

    def list_machines(self) -> tuple[ProviderMachine, ...]:
        self.world.trouble.may_end()
        tags = {"gridbridge": CLUSTER, "gridbridge-pool": RACK}
        return tuple(ProviderMachine(id=name, name=name, tags=tags, state=self._state(name)) for name in self.up_at)

    def power_on_host(self, machine: ProviderMachine) -> None:
        self.world.trouble.may_end()
        self.on.append(machine.name)
        if machine.name in self.broken:
            raise ProviderOutcomeUnknown("no answer")
        is_heard = not self.lost and not self._goes_down(machine.name)
        self.lost = max(0, self.lost - 1)
        if is_heard and self.up_at[machine.name] is None:
            days = 99 if self.is_dead else 0
            self.up_at[machine.name] = self.world.now + timedelta(days=days, seconds=self.boot_s)
        self.world.trouble.may_end()

    def power_off_host(self, machine: ProviderMachine) -> None:
        """Power a host off and kill its tasks."""
        self.world.trouble.may_end()
        self.off.append(machine.name)
        if machine.name in self.broken:
            raise ProviderOutcomeUnknown("no answer")
        if machine.name in self.deaf:
            self.up_at[machine.name] = self.world.now + timedelta(days=99)  # it is silent by now
            return
        self.up_at[machine.name] = None
        self.down_at[machine.name] = self.world.now + timedelta(seconds=self.halt_s)
        host = self.world.cell.hosts[machine.name]
        self.world.cell.killed += len(host.ends)
        self.world.cell.cut_off += host.best_effort
        host.ends, host.best_effort = [], 0
        self.world.trouble.may_end()

    def tell(self) -> None:
        """Mark powered-off and booting hosts as silent in the cell."""
        for name, at in self.up_at.items():
            is_silent = at is None or at > self.world.now
            self.world.cell.hosts[name].is_silent = is_silent and not self._goes_down(name)

    def _goes_down(self, name: str) -> bool:
        at = self.down_at.get(name)
        return self.up_at[name] is None and at is not None and self.world.now < at

    def _state(self, name: str) -> ProviderMachineState:
        if name in self.silent:
            return ProviderMachineState.UNKNOWN
        if name in self.lying:
            return ProviderMachineState.STOPPED
        is_off = self.up_at[name] is None and not self._goes_down(name)
        return ProviderMachineState.STOPPED if is_off else ProviderMachineState.RUNNING


@dataclass
class HostThere:
    address: str
    is_open: bool = False
    ends: list[datetime] = field(default_factory=list)
    is_silent: bool = False
    slots: int = SLOTS
    best_effort: int = 0  # tasks that are to make way for others
    is_suspended: bool = False  # so that they do


@dataclass
class Cell:
    world: "World"
    trouble: Trouble
    hosts: dict[str, HostThere] = field(default_factory=dict)
    waits: list[timedelta] = field(default_factory=list)  # how long each task will run
    never_starts: int = 0  # tasks of a job for which there is room, and which stay
    slips_in: bool = False  # a task starts between a plan and the look before a removal
    ended: int = 0
    killed: int = 0
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rerun: set[str] = field(default_factory=set)  # hosts whose tasks may run elsewhere again
    moved: int = 0
    named: set[str] = field(default_factory=set)  # hosts that something in the cell still names
    made_way: int = 0  # best-effort tasks
    cut_off: int = 0  # those that a machine took with it
    exports: set[str] = field(default_factory=set)  # hosts that may mount, and have a name here
    is_root_away: bool = False  # nobody takes an export back
    is_shut: bool = False  # somebody closed the queue, on the master, too
    restarted: int = 0  # tasks that were put back though nobody knew that they were gone

    def query_rerunnable_tasks(self, hosts: Iterable[str]) -> Mapping[str, tuple[TaskResourceRequests, ...]]:
        self.trouble.may_end()
        return {one: (TaskResourceRequests(),) * len(self.hosts[one].ends) for one in hosts if one in self.rerun}

    def reschedule_host_tasks(self, host: str) -> bool:
        """Reschedule a host's tasks; return False if the tasks may not be rescheduled."""
        self.trouble.may_end()
        there = self.hosts[host]
        if there.ends and host not in self.rerun:
            return False
        assert not there.is_open
        self.moved += len(there.ends)
        self.waits += [end - self.world.now for end in there.ends]
        there.ends = []
        self.trouble.may_end()
        return True

    def tag(self, host: str, tag: str, is_wanted: bool) -> None:
        self.trouble.may_end()
        others = tuple(one for one in self.tags.get(host, ()) if one != tag)
        self.tags[host] = (*others, tag) if is_wanted else others

    def join_host_to_cluster(self, node: MachineToJoinCell) -> HostJoinStep:
        """Add a host to the cell, one step at each call."""
        self.trouble.may_end()
        if not any(one.address == node.address for one in self.world.cloud.list_machines()):
            raise HostNotReached(("ssh",), 255)
        self.exports.add(node.name)
        if node.name not in self.hosts:
            self.hosts[node.name] = HostThere(address=node.address)
            return HostJoinStep.ADMITTED
        self.trouble.may_end()
        return self._opened(node.name, node.closed)

    def close_host_to_new_tasks(self, host: str) -> None:
        """Disable the queue on a host. With `slips_in` a task starts just before."""
        self.trouble.may_end()
        if host not in self.hosts:
            return
        if self.slips_in and self.hosts[host].is_open:
            self.slips_in = False
            self.hosts[host].ends.append(self.world.now + timedelta(minutes=9))
        self.hosts[host].is_open = False

    def open_host_to_tasks(self, host: str, closed: frozenset[str]) -> HostJoinStep:
        """Enable the queue on a host, unless `closed` names the queue."""
        self.trouble.may_end()
        self.hosts[host].is_suspended = False
        self.trouble.may_end()
        return self._opened(host, closed)

    def _opened(self, host: str, closed: frozenset[str]) -> HostJoinStep:
        there = self.hosts[host]
        there.is_open = there.is_open or "all.q" not in closed
        return HostJoinStep.JOINED if there.is_open else HostJoinStep.CLOSED

    def shut(self, *, is_shut: bool) -> None:
        """Disable or enable the queue on all hosts, as `qmod -d all.q` and `qmod -e all.q` do."""
        self.is_shut = is_shut
        for one in self.hosts.values():
            one.is_open = not is_shut

    def command_to_reopen_host(self, host: str) -> str:
        return f"open {host}"

    def commands_to_end_host_tasks(self, host: str) -> str:
        return f"clear {host}"

    def commands_to_remove_host(self, host: str) -> str:
        return f"forget {host}"

    def preempt_best_effort_tasks(self, host: str) -> bool:
        """Begin to preempt a host's best-effort tasks; return True if the host has none."""
        self.trouble.may_end()
        there = self.hosts[host]
        assert not there.is_open
        there.is_suspended = there.is_suspended or there.best_effort > 0
        return not there.best_effort

    def check_host_before_removal(self, host: str) -> HostCheckBeforeRemoval:
        self.trouble.may_end()
        if host not in self.hosts:
            return HostCheckBeforeRemoval(is_idle=True, is_closed=True, is_listed=False)
        found = self.hosts[host]
        return HostCheckBeforeRemoval(is_idle=not found.ends, is_closed=not found.is_open)

    def prepare_power_off(self, host: str) -> None:
        """Assert that the host is closed and idle."""
        self.trouble.may_end()
        assert not self.hosts[host].is_open
        assert not self.hosts[host].ends
        assert not self.hosts[host].best_effort

    def remove_host(self, host: str, *, is_dead: bool) -> str:
        """Remove a host; return the reason if the host has to stay."""
        self.trouble.may_end()
        found = self.hosts.get(host)
        if found and is_dead and found.ends:
            self.restarted += len(found.ends)
            return "tasks are there"
        if found and host in self.named:
            return "@site names it"
        if found and found.ends and not found.is_silent:
            raise CommandFailed(("qconf",), 1, stderr=b"still referenced")
        self.hosts.pop(host, None)
        self.trouble.may_end()
        if self.is_root_away:
            raise CommandFailed(("sudo",), 1, stderr=b"no space left")
        self.exports.discard(host)
        return ""

    def situation(self) -> BalanceSituation:
        self.world.switches.tell()
        instances = [instance(MASTER, slots=0, state="d" if self.is_shut else "")]
        for name, host in sorted(self.hosts.items()):
            state = "au" if host.is_silent else "" if host.is_open else "d"
            instances.append(instance(name, [1] * len(host.ends), slots=host.slots, state=state))
            if host.best_effort:
                instances.append(instance(name, [1] * host.best_effort, queue=BEST, state=state))
        wait = [waiting(1, tasks=len(self.waits))] if self.waits else []
        wait += [waiting(1, slots=self.world.wide, pe="smp", jobs=(8,))] if self.world.wide else []
        if self.never_starts:
            wait.append(waiting(1, tasks=self.never_starts, jobs=(9,), queues=("all.q",)))
        names = [MASTER, *self.hosts]
        return BalanceSituation(
            now=self.world.now,
            cell=GridEngineCellSnapshot(
                hosts=tuple(CellExecutionHost(name=name, load=0.1) for name in names),
                instances=tuple(instances),
                waiting=tuple(replace(one, first_since=self.world.now, oldest_since=self.world.now) for one in wait),
            ),
            master=MASTER,
            best_effort=frozenset((BEST,)),
        )

    def schedule(self) -> None:
        """End finished tasks, and start waiting tasks in free slots."""
        for host in self.hosts.values():
            if host.is_suspended:
                self.made_way += host.best_effort
                host.best_effort = 0
            over = [end for end in host.ends if end <= self.world.now and not host.is_silent]
            self.ended += len(over)
            host.ends = [end for end in host.ends if end not in over]
            while self.waits and host.is_open and not host.is_silent and len(host.ends) < SLOTS:
                host.ends.append(self.world.now + self.waits.pop(0))


class World:
    """The simulated cloud and cell, and a balancer that restarts after each kill."""

    def __init__(self, folder: Path, trouble: Trouble, own: int = 0, **limits: object) -> None:
        self.now = NOON
        self.trouble = trouble
        self.cloud = Cloud(self, trouble)
        self.cell = Cell(self, trouble)
        names = [f"alpha-n{number}" for number in range(1, own + 1)]
        self.switches = Switches(self, dict.fromkeys(names, NOON))
        self.cell.hosts = {name: HostThere(address="", is_open=True) for name in names}
        self.squeeze: dict[str, object] = {}
        self.is_squeezed = True
        self.kills_master = False
        self.pool = POOL
        self.pools: dict[str, NodePoolSection] = {}  # more of them, and who makes their nodes
        self.others: dict[str, MachineProvider] = {}
        self.wide = 0  # slots of a task that waits, for as long as that is not 0
        self.price = 0.0
        self.retry_s = 300.0
        self.boot_timeout_s = 600.0
        self.folder = folder
        self.limits: dict[str, object] = {"max_nodes": 5, "min_nodes": 1, **limits}
        self.told: list[str] = []
        self._database: StateFile | None = None
        self.membership: ExecutionHostMembership = self.cell
        self.look: Callable[[], BalanceSituation] = self.cell.situation
        self.tags: Callable[[], Mapping[str, tuple[str, ...]]] = lambda: self.cell.tags
        self.tag: ChangeHostTag = self.cell.tag

    def site(self) -> SiteBalancerSettings:
        rules = BalanceSection(**{"policy": BalancePolicyName.DEMAND, **self.limits})  # type: ignore[arg-type]  # a test's
        demand = DemandPolicySection(
            idle_timeout_s=120,
            shrink_pause_s=0,
            boot_timeout_s=self.boot_timeout_s,
            retry_s=self.retry_s,
            billing_s=1.0,
        )
        usual = NodePoolSection(slots=SLOTS, provider="cloud", boot_s=60, price=self.price)
        pools = {self.pool: usual, **self.pools}
        if not self.switches.up_at:
            sections = {"cloud": MachineProviderSection(program="/opt/rent")}
            known = {"pools": pools, "sections": sections, "kills_master": self.kills_master}
            return SiteBalancerSettings(cluster=CLUSTER, rules=rules, demand=demand, **known)  # type: ignore[arg-type]
        own = SiteBalancerSettings(cluster=CLUSTER, rules=rules, demand=demand, pools={})
        if not self.is_squeezed:
            return replace(own, released=frozenset({RACK}))
        squeeze = SqueezeSection(**self.squeeze)  # type: ignore[arg-type]  # a test's
        return replace(own, squeeze=squeeze, switched=frozenset({RACK}))

    def providers(self, site: SiteBalancerSettings) -> dict[str, MachineProvider]:
        if site.switched:
            return {RACK: self.switches}
        if site.released:
            return {}
        return {self.pool: self.cloud, **self.others}

    def acts(self, site: SiteBalancerSettings) -> NodeActRunner:
        return NodeActRunner(
            cluster=CLUSTER,
            pools=site.pools,
            providers=self.providers(site),
            supplies=self.providers(site),
            membership=self.membership,
            now=lambda: self.now,
            tag=self.tag,
        )

    def cut(self, machine: ProviderMachine) -> None:
        """Kill the tasks on a machine's host, and silence the host for ever."""
        host = self.cell.hosts.get(machine.name)
        if host and host.address == f"10.0.0.{machine.id[2:]}":
            self.cell.killed += len(host.ends)
            host.ends, host.is_silent = [], True

    def round(self, *, is_dry: bool = False) -> BalancerRoundPlan | None:
        """Run a round; return None if the round was killed or the cell did not answer."""
        site = self.site()
        providers = self.providers(site)
        clock = Clock(lambda: self.now.timestamp(), lambda: self.now.timestamp())
        acts = self.acts(site)
        memory = BalancerStateRows(self.database())
        balancer = BalancerRoundRunner(
            *(site, memory, clock, self.look, providers, acts, self.tags),
            address_of=lambda host: self.cell.hosts[host].address,
        )
        try:
            return run_cycle_once(balancer, self.told.append, is_dry=is_dry)
        except Killed:
            self.lose_memory()
        except ClusterStateUnknown as error:
            self.told.append(str(error))
        return None

    def database(self) -> StateFile:
        if self._database is None:
            self._database = StateFile.open(f"sqlite:////{self.folder}/state.db")
        return self._database

    def lose_memory(self) -> None:
        """Close the state file, so that the next round opens the file again."""
        self.database().close()
        self._database = None

    def minutes(
        self, count: int, before: Callable[[], None] = lambda: None, *, waits: list[timedelta] | None = None
    ) -> None:
        """Run a round in each of the next minutes.

        `waits` replaces the run times of the waiting tasks.
        """
        self.cell.waits = self.cell.waits if waits is None else waits
        for _ in range(count):
            self.cell.schedule()
            before()
            self.round()
            self.now += timedelta(minutes=1)

    def nodes(self) -> dict[str, str]:
        return {one.name: one.state.value for one in BalancerStateRows(self.database()).nodes.load_all_nodes()}

    def running(self) -> int:
        return sum(len(one.ends) for one in self.cell.hosts.values())

    def quiet(self) -> None:
        quiet = Trouble(random=self.trouble.random)
        self.trouble = self.cloud.trouble = self.cell.trouble = quiet
        self.cell.slips_in = False

    def plan(self) -> BalancerRoundPlan:
        """Run a round that makes a plan."""
        plan = self.round()
        assert plan
        return plan

    @property
    def rows(self) -> BalancerStateRows:
        return BalancerStateRows(self.database())
