"""Forged records fill neither state file nor log, and true records are accepted."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby

import pytest

from gridbridge.decisions.transfer.starter_message_acceptance import accept_or_reject_message
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.transfer.transfers_and_actions import OwnerSeenInHomeJobList
from gridbridge.model.transfer_messages_in_spool import (
    MOST_REASON,
    DesiredLocalJobState,
    StarterPhase,
    TransferMessage,
    TransferMessageKind,
    TransferOutcome,
)
from gridbridge.shell.clock import Clock
from gridbridge.shell.log_file_reopening_and_line_limits import LINES, LogLineQuotaByPerson
from gridbridge.transfer.poller.transfer_ledger import EVENTS_AN_HOUR
from gridbridge.transfer.poller.transfer_service import TransferService
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.decisions.transfer.test_transfer_policy import a_row, a_snapshot
from tests.steps import steps
from tests.transfer.poller.messages import NAME, RECORD
from tests.transfer.poller.test_hostile_messages import ALICE, BOB, send, service

__all__ = ["service"]

MOST = 3  # transfers of a person that are not proved
ENDED = TransferMessage(
    kind=TransferMessageKind.ENDED, at="1767225600.000", remote_id="40", outcome=TransferOutcome.EXIT, exit_status="0"
)


@pytest.fixture
def full(service: TransferService) -> TransferService:
    """Return a poller with the largest number of alice's unproved transfers."""
    service.mail.unproved.most = MOST
    for number in range(MOST):
        send(service, of(100 + number))
    return service


def of(job: int, task: int = 0) -> TransferMessage:
    return RECORD.with_changes(transfer=f"gb.alpha.{job}.{task}.1")


def answer(cluster: str, *rows: ClusterJobListRow, owner: str = str(ALICE)) -> ClusterSnapshot:
    theirs = tuple(replace(row, owner=owner) for row in rows)
    jobs = {number: tuple(rows) for number, rows in groupby(theirs, lambda row: row.job_id)}
    return replace(a_snapshot(cluster, 0), taken_at=datetime.now(UTC), jobs=jobs)


def hear(service: TransferService, home: ClusterSnapshot, *others: ClusterSnapshot) -> None:
    service.mail.judge_waiting_transfers(home, {one.cluster: one for one in others})
    service.run_poller_round()


def test_records_beyond_the_limit_wait_until_the_home_job_list_proves_them(full: TransferService) -> None:
    send(full, RECORD)
    assert (NAME, ALICE) not in full.ledger.open
    assert {7, 40} <= full.watched_job_ids()

    hear(full, answer("alpha", a_row(7, "r")))

    assert full.ledger.open[NAME, ALICE].listed == OwnerSeenInHomeJobList.YES
    assert full.mail.unproved.job_ids_of_waiting_transfers() == set()


def test_a_home_job_list_from_before_a_waiting_record_refutes_nothing(full: TransferService) -> None:
    before = answer("alpha")
    send(full, RECORD)
    hear(full, before)
    hear(full, answer("alpha", a_row(7, "r")))

    assert (NAME, ALICE) in full.ledger.open


def test_waiting_records_that_home_does_not_list_are_refused_in_one_log_line(
    full: TransferService, caplog: pytest.LogCaptureFixture
) -> None:
    for job in range(200, 300):
        send(full, of(job).with_changes(remote_id="", phase=StarterPhase.SUBMITTING))
    hear(full, answer("alpha"))

    told = [one.message for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(full.ledger.open) == MOST
    assert len(told) == 1
    assert f"uid={ALICE} refused=100" in told[0]


def test_a_job_of_another_owner_proves_no_waiting_record(full: TransferService) -> None:
    send(full, RECORD.with_changes(remote_id="", phase=StarterPhase.SUBMITTING))
    hear(full, answer("alpha", a_row(7, "r"), owner=str(BOB)))

    assert (NAME, ALICE) not in full.ledger.open


def test_a_remote_job_alone_admits_a_waiting_record(full: TransferService) -> None:
    """The starter may be killed, so the poller must watch the remote job."""
    send(full, RECORD)
    hear(full, answer("alpha"))
    assert (NAME, ALICE) not in full.ledger.open

    hear(full, answer("alpha"), answer("beta", a_row(40, "r")))

    assert full.ledger.open[NAME, ALICE].listed == ""


def test_newer_records_and_messages_about_a_waiting_record_wait_with_the_record(full: TransferService) -> None:
    send(
        full,
        RECORD.with_changes(phase=StarterPhase.SUBMITTING, remote_id=""),
        RECORD,
        ENDED.with_changes(transfer=NAME),
    )
    intent = TransferMessage(kind=TransferMessageKind.INTENT, transfer=NAME, at="2")
    send(full, intent.with_changes(desired=DesiredLocalJobState.SUSPENDED))
    hear(full, answer("alpha", a_row(7, "r")))

    one = full.ledger.open[NAME, ALICE]
    assert one.verdict is not None
    assert (one.remote_id, one.desired) == (40, DesiredLocalJobState.SUSPENDED)


def test_only_records_of_the_person_at_the_limit_wait(full: TransferService) -> None:
    """The held job of a waiting record is no orphan."""
    send(full, RECORD)
    send(full, RECORD, uid=BOB)

    assert (NAME, BOB) in full.ledger.open
    assert full.mail.unproved.names_and_owners_of_waiting_transfers() == {(NAME, str(ALICE))}


def test_the_oldest_unproved_closed_transfers_are_forgotten_first(service: TransferService) -> None:
    service.mail.unproved.most = MOST
    for job in range(200, 210):
        send(service, of(job), TransferMessage(kind=TransferMessageKind.CLOSED, transfer=of(job).transfer, at="2"))
        service.ledger.stop_watching_remote_job(service.ledger.ended[of(job).transfer, ALICE])
        service.mail.judge_waiting_transfers(answer("alpha"), {})
    transfers = TransferRows(service.resources.database)
    known = [job for job in range(200, 210) if transfers.find_transfer(of(job).transfer, ALICE)]

    assert known == [207, 208, 209]
    assert TransferRows(service.resources.database).events_of_transfer(of(200).transfer, ALICE) == ()


def test_an_unproved_closed_transfer_is_kept_until_the_next_home_job_list(service: TransferService) -> None:
    service.mail.unproved.most = MOST
    for job in range(200, 210):
        send(service, of(job), TransferMessage(kind=TransferMessageKind.CLOSED, transfer=of(job).transfer, at="2"))
        if ended := service.ledger.ended.get((of(job).transfer, ALICE)):
            service.ledger.stop_watching_remote_job(ended)

    assert TransferRows(service.resources.database).find_transfer(of(200).transfer, ALICE) is not None
    assert len(service.mail.unproved.job_ids_of_waiting_transfers() - {40}) == 10 - 2 * MOST


def test_after_an_hour_unproved_closed_transfers_without_guard_are_forgotten(service: TransferService) -> None:
    for job, values in ((200, {}), (201, {"reguarded": True}), (202, {"listed": OwnerSeenInHomeJobList.YES})):
        send(service, of(job), TransferMessage(kind=TransferMessageKind.CLOSED, transfer=of(job).transfer, at="2"))
        ended = service.ledger.ended[of(job).transfer, ALICE]
        service.ledger.stop_watching_remote_job(ended.with_changes(**values))
    service.ledger.sweep_unproved_transfers(datetime.now(UTC) + timedelta(seconds=1))
    transfers = TransferRows(service.resources.database)
    known = [job for job in (200, 201, 202) if transfers.find_transfer(of(job).transfer, ALICE)]

    assert known == [201, 202]


def test_long_texts_of_a_person_are_cut(service: TransferService, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    send(service, RECORD.with_changes(reason="call 555-1234 " * 200))
    send(service, RECORD.with_changes(remote="b" * 3000), ENDED.with_changes(transfer=NAME, host="h" * 3000))
    kept = TransferRows(service.resources.database).events_of_transfer(NAME, ALICE)

    assert max(len(one.text) for one in kept) < MOST_REASON + 100
    assert max(len(one.getMessage()) for one in caplog.records) < MOST_REASON + 200
    assert service.ledger.open[NAME, ALICE].verdict is None


def test_events_and_log_lines_of_an_unproved_person_are_limited(
    service: TransferService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    service.ledger._logged_of = LogLineQuotaByPerson(Clock().steady_s, LINES)
    for number in range(2 * EVENTS_AN_HOUR):
        send(service, RECORD.with_changes(reason=f"reason {number}"))
    for number in range(2 * LINES):
        send(service, RECORD.with_changes(transfer=f"gb.omega.{number}.0.1"))

    assert len(TransferRows(service.resources.database).events_of_transfer(NAME, ALICE)) == EVENTS_AN_HOUR
    assert len(caplog.records) <= 2 * LINES


def test_withheld_log_lines_are_written_once_the_home_job_list_proves_the_owner(
    service: TransferService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    service.ledger._logged_of = LogLineQuotaByPerson(Clock().steady_s, LINES)
    send(service, RECORD)
    one = service.ledger.open[NAME, ALICE]
    for number in range(LINES):
        service.ledger.add_history_line(one, f"line {number}")
    assert ("line 9" in caplog.text, f"line {LINES - 1}" in caplog.text) == (True, False)

    service.ledger.store_transfer(one.with_changes(listed=OwnerSeenInHomeJobList.NO))
    assert f"line {LINES - 1}" not in caplog.text
    service.ledger.store_transfer(one.with_changes(listed=OwnerSeenInHomeJobList.YES))
    service.ledger.store_transfer(one.with_changes(listed=OwnerSeenInHomeJobList.YES))
    assert caplog.text.count(f"line {LINES - 1}") == 1


def test_the_count_of_omitted_log_lines_is_reported_once() -> None:
    now_s = 0.0
    quota = LogLineQuotaByPerson(lambda: now_s, 2, 60.0)
    allowed = [quota.may_write_log_line(ALICE) for _ in range(5)]
    early, now_s = quota.take_omitted_line_counts(), 61.0

    assert (allowed, early) == ([True, True, False, False, False], {})
    assert (quota.take_omitted_line_counts(), quota.take_omitted_line_counts()) == ({ALICE: 3}, {})


def bring_in(service: TransferService, job: int, count: int) -> int:
    """Let records of an array wait, and home list all its tasks; return the executed steps."""
    service.mail.unproved.most = 0
    room = service.mail.unproved
    for task in range(1, count + 1):
        service.resources.inbox.put(of(job, task), ALICE)
    for spooled in service.resources.inbox.read_new_messages():
        room.hold_message_in_spool(
            spooled, accept_or_reject_message(service.mail._message_with_decision_facts(spooled, None))
        )
    rows = (replace(a_row(job, "r"), tasks=(range(n, n + 1),)) for n in range(1, count + 1))
    home = answer("alpha", *rows)
    refused: list[str] = []
    took = steps(lambda: refused.extend(room.judge_waiting_transfers(home, {})))

    assert refused == []
    assert len(room._admitted) == count
    assert len(service.resources.inbox.messages) == count
    room._admitted.clear()
    service.resources.inbox.messages.clear()
    return took


def test_admitting_waiting_records_takes_linear_time(service: TransferService) -> None:
    assert bring_in(service, 9, 2000) < 15 * bring_in(service, 8, 200)
