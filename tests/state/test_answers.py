"""A cluster's last query result in the state file, and the folder of published files."""

import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.model.cluster_snapshot import ClusterJobListRow, QueueInstanceStatus
from gridbridge.model.job_and_queue_states import JobState, JobStateFact, QueueInstanceState, QueueStartBlocker
from gridbridge.state import drains, published_files
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
    known = {"place": "0.1.0 there", "asked_at": NOON, "every_s": 5.0, "content": content}
    return LastClusterQueryResult(**known | other)  # type: ignore[arg-type]


def test_a_cluster_snapshot_is_equal_after_encoding_and_decoding() -> None:
    assert decode_cluster_snapshot(encode_cluster_snapshot(SEEN, {7, 8}), "beta", NOON) == SEEN
    assert decode_cluster_snapshot(encode_cluster_snapshot(SEEN, {7}), "beta", NOON).jobs.keys() == {7}


def test_the_last_query_result_of_each_cluster_is_stored(answers: LastClusterQueryRows) -> None:
    covers = frozenset({"3.1", "3.12"})
    answers.store_last_query_result("beta", answer(b"old"))
    answers.store_last_query_result("beta", answer(covers=covers))
    answers.store_last_query_result("gamma", answer(b"", trouble="refused: é"))

    assert answers.find_last_query_result("beta") == answer(covers=covers)
    assert answers.find_last_query_result("gamma") == answer(b"", trouble="refused: é")
    assert answers.find_last_query_result("delta") is None


def test_unchanged_content_of_a_query_result_is_not_written_again(
    answers: LastClusterQueryRows, tmp_path: Path
) -> None:
    answers.store_last_query_result("beta", answer())
    with sqlite3.connect(tmp_path / "state.db") as file:
        file.execute("UPDATE answer_contents SET content = ?", (b"untouched",))
    answers.store_last_query_result("beta", answer(every_s=9.0))

    assert answers.find_last_query_result("beta") == answer(b"untouched", every_s=9.0)


def test_storing_a_query_result_of_100_000_tasks_takes_less_than_half_a_second(answers: LastClusterQueryRows) -> None:
    """The state file is locked meanwhile."""
    rows = tuple(replace(RUNNING, tasks=(range(n, n + 1),)) for n in range(1, MANY + 1))
    content = encode_cluster_snapshot(replace(SEEN, jobs={7: rows}), {7})
    began = time.process_time()
    answers.store_last_query_result("beta", answer(content))
    took_s = time.process_time() - began
    found = answers.find_last_query_result("beta")

    assert len(decode_cluster_snapshot(found.content, "beta", NOON).jobs[7]) == MANY
    assert len(content) < 20 * MANY
    assert took_s < 0.5


def test_the_umask_does_not_change_the_modes_of_published_folders(tmp_path: Path) -> None:
    """A service that an administrator starts has the administrator's umask."""
    before = os.umask(0o077)
    try:
        published_files.publish_file(str(tmp_path / "a/b/file"), b"", published_files.UNLISTED)
        drains.make_cluster_drains_folder(str(tmp_path / "c"))
    finally:
        os.umask(before)

    modes = {name: oct((tmp_path / name).stat().st_mode & 0o777) for name in ("a", "a/b", "c")}
    assert modes == {"a": "0o755", "a/b": "0o711", "c": "0o755"}
    assert (tmp_path / "c/drained").stat().st_mode & 0o777 == 0o755
