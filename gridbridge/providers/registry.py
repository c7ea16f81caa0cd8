"""Which provider makes the nodes of a pool, and which one switches a host on and off."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from gridbridge.errors import ProviderFailed
from gridbridge.model.elastic.sections import Pool, ProviderKind, ProviderSection
from gridbridge.model.policy import Policy
from gridbridge.providers import ec2, libcloud, power, program
from gridbridge.providers.command import CommandProvider
from gridbridge.providers.protocol import Provider


def provider_of(settings: Policy, pool: str) -> Provider:
    """Return who makes the nodes of a pool; ProviderFailed when it has nobody who does.

    Each pool has a provider object of its own, also where two of them name the same section: it
    knows what the pool's nodes are made of. All of one section tell of the same machines.
    """
    at = settings.pools.get(pool)
    section = settings.providers.get(at.provider) if at else None
    if at is None or section is None:
        raise ProviderFailed(f"pool {pool}: no provider makes its nodes; [pool.{pool}] provider")
    made = MAKERS.get(section.kind)
    if made is None:
        raise ProviderFailed(f"[provider.{at.provider}] kind = {section.kind}: it makes no nodes")
    return made(_settled(section, at), at, settings.site.cluster)


def power_of(settings: Policy, host: str) -> Provider:
    """Return who switches a host of the site's own on and off, and others with it.

    Raises ProviderFailed when there is nobody, or when a file of a secret can't be read.
    """
    at = settings.powered.get(host)
    section = settings.providers.get(at.provider) if at else None
    if at is None or section is None:
        raise ProviderFailed(f"host {host}: nobody switches it on and off; [power.{host}]")
    with_it = {name: one for name, one in settings.powered.items() if one.provider == at.provider}
    return power.made(section, with_it, settings.site.cluster, at.provider)


def switched(settings: Policy) -> dict[str, Provider]:
    """Return who switches the site's own hosts on and off, by their sections' names."""
    one_of_each = {one.provider: host for host, one in settings.powered.items()}
    return {name: power_of(settings, host) for name, host in sorted(one_of_each.items())}


def _settled(section: ProviderSection, pool: Pool) -> ProviderSection:
    """Return a provider's section with what the pool says in its place."""
    return replace(section, image=pool.image or section.image, size=pool.size or section.size)


def _command(section: ProviderSection, _pool: Pool, _cluster: str) -> Provider:
    return CommandProvider(
        program=program.trusted(section.program),
        timeout_s=section.timeout_s,
        env=program.environment(),
    )


MAKERS: Mapping[ProviderKind, Callable[[ProviderSection, Pool, str], Provider]] = MappingProxyType(
    {
        ProviderKind.COMMAND: _command,
        ProviderKind.EC2: ec2.made,
        ProviderKind.LIBCLOUD: libcloud.made,
    }
)
