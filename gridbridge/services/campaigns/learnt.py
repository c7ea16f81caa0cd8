"""Keeps what a cycle learnt: job ratios, where tasks ended, and what became of wiped ones."""

from collections import Counter
from datetime import datetime

from gridbridge.model.campaigns.campaign import clusters_of
from gridbridge.model.campaigns.plan import Plan
from gridbridge.state.database.marks import Marks
from gridbridge.state.database.predictions import Predictions


class Learnt:
    """What changes those tables of the state file."""

    def __init__(self, predictions: Predictions, marks: Marks) -> None:
        self._predictions = predictions
        self._marks = marks

    def keep(self, plan: Plan, now: datetime) -> None:
        """Keep it, in the transaction in which the ends are noted."""
        self._predictions.keep(plan.predicted)
        self._marks.missed(plan.missed)
        self._marks.tidy()
        clusters = clusters_of(plan.arrays)
        again = {(one.campaign, one.task) for one in plan.again}
        counted = Counter(
            (one.campaign, clusters[one.campaign, one.array])
            for one in plan.ended
            if (one.campaign, one.task) not in again and (one.campaign, one.array) in clusters
        )
        for (campaign, cluster), tasks in counted.items():
            self._predictions.tasks_ended(campaign, cluster, tasks, now)
        for number in plan.finished:
            self._predictions.has_ended(number, now)
