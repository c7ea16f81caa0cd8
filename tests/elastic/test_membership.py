"""How a host joins a cell and leaves a cell."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest

from gridbridge.batch.gridengine.execution_hosts import HostQueueInstance
from gridbridge.elastic import host_membership_and_tags
from gridbridge.elastic.host_membership_and_tags import GridEngineHostMembership
from gridbridge.elastic.machine_bootstrap import NewMachineBootstrap
from gridbridge.errors import NewHostInNoQueue, NewMachineAddressInUse, TasksOnLostHost
from gridbridge.model.elastic.balancer_config_sections import MachineBootstrapSection
from gridbridge.model.elastic.elastic_nodes import HostJoinStep, MachineToJoinCell
from gridbridge.model.transfer_route import GridEngineCellAccess
from tests.builders.programs import write_program

CELL = GridEngineCellAccess(root="/", cell="c", qmaster_port="1", execd_port="2", binaries="", timeout_s=5)


class Hosts:
    """A fake of batch.gridengine.execution_hosts that has one host and records calls."""

    def __init__(self, *instances: HostQueueInstance) -> None:
        self.there = instances
        self.done: list[str] = []

    def query_host_queue_instances(self, *_: object) -> tuple[HostQueueInstance, ...]:
        return self.there

    def list_execution_hosts(self, *_: object) -> tuple[str, ...]:
        return ("n1",)

    def is_execd_up(self, *_: object) -> bool:
        return True

    def set_queue_slots(self, _: object, host: str, queue: str, slots: int) -> None:
        self.done.append(f"{queue}@{host} {slots}")

    def place_host_last_in_queues(self, _: object, host: str, queues: tuple[str, ...]) -> None:
        self.done.append(f"{' '.join(queues)} @{host} after the others")

    def enable_host_queues(self, _: object, host: str, closed: frozenset[str]) -> tuple[str, ...]:
        self.done.append(f"open {host}")
        return tuple(one.queue for one in self.there if one.queue in closed)

    def reschedule_instance_tasks(self, _: object, host: str, queue: str) -> None:
        self.done.append(f"put back {queue}@{host}")

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


def site(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> GridEngineHostMembership:
    monkeypatch.setattr(host_membership_and_tags, "execution_hosts", hosts)
    monkeypatch.setattr(host_membership_and_tags, "resolve_host_address", lambda _: "10.0.0.9")
    preparing = NewMachineBootstrap(settings=MachineBootstrapSection(), cell=CELL)
    return GridEngineHostMembership(cell=CELL, preparing=preparing, root=lambda *_: None)


USUAL = HostQueueInstance(queue="all.q", slots=2, is_used=False, is_disabled=True)
BEST_EFFORT = HostQueueInstance(queue="gb-be1", slots=1, is_used=False, is_disabled=True, is_best_effort=True)


@pytest.mark.parametrize(
    ("instances", "queues", "expected"),
    [
        ((USUAL, BEST_EFFORT), (), ["all.q@n1 4", "open n1"]),
        ((USUAL, BEST_EFFORT), ("long.q",), ["long.q@n1 4", "open n1"]),
        ((BEST_EFFORT,), (), ["open n1"]),
    ],
)
def test_a_new_host_gets_its_slots_in_each_queue(
    monkeypatch: pytest.MonkeyPatch,
    instances: tuple[HostQueueInstance, ...],
    queues: tuple[str, ...],
    expected: list[str],
) -> None:
    """A pool without queues uses the queues of the host groups, except best-effort queues."""
    hosts = Hosts(*instances)
    node = MachineToJoinCell(name="n1", address="10.0.0.9", slots=4, queues=queues)

    assert site(hosts, monkeypatch).join_host_to_cluster(node) is HostJoinStep.JOINED
    assert hosts.done == expected


def test_a_host_filled_last_is_placed_in_the_queues_before_it_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("all.q", "long.q")
    hosts = Hosts(*(HostQueueInstance(queue=one, slots=2, is_used=False, is_disabled=True) for one in names))
    node = MachineToJoinCell(name="n1", address="10.0.0.9", slots=4, is_filled_last=True)
    site(hosts, monkeypatch).join_host_to_cluster(node)

    expected = ["all.q@n1 4", "long.q@n1 4", "all.q long.q @n1 after the others", "open n1"]
    assert hosts.done == expected


def test_parallel_joins_place_hosts_in_queues_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second host must see the sequence number of the first."""
    hosts = Hosts(USUAL)
    meet = Barrier(2)

    def place_host_last_in_queues(_: object, host: str, queues: tuple[str, ...]) -> None:
        with suppress(BrokenBarrierError):
            meet.wait(0.2)
            hosts.done.append(f"{queues}@{host} with another")

    monkeypatch.setattr(hosts, "place_host_last_in_queues", place_host_last_in_queues)
    monkeypatch.setattr(hosts, "list_execution_hosts", lambda *_: ("n1", "n2"))
    cell = site(hosts, monkeypatch)
    nodes = [MachineToJoinCell(name=name, address="10.0.0.9", slots=4, is_filled_last=True) for name in ("n1", "n2")]
    with ThreadPoolExecutor(2) as threads:
        done = list(threads.map(cell.join_host_to_cluster, nodes))

    assert done == [HostJoinStep.JOINED] * 2
    assert not [one for one in hosts.done if "another" in one]


@pytest.mark.parametrize("joins", [False, True], ids=["both leave", "one joins"])
def test_queues_are_changed_for_one_host_at_a_time(monkeypatch: pytest.MonkeyPatch, joins: bool) -> None:
    """Grid Engine rewrites whole queues when a host leaves, and would lose a parallel change."""
    hosts = Hosts(USUAL)
    meet = Barrier(2)

    def change(*_: object) -> None:
        with suppress(BrokenBarrierError):
            meet.wait(0.2)
            hosts.done.append("with another")

    for name in ("leave_queues", "set_slots"):
        monkeypatch.setattr(hosts, name, change)
    cell = site(hosts, monkeypatch)
    monkeypatch.setattr(GridEngineHostMembership, "_empty_host_or_say_what_is_in_use", lambda *_, **__: "")
    node = MachineToJoinCell(name="n1", address="10.0.0.9", slots=4)
    with ThreadPoolExecutor(2) as threads:
        ends = [threads.submit(cell.remove_host, "n2", is_dead=True)]
        ends.append(
            threads.submit(cell.join_host_to_cluster, node)
            if joins
            else threads.submit(cell.remove_host, "n3", is_dead=True)
        )
    assert [one.exception() for one in ends] == [None, None]
    assert "with another" not in hosts.done


def test_a_new_host_in_no_queue_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    node = MachineToJoinCell(name="n1", address="10.0.0.9", slots=4, hostgroups=("@a", "@b"))

    with pytest.raises(NewHostInNoQueue, match=r"^n1 is in no queue: .* has n1 or @a or @b$"):
        site(Hosts(), monkeypatch).join_host_to_cluster(node)


@pytest.mark.parametrize("taken", ["n2", "n2.site", "nfs1", socket.gethostname()])
def test_a_machine_with_the_address_of_another_host_is_not_prepared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, taken: str
) -> None:
    """A wrong machine list must not lead to a login on the file server or the master."""
    (tmp_path / "mounts").write_text("# of the site\nnfs1:/home /home nfs defaults 0 0\n")
    hosts = Hosts()
    monkeypatch.setattr(hosts, "list_execution_hosts", lambda *_: ("n2", "n2.site"))
    cell = site(hosts, monkeypatch)
    done = list[tuple[object, ...]]()
    settings = MachineBootstrapSection(steps="mounts", mounts=str(tmp_path / "mounts"))
    cell = replace(
        cell, preparing=NewMachineBootstrap(settings=settings, cell=CELL), root=lambda *words: done.append(words)
    )
    monkeypatch.setattr(host_membership_and_tags, "resolve_host_address", {taken: "10.0.0.9"}.get)

    with pytest.raises(NewMachineAddressInUse):
        cell.join_host_to_cluster(MachineToJoinCell(name="n1", address="10.0.0.9", slots=4))
    assert (done, hosts.done) == ([], [])


def test_a_machine_may_have_the_address_of_a_silent_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clouds reuse the addresses of deleted machines."""
    hosts = Hosts()
    monkeypatch.setattr(hosts, "list_execution_hosts", lambda *_: ("n2",))
    monkeypatch.setattr(hosts, "is_execd_up", lambda *_: False)
    cell = site(hosts, monkeypatch)
    monkeypatch.setattr(host_membership_and_tags, "resolve_host_address", {"n1": "10.0.0.9", "n2": "10.0.0.9"}.get)

    assert cell.join_host_to_cluster(MachineToJoinCell(name="n1", address="10.0.0.9", slots=4)) is HostJoinStep.ADMITTED


def test_a_disabled_queue_stays_closed_on_a_new_host(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = Hosts(USUAL)
    node = MachineToJoinCell(name="n1", address="10.0.0.9", slots=4, closed=frozenset(("all.q", "long.q")))

    assert site(hosts, monkeypatch).join_host_to_cluster(node) is HostJoinStep.CLOSED


def test_the_error_about_a_lost_host_names_only_the_tasks_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks of the same arrays run on other hosts."""
    tasks = ("61", "62.3", "61")  # a parallel job has a row for each queue
    hosts = Hosts(HostQueueInstance(queue="all.q", slots=3, is_used=True, is_disabled=True, tasks=tasks))

    with pytest.raises(TasksOnLostHost, match=r"^n1 is gone with tasks 61 62\.3: `qdel -f 61 62\.3` ends"):
        site(hosts, monkeypatch).remove_host("n1", is_dead=True)
    assert hosts.done == ["put back all.q@n1"]


def test_rescheduled_tasks_of_a_lost_host_do_not_delay_its_removal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = HostQueueInstance(queue="all.q", slots=2, is_used=True, is_disabled=True, tasks=("62.3",))
    hosts = Hosts(used)
    monkeypatch.setattr(hosts, "reschedule_instance_tasks", lambda *_: setattr(hosts, "there", ()))

    done = site(hosts, monkeypatch).remove_host("n1", is_dead=True)

    assert done == ""


@pytest.mark.parametrize(
    ("granted", "is_idle"),
    [({"all.q@n1": 1}, False), ({"all.q@n1.site": 2}, False), ({"all.q@n11": 1}, True), ({}, True)],
)
def test_a_host_with_reserved_slots_is_not_idle(
    granted: dict[str, int], is_idle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reservation may begin later."""
    hosts = Hosts(USUAL)
    cell = site(hosts, monkeypatch)
    monkeypatch.setattr(
        host_membership_and_tags.cell_configuration_reader, "query_advance_reserved_slots", lambda _: granted
    )

    assert cell.check_host_before_removal("n1").is_idle is is_idle


QCONF = """#!/bin/sh
echo "$*" >>"$0.log"
case $1 in
-sel) [ -e "$0.gone" ] && echo "no execution host defined" || echo n1 ;;
-de) [ -e "$0.named" ] && echo 'Host object "n1" is still referenced in "@site"' && exit 1
    touch "$0.gone" ;;
-shgrpl) echo "no host group defined" ;;
-sh | -ss) echo master ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return the programs' folder of a cell with one idle host; its qconf records calls."""
    for name, text in (("qconf", QCONF), ("qstat", "#!/bin/sh\nexit 1\n")):
        write_program(tmp_path / name, text)
    return tmp_path


def leave(programs: Path, *, is_dead: bool = False) -> tuple[str, list[str]]:
    ports = {"qmaster_port": "1", "execd_port": "2"}
    cell = GridEngineCellAccess(root=str(programs), cell="c", binaries=str(programs), timeout_s=30, **ports)
    preparing = NewMachineBootstrap(settings=MachineBootstrapSection(), cell=cell)
    site = GridEngineHostMembership(cell=cell, preparing=preparing, root=lambda *_: None)
    told = site.remove_host("n1", is_dead=is_dead)
    calls = (programs / "qconf.log").read_text().splitlines()
    return told, [one for one in calls if not one.startswith("-s")]


@pytest.mark.parametrize(("is_dead", "calls"), [(False, ["-ke n1", "-de n1"]), (True, ["-de n1"])])
def test_the_daemon_of_a_living_host_is_stopped_before_the_removal(
    programs: Path, is_dead: bool, calls: list[str]
) -> None:
    """A running daemon registers its host again (qconf(1), -ke)."""
    assert leave(programs, is_dead=is_dead) == ("", calls)


def test_an_object_that_refers_to_the_host_is_reported_with_a_command(programs: Path) -> None:
    (programs / "qconf.named").touch()

    told, _ = leave(programs)

    why = 'Host object "n1" is still referenced in "@site"; `qconf -de n1` shows this message'
    assert told == why


def test_best_effort_tasks_that_do_not_end_are_reported_with_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    used = HostQueueInstance(
        queue="gb-be1", slots=2, is_used=True, is_disabled=True, is_best_effort=True, tasks=("61",)
    )

    told = site(Hosts(used), monkeypatch).remove_host("n1", is_dead=False)

    why = "slots are in use in gb-be1: `qstat -u '*' -s rs -q '*@n1'` shows the tasks"
    assert told == why
