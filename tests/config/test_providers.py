"""Sections of providers, pools, powered hosts, bootstrap steps and storage areas are read as they are written."""

import pytest

from gridbridge.config import configuration_file
from gridbridge.model.elastic.balancer_config_sections import (
    HostPowerSection,
    MachineProviderSection,
    NodePoolSection,
    PowerSwitchMethod,
    ProviderKind,
)
from tests.config.policy_text import format_policy
from tests.config.refusals import HOME, SITE, problems_of

COMMAND = '[provider.rental]\nprogram = "/opt/rent"\n'
EC2 = '[provider.cloud]\nkind = "ec2"\nregion = "eu-west-1"\n'
LIBCLOUD = '[provider.cloud]\nkind = "libcloud"\ndriver = "openstack"\n'
POWER = '[provider.bmc]\nkind = "power"\n'
WAKE = POWER + 'way = "wake"\nbroadcast = "10.0.0.255"\n'
HOST = '[power.n1]\nprovider = "bmc"\n'
BMC = 'bmc = "10.0.1.1"\nuser = "grid"\npassword_file = "/etc/bmc"\n'


def test_a_provider_of_each_kind_is_read() -> None:
    pools = '[pool.a]\nprovider = "cloud"\nimage = "ami-1"\nsize = "m5.large"\n'
    text = SITE + COMMAND + EC2 + WAKE + pools + HOST + 'mac = "52:54:00:12:34:56"\n'

    policy = configuration_file.parse_configuration("FILE", text.encode())

    assert {
        "rental": MachineProviderSection(program="/opt/rent"),
        "cloud": MachineProviderSection(kind=ProviderKind.EC2, region="eu-west-1"),
        "bmc": MachineProviderSection(kind=ProviderKind.POWER, way=PowerSwitchMethod.WAKE, broadcast="10.0.0.255"),
    } == policy.providers
    assert {"a": NodePoolSection(provider="cloud", image="ami-1", size="m5.large")} == policy.pools
    assert {"n1": HostPowerSection(provider="bmc", mac="52:54:00:12:34:56")} == policy.powered


def test_a_pool_may_take_its_image_from_its_provider() -> None:
    text = f'{SITE}{LIBCLOUD}image = "debian-12"\nsize = "m1"\n[pool.a]\nprovider = "cloud"\n'

    assert configuration_file.parse_configuration("FILE", text.encode()).pools["a"] == NodePoolSection(provider="cloud")


@pytest.mark.parametrize(
    "sections",
    [
        COMMAND + '[pool.a]\nprovider = "rental"\n',
        EC2 + '[pool.a]\nprovider = "cloud"\nimage = "ami-1"\nsize = "m5"\nspot = true\n',
        LIBCLOUD + 'arguments = { ex_tenant_name = "h p c" }\n',
        POWER + HOST + BMC,
        WAKE + 'program = "/x"\n' + HOST + 'mac = "52:54:00:12:34:56"\n',
    ],
    ids=["command", "ec2", "libcloud", "ipmi", "wake"],
)
def test_provider_sections_survive_writing_and_reading(sections: str) -> None:
    policy = configuration_file.parse_configuration("FILE", (SITE + sections).encode())

    assert configuration_file.parse_configuration("FILE", format_policy(policy).encode()) == policy


BOOT = '[bootstrap]\nuser = "adm"\nkey = "/k"\n'


@pytest.mark.parametrize("keys", ['"names execd"', '"people mounts"\npeople = "alice"\nmounts = "/etc/site/mounts"'])
def test_bootstrap_steps_with_their_values_are_accepted(keys: str) -> None:
    text = f"{SITE}{BOOT}steps = {keys}\n"

    assert configuration_file.parse_configuration("FILE", text.encode()).bootstrap.steps in keys


def test_the_clusters_of_a_shared_area_have_the_area_at_their_own_paths() -> None:
    beta = "[cluster.beta]\nqmaster_port = 3\nexecd_port = 4\n"
    shared = f'{HOME}{beta}[storage.shared]\nclusters = {{ alpha = "/data", beta = "/mnt/data" }}\n'

    policy = configuration_file.parse_configuration("FILE", shared.encode())

    assert {"alpha": "/data", "beta": "/mnt/data"} == policy.storage["shared"].paths_by_cluster


def test_input_files_of_a_cluster_go_to_an_area_that_the_cluster_sees() -> None:
    beta = '[cluster.beta]\nqmaster_port = 3\nexecd_port = 4\n[campaigns.beta]\ninputs_storage = "shared"\n'
    area = f"{HOME}{beta}[storage.shared]\nclusters = "

    policy = configuration_file.parse_configuration("FILE", f'{area}{{ alpha = "/a", beta = "/b" }}\n'.encode())

    assert "shared" == policy.campaigns["beta"].inputs_storage
    right = "expected a storage area of beta (none is defined)"
    refused = f'[campaigns.beta] inputs_storage = "shared": undefined; {right}'
    assert [refused] == problems_of(f'{area}{{ alpha = "/a" }}\n')
