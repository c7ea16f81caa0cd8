"""Tables of the tasks that share a large input file, and of the clusters to which such a file was sent."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace

from sqlalchemy import Table, and_, bindparam, exists, insert, or_, select

from gridbridge.decisions.campaigns.tasks_sharing_inputs import (
    MOST_OVERTAKING,
    GroupTaskRange,
    choose_tasks_sharing_inputs,
    groups_of_next_tasks,
)
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome, WaitingTaskRange
from gridbridge.model.campaigns.campaign_predecessors import PredecessorCondition
from gridbridge.state import column_types
from gridbridge.state.campaign_tables import ARRAYS, ATTEMPTS, PREDECESSORS
from gridbridge.state.state_file import StateFile

GROUPS = Table(  # ranges of tasks of a group
    "campaign_input_groups",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign", "first"),
    *column_types.integer_columns("last", "inputs"),
)
SENT_INPUTS = Table(
    "campaign_inputs_sent",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign"),
    *column_types.text_key_columns("cluster"),
    *column_types.integer_key_columns("inputs"),
)
_GROUPS = (
    select(GROUPS)
    .where(GROUPS.c.campaign == bindparam("of"), GROUPS.c.first < bindparam("end"), GROUPS.c.last >= bindparam("begin"))
    .order_by(GROUPS.c.first)
)
_IS_SAME = and_(PREDECESSORS.c.campaign == bindparam("of"), PREDECESSORS.c.condition == PredecessorCondition.SAME)
_HAS_PREFERENCES = select(
    or_(exists().where(GROUPS.c.campaign == bindparam("of")), exists().where(_IS_SAME)).label("has_preferences")
)
_OF_PREDECESSORS = (
    select(ATTEMPTS.c.task, ARRAYS.c.cluster)
    .join_from(PREDECESSORS, ATTEMPTS, ATTEMPTS.c.campaign == PREDECESSORS.c.predecessor)
    .join(ARRAYS, and_(ATTEMPTS.c.campaign == ARRAYS.c.campaign, ATTEMPTS.c.array == ARRAYS.c.number))
    .where(
        _IS_SAME,
        ATTEMPTS.c.task >= bindparam("begin"),
        ATTEMPTS.c.task < bindparam("end"),
        ATTEMPTS.c.outcome == TaskAttemptOutcome.SUCCESS,
    )
    .order_by(ATTEMPTS.c.campaign, ATTEMPTS.c.task)
)
_SENT = select(SENT_INPUTS).where(SENT_INPUTS.c.campaign == bindparam("of"))


class SharedInputRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def store_input_groups(self, campaign: int, ranges: Iterable[GroupTaskRange]) -> None:
        rows = [{"campaign": campaign, "first": first, "last": last, "inputs": group} for first, last, group in ranges]
        self._database.execute_for_each_row(insert(GROUPS), rows)

    def have_tasks_preferred_clusters(self, campaign: int) -> bool:
        """Say whether tasks share files, or wait for tasks of the same numbers, whose outputs are at clusters."""
        (row,) = self._database.rows(_HAS_PREFERENCES, of=campaign)
        return bool(row["has_preferences"])

    def choose_tasks_by_shared_input(
        self, campaign: int, cluster: str, waiting: list[WaitingTaskRange], count: int, unshared_first: int
    ) -> Set[int]:
        """Choose tasks for a cluster, and record that their shared files are sent to the cluster.

        The group of a task without a shared file is the cluster at which its predecessor succeeded. `waiting` has the
        next tasks, in ascending order.
        """
        head = waiting[0] if waiting else WaitingTaskRange(first=0, last=-1)
        end = head.first + MOST_OVERTAKING
        rows = self._database.rows(_GROUPS, of=campaign, begin=head.first, end=end)
        ranges = ((row["first"], row["last"], row["inputs"]) for row in rows)
        near = (part for part in waiting if part.priority == head.priority and head.first <= part.first < end)
        tasks = (task for part in near for task in range(part.first, min(part.last + 1, end)))
        sent_groups = [(row["cluster"], row["inputs"]) for row in self._database.rows(_SENT, of=campaign)]
        at_cluster = {group for name, group in sent_groups if name == cluster}
        at_other_clusters = {group for name, group in sent_groups if name != cluster}
        succeeded = self._database.rows(_OF_PREDECESSORS, of=campaign, begin=head.first, end=end)
        clusters: dict[int, str] = {row["task"]: row["cluster"] for row in succeeded}
        grouped = (
            (task, clusters.get(task) if group is None else group)
            for task, group in groups_of_next_tasks(ranges, tasks)
        )
        elsewhere = at_other_clusters.union(clusters.values())
        chosen = choose_tasks_sharing_inputs(grouped, {*at_cluster, cluster}, elsewhere, count, unshared_first)
        new = {group for group in chosen.values() if isinstance(group, int)} - at_cluster
        sent = [{"campaign": campaign, "cluster": cluster, "inputs": group} for group in sorted(new)]
        self._database.execute_for_each_row(insert(SENT_INPUTS), sent)
        return chosen.keys()


def ranges_without_tasks(part: WaitingTaskRange, tasks: Set[int]) -> Iterator[WaitingTaskRange]:
    """Yield the parts of a range that contain none of `tasks`."""
    first = part.first
    for task in sorted(task for task in tasks if part.first <= task <= part.last):
        if first < task:
            yield replace(part, first=first, last=task - 1)
        first = task + 1
    if first <= part.last:
        yield replace(part, first=first)
