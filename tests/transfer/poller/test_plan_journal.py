"""Journalled decisions of the poller replay to the same result."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.starter_message_acceptance import ReceivedStarterMessage, accept_or_reject_message
from gridbridge.decisions.transfer.transfer_act_decisions import update_and_plan_transfers
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation, keep_rows_deciding_transfers
from gridbridge.model.cluster_snapshot import QueueInstanceStatus
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection
from gridbridge.model.transfer.transfers_and_actions import (
    TRANSFER_ACT_WORDS,
    RejectedStarterMessage,
    Transfer,
    TransferActKind,
)
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, TransferMessage, TransferMessageKind
from gridbridge.program.model_values_as_json import model_value_to_json
from gridbridge.shell.clock import Clock
from gridbridge.state.decision_journal import ROWS, DecisionJournal, DecisionJournalEntry
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller import poller_decision_journal as journal
from tests.decisions.transfer.test_message_rules import receive
from tests.decisions.transfer.test_transfer_policy import (
    NOON,
    POLICY,
    VERDICT,
    a_row,
    a_situation,
    a_snapshot,
    a_transfer,
    second,
)
from tests.states import queue_state

LETTERS = st.sampled_from([None, "", "r", "qw", "hqw", "Rq", "hRq", "dr", "Eqw", "s"])
DESIRED = st.sampled_from(["", DesiredLocalJobState.RUNNING, DesiredLocalJobState.DEAD])
QUEUE = QueueInstanceStatus(
    name="all.q@n1", slots_used=0, slots_reserved=0, slots_total=4, state=queue_state("u"), sends_away=True
)


def keep_news(
    state_file: StateFile,
    plans: journal.TransferPlanJournal,
    transfers: Sequence[Transfer],
    situation: TransferSituation,
) -> None:
    planned = update_and_plan_transfers(transfers, situation, POLICY)
    if entry := plans.entry_of_new_decisions(transfers, situation, POLICY, planned):
        DecisionJournal(state_file).store_decision(entry)


@given(LETTERS, LETTERS, DESIRED, st.booleans(), st.booleans(), st.integers(0, 3))
def test_the_journalled_rows_lead_to_the_same_plan_as_all_rows(
    local: str | None, remote: str | None, desired: str, asleep: bool, ended: bool, missed: int
) -> None:
    verdict = VERDICT if ended else None
    one = a_transfer(desired=desired, verdict=verdict, missed_polls=missed, remote_id=40 * missed)
    situation = a_situation(local=local, remote=remote, asleep=asleep, name=one.name)
    others = a_snapshot("beta", 60, a_row(41, "r", queue=QUEUE.name), queues=(QUEUE,))
    more = {"gamma": a_snapshot("gamma", 60, a_row(40, "r")), "beta": others}
    wide = replace(
        situation,
        snapshots=more | dict(situation.snapshots),
        asleep=situation.asleep | {"f1"},
        deleted_at_home={one.name: second(0), "gb.alpha.8.0.1": second(0)},
        dropped=frozenset({"delta"}),
        with_new_starter=frozenset({(one.name, one.uid), ("gb.alpha.8.0.1", 2)}),
        requeued_jobs=frozenset({7, 8}),
    )

    small = keep_rows_deciding_transfers([one], wide)

    assert update_and_plan_transfers([one], small, POLICY) == update_and_plan_transfers([one], wide, POLICY)
    assert "gamma" not in small.snapshots
    assert (small.asleep - {"f0"}, small.dropped, small.requeued_jobs - {7}) == (set(), set(), set())


@pytest.mark.parametrize("remote", ["dr", "Eqw", ""], ids=["deleting", "error", "gone"])
def test_a_journalled_decision_replays_to_the_same_actions(state_file: StateFile, remote: str) -> None:
    transfers = (
        a_transfer(missed_polls=9, missing_since=second(1), since=second(2)),
        a_transfer(name="gb.alpha.8.0.1", remote_id=0, verdict=VERDICT, remote="gamma"),
    )
    keep_news(state_file, journal.TransferPlanJournal(), transfers, a_situation(remote=remote))

    (kept,) = DecisionJournal(state_file).last_decisions(9)
    assert DecisionJournal(state_file).find_decision(kept.number) == kept
    assert kept.program == "poller"
    assert list(kept.inputs["actions"])  # type: ignore[call-overload]
    assert journal.replay_transfer_plan(kept.inputs) == kept.inputs["actions"]
    assert kept.sentence == "; ".join(journal.summarize_transfer_actions(journal.replay_transfer_plan(kept.inputs)))
    changed = {**kept.inputs, "transfers": []}
    assert journal.replay_transfer_plan(changed) == []


def test_a_repeated_decision_is_journalled_once(state_file: StateFile) -> None:
    one = a_transfer(missed_polls=9, missing_since=second(1))
    plan_journal = journal.TransferPlanJournal()
    for at_s in (60, 65, 70):
        keep_news(state_file, plan_journal, [one], a_situation(remote="", at_s=at_s))
    assert len(DecisionJournal(state_file).last_decisions(9)) == 1

    keep_news(state_file, plan_journal, [one], a_situation(at_s=75))
    keep_news(state_file, plan_journal, [one], a_situation(remote="", at_s=80))
    assert len(DecisionJournal(state_file).last_decisions(9)) == 2


def test_a_decision_about_many_transfers_is_journalled_in_part_with_a_count(state_file: StateFile) -> None:
    many = [a_transfer(name=f"gb.alpha.{n}.0.1", verdict=VERDICT) for n in range(1, ROWS + 6)]
    planned = update_and_plan_transfers(many, a_situation(), POLICY)
    keep_news(state_file, journal.TransferPlanJournal(), many, a_situation())

    (kept,) = DecisionJournal(state_file).last_decisions(9)
    assert (kept.inputs["looked_at"], kept.inputs["not_kept"]) == (ROWS + 5, 5)
    assert kept.sentence == (
        "100 transfers: telling the starter: exit status 0 (gb.alpha.1.0.1, gb.alpha.2.0.1, gb.alpha.3.0.1, ...)"
    )
    assert journal.replay_transfer_plan(kept.inputs) == [
        journal.transfer_action_sentence(action) for action in planned.actions[:ROWS]
    ]


def test_each_act_has_a_name_for_people() -> None:
    assert set(TRANSFER_ACT_WORDS) == set(TransferActKind)


def test_similar_actions_are_summarized_and_unknown_sentences_stay() -> None:
    kept = ["close gb.a.1.0.1: gone", "what?", "close gb.a.2.0.1: gone", "close gb.a.3.0.1: here"]

    assert journal.summarize_transfer_actions(kept) == [
        "2 transfers: closing the transfer: gone (gb.a.1.0.1, gb.a.2.0.1)",
        "what?",
        "gb.a.3.0.1: closing the transfer: here",
    ]


def test_the_journal_drops_old_entries_and_limits_its_size(state_file: StateFile) -> None:
    for at_s in range(10):
        DecisionJournal(state_file).store_decision(
            DecisionJournalEntry(at=second(at_s), program="poller", sentence="x" * 100, inputs={"actions": []})
        )
    DecisionJournal(state_file).delete_old_decisions(second(2), 1 << 20)
    assert len(DecisionJournal(state_file).last_decisions(99)) == 8

    DecisionJournal(state_file).delete_old_decisions(second(2), 500)
    assert [one.at for one in DecisionJournal(state_file).last_decisions(99)] == [second(n) for n in range(6, 10)]


RECALLED = TransferQueueSection(cluster="beta", pending_limit=9, slots=9, recall_wait_s=1)


def test_journalled_recalls_replay_to_the_same_recalls(state_file: StateFile) -> None:
    """Tasks that needed more slots than were free are journalled too."""
    transfers = [waiting(job, slots) for job, slots in ((1, 1), (2, 9), (3, 2), (4, 9))]
    situation = a_waiting_situation([one for one, _ in transfers], dict(transfers))
    queues = {"transfer-beta": RECALLED, "other": RECALLED}
    troubles = {"beta": "beta is drained"}
    away = [one for one, _ in transfers]
    recalls = recall_policy.plan_recalls_into_home_slots(away, situation, queues, troubles, 99)
    wanted = [recall.transfer for recall in recalls]
    due = tuple(recall_policy.plan_recalls_into_home_slots(wanted, situation, queues, troubles, 3))
    DecisionJournal(state_file).store_decision(
        journal.recall_journal_entry(wanted, due, situation, queues, troubles, 3)
    )

    (kept,) = DecisionJournal(state_file).last_decisions(9)
    assert kept.program == journal.RECALL_PROGRAM
    assert [one.transfer.remote_id for one in due] == [1, 3]
    assert kept.inputs["actions"] == [f"recall {one.transfer.name}: {one.why}" for one in due]
    assert journal.replay_recalls(kept.inputs) == kept.inputs["actions"]
    assert len(kept.inputs["transfers"]) == 3  # type: ignore[arg-type]
    assert journal.replay_recalls({**kept.inputs, "free": 0}) == []


def waiting(job: int, slots: int) -> tuple[Transfer, int]:
    one = a_transfer(name=f"gb.alpha.{job}.0.1", remote_id=job, remote_state="qw", since=second(job))
    return one.with_changes(wake=f"w{job}"), slots


def a_waiting_situation(transfers: list[Transfer], slots: dict[Transfer, int]) -> TransferSituation:
    rows = [a_row(one.remote_id, "qw", slots=slots[one]) for one in transfers]
    beta = a_snapshot("beta", 60, *rows)
    asleep = frozenset(one.wake for one in transfers)
    return replace(a_situation(), snapshots={"beta": beta}, asleep=asleep, now=second(61))


EARLY = TransferMessage(kind=TransferMessageKind.ENDED, transfer="gb.alpha.7.0.1", exit_status="0")


def received(**values: object) -> ReceivedStarterMessage:
    """Return a message for a configured route, of an unknown transfer."""
    return replace(receive(None, EARLY, NOON), **values)  # type: ignore[arg-type]  # the tests' own words


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (received(), "ended message for a transfer without a record"),
        (received(home="beta"), "the transfer is not of cluster beta"),
        (received(known=a_transfer(), message=EARLY.with_changes(kind="?")), "unknown kind '?'"),
        (
            received(message=EARLY.with_changes(kind="record", queue="\udcff")),
            "no transfer queue '\\udcff' leads to ''",
        ),
    ],
    ids=["too early", "another home's", "of no kind", "no route"],
)
def test_a_journalled_refusal_replays_to_the_same_refusal(
    state_file: StateFile, message: ReceivedStarterMessage, reason: str
) -> None:
    kept = journalled_refusal(state_file, message)

    actions = [f"refuse gb.alpha.7.0.1: {reason}"]
    assert (kept.program, kept.inputs["actions"]) == (journal.REFUSAL_PROGRAM, actions)
    assert journal.replay_message_decision(kept.inputs) == actions


def journalled_refusal(state_file: StateFile, message: ReceivedStarterMessage) -> DecisionJournalEntry:
    refusal = accept_or_reject_message(message)
    assert isinstance(refusal, RejectedStarterMessage)
    journal.RefusedStarterMessageJournal(DecisionJournal(state_file), Clock()).store_refusal(message, refusal)
    (kept,) = DecisionJournal(state_file).last_decisions(9)
    return kept


def test_the_replay_of_a_refusal_reports_that_the_message_is_acceptable_by_now(state_file: StateFile) -> None:
    early = received(message=EARLY.with_changes(kind=TransferMessageKind.INTENT, desired=DesiredLocalJobState.DEAD))
    kept = journalled_refusal(state_file, early)

    known = model_value_to_json(replace(early, known=a_transfer()))
    assert journal.replay_message_decision({**kept.inputs, "received": known}) == ["take gb.alpha.7.0.1"]


def test_journalled_refusals_per_person_and_hour_are_limited(state_file: StateFile) -> None:
    refused = journal.RefusedStarterMessageJournal(DecisionJournal(state_file), Clock())
    for uid in [1001] * (2 * journal.MOST_REJECTIONS_AN_HOUR) + [1002]:
        refused.store_refusal(received(uid=uid), RejectedStarterMessage(what="x", reason="y"))

    assert len(DecisionJournal(state_file).last_decisions(99)) == journal.MOST_REJECTIONS_AN_HOUR + 1
