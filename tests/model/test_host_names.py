"""Whether two host names mean the same host."""

import pytest

from gridbridge.model.elastic.elastic_nodes import is_same_host


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("alpha", "alpha", True),
        ("alpha", "alpha.example.org", True),
        ("Alpha.Example.org", "alpha.example.org", True),
        ("ALPHA", "alpha.example.org", True),
        ("alpha.example.org", "alpha.example.com", False),
        ("alpha", "alpha2", False),
        ("alpha", "alpha2.example.org", False),
    ],
)
def test_host_names_are_equal_without_case_and_missing_domain(one: str, other: str, is_same: bool) -> None:
    assert (is_same_host(one, other), is_same_host(other, one)) == (is_same, is_same)
