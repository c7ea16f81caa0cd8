"""Tells a campaign's array jobs in a cluster's snapshot from jobs of other users."""

from collections.abc import Iterable
from dataclasses import replace

from gridbridge.model.campaigns.campaign import Array
from gridbridge.model.campaigns.campaign_names import CampaignArrayId, released_array_name
from gridbridge.model.policy import Policy
from gridbridge.model.snapshot import ClusterSnapshot


def exclude_foreign_jobs(
    policy: Policy, snapshot: ClusterSnapshot, arrays: Iterable[Array]
) -> ClusterSnapshot:
    """Remove other users' jobs that have a job number of one of our arrays.

    A reinstalled cell counts its job numbers from 1 again, so a number alone proves nothing.
    """
    names = {
        array.job_id: (array_job_name(policy, array), released_array_name(array.campaign))
        for array in arrays
        if array.cluster == snapshot.cluster
    }
    jobs = {
        number: ours
        for number, rows in snapshot.jobs.items()
        if (ours := tuple(row for row in rows if row.name in names.get(number, (row.name,))))
    }
    return replace(snapshot, jobs=jobs)


def array_job_name(policy: Policy, array: Array) -> str:
    """Return the job name under which an array is submitted and accounted for."""
    return str(CampaignArrayId(policy.site.cluster, array.campaign, array.number))
