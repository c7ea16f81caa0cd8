"""Providers of each kind for the contract tests."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from libcloud.common.exceptions import BaseHTTPError
from libcloud.compute import providers as drivers

from gridbridge.elastic.providers.ec2 import Ec2MachineProvider
from gridbridge.elastic.providers.libcloud import LibcloudMachineProvider
from gridbridge.elastic.providers.provider_registry import make_provider_of_pool
from gridbridge.elastic.providers.site_program_provider import SiteProgramProvider
from gridbridge.model.config_key_descriptions import QueueDefaultRequests
from gridbridge.model.elastic.balancer_config_sections import MachineProviderSection, NodePoolSection, ProviderKind
from gridbridge.model.site.site_section import SiteSection as SiteSection
from gridbridge.model.site_configuration import Policy
from tests.builders.campaigns import made_policy
from tests.elastic.providers import cloud
from tests.elastic.providers.cloud import Gate
from tests.elastic.providers.sites import Site

RENTAL = Path(__file__).with_name("rental")
IMAGE = "ami-12c6146b"  # one that moto knows
KEYS = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
DRIVER = "gridbridge-labelled"
drivers.set_driver(DRIVER, "tests.elastic.providers.labelled", "Labelled")


@pytest.fixture
def by_command(tmp_path: Path) -> Site:
    env = {"PATH": "/usr/bin:/bin", "RENTAL": str(tmp_path)}
    return Site(
        provider=SiteProgramProvider(program=str(RENTAL), timeout_s=20, env=env),
        be_full=(tmp_path / "full").touch,
        be_busy=(tmp_path / "later").touch,
    )


@pytest.fixture(scope="session")
def moto() -> Iterator[int]:
    with cloud.moto() as port:
        yield port


@pytest.fixture
def gate(moto: int) -> Iterator[Gate]:
    with cloud.opened(cloud.emptied(moto)) as gate:
        yield gate


def secret(path: Path, text: str) -> str:
    path.touch(mode=0o600)
    path.write_text(text)
    return str(path)


def settings(section: MachineProviderSection, pool: NodePoolSection) -> Policy:
    return made_policy(pools={"small": pool}, providers={"cloud": section})


Ec2 = Callable[..., Ec2MachineProvider]


@pytest.fixture
def ec2(gate: Gate, tmp_path: Path) -> Ec2:
    """Return a function that makes a provider of the local EC2. Its keywords set keys of the pool."""
    access = {"region": "eu-west-1", "endpoint": gate.url, "credentials": secret(tmp_path / "keys", KEYS)}
    section = MachineProviderSection(kind=ProviderKind.EC2, size="t3.small", timeout_s=20, **access)  # type: ignore[arg-type]

    def make(**said: object) -> Ec2MachineProvider:
        pool = NodePoolSection(provider="cloud", image=IMAGE, **said)  # type: ignore[arg-type]
        made = make_provider_of_pool(settings(section, pool), "small")
        assert isinstance(made, Ec2MachineProvider)
        return made

    return make


@pytest.fixture
def by_ec2(gate: Gate, ec2: Ec2) -> Site:
    return Site(
        provider=replace(ec2(), pause=lambda _: None),
        be_full=lambda: gate.refusals.update(RunInstances="InsufficientInstanceCapacity"),
        be_busy=lambda: gate.refusals.update({"*": "RequestLimitExceeded"}),
    )


@pytest.fixture
def labelled(tmp_path: Path) -> LibcloudMachineProvider:
    section = MachineProviderSection(
        kind=ProviderKind.LIBCLOUD,
        driver=DRIVER,
        region="east",
        credentials=secret(tmp_path / "keys", "[default]\nkey = 1\n"),
        image="Ubuntu 9.04",
        size="1",
        arguments=QueueDefaultRequests({"ex_project": "hpc"}),
        timeout_s=20,
    )
    made = make_provider_of_pool(settings(section, NodePoolSection(provider="cloud", image="Ubuntu 9.10")), "small")
    assert isinstance(made, LibcloudMachineProvider)
    return made


@pytest.fixture
def by_libcloud(labelled: LibcloudMachineProvider) -> Site:
    full, busy = BaseHTTPError(403, "quota"), BaseHTTPError(429, "slower")
    return Site(
        provider=labelled,
        be_full=lambda: labelled.driver.trouble.update(create=full),
        be_busy=lambda: labelled.driver.trouble.update(create=busy, list=busy),
    )
