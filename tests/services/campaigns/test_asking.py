"""Of what a cluster lists only our own arrays are ours, whatever numbers others have."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gridbridge.model.campaigns.campaign import Array, ArrayState
from gridbridge.model.policy import Policy, Site
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus
from gridbridge.model.states import Fact, JobState
from gridbridge.services.campaigns.asking import ours_alone

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
OURS = Array(
    campaign=3,
    number=4,
    cluster="beta",
    state=ArrayState.RELEASED,
    size=2,
    intended_at=NOON,
    job_id=77,
)


def job(number: int, name: str) -> JobStatus:
    """Return a row of a list."""
    state = JobState([Fact.RUNNING])
    return JobStatus(job_id=number, name=name, owner="alice", state=state)


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [("campaign.3", True), ("gc.alpha.3.4", True), ("campaign.30", False), ("sleep", False)],
)
def test_a_job_with_the_number_of_an_array_has_its_name(name: str, is_ours: bool) -> None:
    """A cluster that was installed anew numbers its jobs from 1."""
    transfer = job(78, "gb.alpha.9.0.1")
    seen = ClusterSnapshot(
        cluster="beta",
        taken_at=NOON,
        queues=(),
        jobs={77: (job(77, name),), 78: (transfer,)},
        pending=0,
        free_slots=0,
    )
    policy = Policy(site=Site(cluster="alpha"), clusters={}, queues={})

    found = ours_alone(policy, seen, [OURS, replace(OURS, cluster="gamma", job_id=78)])

    assert (77 in found.jobs) is is_ours
    assert found.jobs[78] == (transfer,)
