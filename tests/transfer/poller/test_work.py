"""The number of statements that a transfer costs the state file."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import Engine, event

from gridbridge.model.transfer_messages_in_spool import TransferMessageKind, TransferOutcome
from gridbridge.state import published_json
from tests.transfer.poller.messages import RECORD
from tests.transfer.poller.test_transfer_round import CLOSED, Machine

BEGIN = "BEGIN IMMEDIATE"
ENDED = RECORD.with_changes(kind=TransferMessageKind.ENDED, outcome=TransferOutcome.EXIT, exit_status="0", user_s="0.5")


def statements(act: Callable[[], object]) -> list[str]:
    given: list[str] = []
    note = lambda *args: given.append(args[2])  # noqa: E731 - to be removed by its name
    event.listen(Engine, "before_cursor_execute", note)
    try:
        act()
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    return given


def test_each_message_of_a_transfer_writes_one_transfer_row_and_one_event(machine: Machine) -> None:
    """An end also writes its decision and its usage."""
    machine.answer("")
    found = []
    for message in (RECORD, ENDED, CLOSED):
        given = statements(partial(machine.send, message))
        changes = Counter(each.split()[2] for each in given if each.startswith("INSERT"))
        found.append(dict(changes))

    row = {"transfers": 1, "events": 1}
    assert found == [row, row | {"decisions": 1, "remote_records": 1}, row]


def test_an_idle_round_uses_one_transaction(machine: Machine) -> None:
    machine.service.run_poller_round()  # it removes what is old
    given = statements(machine.service.run_poller_round)

    assert given.count(BEGIN) == 1
    assert len(given) == len(set(given))


def test_histories_of_a_person_are_counted_only_for_a_new_history(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []
    monkeypatch.setattr(published_json, "limit_unverified_histories", lambda *which: counted.append(which))

    machine.send(RECORD, ENDED, CLOSED)
    first = len(counted)
    machine.send(RECORD.with_changes(transfer="gb.alpha.8.0.1", remote_id="41", wake="f1"))

    assert (first, len(counted)) == (1, 2)
