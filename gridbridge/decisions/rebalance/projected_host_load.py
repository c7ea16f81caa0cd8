"""How loaded hosts are, and how they would be after what is advised."""

from gridbridge.decisions.rebalance.projected_load import ProjectedLoad
from gridbridge.model.rebalance.host_load import HostLoad
from gridbridge.model.rebalance.moves import MovePlan
from gridbridge.model.rebalance.placement_snapshot import PlacementSnapshot
from gridbridge.model.rebalance.rebalance_section import Rebalance


def loads(snapshot: PlacementSnapshot, rules: Rebalance, advice: MovePlan) -> tuple[HostLoad, ...]:
    """Return every host, by kind and name."""
    board = ProjectedLoad(snapshot, rules)
    hosts = sorted(snapshot.hosts, key=lambda host: (host.kind, host.name))
    before = [(board.disk(host), board.score(host)) for host in hosts]
    moved = {(move.job, move.number) for move in advice.moves}
    tasks = {task.key: task for task in snapshot.tasks if task.key in moved}
    for move in advice.moves:
        board.take(move, tasks[move.job, move.number])
    return tuple(
        HostLoad(
            host=host.name,
            disk=disk,
            score=score,
            disk_after=board.disk(host),
            score_after=board.score(host),
        )
        for host, (disk, score) in zip(hosts, before, strict=True)
    )
