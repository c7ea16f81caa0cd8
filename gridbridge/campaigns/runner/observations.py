"""Keeps what a cycle learnt: job ratios, where tasks ended, and which are missing."""

from collections import Counter
from datetime import datetime

from gridbridge.campaigns.store.cancellation_marks import CancellationMarks
from gridbridge.campaigns.store.missing_tasks import MissingTasks
from gridbridge.campaigns.store.predictions import PredictionRows
from gridbridge.decisions.campaigns.speculation_rules import last_ends
from gridbridge.model.campaigns.campaign import clusters_of
from gridbridge.model.campaigns.cycle_plan import CyclePlan
from gridbridge.state.database import StateFile


class Observations:
    """What changes those tables of the state file."""

    def __init__(self, database: StateFile) -> None:
        self._predictions = PredictionRows(database)
        self._marks = CancellationMarks(database)
        self._missing = MissingTasks(database)

    def keep(self, plan: CyclePlan, now: datetime) -> None:
        """Keep how many ended where, in the transaction in which the ends are noted."""
        clusters = clusters_of(plan.arrays)
        counted = Counter(
            (attempt.campaign, clusters[attempt.campaign, attempt.array])
            for attempt in last_ends(plan.ended, plan.again)
            if (attempt.campaign, attempt.array) in clusters
        )
        for (campaign, cluster), tasks in counted.items():
            self._predictions.tasks_ended(campaign, cluster, tasks, now)
        for number in plan.finished:
            self._predictions.has_ended(number, now)

    def keep_in_portions(self, plan: CyclePlan) -> None:
        """Keep, after that, what may be many rows; others write the state file in between.

        What is not kept when we are killed is found anew by the next cycle, and a job ratio
        stays as it was.
        """
        self._predictions.keep(plan.predicted)
        self._missing.note(plan.missed)
        self._marks.tidy()
