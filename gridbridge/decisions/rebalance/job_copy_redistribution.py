"""Even spread of a job: single copies move from hosts with many to few copies."""

from collections.abc import Iterator

from gridbridge.decisions.rebalance.move_plan_draft import MovePlanDraft, live_or_replica_move_kind
from gridbridge.decisions.rebalance.placement_constraints import why_copy_is_forbidden, why_host_takes_no_more_of_job
from gridbridge.decisions.rebalance.projected_placement import ProjectedPlacement
from gridbridge.model.rebalance.placement_snapshot import PlacementHost, PlacementJobOrDataset, PlacementTask


class JobCopyRedistribution:
    """The hosts of a kind by their number of a job's copies, until a copy moves."""

    def __init__(self, draft: MovePlanDraft, job: PlacementJobOrDataset, kind: str, *, is_asked: bool) -> None:
        board, above = draft.board, dict(draft.board.above(job, kind))
        self.above = above
        # hosts that lack most copies of the job first, then the lowest load
        self.order = sorted(board.by_load(kind), key=lambda host: above[host.name])
        self._draft, self._job, self._is_asked = draft, job, is_asked
        self._givers = [host for host in reversed(self.order) if above[host.name] >= 0]
        self._takers: list[PlacementHost] | None = None  # computed on first use
        self._reasons: dict[str, str] = {}  # reason (or empty) why a host takes no copy
        self._is_told = False

    def push(self, source: PlacementHost, *, is_extra: bool = False) -> bool:
        """Plan one copy's move off a host, to the host with the fewest copies.

        `is_extra` (the source is only busy) excludes busy targets, which would return the copy.
        """
        targets: list[PlacementHost] | None = None
        reason = self._draft.taken_reason(self._job, source.name)
        for task in self._movable(source):
            if reason:
                self._draft.refuse(task, "", reason)
                return False
            if targets is None:
                targets = [host for host in self._taking() if host.name != source.name]
                targets = [host for host in targets if not (is_extra and self._is_busy(host))]
            for target in targets:
                if _goes(self._draft, task, source, target):
                    self._refuse_up_to(task, target.name)
                    return True
            self._refuse_up_to(task)
            if not targets:
                return False
        return False

    def pull(self, target: PlacementHost, *, is_extra: bool = False) -> bool:
        """Plan one copy's move to a host, from the host with the most copies.

        Hosts below their share give no copy. `is_extra` (the target is only quiet) excludes quiet
        sources.
        """
        draft, job, empty = self._draft, self._job, set[str]()
        reason = _target_reason(draft, job, target)
        for source in self._givers:
            if source.name == target.name or (is_extra and draft.board.is_quiet(source)):
                continue
            task = None
            taken_reason = draft.taken_reason(job, source.name)
            for task in self._movable(source):
                if reason:
                    draft.refuse(task, target.name, reason)
                    return False
                if taken_reason:
                    draft.refuse(task, "", taken_reason)
                    break
                if _goes(draft, task, source, target):
                    return True
            if task is None:
                empty.add(source.name)
        self._givers = [host for host in self._givers if host.name not in empty]
        return False

    def _movable(self, host: PlacementHost) -> Iterator[PlacementTask]:
        return self._draft.movable(self._job, host.name, is_asked=self._is_asked)

    def _is_busy(self, host: PlacementHost) -> bool:
        return self._draft.board.is_busy(host)

    def _taking(self) -> list[PlacementHost]:
        """Return the hosts that may take any copy of the job."""
        if self._takers is None:
            why = {host.name: _target_reason(self._draft, self._job, host) for host in self.order}
            self._takers = [host for host in self.order if not why[host.name]]
            self._reasons = why
        return self._takers

    def _refuse_up_to(self, task: PlacementTask, until: str = "") -> None:
        """Record the first task's rejected targets, up to the host that takes the task."""
        for name, reason in self._reasons.items() if not self._is_told else ():
            if name == until:
                break
            if reason and name not in task.hosts:
                self._draft.refuse(task, name, reason)
        self._is_told = True


def _goes(draft: MovePlanDraft, task: PlacementTask, source: PlacementHost, target: PlacementHost) -> bool:
    board = draft.board
    copy = why_copy_is_forbidden(board, task, source.name, target)
    if reason := copy or _extreme_reason(board, task, source, target):
        draft.refuse(task, target.name, reason)
        return False
    draft.add(live_or_replica_move_kind(board.task(task), source.name), task, source.name, target.name)
    return True


def _target_reason(draft: MovePlanDraft, job: PlacementJobOrDataset, target: PlacementHost) -> str:
    """Say why a host takes no copy of a job, independent of the task."""
    board = draft.board
    return (
        draft.host_reason(target)
        or draft.given_reason(job, target.name)
        or why_host_takes_no_more_of_job(board, job, target)
        or _busy_reason(board, target)
        or _full_reason(board, target)
    )


def _full_reason(board: ProjectedPlacement, target: PlacementHost) -> str:
    if board.is_disk_heavy(target):
        return f"the disk of {target.name} is far fuller than the mean"
    return ""


def _busy_reason(board: ProjectedPlacement, target: PlacementHost) -> str:
    """Say that a busy host gets no copy of a job (Hydra, "Job Rebalancing").

    A host with a known number of free slots is judged by these slots instead.
    """
    if target.room is None and board.is_busy(target):
        return f"{target.name} is far busier than the mean"
    return ""


def _extreme_reason(
    board: ProjectedPlacement, task: PlacementTask, source: PlacementHost, target: PlacementHost
) -> str:
    """Reject a move that makes disks uneven: the next round would undo the move."""
    if board.is_disk_heavy(target, task.size_bytes) and task.size_bytes:
        return f"the disk of {target.name} would be far fuller than the mean"
    is_light = board.is_disk_light(source, -task.size_bytes) and task.size_bytes
    if is_light and not board.is_disk_light(source):
        return f"the disk of {source.name} would be far emptier than the mean"
    return ""
