"""Sections are read as they are written; a capability adds sections by one module and one line in the registry."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType

import pytest

from gridbridge.config import configuration_file
from gridbridge.config.section_parsing import SectionGroupOfOneName, Table, UnnamedSection, subtable_or_empty
from gridbridge.model import site_configuration
from gridbridge.model.config_key_descriptions import setting
from gridbridge.model.elastic.balancer_config_sections import (
    HostPowerSection,
    MachineProviderSection,
    NodePoolSection,
    PowerSwitchMethod,
    ProviderKind,
)
from gridbridge.model.site import site_section as site_sections
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer import transfer_config_sections
from tests.config.policy_text import format_policy, format_section
from tests.config.refusals import HOME, SITE, problems_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Squeeze:
    """The section of an invented capability."""

    margin: int = setting(2, "hosts that stay free", "hosts", 0, 10)


class Squeezing:
    GROUPS: tuple[SectionGroupOfOneName, ...] = (UnnamedSection(name="squeeze", kind=Squeeze),)

    def find_config_problems(self, sections: Table) -> Iterator[str]:
        if subtable_or_empty(sections, "squeeze").get("margin") == 7:
            yield "[squeeze] margin = 7: unlucky; another number"


def test_every_field_of_the_policy_is_filled_by_one_group() -> None:
    filled = [group.field for group in configuration_file.GROUPS.values()]

    assert sorted(filled) == sorted(key.name for key in fields(Policy))


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, []),
        ({"margin": 3}, []),
        ({"margin": 11}, ["[squeeze] margin = 11: out of range; expected a whole number, 0 to 10 hosts"]),
        ({"margins": 1}, ["[squeeze] margins: unknown key; margin is the nearest"]),
        (5, ["[squeeze]: not a section; expected lines KEY = VALUE below [squeeze]"]),
    ],
)
def test_a_section_group_reports_problems_of_its_section(table: object, expected: list[str]) -> None:
    (group,) = Squeezing.GROUPS

    assert expected == list(group.find_section_problems(table))


@pytest.mark.parametrize("module", [site_configuration, site_sections, transfer_config_sections])
def test_every_configuration_key_is_declared_in_one_line(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text())
    keys = [
        key
        for section in tree.body
        if isinstance(section, ast.ClassDef)
        for key in section.body
        if isinstance(key, ast.AnnAssign)
    ]

    assert keys
    assert [ast.unparse(key.target) for key in keys if key.lineno != key.end_lineno] == []


def test_a_section_is_read_and_formatted() -> None:
    (group,) = Squeezing.GROUPS

    assert group.read({"margin": 3}) == Squeeze(margin=3)
    assert format_section("squeeze", Squeeze()) == (
        "[squeeze]\n\n# hosts that stay free\n# a whole number, 0 to 10 hosts; default 2\n#margin = 2\n"
    )


def test_a_registered_capability_checks_its_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration_file, "CAPABILITIES", (*configuration_file.CAPABILITIES, Squeezing()))

    assert "[squeeze] margin = 7: unlucky; another number" in problems_of(f"{HOME}[squeeze]\nmargin = 7\n")


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
