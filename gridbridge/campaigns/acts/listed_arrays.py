"""What clusters list, and which of it is our own arrays'."""

from collections.abc import Iterable
from dataclasses import replace

from gridbridge.model.campaigns.campaign import Array
from gridbridge.model.campaigns.campaign_names import ArrayId, released_name
from gridbridge.model.policy import Policy
from gridbridge.model.snapshot import ClusterSnapshot


def ours_alone(
    policy: Policy, snapshot: ClusterSnapshot, arrays: Iterable[Array]
) -> ClusterSnapshot:
    """Leave out the jobs of others that have the numbers of our arrays: a new cell counts anew."""
    names = {
        array.job_id: (account_of(policy, array), released_name(array.campaign))
        for array in arrays
        if array.cluster == snapshot.cluster
    }
    jobs = {
        number: ours
        for number, rows in snapshot.jobs.items()
        if (ours := tuple(row for row in rows if row.name in names.get(number, (row.name,))))
    }
    return replace(snapshot, jobs=jobs)


def account_of(policy: Policy, array: Array) -> str:
    """Return the name under which an array is submitted and accounted for."""
    return str(ArrayId(policy.site.cluster, array.campaign, array.number))
