"""Whether two names mean one host: the same answer for set-up and for nodes."""

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
def test_a_name_without_a_domain_is_that_of_any(one: str, other: str, is_same: bool) -> None:
    """In any case of letters, and whichever of the two is asked about."""
    assert (is_same_host(one, other), is_same_host(other, one)) == (is_same, is_same)
