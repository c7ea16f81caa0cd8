"""Values of the model as JSON has them, and back."""

from collections.abc import Set
from datetime import datetime
from typing import Any, TypeVar

from cattrs import Converter

from gridbridge.model.message import StarterMessage
from gridbridge.model.states import JobState, QueueState, StateFacts

T = TypeVar("T")


def encode(value: object) -> Any:
    """Return a value of the model as JSON has it; what has its default is left out."""
    return _CONVERTER.unstructure(value)


def decode(kept: object, kind: type[T]) -> T:
    """Return the value again; raises some exception for anything else."""
    return _CONVERTER.structure(kept, kind)


def _encode_state(state: StateFacts) -> dict[str, object]:
    return {"facts": sorted(state.facts), "text": state.text}


def _converter() -> Converter:
    made = Converter(omit_if_default=True, unstruct_collection_overrides={Set: sorted})
    made.register_unstructure_hook(datetime, datetime.isoformat)
    made.register_structure_hook(datetime, lambda kept, _: datetime.fromisoformat(kept))
    for kind in (JobState, QueueState):
        made.register_unstructure_hook(kind, _encode_state)
        made.register_structure_hook(kind, lambda kept, kind: kind(kept["facts"], kept["text"]))
    made.register_unstructure_hook(range, lambda some: [some.start, some.stop, some.step])
    made.register_structure_hook(range, lambda kept, _: range(*kept))
    made.register_unstructure_hook(
        StarterMessage, lambda message: {key: text for key, text in vars(message).items() if text}
    )
    made.register_structure_hook(StarterMessage, lambda kept, _: StarterMessage(**kept))
    return made


_CONVERTER = _converter()
