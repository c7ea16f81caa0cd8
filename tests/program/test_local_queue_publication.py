"""The queues that send no jobs on are published as they were last observed."""

from datetime import UTC, datetime
from pathlib import Path

from gridbridge.model.cluster_snapshot import ClusterSnapshot, QueueInstanceStatus
from gridbridge.program import cluster_observer
from gridbridge.state import published_file_formats

NOW = datetime.now(UTC)

BACK = QueueInstanceStatus(name="transfer-alpha@b", slots_used=0, slots_reserved=0, slots_total=2, sends_away=True)
ALL_Q = QueueInstanceStatus(name="all.q@b", slots_used=0, slots_reserved=0, slots_total=2, says_stay=True)


def seen(*queues: QueueInstanceStatus) -> ClusterSnapshot:
    return ClusterSnapshot(cluster="beta", taken_at=NOW, queues=queues, jobs={}, pending=0, free_slots=0)


def test_a_file_written_from_an_older_answer_is_corrected(tmp_path: Path) -> None:
    """Poller and runner both write the file."""
    folder = str(tmp_path)
    for queues in ((ALL_Q, BACK), (ALL_Q,), (ALL_Q, BACK)):
        cluster_observer.publish_local_only_queues(seen(*queues), folder=folder)

    assert published_file_formats.read_non_forwarding_queues("beta", folder) == b"queues=all.q\nall_say=yes\n"


def test_local_only_queues_are_written_only_after_a_change(tmp_path: Path) -> None:
    cluster_observer.publish_local_only_queues(seen(ALL_Q, BACK), folder=str(tmp_path))
    before = (tmp_path / "stays/beta").stat().st_ino
    cluster_observer.publish_local_only_queues(seen(ALL_Q, BACK), folder=str(tmp_path))

    assert before == (tmp_path / "stays/beta").stat().st_ino
