"""The predictor: how the job ratio of a campaign at a cluster follows what became of its tasks.

The CiGri scheduler specification has three laws: slow-start, two-way adaptive, and adaptive-down
with exponential-up. Their terms are S, the tasks submitted, and the excess E, those that wait
beyond the allowed number: the adaptive decrease is (S - E) / S. Its ratio is of tasks that need
one resource; where a task is known to need several, it is of as many slots as one task has.
`measured` is ours: it goes down in proportion, never by a cycle in which nothing was sent, and up
in equal steps.
"""

from collections.abc import Callable, Mapping
from math import floor

from gridbridge.model.campaigns.job_ratio import JobRatioRule, RatioTerms

MOST = 4.0  # tasks for the room of one: the laws of the specification know no limit
STEP = 0.25  # of a task, with which `measured` goes up again
ROUNDING = 1e-9  # 0.29 * 100 is a little less than 29

Change = Callable[[float, RatioTerms], float]


def first_ratio(law: JobRatioRule, slots: float, max_slots: int) -> float:
    """Return a ratio from nothing known: a task a cluster, or as many as have room."""
    return 1 / max(1, max_slots, slots) if law is JobRatioRule.SLOW_START else 1 / slots


def next_ratio(law: JobRatioRule, terms: RatioTerms) -> float:
    """Return the ratio that follows from what became of the tasks that were sent.

    It changes down with every excess, and up only when all that was sent has settled.
    """
    old = terms.old * terms.slots
    if terms.waiting > terms.allowed:
        new = DOWN[law](old, terms)
    else:
        new = old if terms.fresh else UP[law](old, terms)
    low = 0.0 if law is JobRatioRule.TWO_WAY else _one_a_cluster(terms)
    high = 1.0 if law is JobRatioRule.MEASURED else MOST
    return max(low, min(high, new)) / terms.slots


def is_learnt(terms: RatioTerms) -> bool:
    """Say whether the tasks that were sent have told what they can."""
    return terms.waiting > terms.allowed or not terms.fresh


def tasks_for(ratio: float, free_slots: int, slots: float) -> int:
    """Return how many tasks go to free slots: at least one where one has room.

    A ratio of 0 sends none.
    """
    if ratio <= 0 or free_slots < slots:
        return 0
    return max(1, floor(ratio * free_slots + ROUNDING))


def allowed_to_wait(max_slots: int, flood_rate: float) -> int:
    """Return how many tasks may wait at a cluster (CiGri: FLOOD_RATE of its resources)."""
    return floor(max_slots * flood_rate + ROUNDING)


def wide_may_wait(max_slots: int, flood_rate: float, slots: int) -> bool:
    """Say whether one task of several slots may wait at a cluster, whatever else waits there.

    Slots become free one by one, so where others take each of them it would never start.
    """
    return flood_rate > 0 and 1 < slots <= max_slots


def _one_a_cluster(terms: RatioTerms) -> float:
    return min(1.0, terms.slots / max(1, terms.max_slots))


def _kept_share(terms: RatioTerms) -> float:
    """Return (S - E) / S, nothing where nothing was submitted or all of it is too much."""
    if not terms.submitted:
        return 0.0
    excess = terms.waiting - terms.allowed
    return max(0.0, (terms.submitted - excess) / terms.submitted)


def _nearly_nothing(_: float, terms: RatioTerms) -> float:
    return _one_a_cluster(terms)


def _adapted(_: float, terms: RatioTerms) -> float:
    return _kept_share(terms)


def _in_proportion(old: float, terms: RatioTerms) -> float:
    return old * _kept_share(terms) if terms.submitted else old


def _doubled(old: float, terms: RatioTerms) -> float:
    """Return twice as much, once it was seen that what was sent found its place."""
    return 2 * max(old, _one_a_cluster(terms)) if terms.submitted else old


def _by_those_that_run(old: float, terms: RatioTerms) -> float:
    """Return S / running: tasks that ended already have left room for others.

    Of those that run only as many count as were sent, the others ran before.
    """
    if old == 0:
        return 1.0
    if not terms.submitted:
        return old
    running = min(terms.running, terms.submitted)
    return terms.submitted / running if running else 2 * old


def _one_step_up(old: float, terms: RatioTerms) -> float:
    """Return a little more where tasks begin; while nothing is free the last one is kept.

    Nor does it rise where slots look free and tasks wait all the same, whoever's they are, or where
    nikita deletes some: more of them would be sent and deleted in turn.
    """
    does_begin = terms.running or terms.ended
    is_held = terms.waiting or terms.others or terms.is_wiped
    return old + STEP if terms.free and does_begin and not is_held else old


DOWN: Mapping[JobRatioRule, Change] = {
    JobRatioRule.MEASURED: _in_proportion,
    JobRatioRule.SLOW_START: _nearly_nothing,
    JobRatioRule.TWO_WAY: _adapted,
    JobRatioRule.ADAPTIVE: _adapted,
}
UP: Mapping[JobRatioRule, Change] = {
    JobRatioRule.MEASURED: _one_step_up,
    JobRatioRule.SLOW_START: _doubled,
    JobRatioRule.TWO_WAY: _by_those_that_run,
    JobRatioRule.ADAPTIVE: _doubled,
}
