"""Scheduler of usual campaigns: fill free slots (CiGri's workqueue scheduling).

The job ratio says how many tasks go to free slots. The flood rate says how many further tasks may
wait, including the campaign's tasks that already wait at the cluster.
"""

from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import ClusterOfferToScheduler
from gridbridge.decisions.campaigns.tasks_per_free_slot_predictor import count_tasks_by_job_ratio


def to_start(offer: ClusterOfferToScheduler) -> int:
    """Return the number of tasks that the job ratio gives; 0 without a job ratio."""
    if offer.predicted is None:
        return 0
    free_slots = offer.free_slots + offer.waiting * offer.slots
    ratio, slots = offer.predicted.ratio, max(1.0, offer.predicted.terms.slots)
    return max(0, min(count_tasks_by_job_ratio(ratio, free_slots, slots) - offer.waiting, offer.most))


def to_wait(offer: ClusterOfferToScheduler) -> int:
    """Return the number of tasks that may wait, within the limit of the offer."""
    if offer.predicted is None:
        return 0
    return max(0, min(offer.may_wait, offer.most - offer.given))
