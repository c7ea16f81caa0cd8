"""The runner finds ended tasks of arrays, and reads only attempts that the job list lacks."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.campaigns.runner.campaign_situation_gatherer import ARRAYS_AT_ONCE, CampaignSituationGatherer
from gridbridge.campaigns.runner.plan_execution_and_root_ledger import RootLedgerStateComparison
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import new_campaign_event
from gridbridge.decisions.campaigns.task_attempt_outcomes import MissingAttemptOutcomeDecider, ReportedEnds
from gridbridge.errors import CampaignFileUnreadable, GridbridgeError, RootLedgerUnreadable
from gridbridge.model.campaigns.campaign import CampaignArray, CampaignState, RootLedgerArray, WaitingTaskRange
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome as Outcome
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection, LateSpeculationSection
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignPrologueOrEpilogueStart,
    JobRatio,
    TaskCountByExclusions,
)
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventSubject, CampaignSuccessAtCluster
from gridbridge.model.campaigns.campaign_events import CampaignEventCode as Code
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_deletions_and_preemptions import ArrayTaskDeletion, NikitaDeletionReason
from gridbridge.model.campaigns.task_index_and_attempt_texts import EPILOGUE
from gridbridge.model.jobs_and_accounting import FutureDatedJobEnd, JobEnd, JobKillReason
from gridbridge.shell.clock import Clock
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import NOON, RUNNING, job_row, made_campaign, made_policy, made_snapshot, site_fixture
from tests.campaigns.runner.test_forecast_updates import RATIO


class GatheringSite(CampaignSite):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, made_campaign(tasks=5))
        self.first = self.send(5, 7)
        self.others: list[CampaignArray] = []  # further arrays at beta, without listed tasks
        self.ledger: list[RootLedgerArray] = [RootLedgerArray(number=1, cluster="beta", tasks=(), job_id=7)]
        self.trouble: GridbridgeError | None = None  # error on reading root's ledger
        self.updator = CampaignSituationGatherer(
            made_policy(), self.database, Clock(), ledger_arrays=self.ledger_arrays, ran=f"{folder}/runner.ran"
        )
        self.asked = 0
        self.searched: list[bool] = []  # whether each query searched all records
        self.open_events: tuple[CampaignEvent, ...] = ()
        self.late: list[tuple[CampaignArray, ...]] = []  # arrays of each query for live tasks
        self.living: frozenset[int] = frozenset()
        self.is_silent = False  # whether beta does not answer
        self.within_s = 0.0  # accounting delay of beta
        self.missed_s: float | dict[int, float] | None = None  # seconds since tasks are missing, for all or by index

    def look(self, *rows: range, ended: ReportedEnds) -> tuple[list[int], bool]:
        """Return the array indices of ended attempts, and whether the array has ended."""
        seen = made_snapshot(jobs={7: tuple(job_row(some, RUNNING) for some in rows)})

        def ends(
            asked: Mapping[CampaignArray, range], late: Container[CampaignArray]
        ) -> dict[CampaignArray, ReportedEnds]:
            self.asked += len(asked)
            self.searched += [self.first in late]
            return dict.fromkeys(asked, ended)

        vars(self.updator.end_finder)["_query_task_ends"] = ends
        self.updator.end_finder.missing.load_missing_tasks()
        if (missed_s := self.missed_s) is not None:
            vars(self.updator.end_finder.missing)["missing_seconds_by_attempt"] = lambda gone: {
                one: missed_s[one.place] if isinstance(missed_s, dict) else missed_s for one in gone
            }
        vars(self.updator.end_finder)["_query_live_tasks"] = self._living
        within_s = {"beta": self.within_s}
        vars(self.updator.end_finder)["_accounting_delays_by_cluster"] = lambda _: within_s
        marks = self.updator._marks.deletion_marks()
        judge = MissingAttemptOutcomeDecider(self.campaigns.unfinished_campaigns(), self.open_events, marks, 60.0)
        arrays = [self.first, *self.others]
        found, over = self.updator.end_finder.find_ended_attempts(arrays, {"beta": seen}, judge)
        self.campaigns.record_attempt_ends(found)
        return [one.place for one in found], over == (self.first,)

    def outcomes(self, count: int) -> list[Outcome]:
        return [task.outcome for task in self.tasks.submitted_tasks(1, 0, count - 1)]

    def ledger_arrays(self, campaign: int) -> tuple[RootLedgerArray, ...]:
        assert campaign == 1
        if self.trouble:
            raise self.trouble
        return tuple(self.ledger)

    def _living(self, arrays: Iterable[CampaignArray]) -> dict[CampaignArray, frozenset[int]]:
        asked = tuple(arrays)
        self.late += [asked] if asked else []
        return {} if self.is_silent else dict.fromkeys(asked, self.living)


DELETION = ArrayTaskDeletion(
    campaign=1, array=1, cluster="beta", places=(range(2, 4),), wiped_for=NikitaDeletionReason.OVERFLOW
)
WELL = JobEnd(exit_status=0, wallclock_s=3.0)


_site = site_fixture(GatheringSite)


def test_no_attempt_of_a_completely_listed_array_is_read(site: GatheringSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.updator._tries, "unfinished_indices", Mock(side_effect=AssertionError("read")))

    assert site.look(range(1, 3), range(3, 6), ended={}) == ([], False)
    assert site.asked == 0


def test_an_unlisted_task_has_ended_once_its_cluster_reports_the_end(site: GatheringSite) -> None:
    assert site.look(range(2, 4), ended={1: WELL, 5: WELL}) == ([1, 5], False)
    assert site.look(range(2, 4), ended={}) == ([], False)
    assert site.look(ended={2: WELL, 4: WELL}) == ([2, 4], False)
    assert site.look(ended={3: WELL}) == ([3], True)


def test_order_and_repetition_in_an_answer_do_not_matter(site: GatheringSite) -> None:
    ill = JobEnd(exit_status=3)

    assert site.look(range(5, 6), range(2, 3), range(5, 6), ended={4: ill, 1: WELL}) == ([1, 4], False)
    assert site.look(range(2, 3), ended={5: WELL, 4: ill, 3: ill, 1: WELL}) == ([3, 5], False)


def test_a_disputed_end_counts_only_after_its_owner_declares_it_lost(site: GatheringSite) -> None:
    given_up = replace(new_campaign_event(CampaignEventSubject.CAMPAIGN, Code.DISPUTED, 1, "beta", NOON), until=NOON)

    assert site.look(range(3, 6), ended={1: None, 2: WELL}) == ([2], False)
    assert [(one.task, one.cluster) for one in site.updator.end_finder.disputed] == [(0, "beta")]
    site.open_events = (given_up,)
    assert site.look(range(3, 6), ended={1: None, 2: None}) == ([1], False)
    assert site.outcomes(2) == [Outcome.SITE_FAULT, Outcome.SUCCESS]


def test_a_cancelled_task_at_a_removed_cluster_does_not_count_as_lost(site: GatheringSite) -> None:
    site.open_event(Code.DROPPED, kind=CampaignEventSubject.CLUSTER, campaign=0, until=NOON)
    assert site.marks.mark_task_cancelled(1, 3)

    seen = site.updator.gather_situation()

    assert [one.outcome for one in seen.ended] == [*[Outcome.SITE_FAULT] * 3, Outcome.UNWANTED, Outcome.SITE_FAULT]


def test_a_missing_task_counts_as_deleted_only_after_a_query(site: GatheringSite) -> None:
    site.missed_s = 61.0
    site.living = frozenset({1})

    assert site.look(range(3, 6), ended={}) == ([2], False)
    assert site.late == [(site.first,)]


def test_all_accounting_records_are_searched_once_before_a_task_is_lost(site: GatheringSite) -> None:
    site.missed_s = 59.0
    site.living = frozenset({1, 2})
    site.look(range(3, 6), ended={})
    site.missed_s = 61.0
    for _ in range(2):
        site.look(range(3, 6), ended={})

    assert site.searched == [False, True, False]


def test_a_task_deleted_while_held_has_ended_once_it_is_unlisted(site: GatheringSite) -> None:
    site.marks.mark_tasks_for_deletion(replace(DELETION, wiped_for=NikitaDeletionReason.LEFT))
    site.within_s = 15.0

    assert site.look(range(3, 6), ended={}) == ([2], False)


@pytest.mark.parametrize(
    ("wiped_for", "wiped"),
    [
        (NikitaDeletionReason.OVERFLOW, {(1, "beta")}),
        (NikitaDeletionReason.WAITED, {(1, "beta")}),
        (NikitaDeletionReason.NEVER_BEGAN, {(1, "beta")}),
        (NikitaDeletionReason.OVERRAN, set()),
        (NikitaDeletionReason.UNWANTED, set()),
    ],
)
def test_a_situation_has_the_clusters_where_nikita_deleted_waiting_tasks(
    site: GatheringSite, wiped_for: NikitaDeletionReason, wiped: set[tuple[int, str]]
) -> None:
    site.marks.mark_tasks_for_deletion(replace(DELETION, wiped_for=wiped_for))

    assert site.updator.gather_situation().wiped == wiped


def test_a_situation_has_the_contents_of_the_state_file(site: GatheringSite) -> None:
    jdl = Jdl(name="sweep", clusters={"beta": JdlSettingsAtCluster(exec_file="run", epilogue="clean")})
    site.insert(made_campaign(tasks=5, jdl=jdl))
    site.campaigns.add_unsent_tasks(1, WaitingTaskRange(first=0, last=2, attempt=2, avoid=("beta",)))
    site.tries.create_prologue_or_epilogue(
        CampaignPrologueOrEpilogueStart(campaign=2, cluster="beta", step=EPILOGUE, attempt=1), NOON
    )
    site.statistics.store_job_ratios([RATIO])
    site.open_event(Code.SINK)
    record = CampaignSuccessAtCluster(campaign=1, cluster="beta", successes=9)
    site.events.store_success_records([record])
    failures, finalize = CampaignFailuresSection(site_fault=7), LateSpeculationSection(copies=1)
    policy = made_policy(failures=failures, finalize=finalize)

    seen = CampaignSituationGatherer(policy, site.database, Clock()).gather_situation()

    kept = JobRatio(campaign=1, cluster="beta", ratio=0.5, free=4, submitted=3)
    assert (seen.ratios, seen.records) == ((kept,), (record,))
    assert [(one.code, one.cluster) for one in seen.events] == [(Code.SINK, "beta")]
    assert seen.kept_off == {1: (TaskCountByExclusions(tasks=3, avoid=("beta",)),)}
    assert (seen.failures.site_fault, seen.finalize.copies) == (7, 1)
    assert [(one.campaign, one.step) for one in seen.steps] == [(2, EPILOGUE)]
    assert (seen.last_arrays, seen.dropped) == ({2: {"beta": 1}}, {"beta"})
    assert seen.arrays_at_once == ARRAYS_AT_ONCE


def test_a_situation_has_the_recovery_times_of_clusters(site: GatheringSite) -> None:
    of_cluster = {"kind": CampaignEventSubject.CLUSTER, "campaign": 0}
    site.open_event(Code.GET_JOBS, **of_cluster)
    site.open_event(Code.GET_JOBS, **of_cluster, cluster="gamma", closed_at=NOON)

    assert site.updator.gather_situation().back_at == {"gamma": NOON}


def test_no_end_is_believed_before_the_accounting_delay_has_passed(site: GatheringSite) -> None:
    """A forged record may exist while the task runs."""
    site.within_s, site.missed_s = 15.0, 14.0

    assert site.look(range(2, 6), ended={1: WELL}) == ([], False)
    assert site.asked == 0
    site.missed_s = 15.0
    assert site.look(range(2, 6), ended={1: WELL}) == ([1], False)


def test_a_task_counts_as_deleted_only_after_the_accounting_delay(site: GatheringSite) -> None:
    site.within_s, site.missed_s = 300.0, {1: 300.0, 2: 120.0}

    assert site.look(range(3, 6), ended={1: WELL}) == ([1], False)
    site.missed_s[2] = 301.0
    assert site.look(range(3, 6), ended={2: WELL}) == ([2], False)
    assert site.outcomes(2) == [Outcome.SUCCESS, Outcome.SUCCESS]


def test_tasks_of_a_host_with_a_fast_clock_are_not_lost(site: GatheringSite, caplog: pytest.LogCaptureFixture) -> None:
    site.missed_s = 61.0
    at = datetime.now(UTC) + timedelta(hours=1)
    ahead = FutureDatedJobEnd(ended_at=at, host="n1", end=WELL)

    assert site.look(range(3, 6), ended={1: ahead, 2: ahead}) == ([], False)
    assert caplog.text.count("event=clock_ahead cluster=beta host='n1' ahead_s=3") == 1
    assert site.late == []
    site.missed_s = 601.0
    assert site.look(range(3, 6), ended={1: ahead, 2: ahead}) == ([1, 2], False)
    assert (site.late, caplog.text.count("clock_ahead")) == ([(site.first,)], 1)
    assert site.outcomes(2) == [Outcome.SUCCESS, Outcome.SUCCESS]


def test_a_running_task_that_vanishes_counts_as_a_site_fault(site: GatheringSite) -> None:
    site.missed_s = 61.0
    site.look(range(1, 3), ended={})

    assert site.outcomes(3) == [Outcome.PENDING, Outcome.PENDING, Outcome.CANCELLED]
    site.is_silent = True
    assert site.look(ended={}) == ([1, 2], True)
    assert site.outcomes(2) == [Outcome.SITE_FAULT] * 2


DELETED = JobEnd(killed_for=JobKillReason.DELETION, is_unstarted=True)


@pytest.mark.parametrize(
    ("end", "over"),
    [(DELETED, []), (JobEnd(signal="KILL"), []), (JobEnd(exit_status=3), [1])],
    ids=["deleted", "killed", "ended by itself"],
)
def test_no_deletion_counts_while_roots_ledger_has_more_arrays(
    site: GatheringSite, end: JobEnd, over: list[int]
) -> None:
    site.ledger.append(RootLedgerArray(number=2, cluster="gamma", tasks=((0, 2),), job_id=9))

    assert site.look(range(2, 6), ended={1: end}) == (over, False)
    assert site.updator.end_finder.restored.behind == ([] if over else [1])


@pytest.mark.parametrize(
    ("state", "is_restored", "arrays", "behind"),
    [
        (CampaignState.IN_TREATMENT, True, 1, [2]),
        (CampaignState.IN_TREATMENT, True, 0, []),
        (CampaignState.IN_TREATMENT, False, 1, []),
        (CampaignState.PAUSED, True, 1, []),
    ],
    ids=["restored", "never sent", "new", "paused"],
)
def test_a_restored_campaign_without_arrays_is_compared_with_the_ledger(
    site: GatheringSite, state: CampaignState, is_restored: bool, arrays: int, behind: list[int]
) -> None:
    restored = replace(site.campaign, number=2, state=state)
    known = replace(site.campaign, number=1)
    events = [new_campaign_event(CampaignEventSubject.CAMPAIGN, Code.RESTORED, n, "", NOON) for n in (1, 2)]
    ledger = tuple(site.ledger[:arrays])
    look = RootLedgerStateComparison(site.campaigns, lambda campaign: ledger if campaign == 2 else ())

    assert look.campaigns_behind_root_ledger([known, restored], events if is_restored else []) == tuple(behind)


def test_no_end_counts_in_the_cycle_that_imports_the_ledger(site: GatheringSite) -> None:
    site.campaigns.add_unsent_tasks(1, WaitingTaskRange(first=7, last=8))
    site.others = [site.send(2, 8)]
    site.ledger += [replace(site.ledger[0], number=number) for number in (2, 3)]
    ends = {1: JobEnd(exit_status=66), 2: DELETED}

    assert site.look(range(2, 6), ended=ends) == ([], False)
    del site.ledger[2:]
    assert site.look(range(2, 6), ended=ends) == ([1, 1, 2], False)
    site.others = []


@pytest.mark.parametrize(
    ("trouble", "over"),
    [(None, [1]), (RootLedgerUnreadable("root's ledger has nothing of it"), [1]), (CampaignFileUnreadable("EIO"), [])],
    ids=["it knows no more", "it is lost", "it can't be read now"],
)
def test_a_deletion_counts_unless_the_ledger_cannot_be_read_now(
    site: GatheringSite, trouble: GridbridgeError | None, over: list[int]
) -> None:
    site.trouble = trouble

    assert site.look(range(2, 6), ended={1: DELETED}) == (over, False)
    assert site.updator.end_finder.restored.behind == []
