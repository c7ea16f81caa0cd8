"""The decisions about transfers, kept in the journal with their rows, and made again."""

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
FIRST = 3  # names that are told of many transfers
KEPT = re.compile(f"({'|'.join(act.value for act in TransferAct)}) (gb[^ ]+): (.*)", re.DOTALL)


class PlanJournal:
    """Keeps each decision in the journal once; the same decision in a later round is no news."""

    def __init__(self) -> None:
        self._last: dict[Key, frozenset[str]] = {}

    def entry(
        self,
        concerned: Sequence[Transfer],
        situation: TransferSituation,
        policy: PollerSection,
        plan: TransferPlan,
    ) -> JournalEntry | None:
        """Return an entry with the transfers that have a new decision, and their rows."""
        told: dict[Key, list[str]] = {one.key: [] for one in concerned}
        for action in plan.actions:
            told[action.transfer.key].append(sentence(action))
        news = {each for each in told if frozenset(told[each]) != self._last.get(each, frozenset())}
        self._last |= {each: frozenset(told[each]) for each in news}
        some = [one for one in concerned if one.key in news and told[one.key]]
        return _entry(some, situation, policy, told, len(concerned)) if some else None

    def forget(self, over: Key) -> None:
        """Forget a transfer that is over."""
        self._last.pop(over, None)


def _entry(
    some: Sequence[Transfer],
    situation: TransferSituation,
    policy: PollerSection,
    told: Mapping[Key, list[str]],
    looked_at: int,
) -> JournalEntry:
    inputs = {**rows(some, situation), "looked_at": looked_at, "policy": encode(policy)}
    actions = [text for one in some[:ROWS] for text in told[one.key]]
    return telling(PROGRAM, situation.now, inputs, actions, said(actions))


def rows(some: Sequence[Transfer], situation: TransferSituation) -> dict[str, object]:
    """Return the first of these as they are kept, with the rows that decide about them."""
    kept = some[:ROWS]
    return {
        "not_kept": len(some) - len(kept),
        "transfers": [encode(one) for one in kept],
        "situation": encode(relevant_rows(kept, situation)),
    }


def read_rows(kept: Mapping[str, Any]) -> tuple[list[Transfer], TransferSituation]:
    """Return the transfers and the situation that `rows` has kept."""
    return [decode(one, Transfer) for one in kept["transfers"]], decode(
        kept["situation"], TransferSituation
    )


def again(kept: Mapping[str, Any]) -> list[str]:
    """Decide again from what was kept; return each action in one sentence."""
    transfers, situation = read_rows(kept)
    planned = rules.plan(transfers, situation, decode(kept["policy"], PollerSection))
    return [sentence(action) for action in planned.actions]


def sentence(action: TransferAction) -> str:
    """Say an action in one sentence, as decisions are kept."""
    return f"{action.act.value} {action.transfer.name}: {action.why}"


def said(actions: Sequence[str]) -> list[str]:
    """Say kept actions to people: one sentence for all transfers of one act and reason."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for each in actions:
        act, name, why = _parts(each)
        alike.setdefault((act, why, "" if act else each), []).append(name)
    return [_folded(*same, names) for same, names in alike.items()]


def _parts(kept: str) -> tuple[str, str, str]:
    """Return act, transfer and reason of a kept action; nothing for what is none."""
    found = KEPT.fullmatch(kept)
    return (found[1], found[2], found[3]) if found else ("", "", "")


def _folded(act: str, why: str, other: str, names: Sequence[str]) -> str:
    if other:
        return other
    transfers = names[0] if len(names) == 1 else f"{len(names)} transfers"
    listed = f" ({', '.join(names[:FIRST])}{', ...' * (len(names) > FIRST)})"
    return f"{transfers}: {WORDS[TransferAct(act)]}: {why}{listed * (len(names) > 1)}"
