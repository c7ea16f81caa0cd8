"""Usual campaigns: fill the free slots (CiGri scheduler specification, workqueue scheduling).

A campaign's job ratio says how many tasks fill the slots that are free, and the cluster's flood
rate how many may wait there besides. Tasks of the campaign that wait there already count.
"""

from gridbridge.decisions.campaigns.job_ratio_predictor import tasks_for
from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import SchedulingOffer


def to_start(offer: SchedulingOffer) -> int:
    """Send what the job ratio says; nothing where it is not known."""
    if offer.predicted is None:
        return 0
    free_slots = offer.free_slots + offer.waiting * offer.slots
    ratio, slots = offer.predicted.ratio, max(1.0, offer.predicted.terms.slots)
    return max(0, min(tasks_for(ratio, free_slots, slots) - offer.waiting, offer.most))


def to_wait(offer: SchedulingOffer) -> int:
    """Send as many as may wait, and as the campaign may have there."""
    if offer.predicted is None:
        return 0
    return max(0, min(offer.may_wait, offer.most - offer.given))
