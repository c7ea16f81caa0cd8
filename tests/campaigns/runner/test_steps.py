"""A prologue or an epilogue is an array of one task that does not count as a task of the campaign."""

from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.campaigns.runner.array_commands_as_owner import PermanentArrayRefusal, RootCampaignRefusal
from gridbridge.campaigns.runner.cycle_results_and_forecasts import CycleStatisticsRecorder
from gridbridge.campaigns.runner.plan_execution_and_root_ledger import CampaignPlanExecutor
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import CampaignTaskRows
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.errors import ArrayTasksAlreadyInLedger, GridbridgeError
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionResult,
    ArraySubmissionState,
    CampaignArray,
    CampaignState,
    RootLedgerArray,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    CampaignPrologueOrEpilogueStart,
    PlannedCampaignTaskSend,
)
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_index_and_attempt_texts import (
    EPILOGUE,
    PROLOGUE,
    format_attempt_ranges,
    parse_attempt_ranges,
)
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import made_campaign, site_fixture

WISH = JdlSettingsAtCluster(exec_file="run", prologue="make", epilogue="clean")
BETA_PROLOGUE, GAMMA_PROLOGUE, GAMMA_EPILOGUE = 990_000_000, 990_000_002, 990_000_003


class Site:
    """A state file with one campaign, and fake clusters that accept or refuse arrays."""

    def __init__(self, folder: Path) -> None:
        self.database = StateFile.open(f"sqlite:///{folder}/state.db")
        self.campaigns = CampaignRows(self.database)
        self.tries = TaskAttemptRows(self.database, self.campaigns)
        jdl = Jdl(name="n", clusters={"gamma": WISH, "beta": WISH})
        self.one = made_campaign(number=1, tasks=3, jdl=jdl)
        self.campaigns.insert_campaign(self.one, "token")
        self.told: list[str] = []
        self.trouble: GridbridgeError | None = None
        self.job_id = 0  # of what a cluster took though its answer was lost
        self.ledger: tuple[RootLedgerArray, ...] = ()
        learnt = CycleStatisticsRecorder(self.database)
        self.actions = CampaignPlanExecutor(self.database, learnt, Clock(), CampaignFailuresSection(), self)

    def submit_arrays(
        self, arrays: tuple[tuple[CampaignArray, tuple[TaskAttempt, ...]], ...]
    ) -> tuple[ArraySubmissionResult, ...]:
        """Accept arrays."""
        for array, attempts in arrays:
            tasks = format_attempt_ranges(tuple((one.task, one.attempt) for one in attempts))
            self.told.append(f"{array.cluster} {tasks}")
        return tuple(ArraySubmissionResult(job_id=0 if self.trouble else 71, error=self.trouble) for _ in arrays)

    def release_array(self, array: CampaignArray) -> None:
        """Start an array's tasks."""

    def delete_array(self, array: CampaignArray) -> int:
        """Return the job id of the deleted array."""
        return self.job_id or array.job_id

    def delete_array_tasks(self, array: CampaignArray, places: tuple[range, ...]) -> None:
        """Delete tasks of an array."""

    def close_campaign_in_root_ledger(self, campaign: int) -> None:
        """Accept no more tasks of a campaign."""

    def list_root_ledger_arrays(self, campaign: int) -> tuple[RootLedgerArray, ...]:
        """Return the arrays in root's ledger."""
        return self.ledger

    def begin(self, step: str, cluster: str = "gamma", attempt: int = 1) -> None:
        """Submit a prologue or an epilogue."""
        one = CampaignPrologueOrEpilogueStart(campaign=1, cluster=cluster, step=step, attempt=attempt)
        self.actions.execute_plan(CampaignCyclePlan(steps=(one,)))

    def known(self) -> list[tuple[str, str, int, TaskAttemptOutcome]]:
        """Return step, cluster, attempt and outcome of each stored prologue or epilogue."""
        return [
            (one.step, one.cluster, one.attempt, one.outcome)
            for one in self.tries.last_prologues_and_epilogues([self.one])
        ]


_site = site_fixture(Site)


def test_each_prologue_and_epilogue_has_its_own_task_number(site: Site) -> None:
    site.begin(PROLOGUE, "gamma")
    site.begin(PROLOGUE, "beta")
    site.begin(EPILOGUE, "gamma", 2)

    assert site.told == [f"gamma {GAMMA_PROLOGUE}:1", f"beta {BETA_PROLOGUE}:1", f"gamma {GAMMA_EPILOGUE}:2"]
    assert site.known() == [
        (PROLOGUE, "beta", 1, TaskAttemptOutcome.PENDING),
        (PROLOGUE, "gamma", 1, TaskAttemptOutcome.PENDING),
        (EPILOGUE, "gamma", 2, TaskAttemptOutcome.PENDING),
    ]


def test_a_prologue_does_not_count_as_a_task(site: Site) -> None:
    site.begin(PROLOGUE)
    (array,) = site.campaigns.open_arrays()
    (one,) = site.campaigns.unfinished_attempts(array)
    ended = replace(one, outcome=TaskAttemptOutcome.SUCCESS, wallclock_s=7)
    site.actions.execute_plan(CampaignCyclePlan(stepped=(ended,), over=(array,)))

    found = site.campaigns.find_campaign(1)
    assert (found.ended, found.failed, site.campaigns.count_unsent_tasks()) == (0, 0, {1: 3})
    assert CampaignTaskRows(site.database).last_submitted_task(1) == -1
    assert site.campaigns.run_times_by_cluster(1) == {}
    last = site.tries.last_arrays_by_cluster(1, ("beta", "gamma"))
    assert (site.tries.clusters_of_campaign(1), last) == (frozenset(), {"gamma": 1})
    assert site.known() == [(PROLOGUE, "gamma", 1, TaskAttemptOutcome.SUCCESS)]


@pytest.mark.parametrize("trouble", [PermanentArrayRefusal("no"), RootCampaignRefusal("no")])
def test_a_refused_prologue_fails_no_task_unless_root_refuses_the_campaign(
    site: Site, trouble: GridbridgeError
) -> None:
    site.trouble = trouble
    site.begin(PROLOGUE)

    found = site.campaigns.find_campaign(1)
    failed = 3 if isinstance(trouble, RootCampaignRefusal) else 0
    assert (found.ended, found.failed) == (failed, failed)
    assert site.known() == [(PROLOGUE, "gamma", 1, TaskAttemptOutcome.SETUP_ERROR)]
    assert site.campaigns.open_arrays() == ()


def test_a_cancelled_campaign_is_unfinished_until_its_epilogues_ended(site: Site) -> None:
    site.campaigns.set_campaign_state(1, CampaignState.CANCELLED)
    (before,) = site.campaigns.unfinished_campaigns()
    site.actions.execute_plan(CampaignCyclePlan(wound_up=(1,)))

    found = site.campaigns.find_campaign(1)
    assert (before.is_winding_up, found.is_winding_up, found.state) == (True, False, CampaignState.CANCELLED)
    assert site.campaigns.unfinished_campaigns() == ()


def test_a_prologue_in_roots_ledger_is_imported_as_a_prologue(site: Site) -> None:
    site.trouble = ArrayTasksAlreadyInLedger("another one")
    tasks = parse_attempt_ranges(f"{GAMMA_PROLOGUE}:1")
    site.ledger = (RootLedgerArray(number=1, cluster="gamma", tasks=tasks, job_id=70),)
    send = PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=1)
    site.actions.execute_plan(CampaignCyclePlan(sends=(send,)))
    site.ledger += (RootLedgerArray(number=2, cluster="beta", tasks=parse_attempt_ranges("0:1"), job_id=71),)
    site.begin(PROLOGUE, "beta")

    assert (PROLOGUE, "gamma", 1, TaskAttemptOutcome.PENDING) in site.known()
    assert all(one.last < 3 for one in site.campaigns.list_unsent_tasks(1))
    states = {one.number: one.state for one in site.campaigns.arrays_of_campaign(1)}
    assert states[1] is ArraySubmissionState.SUBMITTED


def test_an_array_with_other_tasks_in_the_ledger_gets_no_job_id(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ArraySubmissionResult(job_id=71, error=ArrayTasksAlreadyInLedger("array 1 has other tasks"))
    monkeypatch.setattr(site, "submit_arrays", lambda arrays: (told,) * len(arrays))

    def ledger_arrays(_: int) -> None:
        raise GridbridgeError("it can't be read now")

    monkeypatch.setattr(site, "list_root_ledger_arrays", ledger_arrays)
    site.actions.execute_plan(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=1),)))

    (array,) = site.campaigns.open_arrays()
    assert (array.state, array.job_id) == (ArraySubmissionState.INTENDED, 0)


@pytest.mark.parametrize(("job_id", "is_over"), [(0, True), (71, False)])
def test_an_abandoned_prologue_is_deleted_before_it_counts_as_ended(site: Site, job_id: int, is_over: bool) -> None:
    site.trouble = GridbridgeError("no answer")
    site.begin(PROLOGUE)
    (array,) = site.campaigns.open_arrays()
    site.job_id = job_id
    site.actions.execute_plan(CampaignCyclePlan(unsent=(array,)))

    outcome = TaskAttemptOutcome.MOVED if is_over else TaskAttemptOutcome.PENDING
    assert site.known() == [(PROLOGUE, "gamma", 1, outcome)]
    (found,) = site.campaigns.arrays_of_campaign(1)
    state = ArraySubmissionState.OVER if is_over else ArraySubmissionState.RELEASED
    assert (found.state, found.job_id) == (state, job_id)
