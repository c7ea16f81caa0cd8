"""Each step of a submission is noted before the next, so the next cycle can go on with it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.campaigns.runner.array_commands_as_owner import (
    EndedCampaignRefusal,
    PermanentArrayRefusal,
    RootCampaignRefusal,
    TemporaryArrayRefusal,
)
from gridbridge.campaigns.runner.cycle_results_and_forecasts import CycleStatisticsRecorder
from gridbridge.campaigns.runner.plan_execution_and_root_ledger import CampaignPlanExecutor
from gridbridge.campaigns.runner.submission_failure_events import one_line_error_message
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import CampaignTaskRows, TaskDeletionMarkRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.decisions.campaigns.campaign_cycle import ENDS_PER_TRANSACTION
from gridbridge.decisions.campaigns.cluster_blacklist_and_successes import new_campaign_event
from gridbridge.errors import (
    ArrayTasksAlreadyInLedger,
    CampaignFileUnreadable,
    GridbridgeError,
    OwnerAccountGone,
    RootLedgerUnreadable,
)
from gridbridge.model.campaigns.campaign import (
    PRIORITY_AT_ONCE,
    ArraySubmissionResult,
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignState,
    RootLedgerArray,
    TaskAttempt,
    TaskAttemptOutcome,
    WaitingTaskRange,
)
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.campaign_sections import CampaignFailuresSection
from gridbridge.model.campaigns.cycle_plan import (
    CampaignCyclePlan,
    PlannedCampaignTaskSend,
    TaskCountByExclusions,
    TaskRetry,
)
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlClusterSettings
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Grid:
    """Clusters that note what they are told, and fail when they are told to."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.failing: dict[str, GridbridgeError] = {}
        self.ledger: tuple[RootLedgerArray, ...] = ()  # what root knows
        self.takes = 9  # arrays of one call

    def send(
        self, arrays: tuple[tuple[CampaignArray, tuple[TaskAttempt, ...]], ...]
    ) -> tuple[ArraySubmissionResult, ...]:
        """Take arrays, and start them."""
        return tuple(self._send(*each) for each in arrays[: self.takes])

    def _send(self, array: CampaignArray, attempts: tuple[TaskAttempt, ...]) -> ArraySubmissionResult:
        tasks = ",".join(f"{one.task}:{one.attempt}" for one in attempts)
        job_id = 0
        try:
            self._tell(f"submit {array.number} {array.cluster} {tasks}")
            job_id = 70 + array.number
            self._tell(f"release {array.number} {job_id}")
        except GridbridgeError as error:
            return ArraySubmissionResult(job_id=job_id, error=error)
        return ArraySubmissionResult(job_id=job_id)

    def release(self, array: CampaignArray) -> None:
        """Start it."""
        self._tell(f"release {array.number} {array.job_id}")

    def delete(self, array: CampaignArray) -> int:
        """End it; root may know an id that the service does not."""
        self._tell(f"delete {array.number} {array.job_id}")
        return next((one.job_id for one in self.ledger if one.number == array.number), 0)

    def end(self, campaign: int) -> None:
        """Send nothing more of it."""
        self._tell(f"end {campaign}")

    def ledger_arrays(self, campaign: int) -> tuple[RootLedgerArray, ...]:
        """Return what root knows."""
        del campaign
        return self.ledger

    def _tell(self, what: str) -> None:
        self.told.append(what)
        if trouble := self.failing.get(what.partition(" ")[0]):
            raise trouble


@pytest.fixture(name="grid")
def _grid() -> Grid:
    return Grid()


@pytest.fixture(name="campaigns")
def _campaigns(tmp_path: Path) -> Iterator[CampaignRows]:
    database = StateFile.open(f"sqlite:///{tmp_path}/state.db")
    campaigns = CampaignRows(database)
    campaigns.add(
        Campaign(
            number=0,
            uid=1000,
            owner="alice",
            state=CampaignState.IN_TREATMENT,
            submitted_at=NOON,
            tasks=3,
            digest="",
            jdl=Jdl(
                name="sweep",
                clusters={"beta": JdlClusterSettings(exec_file="run"), "gamma": JdlClusterSettings(exec_file="run")},
            ),
        ),
        "token",
    )
    yield campaigns
    database.close()


@pytest.fixture(name="do")
def _do(tmp_path: Path, campaigns: CampaignRows, grid: Grid) -> Callable[[CampaignCyclePlan], None]:
    database = campaigns._database
    learnt = CycleStatisticsRecorder(database)
    return CampaignPlanExecutor(database, learnt, Clock(), CampaignFailuresSection(), grid).do


SEND = CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=2),))
OFF_BETA = (TaskCountByExclusions(tasks=2, avoid=("beta",)),)


def only(campaigns: CampaignRows) -> CampaignArray:
    """Return the one open array."""
    (array,) = campaigns.open_arrays()
    return array


def test_an_array_is_submitted_and_then_released(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """Never the other way round, and under the id that was noted."""
    do(SEND)

    assert grid.told == ["submit 1 beta 0:1,1:1", "release 1 71"]
    assert only(campaigns).state is ArraySubmissionState.RELEASED
    assert campaigns.waiting() == {1: 1}


def test_more_tasks_than_an_array_has_go_in_several_by_one_call(campaigns: CampaignRows, grid: Grid) -> None:
    """One that was not begun in that call is resumed by the next cycle."""
    database = campaigns.database
    do = CampaignPlanExecutor(
        database, CycleStatisticsRecorder(database), Clock(), CampaignFailuresSection(), grid, most=2
    ).do
    grid.takes = 1
    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=3),)))
    first, second = campaigns.open_arrays()
    grid.takes = 9
    do(CampaignCyclePlan(resumed=(second,)))

    assert (first.size, second.size, second.state) == (2, 1, ArraySubmissionState.INTENDED)
    assert grid.told == ["submit 1 beta 0:1,1:1", "release 1 71", "submit 2 beta 2:1", "release 2 72"]
    assert [one.state for one in campaigns.open_arrays()] == [ArraySubmissionState.RELEASED] * 2


def test_an_array_is_as_small_as_its_cluster_wants_it(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """All of them go by one call."""
    grid.takes = 9
    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=3, array_tasks=2),)))

    assert [one.size for one in campaigns.open_arrays()] == [2, 1]
    assert [told for told in grid.told if told[:6] == "submit"] == ["submit 1 beta 0:1,1:1", "submit 2 beta 2:1"]


@pytest.mark.parametrize(
    ("step", "state", "rest"),
    [
        ("submit", ArraySubmissionState.INTENDED, ["submit 1 beta 0:1,1:1", "release 1 71"]),
        ("release", ArraySubmissionState.SUBMITTED, ["release 1 71"]),
    ],
)
def test_the_next_cycle_goes_on_where_one_failed(
    campaigns: CampaignRows,
    grid: Grid,
    do: Callable[[CampaignCyclePlan], None],
    step: str,
    state: ArraySubmissionState,
    rest: list[str],
) -> None:
    """The same array, with the same tasks: an answer may have been lost."""
    grid.failing[step] = GridbridgeError("no answer")
    do(SEND)
    begun = only(campaigns)

    grid.failing.clear()
    grid.told.clear()
    do(CampaignCyclePlan(resumed=(begun,)))

    assert begun.state is state
    assert grid.told == rest
    assert only(campaigns).state is ArraySubmissionState.RELEASED


def test_nothing_is_left_of_an_array_that_was_submitted_again(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """A cluster may have taken the first submission after all, late."""
    grid.failing["submit"] = GridbridgeError("no answer")
    do(SEND)
    grid.failing.clear()
    do(CampaignCyclePlan(resumed=(only(campaigns),)))

    do(CampaignCyclePlan(over=(only(campaigns),)))

    assert grid.told[-2:] == ["release 1 71", "delete 1 71"]
    do(SEND)
    do(CampaignCyclePlan(over=(only(campaigns),)))
    assert grid.told[-1] == "release 2 72"


def test_tasks_that_a_cluster_refuses_are_tried_at_another(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """They have not ended; the cluster is closed to the campaign for a while."""
    grid.failing["submit"] = PermanentArrayRefusal("no such queue")

    do(SEND)

    found = campaigns.find(1)
    assert found
    assert (found.ended, found.failed, campaigns.open_arrays()) == (0, 0, ())
    assert told_of(campaigns) == {(CampaignEventCode.RUNNER_SUBMIT_ERROR, "beta", 2, 0)}
    assert whys(campaigns) == {"no such queue"}
    grid.failing.clear()
    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=3, kept_off=OFF_BETA),)))
    assert grid.told[-2:] == ["submit 2 gamma 0:2,1:2,2:1", "release 2 72"]


def test_a_task_of_a_test_that_a_cluster_refuses_goes_to_no_other(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """Each cluster gets one of its own, and that it is refused is what was asked."""
    usual = campaigns.find(1)
    assert usual
    test = replace(usual, number=0, jdl=replace(usual.jdl, type=CampaignType.TEST), tasks=2)
    number = campaigns.add(test, "another")
    grid.failing["submit"] = PermanentArrayRefusal("no such queue")

    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=number, cluster="beta", tasks=1),)))

    found = campaigns.find(number)
    assert found
    assert (found.ended, found.failed, campaigns.waiting()[number]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("error", "waiting", "failed"),
    [(PermanentArrayRefusal("no such queue"), {1: 2}, 0), (RootCampaignRefusal("not as it was"), {}, 2)],
    ids=["by its cluster", "by root"],
)
def test_a_task_that_its_owner_cancelled_does_not_run_again_where_its_array_is_refused(
    campaigns: CampaignRows,
    grid: Grid,
    do: Callable[[CampaignCyclePlan], None],
    error: GridbridgeError,
    waiting: dict[int, int],
    failed: int,
) -> None:
    """It was told that the task is cancelled, while the cluster gave no answer."""
    grid.failing["submit"] = TemporaryArrayRefusal("unreachable")
    do(SEND)
    assert TaskDeletionMarkRows(campaigns.database).cancel(1, 0)
    grid.failing["submit"] = error

    do(CampaignCyclePlan(resumed=(only(campaigns),)))

    found = campaigns.find(1)
    assert found
    assert (campaigns.waiting(), found.failed, found.cancelled) == (waiting, failed, 1)
    (shown, *_) = CampaignTaskRows(campaigns.database).sent(1, 0, 0)
    assert (shown.outcome, shown.attempt) == (TaskAttemptOutcome.UNWANTED, 1)


def test_a_task_does_not_go_back_where_it_was_refused(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """As long as the decision names no such tasks."""
    grid.failing["submit"] = PermanentArrayRefusal("no such queue")
    do(SEND)
    grid.failing.clear()

    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=3),)))
    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=3, kept_off=OFF_BETA),)))

    submitted = [told for told in grid.told if told.startswith("submit")]
    assert submitted[1:] == ["submit 2 beta 2:1", "submit 3 beta 0:2,1:2"]


def test_as_many_of_each_kind_are_taken_as_is_told(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """However urgent others are: those that are free to go to beta are left for it."""
    campaigns.drop_waiting(1)
    free = WaitingTaskRange(first=0, last=9, attempt=2, priority=PRIORITY_AT_ONCE)
    off_beta = WaitingTaskRange(first=10, last=19, attempt=2, avoid=("beta",))
    campaigns.wait_again(1, free, off_beta)
    kinds = (TaskCountByExclusions(tasks=5, avoid=("beta",)),)

    do(
        CampaignCyclePlan(
            sends=(PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=6, kept_off=kinds, array_tasks=4),)
        )
    )
    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=9),)))

    assert [told for told in grid.told if told[:6] == "submit"] == [
        "submit 1 gamma 10:2,11:2,12:2,13:2",
        "submit 2 gamma 0:2,14:2",
        "submit 3 beta 1:2,2:2,3:2,4:2,5:2,6:2,7:2,8:2,9:2",
    ]


def test_a_task_runs_again_before_all_others_or_after_them_as_it_asked(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """By its exit status, 66 or 67, as in CiGri."""
    do(SEND)
    outcomes = (TaskAttemptOutcome.RESUBMIT_LAST, TaskAttemptOutcome.RESUBMIT)
    ended = tuple(
        replace(one, outcome=outcome) for one, outcome in zip(campaigns.pending(only(campaigns)), outcomes, strict=True)
    )
    again = (TaskRetry(campaign=1, task=one.task, attempt=1, outcome=one.outcome) for one in ended)
    do(CampaignCyclePlan(ended=ended, again=tuple(again), over=(only(campaigns),)))

    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=3, array_tasks=1),)))

    submitted = [told for told in grid.told if told.startswith("submit")]
    assert submitted[1:] == ["submit 2 beta 1:2", "submit 3 beta 2:1", "submit 4 beta 0:2"]


def test_refusals_have_an_end(campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]) -> None:
    """Each cluster once, and three times more: then the tasks have failed for good."""
    grid.failing["submit"] = PermanentArrayRefusal("no such queue")
    off_beta = (TaskCountByExclusions(tasks=3, avoid=("beta",)),)

    failed = []
    for kept_off in ((), *[off_beta] * 4):
        do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=3, kept_off=kept_off),)))
        found = campaigns.find(1)
        assert found
        failed.append(found.failed)

    assert failed == [0, 0, 0, 0, 3]
    assert told_of(campaigns) == {
        (CampaignEventCode.RUNNER_SUBMIT_ERROR, "beta", 15, 0),
        (CampaignEventCode.NOT_STARTED, "beta", 3, 0),
    }


def test_what_root_refuses_fails_with_all_that_waits(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """Its file is not what it was: no cluster would get anything else."""
    grid.failing["submit"] = RootCampaignRefusal("not the file")

    do(SEND)

    found = campaigns.find(1)
    assert found
    assert (found.ended, found.failed, campaigns.waiting()) == (3, 3, {})
    assert told_of(campaigns) == {(CampaignEventCode.FILE_REFUSED, "", 0, 0)}
    assert whys(campaigns) == {"not the file"}


def test_what_root_refuses_to_try_again_is_what_it_came_to_before(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """One task had failed by itself and one with its host; nobody overwrites that."""
    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=2),)))
    failed, lost = campaigns.pending(only(campaigns))
    ended = (
        replace(failed, outcome=TaskAttemptOutcome.PROGRAM_ERROR, exit_status=3),
        replace(lost, outcome=TaskAttemptOutcome.SITE_FAULT),
    )
    again = [TaskRetry(campaign=1, task=one.task, attempt=1, outcome=one.outcome) for one in ended]
    do(CampaignCyclePlan(ended=ended, again=tuple(again), over=(only(campaigns),)))
    grid.failing["submit"] = RootCampaignRefusal("not the file")

    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=3),)))

    found = campaigns.find(1)
    assert found
    assert (found.ended, found.failed, campaigns.waiting()) == (3, 3, {})
    shown = CampaignTaskRows(campaigns.database).sent(1, 0, 2)
    assert [(one.word, one.exit_status, one.cluster) for one in shown] == [
        ("program_error", 3, "beta"),
        ("site_fault", None, "beta"),
        ("setup_error", None, "gamma"),
    ]


@pytest.mark.parametrize("sent", [1, 3], ids=["waits", "sent"])
def test_what_root_refuses_to_try_again_is_counted_by_its_event_as_before(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None], sent: int
) -> None:
    """Its owner may have it tried again once the file is put right."""
    tries = TaskAttemptRows(campaigns.database, campaigns)
    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=2),)))
    ended = [
        replace(one, outcome=TaskAttemptOutcome.PROGRAM_ERROR, exit_status=3)
        for one in campaigns.pending(only(campaigns))
    ]
    do(CampaignCyclePlan(ended=tuple(ended), over=(only(campaigns),)))
    tries.judge_anew(1, [0, 1])
    campaigns.wait_again(1, WaitingTaskRange(first=0, last=1, attempt=2))
    campaigns.count(1, -2, -2)
    grid.failing["submit"] = RootCampaignRefusal("not the file")

    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=sent),)))

    event = new_campaign_event(CampaignEventSubject.TASK, CampaignEventCode.EXIT_ERROR, 1, "beta", NOON)
    found = tries.failed(replace(event, exit_status=3), [TaskAttemptOutcome.PROGRAM_ERROR], -1, 9)
    assert [one.task for one in found] == [0, 1]


def test_what_had_ended_before_the_state_file_was_replaced_has_ended(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """Root's ledger knows it; nobody has touched the campaign's file."""
    grid.failing["submit"] = EndedCampaignRefusal("the campaign has ended")

    do(SEND)

    found = campaigns.find(1)
    assert found
    assert (found.state, found.ended_at is not None) == (CampaignState.CANCELLED, True)
    assert (campaigns.open_arrays(), campaigns.waiting()) == ((), {})
    assert told_of(campaigns) == {(CampaignEventCode.RESTORED, "", 0, 0)}


def test_of_an_array_without_attempts_that_live_nothing_is_sent(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """Root would refuse the whole campaign for it; it is over, and what bears its name goes."""
    grid.failing["submit"] = GridbridgeError("lost")
    do(SEND)
    array = only(campaigns)
    ended = [replace(one, outcome=TaskAttemptOutcome.SITE_FAULT) for one in campaigns.pending(array)]
    campaigns.ended(ended)
    grid.failing.clear()
    grid.told.clear()

    do(CampaignCyclePlan(resumed=(array,)))

    known = only(campaigns)
    assert grid.told == []
    assert (known.state, known.is_repeated) == (ArraySubmissionState.RELEASED, True)


def test_a_campaign_that_has_ended_stays_as_it_ended(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """Though an array of it is known, as by root's ledger, that nobody knows to be submitted."""
    grid.failing["submit"] = GridbridgeError("lost")
    do(SEND)
    campaigns.is_now(1, CampaignState.TERMINATED, NOON)
    grid.failing["submit"] = EndedCampaignRefusal("the campaign has ended")

    do(CampaignCyclePlan(resumed=(only(campaigns),)))

    found = campaigns.find(1)
    assert found
    assert (found.state, campaigns.open_arrays()) == (CampaignState.TERMINATED, ())
    assert (CampaignEventCode.RESTORED, "", 0, 0) not in told_of(campaigns)


def test_a_cluster_that_takes_nothing_now_is_told_of_until_it_does(campaigns: CampaignRows, grid: Grid) -> None:
    """Each time that it is tried after a pause the next one doubles."""
    now = [NOON]
    clock = Clock(lambda: now[0].timestamp())
    do = CampaignPlanExecutor(
        campaigns.database, CycleStatisticsRecorder(campaigns.database), clock, CampaignFailuresSection(), grid
    ).do
    grid.failing["submit"] = TemporaryArrayRefusal("unreachable")
    do(SEND)
    now[0] += timedelta(seconds=61)
    do(CampaignCyclePlan(resumed=(only(campaigns),)))

    assert told_of(campaigns) == {(CampaignEventCode.SUBMIT_JOB, "beta", 4, 1)}
    (event,) = EventAndSuccessRecordRows(campaigns._database).open()
    assert event.until
    assert event.until - event.last_at == timedelta(seconds=120)
    assert event.why == "unreachable"
    grid.failing.clear()
    do(CampaignCyclePlan(resumed=(only(campaigns),)))
    assert told_of(campaigns) == set()


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (OwnerAccountGone("uid 1000 has no account"), CampaignEventCode.OWNER_UNKNOWN),
        (RootLedgerUnreadable("c.1: Input/output error"), CampaignEventCode.NO_LEDGER),
        (CampaignFileUnreadable("c.1: No such file or directory"), CampaignEventCode.NO_FILE),
    ],
)
def test_what_root_can_not_do_for_nobody_is_told_as_that(
    campaigns: CampaignRows,
    grid: Grid,
    do: Callable[[CampaignCyclePlan], None],
    trouble: GridbridgeError,
    code: CampaignEventCode,
) -> None:
    """No cluster is to blame. It is over once root acts as the owner again."""
    grid.failing["submit"] = trouble
    do(SEND)

    assert told_of(campaigns) == {(code, "beta", 2, 0)}
    grid.failing.clear()
    do(CampaignCyclePlan(resumed=(only(campaigns),)))
    assert told_of(campaigns) == set()


def test_an_array_that_root_can_not_delete_stays_until_it_can(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """It is told once, however often that is tried."""
    grid.failing["release"] = TemporaryArrayRefusal("unreachable")
    do(SEND)
    EventAndSuccessRecordRows(campaigns._database).close(1, NOON)
    held = only(campaigns)
    grid.failing["delete"] = RootLedgerUnreadable("root's ledger lacks array 1")
    for _ in range(2):
        do(CampaignCyclePlan(deleted=(held,)))

    assert only(campaigns) == held
    assert told_of(campaigns) == {(CampaignEventCode.NO_LEDGER, "beta", 2, 0)}
    grid.failing.clear()
    do(CampaignCyclePlan(deleted=(held,)))
    assert campaigns.open_arrays() == ()
    assert told_of(campaigns) == set()


def test_what_root_knows_better_is_taken_over(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The state file is an older one: nothing is submitted twice, and nothing is forgotten."""
    grid.ledger = (RootLedgerArray(number=1, cluster="gamma", tasks=((1, 1),), job_id=44),)
    grid.failing["submit"] = ArrayTasksAlreadyInLedger("array 1 has other tasks")

    do(SEND)

    assert "event=taken_over campaign=1 arrays=1 tasks=1 why=" in caplog.text
    known = only(campaigns)
    assert (known.number, known.cluster, known.job_id) == (1, "gamma", 44)
    assert known.state is ArraySubmissionState.SUBMITTED
    assert [(one.task, one.attempt) for one in campaigns.pending(known)] == [(1, 1)]
    assert campaigns.waiting() == {1: 2}
    assert told_of(campaigns) == {(CampaignEventCode.RESTORED, "", 0, 0)}
    grid.failing.clear()
    do(CampaignCyclePlan(resumed=(known,), sends=SEND.sends))
    assert grid.told[-3:] == ["release 1 44", "submit 2 beta 0:1,2:1", "release 2 72"]


def test_what_waits_again_after_that_keeps_off_where_it_overran(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """It was begun at gamma, where root's ledger has another task."""
    do(SEND)
    overran = replace(campaigns.pending(only(campaigns))[0], outcome=TaskAttemptOutcome.WALLTIME)
    off_beta = {"avoid": ("beta",), "never": ("beta",)}
    again = TaskRetry(campaign=1, task=0, attempt=1, outcome=TaskAttemptOutcome.WALLTIME, **off_beta)
    do(CampaignCyclePlan(ended=(overran,), again=(again,)))
    grid.ledger = (
        RootLedgerArray(number=1, cluster="beta", tasks=((0, 1), (1, 1)), job_id=71),
        RootLedgerArray(number=2, cluster="gamma", tasks=((2, 1),), job_id=44),
    )
    grid.failing["submit"] = ArrayTasksAlreadyInLedger("array 2 has other tasks")

    kinds = (TaskCountByExclusions(tasks=1, **off_beta),)
    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="gamma", tasks=1, kept_off=kinds),)))

    assert campaigns.waiting_of(1) == (WaitingTaskRange(first=0, last=0, attempt=2, **off_beta),)


def told_of(campaigns: CampaignRows) -> set[tuple[CampaignEventCode, str, int, int]]:
    """Return the open events: what, where, how many tasks, how many probes."""
    events = EventAndSuccessRecordRows(campaigns._database).open()
    return {(one.code, one.cluster, one.tasks, one.probes) for one in events}


def whys(campaigns: CampaignRows) -> set[str]:
    """Return why the open events are."""
    return {one.why for one in EventAndSuccessRecordRows(campaigns._database).open()}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("no such\nqueue", "no such queue"),
        ("gridbridge-as-user: c.1: nothing is done as uid 0", "nothing is done as uid 0"),
        ("\x1b[1mno", "\N{REPLACEMENT CHARACTER}[1mno"),
        (f"no{'x' * 300}", f"no{'x' * 195}..."),
    ],
    ids=["lines", "root's", "terminal", "long"],
)
def test_why_is_one_short_line_for_everybodys_terminal(said: str, why: str) -> None:
    assert one_line_error_message(PermanentArrayRefusal(said)) == why


def test_a_task_that_runs_again_waits_with_its_next_attempt(
    campaigns: CampaignRows, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """It has not ended, so that it is not counted."""
    do(SEND)
    first, second = (
        TaskAttempt(campaign=1, task=n, attempt=1, array=1, place=n + 1, outcome=outcome)
        for n, outcome in enumerate((TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.RESUBMIT))
    )

    again = TaskRetry(campaign=1, task=1, attempt=1, outcome=TaskAttemptOutcome.RESUBMIT)
    do(CampaignCyclePlan(ended=(first, second), again=(again,), over=(only(campaigns),)))
    do(SEND)

    found = campaigns.find(1)
    assert found
    assert (found.ended, found.failed) == (1, 0)
    sent = campaigns.pending(only(campaigns))
    assert [(one.task, one.attempt) for one in sent] == [(1, 2), (2, 1)]


def test_what_was_noted_before_a_kill_is_counted_once(
    campaigns: CampaignRows, grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many ends take several transactions; the next cycle notes those that are left."""
    array = campaigns.add_array(1, "beta", [(task, 1) for task in range(ENDS_PER_TRANSACTION + 2)], NOON)
    learnt = CycleStatisticsRecorder(campaigns.database)
    act = CampaignPlanExecutor(campaigns.database, learnt, Clock(), CampaignFailuresSection(), grid)
    with monkeypatch.context() as killed:
        killed.setattr(learnt, "keep", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            act.do(CampaignCyclePlan(ended=succeeded(campaigns, array), over=(array,)))
    left = succeeded(campaigns, array)
    act.do(CampaignCyclePlan(ended=left, over=(array,)))

    assert len(left) == 2
    assert campaigns.open_arrays() == ()
    found = campaigns.find(1)
    assert found
    assert (found.ended, found.failed) == (ENDS_PER_TRANSACTION + 2, 0)


def succeeded(campaigns: CampaignRows, array: CampaignArray) -> tuple[TaskAttempt, ...]:
    """Return the attempts of an array that are not noted as ended, all successes."""
    return tuple(replace(one, outcome=TaskAttemptOutcome.SUCCESS) for one in campaigns.pending(array))


@pytest.mark.parametrize(
    ("fails", "known", "left"),
    [
        pytest.param("", 71, [71], id="it may run"),
        pytest.param("release", 71, [71], id="it may run: no answer came to its release"),
        pytest.param("submit", 71, [71], id="it may run: no answer came to its submission"),
        pytest.param("submit", 0, [], id="it was never submitted"),
    ],
)
def test_an_array_of_a_cancelled_campaign_is_deleted(
    campaigns: CampaignRows,
    grid: Grid,
    do: Callable[[CampaignCyclePlan], None],
    fails: str,
    known: int,
    left: list[int],
) -> None:
    """What may run, or have run, is waited for until its cluster tells the end."""
    grid.failing = {fails: GridbridgeError("no answer")}
    do(SEND)
    noted = RootLedgerArray(number=1, cluster="beta", tasks=((0, 1), (1, 1)), job_id=known)
    grid.ledger = (noted,) if known else ()

    do(CampaignCyclePlan(deleted=(only(campaigns),)))

    assert grid.told[-1].startswith("delete 1")
    assert [one.job_id for one in campaigns.open_arrays()] == left
    assert all(one.state is ArraySubmissionState.RELEASED for one in campaigns.open_arrays())


def test_what_root_knows_more_of_is_taken_over_before_anything_is_sent(
    campaigns: CampaignRows, grid: Grid, do: Callable[[CampaignCyclePlan], None]
) -> None:
    """A task that was moved since the backup is waited for where it went, not where it was."""
    do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=2),)))
    grid.ledger = (
        RootLedgerArray(number=1, cluster="beta", tasks=((0, 1), (1, 1)), job_id=71),
        RootLedgerArray(number=2, cluster="gamma", tasks=((1, 2),), job_id=44),
    )
    grid.told.clear()

    do(CampaignCyclePlan(behind=(1,), sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=1),)))

    first, second = campaigns.open_arrays()
    assert (second.number, second.cluster, second.job_id) == (2, "gamma", 44)
    assert [(one.task, one.attempt) for one in campaigns.pending(first)] == [(0, 1)]
    assert [(one.task, one.attempt) for one in campaigns.pending(second)] == [(1, 2)]
    assert grid.told == []
    assert told_of(campaigns) == {(CampaignEventCode.RESTORED, "", 0, 0)}


@pytest.mark.parametrize(
    ("found", "expected"), [(0, []), (71, [(ArraySubmissionState.RELEASED, 71)])], ids=["never there", "there"]
)
def test_an_array_of_an_owner_without_account_is_deleted_by_the_service(
    campaigns: CampaignRows, grid: Grid, found: int, expected: list[tuple[ArraySubmissionState, int]]
) -> None:
    """One that was intended and never submitted is over by that: its campaign can end."""
    array = campaigns.intend(1, "beta", 1, NOON)
    assert array
    grid.failing["delete"] = OwnerAccountGone("uid 1000 has no account")
    asked = list[CampaignArray]()

    def for_nobody(one: CampaignArray) -> int:
        asked.append(one)
        return found

    database = campaigns.database
    learnt = CycleStatisticsRecorder(database)
    act = CampaignPlanExecutor(database, learnt, Clock(), CampaignFailuresSection(), grid, ownerless=for_nobody)
    act.do(CampaignCyclePlan(deleted=(array,)))

    assert asked == [array]
    assert [(one.state, one.job_id) for one in campaigns.open_arrays()] == expected
