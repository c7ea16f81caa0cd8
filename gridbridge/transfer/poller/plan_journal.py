"""Journal decisions about transfers with all input rows, and replay decisions."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gridbridge.decisions.transfer import transfer_policy as rules
from gridbridge.decisions.transfer.relevant_rows import relevant_rows
from gridbridge.decisions.transfer.situation import TransferSituation
from gridbridge.model.transfer.transfer_plan import (
    WORDS,
    TransferAct,
    TransferAction,
    TransferPlan,
)
from gridbridge.model.transfer.transfer_row import Key, Transfer
from gridbridge.model.transfer.transfer_sections import PollerSection
from gridbridge.program.encoding import decode, encode
from gridbridge.program.journal import ROWS, JournalEntry, telling

PROGRAM = "poller"
FIRST = 3  # names that the sentence about many transfers lists
KEPT = re.compile(f"({'|'.join(act.value for act in TransferAct)}) (gb[^ ]+): (.*)", re.DOTALL)


class PlanJournal:
    """Journals each decision once; later rounds do not repeat an unchanged decision."""

    def __init__(self) -> None:
        self._last: dict[Key, frozenset[str]] = {}

    def entry(
        self,
        concerned: Sequence[Transfer],
        situation: TransferSituation,
        policy: PollerSection,
        plan: TransferPlan,
    ) -> JournalEntry | None:
        """Return a journal entry of the transfers with a new decision; None without any."""
        sentences: dict[Key, list[str]] = {transfer.key: [] for transfer in concerned}
        for action in plan.actions:
            sentences[action.transfer.key].append(sentence(action))
        news = {
            key
            for key in sentences
            if frozenset(sentences[key]) != self._last.get(key, frozenset())
        }
        self._last |= {key: frozenset(sentences[key]) for key in news}
        changed = [
            transfer for transfer in concerned if transfer.key in news and sentences[transfer.key]
        ]
        return _entry(changed, situation, policy, sentences, len(concerned)) if changed else None

    def forget(self, over: Key) -> None:
        """Forget the last decision about a closed transfer."""
        self._last.pop(over, None)


def _entry(
    transfers: Sequence[Transfer],
    situation: TransferSituation,
    policy: PollerSection,
    sentences: Mapping[Key, list[str]],
    looked_at: int,
) -> JournalEntry:
    inputs = {**rows(transfers, situation), "looked_at": looked_at, "policy": encode(policy)}
    actions = [text for transfer in transfers[:ROWS] for text in sentences[transfer.key]]
    return telling(PROGRAM, situation.now, inputs, actions, said(actions))


def rows(transfers: Sequence[Transfer], situation: TransferSituation) -> dict[str, object]:
    """Encode the first transfers for the journal, with the snapshot rows behind them."""
    first = transfers[:ROWS]
    return {
        "not_kept": len(transfers) - len(first),
        "transfers": [encode(transfer) for transfer in first],
        "situation": encode(relevant_rows(first, situation)),
    }


def read_rows(row: Mapping[str, Any]) -> tuple[list[Transfer], TransferSituation]:
    """Decode the transfers and the situation that `rows` has encoded."""
    return [decode(encoded, Transfer) for encoded in row["transfers"]], decode(
        row["situation"], TransferSituation
    )


def again(row: Mapping[str, Any]) -> list[str]:
    """Replay a journalled decision; return each action as one sentence."""
    transfers, situation = read_rows(row)
    planned = rules.plan(transfers, situation, decode(row["policy"], PollerSection))
    return [sentence(action) for action in planned.actions]


def sentence(action: TransferAction) -> str:
    """Return an action as one sentence, as the journal keeps actions."""
    return f"{action.act.value} {action.transfer.name}: {action.why}"


def said(actions: Sequence[str]) -> list[str]:
    """Summarize journalled actions: one sentence for each pair of act and reason."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for action in actions:
        act, name, why = _parts(action)
        alike.setdefault((act, why, "" if act else action), []).append(name)
    return [_folded(*same, names) for same, names in alike.items()]


def _parts(action: str) -> tuple[str, str, str]:
    """Split a journalled action into act, transfer and reason; empty if malformed."""
    match = KEPT.fullmatch(action)
    return (match[1], match[2], match[3]) if match else ("", "", "")


def _folded(act: str, why: str, single: str, names: Sequence[str]) -> str:
    if single:
        return single
    transfers = names[0] if len(names) == 1 else f"{len(names)} transfers"
    listed = f" ({', '.join(names[:FIRST])}{', ...' * (len(names) > FIRST)})"
    return f"{transfers}: {WORDS[TransferAct(act)]}: {why}{listed * (len(names) > 1)}"
