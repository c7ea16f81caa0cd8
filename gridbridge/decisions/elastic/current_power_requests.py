"""Which of OAR's wishes hold: of each node the last one, unless it is too old to be meant still."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gridbridge.model.elastic.power_requests import OarPowerRequest, RequestedPowerState

STALE_S = 3600.0  # OAR asks again, and has decided otherwise by then


def latest_power_request_by_node(
    notes: Iterable[OarPowerRequest], now_s: float
) -> Mapping[str, RequestedPowerState]:
    """Return what is wanted of each node, by its name."""
    desired = dict[str, RequestedPowerState]()
    for note in sorted(notes, key=lambda note: (note.at_s, note.file)):
        if now_s - note.at_s <= STALE_S:
            desired.update(dict.fromkeys(note.hosts, note.wish))
    return desired


def keep_unfinished_power_requests(
    notes: Iterable[OarPowerRequest], unsettled: Mapping[str, RequestedPowerState], now_s: float
) -> tuple[OarPowerRequest, ...]:
    """Return the notes that stay, with the nodes of which nobody knows yet whether it was done.

    A note whose node has a later one of another wish is done with: it would undo that one.
    """
    return tuple(_unsettled(note, unsettled, now_s) for note in notes)


def _unsettled(
    note: OarPowerRequest, unsettled: Mapping[str, RequestedPowerState], now_s: float
) -> OarPowerRequest:
    if now_s - note.at_s > STALE_S:
        return replace(note, hosts=())
    hosts = tuple(host for host in note.hosts if unsettled.get(host) is note.wish)
    return replace(note, hosts=hosts)
