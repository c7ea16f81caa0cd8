"""What is known of tasks that transfer queues have sent away."""

from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import timedelta

from gridbridge.batch.adapters import adapter_of
from gridbridge.batch.clusters import away
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import DesiredJobState, FailureCause, StarterPhase
from gridbridge.model.policy import Policy
from gridbridge.model.rebalance.note_age import AHEAD, STUCK, is_lately
from gridbridge.model.rebalance.observed_tasks import TransferredTask
from gridbridge.model.rebalance.placement_snapshot import StayReason
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus
from gridbridge.model.states import JobFact
from gridbridge.model.transfer.claim import JOB
from gridbridge.model.transfer.task_move import MoveStage, TaskMoveState
from gridbridge.model.transfer.transfer_row import Key, OwnershipProof, Transfer
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.transfer.acts.local_tasks import LocalTasks
from gridbridge.transfer.store.task_move_rows import MoveRows
from gridbridge.transfer.store.transfer_rows import TransferRows

WANTED = ("", DesiredJobState.RUNNING)
AGAIN = timedelta(hours=1)  # before a task whose move was dropped is moved again

_Task = tuple[str, int, int, int]  # home, job, task, and the number of the person who sent it


class SentAway:
    """The open transfers, as the service keeps them and as clusters list their jobs."""

    def __init__(self, policy: Policy, database: StateFile, clock: Clock) -> None:
        self._policy = policy
        self._transfers = TransferRows(database)
        self._moves = MoveRows(database)
        self._clock = clock
        self._home_tasks = LocalTasks(policy)

    def transfers(self) -> tuple[Transfer, ...]:
        """Return those that home's list has proved and whose ends are not known."""
        proved = (one for one in self._transfers.open() if one.listed == OwnershipProof.YES)
        return tuple(one for one in proved if not one.verdict)

    def listed(
        self,
        transfers: Iterable[Transfer],
        answers: Mapping[str, ClusterSnapshot | None],
        dead: Set[str] = frozenset(),
    ) -> Iterator[TransferredTask]:
        """Give the tasks that clusters list, those on their way, and those at `dead` clusters.

        For some seconds nobody lists a task on its way: its cluster no more, the next one not yet.
        What could not be moved for long holds up nobody else: its owner can stop its starter.
        """
        now, listed = self._clock.now(), set[_Task]()
        every = {_task(one.key): one for one in self._moves.in_flight()}
        moves = {key: one for key, one in every.items() if is_lately(one.asked_at, now, STUCK)}
        dropped = self._moves.dropped(now - AGAIN, now + AHEAD)
        for one in transfers:
            seen = answers.get(one.remote)
            if one.remote in dead and one.remote_id and _task(one.key) not in every:
                yield _unheard_of(one)
                continue
            row = self._own(one, seen.find(one.remote_id)) if seen and one.remote_id else None
            if row is not None:
                task = _task(one.key)
                listed.add(task)
                move = moves.get(task)
                is_stuck = task in every and move is None
                stays = StayReason.STUCK if is_stuck else self._stays(one, row, dropped)
                yield TransferredTask(
                    transfer=one.name,
                    uid=one.uid,
                    cluster=one.remote,
                    slots=row.slots,
                    is_waiting=move is None and stays is None,
                    is_running=row.state.has_begun,
                    is_moving=move is not None,
                    stays=stays or StayReason.HELD,
                    target=move.target if move else "",
                )
        yield from (self._on_its_way(one) for key, one in moves.items() if key not in listed)

    def staying(self, away: Iterable[TransferredTask]) -> frozenset[str]:
        """Return the jobs of waiting tasks which their owners want to stay where they are.

        GridbridgeError when home does not tell.
        """
        jobs = {parse_transfer(one.transfer).job: one.key[0] for one in away if one.is_waiting}
        staying = self._home_tasks.kept_where_they_are(jobs) if jobs else ()
        return frozenset(jobs[number] for number in staying)

    def reached(self, answers: Mapping[str, ClusterSnapshot | None]) -> frozenset[str]:
        """Return the clusters to which home's scheduler may send a task: home, by open queues."""
        home = self._policy.site.cluster
        if (seen := answers.get(home)) is None:
            return frozenset()
        queues = self._policy.queues
        open_to = (one.queue for one in seen.queues if one.takes_work and one.queue in queues)
        return frozenset({home, *(queues[name].cluster for name in open_to)})

    def _on_its_way(self, one: TaskMoveState) -> TransferredTask:
        is_home = one.stage is MoveStage.HOME
        return TransferredTask(
            transfer=one.name,
            uid=one.uid,
            cluster=self._policy.site.cluster if is_home else one.source,
            slots=one.slots,
            is_waiting=False,
            is_moving=True,
            target=one.target,
        )

    def _own(self, one: Transfer, row: JobStatus | None) -> JobStatus | None:
        """Return the row if it is of the transfer's owner, by their account there."""
        cluster = self._policy.clusters.get(one.remote)
        if row is None or cluster is None:
            return None
        owner = cluster.users.person_of(row.owner, one.remote) if cluster.ssh else row.owner
        return row if owner == one.owner else None

    def _stays(self, one: Transfer, row: JobStatus, dropped: Set[Key]) -> StayReason | None:
        """Say why a task is not to be moved; nothing for one that waits and could come."""
        if not self._waits(one, row):
            return StayReason.HELD
        if one.key in dropped:
            return StayReason.DROPPED
        return StayReason.RECALLED if self._is_at_limit(one) else None

    def _is_at_limit(self, one: Transfer) -> bool:
        name = parse_transfer(one.name)
        every = self._transfers.of_task(name.cluster, name.job, name.task)
        recalls = sum(each.uid == one.uid and each.cause == FailureCause.RECALLED for each in every)
        return recalls >= self._policy.queues[one.queue].recall_limit

    def _waits(self, one: Transfer, row: JobStatus) -> bool:
        """Say whether a task waits, so long that it will not start just now, and could come."""
        queue = self._policy.queues.get(one.queue)
        if queue is None or not queue.recall_wait_s or one.since is None:
            return False
        least = timedelta(seconds=self._policy.rebalance.least_wait_s)
        if row.state.word != JobFact.WAITING or self._clock.now() - one.since < least:
            return False
        tells = adapter_of(away(self._policy, one.remote)).recalls is not None
        may_come = one.claimed != JOB if one.claim else tells
        return may_come and one.desired in WANTED and one.phase == StarterPhase.RELEASED


def _unheard_of(one: Transfer) -> TransferredTask:
    return TransferredTask(
        transfer=one.name,
        uid=one.uid,
        cluster=one.remote,
        slots=1,
        is_waiting=False,
        stays=StayReason.SILENT,
    )


def _task(key: Key) -> _Task:
    """Return what all attempts at a task have in common."""
    name = parse_transfer(key[0])
    return name.cluster, name.job, name.task, key[1]
