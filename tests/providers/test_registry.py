"""A pool has the provider that gridbridge.toml names."""

import pytest

from gridbridge.errors import ProviderFailed
from gridbridge.model.elastic.sections import Pool, ProviderSection
from gridbridge.model.policy import Policy
from gridbridge.model.site.sections import Site
from gridbridge.providers.command import CommandProvider
from gridbridge.providers.registry import provider_of

SECTION = ProviderSection(program="/opt/rent", timeout_s=7)
POLICY = Policy(
    site=Site(cluster="alpha"),
    clusters={},
    queues={},
    pools={"small": Pool(provider="rental"), "other": Pool()},
    providers={"rental": SECTION},
)


def test_a_command_is_given_its_limit_and_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_FILE", "/etc/token")

    provider = provider_of(POLICY, "small")

    assert isinstance(provider, CommandProvider)
    assert (provider.program, provider.timeout_s) == ("/opt/rent", 7)
    assert (provider.env["TOKEN_FILE"], provider.env["LC_ALL"]) == ("/etc/token", "C")


@pytest.mark.parametrize("pool", ["other", "unknown"])
def test_a_pool_without_a_provider_is_told(pool: str) -> None:
    with pytest.raises(ProviderFailed, match=rf"pool {pool}: no provider .*\[pool.{pool}\]"):
        provider_of(POLICY, pool)
