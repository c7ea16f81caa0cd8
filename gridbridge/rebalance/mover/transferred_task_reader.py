"""Read the tasks that transfer queues have sent to other clusters."""

from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import timedelta

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.model.cluster_snapshot import ClusterSnapshot, JobListRow
from gridbridge.model.policy import Policy
from gridbridge.model.rebalance.observed_tasks import TransferredTask
from gridbridge.model.rebalance.placement_snapshot import AHEAD, STUCK, TaskNotMovedReason, happened_within
from gridbridge.model.states import JobStateFact
from gridbridge.model.transfer.claim import JOB
from gridbridge.model.transfer.transfer_row import OwnershipProof, TaskMoveStage, Transfer, TransferKey, WaitingTaskMove
from gridbridge.model.transfer_message import DesiredLocalJobState, StarterPhase, TransferFailureCause
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.transfer.acts.local_tasks import LocalTaskActs
from gridbridge.transfer.store.transfer_rows import TaskMoveRows, TransferRows

WANTED = ("", DesiredLocalJobState.RUNNING)
AGAIN = timedelta(hours=1)  # pause before a task whose move failed moves again

_Task = tuple[str, int, int, int]  # home cluster, job, task, submitter's uid


class TransferredTaskReader:
    """Reads the open transfers from the state file and matches them with clusters' job lists."""

    def __init__(self, policy: Policy, database: StateFile, clock: Clock) -> None:
        self._policy = policy
        self._transfers = TransferRows(database)
        self._moves = TaskMoveRows(database)
        self._clock = clock
        self._home_tasks = LocalTaskActs(policy)

    def transfers(self) -> tuple[Transfer, ...]:
        """Return the open transfers whose owner is verified and whose end is unknown."""
        proved = (transfer for transfer in self._transfers.open() if transfer.listed == OwnershipProof.YES)
        return tuple(transfer for transfer in proved if not transfer.verdict)

    def listed(
        self, transfers: Iterable[Transfer], answers: Mapping[str, ClusterSnapshot | None], dead: Set[str] = frozenset()
    ) -> Iterator[TransferredTask]:
        """Yield the transferred tasks: listed by clusters, being moved, or at `dead` clusters.

        For some seconds no cluster lists a task that is being moved. A long-stuck move no longer
        blocks other moves; the task's owner may have stopped its starter.
        """
        now, listed = self._clock.now(), set[_Task]()
        all_moves = {_task(move.key): move for move in self._moves.in_flight()}
        moves = {key: move for key, move in all_moves.items() if happened_within(move.asked_at, now, STUCK)}
        dropped = self._moves.dropped(now - AGAIN, now + AHEAD)
        for transfer in transfers:
            snapshot = answers.get(transfer.remote)
            if transfer.remote in dead and transfer.remote_id and _task(transfer.key) not in all_moves:
                yield _unheard_of(transfer)
                continue
            row = self._own(transfer, snapshot.find(transfer.remote_id)) if snapshot and transfer.remote_id else None
            if row is not None:
                task = _task(transfer.key)
                listed.add(task)
                move = moves.get(task)
                is_stuck = task in all_moves and move is None
                stays = TaskNotMovedReason.STUCK if is_stuck else self._stays(transfer, row, dropped)
                yield TransferredTask(
                    transfer=transfer.name,
                    uid=transfer.uid,
                    cluster=transfer.remote,
                    slots=row.slots,
                    is_waiting=move is None and stays is None,
                    is_running=row.state.has_begun,
                    is_moving=move is not None,
                    stays=stays or TaskNotMovedReason.HELD,
                    target=move.target if move else "",
                )
        yield from (self._on_its_way(move) for key, move in moves.items() if key not in listed)

    def staying(self, tasks: Iterable[TransferredTask]) -> frozenset[str]:
        """Return the jobs of waiting tasks whose owners forbid a move.

        Raises GridbridgeError when the home cluster does not answer.
        """
        jobs = {parse_transfer_name(task.transfer).job: task.key[0] for task in tasks if task.is_waiting}
        staying = self._home_tasks.kept_where_they_are(jobs) if jobs else ()
        return frozenset(jobs[number] for number in staying)

    def reached(self, answers: Mapping[str, ClusterSnapshot | None]) -> frozenset[str]:
        """Return the clusters that an open transfer queue leads to, and the home cluster.

        The result is empty without an answer of the home cluster.
        """
        home = self._policy.site.cluster
        if (snapshot := answers.get(home)) is None:
            return frozenset()
        queues = self._policy.queues
        open_to = (queue.queue for queue in snapshot.queues if queue.takes_work and queue.queue in queues)
        return frozenset({home, *(queues[name].cluster for name in open_to)})

    def _on_its_way(self, move: WaitingTaskMove) -> TransferredTask:
        is_home = move.stage is TaskMoveStage.HOME
        return TransferredTask(
            transfer=move.name,
            uid=move.uid,
            cluster=self._policy.site.cluster if is_home else move.source,
            slots=move.slots,
            is_waiting=False,
            is_moving=True,
            target=move.target,
        )

    def _own(self, transfer: Transfer, row: JobListRow | None) -> JobListRow | None:
        """Return the job's row if it belongs to the transfer's owner on that cluster."""
        cluster = self._policy.clusters.get(transfer.remote)
        if row is None or cluster is None:
            return None
        owner = cluster.users.person_of(row.owner, transfer.remote) if cluster.ssh else row.owner
        return row if owner == transfer.owner else None

    def _stays(self, transfer: Transfer, row: JobListRow, dropped: Set[TransferKey]) -> TaskNotMovedReason | None:
        """Return why a task must not be moved; None for a movable task."""
        if not self._waits(transfer, row):
            return TaskNotMovedReason.HELD
        if transfer.key in dropped:
            return TaskNotMovedReason.DROPPED
        return TaskNotMovedReason.RECALLED if self._is_at_limit(transfer) else None

    def _is_at_limit(self, transfer: Transfer) -> bool:
        name = parse_transfer_name(transfer.name)
        transfers = self._transfers.of_task(name.cluster, name.job, name.task)
        recalls = sum(
            attempt.uid == transfer.uid and attempt.cause == TransferFailureCause.RECALLED for attempt in transfers
        )
        return recalls >= self._policy.queues[transfer.queue].recall_limit

    def _waits(self, transfer: Transfer, row: JobListRow) -> bool:
        """Say whether a task has waited long enough and can be recalled."""
        queue = self._policy.queues.get(transfer.queue)
        if queue is None or not queue.recall_wait_s or transfer.since is None:
            return False
        least = timedelta(seconds=self._policy.rebalance.least_wait_s)
        if row.state.word != JobStateFact.WAITING or self._clock.now() - transfer.since < least:
            return False
        tells = batch_adapter_of_cluster(configured_cluster_address(self._policy, transfer.remote)).recalls is not None
        may_come = transfer.claimed != JOB if transfer.claim else tells
        return may_come and transfer.desired in WANTED and transfer.phase == StarterPhase.RELEASED


def _unheard_of(transfer: Transfer) -> TransferredTask:
    return TransferredTask(
        transfer=transfer.name,
        uid=transfer.uid,
        cluster=transfer.remote,
        slots=1,
        is_waiting=False,
        stays=TaskNotMovedReason.SILENT,
    )


def _task(key: TransferKey) -> _Task:
    """Return the key that all attempts to transfer a task share."""
    name = parse_transfer_name(key[0])
    return name.cluster, name.job, name.task, key[1]
