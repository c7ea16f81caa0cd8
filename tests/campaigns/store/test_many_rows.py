"""Changes of many tasks take few statements, and reads do not grow with a campaign, alike on every machine.

Counted are the steps of SQLite's virtual machine: each row that it looks at takes some.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, CursorResult, Executable

from gridbridge.campaigns.runner.campaign_situation_gatherer import CampaignSituationGatherer
from gridbridge.campaigns.store.campaign_and_attempt_tables import WAITING_COUNTS, CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignStatisticsRows
from gridbridge.campaigns.store.campaign_task_rows import (
    TaskDeletionMarkRows,
    TaskMissingAtClusterRows,
    UnbroughtOutputRows,
)
from gridbridge.campaigns.store.predecessor_rows import PredecessorRows
from gridbridge.campaigns.store.task_attempt_rows import SpeculativeAttemptRows
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    CampaignArray,
    TaskAttempt,
    TaskAttemptOutcome,
    WaitingTaskRange,
)
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignRunnerSection, JobRatioRule
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignPrologueOrEpilogueStart,
    TaskCountByExclusions,
    TasksPerFreeSlotInputs,
    TasksPerFreeSlotUpdate,
)
from gridbridge.model.campaigns.campaign_predecessors import CampaignPredecessor, PredecessorCondition
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.speculative_attempts import SpeculativeAttemptsAtCluster
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    ArrayTaskDeletion,
    NikitaDeletionReason,
    TaskMissingSince,
)
from gridbridge.model.campaigns.task_deletions_and_preemptions import NikitaDeletionReason as Reason
from gridbridge.model.campaigns.task_index_and_attempt_texts import EPILOGUE
from gridbridge.model.campaigns.task_resource_usage import TaskUsageAtCluster
from gridbridge.model.config_key_descriptions import ConfigKeyDescription
from gridbridge.shell.clock import Clock
from gridbridge.state.campaign_tables import live_campaign_jobs_at
from gridbridge.state.state_file import PORTION, StateFile
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import NOON, made_campaign, made_policy, site_fixture

SIZE = 50  # tasks of an array
FEW, MANY = 500, 5000
MOST_TIMES = 1.2  # limit, relative to the steps with a tenth of the tasks
DEEPER = 10  # steps for one more level of an index
BOTH = {name: JdlSettingsAtCluster(exec_file="run", epilogue="true") for name in ("beta", "gamma")}


class LargeSite(CampaignSite):
    """A campaign with an array of each kind that a cycle meets, and many further tasks."""

    def __init__(self, folder: Path) -> None:
        jdl = Jdl(name="sweep", clusters=BOTH, is_idempotent=True)
        super().__init__(folder, made_campaign(tasks=100 * MANY, jdl=jdl))
        self.copies = SpeculativeAttemptRows(self.database, self.campaigns)
        self.predecessors = PredecessorRows(self.database, self.campaigns)
        self.missing = TaskMissingAtClusterRows(self.database)
        self.outputs = UnbroughtOutputRows(self.database)
        self.updator = CampaignSituationGatherer(made_policy(), self.database, Clock(), ran=f"{folder}/ran")

    def send_arrays(self, tasks: int) -> list[CampaignArray]:
        return [self.send(SIZE, job_id) for job_id in range(1, tasks // SIZE + 1)]

    def end_arrays(self, arrays: Iterable[CampaignArray]) -> None:
        for array in arrays:
            attempts = self.attempts(array)
            self.end(attempts, TaskAttemptOutcome.SUCCESS, exit_status=0, wallclock_s=60)
            self.outputs.add_outputs_of_attempts(attempts)
            self.statistics.store_task_usages([TaskUsageAtCluster(campaign=1, cluster="beta", ended=SIZE)])
            self.campaigns.set_array_state(array, ArraySubmissionState.OVER)

    def settle(self) -> None:
        after = (CampaignPredecessor(number=1, name="sweep", condition=PredecessorCondition.ENDED),)
        report = made_campaign(tasks=1, jdl=Jdl(name="report", clusters=BOTH, after=after))
        self.predecessors.insert_campaign(report, "token of the report")
        self.running = self.send(SIZE, 1)
        self.pending = self.attempts(self.running)
        tasks = tuple(attempt.task for attempt in self.pending[:3])
        copies = SpeculativeAttemptsAtCluster(campaign=1, cluster="gamma", tasks=tasks, beyond_s=60)
        assert self.copies.create_speculative_array(copies, NOON)
        assert self.tries.create_prologue_or_epilogue(
            CampaignPrologueOrEpilogueStart(campaign=1, cluster="gamma", step=EPILOGUE, attempt=1), NOON
        )
        self.missing.store_missing_tasks([TaskMissingSince(campaign=1, array=self.running.number, place=5, since=NOON)])
        self.marks.mark_tasks_for_deletion(
            ArrayTaskDeletion(
                campaign=1, array=self.running.number, cluster="beta", wiped_for=Reason.OVERFLOW, places=(range(7, 9),)
            )
        )

    def again(self) -> tuple[TaskAttempt, ...]:
        return tuple(replace(one, attempt=2) for one in self.pending[:3])

    def steps(self, act: Callable[["LargeSite"], object]) -> int:
        """Run a query twice; return the number of SQLite steps of the second run."""
        act(self)
        count = 0

        def step() -> int:
            nonlocal count
            count += 1
            return 0

        raw = self.database._engine.raw_connection()
        raw.driver_connection.set_progress_handler(step, 1)  # type: ignore[union-attr]
        raw.close()
        act(self)
        return count


READ: dict[str, Callable[[LargeSite], object]] = {
    "unfinished campaigns": lambda site: site.campaigns.unfinished_campaigns(),
    "whether one is": lambda site: site.campaigns.is_campaign_unfinished(1),
    "how many tasks wait": lambda site: site.campaigns.count_unsent_tasks(),
    "progress of predecessors": lambda site: site.predecessors.read_progress_of_predecessors(),
    "what keeps off clusters": lambda site: site.campaigns.count_tasks_by_exclusions(),
    "how long tasks took": lambda site: site.campaigns.run_times_by_cluster(1),
    "pending attempts of an array": lambda site: site.campaigns.unfinished_attempts(site.running),
    "their places": lambda site: site.tries.unfinished_indices(site.running),
    "some of them": lambda site: site.tries.unfinished_attempts_at(site.running, {1, 2, 3}),
    "earlier attempts": lambda site: site.tries.earlier_outcomes(site.again()),
    "where a test was tried": lambda site: site.tries.query_clusters_with_task_attempts(1),
    "the last arrays": lambda site: site.tries.last_arrays_by_cluster(1, BOTH),
    "prologues and epilogues": lambda site: site.tries.last_prologues_and_epilogues(
        site.campaigns.unfinished_campaigns()
    ),
    "copies": lambda site: site.copies.competing_attempts([1]),
    "marks": lambda site: site.marks.deletion_marks(),
    "marks of ended tasks": lambda site: site.marks.remove_marks_of_ended_attempts(),
    "missing tasks": lambda site: site.missing.missing_tasks(),
    "missing tasks that ended": lambda site: site.missing.store_missing_tasks([]),
    "usage of tasks": lambda site: site.statistics.read_task_usages([1]),
    "usage of tasks to publish": lambda site: site.statistics.task_usages_by_campaign(),
    "ends of the last hour": lambda site: site.statistics.count_tasks_ended_since(1, NOON),
    "outputs to bring": lambda site: site.outputs.campaigns_and_clusters_with_outputs(),
    "outputs at another cluster": lambda site: site.outputs.unbrought_outputs(1, "gamma"),
    "a page of tasks": lambda site: site.tasks.submitted_tasks(1, 20, 39),
    "campaigns with tasks": lambda site: site.tasks.campaigns_with_submitted_tasks(),
}
OF_OPEN_ARRAYS: dict[str, Callable[[LargeSite], object]] = {
    "all that a cycle looks at": lambda site: site.updator.gather_situation(),
    "open arrays": lambda site: site.campaigns.query_open_arrays(),
    "arrays at a cluster": lambda site: live_campaign_jobs_at(site.database, "beta"),
}
CHANGED: dict[str, Callable[[LargeSite], object]] = {
    "an array is intended": lambda site: site.send(SIZE),
    "its tasks end": lambda site: site.end_arrays(site.send_arrays(SIZE)),
    "tasks wait again": lambda site: site.campaigns.add_unsent_tasks(1),
    "tasks of dependent campaigns are released": lambda site: site.predecessors.release_dependent_tasks(1, [9, 11, 12]),
}


def ended(site: LargeSite, tasks: int) -> None:
    site.end_arrays(site.send_arrays(tasks))


def running(site: LargeSite, tasks: int) -> None:
    site.end_arrays(site.send_arrays(20 * SIZE))
    site.send_arrays(tasks)


def waiting(site: LargeSite, tasks: int) -> None:
    site.campaigns.add_unsent_tasks(1, WaitingTaskRange(first=200 * MANY, last=200 * MANY + tasks))


def awaiting(site: LargeSite, tasks: int) -> None:
    """Let a campaign wait task by task, of which each second task is released."""
    after = (CampaignPredecessor(number=1, name="sweep", condition=PredecessorCondition.SAME),)
    campaign = made_campaign(tasks=tasks, jdl=Jdl(name="sum", clusters=BOTH, after=after))
    site.predecessors.insert_campaign(replace(campaign, number=2), "token of 2")
    site.predecessors.release_dependent_tasks(1, range(20, tasks, 2))


Sites = tuple[LargeSite, LargeSite]


@pytest.fixture(scope="module", name="sites", params=[ended, running, waiting])
def _sites(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """Create two sites: one with few, one with many tasks beside the measured tasks."""
    few, many = (LargeSite(tmp_path_factory.mktemp("site")) for _ in range(2))
    for site, tasks in ((few, FEW), (many, MANY)):
        with site.database.transaction():
            request.param(site, tasks)
            site.settle()
    yield few, many
    for site in (few, many):
        site.database.close()


@pytest.mark.parametrize("read", [*READ, *CHANGED])
def test_a_query_takes_no_more_steps_with_ten_times_the_tasks(sites: Sites, read: str) -> None:
    few, many = (site.steps({**READ, **CHANGED}[read]) for site in sites)

    assert many <= MOST_TIMES * few + DEEPER


@pytest.mark.parametrize("sites", [awaiting], indirect=True)
def test_a_release_reads_no_other_tasks_of_the_dependent_campaign(sites: Sites) -> None:
    few, many = (site.steps(CHANGED["tasks of dependent campaigns are released"]) for site in sites)

    assert 0 < few
    assert many <= MOST_TIMES * few + DEEPER


@pytest.mark.parametrize("sites", [ended, waiting], indirect=True)
@pytest.mark.parametrize("read", OF_OPEN_ARRAYS)
def test_queries_of_open_arrays_do_not_read_ended_arrays(sites: Sites, read: str) -> None:
    few, many = (site.steps(OF_OPEN_ARRAYS[read]) for site in sites)

    assert many <= MOST_TIMES * few + DEEPER


TASKS = 2 * PORTION + 1
ARRAY: ConfigKeyDescription = CampaignRunnerSection.__dataclass_fields__["max_tasks"].metadata["setting"]
SUCCESS = TaskAttemptOutcome.SUCCESS
IN_PORTIONS = 3  # statements, each in a separate transaction
TERMS = TasksPerFreeSlotInputs(old=1.0, slots=1.0, max_slots=9, free=9, submitted=1, running=1, waiting=0, allowed=1)


class CountingStateFile(StateFile):
    """A state file that records queries, and counts changes, and the changes that share a transaction."""

    queries: tuple[Executable, ...] = ()
    changes = 0
    joined = 0  # most further changes in one transaction

    def execute(self, change: Executable, values: Any = None) -> CursorResult[Any]:
        self.changes += 1
        return super().execute(change, values)

    def rows(self, query: Executable, **values: Any) -> Any:
        self.queries = (*self.queries, query)
        return super().rows(query, **values)

    @contextmanager
    def _begin_transaction(self) -> Iterator[Connection]:
        before = self.changes
        with super()._begin_transaction() as connection:
            yield connection
        self.joined = max(self.joined, self.changes - before)


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Iterator[CountingStateFile]:
    database = CountingStateFile.open(f"sqlite:///{tmp_path}/state.db")
    assert isinstance(database, CountingStateFile)
    campaigns = CampaignRows(database)
    campaigns.insert_campaign(made_campaign(uid=41000, tasks=TASKS), "token")
    campaigns.create_array(1, "beta", TASKS, NOON)
    database.changes = database.joined = 0
    yield database
    database.close()


def end_all_tasks(database: StateFile, but: int) -> None:
    """End all tasks except the first `but` tasks."""
    campaigns = CampaignRows(database)
    (array,) = campaigns.query_open_arrays()
    campaigns.record_attempt_ends(
        TaskAttempt(campaign=1, task=one.task, attempt=1, array=1, place=one.place, outcome=SUCCESS)
        for one in campaigns.unfinished_attempts(array)[but:]
    )


def test_missing_tasks_are_stored_and_deleted_in_portions(database: CountingStateFile) -> None:
    kept = TaskMissingAtClusterRows(database)

    def missed(since: datetime | None, places: range) -> list[TaskMissingSince]:
        return [TaskMissingSince(campaign=1, array=1, place=place, since=since) for place in places]

    kept.store_missing_tasks(missed(NOON, range(1, TASKS + 1)))
    assert (len(kept.missing_tasks()), database.changes, database.joined) == (TASKS, IN_PORTIONS, 0)

    kept.store_missing_tasks(missed(None, range(2, TASKS + 1)))
    assert kept.missing_tasks() == {(1, 1, 1): NOON}
    assert database.changes == 2 * IN_PORTIONS - 1

    kept.store_missing_tasks(missed(NOON, range(1, TASKS + 1)))
    end_all_tasks(database, but=1)
    database.changes = 0
    kept.store_missing_tasks([])
    assert kept.missing_tasks() == {(1, 1, 1): NOON}
    assert (database.changes, database.joined) == (IN_PORTIONS - 1, 0)


def test_deletion_marks_are_stored_and_removed_in_portions(database: CountingStateFile) -> None:
    marks = TaskDeletionMarkRows(database)
    whole = {"campaign": 1, "array": 1, "cluster": "beta", "wiped_for": NikitaDeletionReason.OVERFLOW}
    wipe = ArrayTaskDeletion(places=(range(1, 3), range(3, TASKS + 1)), **whole)  # type: ignore[arg-type]

    marks.mark_tasks_for_deletion(wipe)
    assert len(marks.deletion_marks()[1, 1]) == TASKS
    assert (database.changes, database.joined) == (IN_PORTIONS, 0)

    end_all_tasks(database, but=PORTION + 1)
    database.changes = 0
    marks.remove_marks_of_ended_attempts()
    assert len(marks.deletion_marks()[1, 1]) == PORTION + 1
    assert (database.changes, database.joined) == (1, 0)

    marks.remove_deletion_marks(wipe)
    assert marks.deletion_marks() == {}
    assert (database.changes, database.joined) == (1 + IN_PORTIONS, 0)


def test_job_ratios_are_stored_in_portions(database: CountingStateFile) -> None:
    predicted = [
        TasksPerFreeSlotUpdate(
            campaign=n, cluster="beta", law=JobRatioRule.MEASURED, terms=TERMS, ratio=1.0, submitted=1
        )
        for n in range(TASKS)
    ]

    CampaignStatisticsRows(database).store_job_ratios(predicted)

    assert len(CampaignStatisticsRows(database).read_job_ratios([0, 1, TASKS - 1])) == IN_PORTIONS
    assert (database.changes, database.joined) == (IN_PORTIONS, 0)


def test_an_array_asks_once_whether_its_tasks_prefer_clusters(database: CountingStateFile) -> None:
    """Each kind of tasks then takes four queries: for tasks, their files, where these were sent, and predecessors."""
    campaigns = CampaignRows(database)
    after = (CampaignPredecessor(number=1, name="sweep", condition=PredecessorCondition.SAME),)
    report = made_campaign(tasks=TASKS, jdl=Jdl(name="report", clusters=BOTH, after=after))
    PredecessorRows(database, campaigns).insert_campaign(report, "token of the report")
    campaigns.remove_all_unsent_tasks(2)
    kinds = [TaskCountByExclusions(tasks=1, avoid=(name,)) for name in ("x", "y", "z")]
    for first, kind in enumerate(kinds):
        for begin in (0, 10):
            campaigns.add_unsent_tasks(2, WaitingTaskRange(first=begin + first, last=begin + first, avoid=kind.avoid))
    queries = []
    for some in (kinds[:1], kinds):
        database.queries = ()
        assert campaigns.create_array(2, "beta", len(some), NOON, some, unshared_first=0)
        queries.append(len(database.queries))

    assert queries[1] - queries[0] == 4 * (len(kinds) - 1)


def test_a_cycle_counts_the_unsent_tasks_once(database: CountingStateFile, tmp_path: Path) -> None:
    campaigns = CampaignRows(database)
    gatherer = CampaignSituationGatherer(made_policy(), database, Clock(), ran=f"{tmp_path}/ran")
    campaigns.add_unsent_tasks(1, WaitingTaskRange(first=0, last=1), WaitingTaskRange(first=2, last=8, awaits=(9,)))
    database.queries = ()

    situation = gatherer.gather_situation()
    assert ({1: 2}, {1: 7}) == (situation.waiting, situation.awaiting)
    assert 1 == sum(query is WAITING_COUNTS for query in database.queries)


def test_the_largest_array_fits_into_one_transaction() -> None:
    assert ARRAY.high <= PORTION


SWEEP = made_campaign(
    tasks=10,
    digest="abc",
    jdl=Jdl(name="sweep é'", type=CampaignType.TEST, clusters={"beta": JdlSettingsAtCluster(exec_file="run")}),
)

_site = site_fixture(CampaignSite, "sqlite")


def test_a_stored_campaign_is_read_back_unchanged(site: CampaignSite) -> None:
    stored = replace(SWEEP, number=site.campaigns.insert_campaign(SWEEP, "token"))

    assert site.campaign == stored
    assert site.campaigns.find_campaign_by_file_token("token") == stored
    assert site.campaigns.unfinished_campaigns() == (stored,)
    assert site.campaigns.find_campaign_by_file_token("other") is None


@pytest.mark.parametrize(("script_bytes", "is_cached"), [(1000, True), (30_000, False)])
def test_a_jdl_of_usual_size_is_parsed_once(site: CampaignSite, script_bytes: int, is_cached: bool) -> None:
    cluster = JdlSettingsAtCluster(exec_file="run", prologue="#" * script_bytes)
    site.insert(replace(SWEEP, jdl=replace(SWEEP.jdl, clusters={"beta": cluster})))

    assert is_cached is (site.campaign.jdl is site.campaign.jdl)
    assert site.campaign.jdl.clusters == {"beta": cluster}


def test_unsent_tasks_are_taken_once_and_in_order(site: CampaignSite) -> None:
    site.insert(SWEEP)

    first, second = (site.attempts(site.send(tasks)) for tasks in (3, 99))

    assert [(attempt.task, attempt.attempt, attempt.place) for attempt in first] == [(0, 1, 1), (1, 1, 2), (2, 1, 3)]
    assert [attempt.task for attempt in second] == [3, 4, 5, 6, 7, 8, 9]
    assert site.campaigns.count_unsent_tasks() == {}
    assert site.campaigns.create_array(1, "beta", 1, NOON) is None
