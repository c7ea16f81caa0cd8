"""What the balancer asks of a provider of machines."""

from collections.abc import Mapping
from typing import Protocol

from gridbridge.model.elastic.machines import Machine


class Provider(Protocol):
    """Makes machines come and go.

    Each call raises NoCapacity when the provider has none left, NotGranted when the same call may
    succeed later or nobody knows what became of it, and ProviderFailed for anything else, such as
    an answer that can't be read. Whoever asks looks at `machines` afterwards, and believes that.
    """

    def create(self, name: str, tags: Mapping[str, str]) -> Machine:
        """Have a machine of that name and with these tags made; it need not run yet.

        Who repeats a call whose answer was lost repeats its tags too. Who wants another machine
        of a name that was used before may tell so by INTENT_TAG.
        """
        ...

    def destroy(self, machine: Machine) -> None:
        """Have a machine removed with its disk; one that is gone already is no error."""
        ...

    def machines(self) -> tuple[Machine, ...]:
        """Return all machines that there are; those of others may be among them.

        A list of which anything is wrong is refused whole, with ProviderFailed.
        """
        ...

    def start(self, machine: Machine) -> None:
        """Switch a stopped machine on; one that runs is no error."""
        ...

    def stop(self, machine: Machine) -> None:
        """Switch a machine off and keep its disk; one that is off is no error."""
        ...
