"""The state of a job at home, described in sentences."""

from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.decisions.site.home_job_description import MOST_TOLD, NOT_TOLD, describe_home_job_state
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ListedJobStatus
from gridbridge.model.job_and_queue_states import JobState, JobStateFact

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SINCE = NOON - timedelta(minutes=5)


def row(*facts: str, text: str, tasks: tuple[range, ...] = (), queue: str = "") -> ClusterJobListRow:
    state = JobState(facts, text)
    return ClusterJobListRow(job_id=12, name="n", owner="alice", state=state, since=SINCE, tasks=tasks, queue=queue)


def told(*rows: ClusterJobListRow, errors: tuple[str, ...] = (), hindrances: tuple[str, ...] = ()) -> list[str]:
    job = ListedJobStatus(job_id=12, owner="alice", rows=rows, errors=errors, hindrances=hindrances)
    return [*describe_home_job_state(job, NOON)]


def test_a_waiting_job_is_described_with_the_first_scheduler_messages() -> None:
    many = tuple(f"queue {number} is full" for number in range(MOST_TOLD + 2))

    assert told(row(JobStateFact.WAITING, text="qw"), hindrances=many) == [
        "the job waits for 5 min (qw)",
        *(f"the job can't start: {each}" for each in many[:MOST_TOLD]),
        "2 more reasons: qstat -j 12",
    ]
    assert told(row(JobStateFact.WAITING, text="qw")) == ["the job waits for 5 min (qw)", NOT_TOLD]


def test_a_held_job_is_described_with_the_command_that_releases_it() -> None:
    assert told(row(JobStateFact.WAITING, JobStateFact.HELD, text="hqw")) == [
        "the job waits, held for 5 min (hqw)",
        "qrls 12 ends a user's hold; qstat -j 12 names the jobs that this job waits for",
    ]


def test_equal_errors_of_array_tasks_are_described_once() -> None:
    error = "can't chdir to /nonexistent"
    state = row(JobStateFact.WAITING, JobStateFact.ERROR, text="Eqw", tasks=(range(1, 3),))

    assert told(state, errors=(error, error)) == [
        "2 tasks (1 to 2) are in error state for 5 min (Eqw)",
        f"error: {error}",
        "qmod -cj 12 clears the error, and Grid Engine tries the job again",
    ]


@pytest.mark.parametrize(
    ("facts", "text", "tasks", "sentence"),
    [
        ((JobStateFact.RUNNING,), "r", (), "the job runs in all.q@n1 for 5 min (r)"),
        ((JobStateFact.RUNNING,), "r", (range(3, 4),), "task 3 runs in all.q@n1 for 5 min (r)"),
        ((JobStateFact.RUNNING, JobStateFact.SUSPENDED), "s", (), "the job is suspended in all.q@n1 for 5 min (s)"),
        (
            (JobStateFact.RUNNING, JobStateFact.DELETING),
            "dr",
            (),
            "the job is being deleted in all.q@n1 for 5 min (dr)",
        ),
        ((JobStateFact.UNKNOWN,), "?", (), "the job is in an unknown state in all.q@n1 for 5 min (?)"),
    ],
)
def test_a_running_job_is_described_in_one_sentence(
    facts: tuple[str, ...], text: str, tasks: tuple[range, ...], sentence: str
) -> None:
    assert told(row(*facts, text=text, tasks=tasks, queue="all.q@n1")) == [sentence]
