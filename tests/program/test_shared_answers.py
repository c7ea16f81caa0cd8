"""A program may use another program's recent answer or publication instead of querying a cluster itself."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.model.cluster_snapshot import (
    CampaignJobsSentBeforeListing,
    ClusterJobListRow,
    ClusterSnapshot,
    QueueInstanceStatus,
)
from gridbridge.model.job_and_queue_states import UNSEEN
from gridbridge.model.transfer_route import (
    GridEngineCellAccessSettings,
    OarServerAccessSettings,
    parse_ssh_login_address,
)
from gridbridge.program import cluster_observer
from gridbridge.shell.clock import Clock
from gridbridge.state import published_file_formats
from gridbridge.state.cluster_query_tables import LastClusterQueryResult
from gridbridge.state.state_file import StateFile

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SENT = CampaignJobsSentBeforeListing(jobs=frozenset({7}), released=frozenset({"3.1"}), is_watched=True)
ROW = ClusterJobListRow(job_id=7, name="campaign.3", owner="alice", state=UNSEEN)
SEEN = ClusterSnapshot(cluster="beta", taken_at=NOON, jobs={7: (ROW,)}, pending=0, free_slots=4)
LIMIT_S = 5.0


class Site:
    def __init__(self, path: Path) -> None:
        self.path = f"sqlite:///{path}/state.db"
        self.after_s = 1.0
        self.clock = Clock(lambda: NOON.timestamp() + self.after_s)
        self.database = StateFile.open(self.path)
        self.sharing = cluster_observer.ClusterSnapshotSharing(self.database, self.clock)

    def put(
        self, seen: ClusterSnapshot | None = SEEN, sent: CampaignJobsSentBeforeListing = SENT, **other: object
    ) -> None:
        known = {"every_s": 0.0, "location": "there", "trouble": ""} | other
        self.sharing.share_query_result(
            "beta", cluster_observer.query_result_to_share(seen, sent, now=self.clock.now(), **known)
        )  # type: ignore[arg-type]

    def find(self, *released: str, location: str = "there") -> cluster_observer.SharedClusterSnapshot | None:
        return self.sharing.find_recent_snapshot("beta", location, frozenset(released), LIMIT_S)


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.database.close()


def test_a_recent_shared_answer_is_used(site: Site) -> None:
    nobody_asked = site.find()
    site.put()

    assert nobody_asked is None
    assert site.find("3.1") == cluster_observer.SharedClusterSnapshot(snapshot=SEEN)
    assert site.find() == cluster_observer.SharedClusterSnapshot(snapshot=SEEN)


@pytest.mark.parametrize(
    ("after_s", "every_s", "is_taken"),
    [(4.9, 0, True), (5, 0, False), (7, 8, True), (8, 8, False), (-0.5, 0, True), (-9, 0, False)],
    ids=["young", "old", "the next is due later", "the next is late", "slewed", "clock set back"],
)
def test_a_shared_answer_expires_by_age_or_interval(site: Site, after_s: float, every_s: float, is_taken: bool) -> None:
    site.put(every_s=every_s)
    site.after_s = after_s

    found = site.find("3.1")

    assert (found is not None) is is_taken
    assert not found or found.is_regular is bool(every_s)


def test_an_answer_of_another_location_or_before_an_array_was_released_is_not_used(site: Site) -> None:
    site.put()

    assert site.find("3.1", location="elsewhere") is None
    assert site.find("3.1", "3.2") is None


def test_a_shared_failure_is_no_empty_job_list(site: Site) -> None:
    site.put(None, trouble="refused")

    assert site.find("3.1") == cluster_observer.SharedClusterSnapshot(trouble="refused")


def test_an_unreadable_answer_or_that_of_a_dry_run_is_not_used(site: Site) -> None:
    odd = LastClusterQueryResult(place="there", asked_at=NOON, every_s=0, covers=SENT.released, content=b"no such form")
    site.sharing.share_query_result("beta", odd)
    unreadable = site.find("3.1")
    cluster_observer.ClusterSnapshotSharing(site.database, site.clock, is_dry=True).share_query_result(
        "beta", cluster_observer.query_result_to_share(SEEN, SENT, "there", NOON)
    )

    assert (unreadable, site.find("3.1")) == (None, None)


def test_a_query_is_identified_by_all_of_its_parameters() -> None:
    def cell(port: str, host: str = "") -> GridEngineCellAccessSettings:
        login = parse_ssh_login_address(host, "me")
        ports = {"qmaster_port": port, "execd_port": "2"}
        return GridEngineCellAccessSettings(root="/r", cell="b", binaries="/bin", timeout_s=1, login=login, **ports)

    identify, queues = cluster_observer.identify_cluster_query, ("transfer-a",)
    others = [
        *(identify(cell("2"), queues), identify(cell("1", "h"), queues), identify(cell("1"), ())),
        identify(OarServerAccessSettings(timeout_s=1), queues),
    ]

    assert identify(cell("1"), queues) == identify(cell("1"), queues)
    assert identify(cell("1"), queues) not in others
    assert len(set(others)) == 4


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
