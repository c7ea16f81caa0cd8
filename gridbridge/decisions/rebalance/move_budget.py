"""How much one round may still move."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

from gridbridge.decisions.rebalance.placement_constraints import host_reason, task_reason
from gridbridge.decisions.rebalance.projected_load import ProjectedLoad
from gridbridge.model.rebalance.moves import MoveKind, MovePlan, PlacementMove, RejectedMove
from gridbridge.model.rebalance.placement_snapshot import (
    PlacementHost,
    PlacementJob,
    PlacementTask,
    TaskState,
)
from gridbridge.model.status_report import count

MOST_LISTED = 10_000  # refusals in one advice: a round looks at a million tasks
UNLISTED = "not all that was refused is listed"


class AdviceDraft:
    """Advice that is being made: its moves, what was refused, and what is left of the limits."""

    def __init__(self, board: ProjectedLoad, most: int, most_bytes: int | None) -> None:
        self.board = board
        self._most = most
        self._bytes_left = most_bytes  # None: they don't count
        self._moves = list[PlacementMove]()
        self._rejected = dict[tuple[str, int, str], RejectedMove]()
        self._is_cut = False
        self._fixed = dict[tuple[str, str], list[PlacementTask]]()
        self._host_reasons = dict[str, str]()
        self._takers = dict[str, list[PlacementHost]]()
        self._moves_from = Counter[tuple[str, str]]()
        self._given = Counter[tuple[str, str]]()
        self._keys = set[tuple[str, int]]()

    @property
    def moves(self) -> tuple[PlacementMove, ...]:
        """The moves so far, in their order."""
        return tuple(self._moves)

    @property
    def is_over(self) -> bool:
        """Whether no more may be moved."""
        return len(self._moves) >= self._most

    def allow(self, most: int) -> None:
        """Let there be so many moves in all."""
        self._most = most

    def room(self, most: int) -> int:
        """Return how many of so many moves are left."""
        return max(0, min(most, self._most - len(self._moves)))

    def limit_reason(self, task: PlacementTask) -> str:
        """Say which limit of the round a move would pass; empty when none."""
        if reason := self.again_reason(task):
            return reason
        if self._bytes_left is not None and task.size_bytes > self._bytes_left:
            return "the round moves no more bytes"
        return ""

    def again_reason(self, task: PlacementTask) -> str:
        """Say whether a task is moved in this round; empty when not."""
        return "it is moved already" if task.key in self._keys else ""

    def taken_reason(self, job: PlacementJob, source: str) -> str:
        """Say whether enough of a job leaves a host in this round."""
        most = self.board.rules.tasks_per_host
        is_enough = self._moves_from[job.name, source] >= most
        leave = count(most, "of the job's copies leaves", "of the job's copies leave")
        return f"{leave} {source} already" if is_enough else ""

    def given_reason(self, job: PlacementJob, target: str) -> str:
        """Say whether enough of a job goes to a host in this round."""
        most = self.board.rules.tasks_per_host
        is_enough = self._given[job.name, target] >= most
        go = count(most, "of the job's copies goes", "of the job's copies go")
        return f"{go} to {target} already" if is_enough else ""

    def refuse(self, task: PlacementTask, target: str, reason: str) -> None:
        """Note why a move is not advised; the first reason of each counts, of many the first."""
        if not self.is_listing:
            return
        rejected = RejectedMove(job=task.job, number=task.number, target=target, reason=reason)
        self._rejected.setdefault((*task.key, target), rejected)

    @property
    def is_listing(self) -> bool:
        """Whether more of what is refused is listed."""
        self._is_cut = len(self._rejected) >= MOST_LISTED
        return not self._is_cut

    def host_reason(self, host: PlacementHost) -> str:
        """Say why a host takes no copy at all; it is found once, until something is moved."""
        if host.name not in self._host_reasons:
            self._host_reasons[host.name] = host_reason(self.board, host)
        return self._host_reasons[host.name]

    def takers(self, task: PlacementTask, kind: str) -> list[PlacementHost]:
        """Return the live hosts of a kind that take copies; a first task is refused by the others.

        They are the same until something is moved.
        """
        if kind not in self._takers:
            live = self.board.live(kind)
            self._takers[kind] = [host for host in live if not self.host_reason(host)]
            for host in live:
                if reason := self.host_reason(host):
                    self.refuse(task, host.name, reason)
        return self._takers[kind]

    def movable(self, job: PlacementJob, host: str, *, is_asked: bool) -> Iterator[PlacementTask]:
        """Give a job's copies at a host, by number; note why others don't move.

        Of a host from which none went anywhere they are the same until something is moved.
        """
        if (fixed := self._fixed.get((job.name, host))) is not None:
            yield from fixed
            return
        if not self.is_listing and job.name not in self.board.waiting:
            return
        movable = []
        for task in self.board.of_job_at(job.name, host):
            if not self.is_listing and task.state is not TaskState.WAITING:
                continue
            reason = task_reason(self.board, task, is_asked=is_asked) or self.limit_reason(task)
            if reason:
                self.refuse(task, "", reason)
            else:
                movable.append(task)
                yield task
        self._fixed[job.name, host] = movable

    def add(self, kind: MoveKind, task: PlacementTask, source: str, target: str = "") -> None:
        """Advise a move, and take it as done."""
        move = PlacementMove(
            kind=kind, job=task.job, number=task.number, source=source, target=target
        )
        self.board.take(move, task)
        self._host_reasons.clear()
        self._takers.clear()
        self._fixed.clear()
        self._moves.append(move)
        self._keys.add(task.key)
        if kind == MoveKind.DELETE:
            return
        self._moves_from[task.job, source] += 1
        self._given[task.job, target] += 1
        if self._bytes_left is not None:
            self._bytes_left -= task.size_bytes

    def advice(self, sentence: str) -> MovePlan:
        """Return it; what was moved after all is not among what was refused."""
        moved = {(move.job, move.number, move.target) for move in self._moves}
        rejected = (
            rejected_move for key, rejected_move in self._rejected.items() if key not in moved
        )
        full_sentence = "; ".join(filter(None, (sentence, UNLISTED))) if self._is_cut else sentence
        return MovePlan(moves=self.moves, rejected=tuple(rejected), sentence=full_sentence)


def in_turn(
    draft: AdviceDraft, tasks: Iterable[PlacementTask], advise: Callable[[PlacementTask], object]
) -> None:
    """Let each owner's tasks have a move, and then each another one, until no more may be moved."""
    waiting: dict[str, deque[PlacementTask]] = {}
    for task in tasks:
        waiting.setdefault(draft.board.jobs[task.job].owner, deque()).append(task)
    while waiting and not draft.is_over:
        for owner, theirs in [*waiting.items()]:
            before = len(draft.moves)
            while theirs and len(draft.moves) == before and not draft.is_over:
                advise(theirs.popleft())
            if not theirs:
                del waiting[owner]


def kind_of(task: PlacementTask, source: str) -> MoveKind:
    """Return what a copy at a host is."""
    return MoveKind.LIVE if task.live == source else MoveKind.REPLICA


def moves_sentence(moves: tuple[PlacementMove, ...], nothing: str) -> str:
    """Say what is moved where to, or why nothing is."""
    if not moves:
        return nothing
    copied = [move for move in moves if move.kind != MoveKind.DELETE]
    deleted = len(moves) - len(copied)
    targets = ", ".join(sorted({move.target for move in copied}))
    words = [f"{count(len(copied), 'copy', 'copies')} to {targets}"] if copied else []
    words += [f"{count(deleted, 'copy', 'copies')} removed"] if deleted else []
    return " and ".join(words)
