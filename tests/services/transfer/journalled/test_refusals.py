"""Refused messages as they are kept: judged again they are refused for the same reason."""

from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.decisions.transfer.receive import Received, judge
from gridbridge.model.message import Desired, Kind, Message
from gridbridge.model.transfer.plan import Rejected
from gridbridge.services.encoding import encode
from gridbridge.services.journal import Journal
from gridbridge.services.transfer.journalled import refusals
from gridbridge.services.transfer.journalled.refusals import AN_HOUR, Refusals
from gridbridge.shell.clock import Clock
from gridbridge.state.database import Database
from gridbridge.state.database.decisions import Decisions
from tests.decisions.transfer.test_plan import NOON, a_transfer


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database.open(f"sqlite:///{tmp_path}/state.db")


def received(**values: object) -> Received:
    """Return a message by a route of ours that nothing is known of."""
    known = {
        "message": Message(kind=Kind.ENDED, transfer="gb.alpha.7.0.1", exit_status="0"),
        "known": None,
        "home": "alpha",
        "routes": frozenset({("transfer-beta", "beta"), ("transfer-gamma", "gamma")}),
        "uid": 1001,
        "owner": "alice",
        "record": "m.1",
        "now": NOON,
    }
    return Received(**(known | values))  # type: ignore[arg-type]  # the tests' own words


ENDED_EARLY = "refuse gb.alpha.7.0.1: ended of a transfer without record"


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (received(), ENDED_EARLY),
        (received(home="beta"), "refuse gb.alpha.7.0.1: not of cluster beta"),
        (
            received(known=a_transfer(), message=Message(kind="?", transfer="gb.alpha.7.0.1")),
            "refuse gb.alpha.7.0.1: unknown kind '?'",
        ),
        (
            received(message=Message(kind=Kind.RECORD, transfer="gb.alpha.7.0.1", queue="\udcff")),
            "refuse gb.alpha.7.0.1: no transfer queue '\\udcff' leads to ''",
        ),
    ],
    ids=["too early", "another home's", "of no kind", "no route"],
)
def test_a_refusal_is_made_again_from_its_message(
    database: Database, one: Received, told: str
) -> None:
    refusal = judge(one)
    assert isinstance(refusal, Rejected)
    Refusals(Journal(database), Clock()).keep(one, refusal)

    (kept,) = Decisions(database).last(9)
    assert (kept.program, kept.inputs["actions"]) == (refusals.PROGRAM, [told])
    assert refusals.again(kept.inputs) == [told]


def test_a_message_that_would_be_taken_by_now_is_told_so(database: Database) -> None:
    message = Message(kind=Kind.INTENT, transfer="gb.alpha.7.0.1", desired=Desired.DEAD)
    early = received(message=message)
    refusal = judge(early)
    assert isinstance(refusal, Rejected)
    Refusals(Journal(database), Clock()).keep(early, refusal)

    (kept,) = Decisions(database).last(9)
    known = encode(replace(early, known=a_transfer()))
    assert refusals.again({**kept.inputs, "received": known}) == ["take gb.alpha.7.0.1"]


def test_nobody_fills_the_journal_with_what_is_refused(database: Database) -> None:
    refusals = Refusals(Journal(database), Clock())
    for uid in [1001] * (2 * AN_HOUR) + [1002]:
        refusals.keep(received(uid=uid), Rejected(what="x", reason="y"))

    assert len(Decisions(database).last(99)) == AN_HOUR + 1
