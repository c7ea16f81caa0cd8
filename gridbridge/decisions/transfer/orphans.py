"""Held jobs at other clusters that bear a transfer's name and are nobody's.

A starter that was killed, or whose submission's answer was lost, leaves a held job behind
(design: exactly once).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from gridbridge.decisions.transfer.world import World
from gridbridge.errors import ParseError
from gridbridge.model.ids import PREFIX, TransferId, parse_transfer
from gridbridge.model.snapshot import JobStatus
from gridbridge.model.transfer.plan import Orphan
from gridbridge.model.transfer.transfer import Transfer

ORPHAN_AGE = timedelta(seconds=60)  # a held job whose record we never saw is nobody's by then


def orphans(transfers: Iterable[Transfer], world: World) -> Iterator[Orphan]:
    """Find held jobs under our transfers' names that are not the recorded ones.

    Id 0 is one still being submitted: its starter, or its burial, sees to that job. Another
    person's transfer of the same name says nothing about a job.
    """
    recorded = frozenset((one.name, one.owner, one.remote_id) for one in transfers)
    open_names = frozenset((name, owner) for name, owner, _ in recorded)
    for remote in world.snapshots.values():
        for row in (row for rows in remote.jobs.values() for row in rows):
            is_ours = _our_name(row, world.home) and row.state.is_held and not row.state.is_deleting
            name = (row.name, row.owner)
            if not is_ours or {(*name, row.job_id), (*name, 0)} & recorded:
                continue
            if why := _orphaned(row, name in open_names, world.now):
                yield Orphan(
                    cluster=remote.cluster,
                    job_id=row.job_id,
                    name=row.name,
                    owner=row.owner,
                    why=why,
                )


def _orphaned(row: JobStatus, is_open: bool, now: datetime) -> str:
    if is_open:
        return "another job is the recorded one"
    is_old = row.since is not None and now - row.since > ORPHAN_AGE
    return "no transfer of that name is open" if is_old else ""


def _our_name(row: JobStatus, home: str) -> TransferId | None:
    if not row.name.startswith(f"{PREFIX}.{home}."):
        return None
    try:
        return parse_transfer(row.name)
    except ParseError:
        return None
