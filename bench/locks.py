"""The longest time for which the runner keeps other programs from writing the state file.

The poller writes the same file. A cycle that has much to note does so in several transactions, and
so do the deletion of a large campaign and what is taken over after a state file was restored. The
limit is on what is larger of a transaction's time and CPU: the disk's part counts, for others wait
for that, too. CPU alone is told beside it, for this machine may do much else. The baseline is the
same for a tenth of the tasks.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory

from sqlalchemy import Connection

from bench.bag import NOON, campaign
from bench.brief import sized
from bench.rows import Row
from gridbridge.campaigns.runner import campaign_runner
from gridbridge.campaigns.runner.cycle_result_recorders import CampaignStatisticsRecorder
from gridbridge.campaigns.runner.plan_execution_and_root_ledger import CampaignPlanExecutor
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import CampaignTaskRows, TaskDeletionMarkRows
from gridbridge.errors import ArrayTasksAlreadyInLedger
from gridbridge.model.campaigns.campaign import RootLedgerArray, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection, JobRatioRule
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    CampaignCycleSituation,
    PlannedCampaignTaskSend,
    TaskRetry,
    TasksPerFreeSlotInputs,
    TasksPerFreeSlotUpdate,
)
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    ArrayTaskDeletion,
    NikitaDeletionReason,
    TaskMissingSince,
)
from gridbridge.shell.clock import Clock
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.state_file import StateFile
from tests.campaigns.runner.fake_clusters import Grid

TASKS = sized(100_000, 5_000)  # that end between two cycles, as after a cluster was away
AN_ARRAY = 5000  # the most that [runner] max_tasks may be
CAMPAIGNS, CLUSTERS = 200, 50  # as bench/cycle.py has them
MOST_S = 0.5
TERMS = TasksPerFreeSlotInputs(old=1.0, slots=1.0, max_slots=9, free=9, submitted=1, running=1, waiting=0, allowed=1)


def rows() -> list[Row]:
    """Measure the transactions for tasks that all run again: recorded, sent once more and purged."""
    few, many = ({**_held(tasks), **_restored(tasks)} for tasks in (TASKS // 10, TASKS))
    return [row for what in many for row in _told(what, many[what], few[what])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Longest:
    """The longest transactions, by this host's clock and in CPU time."""

    passed_s: float = 0.0
    cpu_s: float = 0.0


def _told(what: str, many: Longest, few: Longest) -> Iterator[Row]:
    worst, least = (max(one.passed_s, one.cpu_s) for one in (many, few))
    yield Row(what=what, measured=worst, unit="s", limit=MOST_S, baseline=least, needs_whole=True)
    yield Row(what="    of CPU", measured=many.cpu_s, unit="s", baseline=few.cpu_s)


class _Watched(StateFile):
    """A state file that records its longest transactions."""

    longest = Longest()

    @contextmanager
    def _begin_transaction(self) -> Iterator[Connection]:
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        with super()._begin_transaction() as connection:
            yield connection
        self.longest = Longest(
            passed_s=max(self.longest.passed_s, time.monotonic() - began_s),
            cpu_s=max(self.longest.cpu_s, time.process_time() - began_cpu_s),
        )

    def told(self) -> Longest:
        """Return the longest transactions since the last call."""
        found, self.longest = self.longest, Longest()
        return found


@contextmanager
def _opened() -> Iterator[_Watched]:
    with TemporaryDirectory(dir="/var/tmp") as folder:  # /tmp may be memory
        database = _Watched.open(f"sqlite:///{folder}/state.db")
        assert isinstance(database, _Watched)
        yield database
        database.close()


def _held(tasks: int) -> dict[str, Longest]:
    with _opened() as database:
        campaigns = CampaignRows(database)
        number = campaigns.insert_campaign(campaign(tasks), "token")
        _send(campaigns, number, tasks)
        first_s = database.told()
        ended = _end(database, campaigns)
        ended_s = database.told()
        _keep(database, number, ended)
        kept_s = database.told()
        _send(campaigns, number, tasks)
        again_s = database.told()
        _wipe(database, number, tasks // 10)
        wiped_s = database.told()
        CampaignTaskRows(database).purge_campaign(number)
        purged_s = database.told()
    return {
        "state file held, tasks sent": first_s,
        "  ended": ended_s,
        "  their decision kept": kept_s,
        "  sent again": again_s,
        "  wiped and spared, a tenth of them": wiped_s,
        "  purged": purged_s,
    }


def _send(campaigns: CampaignRows, number: int, tasks: int) -> None:
    for _ in range(0, tasks, AN_ARRAY):
        assert campaigns.create_array(number, "beta", AN_ARRAY, NOON)


def _restored(tasks: int) -> dict[str, Longest]:
    """Adopt all arrays of a campaign from root's ledger, except the refused one."""
    with _opened() as database:
        number = CampaignRows(database).insert_campaign(campaign(tasks), "token")
        actions = CampaignPlanExecutor(
            database, CampaignStatisticsRecorder(database), Clock(), CampaignFailuresSection(), _Ledger(tasks)
        )
        database.told()
        actions.execute_plan(
            CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=number, cluster="beta", tasks=1),))
        )
        assert not CampaignRows(database).count_unsent_tasks()
        return {"  taken over": database.told()}


class _Ledger(Grid):
    """Clusters to which all tasks were submitted before."""

    def __init__(self, tasks: int) -> None:
        super().__init__()
        begins = range(0, tasks, AN_ARRAY)
        self.ledger = tuple(
            RootLedgerArray(
                number=number,
                cluster="beta",
                tasks=tuple((task, 1) for task in range(begin, begin + AN_ARRAY)),
                job_id=number,
            )
            for number, begin in enumerate(begins, start=1)
        )
        self.failing["submit"] = ArrayTasksAlreadyInLedger("array 1 is recorded with other tasks")


def _keep(database: StateFile, number: int, ended: tuple[TaskAttempt, ...]) -> None:
    """Store a decision about all of these ends in the journal."""
    seen = CampaignCycleSituation(
        campaigns=(campaign(len(ended), number=number),),
        waiting={},
        arrays=(),
        room={},
        max_tasks=AN_ARRAY,
        ended=ended,
    )
    entry = campaign_runner.campaign_cycle_journal_entry(seen, CampaignCyclePlan(ended=ended), NOON)
    assert entry
    DecisionJournal(database).store_decision(entry)


def _end(database: StateFile, campaigns: CampaignRows) -> tuple[TaskAttempt, ...]:
    """Record in one cycle that all sent tasks have ended and run again.

    Before that no list contains them for a while; and many campaigns have a job ratio.
    """
    sent = campaigns.query_open_arrays()
    ended = tuple(
        replace(one, outcome=TaskAttemptOutcome.SITE_FAULT)
        for array in sent
        for one in campaigns.unfinished_attempts(array)
    )
    again = tuple(
        TaskRetry(campaign=one.campaign, task=one.task, attempt=one.attempt, outcome=one.outcome) for one in ended
    )
    missed = tuple(
        TaskMissingSince(campaign=one.campaign, array=one.array, place=one.place, since=NOON) for one in ended
    )
    predicted = tuple(
        TasksPerFreeSlotUpdate(
            campaign=number, cluster=f"c{at}", law=JobRatioRule.MEASURED, terms=TERMS, ratio=1.0, submitted=1
        )
        for number in range(1, CAMPAIGNS + 1)
        for at in range(CLUSTERS)
    )
    actions = CampaignPlanExecutor(database, CampaignStatisticsRecorder(database), Clock(), CampaignFailuresSection())
    actions.execute_plan(CampaignCyclePlan(missed=missed))
    actions.execute_plan(CampaignCyclePlan(ended=ended, again=again, over=sent, predicted=predicted))
    return ended


def _wipe(database: StateFile, number: int, tasks: int) -> None:
    """Mark waiting tasks as nikita does before deleting them, and remove the marks."""
    marks, left = TaskDeletionMarkRows(database), tasks
    wipes = []
    for array in reversed(CampaignRows(database).query_open_arrays()):
        places = range(1, min(left, array.size) + 1)
        left -= len(places)
        wipes += [
            ArrayTaskDeletion(
                campaign=number,
                array=array.number,
                cluster=array.cluster,
                places=(places,),
                wiped_for=NikitaDeletionReason.OVERFLOW,
            )
        ]
        if not left:
            break
    for wipe in wipes:
        marks.mark_tasks_for_deletion(wipe)
    marks.remove_marks_of_ended_attempts()
    assert sum(map(len, marks.deletion_marks().values())) == tasks
    for wipe in wipes:
        marks.remove_deletion_marks(wipe)
