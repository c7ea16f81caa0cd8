"""Converts values of the model to JSON and back, for the journal of decisions."""

from collections.abc import Set
from datetime import datetime
from typing import Any, TypeVar

from cattrs import Converter

from gridbridge.model.job_and_queue_states import JobOrQueueStateFacts, JobState, QueueInstanceState
from gridbridge.model.transfer_messages_in_spool import TransferMessage

T = TypeVar("T")


def model_value_to_json(value: object) -> Any:
    """Return a value of the model as JSON values; fields with default values are left out."""
    return _CONVERTER.unstructure(value)


def model_value_from_json(content: object, kind: type[T]) -> T:
    """Return the model's value for JSON values; invalid values raise an exception of any class."""
    return _CONVERTER.structure(content, kind)


def _encode_state_facts(state: JobOrQueueStateFacts) -> dict[str, object]:
    return {"facts": sorted(state.facts), "text": state.text}


def _make_json_converter() -> Converter:
    converter = Converter(omit_if_default=True, unstruct_collection_overrides={Set: sorted})
    converter.register_unstructure_hook(datetime, datetime.isoformat)
    converter.register_structure_hook(datetime, lambda content, _: datetime.fromisoformat(content))
    for kind in (JobState, QueueInstanceState):
        converter.register_unstructure_hook(kind, _encode_state_facts)
        converter.register_structure_hook(kind, lambda content, kind: kind(content["facts"], content["text"]))
    converter.register_unstructure_hook(range, lambda span: [span.start, span.stop, span.step])
    converter.register_structure_hook(range, lambda content, _: range(*content))
    converter.register_unstructure_hook(
        TransferMessage, lambda message: {key: text for key, text in vars(message).items() if text}
    )
    converter.register_structure_hook(TransferMessage, lambda content, _: TransferMessage(**content))
    return converter


_CONVERTER = _make_json_converter()
