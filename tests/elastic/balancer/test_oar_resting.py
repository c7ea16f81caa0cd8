"""Rounds that power nodes of an OAR server off and on, killed at each call."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from gridbridge.batch.oar import oar_node_power_and_tags
from gridbridge.batch.oar.oar_command_line_builders import BREAK, WHOLE
from gridbridge.batch.oar.oar_demand_reader import encode_reachable_hosts
from gridbridge.batch.oar.oar_node_membership import OarNodeMembership
from gridbridge.batch.oar.oar_output_parser import MAY_REST
from gridbridge.elastic.balancer_round_queries import parse_balance_situation
from gridbridge.errors import CommandFailed
from gridbridge.model.elastic.balance_plan import BalanceSituation, SavedBalancerRoundInput
from tests.batch.oar.test_oar_output import NEVER, answer, nodes, resource, shown
from tests.elastic.balancer.world import Killed, Trouble, World

MINE = "htools:standby:auto"
WANTED = "-l \"{type = 'default'}/resource_id=1,walltime=0:10:0\" "
MANY = 175  # calls: no fewer than a rest and a waking have
HOUR = timedelta(hours=1)


@dataclass
class Bomb(Trouble):
    """Kills the program at call number `at`."""

    at: int = 0
    calls: int = 0

    def may_end(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise Killed


@dataclass
class Row:
    """A node in OAR's database."""

    state: str = "Alive"
    next_state: str = "UnChanged"
    drain: str = "NO"
    upto: int = NEVER
    tags: str = ""


@dataclass
class Server:
    """An OAR server whose nodes have two slots. A change of a node's state applies at the next query."""

    world: World
    rows: dict[str, Row]
    lands: str = ""  # a job starts on this node while it is being drained

    def document(self) -> bytes:
        """Return the output of oarnodes and oarstat, and the hosts that answer."""
        self._turn()
        first = {host: 2 * at + 1 for at, host in enumerate(self.rows)}  # number of each node's first slot
        resources = (self._resource(first[host] + n, host) for host in self.rows for n in (0, 1))
        taken = [[first[host] + n] for host, there in self.world.cell.hosts.items() for n in range(len(there.ends))]
        states = [("Running", slots) for slots in taken] + [("Waiting", list[int]())] * len(self.world.cell.waits)
        jobs = (
            shown(Job_Id=number, state=state, assigned_resources=slots, wanted_resources=WANTED, message="")
            for number, (state, slots) in enumerate(states, 1)
        )
        up = [host for host in self.rows if self._is_up(host)]
        return nodes(*resources) + BREAK + answer(*jobs) + WHOLE + encode_reachable_hosts(up)

    def look(self, host: str) -> oar_node_power_and_tags.OarNodeState:
        self.world.trouble.may_end()
        told, whole, _ = self.document().rpartition(WHOLE)
        return oar_node_power_and_tags.parse_oar_node_state(told + whole, host)

    def root(self, word: str, host: str) -> None:
        """Apply root's command `word` to a node, as oarnodesetting would."""
        self.world.trouble.may_end()
        row, words = self.rows[host], oar_node_power_and_tags.set_oar_node_state_command(word, host)[3:]
        said = (
            dict(zip(words[::2], words[1::2], strict=False)) if "-n" not in words else {"-s": "Absent", "-p": words[-1]}
        )
        row.next_state = said.get("-s", row.next_state)
        row.drain = {"on": "YES", "off": "NO"}.get(said.get("-d", ""), row.drain)
        if "-p" in said:
            row.upto = int(said["-p"].partition("=")[2])
        if word == "drain" and self.lands == host:
            self.lands = ""  # by a pass of the scheduler that had begun before
            self.world.cell.hosts[host].ends.append(self.world.now + timedelta(minutes=9))
        self.world.trouble.may_end()

    def situation(self) -> BalanceSituation:
        kept = SavedBalancerRoundInput(now=self.world.now, master="gamma-master")
        return parse_balance_situation({"oar.txt": self.document()}, kept, "gamma")

    def tags(self) -> dict[str, tuple[str, ...]]:
        told, _, _ = self.document().partition(BREAK)
        return dict(oar_node_power_and_tags.parse_oar_node_tags(told))

    def tag(self, host: str, tag: str, is_wanted: bool) -> None:
        self.world.trouble.may_end()
        self.rows[host].tags = tag if is_wanted else ""
        self.world.trouble.may_end()

    def _turn(self) -> None:
        """Apply the requested node states; a node that becomes absent loses its jobs."""
        cell = self.world.cell
        for host, row in self.rows.items():
            if row.next_state == "Absent":
                cell.killed += len(cell.hosts[host].ends)
                cell.hosts[host].ends = []
            row.state = row.state if row.next_state == "UnChanged" else row.next_state
            row.next_state = "UnChanged"
            cell.hosts[host].is_open = row.state == "Alive" and row.drain == "NO"

    def _is_up(self, host: str) -> bool:
        at = self.world.switches.up_at[host]
        return at is not None and at <= self.world.now

    def _resource(self, number: int, host: str) -> dict[str, object]:
        row = self.rows[host]
        is_lost = row.state == "Alive" and not self._is_up(host)
        values = {"drain": row.drain, "available_upto": row.upto, "gb_tags": row.tags or None}
        return resource(number, host, state="Suspected" if is_lost else row.state, next_state=row.next_state, **values)


class OarWorld(World):
    def __init__(self, folder: Path, trouble: Trouble) -> None:
        super().__init__(folder, trouble, own=4, max_nodes=9)
        self.server = Server(self, {name: Row() for name in self.cell.hosts})
        self.membership = OarNodeMembership(look_at=self.server.look, root=self.server.root, pause=lambda _: None)
        self.look, self.tags, self.tag = (self.server.situation, self.server.tags, self.server.tag)

    @property
    def resting(self) -> list[str]:
        return [name for name, row in self.server.rows.items() if row.state == "Absent"]


@pytest.fixture
def world(tmp_path: Path) -> OarWorld:
    return OarWorld(tmp_path, Trouble())


def test_powered_off_oar_nodes_are_absent_tagged_and_wakeable(world: OarWorld) -> None:
    world.minutes(12)

    rested = [world.server.rows[name] for name in world.resting]
    assert rested == [Row(state="Absent", upto=MAY_REST, tags=MINE)] * 3
    assert sorted(world.resting) == sorted(world.switches.off)


def test_waiting_jobs_wake_oar_nodes_and_remove_the_tag(world: OarWorld) -> None:
    world.minutes(12)
    world.minutes(8, waits=[timedelta(minutes=20)] * 8)

    assert (world.resting, world.running(), world.cell.killed) == ([], 8, 0)
    assert {row.tags for row in world.server.rows.values()} == {""}
    assert {row.drain for row in world.server.rows.values()} == {"NO"}


def test_a_job_that_starts_while_its_oar_node_is_drained_keeps_running(world: OarWorld) -> None:
    world.minutes(1)
    world.server.lands = "alpha-n4"
    world.minutes(8)

    assert not world.server.lands
    assert world.cell.killed == 0
    assert "alpha-n4" not in world.resting


def test_an_oar_node_in_maintenance_is_neither_woken_nor_halted(world: OarWorld) -> None:
    """The command `oarnodesetting -m on` sets available_upto to 0."""
    world.minutes(12)
    chosen = world.resting[0]
    world.server.rows[chosen].upto = 0
    world.minutes(9, waits=[HOUR] * 8)

    assert world.resting == [chosen]
    assert chosen not in world.switches.on


def test_drained_and_suspected_oar_nodes_are_left_alone(world: OarWorld) -> None:
    world.server.rows["alpha-n1"].drain = "YES"
    world.server.rows["alpha-n2"].state = "Suspected"
    world.minutes(12)

    assert not {"alpha-n1", "alpha-n2"} & set(world.switches.off)
    assert world.server.rows["alpha-n1"].drain == "YES"


def test_a_state_change_that_oar_never_applies_is_an_error(world: OarWorld) -> None:
    stuck = oar_node_power_and_tags.OarNodeState(
        is_listed=True, is_idle=True, is_drained=True, is_alive=True, is_halted=False, is_settled=False
    )
    asked = list[tuple[str, ...]]()
    one = OarNodeMembership(look_at=lambda _: stuck, root=lambda *words: asked.append(words), pause=lambda _: None)

    with pytest.raises(CommandFailed, match="did not apply the change"):
        one.close_host_to_new_tasks("alpha-n1")
    assert asked == [("settle", "alpha-n1")]


@pytest.mark.parametrize("at", [pytest.param(n, marks=[pytest.mark.long] * (n % 17 != 1)) for n in range(1, MANY)])
def test_rounds_continue_after_a_kill_at_any_call_without_ending_a_job(tmp_path: Path, at: int) -> None:
    world = OarWorld(tmp_path, Bomb(at=at))
    world.minutes(6)
    world.minutes(4, waits=[timedelta(minutes=5)] * 8)
    busy = world.running()
    world.minutes(20)

    assert (world.cell.ended, world.cell.killed) == (8, 0)
    assert busy
    off = [name for name, up in world.switches.up_at.items() if up is None]
    assert sorted(off) == sorted(world.resting)
    assert len(off) == 3
    assert {world.server.rows[name].tags for name in off} == {MINE}
    assert {row.drain for row in world.server.rows.values()} == {"NO"}


def test_the_kill_tests_reach_every_call_of_a_power_off_and_a_wake(tmp_path: Path) -> None:
    trouble = Bomb()
    world = OarWorld(tmp_path, trouble)
    world.minutes(6)
    world.minutes(30, waits=[timedelta(minutes=5)] * 8)

    assert world.resting
    assert trouble.calls < MANY
