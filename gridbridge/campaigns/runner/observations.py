"""Store what a cycle learnt: job ratios, ended tasks by cluster, and missing tasks."""

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
    """Writes a cycle's statistics and missing tasks into the state file."""

    def __init__(self, database: StateFile) -> None:
        self._predictions = PredictionRows(database)
        self._marks = CancellationMarks(database)
        self._missing = MissingTasks(database)

    def keep(self, plan: CyclePlan, now: datetime) -> None:
        """Count ended tasks by cluster, within the transaction that stores their ends."""
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
        """Store job ratios and missing tasks in small transactions.

        Other programs can write the state file between the transactions. After a kill, the next
        cycle computes the lost rows again, and a job ratio keeps its old value.
        """
        self._predictions.keep(plan.predicted)
        self._missing.note(plan.missed)
        self._marks.tidy()
