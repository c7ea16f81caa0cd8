"""Nobody holds up the others by what hangs when something is done as themselves."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gridbridge.campaigns.runner.array_commands_as_owner import PermanentArrayRefusal
from gridbridge.campaigns.runner.cycle_results_and_forecasts import CycleStatisticsRecorder
from gridbridge.campaigns.runner.plan_execution_and_root_ledger import CampaignPlanExecutor
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionResult,
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    RootLedgerArray,
    TaskAttempt,
)
from gridbridge.model.campaigns.campaign import CampaignState as State
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.campaign_sections import CampaignFailuresSection
from gridbridge.model.campaigns.cycle_plan import CampaignCyclePlan, PlannedCampaignTaskSend
from gridbridge.model.campaigns.jdl import Jdl, JdlClusterSettings
from gridbridge.model.campaigns.speculation import SupersededAttempts
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile
from tests.decisions.campaigns.test_slot_distribution import NOON

ALICE, BOB = 41000, 41001
BOBS, ALICES = range(1, 5), 5  # campaigns
WISH = JdlClusterSettings(exec_file="run")


class Grid:
    """Clusters where calls for some campaigns take their time."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.took_s: dict[tuple[int, str], float] = {}
        self.is_failing = True
        self.fails_by: type[GridbridgeError] = GridbridgeError
        self.told: list[tuple[int, str]] = []

    def send(
        self, arrays: tuple[tuple[CampaignArray, tuple[TaskAttempt, ...]], ...]
    ) -> tuple[ArraySubmissionResult, ...]:
        """Take arrays, or tell for each that it failed."""
        try:
            self._call(arrays[0][0])
        except GridbridgeError as error:
            return tuple(ArraySubmissionResult(error=error) for _ in arrays)
        return tuple(ArraySubmissionResult(job_id=7) for _ in arrays)

    def release(self, array: CampaignArray) -> None:
        """Let it start."""
        self._call(array)

    def delete(self, array: CampaignArray) -> int:
        """End it."""
        self._call(array)
        return 7

    def delete_places(self, array: CampaignArray, places: tuple[range, ...]) -> None:
        """End a part of it."""
        del places
        self._call(array)

    def end(self, campaign: int) -> None:
        """Send nothing more of it."""

    def ledger_arrays(self, campaign: int) -> tuple[RootLedgerArray, ...]:
        """Know nothing."""
        del campaign
        return ()

    def calls(self) -> list[tuple[int, str]]:
        """Return the calls since the last time."""
        found, self.told = self.told, []
        return found

    def _call(self, array: CampaignArray) -> None:
        pair = array.campaign, array.cluster
        self.told.append(pair)
        self.passed_s += self.took_s.get(pair, 0.1)
        if pair in self.took_s and self.is_failing:
            raise self.fails_by("not done within 45 s")


@pytest.fixture(name="grid")
def _grid() -> Grid:
    return Grid()


@pytest.fixture(name="campaigns")
def _campaigns(tmp_path: Path) -> Iterator[CampaignRows]:
    database = StateFile.open(f"sqlite:///{tmp_path}/state.db")
    campaigns = CampaignRows(database)
    for number in (*BOBS, ALICES):
        one = Campaign(
            number=number,
            uid=ALICE if number == ALICES else BOB,
            owner="somebody",
            state=State.IN_TREATMENT,
            submitted_at=NOON,
            tasks=9,
            digest="",
            jdl=Jdl(name="sweep", clusters={"beta": WISH, "gamma": WISH}),
        )
        campaigns.add(one, f"token{number}")
    yield campaigns
    database.close()


@pytest.fixture(name="do")
def _do(campaigns: CampaignRows, grid: Grid) -> Callable[[CampaignCyclePlan], None]:
    database = campaigns.database
    clock = Clock(lambda: NOON.timestamp() + grid.passed_s, lambda: grid.passed_s)
    return CampaignPlanExecutor(database, CycleStatisticsRecorder(database), clock, CampaignFailuresSection(), grid).do


def sent(campaigns: CampaignRows, cluster: str = "gamma") -> tuple[CampaignArray, ...]:
    """Return arrays of all campaigns that run there."""
    for number in (*BOBS, ALICES):
        array = campaigns.intend(number, cluster, 1, NOON)
        assert array
        campaigns.array_is(array, ArraySubmissionState.RELEASED, 7)
    return campaigns.open_arrays()


def test_after_a_call_that_hangs_its_owners_others_wait(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """Each would cost its own 45 s; other people's go on, and so do the owner's elsewhere."""
    grid.took_s = {(number, "gamma"): 45.0 for number in BOBS}
    every = [
        PlannedCampaignTaskSend(campaign=n, cluster=name, tasks=1) for n in (1, 2, 5) for name in ("gamma", "beta")
    ]

    do(CampaignCyclePlan(sends=tuple(every)))

    assert grid.calls() == [(1, "gamma"), (1, "beta"), (2, "beta"), (5, "gamma"), (5, "beta")]
    told = {one.campaign: one.code for one in EventAndSuccessRecordRows(campaigns.database).open()}
    assert told == {1: CampaignEventCode.SUBMIT_JOB, 2: CampaignEventCode.SUBMIT_JOB}


def test_each_pause_is_twice_as_long_for_what_is_deleted_too(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    grid.took_s = {(number, "gamma"): 45.0 for number in BOBS}
    arrays = sent(campaigns)
    cycles = 0
    for _ in range(100):
        grid.passed_s += 15
        do(CampaignCyclePlan(deleted=arrays))
        cycles += 1

    calls = grid.calls()

    assert len([one for one in calls if one[0] == ALICES]) == cycles
    assert len(calls) - cycles == 5  # after 0, 60, 120, 240 and 480 s


def test_one_that_does_not_hang_ends_the_pauses(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """What fails at once holds up nobody."""
    grid.took_s = {(number, "gamma"): 45.0 for number in BOBS}
    lost = tuple(SupersededAttempts(array=one, places=(range(1, 2),), is_whole=False) for one in sent(campaigns)[:4])
    do(CampaignCyclePlan(losers=lost))
    first = grid.calls()
    grid.took_s = {(number, "gamma"): 1.0 for number in BOBS}
    do(CampaignCyclePlan(losers=lost))
    paused = grid.calls()
    grid.passed_s += 60
    do(CampaignCyclePlan(losers=lost))

    assert (len(first), len(paused), len(grid.calls())) == (1, 0, 4)


def test_what_is_slow_and_succeeds_has_a_minute_of_a_cycle(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """The rest has its turn in the next one, and nobody is told of a trouble."""
    grid.took_s = {(number, "gamma"): 35.0 for number in BOBS}
    grid.is_failing = False
    sends = CampaignCyclePlan(
        sends=tuple(PlannedCampaignTaskSend(campaign=n, cluster="gamma", tasks=1) for n in (*BOBS, ALICES))
    )

    do(sends)

    assert grid.calls() == [(1, "gamma"), (2, "gamma"), (ALICES, "gamma")]
    left = [one for one in campaigns.open_arrays() if one.state is ArraySubmissionState.INTENDED]
    assert [one.campaign for one in left] == [3, 4]
    assert EventAndSuccessRecordRows(campaigns.database).open() == ()
    do(CampaignCyclePlan(resumed=tuple(left)))
    assert grid.calls() == [(3, "gamma"), (4, "gamma")]


def test_what_its_cluster_refuses_has_not_hung(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """However slow that cluster is: the owner's other campaigns are sent."""
    grid.took_s = {(1, "gamma"): 9.0}
    grid.fails_by = PermanentArrayRefusal

    do(CampaignCyclePlan(sends=tuple(PlannedCampaignTaskSend(campaign=n, cluster="gamma", tasks=1) for n in (1, 2))))

    assert grid.calls() == [(1, "gamma"), (2, "gamma")]
