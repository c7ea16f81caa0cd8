"""Usual campaigns: fill the free slots (CiGri scheduler specification, workqueue scheduling).

A campaign's job ratio says how many tasks fill the slots that are free, and the cluster's flood
rate how many may wait there besides. Tasks of the campaign that wait there already count.
"""

from gridbridge.decisions.campaigns.job_ratio_predictor import tasks_for
from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import SchedulingOffer


def to_start(place: SchedulingOffer) -> int:
    """Send what the job ratio says; nothing where it is not known."""
    if place.predicted is None:
        return 0
    free_slots = place.free_slots + place.waiting * place.slots
    ratio, slots = place.predicted.ratio, max(1.0, place.predicted.terms.slots)
    return max(0, min(tasks_for(ratio, free_slots, slots) - place.waiting, place.most))


def to_wait(place: SchedulingOffer) -> int:
    """Send as many as may wait, and as the campaign may have there."""
    if place.predicted is None:
        return 0
    return max(0, min(place.may_wait, place.most - place.given))
