"""Decisions about transfers as they are kept: the same rows lead to the same actions again."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.transfer.transfer_act_decisions import update_and_plan_transfers
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferDecisionInputs, keep_rows_deciding_transfers
from gridbridge.model.cluster_snapshot import QueueInstanceStatus
from gridbridge.model.transfer.transfers_and_actions import TRANSFER_ACT_WORDS, Transfer, TransferActKind
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState
from gridbridge.state.decision_journal import ROWS, DecisionJournal, DecisionJournalEntry
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller.poller_decision_journal import (
    TransferPlanJournal,
    replay_transfer_plan,
    summarize_transfer_actions,
    transfer_action_sentence,
)
from tests.decisions.transfer.test_transfer_policy import (
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


@pytest.fixture
def database(tmp_path: Path) -> StateFile:
    return StateFile.open(f"sqlite:///{tmp_path}/state.db")


def keep(database: StateFile, *transfers: Transfer, **known: object) -> None:
    situation = a_situation(**known)  # type: ignore[arg-type]
    keep_news(database, TransferPlanJournal(), transfers, situation)


def keep_news(
    database: StateFile,
    plan_journal: TransferPlanJournal,
    transfers: Sequence[Transfer],
    situation: TransferDecisionInputs,
) -> None:
    """Decide, and keep that in the journal if it is news."""
    planned = update_and_plan_transfers(transfers, situation, POLICY)
    if entry := plan_journal.entry_of_new_decisions(transfers, situation, POLICY, planned):
        DecisionJournal(database).keep(entry)


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
def test_a_journalled_decision_replays_to_the_same_actions(database: StateFile, remote: str) -> None:
    transfers = (
        a_transfer(missed_polls=9, missing_since=second(1), since=second(2)),
        a_transfer(name="gb.alpha.8.0.1", remote_id=0, verdict=VERDICT, remote="gamma"),
    )
    keep(database, *transfers, remote=remote)

    (kept,) = DecisionJournal(database).last(9)
    assert DecisionJournal(database).find(kept.number) == kept
    assert kept.program == "poller"
    assert list(kept.inputs["actions"])  # type: ignore[call-overload]
    assert replay_transfer_plan(kept.inputs) == kept.inputs["actions"]
    assert kept.sentence == "; ".join(summarize_transfer_actions(replay_transfer_plan(kept.inputs)))
    changed = {**kept.inputs, "transfers": []}
    assert replay_transfer_plan(changed) == []


def test_a_repeated_decision_is_journalled_once(database: StateFile) -> None:
    one = a_transfer(missed_polls=9, missing_since=second(1))
    plan_journal = TransferPlanJournal()
    for at_s in (60, 65, 70):
        situation = a_situation(remote="", at_s=at_s)
        keep_news(database, plan_journal, [one], situation)
    assert len(DecisionJournal(database).last(9)) == 1

    running = a_situation(at_s=75)
    keep_news(database, plan_journal, [one], running)
    situation = a_situation(remote="", at_s=80)
    keep_news(database, plan_journal, [one], situation)
    assert len(DecisionJournal(database).last(9)) == 2


def test_a_decision_about_many_transfers_is_journalled_in_part_with_a_count(database: StateFile) -> None:
    many = [a_transfer(name=f"gb.alpha.{n}.0.1", verdict=VERDICT) for n in range(1, ROWS + 6)]
    situation = a_situation()
    planned = update_and_plan_transfers(many, situation, POLICY)
    keep_news(database, TransferPlanJournal(), many, situation)

    (kept,) = DecisionJournal(database).last(9)
    assert (kept.inputs["looked_at"], kept.inputs["not_kept"]) == (ROWS + 5, 5)
    assert kept.sentence == (
        "100 transfers: telling the starter: exit status 0 (gb.alpha.1.0.1, gb.alpha.2.0.1, gb.alpha.3.0.1, ...)"
    )
    assert replay_transfer_plan(kept.inputs) == [transfer_action_sentence(action) for action in planned.actions[:ROWS]]


def test_each_act_has_a_name_for_people() -> None:
    kept = [f"{act.value} gb.alpha.7.0.1: because" for act in TransferActKind]

    assert set(TRANSFER_ACT_WORDS) == set(TransferActKind)
    assert summarize_transfer_actions(kept) == [
        f"gb.alpha.7.0.1: {TRANSFER_ACT_WORDS[act]}: because" for act in TransferActKind
    ]


def test_similar_actions_are_summarized_and_unknown_sentences_stay() -> None:
    kept = ["close gb.a.1.0.1: gone", "what?", "close gb.a.2.0.1: gone", "close gb.a.3.0.1: here"]

    assert summarize_transfer_actions(kept) == [
        "2 transfers: closing the transfer: gone (gb.a.1.0.1, gb.a.2.0.1)",
        "what?",
        "gb.a.3.0.1: closing the transfer: here",
    ]


def test_the_journal_drops_old_entries_and_limits_its_size(database: StateFile) -> None:
    for at_s in range(10):
        DecisionJournal(database).keep(
            DecisionJournalEntry(at=second(at_s), program="poller", sentence="x" * 100, inputs={"actions": []})
        )
    DecisionJournal(database).forget(second(2), 1 << 20)
    assert len(DecisionJournal(database).last(99)) == 8

    DecisionJournal(database).forget(second(2), 500)
    assert [one.at for one in DecisionJournal(database).last(99)] == [second(n) for n in range(6, 10)]
