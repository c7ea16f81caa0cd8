"""Tests of host tags as printed by qhost."""

import pytest

from gridbridge.batch.gridengine import execution_hosts

TOLD = """<?xml version='1.0'?>
<qhost xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qhost/qhost.xsd">
 <host name='global'><hostvalue name='arch_string'>-</hostvalue></host>
 <host name='n1'>{}</host>
 <host name='n2'><hostvalue name='num_proc'>2</hostvalue></host>
</qhost>
"""
VALUE = "<resourcevalue name='gb_tags' dominance='hf'>{}</resourcevalue>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", {}),
        (VALUE.format("htools:standby:auto"), {"n1": ("htools:standby:auto",)}),
        (VALUE.format("htools:standby:3+other"), {"n1": ("htools:standby:3", "other")}),
    ],
)
def test_host_tags_are_parsed_from_qhost(value: str, expected: dict[str, tuple[str, ...]]) -> None:
    assert execution_hosts.parse_cell_host_tags(TOLD.format(value).encode()) == expected
