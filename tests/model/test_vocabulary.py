"""The published vocabulary of a cluster survives encoding, and chooses parallel environments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.errors import ParseError
from gridbridge.model.names_offered_by_cluster import (
    ANY,
    NO_RULE,
    NamesOfferedByCluster,
    decode_offered_names,
    encode_offered_names,
)

WORD = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1)


@given(st.fixed_dictionaries({kind: st.frozensets(WORD) for kind in NamesOfferedByCluster.KINDS}))
def test_a_vocabulary_survives_encoding_and_decoding(names: dict[str, frozenset[str]]) -> None:
    assert decode_offered_names(encode_offered_names(NamesOfferedByCluster(**names))) == NamesOfferedByCluster(**names)


@pytest.mark.parametrize("data", [b"colour=red\n", b"pe=smp", b"pe\n", b"pe=a\npe=b\n"])
def test_a_malformed_vocabulary_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError):
        decode_offered_names(data)


@pytest.mark.parametrize(
    ("rules", "nodes", "each", "expected"),
    [
        ({"smp=$pe_slots", "mpi=$round_robin"}, 1, 2, "smp"),
        ({"a=2", "z=$pe_slots"}, 1, 2, "z"),
        ({"b=$pe_slots", "a=$pe_slots"}, 1, 4, "a"),
        ({"pairs=2", "mpi=$fill_up"}, 1, 2, "pairs"),
        ({"pairs=2", "mpi=$fill_up"}, 3, 2, "pairs"),
        ({"smp=$pe_slots", "mpi=$fill_up"}, 3, 2, ""),
        ({"mpi=$fill_up"}, 1, 2, ""),
        ({NO_RULE}, 1, 2, ""),
        (set(), 1, 2, ANY),
        ({"mpi=$fill_up"}, 0, 8, ANY),
        ({"mpi=$fill_up"}, 1, 1, ANY),
        ({ANY}, 2, 4, ANY),
    ],
)
def test_a_parallel_environment_is_chosen_by_its_allocation_rule(
    rules: set[str], nodes: int, each: int, expected: str
) -> None:
    assert NamesOfferedByCluster(rule=frozenset(rules)).find_parallel_environment(nodes, each) == expected


def test_a_vocabulary_of_an_earlier_version_has_no_rules() -> None:
    assert decode_offered_names(b"pe=smp\n").find_parallel_environment(1, 4) == ANY
    none = NamesOfferedByCluster(rule=frozenset({NO_RULE}))
    assert decode_offered_names(encode_offered_names(none)).find_parallel_environment(1, 4) == ""
