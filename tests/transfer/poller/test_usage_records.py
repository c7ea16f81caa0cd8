"""The poller reads accounting files, and stores and publishes usage of transferred jobs."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.errors import ConflictingRemoteJobEnds
from gridbridge.model.job_and_queue_states import UNSEEN
from gridbridge.model.jobs_and_accounting import RemoteJobRunAccounting, RemoteUsageSource
from gridbridge.model.published_status_and_reports import PublishedAccountingProgress
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfer_config_sections import RetentionSection
from gridbridge.model.transfer.transfers_and_actions import OwnerSeenInHomeJobList, Transfer
from gridbridge.model.transfer_messages_in_spool import TransferMessage, TransferMessageKind, TransferOutcome
from gridbridge.shell.clock import Clock
from gridbridge.state import published_file_formats
from gridbridge.state.state_file import StateFile
from gridbridge.transfer import remote_usage_and_cursor_rows
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher
from gridbridge.transfer.poller.remote_usage_records import RemoteUsageService
from gridbridge.transfer.remote_usage_and_cursor_rows import RemoteUsageAndCursorRows
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.decisions.transfer.test_transfer_policy import a_transfer
from tests.program.test_threads import without_room
from tests.states import job_state
from tests.transfer.poller.messages import policy_to_beta

GOLDEN = Path(__file__).parents[2] / "golden" / "gridengine-8.1.9" / "accounting.txt"
(LINE,) = [line for line in GOLDEN.read_text().splitlines() if ":gb.alpha." in line]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
YEAR_LATER_S = (NOON + timedelta(days=365)).timestamp()


class Beta:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "accounting"
        self.file.write_text(GOLDEN.read_text())
        self.folder = str(folder / "published")
        self.url = f"sqlite:///{folder}/state.db"
        usual = policy_to_beta()
        clusters = {**usual.clusters, "beta": replace(usual.clusters["beta"], accounting=str(self.file))}
        queue = replace(usual.queues["transfer-beta"], remote_usage=False)
        queues = {"transfer-beta": queue, "asking": replace(queue, remote_usage=True)}
        self.policy = replace(usual, clusters=clusters, queues=queues)
        self.start()

    def start(self, policy: Policy | None = None) -> None:
        policy = policy or self.policy
        self.database = StateFile.open(self.url)
        self.clock = Clock(lambda: YEAR_LATER_S + time.monotonic(), lambda: 0.0)
        self.usage_records = RemoteUsageService(
            policy=policy,
            database=self.database,
            views=TransferStatePublisher(policy, self.clock, self.folder),
            clock=self.clock,
        )
        self.usage_records.load_accounting_file_positions()

    def look(self) -> None:
        self.usage_records.begin_accounting_readings_if_due()
        for reader in self.usage_records.readers.values():
            reader._due = 0
            reader._threads.submit(lambda: None).result(10)  # after the look before it
        self.usage_records.store_accounting_readings()

    def add(self, *lines: str) -> None:
        with self.file.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def records(self, job: int = 7) -> tuple[RemoteJobRunAccounting, ...]:
        shown = remote_usage_and_cursor_rows.read_published_task_usage(self.folder, job, 0)
        return shown.records if shown else ()

    def reading(self) -> PublishedAccountingProgress:
        (reading,) = remote_usage_and_cursor_rows.read_accounting_file_states(self.folder)
        return reading


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Beta]:
    site = Beta(tmp_path)
    yield site
    site.usage_records.shut_down_threads()


def transfer(**values: object) -> Transfer:
    unseen = {"local_state": UNSEEN, "remote_state": UNSEEN, "record": "", "wake": ""}
    known = a_transfer(created_at=NOON, updated_at=NOON + timedelta(minutes=1), remote_id=2, **unseen)
    return known.with_changes(**values)


def test_a_new_accounting_record_of_a_transfer_is_stored_and_published_and_yields_its_end(site: Beta) -> None:
    site.look()
    end = site.usage_records.find_job_end(transfer())

    (record,) = site.records()
    assert (record.cluster, record.job_id, record.owner, record.exit_status) == (*("beta", 2), *("alice", 0))
    assert record.max_rss_kb == 4796.0
    assert RemoteUsageAndCursorRows(site.database).usage_records_of_task("alpha", 7, 0) == (record,)
    assert (site.reading().trouble, site.reading().skipped) == ("", 0)
    assert site.reading().read_at
    assert (end.exit_status, end.user_s, end.max_rss_kb) == (0, 0.008915, 4796.0)


def test_a_failed_thread_start_delays_only_the_reading_of_one_cluster(site: Beta) -> None:
    def act(_: Callable[[], None]) -> None:
        (reader,) = site.usage_records.readers.values()
        before = reader.cursor
        reader.begin_reading_if_due(5)
        look = reader.take_read_result()

        assert "can't start new thread" in look.trouble
        assert (look.records, look.cursor, reader.cursor) == ((), before, before)
        assert reader.take_read_result() is None

    without_room(act)


def test_a_restarted_service_continues_reading_at_the_stored_position(site: Beta) -> None:
    site.look()
    offset = RemoteUsageAndCursorRows(site.database).accounting_cursors()[0].place.offset
    site.usage_records.shut_down_threads()
    site.database.close()
    site.add(LINE.replace(":alice:ok:2:gb.alpha.7.", ":alice:ok:9:gb.alpha.8."))

    site.start()
    site.look()

    assert offset == len(GOLDEN.read_bytes())
    assert [one.job_id for one in site.records(8)] == [9]
    assert len(site.records()) == 1


def test_invalid_accounting_lines_are_counted(site: Beta) -> None:
    fields = LINE.replace("gb.alpha.7.0.1", "gb.alpha.9.0.1").split(":")
    endless = ":".join([*fields[:9], "9" * 20, *fields[10:]])
    without_status = ":".join([*fields[:12], "", *fields[13:]])
    site.add(LINE.replace("gb.alpha.7.0.1", "gb.alpha.seven"))
    site.add(endless, without_status, "broken:gb.alpha.1.0.1:line")
    site.look()

    assert site.reading().skipped == 3
    assert len(site.records()) == 1


def test_a_missing_accounting_file_is_reported_and_read_once_present(site: Beta) -> None:
    site.file.rename(site.file.with_name("hidden"))
    site.look()
    trouble = site.reading().trouble
    site.file.with_name("hidden").rename(site.file)
    site.look()

    assert trouble == f"{site.file}: No such file or directory"
    assert (site.reading().trouble, len(site.records())) == ("", 1)


@pytest.mark.parametrize(
    "values",
    [{"owner": "bob"}, {"remote_id": 3}, {"name": "gb.alpha.7.0.2"}, {"remote": "delta"}],
    ids=["another's", "another job", "another attempt", "another cluster"],
)
def test_the_end_of_a_different_job_is_not_the_end_of_a_transfer(site: Beta, values: dict[str, object]) -> None:
    """Anybody may submit a remote job under any account."""
    site.look()

    assert site.usage_records.find_job_end(transfer(**values)) is None


def test_two_conflicting_records_raise_an_error_and_speed_up_the_next_reading(site: Beta) -> None:
    site.add(LINE.replace(":0:0:0:0.008915", ":0:9:0:0.008915"))
    site.look()
    site.usage_records.readers["beta"]._due = 60

    with pytest.raises(ConflictingRemoteJobEnds, match=r"two records of beta disagree on how gb.alpha.7.0.1 ended"):
        site.usage_records.find_job_end(transfer())
    assert site.usage_records.will_accounting_file_show_end(transfer())
    assert site.usage_records.readers["beta"]._due == 0


def test_a_record_from_while_the_job_was_listed_is_no_end(site: Beta) -> None:
    site.look()
    now = site.clock.now()

    def is_end(letters: str, **after_s: float) -> bool:
        times = {name: now + timedelta(seconds=later) for name, later in after_s.items()}
        return bool(site.usage_records.find_job_end(transfer(remote_state=job_state(letters), **times)))

    assert [is_end("r", seen_at=1), is_end("r", missing_since=62)] == [False, False]
    assert [is_end("r", seen_at=-60), is_end("r", missing_since=0, seen_at=9)] == [True, True]
    assert is_end("", missing_since=62)  # it was never listed


@pytest.mark.parametrize(
    ("listed", "shown"), [(OwnerSeenInHomeJobList.YES, [("alice", 2)]), ("", [("alice", 2), ("bob", 8), ("alice", 9)])]
)
def test_jobs_under_a_forged_account_hide_no_record_of_the_owner(
    site: Beta, listed: str, shown: list[tuple[str, int]]
) -> None:
    """Without a proved owner all records are published."""
    TransferRows(site.database).insert_or_update_transfer(transfer(listed=listed))
    site.add(LINE.replace(":alice:ok:2:", ":bob:ok:8:"), LINE.replace(":ok:2:", ":ok:9:"))
    site.look()

    assert sorted((one.owner, one.job_id) for one in site.records()) == sorted(shown)


def test_the_record_of_a_rescheduled_run_is_no_end(site: Beta) -> None:
    site.file.write_text(LINE.replace(":0:0:0:0.008915", ":25:99:0:0.008915") + "\n")
    site.look()

    assert [one.failed for one in site.records()] == [25]
    assert site.usage_records.find_job_end(transfer()) is None


ENDED = TransferMessage(
    kind=TransferMessageKind.ENDED,
    outcome=TransferOutcome.SIGNAL,
    signal="9",
    host="delta-n1",
    wallclock_s="61",
    user_s="1m2.5s",
    system_s="0m0.25s",
)


@pytest.mark.parametrize("remote", ["delta", "beta"], ids=["no accounting file", "an unreadable file"])
def test_without_readable_accounting_file_the_end_message_supplies_the_usage(site: Beta, remote: str) -> None:
    """The queue has no remote_usage, so no usage file is written for an epilog."""
    site.file.unlink()
    site.look()
    site.usage_records.store_usage_of_end_message(transfer(remote=remote, verdict=ENDED))

    (record,) = site.records()
    assert (record.source, record.exit_status, record.failed) == (RemoteUsageSource.MESSAGE, 137, None)
    assert (record.wallclock_s, record.user_s, record.system_s) == (61.0, 62.5, 0.25)
    assert record.max_rss_kb is None
    assert not Path(site.folder, published_file_formats.USAGE).exists()


@pytest.mark.parametrize("queue", ["transfer-beta", "asking"])
def test_the_usage_of_an_end_message_is_not_stored_where_the_accounting_file_is_read(site: Beta, queue: str) -> None:
    """The usage is published for the epilog only."""
    site.look()
    before = site.records()
    site.usage_records.store_usage_of_end_message(transfer(verdict=ENDED, queue=queue))
    path = Path(published_file_formats.root_epilog_usage_path("7", transfer().owner, site.folder))

    assert [one.source for one in before] == [RemoteUsageSource.ACCOUNTING]
    assert site.records() == before
    assert RemoteUsageAndCursorRows(site.database).usage_records_of_task("alpha", 7, 0) == before
    assert path.exists() == (queue == "asking")


def test_the_root_epilog_gets_usage_in_the_format_of_the_shepherd_until_the_sweep(site: Beta) -> None:
    ended = transfer(verdict=ENDED.with_changes(max_rss_kb="204800"), queue="asking")
    site.usage_records.store_usage_of_end_message(ended)
    path = Path(published_file_formats.root_epilog_usage_path("7", ended.owner, site.folder))
    written_s = path.stat().st_mtime

    published_file_formats.remove_unfetched_published_files(frozenset(), written_s - 1, site.folder)
    assert path.read_text() == ("ru_wallclock=61\nru_utime=62.5\nru_stime=0.25\nru_maxrss=204800\n")
    published_file_formats.remove_unfetched_published_files(frozenset(), written_s + 1, site.folder)
    assert not path.exists()


def test_an_end_is_stored_although_its_usage_cannot_be_published(site: Beta) -> None:
    Path(site.folder, published_file_formats.USAGE).write_text("in the way of a folder")

    site.usage_records.store_usage_of_end_message(transfer(verdict=ENDED, queue="asking"))

    assert len(site.records()) == 1


@pytest.mark.parametrize("text", ["", "nan", "inf", "-1", "1e99", "x", "1m"])
def test_an_invalid_amount_in_an_end_message_counts_as_unknown(site: Beta, text: str) -> None:
    site.usage_records.store_usage_of_end_message(transfer(remote="delta", verdict=ENDED.with_changes(user_s=text)))

    assert site.records()[0].user_s is None


def test_usage_records_older_than_the_retention_are_forgotten(site: Beta) -> None:
    site.look()
    site.usage_records.policy = replace(site.policy, retention=RetentionSection(accounting_d=0))

    site.usage_records.sweep_usage()

    assert site.records() == ()
    assert RemoteUsageAndCursorRows(site.database).usage_records_of_task("alpha", 7, 0) == ()


def test_a_configuration_change_does_not_restart_the_reading_of_an_unchanged_file(site: Beta) -> None:
    site.look()
    before, shown = site.usage_records.readers["beta"], site.reading()
    clusters = {**site.policy.clusters, "gamma": replace(before._cluster, accounting="/gone")}
    site.usage_records.use_changed_configuration(replace(site.policy, clusters=clusters))

    assert site.usage_records.readers["beta"] is before
    assert [one.cluster for one in remote_usage_and_cursor_rows.read_accounting_file_states(site.folder)] == [
        "beta",
        "gamma",
    ]
    assert remote_usage_and_cursor_rows.read_accounting_file_states(site.folder)[0] == shown


def test_a_changed_accounting_path_starts_a_new_reader_and_a_removed_path_ends_it(site: Beta) -> None:
    site.look()
    before = site.usage_records.readers["beta"]
    moved = site.file.rename(site.file.with_name("moved"))
    beta = replace(site.policy.clusters["beta"], accounting=str(moved))
    site.usage_records.use_changed_configuration(replace(site.policy, clusters={**site.policy.clusters, "beta": beta}))
    site.look()
    read, reader = site.reading(), site.usage_records.readers["beta"]
    site.usage_records.use_changed_configuration(
        replace(site.policy, clusters={"alpha": site.policy.clusters["alpha"]})
    )

    assert (read.path, read.trouble, reader is before) == (str(moved), "", False)
    assert (site.usage_records.readers, remote_usage_and_cursor_rows.read_accounting_file_states(site.folder)) == (
        {},
        (),
    )


def test_the_accounting_file_of_an_unsupported_cluster_kind_is_not_read(tmp_path: Path) -> None:
    site = Beta(tmp_path)
    beta = site.policy.clusters["beta"]
    beta = replace(beta, kind=type(beta.kind).OAR)
    site.start(replace(site.policy, clusters={**site.policy.clusters, "beta": beta}))
    site.look()

    assert site.usage_records.readers == {}
    assert site.records() == ()
