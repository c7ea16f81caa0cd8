"""Each step of a submission is noted before the next, so the next cycle can go on with it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.apply.campaigns.arrays import ArrayRefused
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import (
    Array,
    ArrayState,
    Attempt,
    Campaign,
    CampaignState,
    Outcome,
)
from gridbridge.model.campaigns.jdl import AtCluster, Jdl
from gridbridge.model.campaigns.plan import Plan, Send
from gridbridge.services.campaigns.actions import Actions
from gridbridge.services.campaigns.learnt import Learnt
from gridbridge.shell.clock import Clock
from gridbridge.state.database import Database
from gridbridge.state.database.campaigns import Campaigns
from gridbridge.state.database.marks import Marks
from gridbridge.state.database.predictions import Predictions

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Grid:
    """Clusters that note what they are told, and fail when they are told to."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.failing: dict[str, GridbridgeError] = {}

    def submit(self, array: Array, attempts: tuple[Attempt, ...]) -> int:
        """Take an array."""
        tasks = ",".join(f"{one.task}:{one.attempt}" for one in attempts)
        self._tell(f"submit {array.number} {array.cluster} {tasks}")
        return 70 + array.number

    def release(self, array: Array) -> None:
        """Start it."""
        self._tell(f"release {array.number} {array.job_id}")

    def delete(self, array: Array) -> None:
        """End it."""
        self._tell(f"delete {array.number} {array.job_id}")

    def _tell(self, what: str) -> None:
        self.told.append(what)
        if trouble := self.failing.get(what.partition(" ")[0]):
            raise trouble


@pytest.fixture(name="grid")
def _grid() -> Grid:
    return Grid()


@pytest.fixture(name="campaigns")
def _campaigns(tmp_path: Path) -> Iterator[Campaigns]:
    database = Database.open(f"sqlite:///{tmp_path}/state.db")
    campaigns = Campaigns(database)
    campaigns.add(
        Campaign(
            number=0,
            uid=1000,
            owner="alice",
            state=CampaignState.IN_TREATMENT,
            submitted_at=NOON,
            tasks=3,
            digest="",
            jdl=Jdl(name="sweep", clusters={"beta": AtCluster(exec_file="run")}),
        ),
        "token",
    )
    yield campaigns
    database.close()


@pytest.fixture(name="do")
def _do(tmp_path: Path, campaigns: Campaigns, grid: Grid) -> Callable[[Plan], None]:
    database = campaigns._database
    learnt = Learnt(Predictions(database), Marks(database))
    return Actions(database, campaigns, learnt, Clock(), grid).do


SEND = Plan(sends=(Send(campaign=1, cluster="beta", tasks=2),))


def only(campaigns: Campaigns) -> Array:
    """Return the one open array."""
    (array,) = campaigns.open_arrays()
    return array


def test_an_array_is_submitted_and_then_released(
    campaigns: Campaigns, grid: Grid, do: Callable[[Plan], None]
) -> None:
    """Never the other way round, and under the id that was noted."""
    do(SEND)

    assert grid.told == ["submit 1 beta 0:1,1:1", "release 1 71"]
    assert only(campaigns).state is ArrayState.RELEASED
    assert campaigns.waiting() == {1: 1}


@pytest.mark.parametrize(
    ("step", "state", "rest"),
    [
        ("submit", ArrayState.INTENDED, ["submit 1 beta 0:1,1:1", "release 1 71"]),
        ("release", ArrayState.SUBMITTED, ["release 1 71"]),
    ],
)
def test_the_next_cycle_goes_on_where_one_failed(
    campaigns: Campaigns,
    grid: Grid,
    do: Callable[[Plan], None],
    step: str,
    state: ArrayState,
    rest: list[str],
) -> None:
    """The same array, with the same tasks: an answer may have been lost."""
    grid.failing[step] = GridbridgeError("no answer")
    do(SEND)
    begun = only(campaigns)

    grid.failing.clear()
    grid.told.clear()
    do(Plan(resumed=(begun,)))

    assert begun.state is state
    assert grid.told == rest
    assert only(campaigns).state is ArrayState.RELEASED


def test_an_array_that_is_refused_has_failed_for_good(
    campaigns: Campaigns, grid: Grid, do: Callable[[Plan], None]
) -> None:
    """Its tasks could not be set up, and are counted so."""
    grid.failing["submit"] = ArrayRefused("no such queue")

    do(SEND)

    found = campaigns.find(1)
    assert found
    assert (found.ended, found.failed) == (2, 2)
    assert campaigns.open_arrays() == ()


def test_a_task_that_runs_again_waits_with_its_next_attempt(
    campaigns: Campaigns, do: Callable[[Plan], None]
) -> None:
    """It has not ended, so that it is not counted."""
    do(SEND)
    first, second = (
        Attempt(campaign=1, task=n, attempt=1, array=1, place=n + 1, outcome=outcome)
        for n, outcome in enumerate((Outcome.SUCCESS, Outcome.RESUBMIT))
    )

    do(Plan(ended=(first, second), again=(second,), over=(only(campaigns),)))
    do(SEND)

    found = campaigns.find(1)
    assert found
    assert (found.ended, found.failed) == (1, 0)
    sent = campaigns.pending(only(campaigns))
    assert [(one.task, one.attempt) for one in sent] == [(1, 2), (2, 1)]


@pytest.mark.parametrize("is_released", [True, False])
def test_an_array_of_a_cancelled_campaign_is_deleted(
    campaigns: Campaigns, grid: Grid, do: Callable[[Plan], None], is_released: bool
) -> None:
    """What may run is waited for until its cluster tells the end; what can't is over at once."""
    grid.failing = {} if is_released else {"release": GridbridgeError("no answer")}
    do(SEND)

    do(Plan(deleted=(only(campaigns),)))

    assert grid.told[-1] == "delete 1 71"
    assert len(campaigns.open_arrays()) == is_released
