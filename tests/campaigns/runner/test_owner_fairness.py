"""Hanging calls as one owner do not delay other owners."""

from pathlib import Path

from gridbridge.campaigns.runner.array_commands_as_owner import PermanentArrayRefusal
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import ArraySubmissionResult, CampaignArray, TaskAttempt
from gridbridge.model.campaigns.campaign import ArraySubmissionState as ArrayState
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, PlannedCampaignTaskSend
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.speculative_attempts import SupersededAttempts
from gridbridge.shell.clock import Clock
from tests.builders.campaigns import NOON, made_campaign, site_fixture
from tests.campaigns.runner.fake_clusters import Grid, GridSite

ALICE, BOB = 41000, 41001
BOBS, ALICES = range(1, 5), 5  # campaigns


class SlowGrid(Grid):
    def __init__(self) -> None:
        super().__init__()
        self.passed_s = 0.0
        self.took_s: dict[tuple[int, str], float] = {}
        self.is_failing = True
        self.fails_by: type[GridbridgeError] = GridbridgeError
        self.called: list[tuple[int, str]] = []

    def submit_arrays(
        self, arrays: tuple[tuple[CampaignArray, tuple[TaskAttempt, ...]], ...]
    ) -> tuple[ArraySubmissionResult, ...]:
        try:
            self._call(arrays[0][0])
        except GridbridgeError as error:
            return tuple(ArraySubmissionResult(error=error) for _ in arrays)
        return tuple(ArraySubmissionResult(job_id=7) for _ in arrays)

    def calls(self) -> list[tuple[int, str]]:
        """Return the calls since the last call of this method."""
        found, self.called = self.called, []
        return found

    def _call(self, array: CampaignArray, *_: object) -> int:
        pair = array.campaign, array.cluster
        self.called.append(pair)
        self.passed_s += self.took_s.get(pair, 0.1)
        if pair in self.took_s and self.is_failing:
            raise self.fails_by("not done within 45 s")
        return 7

    release_array = delete_array = delete_array_tasks = _call


class SlowSite(GridSite):
    def __init__(self, folder: Path) -> None:
        grid = SlowGrid()
        clock = Clock(lambda: NOON.timestamp() + grid.passed_s, lambda: grid.passed_s)
        uids = [*[BOB] * len(BOBS), ALICE]
        campaigns = (made_campaign("beta", "gamma", uid=uid, tasks=9) for uid in uids)
        super().__init__(folder, *campaigns, grid=grid, clock=clock)


_site = site_fixture(SlowSite)


def sends(*campaigns: int, clusters: tuple[str, ...] = ("gamma",)) -> CampaignCyclePlan:
    pairs = [(number, name) for number in campaigns for name in clusters]
    return CampaignCyclePlan(
        sends=tuple(PlannedCampaignTaskSend(campaign=number, cluster=name, tasks=1) for number, name in pairs)
    )


def sent(site: SlowSite) -> tuple[CampaignArray, ...]:
    return tuple(site.send(job_id=7, cluster="gamma", campaign=number) for number in (*BOBS, ALICES))


def test_a_hanging_call_postpones_further_calls_of_its_owner_there(site: SlowSite) -> None:
    site.grid.took_s = {(number, "gamma"): 45.0 for number in BOBS}

    site.do(sends(1, 2, 5, clusters=("gamma", "beta")))

    assert site.grid.calls() == [(1, "gamma"), (1, "beta"), (2, "beta"), (5, "gamma"), (5, "beta")]
    told = {one.campaign: one.code for one in site.events.query_open_events()}
    assert told == {1: CampaignEventCode.SUBMIT_JOB, 2: CampaignEventCode.SUBMIT_JOB}


def test_each_pause_after_a_hanging_deletion_is_twice_as_long(site: SlowSite) -> None:
    site.grid.took_s = {(number, "gamma"): 45.0 for number in BOBS}
    arrays = sent(site)
    for _ in range(100):
        site.grid.passed_s += 15
        site.do(CampaignCyclePlan(deleted=arrays))

    campaigns = [campaign for campaign, _ in site.grid.calls()]

    assert campaigns.count(ALICES) == 100
    assert len(campaigns) - 100 == 5  # after 0, 60, 120, 240 and 480 s


def test_a_quick_call_ends_the_pauses_of_its_owner(site: SlowSite) -> None:
    places = (range(1, 2),)
    lost = tuple(SupersededAttempts(array=array, places=places, is_whole=False) for array in sent(site)[:4])
    calls = []
    for took_s, pause_s in ((45.0, 0), (1.0, 0), (1.0, 60)):
        site.grid.took_s = {(number, "gamma"): took_s for number in BOBS}
        site.grid.passed_s += pause_s
        site.do(CampaignCyclePlan(losers=lost))
        calls.append(len(site.grid.calls()))

    assert calls == [1, 0, 4]


def test_slow_successful_calls_of_an_owner_have_60_s_in_a_cycle(site: SlowSite) -> None:
    site.grid.took_s = {(number, "gamma"): 35.0 for number in BOBS}
    site.grid.is_failing = False

    site.do(sends(*BOBS, ALICES))

    assert site.grid.calls() == [(1, "gamma"), (2, "gamma"), (ALICES, "gamma")]
    left = [one for one in site.campaigns.query_open_arrays() if one.state is ArrayState.INTENDED]
    assert [one.campaign for one in left] == [3, 4]
    assert site.events.query_open_events() == ()
    site.do(CampaignCyclePlan(resumed=tuple(left)))
    assert site.grid.calls() == [(3, "gamma"), (4, "gamma")]


def test_a_slow_refusal_does_not_count_as_hanging(site: SlowSite) -> None:
    site.grid.took_s = {(1, "gamma"): 9.0}
    site.grid.fails_by = PermanentArrayRefusal

    site.do(sends(1, 2))

    assert site.grid.calls() == [(1, "gamma"), (2, "gamma")]
