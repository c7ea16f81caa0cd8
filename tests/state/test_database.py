"""The state file stores rows completely and returns the rows unchanged."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, event

from gridbridge.errors import ParseError, StateError
from gridbridge.model import jobs_and_accounting
from gridbridge.model.job_and_queue_states import UNSEEN, WORDS, JobState
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferEvent
from gridbridge.model.transfer_messages_in_spool import KEYS, TransferMessage, TransferOutcome
from gridbridge.state import decision_journal
from gridbridge.state.cluster_query_tables import ClusterQueryLog
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.remote_usage_and_cursor_rows import RemoteUsageAndCursorRows
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.state.postgresql import Server

Build = Callable[..., Transfer]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
# Texts include NUL, and the surrogates that os.fsdecode returns for names that are not UTF-8.
TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
NUMBER = st.integers(0, 2**63 - 1)
TIME = st.datetimes(datetime(1970, 1, 1), timezones=st.sampled_from([UTC, timezone(HOUR), timezone(-HOUR * 11)]))
ANY_TEXT = st.binary(max_size=30).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
MESSAGE = st.dictionaries(st.sampled_from(KEYS), ANY_TEXT).map(lambda values: TransferMessage(**values))
STATE = st.just(UNSEEN) | st.builds(JobState, st.sets(st.sampled_from(WORDS), min_size=1), st.text(max_size=9))
NAME = st.builds("gb.{}.{}.{}.{}".format, st.sampled_from(["alpha", "b-1"]), *[st.integers(0, 999)] * 3)
BY_TYPE = {
    str: TEXT,
    int: NUMBER,
    bool: st.booleans(),
    datetime: TIME,
    datetime | None: st.none() | TIME,
    TransferMessage | None: st.none() | MESSAGE,
    JobState: STATE,
}
TRANSFER = st.builds(Transfer, **{one.name: BY_TYPE[one.type] for one in fields(Transfer)} | {"name": NAME})


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.root)])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransferRows]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('shared')}/state.db"
    else:
        url = request.getfixturevalue("postgresql").new()
    opened = StateFile.open(url)
    yield TransferRows(opened)
    opened.close()


@given(TRANSFER)
def test_every_field_of_a_stored_transfer_is_read_unchanged(shared: TransferRows, transfer: Transfer) -> None:
    shared.insert_or_update_transfer(transfer)

    assert shared.find_transfer(transfer.name, transfer.uid) == transfer


@given(TIME, TEXT)
def test_every_field_of_a_stored_transfer_event_is_read_unchanged(
    shared: TransferRows, at: datetime, text: str
) -> None:
    written = TransferEvent(name="gb.alpha.1.0.1", uid=2**32 - 2, at=at, text=text)
    shared.add_transfer_event(written)

    assert shared.events_of_transfer(written.name, written.uid)[-1] == written


def test_stored_times_are_returned_in_utc(transfers: TransferRows, a_transfer: Build) -> None:
    transfers.insert_or_update_transfer(a_transfer(since=datetime(2026, 3, 1, 13, tzinfo=timezone(HOUR))))

    found = transfers.find_transfer("gb.alpha.7.0.1", 1001)
    assert (found.since, found.since.tzinfo) == (NOON, UTC)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"since": datetime(2026, 3, 1)}, "no time zone"),
        ({"remote_id": 2**63}, "too large|out of range"),
        ({"name": "job"}, "job"),
    ],
    ids=["a time without zone", "too large a number", "no name of a transfer"],
)
def test_an_invalid_transfer_is_not_stored(
    transfers: TransferRows, a_transfer: Build, wrong: dict[str, Any], reason: str
) -> None:
    with pytest.raises((StateError, ParseError), match=reason):
        transfers.insert_or_update_transfer(a_transfer(**wrong))

    assert transfers.open_transfers() == ()


def test_a_stored_verdict_longer_than_a_spool_message_can_be_read(transfers: TransferRows, a_transfer: Build) -> None:
    """A verdict that could be written but not read would stop the service."""
    long = a_transfer(verdict=TransferMessage(outcome=TransferOutcome.ERROR, reason="x" * 10_000))
    transfers.insert_or_update_transfer(long)

    assert transfers.open_transfers() == (long,)


def test_transfers_of_one_name_and_two_users_are_stored_apart(transfers: TransferRows, a_transfer: Build) -> None:
    hers, his = a_transfer(uid=1001, wake="hers"), a_transfer(uid=1002, wake="his")
    transfers.insert_or_update_transfer(hers)
    transfers.insert_or_update_transfer(his)

    assert transfers.find_transfer(hers.name, 1001) == hers
    assert transfers.find_transfer(his.name, 1002) == his
    assert transfers.find_transfer(his.name, 1003) is None


def test_storing_a_transfer_again_replaces_every_field(transfers: TransferRows, a_transfer: Build) -> None:
    transfers.insert_or_update_transfer(
        a_transfer(since=NOON, verdict=TransferMessage(exit_status="1"), reason="first")
    )
    second = a_transfer(remote_id=12)
    transfers.insert_or_update_transfer(second)

    assert transfers.open_transfers() == (second,)


def test_the_attempts_of_a_task_are_returned_in_numeric_order(transfers: TransferRows, a_transfer: Build) -> None:
    for name in ("7.0.10", "7.0.2", "7.1.1", "70.0.1"):
        transfers.insert_or_update_transfer(a_transfer(name=f"gb.alpha.{name}"))
    transfers.insert_or_update_transfer(a_transfer(name="gb.beta.7.0.1"))

    assert [one.name for one in transfers.transfers_of_task("alpha", 7, 0)] == ["gb.alpha.7.0.2", "gb.alpha.7.0.10"]


def test_open_and_closed_transfers_are_returned_by_separate_queries(transfers: TransferRows, a_transfer: Build) -> None:
    living = a_transfer(name="gb.alpha.1.0.1")
    before = a_transfer(name="gb.alpha.2.0.1", closed_at=NOON - HOUR)
    after = a_transfer(name="gb.alpha.3.0.1", closed_at=NOON)
    for one in (living, before, after):
        transfers.insert_or_update_transfer(one)

    assert transfers.open_transfers() == (living,)
    assert transfers.transfers_closed_since(NOON) == (after,)
    assert transfers.transfers_closed_since(NOON - HOUR) == (before, after)


def test_no_query_of_transfers_scans_the_whole_table(state_file: StateFile, tmp_path: Path) -> None:
    """The service queries open transfers every few seconds, beside 100,000 closed transfers."""
    transfers = TransferRows(state_file)
    asked = []
    note = lambda *args: asked.append(args[2:4])  # noqa: E731 - event.remove needs the same function
    event.listen(Engine, "before_cursor_execute", note)
    transfers.open_transfers()
    transfers.transfers_closed_since(NOON)
    transfers.transfers_of_task("alpha", 7, 0)
    transfers.events_of_transfer("gb.alpha.7.0.1", 1001)
    event.remove(Engine, "before_cursor_execute", note)

    plain = sqlite3.connect(tmp_path / "state.db")
    queries = [(sql, values) for sql, values in asked if sql.startswith("SELECT")]
    plans = [plain.execute(f"EXPLAIN QUERY PLAN {sql}", values) for sql, values in queries]
    steps = [row[3] for plan in plans for row in plan]
    assert len(queries) == 4
    assert [step for step in steps if step.startswith("SCAN")] == []


@pytest.mark.root
def test_a_lost_database_connection_is_an_error_once_and_is_then_renewed(postgresql: Server, a_transfer: Build) -> None:
    url = postgresql.new()
    database = StateFile.open(url)
    transfers = TransferRows(database)
    transfers.insert_or_update_transfer(a_transfer())
    postgresql.disconnect(url)

    with pytest.raises(StateError, match=r"^postgresql://"):
        transfers.open_transfers()
    assert transfers.open_transfers() == (a_transfer(),)
    database.close()


@pytest.mark.parametrize("is_failing", [False, True])
def test_a_transaction_stores_all_its_changes_or_none(
    database: StateFile, transfers: TransferRows, a_transfer: Build, is_failing: bool
) -> None:
    with suppress(KeyError), database.transaction():
        transfers.insert_or_update_transfer(a_transfer())
        transfers.add_transfer_event(TransferEvent(name="gb.alpha.7.0.1", uid=1001, at=NOON, text="sent"))
        assert len(transfers.open_transfers()) == 1
        if is_failing:
            raise KeyError

    assert (
        len(transfers.open_transfers()) == len(transfers.events_of_transfer("gb.alpha.7.0.1", 1001)) == (not is_failing)
    )
    transfers.insert_or_update_transfer(a_transfer(uid=1002))
    assert len(transfers.open_transfers()) == 2 - is_failing


def test_a_failed_change_undoes_the_transaction_even_if_the_caller_ignores_the_error(
    database: StateFile, transfers: TransferRows, a_transfer: Build
) -> None:
    def change() -> None:
        with database.transaction():
            transfers.insert_or_update_transfer(a_transfer())
            with pytest.raises(StateError, match=r"too large|out of range"):
                transfers.insert_or_update_transfer(a_transfer(remote_id=2**63))
            with pytest.raises(StateError, match="nothing was stored"):
                transfers.insert_or_update_transfer(a_transfer(uid=1002))

    with pytest.raises(StateError, match="nothing was stored"):
        change()
    assert transfers.open_transfers() == ()


def test_deleting_old_transfers_keeps_open_and_recent_transfers(transfers: TransferRows, a_transfer: Build) -> None:
    for number, closed_at in enumerate((None, NOON - HOUR, NOON)):
        name = f"gb.alpha.{number}.0.1"
        transfers.insert_or_update_transfer(a_transfer(name=name, closed_at=closed_at))
        transfers.add_transfer_event(TransferEvent(name=name, uid=1001, at=NOON - HOUR * 9, text="early"))
        transfers.add_transfer_event(TransferEvent(name=name, uid=1001, at=NOON + HOUR, text="late"))

    forgotten = transfers.delete_closed_transfers(NOON)

    assert forgotten == 1
    assert transfers.find_transfer("gb.alpha.1.0.1", 1001) is None
    assert [len(transfers.events_of_transfer(f"gb.alpha.{n}.0.1", 1001)) for n in range(3)] == [2, 0, 2]


def test_deleting_old_rows_includes_events_without_transfer_queries_and_decisions(
    state_file: StateFile, tmp_path: Path
) -> None:
    transfers, decisions = TransferRows(state_file), DecisionJournal(state_file)
    snapshots = ClusterQueryLog(state_file)
    for at in (NOON - HOUR, NOON):
        transfers.add_transfer_event(TransferEvent(name="gb.alpha.9.0.1", uid=1, at=at, text="of no transfer"))
        decisions.store_decision(DecisionJournalEntry(at=at, program="poller", sentence="1 open", inputs={"open": 1}))
        snapshots.record_query(
            cluster="beta", taken_at=at, ok=False, took=HOUR, summary={"error": "no answer", "at": at}
        )

    transfers.delete_closed_transfers(NOON)
    snapshots.delete_old_queries(NOON)
    decisions.delete_old_decisions(NOON, 1 << 20)

    plain = sqlite3.connect(tmp_path / "state.db")
    assert len(transfers.events_of_transfer("gb.alpha.9.0.1", 1)) == 1
    assert plain.execute("SELECT at, program, sentence, inputs FROM decisions").fetchall() == [
        ("2026-03-01T12:00:00.000000+00:00", "poller", "1 open", '{"open": 1}')
    ]
    [(cluster, taken_at, ok, took_s, summary)] = plain.execute(
        "SELECT cluster, taken_at, ok, took_s, summary FROM snapshots"
    )
    assert (cluster, taken_at[:19], ok, took_s) == ("beta", "2026-03-01T12:00:00", 0, 3600.0)
    assert json.loads(summary) == {"error": "no answer", "at": "2026-03-01 12:00:00+00:00"}


def test_long_decisions_do_not_fill_the_disk_before_old_rows_are_deleted(
    state_file: StateFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One person's ten thousand campaigns make a decision of megabytes in each cycle."""
    monkeypatch.setattr(decision_journal, "KEPT_BYTES", 1000)
    journal = DecisionJournal(state_file)
    for number in range(20):
        inputs = {"campaigns": "x" * 300, "number": number}
        journal.store_decision(DecisionJournalEntry(at=NOON, program="runner", sentence="s", inputs=inputs))

    numbers = [decision.inputs["number"] for decision in journal.last_decisions(20)]
    assert 2 <= len(numbers) <= 6
    assert numbers == [*range(20)][-len(numbers) :]


class Slow:
    """A journal value. Its conversion to text checks whether other programs could write the state file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        """Lock the state file for writing without waiting."""
        with closing(sqlite3.connect(self._path, timeout=0)) as others:
            others.execute("BEGIN IMMEDIATE")
        return "they could"


def test_a_journal_entry_is_converted_to_text_before_the_state_file_is_locked(tmp_path: Path) -> None:
    state_file = StateFile.open(f"sqlite:///{tmp_path}/state.db")
    decisions = DecisionJournal(state_file)

    rows = {"seen": Slow(tmp_path / "state.db")}
    decisions.store_decision(DecisionJournalEntry(at=NOON, program="runner", sentence="sent", inputs=rows))

    assert [one.inputs for one in decisions.last_decisions(9)] == [{"seen": "they could"}]
    state_file.close()


def a_record(**values: object) -> jobs_and_accounting.RemoteJobRunAccounting:
    known = jobs_and_accounting.RemoteJobRunAccounting(
        transfer="gb.alpha.7.0.1",
        cluster="beta",
        source=jobs_and_accounting.RemoteUsageSource.ACCOUNTING,
        mark="00",
        job_id=12,
        owner="alice",
        ended_at=NOON,
    )
    return replace(known, **values)  # type: ignore[arg-type]  # the tests' own words


def test_a_usage_record_that_arrives_twice_is_stored_once(accounting: RemoteUsageAndCursorRows) -> None:
    for record in (a_record(), a_record(), a_record(mark="01", failed=25)):
        accounting.store_usage_record(record, NOON)

    assert accounting.usage_records_of_task("alpha", 7, 0) == (a_record(), a_record(mark="01", failed=25))
    assert accounting.usage_records_of_task("alpha", 7, 1) == ()


def test_records_of_many_jobs_under_one_account_are_limited_and_hide_no_record_of_the_owner(
    accounting: RemoteUsageAndCursorRows,
) -> None:
    """Anybody may submit jobs to the remote cluster under any account."""
    for mark in range(jobs_and_accounting.PER_TRANSFER + 5):
        known = accounting.store_usage_record(a_record(mark=str(mark), owner="bob"), NOON)

    assert len(known) == jobs_and_accounting.PER_TRANSFER
    assert len(accounting.usage_records_of_task("alpha", 7, 0)) == jobs_and_accounting.PER_TRANSFER
    accounting.store_usage_record(a_record(mark="own"), NOON)
    assert "own" in [record.mark for record in accounting.usage_records_of_task("alpha", 7, 0)]


def test_old_usage_records_are_deleted(accounting: RemoteUsageAndCursorRows) -> None:
    accounting.store_usage_record(a_record(), NOON)
    accounting.store_usage_record(a_record(transfer="gb.alpha.8.0.1"), NOON + HOUR)

    accounting.delete_old_usage_records(NOON + HOUR)

    assert accounting.usage_records_of_task("alpha", 7, 0) == ()
    assert len(accounting.usage_records_of_task("alpha", 8, 0)) == 1


def test_storing_an_accounting_position_replaces_the_clusters_last_position(
    accounting: RemoteUsageAndCursorRows,
) -> None:
    for offset in (10, 20):
        cursor = jobs_and_accounting.ClusterAccountingProgress(
            cluster="beta", path="/a", place=jobs_and_accounting.AccountingFilePosition(offset=offset, inode=2**64 - 1)
        )
        accounting.store_accounting_cursor(cursor)

    assert accounting.accounting_cursors() == (cursor,)
