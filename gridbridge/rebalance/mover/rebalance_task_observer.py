"""Observe the tasks of all clusters and of the state file for a rebalancing decision."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster, cluster_status_reader
from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.campaigns.runner.array_commands_as_owner import snapshot_without_foreign_jobs
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import TaskDeletionMarkRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignArray, CampaignState
from gridbridge.model.campaigns.campaign_events import BLACKLISTING_EVENTS, CampaignEventCode
from gridbridge.model.campaigns.nikita_deletion_values import REASONS_OF_MOVES, TaskDeletionMark
from gridbridge.model.campaigns.task_attempt_ranges import is_prologue_or_epilogue_task
from gridbridge.model.cluster_snapshot import ClusterSnapshot, JobListRow
from gridbridge.model.policy import Policy
from gridbridge.model.rebalance.observed_tasks import CampaignTaskAtCluster, TasksObservedAtClusters, TransferredTask
from gridbridge.model.rebalance.placement_snapshot import NEVER, STUCK, TaskNotMovedReason, happened_within
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.rebalance.mover.transferred_task_reader import TransferredTaskReader
from gridbridge.rebalance.store.rebalance_tables import RebalanceNoteRows
from gridbridge.shell.clock import Clock
from gridbridge.state import drains
from gridbridge.state.database import StateFile
from gridbridge.state.database.campaign_tables import live_campaign_jobs_at

SILENT_S = 300.0  # until a silent cluster without a transfer queue counts as lost

_log = logging.getLogger(__name__)


class RebalanceTaskObserver:
    """Queries all clusters once and combines their tasks with the state file."""

    def __init__(self, policy: Policy, database: StateFile, clock: Clock) -> None:
        self._policy = policy
        self._database = database
        self._clock = clock
        self._campaigns = CampaignRows(database)
        self._events = EventAndSuccessRecordRows(database)
        self._marks = TaskDeletionMarkRows(database)
        self._notes = RebalanceNoteRows(database)
        self._sent_away = TransferredTaskReader(policy, database, clock)

    def look(self) -> TasksObservedAtClusters:
        """Query all clusters, and return campaign and transferred tasks as they are now."""
        campaigns = tuple(
            campaign for campaign in self._campaigns.unfinished() if campaign.state is CampaignState.IN_TREATMENT
        )
        going = {campaign.number for campaign in campaigns}
        arrays = [array for array in self._campaigns.open_arrays() if array.campaign in going]
        transfers = self._sent_away.transfers()
        answers = self._ask(arrays, {transfer.remote_id for transfer in transfers if transfer.remote_id})
        dead = self._dead(transfers, answers)
        sent = tuple(self._sent_away.listed(transfers, answers, dead))
        staying, reached = self._at_home(sent, answers)
        return TasksObservedAtClusters(
            now=self._clock.now(),
            answers=answers,
            campaigns=campaigns,
            tasks=(*self._listed(campaigns, arrays, answers), *self._unheard_of(campaigns, arrays, dead)),
            away=sent,
            staying=staying,
            reached=reached,
            unsent=self._campaigns.waiting(),
            closed=frozenset(
                (event.campaign, event.cluster) for event in self._events.open() if event.code in BLACKLISTING_EVENTS
            ),
            drained=drains.list_drained_clusters(),
            dead=dead,
            recent=self._notes.recent(),
        )

    def _dead(self, transfers: Iterable[Transfer], answers: Mapping[str, ClusterSnapshot | None]) -> frozenset[str]:
        """Return the clusters that have been silent longer than their recall timeout.

        A cluster without any earlier answer is not included.
        """
        heard = {
            event.cluster: event.opened_at for event in self._events.open() if event.code is CampaignEventCode.GET_JOBS
        }
        for transfer in transfers:
            last = transfer.seen_at or transfer.created_at
            heard[transfer.remote] = max(heard.get(transfer.remote, last), last)
        now = self._clock.now()
        return frozenset(
            name
            for name, snapshot in answers.items()
            if snapshot is None and name in heard and now - heard[name] >= self._patience(name)
        )

    def _patience(self, cluster: str) -> timedelta:
        queues = self._policy.queues.values()
        limits = (queue.recall_unreachable_s for queue in queues if queue.cluster == cluster)
        return timedelta(seconds=max(limits, default=SILENT_S))

    def _unheard_of(
        self, campaigns: Iterable[Campaign], arrays: Iterable[CampaignArray], dead: Set[str]
    ) -> Iterator[CampaignTaskAtCluster]:
        """Yield the campaign tasks at silent clusters, from the state file.

        Each task may still start at its silent cluster.
        """
        by_number = {campaign.number: campaign for campaign in campaigns}
        for array in arrays:
            if array.cluster not in dead or array.is_of_copies or not array.job_id:
                continue
            listed = _of(array, by_number[array.campaign])
            for attempt in self._campaigns.pending(array):
                if not is_prologue_or_epilogue_task(attempt.task):
                    yield listed(
                        task=attempt.task, place=attempt.place, is_waiting=False, stays=TaskNotMovedReason.SILENT
                    )

    def _at_home(
        self, sent: Iterable[TransferredTask], answers: Mapping[str, ClusterSnapshot | None]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return jobs whose owners forbid moves, and the clusters to which tasks may move.

        Without an answer of the home cluster no task may move.
        """
        try:
            return self._sent_away.staying(sent), self._sent_away.reached(answers)
        except (GridbridgeError, OSError) as error:
            _log.warning("event=no_answer cluster=%s why=%r", self._policy.site.cluster, describe_error(error))
            return frozenset(), frozenset()

    def _ask(self, arrays: Iterable[CampaignArray], job_ids: Set[int]) -> dict[str, ClusterSnapshot | None]:
        submitted = [array for array in arrays if array.job_id]
        names = [
            name
            for name in sorted(self._policy.clusters)
            if batch_adapter_of_cluster(configured_cluster_address(self._policy, name)).array_ends
        ]
        sent = {name: live_campaign_jobs_at(self._database, name).jobs | job_ids for name in names}
        with ThreadPoolExecutor(max_workers=max(1, len(names))) as threads:
            answers = dict(zip(names, threads.map(self._snapshot_of, names, sent.values()), strict=True))
        return {
            name: snapshot_without_foreign_jobs(self._policy, snapshot, submitted) if snapshot else None
            for name, snapshot in answers.items()
        }

    def _snapshot_of(self, name: str, jobs: frozenset[int]) -> ClusterSnapshot | None:
        where, queues = configured_cluster_address(self._policy, name), self._policy.queues_at(name)
        try:
            return cluster_status_reader(where).query_cluster_snapshot(where, name, jobs, queues)[0]
        except (GridbridgeError, OSError) as error:
            _log.warning("event=no_answer cluster=%s why=%r", name, describe_error(error))
            return None

    def _listed(
        self,
        campaigns: Iterable[Campaign],
        arrays: Iterable[CampaignArray],
        answers: Mapping[str, ClusterSnapshot | None],
    ) -> Iterator[CampaignTaskAtCluster]:
        """Yield the listed campaign tasks, and moving tasks that are between two clusters.

        A long-stuck move no longer blocks other moves; its owner's ssh key may be gone.
        """
        marks, by_number = self._marks.all(), {campaign.number: campaign for campaign in campaigns}
        moved_at, now = self._notes.moved(), self._clock.now()
        for array in arrays:
            snapshot = answers.get(array.cluster)
            if snapshot is None or array.state is not ArraySubmissionState.RELEASED or array.is_of_copies:
                continue
            listed = _of(array, by_number[array.campaign])
            at = {attempt.place: attempt.task for attempt in self._campaigns.pending(array)}
            marked = marks.get((array.campaign, array.number), {})
            moved = dict.fromkeys(index for index, mark in marked.items() if _is_moved(mark))
            for index, row in (moved | dict(_places(array, snapshot))).items():
                if index in at and not is_prologue_or_epilogue_task(at[index]):
                    since = moved_at.get((array.campaign, array.number, index), NEVER)
                    is_moved = index in moved
                    is_stuck = is_moved and not happened_within(since, now, STUCK)
                    yield listed(
                        task=at[index],
                        place=index,
                        is_waiting=bool(row and self._waits(array, row) and index not in marked),
                        is_running=bool(row and row.state.has_begun),
                        is_moving=is_moved and not is_stuck,
                        stays=TaskNotMovedReason.STUCK if is_stuck else TaskNotMovedReason.HELD,
                    )

    def _waits(self, array: CampaignArray, row: JobListRow) -> bool:
        """Say whether a task has waited so long that it will hardly start in the next moment."""
        least = timedelta(seconds=self._policy.rebalance.least_wait_s)
        is_free = row.state.is_waiting and not (row.state.is_held or row.state.is_deleting)
        return is_free and not happened_within(array.intended_at, self._clock.now(), least)


def _of(array: CampaignArray, campaign: Campaign) -> Callable[..., CampaignTaskAtCluster]:
    """Return a CampaignTaskAtCluster constructor with an array's common fields."""
    return partial(
        CampaignTaskAtCluster,
        campaign=array.campaign,
        array=array.number,
        cluster=array.cluster,
        slots=campaign.jdl.slots_at(array.cluster),
    )


def _places(array: CampaignArray, snapshot: ClusterSnapshot) -> Iterator[tuple[int, JobListRow]]:
    whole = (range(1, array.size + 1),)
    for row in snapshot.jobs.get(array.job_id, ()):
        for span in row.tasks or whole:
            for index in span:
                yield index, row


def _is_moved(mark: TaskDeletionMark) -> bool:
    return mark.wiped_for in REASONS_OF_MOVES
