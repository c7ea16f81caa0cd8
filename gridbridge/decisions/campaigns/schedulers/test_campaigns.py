"""Scheduler of test campaigns, which send one task in all to each cluster (CiGri scheduler specification)."""

from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import ClusterOfferToScheduler


def to_start(offer: ClusterOfferToScheduler) -> int:
    """Return 1 if no task was sent to the cluster yet and one task fits, else 0."""
    return int(not offer.is_tried and offer.free_slots >= offer.slots)


def to_wait(_: ClusterOfferToScheduler) -> int:
    """Return 0, because no task of a test campaign is sent to wait."""
    return 0
