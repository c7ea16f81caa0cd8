"""The one table of adapters: every kind has its own, and each tells what it can by what it has."""

from dataclasses import fields

import pytest

from gridbridge.apply.adapters import ADAPTERS, Adapter, adapter_of
from gridbridge.apply.clusters import REACHED
from gridbridge.apply.transfer.home import HOMES
from gridbridge.batch import HOT, RECALLERS, recaller_of, submitter
from gridbridge.model.cluster import Kind
from gridbridge.model.request import JobSpec, Request
from gridbridge.model.route import Away, Cell, Folder, OarServer

CELL = Cell(root="/r", cell="c", qmaster_port="1", execd_port="2", binaries="/b", timeout_s=1)
OAR = OarServer(timeout_s=15)
FOLDER = Folder(path="/c", python="/usr/bin/python3", timeout_s=5)
SPEC = JobSpec(transfer="gb.alpha.1.0.1", request=Request(), cwd="/work")
OPTIONAL = tuple(field.name for field in fields(Adapter) if field.default is None)


def test_every_kind_has_an_adapter_and_a_way_to_reach_it() -> None:
    """A new kind is a line in each table; nothing else asks for a kind's name."""
    assert set(ADAPTERS) == set(REACHED) == set(HOT) == set(Kind)


@pytest.mark.parametrize("where", [CELL, OAR, FOLDER], ids=["gridengine", "oar", "embedded"])
def test_a_cluster_has_the_adapter_of_its_kind_hot_and_cold(where: Away) -> None:
    assert adapter_of(where).submit is submitter(where)


@pytest.mark.parametrize(
    ("where", "abilities"),
    [
        (
            CELL,
            {
                *("at_home", "sets_up", "makes_queues", "watches", "recalls"),
                *("tells_accounts", "accounts", "shows_requests", "alters"),
            },
        ),
        (OAR, {"sets_up", "listens"}),
        (FOLDER, {"at_home", "lists_queues"}),
    ],
    ids=["gridengine", "oar", "embedded"],
)
def test_an_adapter_has_what_its_system_can(where: Away, abilities: set[str]) -> None:
    adapter = adapter_of(where)

    assert {name for name in OPTIONAL if getattr(adapter, name)} == abilities


def test_what_can_be_recalled_is_the_same_for_the_service_and_for_a_starter() -> None:
    assert set(RECALLERS) == {kind for kind, adapter in ADAPTERS.items() if adapter.recalls}
    assert recaller_of(CELL) is adapter_of(CELL).recalls
    assert recaller_of(OAR) is None


def test_whatever_can_be_at_home_has_its_acts_there() -> None:
    assert set(HOMES) == {kind for kind, adapter in ADAPTERS.items() if adapter.at_home}


@pytest.mark.parametrize(
    ("where", "program"), [(CELL, "/b/qsub"), (OAR, "/usr/bin/oarsub"), (FOLDER, "submit")]
)
def test_each_explains_the_submission_that_it_would_make(where: Away, program: str) -> None:
    argv = adapter_of(where).explains.submission(where, SPEC)

    assert program in argv
    assert adapter_of(where).explains.refusal(SPEC.request) == ""
