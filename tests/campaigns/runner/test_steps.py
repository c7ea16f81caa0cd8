"""A prologue or an epilogue is an array of one task that does not count as a task of the campaign."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.campaigns.runner.array_commands_as_owner import PermanentArrayRefusal, RootCampaignRefusal
from gridbridge.errors import ArrayTasksAlreadyInLedger, GridbridgeError
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionResult,
    ArraySubmissionState,
    CampaignState,
    RootLedgerArray,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    CampaignPrologueOrEpilogueStart,
    PlannedCampaignTaskSend,
)
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_index_and_attempt_texts import EPILOGUE, PROLOGUE, parse_attempt_ranges
from tests.builders.campaigns import POSTGRESQL, made_campaign, site_fixture
from tests.campaigns.runner.fake_clusters import GridSite

WISH = JdlSettingsAtCluster(exec_file="run", prologue="make", epilogue="clean")
BETA_PROLOGUE, GAMMA_PROLOGUE, GAMMA_EPILOGUE = 990_000_000, 990_000_002, 990_000_003


class StepSite(GridSite):
    def __init__(self, folder: Path) -> None:
        clusters = {"gamma": WISH, "beta": WISH}
        super().__init__(folder, made_campaign(tasks=3, jdl=Jdl(name="n", clusters=clusters)))

    def begin(self, step: str, cluster: str = "gamma", attempt: int = 1) -> None:
        start = CampaignPrologueOrEpilogueStart(campaign=1, cluster=cluster, step=step, attempt=attempt)
        self.do(CampaignCyclePlan(steps=(start,)))

    def steps(self) -> list[tuple[str, str, int, TaskAttemptOutcome]]:
        steps = self.tries.last_prologues_and_epilogues([self.campaign])
        return [(step.step, step.cluster, step.attempt, step.outcome) for step in steps]


_site = site_fixture(StepSite, "sqlite", POSTGRESQL)


def test_each_prologue_and_epilogue_has_its_own_task_number(site: StepSite) -> None:
    site.begin(PROLOGUE, "gamma")
    site.begin(PROLOGUE, "beta")
    site.begin(EPILOGUE, "gamma", 2)

    assert site.grid.submissions() == [
        f"submit 1 gamma {GAMMA_PROLOGUE}:1",
        f"submit 2 beta {BETA_PROLOGUE}:1",
        f"submit 3 gamma {GAMMA_EPILOGUE}:2",
    ]
    assert site.steps() == [
        (PROLOGUE, "beta", 1, TaskAttemptOutcome.PENDING),
        (PROLOGUE, "gamma", 1, TaskAttemptOutcome.PENDING),
        (EPILOGUE, "gamma", 2, TaskAttemptOutcome.PENDING),
    ]


def test_a_prologue_does_not_count_as_a_task(site: StepSite) -> None:
    site.begin(PROLOGUE)
    (attempt,) = site.attempts()
    ended = replace(attempt, outcome=TaskAttemptOutcome.SUCCESS, wallclock_s=7)
    site.do(CampaignCyclePlan(stepped=(ended,), over=(site.array,)))

    assert (site.campaign.ended, site.campaign.failed, site.campaigns.count_unsent_tasks()) == (0, 0, {1: 3})
    assert site.tasks.last_submitted_task(1) == -1
    assert site.campaigns.run_times_by_cluster(1) == {}
    last = site.tries.last_arrays_by_cluster(1, ("beta", "gamma"))
    assert (site.tries.query_clusters_with_task_attempts(1), last) == (frozenset(), {"gamma": 1})
    assert site.steps() == [(PROLOGUE, "gamma", 1, TaskAttemptOutcome.SUCCESS)]


@pytest.mark.parametrize("trouble", [PermanentArrayRefusal("no"), RootCampaignRefusal("no")])
def test_a_refused_prologue_fails_no_task_unless_root_refuses_the_campaign(
    site: StepSite, trouble: GridbridgeError
) -> None:
    site.grid.failing["submit"] = trouble
    site.begin(PROLOGUE)

    failed = 3 if isinstance(trouble, RootCampaignRefusal) else 0
    assert (site.campaign.ended, site.campaign.failed) == (failed, failed)
    assert site.steps() == [(PROLOGUE, "gamma", 1, TaskAttemptOutcome.SETUP_ERROR)]
    assert site.campaigns.query_open_arrays() == ()


def test_a_cancelled_campaign_is_unfinished_until_its_epilogues_ended(site: StepSite) -> None:
    site.campaigns.set_campaign_state(1, CampaignState.CANCELLED)
    (before,) = site.campaigns.unfinished_campaigns()
    site.do(CampaignCyclePlan(wound_up=(1,)))

    assert (before.awaits_epilogues_after_cancel, site.campaign.awaits_epilogues_after_cancel) == (True, False)
    assert site.campaigns.unfinished_campaigns() == ()


def test_a_prologue_in_roots_ledger_is_imported_as_a_prologue(site: StepSite) -> None:
    site.grid.failing["submit"] = ArrayTasksAlreadyInLedger("another one")
    tasks = parse_attempt_ranges(f"{GAMMA_PROLOGUE}:1")
    site.grid.ledger = (RootLedgerArray(number=1, cluster="gamma", tasks=tasks, job_id=70),)
    send = PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=1)
    site.do(CampaignCyclePlan(sends=(send,)))
    site.grid.ledger += (RootLedgerArray(number=2, cluster="beta", tasks=parse_attempt_ranges("0:1"), job_id=71),)
    site.begin(PROLOGUE, "beta")

    assert (PROLOGUE, "gamma", 1, TaskAttemptOutcome.PENDING) in site.steps()
    assert all(one.last < 3 for one in site.campaigns.list_unsent_tasks(1))
    states = {one.number: one.state for one in site.campaigns.arrays_of_campaign(1)}
    assert states[1] is ArraySubmissionState.SUBMITTED


def test_an_array_with_other_tasks_in_the_ledger_has_no_job_id(site: StepSite, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ArraySubmissionResult(job_id=71, error=ArrayTasksAlreadyInLedger("array 1 is recorded with other tasks"))
    monkeypatch.setattr(site.grid, "submit_arrays", lambda arrays: (result,) * len(arrays))
    monkeypatch.setattr(site.grid, "list_root_ledger_arrays", Mock(side_effect=GridbridgeError("it can't be read now")))
    site.do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=1),)))

    assert (site.array.state, site.array.job_id) == (ArraySubmissionState.INTENDED, 0)


@pytest.mark.parametrize(("job_id", "is_over"), [(0, True), (71, False)])
def test_an_abandoned_prologue_is_deleted_before_it_counts_as_ended(site: StepSite, job_id: int, is_over: bool) -> None:
    site.grid.failing["submit"] = GridbridgeError("no answer")
    site.begin(PROLOGUE)
    site.grid.ledger = (RootLedgerArray(number=1, cluster="gamma", tasks=(), job_id=job_id),)
    site.do(CampaignCyclePlan(unsent=(site.array,)))

    outcome = TaskAttemptOutcome.MOVED if is_over else TaskAttemptOutcome.PENDING
    assert site.steps() == [(PROLOGUE, "gamma", 1, outcome)]
    (found,) = site.campaigns.arrays_of_campaign(1)
    state = ArraySubmissionState.OVER if is_over else ArraySubmissionState.RELEASED
    assert (found.state, found.job_id) == (state, job_id)
