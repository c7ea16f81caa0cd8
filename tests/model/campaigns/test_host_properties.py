"""Requested host properties are pairs in the form of job requests."""

import pytest

from gridbridge.batch.oar.oar_commands import oarsub_property_condition
from gridbridge.model.campaigns.requested_host_properties import parse_required_host_properties
from gridbridge.model.job_request import JobRequest


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", ()),
        ("gpu=YES", (("gpu", "YES"),)),
        ("mem>=2000,zone<>b", (("mem>=", "2000"), ("zone<>", "b"))),
        ("a=b=c,d", (("a", "b=c"), ("d", ""))),
        ("mem=2G,arch=x,mem=2G", (("mem", "2G"), ("arch", "x"))),
    ],
)
def test_each_host_condition_is_parsed_into_name_with_relation_and_value(
    text: str, pairs: tuple[tuple[str, str], ...]
) -> None:
    assert parse_required_host_properties(text) == pairs


def test_host_properties_become_an_sql_condition_for_oar() -> None:
    request = JobRequest(hard=parse_required_host_properties("mem>=2000,cpu=Intel Xeon,gpu=YES"))

    assert oarsub_property_condition(request) == "mem >= '2000' AND cpu = 'Intel Xeon' AND gpu = 'YES'"
