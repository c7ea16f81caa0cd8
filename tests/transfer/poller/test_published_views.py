"""Published files explain each job, and hold no control characters."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.job_and_queue_states import UNSEEN
from gridbridge.model.names_offered_by_cluster import NamesOfferedByCluster
from gridbridge.model.published_status_and_reports import (
    PublishedClusterAnswer,
    PublishedClusterDrain,
    PublishedConfigurationStatus,
    PublishedOpenTransfers,
)
from gridbridge.model.transfer.transfer_config_sections import ProjectMappingRule, QueueMappingRule, ResourceMappingRule
from gridbridge.model.transfer.transfers_and_actions import OwnerSeenInHomeJobList, Transfer, TransferEvent
from gridbridge.model.transfer_messages_in_spool import TransferMessage
from gridbridge.program.cluster_observer import ClusterObserver, ClusterQueryResult
from gridbridge.shell.clock import Clock
from gridbridge.state import drains, published_file_formats, published_json
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher, published_row_with_all_fields
from gridbridge.transfer.poller.transfer_ledger import TaskHistoryPublisher
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.decisions.transfer.test_transfer_policy import a_transfer
from tests.states import job_state
from tests.transfer.poller.messages import policy_to_beta

NOW = datetime.now(UTC)
POLICY = policy_to_beta()
IDENTITY = {"name": "gb.alpha.12.0.1", "remote_id": 34, "phase": "held", "reason": "submitted to beta as 34, held"}
TRANSFER = a_transfer(**IDENTITY, created_at=NOW, updated_at=NOW, local_state=UNSEEN, remote_state=UNSEEN)


@pytest.fixture
def job_history(folder: str, state_file: StateFile) -> TaskHistoryPublisher:
    return TaskHistoryPublisher("alpha", state_file, TransferStatePublisher(POLICY, Clock(), folder))


def texts(folder: str, job: str) -> list[list[str]]:
    """Return the event texts of a job's published histories, a list for each attempt."""
    return [
        [event.text for event in attempt.events]
        for task in published_json.read_transfer_histories_of_job(folder, job)
        for attempt in task.attempts
    ]


def test_an_open_history_is_republished_without_reading_the_state_file_again(
    folder: str, state_file: StateFile, job_history: TaskHistoryPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = TRANSFER.with_changes(name="gb.alpha.12.0.2")
    foreign = TRANSFER.with_changes(name="gb.gamma.12.0.1")

    def tell(one: Transfer, text: str) -> None:
        event = TransferEvent(name=one.name, uid=one.uid, at=NOW, text=text)
        TransferRows(state_file).insert_or_update_transfer(one)
        job_history.update_cached_history(None, one)
        TransferRows(state_file).add_transfer_event(event)
        job_history.add_history_event(event)
        job_history.mark_history_for_publication(one)
        job_history.publish_marked_histories()

    tell(TRANSFER, "first")
    with monkeypatch.context() as unreadable:
        unreadable.setattr(TransferRows, "transfers_of_task", lambda *_: pytest.fail("was read again"))
        tell(again, "second")
        tell(foreign, "elsewhere")
        tell(TRANSFER.with_changes(closed_at=NOW), "over")
        tell(again.with_changes(remote_state=job_state("r")), "third")
    kept = published_json.read_transfer_histories_of_job(folder, "12")
    fresh = TaskHistoryPublisher("alpha", state_file, TransferStatePublisher(POLICY, Clock(), folder))
    fresh.mark_history_for_publication(again)
    fresh.publish_marked_histories()

    assert texts(folder, "12") == [["first", "over"], ["second", "third"]]
    assert published_json.read_transfer_histories_of_job(folder, "12") == kept
    assert [one.transfer.remote_state for one in kept[0].attempts] == ["", "r"]


def test_closed_histories_are_read_from_the_state_file_again(
    folder: str, state_file: StateFile, job_history: TaskHistoryPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    read = TransferRows.transfers_of_task
    monkeypatch.setattr(TransferRows, "transfers_of_task", lambda *of: reads.append(of[1:]) or read(*of))
    for one in (TRANSFER.with_changes(closed_at=NOW), TRANSFER, TRANSFER):
        TransferRows(state_file).insert_or_update_transfer(one)
        job_history.update_cached_history(None, one)
        job_history.mark_history_for_publication(one)
        job_history.publish_marked_histories()
    job_history.sweep_histories(NOW, ())
    job_history.mark_history_for_publication(TRANSFER)
    job_history.publish_marked_histories()

    assert reads == [("alpha", 12, 0)] * 3


def test_an_invisible_change_does_not_rewrite_a_history(
    folder: str, state_file: StateFile, job_history: TaskHistoryPublisher
) -> None:
    TransferRows(state_file).insert_or_update_transfer(TRANSFER)
    job_history.update_cached_history(TRANSFER, TRANSFER.with_changes(seen_at=NOW, missed_polls=1))
    job_history.publish_marked_histories()

    assert texts(folder, "12") == []

    job_history.update_cached_history(TRANSFER, TRANSFER.with_changes(remote_state=job_state("r")))
    job_history.publish_marked_histories()

    assert texts(folder, "12") == [[]]


def test_a_transfer_that_closed_unpublished_is_published_at_the_next_start(
    folder: str, state_file: StateFile, job_history: TaskHistoryPublisher
) -> None:
    TransferStatePublisher(POLICY, Clock(), folder).publish_open_transfers([TRANSFER], {})
    TransferRows(state_file).insert_or_update_transfer(TRANSFER.with_changes(closed_at=datetime.now(UTC)))

    job_history.mark_unpublished_histories()
    job_history.publish_marked_histories()

    (task,) = published_json.read_transfer_histories_of_job(folder, "12")
    assert task.attempts[0].transfer.closed_at is not None


@pytest.mark.parametrize(("listed", "text"), [(OwnerSeenInHomeJobList.YES, "call 555"), ("", "")])
def test_texts_of_a_person_are_published_only_after_the_home_job_list_proves_the_owner(
    folder: str, listed: str, text: str
) -> None:
    told = TRANSFER.with_changes(created_at=datetime.now(UTC), reason="call 555", remote_host="call 555", listed=listed)

    TransferStatePublisher(POLICY, Clock(), folder).publish_open_transfers([told], {})

    (row,) = published_json.read_published_value(
        f"{folder}/{published_json.TRANSFERS}", PublishedOpenTransfers
    ).transfers
    assert (row.owner, row.reason, row.remote_host) == ("alice", text, text)


def test_the_sweep_removes_old_histories_except_those_of_open_transfers(
    folder: str, job_history: TaskHistoryPublisher
) -> None:
    views = TransferStatePublisher(POLICY, Clock(), folder)
    for job in ("12", "13", "14.2"):
        views.publish_proved_history(job, ())
        os.utime(published_file_formats.verified_job_history_path(job, folder), (0, 0))
    views.publish_proved_history("15", ())

    job_history.sweep_histories(NOW - timedelta(hours=1), (TRANSFER,))

    assert sorted(os.listdir(f"{folder}/jobs")) == ["12.json", "15.json"]


def test_a_silent_cluster_is_published_with_its_error(folder: str) -> None:
    views = TransferStatePublisher(POLICY, Clock(), folder)
    views.publish_cluster_answer(ClusterQueryResult(cluster="beta", trouble="qstat: no answer in time"), None)

    seen = published_json.read_published_value(f"{folder}/{published_json.CLUSTERS}/beta.json", PublishedClusterAnswer)

    assert (seen.trouble, seen.taken_at) == ("qstat: no answer in time", None)


def test_a_request_mapping_is_published_and_withdrawn_with_its_route(folder: str) -> None:
    maps = {"beta": {("resource", "h_rt"): ResourceMappingRule(to="walltime")}}
    TransferStatePublisher(replace(POLICY, maps=maps), Clock(), folder).publish_routes(frozenset())
    rules = published_file_formats.read_request_mapping("transfer-beta", folder)
    mapped = published_file_formats.read_published_route("transfer-beta", folder).remote_mapped
    elsewhere = replace(POLICY, queues={})
    TransferStatePublisher(elsewhere, Clock(), folder).publish_routes(frozenset({"transfer-beta"}))
    kept = published_file_formats.read_request_mapping("transfer-beta", folder)
    TransferStatePublisher(elsewhere, Clock(), folder).publish_routes(frozenset())

    assert (rules, mapped, kept) == (b"resource/h_rt/to=walltime\n", "yes", rules)
    assert not os.path.exists(published_file_formats.request_mapping_path("transfer-beta", folder))


def test_empty_mapping_rules_only_exempt_their_names_from_the_rule_for_all_names(folder: str) -> None:
    nothing = {("project", "chem"): ProjectMappingRule(), ("queue", "long.q"): QueueMappingRule()}
    TransferStatePublisher(replace(POLICY, maps={"beta": nothing}), Clock(), folder).publish_routes(frozenset())
    unmapped = published_file_formats.read_published_route("transfer-beta", folder).remote_mapped
    rules = nothing | {("project", "*"): ProjectMappingRule(to="foreign")}
    TransferStatePublisher(replace(POLICY, maps={"beta": rules}), Clock(), folder).publish_routes(frozenset())

    assert unmapped == ""
    assert published_file_formats.read_request_mapping("transfer-beta", folder).splitlines() == [
        b"project/chem/to=chem",
        b"queue/long.q/drop=yes",
        b"project/*/to=foreign",
    ]


def test_offered_names_stay_published_until_the_cluster_reports_other_names(folder: str) -> None:
    views, words = (TransferStatePublisher(POLICY, Clock(), folder), NamesOfferedByCluster(pe=frozenset({"smp"})))
    before = published_file_formats.read_offered_names("beta", folder)
    views.publish_cluster_answer(ClusterQueryResult(cluster="beta", vocabulary=words), None)
    views.publish_cluster_answer(ClusterQueryResult(cluster="beta", trouble="no answer"), None)

    assert (before, published_file_formats.read_offered_names("beta", folder)) == (None, b"string=*\npe=smp\nrule=*\n")


def test_a_drained_cluster_or_a_full_folder_has_closing_load_values_for_that_time(folder: str) -> None:
    views = TransferStatePublisher(POLICY, Clock(), folder)
    views.publish_routes(frozenset())
    seen = ClusterSnapshot(cluster="beta", taken_at=datetime.now(UTC), jobs={}, pending=1, free_slots=0)
    observers = {"beta": ClusterObserver("beta", configured_cluster_access(POLICY, "beta"), POLICY.poller, Clock())}

    def reported(full: str = "") -> str:
        views.publish_load_values({"beta": seen}, observers, full=full)
        _, _, values = published_file_formats.parse_load_values_file(published_file_formats.load_values_path(folder))
        service = published_json.read_published_service_status(folder)
        assert service.full == full
        return " ".join(f"{name}={value}" for name, value in values.items())

    before = reported()
    drains.drain_cluster("beta", PublishedClusterDrain(by="root", at=NOW, reason="x"), folder)
    drained = reported()
    drains.undrain_cluster("beta", folder)

    assert reported("no room") == drained == "gb_beta_up=0 gb_beta_pending=999999 gb_beta_free=0"
    assert reported() == before == "gb_beta_up=1 gb_beta_pending=1 gb_beta_free=0"


def test_control_characters_in_published_texts_are_replaced() -> None:
    hostile = TRANSFER.with_changes(
        reason="\x1b[2Jgone\n\udcff", verdict=TransferMessage(outcome="error", reason="\x07bell")
    )

    job = ClusterJobListRow(job_id=12, name="fit\x1b", owner="alice", state=job_state("r"))
    home = ClusterSnapshot(cluster="alpha", taken_at=NOW, jobs={12: (job,)}, pending=0, free_slots=0)

    seen = published_row_with_all_fields(hostile, home)

    assert seen.name == "fit\N{REPLACEMENT CHARACTER}"
    assert seen.reason == "\N{REPLACEMENT CHARACTER}[2Jgone" + "\N{REPLACEMENT CHARACTER}" * 2
    assert seen.outcome == "needs an administrator: \N{REPLACEMENT CHARACTER}bell"


def test_non_forwarding_queues_are_published_while_a_queue_forwards_back(folder: str) -> None:
    back = QueueInstanceStatus(name="transfer-alpha@b", slots_used=0, slots_reserved=0, slots_total=2, sends_away=True)
    all_q = replace(back, name="all.q@b", sends_away=False, says_stay=True)
    seen = ClusterSnapshot(cluster="beta", taken_at=NOW, queues=(), jobs={}, pending=0, free_slots=0)
    told = []
    views = TransferStatePublisher(POLICY, Clock(), folder)
    for queues in ((all_q,), (all_q, back), (all_q, back)):
        snapshot = replace(seen, queues=queues)
        views.publish_cluster_answer(ClusterQueryResult(cluster="beta", snapshot=snapshot), snapshot)
        told.append(published_file_formats.read_non_forwarding_queues("beta", folder))
    TransferStatePublisher(POLICY, Clock(), folder).publish_cluster_answer(
        ClusterQueryResult(cluster="beta", snapshot=seen), seen
    )

    assert told == [None, *[b"queues=all.q\nall_say=yes\n"] * 2]
    assert published_file_formats.read_non_forwarding_queues("beta", folder) is None


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "published")


def test_the_service_status_shows_the_active_configuration_and_problems_of_the_new_file(folder: str) -> None:
    known = PublishedConfigurationStatus(sha256="1f", since=NOW)
    refusing = replace(known, refused_sha256="2e", refused=("FILE: wrong",))
    views = TransferStatePublisher(POLICY, Clock(), folder, known)
    views.publish_routes(frozenset())
    first = published_json.read_published_service_status(folder)
    views.publish_configuration_status(refusing)
    second = published_json.read_published_service_status(folder)

    assert (first.configuration, second) == (known, replace(first, configuration=refusing))
