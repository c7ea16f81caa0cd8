"""Carry out the power requests of OAR's energy saving through the configured providers.

Only one process does so at a time: of two, the slower one would undo a newer request.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from gridbridge.decisions.elastic.host_power_steps import (
    keep_unfinished_power_requests,
    latest_power_request_by_node,
)
from gridbridge.elastic.acts.membership import own_cluster_membership
from gridbridge.elastic.acts.membership_protocol import ClusterMembership
from gridbridge.elastic.providers import provider_registry
from gridbridge.elastic.providers.provider_protocol import HostPowerControl
from gridbridge.elastic.store import power_request_folder as kept
from gridbridge.errors import GridbridgeError, ProviderRequestUnconfirmed
from gridbridge.model.elastic.elastic_nodes import ProviderMachine, ProviderMachineState
from gridbridge.model.elastic.standby_hosts import RequestedPowerState
from gridbridge.model.policy import Policy
from gridbridge.program import cycle

NAME, LOCKED = "gridbridge balance power", 3
AT_ONCE = 16  # nodes that are switched side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRequestOutcome:
    """The outcome of a node's power request; an empty `why` means success."""

    host: str
    wish: RequestedPowerState
    why: str = ""
    is_later: bool = False  # it is tried again by the next call


def apply_oar_power_requests(
    policy: Policy, folder: str, now: datetime, *, is_acting: bool
) -> tuple[PowerRequestOutcome, ...]:
    """Carry out the power requests noted in a folder; a dry run only returns them.

    Raises StateError for an unreadable folder. Exits with status LOCKED while another process runs.
    """
    notes = kept.read_power_requests(folder)
    if not is_acting:
        requests = sorted(latest_power_request_by_node(notes, now.timestamp()).items())
        return tuple(
            _unknown(policy, *request) or PowerRequestOutcome(host=request[0], wish=request[1])
            for request in requests
        )
    with cycle.hold_program_lock(kept.make_power_request_lock(folder), NAME, LOCKED):
        return _settled(policy, folder, now.timestamp())


def _settled(policy: Policy, folder: str, now_s: float) -> tuple[PowerRequestOutcome, ...]:
    """Power the nodes in parallel; keep only the requests that are worth a retry."""
    notes = kept.read_power_requests(folder)
    requests = sorted(latest_power_request_by_node(notes, now_s).items())
    own = {policy.powered[host].provider for host, _ in requests if host in policy.powered}
    supplies, site = (
        provider_registry.make_selected_power_controls(policy, own),
        own_cluster_membership(policy),
    )
    with ThreadPoolExecutor(AT_ONCE, "power") as threads:
        switch = threads.map(lambda request: _switch(policy, site, supplies, *request), requests)
        outcomes = tuple(switch)
    unsettled = {outcome.host: outcome.wish for outcome in outcomes if outcome.is_later}
    for before, after in zip(
        notes,
        keep_unfinished_power_requests(notes, unsettled, now_s),
        strict=True,
    ):
        kept.store_remaining_request(folder, before, after)
    return outcomes


def _unknown(
    policy: Policy, host: str, requested: RequestedPowerState
) -> PowerRequestOutcome | None:
    """Return a failure for a node that no provider powers; None for any other node."""
    if host in policy.powered:
        return None
    return PowerRequestOutcome(
        host=host, wish=requested, why=f"nobody switches it; [power.{host}] would"
    )


def _switch(
    policy: Policy,
    site: ClusterMembership,
    supplies: Mapping[str, HostPowerControl],
    host: str,
    requested: RequestedPowerState,
) -> PowerRequestOutcome:
    if nobody := _unknown(policy, host, requested):
        return nobody
    machine = ProviderMachine(id=host, name=host, state=ProviderMachineState.UNKNOWN)
    supply = supplies[policy.powered[host].provider]
    try:
        if requested is RequestedPowerState.SLEEP and (kept_on := _works(site, host)):
            return kept_on
        (supply.start if requested is RequestedPowerState.WAKE else supply.stop)(machine)
    except ProviderRequestUnconfirmed as error:
        return PowerRequestOutcome(host=host, wish=requested, why=str(error), is_later=True)
    except GridbridgeError as error:
        return PowerRequestOutcome(host=host, wish=requested, why=str(error))
    return PowerRequestOutcome(host=host, wish=requested)


def _works(site: ClusterMembership, host: str) -> PowerRequestOutcome | None:
    """Return why a node must stay on that OAR wanted off; None if it may go off.

    The hook marked the node as absent; a node that is still Alive may start a job.
    """
    idleness = site.look(host)
    if not idleness.is_idle:
        return PowerRequestOutcome(
            host=host, wish=RequestedPowerState.SLEEP, why="OAR has a job there"
        )
    if not idleness.is_closed:
        why = "OAR does not take it for absent"
        return PowerRequestOutcome(
            host=host, wish=RequestedPowerState.SLEEP, why=why, is_later=True
        )
    return None
