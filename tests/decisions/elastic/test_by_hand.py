"""What is typed to end a machine: it can be pasted, whatever the id is."""

import pytest

from gridbridge.decisions.elastic.by_hand import ending
from gridbridge.model.elastic.sections import ProviderKind, ProviderSection

COMMAND = ProviderSection(program="/opt/site/rent node")
EC2 = ProviderSection(kind=ProviderKind.EC2, region="eu-west-1")
OTHER = ProviderSection(kind=ProviderKind.EC2, region="here", endpoint="https://cloud:1/")
LIBCLOUD = ProviderSection(kind=ProviderKind.LIBCLOUD, driver="openstack")


@pytest.mark.parametrize(
    ("machine", "section", "expected"),
    [
        ("r-17", COMMAND, """`echo '{"id": "r-17"}' | '/opt/site/rent node' destroy`"""),
        ("a'b", COMMAND, """`echo '{"id": "a'"'"'b"}' | '/opt/site/rent node' destroy`"""),
        ("i-1", EC2, "`aws ec2 terminate-instances --region eu-west-1 --instance-ids i-1`"),
        (
            "i-1",
            OTHER,
            "`aws ec2 terminate-instances --region here --endpoint-url https://cloud:1/"
            " --instance-ids i-1`",
        ),
        (
            "n-1",
            LIBCLOUD,
            "end machine n-1 of provider cloud (openstack) with the cloud's own tools",
        ),
        ("n-1", None, "end machine n-1 of provider cloud with the cloud's own tools"),
    ],
)
def test_what_ends_a_machine_by_hand(
    machine: str, section: ProviderSection | None, expected: str
) -> None:
    assert expected == ending(machine, "cloud", section)
