"""Any output of a provider is either a valid machine list or refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.elastic.providers.provider_protocol_and_validation import parse_provider_machine_list
from gridbridge.errors import ParseError
from gridbridge.model.elastic.elastic_nodes import ProviderMachine
from tests.elastic.providers.test_command_provider import NODE

NODES: list[dict[str, Any]] = [
    {**NODE, "id": f"r-{n}", "name": f"alpha-n{n}", "address": f"10.0.0.{n}"} for n in (1, 2)
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def read(raw: bytes) -> tuple[tuple[ProviderMachine, ...], str]:
    try:
        return parse_provider_machine_list(raw), ""
    except ParseError as error:
        return (), str(error)


def test_a_truncated_machine_list_is_refused() -> None:
    raw = json.dumps(NODES).encode()
    assert 2 == len(parse_provider_machine_list(raw))

    for end in range(len(raw)):
        with pytest.raises(ParseError):
            parse_provider_machine_list(raw[:end])


@given(st.sampled_from(sorted(NODES[0])), JSON)
def test_any_value_of_any_key_is_valid_or_refused(key: str, value: Any) -> None:
    """No accepted text can add a line to a file."""
    nodes = [{**NODES[0], key: value}, NODES[1]]

    found, why = read(json.dumps(nodes).encode())

    assert len(found) == (0 if why else 2)
    assert why.isprintable()
    for one in found:
        texts = (one.id, one.name, one.address, one.host_key, *one.tags, *one.tags.values())
        assert all(text.isprintable() for text in texts)


@pytest.mark.parametrize("tags", [{"purpose": "a\tb"}, {"long": "x" * 1025}, {"gridbridge": "beta\n"}])
def test_unusual_names_and_tags_of_machines_of_others_do_not_refuse_the_list(tags: dict[str, str]) -> None:
    theirs = {**NODES[1], "name": "web\n1", "tags": tags, "host_key": "?"}

    ours, found = parse_provider_machine_list(json.dumps([NODES[0], theirs]).encode(), "alpha")

    assert (True, False) == (ours.has_owner_tag_of_cluster("alpha"), found.has_owner_tag_of_cluster("alpha"))
    assert "web?1" == found.name
    assert all(one.isprintable() and len(one) <= 1024 for one in found.tags.values())


@pytest.mark.parametrize("wrong", [{"name": "web\n1"}, {"tags": {"gridbridge": "alpha", "a": "\t"}}])
def test_own_machines_must_have_valid_names_and_tags(wrong: dict[str, object]) -> None:
    with pytest.raises(ParseError):
        parse_provider_machine_list(json.dumps([{**NODES[0], **wrong}]).encode(), "alpha")


@given(st.binary())
def test_any_bytes_are_refused_or_an_empty_list(raw: bytes) -> None:
    found, why = read(raw)

    assert () == found
    assert why or b"[]" == b"".join(raw.split())
