"""gridbridge why explains campaigns and their tasks by the numbers of the last cycle."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.campaigns.cli.campaign_explanation import ORDERS, SENTENCES
from gridbridge.campaigns.store import published_campaign_files
from gridbridge.cli.main import gridbridge
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject, PublishedCampaignEvents
from gridbridge.model.campaigns.campaign_predecessors import (
    AwaitedPredecessor,
    PredecessorCondition,
    PredecessorProgress,
)
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointCarryState
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    PublishedCampaign,
    PublishedCampaignList,
    PublishedCampaignTask,
    RebalancedTaskAttempt,
    TaskCheckpoint,
    TaskPreemption,
)
from gridbridge.model.campaigns.send_reasons import (
    CampaignPrecedenceReason,
    PublishedTaskSendExplanations,
    TaskSendExplanation,
    TaskSentOrUnsentCause,
)
from gridbridge.model.campaigns.speculative_attempts import PublishedCompetingAttempt
from gridbridge.site.cli import why_command
from gridbridge.site.cli.why_command import UntransferredHomeJob
from tests.builders.campaigns import made_event
from tests.site.cli.test_check_command import SWEEP as PUBLISHED_SWEEP
from tests.site.cli.test_check_command import publish

pytestmark = pytest.mark.usefixtures("utc")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SWEEP = replace(PUBLISHED_SWEEP, owner="alice", clusters=("beta", "gamma"), failed=1, waiting=15)
SENT = PublishedCampaignTask(number=0, attempt=1, is_waiting=False, cluster="beta", job_id=31, place=4)
REASONS = (
    TaskSendExplanation(campaign=7, cluster="beta", cause=TaskSentOrUnsentCause.FULL, free_slots=1, slots=2),
    TaskSendExplanation(campaign=7, cluster="gamma", cause=TaskSentOrUnsentCause.NO_ANSWER),
    TaskSendExplanation(campaign=8, cluster="gamma", cause=TaskSentOrUnsentCause.NO_ANSWER),
)
AT_BETA = {"campaign": 7, "cluster": "beta", "tasks": 1}
EXIT_ERROR = made_event(kind=CampaignEventSubject.TASK, code=CampaignEventCode.EXIT_ERROR, **AT_BETA)
WAITS = [
    "  beta: 1 slot was free, and a task needs 2; a job must end first"
    " (0 tasks of campaigns wait there, and 0 more may wait)",
    "  gamma: the cluster did not answer; tasks are sent after the cluster answers",
]


def why(published: Path, *options: str) -> Result:
    argv = ["why", *options, "--published", str(published)]
    return CliRunner().invoke(gridbridge, argv, standalone_mode=False)


@pytest.fixture(name="published")
def _published(tmp_path: Path) -> Path:
    show(tmp_path, SWEEP)
    ended = replace(SENT, number=1, outcome=TaskAttemptOutcome.PROGRAM_ERROR, exit_status=3)
    left = TaskCheckpoint(attempt=1, cluster="beta")
    again = replace(SENT, number=2, outcome=TaskAttemptOutcome.PREEMPTED, is_waiting=True, checkpoint=left)
    way = TaskPreemption(attempt=1, cluster="beta", job=57, lacked=("lic", "mem"))
    third = replace(SENT, number=3, attempt=2, made_way=(way,), checkpoint=left)
    moves = (
        RebalancedTaskAttempt(attempt=1, cluster="beta", to="gamma"),
        RebalancedTaskAttempt(attempt=2, cluster="gamma"),
    )
    fourth = replace(SENT, number=4, attempt=2, outcome=TaskAttemptOutcome.MOVED, moved=moves)
    published_campaign_files.publish_campaign_task_file(7, 0, (SENT, ended, again, third, fourth), str(tmp_path))
    publish(PublishedTaskSendExplanations(at=NOON, reasons=REASONS), tmp_path)
    return tmp_path


def show(published: Path, one: PublishedCampaign) -> None:
    publish(PublishedCampaignList(at=NOON, campaigns=(one,)), published)


def test_why_of_a_recent_cycle_does_not_suspect_the_runner(published: Path) -> None:
    publish(PublishedTaskSendExplanations(at=datetime.now(UTC), reasons=REASONS), published)

    assert "may not run" not in why(published, "7").output


def test_why_of_a_campaign_explains_each_cluster(published: Path) -> None:
    lines = why(published, "7").output.splitlines()

    assert lines == [
        "campaign 7 of alice, sweep (as of 2026-01-01 12:00:00; no cycle since: gridbridge-runner may not run)",
        "  3 of 20 tasks ended, 2 are at clusters or on their way there, 15 wait to be sent",
        *WAITS,
    ]


@pytest.mark.parametrize(
    ("condition", "lines"),
    [
        (PredecessorCondition.OK, ["  waits for campaign 6 (reads): 30 of 100 tasks succeeded"]),
        (
            PredecessorCondition.SAME,
            [
                "  each task waits for the task of the same number of campaign 6 (reads): 30 of 100 tasks succeeded",
                *WAITS,
            ],
        ),
    ],
)
def test_why_tells_for_which_campaign_tasks_wait(
    published: Path, condition: PredecessorCondition, lines: list[str]
) -> None:
    reads = PredecessorProgress(number=6, name="reads", tasks=100, succeeded=30, is_unfinished=True)
    show(published, replace(SWEEP, unmet=(AwaitedPredecessor(condition=condition, progress=reads),)))

    assert lines == why(published, "7").output.splitlines()[2:]


AT_JOB, ENDED = "  the task was sent to beta: job 31, task 4", "  the task ended at beta (job 31, task 4)"
LEFT = "  attempt 1 left a checkpoint at beta, from which the next attempt"
SHOWN_BY = "  gridstat -j 7.1 -E shows the task's standard error to the owner"


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("7.0", [AT_JOB]),
        ("7.1", [f"{ENDED}: program_error, exit status 3", SHOWN_BY]),
        (
            "7.2",
            [
                "  the task waits to be sent (attempt 1 ended as preempted)",
                *WAITS,
                f"{LEFT} continues at this cluster, and is sent before other tasks",
            ],
        ),
        ("7.3", [AT_JOB, "  attempt 1 was preempted at beta for job 57, which lacked lic, mem", f"{LEFT} continued"]),
        (
            "7.4",
            [
                f"{ENDED}: moved",
                "  attempt 1 was moved from beta, where it waited: the next attempt went to gamma",
                "  attempt 2 was moved from gamma, where it waited: the task is sent again",
            ],
        ),
        ("7.19", ["  the task waits to be sent", *WAITS]),
    ],
)
def test_why_of_a_task_explains_its_last_attempt(published: Path, task: str, told: list[str]) -> None:
    """Tasks are numbered from 0, as in CIGRI_JOB_ID."""
    assert why(published, task).output.splitlines()[1:] == told


HERE = "at this cluster, and is sent before other tasks"
HERE_OR_THERE = "at this cluster or at gamma, and is sent before other tasks"


@pytest.mark.parametrize(
    ("state", "where", "verb"),
    [
        (CheckpointCarryState.ALLOWED, HERE_OR_THERE, "may be carried"),
        (CheckpointCarryState.CARRIED, HERE_OR_THERE, "was carried"),
        (CheckpointCarryState.OVER, HERE_OR_THERE, "was carried"),
        (CheckpointCarryState.FAILED, HERE, "could not be carried"),
    ],
)
def test_why_of_a_task_tells_both_times_that_decide_on_a_carry(
    published: Path, state: CheckpointCarryState, where: str, verb: str
) -> None:
    left = TaskCheckpoint(attempt=1, cluster="beta", to="gamma", carry_s=15, lost_s=600, state=state)
    task = replace(SENT, outcome=TaskAttemptOutcome.PREEMPTED, is_waiting=True, checkpoint=left)
    published_campaign_files.publish_campaign_task_file(7, 0, (task,), str(published))

    times = "the carry takes about 15 s, and without the carry about 600 s are lost"
    expected = [f"{LEFT} continues {where}", f"  the checkpoint {verb} to gamma: {times}"]
    assert expected == why(published, "7.0").output.splitlines()[-2:]


@pytest.mark.parametrize(
    ("state", "clusters", "sentence"),
    [
        (CampaignState.PAUSED, (), "paused; griddel -r resumes the campaign"),
        (CampaignState.CANCELLED, (), "cancelled"),
        (CampaignState.CANCELLED, ("beta", "gamma"), "being cancelled: tasks at beta, gamma have not ended yet"),
    ],
)
def test_why_of_a_paused_or_cancelled_campaign_names_only_clusters_with_unfinished_tasks(
    published: Path, state: CampaignState, clusters: tuple[str, ...], sentence: str
) -> None:
    show(published, replace(SWEEP, state=state, ending_at=clusters))

    assert why(published, "7").output.splitlines()[2:] == [f"  the campaign is {sentence}"]


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (CampaignState.TERMINATED, ["  campaign 7 has ended"]),
        (CampaignState.PAUSED, ["  campaign 7 is paused; griddel -r resumes the campaign"]),
    ],
)
def test_why_of_a_task_names_the_campaign_that_ended_or_is_paused(
    published: Path, state: CampaignState, told: list[str]
) -> None:
    show(published, replace(SWEEP, state=state))

    lines = why(published, "7.0").output.splitlines()

    assert [line for line in lines if "campaign 7" in line][-1:] == told


def test_why_of_failed_tasks_names_the_command_that_retries_them(published: Path) -> None:
    """`gridevents` retries the tasks of open events; afterwards gridsub submits a new campaign."""
    told = "  1 task failed: gridstat 7 --failed shows how, and "
    show(published, replace(SWEEP, state=CampaignState.TERMINATED, waiting=0))
    events = PublishedCampaignEvents(at=NOON, events=(EXIT_ERROR,))

    assert why(published, "7").output.splitlines()[-1] == (
        f"{told}gridsub --retry-failed 7 submits them as a new campaign"
    )
    publish(events, published)
    assert why(published, "7").output.splitlines()[-1] == (f"{told}gridevents -c 7 -r retries them")
    refused = replace(
        EXIT_ERROR, kind=CampaignEventSubject.CAMPAIGN, code=CampaignEventCode.FILE_REFUSED, cluster="", tasks=0
    )
    publish(replace(events, events=(EXIT_ERROR, refused)), published)
    assert why(published, "7").output.splitlines()[-1] == told.removesuffix(", and ")


def test_why_of_an_ended_task_shows_only_events_of_its_cluster(published: Path) -> None:
    events = (EXIT_ERROR, replace(EXIT_ERROR, cluster="gamma"))
    publish(PublishedCampaignEvents(at=NOON, events=events), published)

    assert why(published, "7.1").output.splitlines()[2:] == [
        "  event 0, EXIT_ERROR: 1 task failed at beta",
        "  gridstat -j 7.1 -E shows the task's standard error to the owner",
    ]


def test_why_of_a_campaign_before_its_first_cycle_refers_to_the_next_cycle(tmp_path: Path) -> None:
    show(tmp_path, SWEEP)

    assert why(tmp_path, "7").output.splitlines()[2:] == ["  the runner's next cycle decides about the waiting tasks"]


def test_why_json_has_causes_and_sentences(published: Path) -> None:
    found = json.loads(why(published, "7", "--json").output)["campaign"]

    assert [each["cause"] for each in found["reasons"]] == ["full", "no_answer"]
    assert len(found["sentences"]) == 3


@pytest.mark.parametrize("number", ["8", "7.20"])
def test_why_of_an_unknown_campaign_or_task_returns_1(published: Path, number: str) -> None:
    assert getattr(why(published, number).exception, "code", None) == 1


def test_every_cause_of_a_waiting_task_and_every_precedence_reason_has_a_sentence() -> None:
    assert SENTENCES.keys() == set(TaskSentOrUnsentCause)
    assert ORDERS.keys() == set(CampaignPrecedenceReason)


BLACKLIST = replace(EXIT_ERROR, number=5, kind=CampaignEventSubject.CAMPAIGN, code=CampaignEventCode.BLACKLIST, tasks=5)
SILENT = replace(
    BLACKLIST, number=6, kind=CampaignEventSubject.CLUSTER, code=CampaignEventCode.GET_JOBS, campaign=0, cluster="gamma"
)


NIGHTLY = {"cause": TaskSentOrUnsentCause.NIGHT, "starts_from": NOON, "starts_until": NOON + timedelta(hours=1)}
FULL_SERVER = {"cause": TaskSentOrUnsentCause.FILE_SERVER, "storage": "home", "server_tasks": 42, "server_limit": 40}
NO_TASK_ALLOWED = FULL_SERVER | {"server_tasks": 0, "server_limit": 0, "load_target": 10.0}
LIMIT = "the limit at the area's clusters is 40 tasks, and 42 tasks of campaigns are there; a task there must end first"


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ({"cause": TaskSentOrUnsentCause.NO_ANSWER, "cluster": "gamma"}, "since 2026-01-01 12:00 UTC; tasks are"),
        (
            {"cause": TaskSentOrUnsentCause.CLOSED, "code": CampaignEventCode.BLACKLIST},
            "closed to the campaign by BLACKLIST, event 5; gridevents -e 5 -f opens the cluster again",
        ),
        (
            {"cause": TaskSentOrUnsentCause.CLOSED, "code": CampaignEventCode.SUBMIT_JOB, "until": NOON},
            "closed to the campaign by SUBMIT_JOB; the runner tries one task after 2026-01-01 12:00:00 UTC",
        ),
        (
            {"cause": TaskSentOrUnsentCause.STRESSED, "stress": 0.9, "stress_limit": 0.8},
            "the cluster's stress script prints 0.9; tasks are sent there while the number is below 0.8",
        ),
        ({"cause": TaskSentOrUnsentCause.STRESSED, "stress_limit": 0.8}, "prints no number"),
        (
            {"cause": TaskSentOrUnsentCause.JOB_RATIO, "free_slots": 4, "job_ratio": 0.25, "waiting": 1},
            "4 slots were free, and the job ratio is 0.25, so 1 task that waits there is enough",
        ),
        (
            {"cause": TaskSentOrUnsentCause.OTHERS_FIRST, "free_slots": 4, "order": CampaignPrecedenceReason.PRIORITY}
            | {"before": (3, 4), "own": 1, "theirs": 5},
            "4 slots were free, but campaigns 3, 4 came first, with priority 5 above 1; this campaign gets",
        ),
        (
            {"cause": TaskSentOrUnsentCause.OTHERS_FIRST, "free_slots": 1}
            | {"order": CampaignPrecedenceReason.AGE, "before": (10,)},
            "1 slot was free, but campaign 10 came first, which is older; this campaign gets the remaining slots",
        ),
        (
            {"cause": TaskSentOrUnsentCause.OTHERS_FIRST, "free_slots": 4},
            "4 slots were free, but other campaigns come first",
        ),
        (
            {"cause": TaskSentOrUnsentCause.TOO_LARGE, "slots": 9, "all_slots": 4},
            "a task needs 9 slots, and the whole cluster has 4; request fewer slots",
        ),
        (NIGHTLY, "nightly tasks start from 2026-01-01 12:00 until 2026-01-01 13:00 UTC, to end in the night"),
        ({"cause": TaskSentOrUnsentCause.NIGHT}, "no night of the cluster is as long as the walltime"),
        (
            {"cause": TaskSentOrUnsentCause.FIRST_TASKS, "first_tasks": 5, "succeeded": 2},
            "2 of the first tasks have succeeded; the remaining tasks are sent after 5 (first_tasks)",
        ),
        ({"cause": TaskSentOrUnsentCause.MAX_PARALLEL, "max_parallel": 5}, "has max_parallel = 5 tasks at clusters"),
        (FULL_SERVER | {"load": 12.5, "load_target": 10.0}, f"home is 12.5, the target is 10, so {LIMIT}"),
        (FULL_SERVER | {"load_at": NOON, "load_target": 10.0}, f"no load since 2026-01-01 12:00:00 UTC, so {LIMIT}"),
        (NO_TASK_ALLOWED, "there; the program must print a load first"),
        (NO_TASK_ALLOWED | {"load": 99.0}, "there; the load must fall first"),
        (FULL_SERVER, "max_jobs of the storage area home is 40, and 42 tasks of campaigns are there"),
    ],
    ids=[
        *("silent", "blacklist", "probed", "stressed", "no stress", "ratio", "priority", "older", "others"),
        *(
            "too large",
            "nightly",
            "too long for a night",
            "first tasks",
            "max_parallel",
            "load",
            "no load",
            "no load and no task",
            "high load without a task",
            "max_jobs of a storage area",
        ),
    ],
)
def test_why_names_the_cause_of_waiting_and_its_remedy(published: Path, reason: dict[str, object], told: str) -> None:
    known = {"campaign": 7, "cluster": "beta"} | reason
    publish(PublishedCampaignEvents(at=NOON, events=(BLACKLIST, SILENT)), published)
    cycle = PublishedTaskSendExplanations(at=NOON, reasons=(TaskSendExplanation(**known),))  # type: ignore[arg-type]
    publish(cycle, published)

    lines = why(published, "7.19").output.splitlines()

    assert told in lines[2]
    assert lines[3:] == ["  event 5, BLACKLIST: the last 5 tasks at beta failed by themselves"]


def test_why_of_a_task_shows_competing_attempts_and_their_reason(published: Path) -> None:
    copy = PublishedCompetingAttempt(attempt=2, cluster="gamma", outcome=TaskAttemptOutcome.PENDING, beyond_s=95)
    lost = PublishedCompetingAttempt(attempt=1, cluster="beta", outcome=TaskAttemptOutcome.COPY, beyond_s=None)
    won = replace(SENT, number=1, attempt=2, outcome=TaskAttemptOutcome.SUCCESS, beyond_s=95)
    tasks = (replace(SENT, copies=(copy,)), replace(won, copies=(lost,)))
    published_campaign_files.publish_campaign_task_file(7, 0, tasks, str(published))

    assert why(published, "7.0").output.splitlines()[-1].strip() == (
        "a copy of the task is at gamma (attempt 2), made after the task had run longer than 95 s"
    )
    assert [line.strip() for line in why(published, "7.1").output.splitlines()[-2:]] == [
        "this attempt is a copy, made after the task had run longer than 95 s",
        "another attempt of the task was at beta, and its result did not count (attempt 1)",
    ]


@pytest.mark.parametrize(
    ("number", "jobs", "sentence"),
    [
        (1, 1, "  beta: 1 of the campaign's tasks was sent there; 1 slot was free"),
        (2, 2, "  beta: 2 of the campaign's tasks were sent there; 2 slots were free"),
        (2, 1, "  beta: 2 of the campaign's tasks were sent there in 1 job; 2 slots were free"),
    ],
)
def test_why_counts_tasks_in_singular_and_plural(tmp_path: Path, number: int, jobs: int, sentence: str) -> None:
    one = replace(SWEEP, tasks=number, ended=0, failed=0, waiting=number)
    known = {"cause": TaskSentOrUnsentCause.SENT, "sent": number, "free_slots": number, "jobs": jobs}
    publish(PublishedCampaignList(at=NOON, campaigns=(one,)), tmp_path)
    reason = TaskSendExplanation(campaign=7, cluster="beta", **known)  # type: ignore[arg-type]
    publish(PublishedTaskSendExplanations(at=NOON, reasons=(reason,)), tmp_path)

    lines = why(tmp_path, "7").output.splitlines()

    assert sentence in lines
    ended = "task ended, 1 waits" if number == 1 else "tasks ended, 2 wait"
    assert any(f"0 of {number} {ended} to be sent" in line for line in lines)


def test_why_of_tasks_that_a_cluster_refused_refers_to_the_event(published: Path) -> None:
    refused = replace(BLACKLIST, number=9, code=CampaignEventCode.SUBMIT_JOB, cluster="gamma")
    publish(PublishedCampaignEvents(at=NOON, events=(refused,)), published)
    reason = TaskSendExplanation(campaign=7, cluster="gamma", cause=TaskSentOrUnsentCause.SENT, sent=2, free_slots=2)
    publish(PublishedTaskSendExplanations(at=NOON, reasons=(reason,)), published)

    lines = why(published, "7").output.splitlines()

    assert (
        "  gamma: 2 of the campaign's tasks were to be sent there, and the cluster accepted none: event 9 says why"
        in lines
    )


@pytest.mark.parametrize(
    ("hours", "first"),
    [(1, "job 7 of bob"), (-1, "campaign 7 of alice")],
    ids=["the job is newer", "the campaign is newer"],
)
def test_why_of_a_number_shared_by_job_and_campaign_shows_the_newer_first(
    published: Path, monkeypatch: pytest.MonkeyPatch, hours: int, first: str
) -> None:
    job = UntransferredHomeJob(
        job="7", owner="bob", submitted_at=NOON + timedelta(hours=hours), sentences=("it waits (qw)",)
    )
    monkeypatch.setattr(why_command, "find_untransferred_home_job", lambda *_, **__: job)

    heads = [line for line in why(published, "7").output.splitlines() if line[:1].isalpha()]

    assert heads[0].startswith(first)
    assert {head.partition(" of ")[0] for head in heads} == {"job 7", "campaign 7"}
    known = json.loads(why(published, "7", "--json").output)
    assert (known["home"]["owner"], known["campaign"]["campaign"]["number"]) == ("bob", 7)
