"""A light dataclass accepts the annotated names of its class as keywords."""

import pytest

from gridbridge.model import light_dataclass


@light_dataclass(kw_only=True)
class Pair:
    first: int
    second: str = "two"


def test_a_missing_keyword_has_its_default() -> None:
    assert vars(Pair(first=1)) == {"first": 1, "second": "two"}


@pytest.mark.parametrize("values", [{}, {"first": 1, "third": 3}], ids=["missing", "unknown"])
def test_missing_and_unknown_keywords_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(TypeError):
        Pair(**values)  # type: ignore[arg-type]
