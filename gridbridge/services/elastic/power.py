"""Does what OAR's energy saving wants of nodes' power, by who switches them on and off."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from gridbridge.decisions.elastic import wishes
from gridbridge.errors import GridbridgeError, NotGranted
from gridbridge.model.elastic.machines import Machine, MachineState
from gridbridge.model.elastic.wishes import Wish
from gridbridge.model.policy import Policy
from gridbridge.providers import registry
from gridbridge.state.elastic import wishes as kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """A node, what was wanted of it, and why it was not done; empty: it was, or would be."""

    host: str
    wish: Wish
    why: str = ""
    is_later: bool = False  # it is tried again by the next call


def settle(policy: Policy, folder: str, now: datetime, *, is_acting: bool) -> tuple[Switched, ...]:
    """Do what is noted in a folder, or say what would be done; StateError."""
    notes, now_s = kept.read(folder), now.timestamp()
    wanted = wishes.wanted(notes, now_s)
    nobodys = wishes.unknown(wanted, policy.powered.keys())
    done = tuple(_settled(policy, wanted, nobodys, is_acting=is_acting))
    if is_acting:
        unsettled = {one.host: one.wish for one in done if one.is_later}
        for before, after in zip(notes, wishes.left(notes, unsettled, now_s), strict=True):
            kept.keep(folder, before, after)
    return done


def _settled(
    policy: Policy, wanted: Mapping[str, Wish], nobodys: tuple[str, ...], *, is_acting: bool
) -> Iterator[Switched]:
    for host, wish in sorted(wanted.items()):
        if host in nobodys:
            yield Switched(host=host, wish=wish, why=f"nobody switches it; [power.{host}] would")
        elif is_acting:
            yield _switch(policy, host, wish)
        else:
            yield Switched(host=host, wish=wish)


def _switch(policy: Policy, host: str, wish: Wish) -> Switched:
    machine = Machine(id=host, name=host, state=MachineState.UNKNOWN)
    try:
        provider = registry.power_of(policy, host)
        (provider.start if wish is Wish.WAKE else provider.stop)(machine)
    except NotGranted as error:
        return Switched(host=host, wish=wish, why=str(error), is_later=True)
    except GridbridgeError as error:
        return Switched(host=host, wish=wish, why=str(error))
    return Switched(host=host, wish=wish)
