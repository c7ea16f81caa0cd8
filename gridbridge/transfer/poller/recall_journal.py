"""Journal decisions about recalls with all input rows, and replay decisions."""

from collections.abc import Mapping, Sequence
from typing import Any

from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.recall_policy import Recall
from gridbridge.decisions.transfer.transfer_situation import TransferSituation
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.model.transfer.transfer_sections import TransferQueue
from gridbridge.program.encoding import decode_model_value, encode_model_value
from gridbridge.program.journal import ROWS, JournalEntry, make_journal_entry
from gridbridge.transfer.poller.plan_journal import journal_rows, read_journal_rows

PROGRAM = "poller recall"


def recall_journal_entry(
    candidates: Sequence[Transfer],
    due: Sequence[Recall],
    situation: TransferSituation,
    queues: Mapping[str, TransferQueue],
    troubles: Mapping[str, str],
    free: int,
) -> JournalEntry:
    """Return a journal entry of the due recalls, with all rows up to the last recall."""
    considered = candidates[: 1 + candidates.index(due[-1].transfer)]
    inputs = {
        **journal_rows(considered, situation),
        "queues": {
            name: encode_model_value(queues[name])
            for name in {transfer.queue for transfer in considered}
        },
        "troubles": dict(troubles),
        "free": free,
    }
    keys = frozenset(transfer.key for transfer in considered[:ROWS])
    sentences = [_sentence(recall) for recall in due if recall.transfer.key in keys]
    return make_journal_entry(PROGRAM, situation.now, inputs, sentences)


def again(row: Mapping[str, Any]) -> list[str]:
    """Replay a recall decision; return a sentence about each recalled task."""
    transfers, situation = read_journal_rows(row)
    queues = {
        name: decode_model_value(queue, TransferQueue) for name, queue in row["queues"].items()
    }
    due = recall_policy.plan_recalls(transfers, situation, queues, row["troubles"], row["free"])
    return [_sentence(recall) for recall in due]


def said(actions: Sequence[str]) -> list[str]:
    """Return journalled recalls unchanged."""
    return list(actions)


def _sentence(recall: Recall) -> str:
    return f"recall {recall.transfer.name}: {recall.why}"
