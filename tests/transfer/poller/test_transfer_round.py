"""Many rounds of the poller: ended transfers, restarts and changes of the clock."""

import os
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.decisions.transfer import transfer_status_explanation
from gridbridge.errors import ConflictingRemoteJobEnds
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.published_status_and_reports import PublishedClusterBreaker
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.model.site.site_check_facts import FolderFreeSpace
from gridbridge.model.transfer.transfer_config_sections import RetentionSection
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferAction, TransferActKind
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    StarterPhase,
    TransferFailureCause,
    TransferMessage,
    TransferMessageKind,
    TransferOutcome,
)
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program import service_disk_space as rooms
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.program.jobs_of_removed_accounts import OwnerlessJobNotDeleted
from gridbridge.program.threads_and_backoff import A_PERSON
from gridbridge.shell.clock import Clock
from gridbridge.shell.safe_files import account_name_or_uid
from gridbridge.state import published_file_formats, spool
from gridbridge.state.published_json import read_published_transfers
from gridbridge.state.spool_inbox import StarterMessageInbox
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller.poller_components import PollerResources
from gridbridge.transfer.poller.poller_daemon import _clusters_to_query
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher
from gridbridge.transfer.poller.transfer_acts import TransferActRunner
from gridbridge.transfer.poller.transfer_service import TransferService
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.states import job_state
from tests.transfer.poller.messages import NAME, RECORD, policy_to_beta

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
CLOSED = RECORD.with_changes(kind=TransferMessageKind.CLOSED, outcome=TransferOutcome.EXIT, exit_status="0")
DEAD = TransferMessage(kind=TransferMessageKind.INTENT, transfer=NAME, desired=DesiredLocalJobState.DEAD)


class Told:
    def __init__(self) -> None:
        self.interval_s = 5.0
        self.next: ClusterQueryResult | None = None
        self.wanted: frozenset[int] = frozenset()

    def take_query_result(self) -> ClusterQueryResult | None:
        """Return the answer once."""
        answer, self.next = self.next, None
        return answer

    def start_query_if_due(self, wanted: Callable[[], frozenset[int]], _uncounted: object) -> None:
        self.wanted = wanted()

    def shut_down_threads(self) -> None:
        """Do nothing."""


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spool = folder / "spool"
        (self.spool / "wake").mkdir(parents=True)
        (folder / "published").mkdir()
        self.policy = policy_to_beta()
        self.ahead_s = 0.0  # the clock, of this machine's
        self.passed_s = 0.0
        self.start()

    def start(self) -> None:
        shown = str(self.folder / "published")
        self.beta = Told()
        clock = Clock(self._wall_s, self._steady_s)
        resources = PollerResources(
            database=StateFile.open(f"sqlite:///{self.folder}/state.db"),
            inbox=StarterMessageInbox(str(self.spool), 100, clock),
            acts=TransferActRunner(self.policy, shown, str(self.spool)),
            views=TransferStatePublisher(self.policy, clock, shown),
            observers={"alpha": Told(), "beta": self.beta},
            spool=str(self.spool),
            clock=clock,
        )
        self.service = TransferService(self.policy, resources)
        self.service.mail.linger_s = 0
        self.service.load_stored_state()

    def restart(self) -> None:
        self.service.shut_down()
        self.start()

    def configure(self, *, clusters: tuple[str, ...]) -> None:
        """Restart with only these clusters and the queues that lead to them."""
        queues = {name: queue for name, queue in self.policy.queues.items() if queue.cluster in clusters}
        known = {name: self.policy.clusters[name] for name in clusters}
        self.policy = replace(self.policy, clusters=known, queues=queues)
        self.restart()

    def send(self, *messages: TransferMessage) -> None:
        """Write messages to the spool, with a round of the poller after each."""
        for message in messages:
            spool.send_spool_message(message, str(self.spool))
            self.service.run_poller_round()

    def answer(self, letters: str, name: str = "x") -> None:
        """Let beta list job 40 in this state; no letters: an empty list."""
        self.list_job("beta", letters, name=name)

    def list_job(self, cluster: str, letters: str, after_s: float = 0.0, **values: object) -> None:
        """Let home list job 7 or beta job 40, `after_s` after the query; no letters: an empty list."""
        job, state = {"alpha": 7, "beta": 40}[cluster], job_state(letters or "r")
        known = {"name": "x", "owner": account_name_or_uid(os.getuid()), "since": LONG_AGO} | values
        jobs = {job: (ClusterJobListRow(job_id=job, state=state, **known),)} if letters else {}
        taken_at = self.service.resources.clock.now() + timedelta(seconds=after_s)
        seen = ClusterSnapshot(cluster=cluster, taken_at=taken_at, jobs=jobs, pending=0, free_slots=0)
        self.service.resources.observers[cluster].next = ClusterQueryResult(cluster=cluster, snapshot=seen)  # type: ignore[attr-defined]  # Told
        self.service.run_poller_round()

    def answer_at_home(self, letters: str, queue: str = "transfer-beta@n1") -> None:
        self.list_job("alpha", letters, queue=queue)

    def events(self) -> list[str]:
        rows = TransferRows(self.service.resources.database)
        return [event.text for event in rows.events_of_transfer(NAME, os.getuid())]

    def replies(self, wake: str) -> list[TransferMessage]:
        """Return the poller's answer to the starter with this FIFO, if any."""
        path = published_file_formats.answer_path_for_starter(wake, os.getuid(), str(self.folder / "published"))
        reply = published_file_formats.read_verdict_or_reply(path)
        return [reply] if reply else []

    def fail_to_answer(self) -> None:
        self.beta.next = ClusterQueryResult(cluster="beta", trouble="connection refused")
        self.service.run_poller_round()

    def is_open(self) -> bool:
        load = published_file_formats.load_values_path(str(self.folder / "published"))
        return published_file_formats.parse_load_values_file(load)[2]["gb_beta_up"] == "1"

    def settle(self) -> None:
        """Wait until all threads of the poller are idle."""
        for _, future in self.service.dispatcher.open.values():
            future.exception(10)
        self.service.run_poller_round()

    def set_clock(self, by_s: float) -> None:
        """Set the clock, with a round of the poller."""
        self.ahead_s += by_s
        self.service.run_poller_round()

    def _steady_s(self) -> float:
        return time.monotonic() + self.passed_s

    def _wall_s(self) -> float:
        return time.time() + self.passed_s + self.ahead_s

    def records(self) -> int:
        return len(list(self.spool.glob("m.[0-9a-f]*")))


@pytest.mark.parametrize("news", ["another record", "an answer", "time", "a new process"])
def test_a_closed_message_is_stored_with_the_next_message_or_answer_or_after_a_time(
    machine: Machine, news: str
) -> None:
    machine.service.mail.linger_s = 1e9
    machine.send(RECORD, CLOSED)
    before = len(machine.service.ledger.open_transfers())
    if news == "another record":
        machine.send(RECORD.with_changes(transfer="gb.alpha.8.0.1", remote_id="41", wake="f1"))
    elif news == "an answer":
        machine.answer("r")
    elif news == "time":
        machine.service.mail.linger_s = 0
        machine.service.run_poller_round()
    else:
        machine.restart()
        machine.service.run_poller_round()

    assert before == 1
    assert (NAME, os.getuid()) not in machine.service.ledger.open
    [ended] = machine.service.ledger.ended.values()
    assert ended.reason == "ended here: exit status 0"


def test_a_delayed_closed_message_is_stored_after_a_limited_time(machine: Machine) -> None:
    machine.send(RECORD)
    machine.service.mail.linger_s = 100.0
    left = []
    for number in range(4):
        machine.send(CLOSED.with_changes(at=f"176722560{number}.000"))
        left.append(len(machine.service.ledger.open_transfers()))
        machine.passed_s += 40

    assert left == [1, 1, 1, 0]


def test_two_attempts_of_one_name_while_no_poller_ran_are_told_apart(machine: Machine) -> None:
    first = RECORD.with_changes(phase=StarterPhase.SUBMITTING, remote_id="", at="1767225600.000")
    refused = CLOSED.with_changes(outcome=TransferOutcome.ERROR, remote_id="", at="1767225601.000")
    second = RECORD.with_changes(wake="f1", at="1767225602.000")
    for message in (first, refused, second):
        spool.send_spool_message(message, str(machine.spool))

    machine.service.run_poller_round()

    [known] = machine.service.ledger.open_transfers()
    assert (known.wake, known.remote_id) == ("f1", 40)


def test_the_record_file_of_a_closed_transfer_stays_until_its_remote_job_is_gone(machine: Machine) -> None:
    """gridbridge-as-user needs the record to delete a remote job that runs again."""
    machine.send(RECORD, CLOSED)
    machine.answer("r")
    kept = machine.records()
    machine.answer("")

    assert (kept, machine.records()) == (1, 0)
    assert 40 not in machine.service.watched_job_ids()


def test_a_remote_folder_that_may_hold_outputs_is_kept_and_noted_once(machine: Machine) -> None:
    machine.send(
        RECORD.with_changes(stage=f".gridbridge/stage/{NAME}"),
        CLOSED.with_changes(kind=TransferMessageKind.ENDED),
        CLOSED,
    )
    machine.answer("")
    local = parse_transfer_name(NAME).local_job_or_task_id  # over before home was asked whose it is
    history = machine.folder / "published" / "told" / str(os.getuid()) / f"{local}.json"
    shown_at = history.stat().st_mtime_ns
    for _ in range(3):
        machine.answer("")
    told = machine.events()

    assert machine.records() == 1
    assert [text for text in told if "kept" in text] == [
        f"outputs may be missing at home: kept at beta, .gridbridge/stage/{NAME}"
    ]
    assert history.stat().st_mtime_ns == shown_at


def test_a_restarted_poller_queries_remote_jobs_of_closed_transfers_until_they_are_gone(machine: Machine) -> None:
    machine.send(RECORD, CLOSED)
    fifo = machine.spool / "wake/f0"
    fifo.touch()
    machine.restart()
    machine.service.run_poller_round()

    assert (40 in machine.beta.wanted, fifo.exists()) == (True, False)
    machine.answer("")
    assert (machine.records(), machine.service.ledger.ended) == (0, {})
    machine.restart()
    assert machine.service.ledger.ended == {}
    assert TransferRows(machine.service.resources.database).find_transfer(NAME, os.getuid()) is not None


def test_a_reopened_transfer_stays_open_without_a_remote_job(machine: Machine) -> None:
    machine.send(RECORD, CLOSED.with_changes(kind=TransferMessageKind.ENDED), CLOSED)
    for one in tuple(machine.service.ledger.ended.values()):
        machine.service.ledger.reopen_transfer(one)
    machine.answer("")
    machine.restart()

    assert (NAME, os.getuid()) in machine.service.ledger.open


@pytest.mark.parametrize(
    ("restarted", "status", "is_gone", "attempt"),
    [("yes", "3", False, 1), ("", "3", False, 2), ("yes", "99", False, 2), ("yes", "3", True, 2)],
    ids=["put back", "its error was cleared", "it was to run again", "another job under its number"],
)
def test_a_rescheduled_task_that_asks_receives_the_end_that_home_missed(
    machine: Machine, restarted: str, status: str, is_gone: bool, attempt: int
) -> None:
    closed = CLOSED.with_changes(exit_status=status)
    machine.send(RECORD, closed.with_changes(kind=TransferMessageKind.ENDED), closed)
    if is_gone:
        machine.list_job("alpha", "")
    machine.send(ASK.with_changes(restarted=restarted))

    assert [reply.transfer for reply in machine.replies("f1")] == [f"gb.alpha.7.0.{attempt}"]
    assert [one.name for one in machine.service.ledger.open_transfers()] == [NAME] * (attempt == 1)


def test_an_accounting_result_for_a_closed_transfer_does_not_reopen_the_transfer(machine: Machine) -> None:
    machine.send(RECORD)
    [one] = machine.service.ledger.open_transfers()
    found: Future[TransferMessage | None] = Future()
    found.set_result(CLOSED.with_changes(kind=TransferMessageKind.ENDED))
    sought = TransferAction(act=TransferActKind.LOOK_UP_END, transfer=one, why="missing")
    machine.service.dispatcher.open[TransferActKind.LOOK_UP_END, one.name, one.uid] = (sought, found)
    machine.send(CLOSED)

    machine.service.run_poller_round()

    assert not machine.service.ledger.open


def test_conflicting_accounting_records_are_noted_at_once_and_named_in_the_end(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.send(RECORD)
    [one] = machine.service.ledger.open_transfers()

    def seek(one: Transfer) -> None:
        machine.service.ledger.store_transfer(one)
        disputed: Future[TransferMessage | None] = Future()
        disputed.set_exception(ConflictingRemoteJobEnds("two records of job 40"))
        sought = TransferAction(act=TransferActKind.LOOK_UP_END, transfer=one, why="missing")
        machine.service.dispatcher.open[TransferActKind.LOOK_UP_END, one.name, one.uid] = (sought, disputed)
        machine.service.run_poller_round()

    seek(one)
    events = TransferRows(machine.service.resources.database).events_of_transfer(one.name, one.uid)
    seek(one.with_changes(missing_since=datetime.now(UTC) - timedelta(days=1), missed_polls=9))
    verdict = machine.service.ledger.open[one.name, one.uid].verdict

    assert events[-1].text == "two records of job 40 at beta disagree on its end"
    assert "event=disputed_end name=gb.alpha.7.0.1" in caplog.text
    assert (verdict.cause, verdict.reason) == (TransferFailureCause.DISPUTED, events[-1].text)


def test_the_reason_of_a_transfer_names_the_missing_account_of_its_owner(machine: Machine) -> None:
    machine.send(RECORD)
    [transfer] = machine.service.ledger.open_transfers()
    action = TransferAction(act=TransferActKind.DELETE_REMOTE, transfer=transfer, why="deleted at home")
    left: Future[TransferMessage | None] = Future()
    left.set_exception(OwnerlessJobNotDeleted("the account of alice is gone"))
    machine.service.dispatcher.open[TransferActKind.DELETE_REMOTE, transfer.name, transfer.uid] = (action, left)
    machine.service.run_poller_round()

    assert machine.events()[-1] == "the account of alice is gone"
    assert machine.service.ledger.open[transfer.transfer_key].reason == "the account of alice is gone"


def test_a_full_folder_of_tmpdirs_counts_as_no_room(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starters write their notes into TMPDIR."""
    publication = machine.service
    monkeypatch.setattr(publication.tmpdirs, "_known", frozenset({"/full"}))
    sizes = {"/full": FolderFreeSpace(free_bytes=0, free_files=0)}
    monkeypatch.setattr(
        rooms.local_host_facts, "free_bytes_and_files_of_folder", lambda folder: sizes.get(folder, FolderFreeSpace())
    )

    assert "/full" in publication.room.full_folder()


def test_a_transfer_that_the_state_file_dropped_is_not_watched(machine: Machine) -> None:
    machine.policy = replace(machine.policy, retention=RetentionSection(closed_h=0))
    machine.restart()
    machine.send(RECORD, CLOSED)
    machine.service.sweeper.swept_at = float("-inf")
    machine.service.run_poller_round()

    assert (machine.records(), machine.service.ledger.ended) == (0, {})


@pytest.mark.parametrize("restarts", [False, True], ids=["while it runs", "while it does not"])
def test_a_clock_that_is_set_back_delays_no_transfer(machine: Machine, restarts: bool) -> None:
    machine.set_clock(7200)
    machine.send(RECORD)
    machine.ahead_s = 0
    machine.restart() if restarts else machine.service.run_poller_round()
    machine.answer("")

    assert machine.service.ledger.open[NAME, os.getuid()].missed_polls == 1


def test_a_clock_that_is_set_back_shifts_breaker_and_free_slot_times(machine: Machine) -> None:
    now = datetime.now(UTC)
    until = now + timedelta(minutes=1)
    machine.service.breakers._store_breaker(PublishedClusterBreaker(cluster="beta", times=1, until=until))
    machine.service.recalls._free_at["alpha"] = now
    machine.set_clock(-3600)

    [known] = machine.service.resources.views.read_published_breakers()
    assert known.until
    assert is_near(known.until, until - timedelta(hours=1))
    assert is_near(machine.service.recalls._free_at["alpha"], now - timedelta(hours=1))


def test_a_clock_set_back_while_no_poller_ran_closes_queues_at_most_for_the_longest_pause(machine: Machine) -> None:
    far = datetime.now(UTC) + timedelta(hours=30)
    machine.service.breakers._store_breaker(PublishedClusterBreaker(cluster="beta", times=1, until=far))
    machine.restart()

    until = machine.service.breakers._known["beta"].until
    longest = timedelta(seconds=machine.policy.breaker.pause_max_s)
    assert until <= datetime.now(UTC) + longest


def test_two_failed_queries_close_the_queues_and_one_good_answer_opens_them(machine: Machine) -> None:
    is_open = []
    for is_good in (True, False, False, False, True, False, True, False):
        machine.answer("r") if is_good else machine.fail_to_answer()
        is_open.append(machine.is_open())

    assert is_open == [True, True, False, False, True, True, True, True]


def test_a_clock_that_is_set_forward_shifts_the_times_of_missing_and_deleted_jobs(machine: Machine) -> None:
    machine.send(RECORD)
    machine.answer_at_home("dr")
    machine.answer("")
    missing = machine.service.ledger.open[NAME, os.getuid()].missing_since
    deleted = dict(machine.service.situations.deleted_at_home)
    machine.set_clock(7200)

    after = machine.service.ledger.open[NAME, os.getuid()].missing_since
    assert is_near(after, missing + timedelta(hours=2))
    assert list(deleted) == [NAME]
    assert is_near(machine.service.situations.deleted_at_home[NAME], deleted[NAME] + timedelta(hours=2))


def is_near(one: datetime, other: datetime) -> bool:
    """Say whether two times differ by less than half a second."""
    return abs(one - other) < timedelta(seconds=0.5)


def test_transfers_to_an_unconfigured_cluster_wait_with_a_logged_reason(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.send(RECORD)
    machine.configure(clusters=("alpha",))
    machine.answer("")

    assert "event=dropped cluster=beta" in caplog.text
    [known] = machine.service.ledger.open_transfers()
    assert known.reason == transfer_status_explanation.describe_unconfigured_cluster("beta")
    machine.send(RECORD.with_changes(wake="f1"), CLOSED.with_changes(wake="f1"))
    assert not machine.service.ledger.open


def test_a_removed_route_is_withdrawn_once_no_transfer_uses_it(machine: Machine) -> None:
    route = machine.folder / "published/queues/transfer-beta"
    machine.send(RECORD)
    machine.configure(clusters=("alpha",))
    with_transfer = route.exists()
    machine.send(CLOSED)
    machine.restart()

    assert (with_transfer, route.exists()) == (True, False)


def test_gridbridge_check_warns_of_open_transfers_to_an_unconfigured_cluster(machine: Machine) -> None:
    machine.send(RECORD)
    machine.answer("r")
    transfers = read_published_transfers(str(machine.folder / "published"))

    [finding] = transfer_status_explanation.unconfigured_cluster_findings(transfers, ("alpha",))
    assert (finding.item, finding.state) == ("beta: open transfers", FindingSeverity.WARNING)
    assert list(transfer_status_explanation.unconfigured_cluster_findings(transfers, ("alpha", "beta"))) == []


def test_orphans_with_the_same_id_at_two_clusters_are_both_deleted(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    for _ in range(A_PERSON):
        machine.service.resources.workers.run_call_in_thread(account_name_or_uid(os.getuid()), gate.wait, 10.0)
    machine.answer("hqw", name=NAME)
    beta = machine.service.answers.good["beta"]
    machine.service.answers.good["alpha"] = replace(beta, cluster="alpha")
    for _ in range(3):
        machine.service.cleaner.delete_leftover_jobs(machine.service.situations.gather_inputs(()))
    gate.set()

    assert re.findall(r"event=orphan cluster=(\w+)", caplog.text) == ["beta", "alpha"]


def test_a_cluster_without_queue_is_queried_while_transfers_to_it_are_unfinished(machine: Machine) -> None:
    def asked() -> frozenset[str]:
        rows = TransferRows(machine.service.resources.database)
        return _clusters_to_query(
            replace(machine.policy, queues={}), (*rows.open_transfers(), *rows.watched_closed_transfers())
        )

    before = asked()
    machine.send(RECORD)
    while_open = asked()
    machine.send(CLOSED)
    while_ended = asked()
    machine.answer("")

    assert (before, asked()) == ({"alpha"}, {"alpha"})
    assert (while_open, while_ended) == ({"alpha", "beta"}, {"alpha", "beta"})


ASK = TransferMessage(kind=TransferMessageKind.ASK, transfer="gb.alpha.7.0.0", wake="f1")


def ask_twice(machine: Machine, ask: TransferMessage) -> tuple[list[str], list[str]]:
    """Return the transfers in the replies before and after beta's job list without the job."""
    (machine.spool / "wake/f1").touch()
    machine.send(ask)
    at_once = [reply.transfer for reply in machine.replies("f1")]
    machine.answer("")
    machine.send(ask.with_changes(at="1767225700.000"))
    return at_once, [reply.transfer for reply in machine.replies("f1")]


def test_a_task_that_was_rescheduled_twice_starts_a_new_attempt(machine: Machine) -> None:
    machine.send(RECORD, DEAD)
    machine.answer_at_home("Rr")

    assert ask_twice(machine, ASK.with_changes(restarted="yes")) == ([], ["gb.alpha.7.0.2"])


@pytest.mark.parametrize(
    ("submitted", "restarted", "wake", "expected"),
    [
        *(("200", "", "f0", "gb.alpha.7.0.2"), ("100", "", "f0", NAME), ("200", "yes", "f0", NAME)),
        *(("", "", "f0", NAME), ("200", "", "f1", NAME)),
    ],
    ids=["another job", "its start was forgotten", "put back", "not told", "the recorded starter"],
)
def test_a_job_under_a_reused_number_does_not_adopt_an_earlier_transfer(
    machine: Machine, submitted: str, restarted: str, wake: str, expected: str
) -> None:
    """Job numbers begin anew when a home cluster is restored from an older state."""
    end = CLOSED.with_changes(kind=TransferMessageKind.ENDED)
    machine.send(RECORD.with_changes(submitted="100", wake=wake), end)
    machine.answer_at_home("r")
    ask = ASK.with_changes(restarted=restarted, submitted=submitted)

    assert ask_twice(machine, ask) == ([] if expected != NAME else [NAME], [expected])
