"""Store the poller's decisions with their inputs, and repeat stored decisions for `gridbridge replay`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gridbridge.decisions.transfer import recall_policy, transfer_act_decisions
from gridbridge.decisions.transfer.recall_policy import TaskRecall
from gridbridge.decisions.transfer.starter_message_acceptance import ReceivedStarterMessage, accept_or_reject_message
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation, keep_rows_deciding_transfers
from gridbridge.model.transfer import transfers_and_actions
from gridbridge.model.transfer.transfer_config_sections import PollerSection, TransferQueueSection
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferAction, TransferActKind, TransferKey
from gridbridge.model.transfer_messages_in_spool import shorten_reason_for_storage
from gridbridge.program.model_values_as_json import model_value_from_json, model_value_to_json
from gridbridge.shell.clock import Clock
from gridbridge.shell.log_file_reopening_and_line_limits import LogLineQuotaByPerson
from gridbridge.state.decision_journal import ROWS, DecisionJournal, DecisionJournalEntry, make_journal_entry

PLAN_PROGRAM = "poller"
MOST_NAMED_TRANSFERS = 3
STORED_ACT_SENTENCE = re.compile(f"({'|'.join(act.value for act in TransferActKind)}) (gb[^ ]+): (.*)", re.DOTALL)


class TransferPlanJournal:
    """Makes a journal entry of each new decision about a transfer, but none of a repeated decision."""

    def __init__(self) -> None:
        self._last: dict[TransferKey, frozenset[str]] = {}

    def entry_of_new_decisions(
        self,
        concerned: Sequence[Transfer],
        situation: TransferSituation,
        policy: PollerSection,
        plan: transfers_and_actions.PollerRoundPlan,
    ) -> DecisionJournalEntry | None:
        """Return a journal entry of the decisions that differ from the last round's; None if all are equal."""
        sentences: dict[TransferKey, list[str]] = {transfer.transfer_key: [] for transfer in concerned}
        for action in plan.actions:
            sentences[action.transfer.transfer_key].append(transfer_action_sentence(action))
        news = {key for key in sentences if frozenset(sentences[key]) != self._last.get(key, frozenset())}
        self._last |= {key: frozenset(sentences[key]) for key in news}
        changed = [
            transfer for transfer in concerned if transfer.transfer_key in news and sentences[transfer.transfer_key]
        ]
        if not changed:
            return None
        inputs = {
            **encode_transfer_journal_rows(changed, situation),
            "looked_at": len(concerned),
            "policy": model_value_to_json(policy),
        }
        actions = [text for transfer in changed[:ROWS] for text in sentences[transfer.transfer_key]]
        return make_journal_entry(PLAN_PROGRAM, situation.now, inputs, actions, summarize_transfer_actions(actions))

    def forget_transfer(self, over: TransferKey) -> None:
        self._last.pop(over, None)


def encode_transfer_journal_rows(transfers: Sequence[Transfer], situation: TransferSituation) -> dict[str, object]:
    """Encode at most ROWS transfers for the journal, with their rows of job lists."""
    first = transfers[:ROWS]
    return {
        "not_kept": len(transfers) - len(first),
        "transfers": [model_value_to_json(transfer) for transfer in first],
        "situation": model_value_to_json(keep_rows_deciding_transfers(first, situation)),
    }


def decode_transfer_journal_row(row: Mapping[str, Any]) -> tuple[list[Transfer], TransferSituation]:
    situation = model_value_from_json(row["situation"], TransferSituation)
    return [model_value_from_json(encoded, Transfer) for encoded in row["transfers"]], situation


def replay_transfer_plan(row: Mapping[str, Any]) -> list[str]:
    """Repeat a stored decision about transfers; return a sentence for each act."""
    transfers, situation = decode_transfer_journal_row(row)
    poller = model_value_from_json(row["policy"], PollerSection)
    planned = transfer_act_decisions.update_and_plan_transfers(transfers, situation, poller)
    return [transfer_action_sentence(action) for action in planned.actions]


def transfer_action_sentence(action: TransferAction) -> str:
    return f"{action.act.value} {action.transfer.name}: {action.why}"


def summarize_transfer_actions(actions: Sequence[str]) -> list[str]:
    """Return one sentence for all acts of the same kind and reason."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for action in actions:
        if match := STORED_ACT_SENTENCE.fullmatch(action):
            alike.setdefault((match[1], match[3], ""), []).append(match[2])
        else:
            alike.setdefault(("", "", action), []).append("")
    return [_fold_acts_into_sentence(*same, names) for same, names in alike.items()]


def _fold_acts_into_sentence(act: str, why: str, single: str, names: Sequence[str]) -> str:
    if single:
        return single
    transfers = names[0] if len(names) == 1 else f"{len(names)} transfers"
    listed = f" ({', '.join(names[:MOST_NAMED_TRANSFERS])}{', ...' * (len(names) > MOST_NAMED_TRANSFERS)})"
    words = transfers_and_actions.TRANSFER_ACT_WORDS[TransferActKind(act)]
    return f"{transfers}: {words}: {why}{listed * (len(names) > 1)}"


RECALL_PROGRAM = "poller recall"


def recall_journal_entry(
    candidates: Sequence[Transfer],
    due_recalls: Sequence[TaskRecall],
    situation: TransferSituation,
    queues: Mapping[str, TransferQueueSection],
    troubles: Mapping[str, str],
    free: int,
) -> DecisionJournalEntry:
    """Return a journal entry of the tasks to bring home, with all tasks that were considered."""
    considered = candidates[: 1 + candidates.index(due_recalls[-1].transfer)]
    inputs = {
        **encode_transfer_journal_rows(considered, situation),
        "queues": {name: model_value_to_json(queues[name]) for name in {transfer.queue for transfer in considered}},
        "troubles": dict(troubles),
        "free": free,
    }
    keys = frozenset(transfer.transfer_key for transfer in considered[:ROWS])
    sentences = [_describe_task_recall(recall) for recall in due_recalls if recall.transfer.transfer_key in keys]
    return make_journal_entry(RECALL_PROGRAM, situation.now, inputs, sentences)


def replay_recalls(row: Mapping[str, Any]) -> list[str]:
    """Repeat a stored decision to bring tasks home; return a sentence for each task."""
    transfers, situation = decode_transfer_journal_row(row)
    queues = {name: model_value_from_json(queue, TransferQueueSection) for name, queue in row["queues"].items()}
    due = recall_policy.plan_recalls_into_home_slots(transfers, situation, queues, row["troubles"], row["free"])
    return [_describe_task_recall(recall) for recall in due]


def _describe_task_recall(recall: TaskRecall) -> str:
    return f"recall {recall.transfer.name}: {recall.why}"


REFUSAL_PROGRAM = "poller refusal"
MOST_REJECTIONS_AN_HOUR = 20


class RefusedStarterMessageJournal:
    """Stores starters' messages that the service rejected, up to an hourly limit for each person."""

    def __init__(self, journal: DecisionJournal, clock: Clock) -> None:
        self._journal = journal
        self._quota = LogLineQuotaByPerson(clock.steady_s, MOST_REJECTIONS_AN_HOUR, 3600.0)

    def store_refusal(
        self, received: ReceivedStarterMessage, refusal: transfers_and_actions.RejectedStarterMessage
    ) -> None:
        self._quota.take_omitted_line_counts()  # begins a new count after an hour
        if not self._quota.may_write_log_line(received.uid):
            return
        way = received.message.queue, received.message.remote
        inputs = {"received": model_value_to_json(replace(received, routes=received.routes & {way}))}
        self._journal.store_decision(
            make_journal_entry(REFUSAL_PROGRAM, received.now, inputs, [_describe_refusal(refusal)])
        )


def replay_message_decision(row: Mapping[str, Any]) -> list[str]:
    """Repeat the decision about a stored message; return the result as a sentence."""
    verdict = accept_or_reject_message(model_value_from_json(row["received"], ReceivedStarterMessage))
    if isinstance(verdict, transfers_and_actions.RejectedStarterMessage):
        return [_describe_refusal(verdict)]
    return [f"take {verdict.name}"]


def _describe_refusal(refusal: transfers_and_actions.RejectedStarterMessage) -> str:
    return f"refuse {refusal.what}: {shorten_reason_for_storage(refusal.reason)}"
