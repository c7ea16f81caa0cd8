"""The decisions about recalls, kept in the journal with their rows, and made again."""

from collections.abc import Mapping, Sequence
from typing import Any

from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.recall_policy import Recall
from gridbridge.decisions.transfer.situation import TransferSituation
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.model.transfer.transfer_sections import TransferQueue
from gridbridge.program.encoding import decode, encode
from gridbridge.program.journal import ROWS, JournalEntry, telling
from gridbridge.transfer.poller.plan_journal import read_rows, rows

PROGRAM = "poller recall"


def entry(
    wanted: Sequence[Transfer],
    due: Sequence[Recall],
    situation: TransferSituation,
    queues: Mapping[str, TransferQueue],
    troubles: Mapping[str, str],
    free: int,
) -> JournalEntry:
    """Return an entry: the tasks that are due, in order, and the rows up to the last one."""
    some = wanted[: 1 + wanted.index(due[-1].transfer)]
    inputs = {
        **rows(some, situation),
        "queues": {name: encode(queues[name]) for name in {one.queue for one in some}},
        "troubles": dict(troubles),
        "free": free,
    }
    kept = frozenset(one.key for one in some[:ROWS])
    told = [_sentence(one) for one in due if one.transfer.key in kept]
    return telling(PROGRAM, situation.now, inputs, told)


def again(kept: Mapping[str, Any]) -> list[str]:
    """Decide again which tasks come home."""
    transfers, situation = read_rows(kept)
    queues = {name: decode(one, TransferQueue) for name, one in kept["queues"].items()}
    due = recall_policy.due(transfers, situation, queues, kept["troubles"], kept["free"])
    return [_sentence(one) for one in due]


def said(actions: Sequence[str]) -> list[str]:
    """Say them as they are kept."""
    return list(actions)


def _sentence(one: Recall) -> str:
    return f"recall {one.transfer.name}: {one.why}"
