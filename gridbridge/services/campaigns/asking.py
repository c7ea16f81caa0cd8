"""One question to each cluster that campaigns use, all at once."""

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from gridbridge.apply.adapters import status_of
from gridbridge.apply.clusters import away
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import Array
from gridbridge.model.policy import Policy
from gridbridge.model.snapshot import ClusterSnapshot

_log = logging.getLogger(__name__)


def ask(
    policy: Policy, clusters: Iterable[str], arrays: Iterable[Array]
) -> dict[str, ClusterSnapshot]:
    """Return what these clusters say, with our arrays; one that does not answer is left out."""
    names = sorted(frozenset(clusters) & policy.clusters.keys())
    wanted = frozenset(one.job_id for one in arrays if one.job_id)
    with ThreadPoolExecutor(max_workers=max(1, len(names))) as threads:
        answers = threads.map(lambda name: _snapshot(policy, name, wanted), names)
        return {name: seen for name, seen in zip(names, answers, strict=True) if seen}


def _snapshot(policy: Policy, name: str, wanted: frozenset[int]) -> ClusterSnapshot | None:
    where = away(policy, name)
    try:
        return status_of(where).snapshot(where, name, wanted, policy.queues_at(name))[0]
    except (GridbridgeError, OSError) as error:
        _log.warning("event=no_answer cluster=%s why=%r", name, str(error))
        return None
