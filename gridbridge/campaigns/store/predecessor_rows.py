"""Predecessors of campaigns in the state file: their progress, and the tasks that wait for tasks of the same number."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from itertools import groupby

from sqlalchemy import Select, and_, bindparam, case, exists, func, insert, select

from gridbridge.campaigns.store.campaign_and_attempt_tables import (
    IS_UNFINISHED,
    NEXT_WAITING,
    CampaignRows,
    waiting_range_of_row,
)
from gridbridge.decisions.campaigns.predecessor_conditions import (
    release_tasks_from_predecessor,
    unmet_predecessors,
    waiting_ranges_of_new_tasks,
)
from gridbridge.model.campaigns.campaign import Campaign, CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_predecessors import PredecessorCondition, PredecessorProgress
from gridbridge.state.campaign_tables import ATTEMPTS, CAMPAIGNS, IS_GOING, OUTPUTS, PREDECESSORS, WAITING
from gridbridge.state.state_file import StateFile

_PROGRESS = select(
    *(CAMPAIGNS.c[name] for name in ("number", "name", "state", "tasks", "ended", "failed", "cancelled")),
    case((IS_GOING, True), else_=IS_UNFINISHED).label("is_unfinished"),  # mostly without a look at all open arrays
    exists().where(OUTPUTS.c.campaign == CAMPAIGNS.c.number).label("has_outputs_elsewhere"),
)
_IS_SAME = and_(
    PREDECESSORS.c.predecessor == bindparam("of_predecessor"), PREDECESSORS.c.condition == PredecessorCondition.SAME
)
_UNBROUGHT_OF_PREDECESSORS = (
    select(OUTPUTS.c.task, OUTPUTS.c.cluster)
    .join(PREDECESSORS, PREDECESSORS.c.predecessor == OUTPUTS.c.campaign)
    .where(
        PREDECESSORS.c.campaign == bindparam("of"),
        PREDECESSORS.c.condition == PredecessorCondition.SAME,
        OUTPUTS.c.task.between(bindparam("low"), bindparam("high")),
    )
)
_DEPENDENTS = (
    select(PREDECESSORS.c.campaign)
    .join(CAMPAIGNS, CAMPAIGNS.c.number == PREDECESSORS.c.campaign)
    .where(_IS_SAME, IS_GOING)
    .order_by(PREDECESSORS.c.campaign)
)
_WITH_OUTPUTS = select(OUTPUTS.c.task).where(OUTPUTS.c.campaign == bindparam("of_campaign"))
_SUCCEEDED = (
    select(ATTEMPTS.c.task)
    .where(
        ATTEMPTS.c.campaign == bindparam("of_campaign"),
        ATTEMPTS.c.outcome == TaskAttemptOutcome.SUCCESS,
        ATTEMPTS.c.task.not_in(_WITH_OUTPUTS),
    )
    .order_by(ATTEMPTS.c.task)
)
# the ranges that overlap or adjoin tasks `low` to `high`; ranges of a campaign never overlap
_FIRST = select(func.max(WAITING.c.first)).where(
    WAITING.c.campaign == bindparam("campaign"), WAITING.c.first < bindparam("low")
)
_AROUND = (
    select(*NEXT_WAITING.selected_columns)
    .where(
        WAITING.c.campaign == bindparam("campaign"),
        WAITING.c.first >= func.coalesce(_FIRST.scalar_subquery(), 0),
        WAITING.c.first <= bindparam("high") + 1,
    )
    .order_by(WAITING.c.first)
)


class PredecessorRows:
    def __init__(self, database: StateFile, campaigns: CampaignRows) -> None:
        self._database = database
        self._campaigns = campaigns

    def insert_campaign(self, campaign: Campaign, token: str, remote_clusters: Container[str] = ()) -> int:
        """Store a campaign together with the predecessors of its tasks, so that no task is sent too early."""
        with self._database.transaction():
            number = self._campaigns.insert_campaign(campaign, token)
            rows = [
                {"campaign": number, "predecessor": predecessor.number, "condition": predecessor.condition}
                for predecessor in campaign.jdl.after
            ]
            self._database.execute_for_each_row(insert(PREDECESSORS), rows)
            of_tasks = (item for item in campaign.jdl.after if item.condition is PredecessorCondition.SAME)
            if awaits := tuple(predecessor.number for predecessor in of_tasks):
                self._campaigns.remove_all_unsent_tasks(number)
                succeeded = {predecessor: self._succeeded_tasks(predecessor) for predecessor in awaits}
                self._campaigns.add_unsent_tasks(number, *waiting_ranges_of_new_tasks(campaign.tasks, succeeded))
                for predecessor in awaits:
                    unbrought = [row["task"] for row in self._database.rows(_WITH_OUTPUTS, of_campaign=predecessor)]
                    self.release_tasks_with_carried_inputs(predecessor, unbrought, remote_clusters)
        return number

    def dependents_task_by_task(self, predecessor: int) -> list[int]:
        """Return the unfinished campaigns whose tasks wait for the same tasks of a predecessor."""
        return [row["campaign"] for row in self._database.rows(_DEPENDENTS, of_predecessor=predecessor)]

    def release_dependent_tasks(self, predecessor: int, succeeded: Iterable[int]) -> None:
        """Release the tasks that wait for these tasks of a predecessor, in the caller's transaction."""
        self._release_tasks_of_campaigns(self.dependents_task_by_task(predecessor), predecessor, succeeded)

    def release_tasks_with_carried_inputs(
        self, predecessor: int, succeeded: Iterable[int], remote_clusters: Container[str]
    ) -> None:
        """Release tasks whose inputs are carried, because the carry itself waits for outputs at other clusters."""
        carried = [
            number
            for number in self.dependents_task_by_task(predecessor)
            if (campaign := self._campaigns.find_campaign(number))
            and campaign.jdl.inputs
            and all(cluster in remote_clusters for cluster in campaign.jdl.clusters)
        ]
        self._release_tasks_of_campaigns(carried, predecessor, succeeded)

    def clusters_of_unbrought_inputs(self, campaign: int, tasks: Iterable[int]) -> dict[int, frozenset[str]]:
        """Return, by task, the clusters with outputs of the same tasks of predecessors that are not at home yet."""
        numbers, clusters = frozenset(tasks), dict[int, frozenset[str]]()
        rows = self._database.rows(_UNBROUGHT_OF_PREDECESSORS, of=campaign, low=min(numbers), high=max(numbers))
        for row in rows:
            if row["task"] in numbers:
                clusters[row["task"]] = clusters.get(row["task"], frozenset()) | {row["cluster"]}
        return clusters

    def read_progress_of_predecessors(self) -> Mapping[int, PredecessorProgress]:
        """Return the progress of each predecessor of an unfinished campaign, by number of the predecessor."""
        going = select(CAMPAIGNS.c.number).where(IS_GOING)
        return self._query_progress_of_campaigns(
            select(PREDECESSORS.c.predecessor).where(PREDECESSORS.c.campaign.in_(going))
        )

    def count_predecessors_of_person(self, uid: int) -> int:
        """Return how many predecessors a person's unfinished campaigns name together."""
        query = select(func.count(PREDECESSORS.c.predecessor).label("count"))
        query = query.join(CAMPAIGNS, CAMPAIGNS.c.number == PREDECESSORS.c.campaign)
        (row,) = self._database.rows(query.where(CAMPAIGNS.c.uid == uid, IS_GOING))
        return int(row["count"])

    def count_sendable_tasks(self, campaigns: Iterable[Campaign]) -> dict[int, int]:
        """Return, for each campaign, how many unsent tasks wait for no predecessor."""
        unsent, awaiting = self._campaigns.count_unsent_and_awaiting_tasks()
        progress, sendable = self.read_progress_of_predecessors(), dict[int, int]()
        for campaign in campaigns:
            tasks = awaiting.get(campaign.number, 0)
            unmet = unmet_predecessors(campaign, progress, tasks)
            if not any(predecessor.holds_whole_campaign for predecessor in unmet):
                sendable[campaign.number] = unsent.get(campaign.number, 0) - tasks
        return sendable

    def progress_of_campaign(self, number: int) -> PredecessorProgress:
        return self._query_progress_of_campaigns(select(CAMPAIGNS.c.number).where(CAMPAIGNS.c.number == number))[number]

    def find_newest_campaign(self, uid: int, name: str, below: int) -> Campaign | None:
        """Return the newest campaign of a person with a name and a number below `below`."""
        is_of = (CAMPAIGNS.c.uid == uid, CAMPAIGNS.c.name == name, CAMPAIGNS.c.number < below)
        (row,) = self._database.rows(select(func.max(CAMPAIGNS.c.number).label("number")).where(*is_of))
        return self._campaigns.find_campaign(row["number"]) if row["number"] else None

    def has_unfinished_dependents(self, predecessor: int) -> bool:
        """Say whether an unfinished campaign waits, or has waited, for a campaign."""
        query = select(PREDECESSORS.c.campaign).join(CAMPAIGNS, CAMPAIGNS.c.number == PREDECESSORS.c.campaign)
        return bool(self._database.rows(query.where(PREDECESSORS.c.predecessor == predecessor, IS_GOING).limit(1)))

    def _release_tasks_of_campaigns(
        self, dependents: Collection[int], predecessor: int, succeeded: Iterable[int]
    ) -> None:
        for part in _group_into_ranges(sorted(succeeded)) if dependents else ():
            for campaign in dependents:
                rows = self._database.rows(_AROUND, campaign=campaign, low=part.start, high=part.stop - 1)
                before = tuple(waiting_range_of_row(dict(row)) for row in rows)
                after = release_tasks_from_predecessor(before, predecessor, (part,))
                if before != after:
                    self._campaigns.remove_unsent_tasks(campaign, before)
                    self._campaigns.add_unsent_tasks(campaign, *after)

    def _query_progress_of_campaigns(self, numbers: Select[tuple[int]]) -> dict[int, PredecessorProgress]:
        return {
            row["number"]: PredecessorProgress(
                number=row["number"],
                name=row["name"],
                tasks=row["tasks"],
                succeeded=row["ended"] - row["failed"] - row["cancelled"],
                failed=row["failed"],
                cancelled=row["cancelled"],
                is_unfinished=bool(row["is_unfinished"]),
                is_cancelled=row["state"] is CampaignState.CANCELLED,
                has_outputs_elsewhere=bool(row["has_outputs_elsewhere"]),
            )
            for row in self._database.rows(_PROGRESS.where(CAMPAIGNS.c.number.in_(numbers)))
        }

    def _succeeded_tasks(self, campaign: int) -> Iterator[range]:
        return _group_into_ranges(row["task"] for row in self._database.rows(_SUCCEEDED, of_campaign=campaign))


def _group_into_ranges(tasks: Iterable[int]) -> Iterator[range]:
    """Yield ascending numbers as ranges of consecutive numbers."""
    for _, pairs in groupby(enumerate(tasks), key=lambda pair: pair[1] - pair[0]):
        numbers = [task for _, task in pairs]
        yield range(numbers[0], numbers[-1] + 1)
