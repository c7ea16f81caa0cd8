"""How much one round may still move."""

from collections import Counter, deque
from collections.abc import Callable, Iterable

from gridbridge.decisions.rebalance.board import Board
from gridbridge.model.rebalance.moves import Advice, Move, MoveKind, Rejected
from gridbridge.model.rebalance.snapshot import Task
from gridbridge.model.report import count


class Draft:
    """Advice that is being made: its moves, what was refused, and what is left of the limits."""

    def __init__(self, board: Board, most: int, most_bytes: int | None) -> None:
        self.board = board
        self._most = most
        self._bytes_left = most_bytes  # None: they don't count
        self._moves = list[Move]()
        self._rejected = dict[tuple[str, int, str], Rejected]()
        self._taken = Counter[tuple[str, str]]()
        self._given = Counter[tuple[str, str]]()
        self._keys = set[tuple[str, int]]()

    @property
    def moves(self) -> tuple[Move, ...]:
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

    def limit_reason(self, task: Task) -> str:
        """Say which limit of the round a move would pass; empty when none."""
        if reason := self.again_reason(task):
            return reason
        if self._bytes_left is not None and task.size_bytes > self._bytes_left:
            return "the round moves no more bytes"
        return ""

    def again_reason(self, task: Task) -> str:
        """Say whether a task is moved in this round; empty when not."""
        return "it is moved already" if task.key in self._keys else ""

    def crowd_reason(self, task: Task, source: str, target: str) -> str:
        """Say whether enough of a job leaves a host, or goes to one, in this round."""
        most = self.board.rules.tasks_per_host
        if self._taken[task.job, source] >= most:
            leave = count(most, "of the job's copies leaves", "of the job's copies leave")
            return f"{leave} {source} already"
        if self._given[task.job, target] >= most:
            go = count(most, "of the job's copies goes", "of the job's copies go")
            return f"{go} to {target} already"
        return ""

    def refuse(self, task: Task, target: str, reason: str) -> None:
        """Note why a move is not advised; the first reason of each counts."""
        rejected = Rejected(job=task.job, number=task.number, target=target, reason=reason)
        self._rejected.setdefault((*task.key, target), rejected)

    def add(self, kind: MoveKind, task: Task, source: str, target: str = "") -> None:
        """Advise a move, and take it as done."""
        move = Move(kind=kind, job=task.job, number=task.number, source=source, target=target)
        self.board.take(move, task)
        self._moves.append(move)
        self._keys.add(task.key)
        if kind == MoveKind.DELETE:
            return
        self._taken[task.job, source] += 1
        self._given[task.job, target] += 1
        if self._bytes_left is not None:
            self._bytes_left -= task.size_bytes

    def advice(self, sentence: str) -> Advice:
        """Return it; what was moved after all is not among what was refused."""
        moved = {(move.job, move.number, move.target) for move in self._moves}
        rejected = (one for key, one in self._rejected.items() if key not in moved)
        return Advice(moves=self.moves, rejected=tuple(rejected), sentence=sentence)


def in_turn(draft: Draft, tasks: Iterable[Task], advise: Callable[[Task], object]) -> None:
    """Let each owner's tasks have a move, and then each another one, until no more may be moved."""
    waiting: dict[str, deque[Task]] = {}
    for task in tasks:
        waiting.setdefault(draft.board.jobs[task.job].owner, deque()).append(task)
    while waiting and not draft.is_over:
        for owner, theirs in [*waiting.items()]:
            before = len(draft.moves)
            while theirs and len(draft.moves) == before and not draft.is_over:
                advise(theirs.popleft())
            if not theirs:
                del waiting[owner]


def kind_of(task: Task, source: str) -> MoveKind:
    """Return what a copy at a host is."""
    return MoveKind.LIVE if task.live == source else MoveKind.REPLICA


def told(moves: tuple[Move, ...], nothing: str) -> str:
    """Say what is moved where to, or why nothing is."""
    if not moves:
        return nothing
    kept = [move for move in moves if move.kind != MoveKind.DELETE]
    deleted = len(moves) - len(kept)
    targets = ", ".join(sorted({move.target for move in kept}))
    words = [f"{count(len(kept), 'copy', 'copies')} to {targets}"] if kept else []
    words += [f"{count(deleted, 'copy', 'copies')} removed"] if deleted else []
    return " and ".join(words)
