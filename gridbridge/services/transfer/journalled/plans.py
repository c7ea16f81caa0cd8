"""The decisions about transfers, kept with the rows that they looked at, and made again."""

from collections.abc import Mapping, Sequence
from typing import Any

from gridbridge.decisions.transfer import plan as rules
from gridbridge.decisions.transfer.evidence import evidence
from gridbridge.decisions.transfer.world import World
from gridbridge.model.transfer.plan import Action, Plan
from gridbridge.model.transfer.sections import Poller
from gridbridge.model.transfer.transfer import Key, Transfer
from gridbridge.services.journal import ROWS, Entry, decode, encode, telling

PROGRAM = "poller"


class Decided:
    """Tells each decision once: what is decided again in the same words is no news."""

    def __init__(self) -> None:
        self._last: dict[Key, frozenset[str]] = {}

    def entry(
        self, concerned: Sequence[Transfer], world: World, policy: Poller, plan: Plan
    ) -> Entry | None:
        """Tell of the transfers of which something new was decided, with their rows."""
        told: dict[Key, list[str]] = {one.key: [] for one in concerned}
        for action in plan.actions:
            told[action.transfer.key].append(sentence(action))
        news = {each for each in told if frozenset(told[each]) != self._last.get(each, frozenset())}
        self._last |= {each: frozenset(told[each]) for each in news}
        some = [one for one in concerned if one.key in news and told[one.key]]
        return _entry(some, world, policy, told, len(concerned)) if some else None

    def forget(self, over: Key) -> None:
        """Drop what was decided of a transfer that is over."""
        self._last.pop(over, None)


def _entry(
    some: Sequence[Transfer],
    world: World,
    policy: Poller,
    told: Mapping[Key, list[str]],
    looked_at: int,
) -> Entry:
    inputs = {**rows(some, world), "looked_at": looked_at, "policy": encode(policy)}
    actions = [text for one in some[:ROWS] for text in told[one.key]]
    return telling(PROGRAM, world.now, inputs, actions)


def rows(some: Sequence[Transfer], world: World) -> dict[str, object]:
    """Return the first of these as they are kept, with what of the world decides about them."""
    kept = some[:ROWS]
    return {
        "not_kept": len(some) - len(kept),
        "transfers": [encode(one) for one in kept],
        "world": encode(evidence(kept, world)),
    }


def read_rows(kept: Mapping[str, Any]) -> tuple[list[Transfer], World]:
    """Return what was kept so."""
    return [decode(one, Transfer) for one in kept["transfers"]], decode(kept["world"], World)


def again(kept: Mapping[str, Any]) -> list[str]:
    """Decide again from what was kept; return each action in one sentence."""
    transfers, world = read_rows(kept)
    planned = rules.plan(transfers, world, decode(kept["policy"], Poller))
    return [sentence(action) for action in planned.actions]


def sentence(action: Action) -> str:
    """Tell an action in one sentence."""
    return f"{action.act.value} {action.transfer.name}: {action.why}"
