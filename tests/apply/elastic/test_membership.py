"""What a cell is asked to do with a host that joins, and with one that is gone."""

import pytest

from gridbridge.apply.elastic import membership
from gridbridge.apply.elastic.membership import GridEngineMembership
from gridbridge.apply.elastic.preparing import Preparing
from gridbridge.batch.gridengine.membership.hosts import Instance
from gridbridge.errors import StillThere
from gridbridge.model.elastic.joining import Joining, JoinStep
from gridbridge.model.elastic.sections import Bootstrap
from gridbridge.model.route import Cell

CELL = Cell(root="/", cell="c", qmaster_port="1", execd_port="2", binaries="", timeout_s=5)


class Hosts:
    """The calls of batch.gridengine.membership.hosts: one host, and what was done with it."""

    def __init__(self, *instances: Instance) -> None:
        self.there = instances
        self.done: list[str] = []

    def instances(self, *_: object) -> tuple[Instance, ...]:
        """Return its queue instances."""
        return self.there

    def admitted(self, *_: object) -> tuple[str, ...]:
        """Return the hosts that the cell knows."""
        return ("n1",)

    def is_up(self, *_: object) -> bool:
        """Say that it reports."""
        return True

    def set_slots(self, _: object, host: str, queue: str, slots: int) -> None:
        """Note it."""
        self.done.append(f"{queue}@{host} {slots}")

    def put_back(self, _: object, host: str, queue: str) -> None:
        """Note it."""
        self.done.append(f"put back {queue}@{host}")

    def __getattr__(self, name: str) -> object:
        """Do anything else without a word."""
        return lambda *_: None


def site(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> GridEngineMembership:
    """Return a cell with one host."""
    monkeypatch.setattr(membership, "hosts", hosts)
    monkeypatch.setattr(membership, "address_of", lambda _: "10.0.0.9")
    preparing = Preparing(settings=Bootstrap(), cell=CELL)
    return GridEngineMembership(cell=CELL, preparing=preparing, root=lambda *_: None)


@pytest.mark.parametrize(
    ("queues", "expected"), [((), ["all.q@n1 4"]), (("long.q",), ["long.q@n1 4"])]
)
def test_a_new_host_gets_its_slots_in_each_queue(
    monkeypatch: pytest.MonkeyPatch, queues: tuple[str, ...], expected: list[str]
) -> None:
    """In those that its pool names, else in those of its host groups, but best-effort ones."""
    usual = Instance(queue="all.q", slots=2, is_used=False, is_disabled=True)
    besteffort = Instance(
        queue="gb-be1", slots=1, is_used=False, is_disabled=True, is_best_effort=True
    )
    hosts = Hosts(usual, besteffort)
    node = Joining(name="n1", address="10.0.0.9", slots=4, queues=queues)

    assert site(hosts, monkeypatch).join(node) is JoinStep.JOINED
    assert hosts.done == expected


def test_of_a_host_that_is_gone_the_jobs_are_named_that_stay_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = Instance(queue="all.q", slots=2, is_used=True, is_disabled=True, jobs=(62, 61, 62))
    hosts = Hosts(used)

    with pytest.raises(StillThere, match=r"^n1 is gone with tasks of 61 62: `qdel -f 61 62`"):
        site(hosts, monkeypatch).leave("n1", is_dead=True)
    assert hosts.done == ["put back all.q@n1"]
