"""Does what OAR's energy saving wants of nodes' power, by who switches them on and off.

One call at a time does it: of two side by side the slower one would undo a newer wish.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from gridbridge.decisions.elastic.host_power_steps import (
    keep_unfinished_power_requests,
    latest_power_request_by_node,
)
from gridbridge.elastic.acts.membership import membership_of
from gridbridge.elastic.acts.membership_protocol import Membership
from gridbridge.elastic.providers import provider_registry
from gridbridge.elastic.providers.provider_protocol import PowerSupply
from gridbridge.elastic.store import power_request_folder as kept
from gridbridge.errors import GridbridgeError, NotGranted
from gridbridge.model.elastic.elastic_nodes import ProviderMachine, ProviderMachineState
from gridbridge.model.elastic.standby_hosts import RequestedPowerState
from gridbridge.model.policy import Policy
from gridbridge.program import cycle

NAME, LOCKED = "gridbridge balance power", 3
AT_ONCE = 16  # nodes that are switched side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerOutcome:
    """A node, what was wanted of it, and why it was not done; empty: it was, or would be."""

    host: str
    wish: RequestedPowerState
    why: str = ""
    is_later: bool = False  # it is tried again by the next call


def settle(
    policy: Policy, folder: str, now: datetime, *, is_acting: bool
) -> tuple[PowerOutcome, ...]:
    """Do what is noted in a folder, or say what would be done; StateError.

    Ends with LOCKED where another call does it.
    """
    notes = kept.read(folder)
    if not is_acting:
        requests = sorted(latest_power_request_by_node(notes, now.timestamp()).items())
        return tuple(
            _unknown(policy, *request) or PowerOutcome(host=request[0], wish=request[1])
            for request in requests
        )
    with cycle.held(kept.lock_of(folder), NAME, LOCKED):
        return _settled(policy, folder, now.timestamp())


def _settled(policy: Policy, folder: str, now_s: float) -> tuple[PowerOutcome, ...]:
    """Switch the nodes side by side, and keep of the notes what may work later."""
    notes = kept.read(folder)
    requests = sorted(latest_power_request_by_node(notes, now_s).items())
    own = {policy.powered[host].provider for host, _ in requests if host in policy.powered}
    supplies, site = provider_registry.supplies(policy, own), membership_of(policy)
    with ThreadPoolExecutor(AT_ONCE, "power") as threads:
        switch = threads.map(lambda request: _switch(policy, site, supplies, *request), requests)
        outcomes = tuple(switch)
    unsettled = {outcome.host: outcome.wish for outcome in outcomes if outcome.is_later}
    for before, after in zip(
        notes,
        keep_unfinished_power_requests(notes, unsettled, now_s),
        strict=True,
    ):
        kept.keep(folder, before, after)
    return outcomes


def _unknown(policy: Policy, host: str, requested: RequestedPowerState) -> PowerOutcome | None:
    """Tell of a node that nobody here switches on and off; None of any other."""
    if host in policy.powered:
        return None
    return PowerOutcome(host=host, wish=requested, why=f"nobody switches it; [power.{host}] would")


def _switch(
    policy: Policy,
    site: Membership,
    supplies: Mapping[str, PowerSupply],
    host: str,
    requested: RequestedPowerState,
) -> PowerOutcome:
    if nobody := _unknown(policy, host, requested):
        return nobody
    machine = ProviderMachine(id=host, name=host, state=ProviderMachineState.UNKNOWN)
    supply = supplies[policy.powered[host].provider]
    try:
        if requested is RequestedPowerState.SLEEP and (kept_on := _works(site, host)):
            return kept_on
        (supply.start if requested is RequestedPowerState.WAKE else supply.stop)(machine)
    except NotGranted as error:
        return PowerOutcome(host=host, wish=requested, why=str(error), is_later=True)
    except GridbridgeError as error:
        return PowerOutcome(host=host, wish=requested, why=str(error))
    return PowerOutcome(host=host, wish=requested)


def _works(site: Membership, host: str) -> PowerOutcome | None:
    """Tell of a node that OAR wanted off and that may run a job by now; None of any other.

    The hook had OAR take it for absent; as long as it is alive a job may start there.
    """
    idleness = site.look(host)
    if not idleness.is_idle:
        return PowerOutcome(host=host, wish=RequestedPowerState.SLEEP, why="OAR has a job there")
    if not idleness.is_closed:
        why = "OAR does not take it for absent"
        return PowerOutcome(host=host, wish=RequestedPowerState.SLEEP, why=why, is_later=True)
    return None
