"""Makes the provider of each pool, and the power control of each host of the site."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NoReturn, TypeVar

from gridbridge.elastic.providers import ec2, host_power_provider, libcloud, site_program_provider
from gridbridge.elastic.providers.host_power_provider import ReportUnknownPower, log_unknown_power_state
from gridbridge.elastic.providers.provider_protocol_and_validation import HostPowerControl, MachineProvider
from gridbridge.elastic.providers.site_program_provider import SiteProgramProvider
from gridbridge.errors import GridbridgeError, ProviderPermanentFailure
from gridbridge.model.elastic.balancer_config_sections import MachineProviderSection, NodePoolSection, ProviderKind
from gridbridge.model.site_configuration import Policy

Made = TypeVar("Made")


def make_provider_of_pool(settings: Policy, pool: str) -> MachineProvider:
    """Return a pool's provider; raise ProviderPermanentFailure for a pool without a provider."""
    at = settings.pools.get(pool)
    section = settings.providers.get(at.provider) if at else None
    if at is None or section is None:
        raise ProviderPermanentFailure(f"pool {pool}: no provider; expected a key `provider` in [pool.{pool}]")
    make = MAKERS.get(section.kind)
    if make is None:
        raise ProviderPermanentFailure(f"[provider.{at.provider}] kind = {section.kind}: this kind creates no nodes")
    section = replace(section, image=at.image or section.image, size=at.size or section.size)
    return make(section, at, settings.site.cluster)


def make_power_control_of_host(
    settings: Policy, host: str, note_untold: ReportUnknownPower = log_unknown_power_state
) -> HostPowerControl:
    """Return a host's power control; raise ProviderPermanentFailure for a host without a provider."""
    at = settings.powered.get(host)
    section = settings.providers.get(at.provider) if at else None
    if at is None or section is None:
        raise ProviderPermanentFailure(f"host {host}: no power provider; expected a section [power.{host}]")
    with_it = {name: powered for name, powered in settings.powered.items() if powered.provider == at.provider}
    return host_power_provider.make_host_power_provider(
        section, with_it, settings.site.cluster, at.provider, note_untold
    )


def make_power_controls_or_raise(
    settings: Policy, note_untold: ReportUnknownPower = log_unknown_power_state
) -> dict[str, HostPowerControl]:
    """Return all power controls; raise ProviderPermanentFailure for a misconfigured section."""
    return {
        name: make_power_control_of_host(settings, host, note_untold)
        for name, host in _power_sections_with_a_host(settings)
    }


def make_machine_providers_by_pool(settings: Policy) -> dict[str, MachineProvider]:
    """Return the provider of each pool; a misconfigured provider raises an error at each call."""
    names = [name for name, pool in settings.pools.items() if pool.provider]
    return {name: _make_or_failing_provider(make_provider_of_pool, settings, name) for name in names}


def make_power_controls_by_provider(settings: Policy, own: Set[str]) -> dict[str, HostPowerControl]:
    """Return the power controls of the sections in `own`.

    A misconfigured power control raises ProviderPermanentFailure at each call.
    """
    hosts = [pair for pair in _power_sections_with_a_host(settings) if pair[0] in own]
    return {name: _make_or_failing_provider(make_power_control_of_host, settings, host) for name, host in hosts}


def _power_sections_with_a_host(settings: Policy) -> list[tuple[str, str]]:
    return sorted({powered.provider: host for host, powered in settings.powered.items()}.items())


def _make_or_failing_provider(
    make: Callable[[Policy, str], Made], settings: Policy, name: str
) -> "Made | MisconfiguredProvider":
    try:
        return make(settings, name)
    except GridbridgeError as error:
        return MisconfiguredProvider(why=str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class MisconfiguredProvider:
    """A misconfigured provider; each call raises ProviderPermanentFailure."""

    why: str

    def _raise_configuration_error(self, *_: object, **__: object) -> NoReturn:
        raise ProviderPermanentFailure(self.why)

    create_machine = destroy_machine = list_machines = power_on_host = power_off_host = _raise_configuration_error


def _make_program_provider(section: MachineProviderSection, _pool: NodePoolSection, cluster: str) -> MachineProvider:
    return SiteProgramProvider(
        program=site_program_provider.require_trusted_provider_file(section.program),
        timeout_s=section.timeout_s,
        cluster=cluster,
    )


MAKERS: Mapping[ProviderKind, Callable[[MachineProviderSection, NodePoolSection, str], MachineProvider]] = (
    MappingProxyType(
        {
            ProviderKind.COMMAND: _make_program_provider,
            ProviderKind.EC2: ec2.make_ec2_provider,
            ProviderKind.LIBCLOUD: libcloud.make_libcloud_provider,
        }
    )
)
