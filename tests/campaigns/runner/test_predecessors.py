"""A campaign names its predecessors once, at intake; its tasks are released in the transactions of their successes."""

from collections.abc import Container
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from gridbridge.campaigns.runner import campaign_intake
from gridbridge.campaigns.runner.campaign_completion_forecasts import CampaignCompletionForecasts
from gridbridge.campaigns.runner.campaign_publication import CampaignPublisher
from gridbridge.campaigns.runner.campaign_situation_gatherer import CampaignSituationGatherer
from gridbridge.campaigns.store import published_campaign_files
from gridbridge.campaigns.store.predecessor_rows import PredecessorRows
from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.decisions.campaigns.predecessor_conditions import apply_predecessor_conditions
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome, WaitingTaskRange
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan as Plan
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, PlannedCampaignTaskSend
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.campaign_file_and_array_names import ADDS_TO
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply as Reply
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestVerb as Verb
from gridbridge.model.campaigns.campaign_predecessors import (
    CampaignPredecessor,
    PredecessorCondition,
    PredecessorFailureAction,
    describe_unmet_predecessor,
)
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaignList
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.state.campaign_tables import PREDECESSORS
from tests.builders.campaigns import NOON, made_campaign, made_policy, site_fixture
from tests.campaigns.runner.fake_clusters import CARRIED, CarryingGrid, GridSite
from tests.campaigns.runner.intake_site import SWEEP, IntakeSite
from tests.campaigns.runner.test_campaign_intake import restored_without

OK, ENDED, SAME = PredecessorCondition
SUCCESS, FAILED = TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.PROGRAM_ERROR
_site = site_fixture(IntakeSite)


def after(*predecessors: int | str, condition: PredecessorCondition = OK, **values: Any) -> dict[str, Any]:
    """Return a campaign file's header that names these predecessors by number or name."""
    named = tuple(
        CampaignPredecessor(**{"name" if isinstance(of, str) else "number": of}, condition=condition)
        for of in predecessors
    )
    return asdict(replace(SWEEP, after=named, **values))


def test_a_name_means_the_owners_newest_campaign_and_is_stored_as_its_number(site: IntakeSite) -> None:
    for _ in range(3):
        site.taken("a")
    site.give_away(3)

    site.accept(after("sweep"), "a")
    site.accept(after("sweep", 1), "a")

    stored = [[of.number for of in campaign.jdl.after] for campaign in site.campaigns.all_campaigns()]
    assert [[], [], [], [2], [4, 1]] == stored


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (after(4), "after 4:ok: no campaign 4"),
        (after(5), "after 5:ok: no campaign 5"),
        (after("own"), "after own:ok: no campaign of yours has this name"),
        (after("own", name="own"), "after own:ok: no campaign of yours has this name"),
        (after("foreign"), "after foreign:ok: no campaign of yours has this name"),
        (after(2), "after 2:ok: campaign 2 is owned by another user"),
        ({**after("a"), "after": [{"number": -(10**30), "name": "a"}]}, f"after {-(10**30)}:ok: no campaign of yours"),
        (after(10**30), f"after {10**30}:ok: no campaign"),
        (after(1, "sweep"), "after sweep:ok: campaign 1 is named twice"),
        (after(1, condition=SAME), "after 1:same: its 2 tasks and these 1 differ; expected equal numbers"),
        (
            after(3),
            "after 3:ok: campaign 3 (cancelled): 0 of 1 task succeeded, and the campaign was cancelled,"
            " so this campaign would never start",
        ),
        (after(*range(1, 200)), "after = ['1:ok', '2:ok'"),
    ],
    ids=[
        "itself",
        "a later one",
        "no such name",
        "its name",
        "a foreign name",
        "foreign",
        "negative",
        "huge",
        "twice",
        "same",
        "cancelled",
        "many",
    ],
)
def test_predecessors_that_can_not_be_awaited_are_refused(site: IntakeSite, header: dict[str, Any], why: str) -> None:
    """A campaign follows only earlier campaigns, so no campaigns wait for each other."""
    site.taken("a", "b")
    site.accept(asdict(replace(SWEEP, name="foreign")), "a")
    site.give_away(2)
    site.accept(asdict(replace(SWEEP, name="cancelled")), "a")
    assert Reply.DONE is site.ask(Verb.CANCEL, 3)

    told = site.answer(site.accept(header, "a"))

    assert told["refused"].startswith(why)
    assert 3 == len(site.campaigns.all_campaigns())


def test_predecessors_of_a_persons_unfinished_campaigns_are_limited(
    site: IntakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise ten thousand campaigns with a hundred predecessors each would make every cycle slow."""
    monkeypatch.setattr(campaign_intake, "MOST_PREDECESSORS", 3)
    for _ in range(2):
        site.taken("a")
    site.accept(after(1, 2), "a")

    refused = site.answer(site.accept(after(1, 2), "a"))
    site.end_campaign(3, 1, CampaignState.TERMINATED)

    why = "after: your unfinished campaigns would name 4 predecessors; expected at most 3"
    assert ({"refused": why}, {"campaign": 4}) == (refused, site.answer(site.accept(after(1, 2), "a")))


def test_few_campaigns_wait_for_the_same_tasks(site: IntakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ended task changes rows of each such campaign: thousands would delay everybody's campaigns."""
    monkeypatch.setattr(campaign_intake, "MOST_DEPENDENTS", 2)
    site.taken("a")
    for _ in range(2):
        site.accept(after(1, condition=SAME), "a")

    refused = site.answer(site.accept(after(1, condition=SAME), "a"))
    site.end_campaign(2, 1, CampaignState.TERMINATED)

    why = "after 1:same: 2 unfinished campaigns wait for its tasks; expected less than 2"
    assert ({"refused": why}, {"campaign": 4}) == (refused, site.answer(site.accept(after(1, condition=SAME), "a")))


def test_a_restored_campaign_waits_for_the_same_campaigns(site: IntakeSite) -> None:
    site.taken("a", "b")
    site.accept(after("sweep", condition=SAME), "a", "b")
    site.accept(asdict(SWEEP), "a", "b")
    site.database.execute(PREDECESSORS.delete())

    restored_without(site, 2).intake.restore_lost_campaigns()

    restored = site.campaigns.find_campaign(2)
    assert (CampaignState.PAUSED, [1]) == (restored.state, [of.number for of in restored.jdl.after])
    assert (WaitingTaskRange(first=0, last=1, awaits=(1,)),) == site.campaigns.list_unsent_tasks(2)


def test_a_campaign_that_another_waits_for_is_not_purged(site: IntakeSite) -> None:
    site.taken("a")
    site.end_campaign(1, 1, CampaignState.TERMINATED)
    site.accept(after(1, condition=ENDED), "a")

    first = site.ask(Verb.PURGE, 1)
    site.end_campaign(2, 1, CampaignState.TERMINATED)

    assert (Reply.NEEDED, Reply.DONE) == (first, site.ask(Verb.PURGE, 1))


def test_no_tasks_are_added_to_a_campaign_that_waits_task_by_task(site: IntakeSite) -> None:
    site.taken("a")
    site.accept(after(1, condition=SAME), "a")

    told = site.answer(site.accept({ADDS_TO: 2}, "b"))

    assert {
        "refused": "campaign 2 must have as many tasks as its predecessor; submit the tasks as a new campaign"
    } == told


class WorkflowSite(GridSite):
    """Campaign 1 with three tasks, all sent to beta, and campaign 2, which waits for campaign 1."""

    def __init__(self, folder: Path, condition: PredecessorCondition = SAME, outputs_to: str = "", **jdl: Any) -> None:
        campaign = made_campaign(tasks=3)
        outputs = {"outputs": ("{}",), "outputs_to": outputs_to} if outputs_to else {}
        super().__init__(folder, replace(campaign, jdl=replace(campaign.jdl, **outputs)), grid=CarryingGrid())
        self.predecessors = PredecessorRows(self.database, self.campaigns)
        self.do(Plan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=3),)))
        self.first = {attempt.task: attempt for attempt in self.attempts()}
        self.end(0)
        self.follow(condition, **jdl)

    def follow(self, condition: PredecessorCondition, remote_clusters: Container[str] = (), **jdl: Any) -> None:
        named = (CampaignPredecessor(number=1, name="sweep", condition=condition),)
        campaign = made_campaign(tasks=3)
        self.predecessors.insert_campaign(
            replace(campaign, number=0, jdl=replace(campaign.jdl, after=named, **jdl)),
            f"token after {len(self.campaigns.all_campaigns())}",
            remote_clusters,
        )

    def end(self, *tasks: int, outcome: TaskAttemptOutcome = SUCCESS, **other: Any) -> None:  # type: ignore[override]
        self.do(Plan(ended=tuple(replace(self.first[task], outcome=outcome) for task in tasks), **other))

    def gather(self) -> CampaignCycleSituation:
        gatherer = CampaignSituationGatherer(
            made_policy(), self.database, Clock(), ledger_arrays=lambda _: (), ran=str(self.folder / "ran")
        )
        return gatherer.gather_situation()

    def sendable(self) -> tuple[int, int]:
        """Return how many tasks of campaign 2 may be sent, and how many wait for campaign 1."""
        situation = self.gather()
        return situation.waiting.get(2, 0), situation.awaiting.get(2, 0)

    def sent(self) -> list[int]:
        """Send all tasks of campaign 2 that may be sent."""
        array = self.campaigns.create_array(2, "beta", 3, NOON)
        return [attempt.task for attempt in self.attempts(array)] if array else []


def test_each_task_is_released_by_the_success_of_the_same_task(tmp_path: Path) -> None:
    """A task that had succeeded before intake is released from the first moment."""
    site = WorkflowSite(tmp_path)
    assert (1, 2) == site.sendable()
    assert [0] == site.sent()

    site.end(1, outcome=FAILED)
    assert ((0, 2), []) == (site.sendable(), site.sent())
    assert 0 == site.predecessors.count_sendable_tasks(site.campaigns.all_campaigns())[2]
    site.end(2)

    assert ((1, 1), [2]) == (site.sendable(), site.sent())


def test_outputs_are_at_home_before_a_task_is_released(tmp_path: Path) -> None:
    site = WorkflowSite(tmp_path, outputs_to="/home/alice/results")
    site.end(1)
    assert (0, 3) == site.sendable()

    site.grid.end_carry()
    site.do(Plan())

    assert ((1, 2), [0]) == (site.sendable(), site.sent())


@pytest.mark.parametrize(
    ("inputs", "remote_clusters", "sendable"),
    [
        (("/d/./x",), {"beta"}, (1, 2)),
        (("/d/./x",), {"gamma"}, (0, 3)),
        ((), {"beta"}, (0, 3)),
    ],
    ids=["carried", "a cluster that sees the files", "no inputs"],
)
def test_only_tasks_whose_inputs_are_carried_are_released_before_outputs_are_at_home(
    tmp_path: Path, inputs: tuple[str, ...], remote_clusters: set[str], sendable: tuple[int, int]
) -> None:
    site = WorkflowSite(tmp_path, outputs_to="/home/alice/results", inputs=inputs)
    site.do = site.executor(remote_clusters=remote_clusters).execute_plan
    site.end(1)
    assert sendable == site.sendable()

    site.follow(SAME, inputs=inputs, remote_clusters=remote_clusters)  # the first output is not at home either
    waiting = site.gather().waiting.get(3, 0)
    assert (2 if sendable[0] else 0) == waiting


@pytest.mark.parametrize(("cluster", "carries"), [("beta", ["carry 1 [1] with outputs of [1] there"]), ("gamma", [])])
def test_a_task_starts_at_the_cluster_of_outputs_that_are_not_at_home(
    tmp_path: Path, cluster: str, carries: list[str]
) -> None:
    """At other clusters the carry of its inputs waits until the outputs have been brought home."""
    site = WorkflowSite(tmp_path, outputs_to="/home/alice/results", inputs=("/d/./x",))
    site.do = site.executor(remote_clusters={"beta", "gamma"}).execute_plan
    site.end(1)
    bringing = site.grid.carries[-1]
    site.do(Plan(sends=(PlannedCampaignTaskSend(campaign=2, cluster=cluster, tasks=1),)))
    assert carries == [told for told in site.grid.told if told.startswith("carry")]

    bringing.result = CompletedProgram((), 0, CARRIED, b"")
    site.do(Plan())
    site.do(Plan(resumed=site.campaigns.query_open_arrays()[-1:]))

    assert [*(carries or ["carry 1 [1]"])] == [told for told in site.grid.told if told.startswith("carry")]


@pytest.mark.parametrize(
    ("condition", "outcomes", "released"),
    [(OK, [SUCCESS, SUCCESS], 3), (OK, [SUCCESS, FAILED], 0), (ENDED, [SUCCESS, FAILED], 3)],
)
def test_a_campaign_is_released_by_the_end_of_the_predecessor(
    tmp_path: Path, condition: PredecessorCondition, outcomes: list[TaskAttemptOutcome], released: int
) -> None:
    site = WorkflowSite(tmp_path, condition)
    for task, outcome in enumerate(outcomes, 1):
        site.end(task, outcome=outcome)
    before = plan_campaign_cycle(site.gather())
    (array,) = (array for array in site.campaigns.query_open_arrays() if array.campaign == 1)
    site.do(Plan(over=(array,), finished=(1,)))

    assert ((), released) == (
        before.sends,
        site.predecessors.count_sendable_tasks(site.campaigns.all_campaigns()).get(2, 0),
    )
    assert released == apply_predecessor_conditions(site.gather()).waiting.get(2, 0)


def test_on_failure_cancels_the_campaign_with_an_event(tmp_path: Path) -> None:
    site = WorkflowSite(tmp_path, OK, on_failure=PredecessorFailureAction.CANCEL)
    site.end(1, 2, outcome=FAILED)
    (array,) = site.campaigns.query_open_arrays()
    site.do(Plan(over=(array,), finished=(1,)))

    site.do(plan_campaign_cycle(site.gather()))

    (event,) = (event for event in site.events.query_open_events() if event.campaign == 2)
    cancelled = site.campaigns.find_campaign(2)
    assert CampaignEventCode.PREDECESSOR_FAILED is event.code
    assert (CampaignState.CANCELLED, False) == (cancelled.state, cancelled.awaits_epilogues_after_cancel)
    assert {} == site.campaigns.count_unsent_tasks()


def test_all_users_see_for_what_a_campaign_waits(tmp_path: Path) -> None:
    site = WorkflowSite(tmp_path, OK)
    forecasts = CampaignCompletionForecasts(site.campaigns, site.statistics, Clock(), 15.0)
    CampaignPublisher(site.database, site.campaigns, forecasts, Clock(), str(tmp_path)).publish_campaigns(())

    published = published_campaign_files.read_published_campaign_value(PublishedCampaignList, str(tmp_path))

    assert [[], ["waits for campaign 1 (sweep): 1 of 3 tasks succeeded"]] == [
        [describe_unmet_predecessor(of) for of in shown.unmet] for shown in published.campaigns
    ]
