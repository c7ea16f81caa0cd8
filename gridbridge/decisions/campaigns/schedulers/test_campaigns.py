"""Scheduler of test campaigns: one task per cluster, ever (CiGri scheduler specification)."""

from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import SchedulingOffer


def to_start(offer: SchedulingOffer) -> int:
    """Send one task if none was sent there and one fits."""
    return int(not offer.is_tried and offer.free_slots >= offer.slots)


def to_wait(_: SchedulingOffer) -> int:
    """Let no task wait."""
    return 0
