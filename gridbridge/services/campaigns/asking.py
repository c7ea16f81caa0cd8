"""What is asked of clusters: how they are, all at once, and then about single arrays."""

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from gridbridge.apply.adapters import adapter_of, status_of
from gridbridge.apply.clusters import away
from gridbridge.batch.abilities import TellsArrayEnds
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import Array
from gridbridge.model.campaigns.names import ArrayId, released_name
from gridbridge.model.job import JobEnd
from gridbridge.model.policy import Policy
from gridbridge.model.route import Away
from gridbridge.model.snapshot import ClusterSnapshot

_log = logging.getLogger(__name__)


def ask(
    policy: Policy, clusters: Iterable[str], arrays: Iterable[Array]
) -> dict[str, ClusterSnapshot]:
    """Return what these clusters say, with our arrays; one that does not answer is left out."""
    names = sorted(frozenset(clusters) & policy.clusters.keys())
    submitted = tuple(one for one in arrays if one.job_id)
    wanted = frozenset(one.job_id for one in submitted)
    with ThreadPoolExecutor(max_workers=max(1, len(names))) as threads:
        answers = threads.map(lambda name: _snapshot(policy, name, wanted), names)
        found = zip(names, answers, strict=True)
        return {name: ours_alone(policy, seen, submitted) for name, seen in found if seen}


def ours_alone(policy: Policy, seen: ClusterSnapshot, arrays: Iterable[Array]) -> ClusterSnapshot:
    """Leave out the jobs of others that have the numbers of our arrays: a new cell counts anew."""
    names = {
        one.job_id: (_account(policy, one), released_name(one.campaign))
        for one in arrays
        if one.cluster == seen.cluster
    }
    jobs = {
        number: ours
        for number, rows in seen.jobs.items()
        if (ours := tuple(row for row in rows if row.name in names.get(number, (row.name,))))
    }
    return replace(seen, jobs=jobs)


def _snapshot(policy: Policy, name: str, wanted: frozenset[int]) -> ClusterSnapshot | None:
    where = away(policy, name)
    try:
        return status_of(where).snapshot(where, name, wanted, policy.queues_at(name))[0]
    except (GridbridgeError, OSError) as error:
        _log.warning("event=no_answer cluster=%s why=%r", name, str(error))
        return None


def ends_of(policy: Policy, array: Array) -> dict[int, JobEnd | None] | None:
    """Return what the cluster tells of ends; None while it tells nothing, which is no end."""
    system, where = _told_by(policy, array)
    try:
        return system.array_ends(where, array.job_id, _account(policy, array))
    except GridbridgeError as error:
        _tell_none(array, error)
        return None


def lives(policy: Policy, array: Array) -> frozenset[int] | None:
    """Return the places of an array that surely live, None where none does (TellsArrayEnds).

    While the cluster does not tell, all of them may.
    """
    system, where = _told_by(policy, array)
    try:
        return system.array_lives(where, array.job_id, _account(policy, array))
    except GridbridgeError as error:
        _tell_none(array, error)
        return frozenset(range(1, array.size + 1))


def _told_by(policy: Policy, array: Array) -> tuple[TellsArrayEnds[Away], Away]:
    """Return what tells of an array's ends, and where it asks."""
    where = away(policy, array.cluster)
    system = adapter_of(where).array_ends
    assert system  # campaigns are not sent to others
    return system, where


def _tell_none(array: Array, error: GridbridgeError) -> None:
    _log.warning("event=no_ends cluster=%s why=%r", array.cluster, str(error))


def _account(policy: Policy, array: Array) -> str:
    return str(ArrayId(policy.site.cluster, array.campaign, array.number))
