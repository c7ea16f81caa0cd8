"""The last answer of a cluster, as all programs of the service read it in the state file."""

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.model.cluster_snapshot import ClusterJobListRow, QueueInstanceStatus
from gridbridge.model.job_and_queue_states import JobState, JobStateFact, QueueInstanceState, QueueStartBlocker
from gridbridge.state.cluster_query_tables import (
    LastClusterQueryResult,
    LastClusterQueryRows,
    decode_cluster_snapshot,
    encode_cluster_snapshot,
)
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import made_snapshot

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MANY = 100_000
WAITING = ClusterJobListRow(
    job_id=7,
    tasks=(range(3, 9), range(10, 20, 2)),
    name="campaign.1",
    owner="al\udce9ce",
    state=JobState([JobStateFact.WAITING, JobStateFact.HELD], "h qw"),
)
RUNNING = replace(
    WAITING, tasks=(range(1, 2),), state=JobState([JobStateFact.RUNNING], "r"), queue="all.q@n1", since=NOON, slots=4
)
QUEUE = QueueInstanceStatus(
    name="all.q@n1",
    slots_used=1,
    slots_reserved=2,
    slots_total=30,
    state=QueueInstanceState([QueueStartBlocker.LOADED], "a"),
    takes_batch=False,
    is_besteffort=True,
    slots_yielding=1,
)
SEEN = made_snapshot(
    queues=(QUEUE, replace(QUEUE, name="b@n1", state=QueueInstanceState(), says_stay=True)),
    jobs={7: (RUNNING, WAITING), 8: (replace(WAITING, job_id=8, tasks=()),)},
    pending=5,
    free_slots=6,
)


@pytest.fixture(name="answers")
def _answers(tmp_path: Path) -> Iterator[LastClusterQueryRows]:
    database = StateFile.open(f"sqlite:///{tmp_path}/state.db")
    yield LastClusterQueryRows(database)
    database.close()


def answer(content: bytes = b"rows", **other: object) -> LastClusterQueryResult:
    """Return an answer that lists something."""
    known = {"place": "0.1.0 there", "asked_at": NOON, "every_s": 5.0, "content": content}
    return LastClusterQueryResult(**known | other)  # type: ignore[arg-type]


def test_what_is_written_is_read_again() -> None:
    assert decode_cluster_snapshot(encode_cluster_snapshot(SEEN, {7, 8}), "beta", NOON) == SEEN
    assert decode_cluster_snapshot(encode_cluster_snapshot(SEEN, {7}), "beta", NOON).jobs.keys() == {7}


def test_the_last_answer_is_kept(answers: LastClusterQueryRows) -> None:
    covers = frozenset({"3.1", "3.12"})
    answers.put("beta", answer(b"old"))
    answers.put("beta", answer(covers=covers))
    answers.put("gamma", answer(b"", trouble="refused: é"))

    assert answers.find("beta") == answer(covers=covers)
    assert answers.find("gamma") == answer(b"", trouble="refused: é")
    assert answers.find("delta") is None


def test_a_list_that_stays_the_same_is_not_written_again(answers: LastClusterQueryRows, tmp_path: Path) -> None:
    answers.put("beta", answer())
    with sqlite3.connect(tmp_path / "state.db") as file:
        file.execute("UPDATE answer_contents SET content = ?", (b"untouched",))
    answers.put("beta", answer(every_s=9.0))

    assert answers.find("beta") == answer(b"untouched", every_s=9.0)


def test_an_answer_about_many_tasks_is_cheap(answers: LastClusterQueryRows) -> None:
    """A row for each of 100,000 tasks: no lock is held for half a second."""
    rows = tuple(replace(RUNNING, tasks=(range(n, n + 1),)) for n in range(1, MANY + 1))
    content = encode_cluster_snapshot(replace(SEEN, jobs={7: rows}), {7})
    began = time.process_time()
    answers.put("beta", answer(content))
    took_s = time.process_time() - began
    found = answers.find("beta")

    assert len(decode_cluster_snapshot(found.content, "beta", NOON).jobs[7]) == MANY
    assert len(content) < 20 * MANY
    assert took_s < 0.5
