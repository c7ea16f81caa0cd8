"""What the balancer decided about nodes, kept with what it looked at, and decided again."""

from collections.abc import Mapping, Sequence
from typing import Any

from gridbridge.decisions.elastic import life
from gridbridge.decisions.elastic.life import Patience
from gridbridge.model.elastic.owned import World
from gridbridge.services.encoding import decode, encode
from gridbridge.services.journal import Entry, telling

PROGRAM = "balance"


def entry(world: World, patience: Patience, sentence: str, done: Sequence[str]) -> Entry | None:
    """Tell a round with its rows; nothing for one that does nothing.

    What nodes' lives ask for is decided again from the rows; how many nodes are wanted is told.
    """
    if not done:
        return None
    own = told(world, patience)
    inputs = {"world": encode(world), "patience": encode(patience), "done": list(done)}
    return telling(PROGRAM, world.now, inputs, own, [sentence, *done])


def told(world: World, patience: Patience) -> list[str]:
    """Say what nodes' lives ask for."""
    return [one.words for one in life.due(world, patience)]


def again(kept: Mapping[str, Any]) -> list[str]:
    """Decide again from what was kept."""
    return told(decode(kept["world"], World), decode(kept["patience"], Patience))


def said(actions: Sequence[str]) -> list[str]:
    """Say them as they are kept."""
    return list(actions)
