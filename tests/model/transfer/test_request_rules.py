"""A published request mapping is encoded and decoded without loss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.errors import ParseError
from gridbridge.model.transfer.request_mapping_rules import (
    KEYS,
    KINDS,
    RequestMapping,
    RequestMappingRule,
    decode_request_mapping,
    encode_request_mapping,
)

NAMES = st.text(st.characters(exclude_characters="/=", codec="ascii", min_codepoint=33), min_size=1)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1)
RIGHT = {
    "scale": st.sampled_from(["1.5", "1e-06", "20.0"]),
    "unit": st.sampled_from(["M", "h:m:s"]),
    "relation": st.sampled_from(["=", ">="]),
}
RULES = st.fixed_dictionaries({"to": TEXTS}, optional={key: RIGHT.get(key, TEXTS) for key in KEYS[1:]}).map(
    lambda said: RequestMappingRule(**said)
)


@given(st.dictionaries(st.tuples(st.sampled_from(KINDS), NAMES), RULES))
def test_a_request_mapping_survives_encoding_and_decoding(rules: dict[tuple[str, str], RequestMappingRule]) -> None:
    mapping = RequestMapping(rules)

    assert not rules or decode_request_mapping(encode_request_mapping(mapping)) == mapping


@pytest.mark.parametrize(
    "line",
    [
        "h_rt/to=x",
        "resource/h_rt=x",
        "colour/h_rt/to=x",
        "resource/h_rt/into=x",
        "resource/m/scale=x",
        "pe/m/unit=x",
        "resource/m/relation=OR",
        "x",
    ],
)
def test_an_invalid_mapping_line_raises_a_parse_error(line: str) -> None:
    with pytest.raises(ParseError):
        decode_request_mapping(f"{line}\n".encode())
