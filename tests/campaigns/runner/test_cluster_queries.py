"""All programs share one query of a cluster, and foreign jobs in the answer are ignored."""

from dataclasses import replace
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.batch.gridengine import status
from gridbridge.campaigns.runner import cluster_queries_and_capacities as queries
from gridbridge.campaigns.runner.array_commands_as_owner import snapshot_without_foreign_jobs
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignState
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.jobs_and_accounting import ClusterArrayLimits, JobEnd
from gridbridge.shell.clock import Clock
from gridbridge.state.campaign_tables import live_campaign_jobs_at
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import (
    NOON,
    RUNNING,
    made_campaign,
    made_policy,
    made_snapshot,
    released_array,
    site_fixture,
)

POLICY = made_policy("beta")
OURS = released_array(campaign=3, number=4, size=2, job_id=77)


def job(number: int, name: str) -> ClusterJobListRow:
    return ClusterJobListRow(job_id=number, name=name, owner="alice", state=RUNNING)


@pytest.mark.parametrize(
    ("name", "is_ours"), [("campaign.3", True), ("gc.alpha.3.4", True), ("campaign.30", False), ("sleep", False)]
)
def test_a_listed_job_belongs_to_an_array_only_under_the_arrays_name(name: str, is_ours: bool) -> None:
    """A reinstalled cluster numbers its jobs from 1 again."""
    transfer = job(78, "gb.alpha.9.0.1")
    seen = made_snapshot(jobs={77: (job(77, name),), 78: (transfer,)})

    found = snapshot_without_foreign_jobs(POLICY, seen, [OURS, replace(OURS, cluster="gamma", job_id=78)])

    assert (77 in found.jobs) is is_ours
    assert found.jobs[78] == (transfer,)


class QueryingSite(CampaignSite):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, made_campaign(tasks=9))
        self.asked: list[frozenset[int]] = []
        self.uncounted: list[object] = []  # job ids that are not counted as waiting
        self.is_silent = False
        self.troubles: dict[str, str] = {}
        self.after_s = 0.0

    def submitted(self, job_id: int) -> None:
        """Submit an array that is still held."""
        self.campaigns.set_array_state(self.send(2), ArraySubmissionState.SUBMITTED, job_id)

    def ask(self, limit_s: float = 5.0) -> dict[str, ClusterSnapshot]:
        """Query the clusters as a program that was just started."""
        clock = Clock(lambda: NOON.timestamp() + self.after_s)
        asking = queries.ClusterSnapshotFetcher(POLICY, self.database, clock)
        found = asking.fetch_snapshots({"beta", "removed"}, self.campaigns.query_open_arrays(), limit_s)
        self.troubles = asking.troubles
        return found

    def answer(
        self, _: object, cluster: str, wanted: frozenset[int], __: object, uncounted: frozenset[int] = frozenset()
    ) -> tuple[ClusterSnapshot, float]:
        self.asked.append(wanted)
        self.uncounted.append(uncounted)
        if self.is_silent:
            raise GridbridgeError("refused")
        rows = {number: (job(number, "campaign.1"),) for number in wanted}
        now = NOON + timedelta(seconds=self.after_s)
        return made_snapshot(cluster=cluster, taken_at=now, jobs=rows, free_slots=3), 0.1


_made = site_fixture(QueryingSite)


@pytest.fixture(autouse=True)
def _answering(site: QueryingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "query_cluster_snapshot", site.answer)


def test_recent_snapshots_of_other_programs_are_used_without_a_query(site: QueryingSite) -> None:
    clock = Clock(lambda: NOON.timestamp() + site.after_s)
    asking = queries.ClusterSnapshotFetcher(POLICY, site.database, clock)
    before = asking.recent_snapshots(["beta"], 5.0)
    site.ask()
    now = asking.recent_snapshots(["beta"], 5.0)
    site.after_s = 6.0

    assert (before, [*now], asking.recent_snapshots(["beta"], 5.0)) == ({}, ["beta"], {})
    assert len(site.asked) == 1


def test_a_cluster_is_queried_again_after_the_interval_or_on_demand(site: QueryingSite) -> None:
    site.send(2, 7)
    site.ask()
    site.after_s = 6.0
    site.ask()
    site.ask(limit_s=0)

    assert len(site.asked) == 3


def test_an_array_released_after_the_last_query_causes_a_new_query(site: QueryingSite) -> None:
    site.send(2, 7)
    site.ask()
    site.submitted(8)
    site.ask()
    site.send(2, 9)
    found = site.ask()

    assert site.asked == [{7}, {7, 8, 9}]
    assert site.uncounted == site.asked  # campaign tasks are no pending local jobs
    assert found["beta"].jobs.keys() == {7, 8, 9}


def test_a_silent_cluster_is_left_out_and_queried_again_later(site: QueryingSite) -> None:
    site.is_silent = True
    site.send(2, 7)
    answers = site.ask(), site.ask()
    site.is_silent, site.after_s = False, 6.0

    assert (answers, site.troubles) == (({}, {}), {"beta": "refused"})
    assert len(site.asked) == 1
    assert site.ask().keys() == {"beta"}


def test_submitted_jobs_at_a_cluster_are_listed_for_other_programs(site: QueryingSite) -> None:
    site.send(2, 7)
    site.submitted(8)
    site.campaigns.set_array_state(site.send(2, 9), ArraySubmissionState.OVER)
    sent = live_campaign_jobs_at(site.database, "beta")
    elsewhere = live_campaign_jobs_at(site.database, "gamma")
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED)
    later = live_campaign_jobs_at(site.database, "gamma")

    assert (sent.jobs, sent.released, sent.is_watched) == ({7, 8}, {"1.1"}, True)
    assert (elsewhere.jobs, elsewhere.is_watched, later.is_watched) == (frozenset(), True, False)


def test_one_query_finds_the_live_tasks_of_all_late_arrays(site: QueryingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tasks count as live if the cluster does not answer."""
    cell = Mock(side_effect=[{8: frozenset({2})}, GridbridgeError("busy")])
    monkeypatch.setattr(status, "query_begun_indices", cell)
    first, second = (site.send(2, number) for number in (7, 8))

    assert queries.query_live_task_indices(POLICY, (first, second)) == {second: {2}}
    assert [len(arrays) for _, arrays in map(attrgetter("args"), cell.mock_calls)] == [2]
    assert queries.query_live_task_indices(POLICY, (first,)) == {first: frozenset(range(1, first.size + 1))}


def test_one_query_finds_the_task_ends_of_all_arrays(site: QueryingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    success = JobEnd(exit_status=0)
    cell = Mock(return_value={"gc.alpha.1.2": {2: success}})
    monkeypatch.setattr(status, "query_array_ends", cell)
    first, second = site.send(2, 7), site.send(2, 7)

    ends = queries.query_array_task_ends(POLICY, {first: range(1, 2), second: range(2, 4)})

    ((_, asked),) = map(attrgetter("args"), cell.mock_calls)
    assert ends == {first: {}, second: {2: success}}
    assert [query.account for query in asked] == ["gc.alpha.1.1", "gc.alpha.1.2"]


def test_array_limits_are_cached_for_600_s_and_retried_after_60_s(
    site: QueryingSite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = GridbridgeError("refused")
    answers = [refusal, ClusterArrayLimits(tasks=5), refusal, ClusterArrayLimits(tasks=7)]
    monkeypatch.setattr(status, "query_array_limits", Mock(side_effect=answers))
    asks = queries.ClusterArrayLimitCache(POLICY, Clock(NOON.timestamp, lambda: site.after_s))
    seen = []
    for site.after_s in (0.0, 59.0, 60.0, 659.0, 660.0, 719.0, 720.0):
        seen.append({name: one.tasks for name, one in asks.limits_of_clusters(["beta"]).items()})

    assert seen == [{}, {}, *[{"beta": 5}] * 4, {"beta": 7}]
    assert "event=no_limits cluster=beta why='refused'" in caplog.text


@pytest.mark.parametrize(
    "fault", [RecursionError("deep"), OverflowError("huge"), UnicodeEncodeError("utf-8", "", 0, 1, "")]
)
def test_no_unexpected_answer_of_a_cluster_ends_the_runner(
    site: QueryingSite, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """The service ends by an exception that is not expected, so a cluster would stop all campaigns elsewhere."""
    for query in ("query_cluster_snapshot", "query_array_ends", "query_begun_indices", "query_array_limits"):
        monkeypatch.setattr(status, query, Mock(side_effect=fault))
    array = site.send(2, 7)

    assert (site.ask(), [*site.troubles]) == ({}, ["beta"])
    assert queries.query_array_task_ends(POLICY, {array: range(1, 2)}) == {}
    assert queries.query_live_task_indices(POLICY, (array,)).keys() == {array}
    assert queries.ClusterArrayLimitCache(POLICY, Clock()).limits_of_clusters(["beta"]) == {}


def test_arrays_of_a_cluster_without_answer_have_no_reported_ends(
    site: QueryingSite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(status, "query_array_ends", Mock(side_effect=GridbridgeError("refused")))
    array = site.send(2, 7)

    assert queries.query_array_task_ends(POLICY, {array: range(1, 2)}) == {}
    assert queries.query_array_task_ends(POLICY, {}) == {}
    assert "event=no_ends cluster=beta why='refused'" in caplog.text
