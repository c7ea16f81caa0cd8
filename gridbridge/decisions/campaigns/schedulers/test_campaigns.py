"""Test campaigns: one task at each cluster, ever (CiGri scheduler specification)."""

from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import SchedulingOffer


def to_start(offer: SchedulingOffer) -> int:
    """Send one where none was sent and one has room."""
    return int(not offer.is_tried and offer.free_slots >= offer.slots)


def to_wait(_: SchedulingOffer) -> int:
    """Let none wait."""
    return 0
