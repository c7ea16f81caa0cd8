"""Decisions as they are kept: what was decided, and the rows from which it can be decided again."""

from collections.abc import Set
from datetime import datetime
from typing import Any, TypeVar

from cattrs import Converter

from gridbridge.model.message import Message

KEPT_BYTES = 64 << 20  # of all decisions together; the oldest go first
ROWS = 100  # transfers, tasks or nodes of one decision; a round that decides about more is counted

T = TypeVar("T")


def encode(value: object) -> Any:
    """Return a value of the model as JSON has it; what has its default is left out."""
    return _CONVERTER.unstructure(value)


def decode(kept: object, kind: type[T]) -> T:
    """Return the value again; an exception of any kind for what was not encoded as this kind."""
    return _CONVERTER.structure(kept, kind)


def _converter() -> Converter:
    made = Converter(omit_if_default=True, unstruct_collection_overrides={Set: sorted})
    made.register_unstructure_hook(datetime, datetime.isoformat)
    made.register_structure_hook(datetime, lambda kept, _: datetime.fromisoformat(kept))
    made.register_unstructure_hook(range, lambda some: [some.start, some.stop, some.step])
    made.register_structure_hook(range, lambda kept, _: range(*kept))
    made.register_unstructure_hook(
        Message, lambda message: {key: text for key, text in vars(message).items() if text}
    )
    made.register_structure_hook(Message, lambda kept, _: Message(**kept))
    return made


_CONVERTER = _converter()
