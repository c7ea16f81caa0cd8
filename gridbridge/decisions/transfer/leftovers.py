"""Finds what ended transfers left behind, so that no remote job runs once more.

Whoever takes a job's end home can't tell whether the other cluster puts that job back: with
`qmod -f -rj` it lists it without a gap, as `Rq`, `Rt` and `Rr` (sge_status(5)), whatever `-r n`
said. Of another run nobody would take the end home. OAR makes a copy of what it could not launch.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from gridbridge.decisions.transfer.world import World
from gridbridge.model.message import Desired
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus
from gridbridge.model.transfer.claim import HOME
from gridbridge.model.transfer.plan import Act, Action
from gridbridge.model.transfer.transfer import Transfer

AT_ONCE = timedelta()  # what waits after its end will only run again
RESTARTED = timedelta(seconds=10)  # a second or two are usual before a qmaster hears of an end
STILL = timedelta(minutes=10)  # the first run's epilog may still copy its results


def survivors(ended: Iterable[Transfer], world: World) -> Iterator[Action]:
    """Have each remote job deleted that runs after its own end, closed or not."""
    for transfer in ended:
        remote = _fresh(transfer, world)
        row = _row(transfer, remote, world) if remote else None
        if remote and row and _outlives(transfer, row, remote):
            why = f"its end was told, and {remote.cluster} lists it as {row.state.text}"
            yield Action(act=Act.DELETE_REMOTE, transfer=transfer, why=why)


def is_at_rest(transfer: Transfer, world: World) -> bool:
    """Say whether the other cluster no longer lists it: a job that has left never comes back."""
    remote = _fresh(transfer, world)
    return remote is not None and _row(transfer, remote, world) is None


def holds_outputs(transfer: Transfer) -> bool:
    """Say whether its job's output files may exist only in its folder there.

    A starter removes the folder once all files are home. A starter that was killed has not, and
    only a person who deletes a job does not want its files.
    """
    may_have_run = transfer.verdict is not None and not transfer.verdict.claim
    return may_have_run and transfer.desired != Desired.DEAD


def _fresh(transfer: Transfer, world: World) -> ClusterSnapshot | None:
    remote = world.snapshots.get(transfer.remote)
    return remote if remote and remote.taken_at > transfer.updated_at else None


def _row(transfer: Transfer, remote: ClusterSnapshot, world: World) -> JobStatus | None:
    """Return the job, or one that OAR made of it since it could not launch it."""
    if transfer.remote_id and (row := world.row(transfer)):
        return row
    whose = transfer.name, transfer.owner
    return next((row for row in remote.copies if (row.name, row.owner) == whose), None)


def _outlives(transfer: Transfer, row: JobStatus, remote: ClusterSnapshot) -> bool:
    since_end = remote.taken_at - transfer.updated_at
    return not row.state.is_deleting and since_end > _grace(row, transfer)


def _grace(row: JobStatus, transfer: Transfer) -> timedelta:
    if row.state.is_waiting or transfer.claimed == HOME:  # of such a job nothing runs
        return AT_ONCE
    return RESTARTED if row.state.is_restarted else STILL
