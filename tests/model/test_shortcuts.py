"""Grid Engine resources are known by their names and shortcuts."""

import pytest

from gridbridge.model.job_request import is_home_only_resource, resource_long_name


@pytest.mark.parametrize(
    ("name", "expected"), [("h", "hostname"), ("hostname", "hostname"), ("mf", "mem_free"), ("gpu", "gpu")]
)
def test_a_resource_shortcut_becomes_its_long_name(name: str, expected: str) -> None:
    assert resource_long_name(name) == expected


@pytest.mark.parametrize("name", ["h", "q", "hostname", "qname", "remote", "gb_beta_up"])
def test_home_only_resources_are_recognised_by_name_and_shortcut(name: str) -> None:
    assert is_home_only_resource(name)
    assert not is_home_only_resource("mf")
