"""Which provider makes the nodes of a pool, and which one switches a host on and off."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

from gridbridge.elastic.providers import ec2, libcloud, power_provider, provider_program
from gridbridge.elastic.providers.command_provider import CommandProvider
from gridbridge.elastic.providers.provider_protocol import MachineProvider, PowerSupply
from gridbridge.errors import GridbridgeError, ProviderFailed
from gridbridge.model.elastic.balance_sections import PoolSection, ProviderKind, ProviderSection
from gridbridge.model.elastic.elastic_nodes import ProviderMachine
from gridbridge.model.policy import Policy

Made = TypeVar("Made")


def provider_of(settings: Policy, pool: str) -> MachineProvider:
    """Return who makes the nodes of a pool; ProviderFailed when it has nobody who does.

    Each pool has a provider object of its own, also where two of them name the same section: it
    knows what the pool's nodes are made of. All of one section tell of the same machines.
    """
    at = settings.pools.get(pool)
    section = settings.providers.get(at.provider) if at else None
    if at is None or section is None:
        raise ProviderFailed(f"pool {pool}: no provider makes its nodes; [pool.{pool}] provider")
    make = MAKERS.get(section.kind)
    if make is None:
        raise ProviderFailed(f"[provider.{at.provider}] kind = {section.kind}: it makes no nodes")
    return make(_settled(section, at), at, settings.site.cluster)


def power_of(
    settings: Policy, host: str, note_untold: power_provider.Untold = power_provider.log_untold
) -> PowerSupply:
    """Return who switches a host of the site's own on and off, and others with it.

    Raises ProviderFailed when there is nobody, or when a file of a secret can't be read.
    """
    at = settings.powered.get(host)
    section = settings.providers.get(at.provider) if at else None
    if at is None or section is None:
        raise ProviderFailed(f"host {host}: nobody switches it on and off; [power.{host}]")
    with_it = {
        name: powered
        for name, powered in settings.powered.items()
        if powered.provider == at.provider
    }
    return power_provider.made(section, with_it, settings.site.cluster, at.provider, note_untold)


def switched(
    settings: Policy, note_untold: power_provider.Untold = power_provider.log_untold
) -> dict[str, PowerSupply]:
    """Return who switches the site's own hosts on and off, by their sections' names.

    Raises ProviderFailed where one of them can't be made; a round asks `supplies`.
    """
    return {name: power_of(settings, host, note_untold) for name, host in _one_of_each(settings)}


def makers(settings: Policy) -> dict[str, MachineProvider]:
    """Return who makes the nodes of each pool.

    Where one can't be made, each call of it says why: the others are asked all the same.
    """
    names = [name for name, pool in settings.pools.items() if pool.provider]
    return {name: _made_or_not(provider_of, settings, name) for name in names}


def supplies(settings: Policy, own: Set[str]) -> dict[str, PowerSupply]:
    """Return the same of who switches `own` hosts on and off, by their sections' names."""
    hosts = [pair for pair in _one_of_each(settings) if pair[0] in own]
    return {name: _made_or_not(power_of, settings, host) for name, host in hosts}


def _one_of_each(settings: Policy) -> list[tuple[str, str]]:
    """Return the sections by which hosts are switched, each with one of its hosts."""
    return sorted({powered.provider: host for host, powered in settings.powered.items()}.items())


def _made_or_not(
    make: Callable[[Policy, str], Made], settings: Policy, name: str
) -> "Made | NotMade":
    try:
        return make(settings, name)
    except GridbridgeError as error:
        return NotMade(why=str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMade:
    """A provider or a power supply that can't be asked: its set-up is wrong."""

    why: str

    def create(self, name: str, tags: Mapping[str, str]) -> ProviderMachine:
        """Say why not."""
        raise ProviderFailed(self.why)

    def machines(self) -> tuple[ProviderMachine, ...]:
        """Say why not."""
        raise ProviderFailed(self.why)

    def destroy(self, machine: ProviderMachine) -> None:
        """Say why not."""
        raise ProviderFailed(self.why)

    def start(self, machine: ProviderMachine) -> None:
        """Say why not."""
        raise ProviderFailed(self.why)

    def stop(self, machine: ProviderMachine) -> None:
        """Say why not."""
        raise ProviderFailed(self.why)


def _settled(section: ProviderSection, pool: PoolSection) -> ProviderSection:
    """Return a provider's section with what the pool says in its place."""
    return replace(section, image=pool.image or section.image, size=pool.size or section.size)


def _command(section: ProviderSection, _pool: PoolSection, cluster: str) -> MachineProvider:
    return CommandProvider(
        program=provider_program.trusted(section.program),
        timeout_s=section.timeout_s,
        env=provider_program.environment(),
        cluster=cluster,
    )


MAKERS: Mapping[ProviderKind, Callable[[ProviderSection, PoolSection, str], MachineProvider]] = (
    MappingProxyType(
        {
            ProviderKind.COMMAND: _command,
            ProviderKind.EC2: ec2.made,
            ProviderKind.LIBCLOUD: libcloud.made,
        }
    )
)
