"""Observes the tasks at all clusters, as the input of a rebalancing decision."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster, cluster_status_reader
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.campaigns.runner.array_commands_as_owner import snapshot_without_foreign_jobs
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import TaskDeletionMarkRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.predecessor_rows import PredecessorRows
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignArray, CampaignState
from gridbridge.model.campaigns.campaign_events import BLACKLISTING_EVENTS, CampaignEventCode
from gridbridge.model.campaigns.task_deletions_and_preemptions import REASONS_OF_MOVES
from gridbridge.model.campaigns.task_index_and_attempt_texts import is_prologue_or_epilogue_task
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.job_and_queue_states import JobStateFact
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    AHEAD,
    NEVER,
    STUCK,
    CampaignTaskAtCluster,
    TaskNotMovedReason,
    TasksObservedAtClusters,
    TransferredTask,
    happened_within,
)
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.claim_and_guard import JOB
from gridbridge.model.transfer.transfers_and_actions import OwnerSeenInHomeJobList, TaskMoveStage, Transfer, TransferKey
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, StarterPhase, TransferFailureCause
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program.cluster_observer import unexpected_answer_as_error
from gridbridge.rebalance.replica_act_and_move_tables import MoveAndVerificationTimeRows
from gridbridge.shell.clock import Clock
from gridbridge.state import drains
from gridbridge.state.campaign_tables import live_campaign_jobs_at
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.local_task_acts import LocalTaskActs
from gridbridge.transfer.transfer_history_rows import TaskMoveRows, TransferRows

SILENT_S = 300.0  # silence after which a cluster without a transfer queue counts as lost

_log = logging.getLogger(__name__)


class RebalanceTaskObserver:
    def __init__(self, policy: Policy, database: StateFile, clock: Clock) -> None:
        self._policy = policy
        self._database = database
        self._clock = clock
        self._campaigns = CampaignRows(database)
        self._predecessors = PredecessorRows(database, self._campaigns)
        self._events = EventAndSuccessRecordRows(database)
        self._marks = TaskDeletionMarkRows(database)
        self._notes = MoveAndVerificationTimeRows(database)
        self._sent_away = TransferredTaskReader(policy, database, clock)

    def observe_tasks(self) -> TasksObservedAtClusters:
        unfinished = self._campaigns.unfinished_campaigns()
        campaigns = tuple(campaign for campaign in unfinished if campaign.state is CampaignState.IN_TREATMENT)
        by_number = {campaign.number: campaign for campaign in campaigns}
        arrays = [array for array in self._campaigns.query_open_arrays() if array.campaign in by_number]
        transfers = self._sent_away.open_transfers_with_verified_owner()
        answers = self._query_all_clusters(arrays, {transfer.remote_id for transfer in transfers if transfer.remote_id})
        dead = self._clusters_silent_too_long(transfers, answers)
        sent = tuple(self._sent_away.transferred_tasks(transfers, answers, dead))
        staying, reached = self._unmovable_jobs_and_open_clusters(sent, answers)
        return TasksObservedAtClusters(
            now=self._clock.now(),
            answers=answers,
            campaigns=campaigns,
            tasks=(
                *self._campaign_tasks_in_job_lists(by_number, arrays, answers),
                *self._tasks_at_silent_clusters(by_number, arrays, dead),
            ),
            away=sent,
            staying=staying,
            reached=reached,
            unsent=self._predecessors.count_sendable_tasks(campaigns),
            closed=frozenset(
                (event.campaign, event.cluster)
                for event in self._events.query_open_events()
                if event.code in BLACKLISTING_EVENTS
            ),
            drained=drains.list_drained_clusters(),
            dead=dead,
            recent=self._notes.recent_move_times(),
        )

    def _clusters_silent_too_long(
        self, transfers: Iterable[Transfer], answers: Mapping[str, ClusterSnapshot | None]
    ) -> frozenset[str]:
        """Return the clusters that once answered, but have been silent for longer than their recall timeout."""
        heard = {
            event.cluster: event.opened_at
            for event in self._events.query_open_events()
            if event.code is CampaignEventCode.GET_JOBS
        }
        for transfer in transfers:
            last = transfer.seen_at or transfer.created_at
            heard[transfer.remote] = max(heard.get(transfer.remote, last), last)
        silent = [name for name, snapshot in answers.items() if snapshot is None and name in heard]
        limits_s: dict[str, list[float]] = {name: [] for name in silent}
        for queue in self._policy.queues.values():
            limits_s.setdefault(queue.cluster, []).append(queue.recall_unreachable_s)
        now = self._clock.now()
        return frozenset(
            name for name in silent if now - heard[name] >= timedelta(seconds=max(limits_s[name], default=SILENT_S))
        )

    def _tasks_at_silent_clusters(
        self, by_number: Mapping[int, Campaign], arrays: Iterable[CampaignArray], dead: Set[str]
    ) -> Iterator[CampaignTaskAtCluster]:
        """Yield recorded campaign tasks at silent clusters, because these clusters may still start the tasks."""
        for array in arrays:
            if array.cluster not in dead or array.is_of_copies or not array.job_id:
                continue
            make_task = _campaign_task_maker(array, by_number[array.campaign])
            for attempt in self._campaigns.unfinished_attempts(array):
                if not is_prologue_or_epilogue_task(attempt.task):
                    yield make_task(
                        task=attempt.task, place=attempt.place, is_waiting=False, stays=TaskNotMovedReason.SILENT
                    )

    def _unmovable_jobs_and_open_clusters(
        self, transferred: Iterable[TransferredTask], answers: Mapping[str, ClusterSnapshot | None]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return jobs whose owners forbid moves, and clusters open to transfers; both empty if home is silent."""
        try:
            return self._sent_away.jobs_whose_owners_forbid_moves(
                transferred
            ), self._sent_away.clusters_open_to_transfers(answers)
        except (GridbridgeError, OSError) as error:
            _log.warning("event=no_answer cluster=%s why=%r", self._policy.site.cluster, describe_error(error))
            return frozenset(), frozenset()

    def _query_all_clusters(
        self, arrays: Iterable[CampaignArray], job_ids: Set[int]
    ) -> dict[str, ClusterSnapshot | None]:
        submitted = [array for array in arrays if array.job_id]
        accesses = {name: configured_cluster_access(self._policy, name) for name in sorted(self._policy.clusters)}
        names = [name for name, where in accesses.items() if batch_adapter_of_cluster(where).array_ends]
        sent = [live_campaign_jobs_at(self._database, name).jobs | job_ids for name in names]

        def query_cluster(name: str, jobs: frozenset[int]) -> ClusterSnapshot | None:
            where, queues = accesses[name], self._policy.transfer_queues_of_cluster(name)
            try:
                with unexpected_answer_as_error(name):
                    snapshot = cluster_status_reader(where).query_cluster_snapshot(where, name, jobs, queues)[0]
            except (GridbridgeError, OSError) as error:
                _log.warning("event=no_answer cluster=%s why=%r", name, describe_error(error))
                return None
            return snapshot_without_foreign_jobs(self._policy, snapshot, submitted)

        with ThreadPoolExecutor(max_workers=max(1, len(names))) as threads:
            return dict(zip(names, threads.map(query_cluster, names, sent), strict=True))

    def _campaign_tasks_in_job_lists(
        self,
        by_number: Mapping[int, Campaign],
        arrays: Iterable[CampaignArray],
        answers: Mapping[str, ClusterSnapshot | None],
    ) -> Iterator[CampaignTaskAtCluster]:
        """Yield campaign tasks in clusters' job lists, and tasks that a move has removed from the lists.

        A move that lasts longer than STUCK no longer blocks other moves, because the owner's ssh key may be gone.
        """
        marks, moved_at, now = self._marks.deletion_marks(), self._notes.marked_campaign_tasks(), self._clock.now()
        for array in arrays:
            snapshot = answers.get(array.cluster)
            if snapshot is None or array.state is not ArraySubmissionState.RELEASED or array.is_of_copies:
                continue
            make_task = _campaign_task_maker(array, by_number[array.campaign])
            at = {attempt.place: attempt.task for attempt in self._campaigns.unfinished_attempts(array)}
            marked = marks.get((array.campaign, array.number), {})
            moved = dict.fromkeys(index for index, mark in marked.items() if mark.wiped_for in REASONS_OF_MOVES)
            for index, row in (moved | dict(_array_indices_in_job_list(array, snapshot))).items():
                if index in at and not is_prologue_or_epilogue_task(at[index]):
                    since = moved_at.get((array.campaign, array.number, index), NEVER)
                    is_moved = index in moved
                    is_stuck = is_moved and not happened_within(since, now, STUCK)
                    yield make_task(
                        task=at[index],
                        place=index,
                        is_waiting=bool(row and self._is_task_movable(array, row) and index not in marked),
                        is_running=bool(row and row.state.has_begun),
                        is_moving=is_moved and not is_stuck,
                        stays=TaskNotMovedReason.STUCK if is_stuck else TaskNotMovedReason.HELD,
                    )

    def _is_task_movable(self, array: CampaignArray, row: ClusterJobListRow) -> bool:
        """Say whether a task has waited `least_wait_s`, and is not held or being deleted."""
        least = timedelta(seconds=self._policy.rebalance.least_wait_s)
        is_free = row.state.is_waiting and not (row.state.is_held or row.state.is_deleting)
        return is_free and not happened_within(array.intended_at, self._clock.now(), least)


def _campaign_task_maker(array: CampaignArray, campaign: Campaign) -> Callable[..., CampaignTaskAtCluster]:
    return partial(
        CampaignTaskAtCluster,
        campaign=array.campaign,
        array=array.number,
        cluster=array.cluster,
        slots=campaign.jdl.slots_at(array.cluster),
    )


def _array_indices_in_job_list(
    array: CampaignArray, snapshot: ClusterSnapshot
) -> Iterator[tuple[int, ClusterJobListRow]]:
    whole = (range(1, array.size + 1),)
    for row in snapshot.jobs.get(array.job_id, ()):
        for span in row.tasks or whole:
            for index in span:
                yield index, row


AGAIN = timedelta(hours=1)  # pause after a failed move, before the next move of the task

_Task = tuple[str, int, int, int]  # home cluster, job, task, uid of the job's owner


class TransferredTaskReader:
    def __init__(self, policy: Policy, database: StateFile, clock: Clock) -> None:
        self._policy = policy
        self._transfers = TransferRows(database)
        self._moves = TaskMoveRows(database)
        self._clock = clock
        self._home_tasks = LocalTaskActs(policy)

    def open_transfers_with_verified_owner(self) -> tuple[Transfer, ...]:
        """Return the open transfers that have a verified owner, and no decided outcome yet."""
        proved = OwnerSeenInHomeJobList.YES
        return tuple(
            transfer
            for transfer in self._transfers.open_transfers()
            if transfer.listed == proved and not transfer.verdict
        )

    def transferred_tasks(
        self, transfers: Iterable[Transfer], answers: Mapping[str, ClusterSnapshot | None], dead: Set[str] = frozenset()
    ) -> Iterator[TransferredTask]:
        """Yield transferred tasks that a cluster lists, that are moving, or that are at a `dead` cluster.

        A move that lasts longer than STUCK no longer blocks other moves, because the task's owner may have stopped the
        starter.
        """
        now, listed = self._clock.now(), set[_Task]()
        all_moves = {
            _home_task_key_of_transfer(move.transfer_key): move for move in self._moves.unfinished_task_moves()
        }
        moves = {key: move for key, move in all_moves.items() if happened_within(move.asked_at, now, STUCK)}
        dropped = self._moves.transfers_with_abandoned_move(now - AGAIN, now + AHEAD)
        for transfer in transfers:
            snapshot = answers.get(transfer.remote)
            task = _home_task_key_of_transfer(transfer.transfer_key)
            seen = partial(TransferredTask, transfer=transfer.name, uid=transfer.uid, cluster=transfer.remote)
            if transfer.remote in dead and transfer.remote_id and task not in all_moves:
                yield seen(slots=1, is_waiting=False, stays=TaskNotMovedReason.SILENT)
                continue
            row = (
                self._remote_row_if_owner_matches(transfer, snapshot.find_job_list_row(transfer.remote_id))
                if snapshot and transfer.remote_id
                else None
            )
            if row is not None:
                listed.add(task)
                move = moves.get(task)
                is_stuck = task in all_moves and move is None
                stays = TaskNotMovedReason.STUCK if is_stuck else self._why_task_unmovable(transfer, row, dropped)
                yield seen(
                    slots=row.slots,
                    is_waiting=move is None and stays is None,
                    is_running=row.state.has_begun,
                    is_moving=move is not None,
                    stays=stays or TaskNotMovedReason.HELD,
                    target=move.target if move else "",
                )
        for move in (move for key, move in moves.items() if key not in listed):
            yield TransferredTask(
                transfer=move.name,
                uid=move.uid,
                cluster=self._policy.site.cluster if move.stage is TaskMoveStage.HOME else move.source,
                slots=move.slots,
                is_waiting=False,
                is_moving=True,
                target=move.target,
            )

    def jobs_whose_owners_forbid_moves(self, tasks: Iterable[TransferredTask]) -> frozenset[str]:
        """Return the jobs whose owners forbid automatic moves; raise GridbridgeError if the home cluster is silent."""
        jobs = {
            parse_transfer_name(task.transfer).job: task.job_and_task_number[0] for task in tasks if task.is_waiting
        }
        staying = self._home_tasks.jobs_excluded_from_moves(jobs) if jobs else ()
        return frozenset(jobs[number] for number in staying)

    def clusters_open_to_transfers(self, answers: Mapping[str, ClusterSnapshot | None]) -> frozenset[str]:
        """Return the home cluster and the clusters with open transfer queues; empty if the home cluster is silent."""
        home = self._policy.site.cluster
        if (snapshot := answers.get(home)) is None:
            return frozenset()
        queues = self._policy.queues
        open_to = (
            queue.queue_name for queue in snapshot.queues if queue.can_start_batch_jobs and queue.queue_name in queues
        )
        return frozenset({home, *(queues[name].cluster for name in open_to)})

    def _remote_row_if_owner_matches(
        self, transfer: Transfer, row: ClusterJobListRow | None
    ) -> ClusterJobListRow | None:
        cluster = self._policy.clusters.get(transfer.remote)
        if row is None or cluster is None:
            return None
        is_foreign = cluster.has_own_accounts_and_files
        owner = cluster.users.user_of_remote_account(row.owner, transfer.remote) if is_foreign else row.owner
        return row if owner == transfer.owner else None

    def _why_task_unmovable(
        self, transfer: Transfer, row: ClusterJobListRow, dropped: Set[TransferKey]
    ) -> TaskNotMovedReason | None:
        if not self._may_task_be_recalled(transfer, row):
            return TaskNotMovedReason.HELD
        if transfer.transfer_key in dropped:
            return TaskNotMovedReason.DROPPED
        name = parse_transfer_name(transfer.name)
        attempts = self._transfers.transfers_of_task(name.cluster, name.job, name.task)
        recalls = [attempt.cause for attempt in attempts if attempt.uid == transfer.uid].count(
            TransferFailureCause.RECALLED
        )
        is_at_limit = recalls >= self._policy.queues[transfer.queue].recall_limit
        return TaskNotMovedReason.RECALLED if is_at_limit else None

    def _may_task_be_recalled(self, transfer: Transfer, row: ClusterJobListRow) -> bool:
        """Say whether a task has waited `least_wait_s` and can be recalled."""
        queue = self._policy.queues.get(transfer.queue)
        if queue is None or not queue.recall_wait_s or transfer.since is None:
            return False
        least = timedelta(seconds=self._policy.rebalance.least_wait_s)
        if row.state.most_important_fact != JobStateFact.WAITING or self._clock.now() - transfer.since < least:
            return False
        tells = batch_adapter_of_cluster(configured_cluster_access(self._policy, transfer.remote)).recalls is not None
        may_come = transfer.claimed != JOB if transfer.claim else tells
        is_wanted = transfer.desired in ("", DesiredLocalJobState.RUNNING)
        return may_come and is_wanted and transfer.phase == StarterPhase.RELEASED


def _home_task_key_of_transfer(key: TransferKey) -> _Task:
    """Return the key of a task at home; all attempts to transfer the task have this key."""
    name = parse_transfer_name(key[0])
    return name.cluster, name.job, name.task, key[1]
