"""Resources are known by their names and their shortcuts."""

import pytest

from gridbridge.model.job_request import is_home_only_resource, resource_long_name


@pytest.mark.parametrize(
    ("name", "expected"), [("h", "hostname"), ("hostname", "hostname"), ("mf", "mem_free"), ("gpu", "gpu")]
)
def test_a_shortcut_stands_for_a_resource(name: str, expected: str) -> None:
    assert resource_long_name(name) == expected


@pytest.mark.parametrize("name", ["h", "q", "hostname", "qname", "remote", "gb_beta_up"])
def test_a_place_at_home_is_one_by_its_shortcut_too(name: str) -> None:
    assert is_home_only_resource(name)
    assert not is_home_only_resource("mf")
