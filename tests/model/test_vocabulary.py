"""A published vocabulary reads back as the same words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.errors import ParseError
from gridbridge.model.vocabulary import Vocabulary, decode, encode

WORD = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1)


@given(st.fixed_dictionaries({kind: st.frozensets(WORD) for kind in Vocabulary.KINDS}))
def test_a_vocabulary_survives_its_file(names: dict[str, frozenset[str]]) -> None:
    assert decode(encode(Vocabulary(**names))) == Vocabulary(**names)


@pytest.mark.parametrize("data", [b"colour=red\n", b"pe=smp", b"pe\n", b"pe=a\npe=b\n"])
def test_what_is_no_vocabulary_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError):
        decode(data)
