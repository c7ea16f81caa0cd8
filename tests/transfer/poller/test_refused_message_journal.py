"""Refused messages as they are kept: judged again they are refused for the same reason."""

from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.decisions.transfer.starter_message_acceptance import ReceivedStarterMessage, accept_or_reject_message
from gridbridge.model.transfer.transfers_and_actions import RejectedStarterMessage
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, TransferMessage, TransferMessageKind
from gridbridge.program.model_values_as_json import model_value_to_json
from gridbridge.shell.clock import Clock
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller import poller_decision_journal as refusals
from gridbridge.transfer.poller.poller_decision_journal import MOST_REJECTIONS_AN_HOUR, RefusedStarterMessageJournal
from tests.decisions.transfer.test_transfer_policy import NOON, a_transfer


@pytest.fixture
def database(tmp_path: Path) -> StateFile:
    return StateFile.open(f"sqlite:///{tmp_path}/state.db")


def received(**values: object) -> ReceivedStarterMessage:
    """Return a message by a route of ours that nothing is known of."""
    known = {
        "message": TransferMessage(kind=TransferMessageKind.ENDED, transfer="gb.alpha.7.0.1", exit_status="0"),
        "known": None,
        "home": "alpha",
        "routes": frozenset({("transfer-beta", "beta"), ("transfer-gamma", "gamma")}),
        "uid": 1001,
        "owner": "alice",
        "record": "m.1",
        "now": NOON,
    }
    return ReceivedStarterMessage(**(known | values))  # type: ignore[arg-type]  # the tests' own words


ENDED_EARLY = "refuse gb.alpha.7.0.1: ended message for a transfer without a record"


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (received(), ENDED_EARLY),
        (received(home="beta"), "refuse gb.alpha.7.0.1: the transfer is not of cluster beta"),
        (
            received(known=a_transfer(), message=TransferMessage(kind="?", transfer="gb.alpha.7.0.1")),
            "refuse gb.alpha.7.0.1: unknown kind '?'",
        ),
        (
            received(
                message=TransferMessage(kind=TransferMessageKind.RECORD, transfer="gb.alpha.7.0.1", queue="\udcff")
            ),
            "refuse gb.alpha.7.0.1: no transfer queue '\\udcff' leads to ''",
        ),
    ],
    ids=["too early", "another home's", "of no kind", "no route"],
)
def test_a_journalled_refusal_replays_to_the_same_refusal(
    database: StateFile, one: ReceivedStarterMessage, told: str
) -> None:
    refusal = accept_or_reject_message(one)
    assert isinstance(refusal, RejectedStarterMessage)
    RefusedStarterMessageJournal(DecisionJournal(database), Clock()).store_refusal(one, refusal)

    (kept,) = DecisionJournal(database).last(9)
    assert (kept.program, kept.inputs["actions"]) == (refusals.REFUSAL_PROGRAM, [told])
    assert refusals.replay_refused_starter_message(kept.inputs) == [told]


def test_the_replay_of_a_refusal_reports_that_the_message_is_acceptable_by_now(database: StateFile) -> None:
    message = TransferMessage(
        kind=TransferMessageKind.INTENT, transfer="gb.alpha.7.0.1", desired=DesiredLocalJobState.DEAD
    )
    early = received(message=message)
    refusal = accept_or_reject_message(early)
    assert isinstance(refusal, RejectedStarterMessage)
    RefusedStarterMessageJournal(DecisionJournal(database), Clock()).store_refusal(early, refusal)

    (kept,) = DecisionJournal(database).last(9)
    known = model_value_to_json(replace(early, known=a_transfer()))
    assert refusals.replay_refused_starter_message({**kept.inputs, "received": known}) == ["take gb.alpha.7.0.1"]


def test_journalled_refusals_per_person_and_hour_are_limited(database: StateFile) -> None:
    refusals = RefusedStarterMessageJournal(DecisionJournal(database), Clock())
    for uid in [1001] * (2 * MOST_REJECTIONS_AN_HOUR) + [1002]:
        refusals.store_refusal(received(uid=uid), RejectedStarterMessage(what="x", reason="y"))

    assert len(DecisionJournal(database).last(99)) == MOST_REJECTIONS_AN_HOUR + 1
