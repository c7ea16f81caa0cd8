"""What the balancer asks of who makes machines, and of who switches hosts on and off."""

from collections.abc import Mapping
from typing import Protocol

from gridbridge.model.elastic.elastic_nodes import ProviderMachine


class MachineListing(Protocol):
    """Tells which machines there are.

    Each call, of those below too, raises NoCapacity when there is none left, NotGranted when the
    same call may succeed later or nobody knows what became of it, and ProviderFailed for anything
    else, such as an answer that can't be read. Whoever asks looks at `machines` afterwards, and
    believes that. AskAgain, a NotGranted, says that a repeat makes no second machine.
    """

    def machines(self) -> tuple[ProviderMachine, ...]:
        """Return all machines that there are; those of others may be among them.

        A list of which anything is wrong is refused whole, with ProviderFailed.
        """
        ...


class MachineProvider(MachineListing, Protocol):
    """Makes machines come and go."""

    def create(self, name: str, tags: Mapping[str, str]) -> ProviderMachine:
        """Have a machine of that name and with these tags made; it need not run yet.

        Who repeats a call whose answer was lost repeats its tags too.
        """
        ...

    def destroy(self, machine: ProviderMachine) -> None:
        """Have a machine removed with its disk; one that is gone already is no error."""
        ...


class PowerSupply(MachineListing, Protocol):
    """Switches hosts of the site's own on and off."""

    def start(self, machine: ProviderMachine) -> None:
        """Switch a host on; one that is on is no error."""
        ...

    def stop(self, machine: ProviderMachine) -> None:
        """Have a host shut down, which keeps its disk; one that is off is no error."""
        ...
