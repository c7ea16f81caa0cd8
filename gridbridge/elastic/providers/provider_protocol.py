"""Protocols of providers that create machines, and of providers that power hosts."""

from collections.abc import Mapping
from typing import Protocol

from gridbridge.model.elastic.elastic_nodes import ProviderMachine


class MachineLister(Protocol):
    """Lists a provider's machines.

    Each call of a provider raises ProviderOutOfMachines when no machine is available,
    ProviderOutcomeUnknown when a retry may succeed or the outcome is unknown, and
    ProviderPermanentFailure otherwise. The caller then trusts the next list.
    ProviderRequestRepeatable is a ProviderOutcomeUnknown after which a repeated call creates no
    second machine.
    """

    def machines(self) -> tuple[ProviderMachine, ...]:
        """Return all machines, maybe with machines of other owners.

        One invalid entry rejects the whole list with ProviderPermanentFailure.
        """
        ...


class MachineProvider(MachineLister, Protocol):
    """Creates and destroys machines."""

    def create(self, name: str, tags: Mapping[str, str]) -> ProviderMachine:
        """Create a machine with a name and tags; it may still be booting.

        A caller that repeats a call after a lost answer passes the same tags.
        """
        ...

    def destroy(self, machine: ProviderMachine) -> None:
        """Destroy a machine with its disk; a missing machine is no error."""
        ...


class HostPowerControl(MachineLister, Protocol):
    """Switches the site's own hosts on and off."""

    def start(self, machine: ProviderMachine) -> None:
        """Switch a host on; a host that is on is no error."""
        ...

    def stop(self, machine: ProviderMachine) -> None:
        """Shut a host down and keep its disk; a host that is off is no error."""
        ...
