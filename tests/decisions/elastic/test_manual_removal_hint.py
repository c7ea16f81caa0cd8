"""Commands and hints for administrators; each command can be pasted, whatever the machine id is."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gridbridge.decisions.elastic.nodes_needing_administrator import (
    explain_how_to_wake_host,
    manual_machine_removal_command,
)
from gridbridge.model.elastic.balancer_config_sections import MachineProviderSection, ProviderKind
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState, NodeStateCause

COMMAND = MachineProviderSection(program="/opt/site/rent node")
EC2 = MachineProviderSection(kind=ProviderKind.EC2, region="eu-west-1")
OTHER = MachineProviderSection(kind=ProviderKind.EC2, region="here", endpoint="https://cloud:1/")
LIBCLOUD = MachineProviderSection(kind=ProviderKind.LIBCLOUD, driver="openstack")


@pytest.mark.parametrize(
    ("machine", "section", "expected"),
    [
        ("r-17", COMMAND, """`echo '{"id": "r-17"}' | '/opt/site/rent node' destroy`"""),
        ("a'b", COMMAND, """`echo '{"id": "a'"'"'b"}' | '/opt/site/rent node' destroy`"""),
        ("i-1", EC2, "`aws ec2 terminate-instances --region eu-west-1 --instance-ids i-1`"),
        (
            "i-1",
            OTHER,
            "`aws ec2 terminate-instances --region here --endpoint-url https://cloud:1/ --instance-ids i-1`",
        ),
        ("n-1", LIBCLOUD, "end machine n-1 of provider cloud (openstack) with the cloud's own tools"),
        ("n-1", None, "end machine n-1 of provider cloud with the cloud's own tools"),
    ],
)
def test_the_machine_removal_command(machine: str, section: MachineProviderSection | None, expected: str) -> None:
    assert expected == manual_machine_removal_command(machine, "cloud", section)


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
OFF = BalancerOwnedNode(name="n3", pool="rack", machine="n3", state=ElasticNodeState.STANDBY, since=NOON)
TAG = "`gridbridge balance tag n3 SUFFIX`"
FREE = "`gridbridge balance keep --free n3`"
NEVER = "the host is off and is not woken"
DRAINED = ", because an administrator drained the host"


@pytest.mark.parametrize(
    ("cause", "tags", "expected"),
    [
        (NodeStateCause.RESTS, ("htools:standby:auto",), "the host is off, and is woken when needed"),
        (NodeStateCause.NONE, (), f"{NEVER}, because the host has no tag; {TAG} adds a tag"),
        (NodeStateCause.NONE, ("htools:other",), f"{NEVER}, because the host has no tag; {TAG} adds a tag"),
        (NodeStateCause.DRAINED, ("htools:standby:1",), f"{NEVER}{DRAINED}; {FREE} allows a wake"),
        (NodeStateCause.DRAINED, (), f"{NEVER}{DRAINED}; {FREE}, then {TAG} allows a wake"),
        (NodeStateCause.UNDER_TASKS, ("htools:standby:1",), f"the host is off: {NodeStateCause.UNDER_TASKS}"),
    ],
)
def test_the_hint_how_to_wake_a_powered_off_host(cause: NodeStateCause, tags: tuple[str, ...], expected: str) -> None:
    assert expected == explain_how_to_wake_host(replace(OFF, cause=cause), {"n3": tags})
