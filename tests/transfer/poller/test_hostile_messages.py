"""No message of a person stops the poller or changes a transfer of another person."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation
from gridbridge.model.transfer.transfer_config_sections import PollerSection
from gridbridge.model.transfer_messages_in_spool import (
    KEYS,
    DesiredLocalJobState,
    StarterPhase,
    TransferMessage,
    TransferMessageKind,
    TransferOutcome,
    encode_transfer_message,
)
from gridbridge.program.threads_and_backoff import OwnerThreadPools
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.state import published_file_formats, spool
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.spool_reader import MessageWithAuthorUid
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller.poller_components import PollerResources
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher
from gridbridge.transfer.poller.starter_message_reader import PREMATURE_OF_UID
from gridbridge.transfer.poller.transfer_acts import TransferActRunner
from gridbridge.transfer.poller.transfer_service import TransferService
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.transfer.poller.messages import NAME, RECORD, policy_to_beta, without_account

ALICE, BOB = without_account(2)
LIMIT = 20


class Inboxes:
    """An inbox in memory, whose messages may have any author."""

    def __init__(self) -> None:
        self.messages: list[MessageWithAuthorUid] = []
        self._known: dict[str, MessageWithAuthorUid] = {}
        self.is_fifo_sweep_unfinished = False
        self.remove_stored_message = self.restore_spool_loss_mark = lambda *_: None
        self.staged_folder_of_record = self.submission_time_of_record = lambda _: ""
        self.remove_old_fifos = lambda _: 0

    def put(self, message: TransferMessage, uid: int = ALICE) -> None:
        name = safe_files.random_file_name("m.")
        self.messages.append(MessageWithAuthorUid(path=f"/spool/{name}", uid=uid, message=message))
        self._known[f"/spool/{name}"] = self.messages[-1]

    def return_messages_again(self, paths: Iterable[str]) -> None:
        self.messages += [self._known[path] for path in paths]

    def read_new_messages(self) -> tuple[MessageWithAuthorUid, ...]:
        """Return the messages that were added since the last call."""
        messages, self.messages = tuple(self.messages), []
        return messages


@pytest.fixture
def service(tmp_path: Path) -> Iterator[TransferService]:
    """Return a poller without clusters, with its own spool and folders."""
    folder = tmp_path / "published"
    folder.mkdir()
    (tmp_path / "spool/wake").mkdir(parents=True)
    policy = policy_to_beta(poller=PollerSection(spool_files_per_uid=LIMIT))
    database = StateFile.open(f"sqlite:///{tmp_path}/state.db")
    acts = TransferActRunner(policy, str(folder), str(tmp_path / "spool"))
    outputs = {"acts": acts, "views": NoViews(policy, Clock(), str(folder)), "spool": str(tmp_path / "spool")}
    resources = PollerResources(database=database, inbox=Inboxes(), observers={}, **outputs)
    service = TransferService(policy, resources)
    service.mail.linger_s = 0
    yield service
    database.close()


class NoViews(TransferStatePublisher):
    def publish_load_values(self, *_: object) -> None:
        """Publish nothing."""


def send(service: TransferService, *messages: TransferMessage, uid: int = ALICE) -> None:
    """Send messages of a person, with a round of the poller after each."""
    for message in messages:
        service.resources.inbox.put(message, uid)
        service.run_poller_round()


def test_a_refused_message_is_journalled(service: TransferService) -> None:
    send(service, RECORD, RECORD.with_changes(remote="gamma"))

    (kept,) = DecisionJournal(service.resources.database).last_decisions(9)
    assert kept.sentence == f"refuse {NAME}: no transfer queue 'transfer-beta' leads to 'gamma'"


@pytest.mark.parametrize(
    "forged",
    [
        RECORD,
        RECORD.with_changes(phase=StarterPhase.SUBMITTING, remote_id=""),
        TransferMessage(kind=TransferMessageKind.INTENT, desired=DesiredLocalJobState.DEAD),
        TransferMessage(kind=TransferMessageKind.ENDED, remote_id="40", outcome=TransferOutcome.EXIT, exit_status="1"),
        TransferMessage(kind=TransferMessageKind.CLOSED, outcome=TransferOutcome.EXIT),
        TransferMessage(kind=TransferMessageKind.ASK, wake="b0"),
    ],
    ids=["record", "first record", "intent", "ended", "closed", "ask"],
)
def test_a_forged_message_does_not_change_the_transfer_of_another_owner(
    service: TransferService, forged: TransferMessage
) -> None:
    send(service, RECORD)
    before = TransferRows(service.resources.database).find_transfer(NAME, ALICE)
    send(service, RECORD, forged.with_changes(transfer=NAME, at="1767225601.000"), uid=BOB)

    assert TransferRows(service.resources.database).find_transfer(NAME, ALICE) == before
    assert service.ledger.open[NAME, ALICE] == before
    assert not Path(verdicts(service, ALICE)).exists()


def verdicts(service: TransferService, uid: int) -> str:
    return f"{service.resources.acts.verdicts._folder}/verdicts/{uid}"


@pytest.mark.parametrize("wake", ["../1001/gb.alpha.7.0.1", "../../load", "", "f" * 200, "a/b"])
def test_a_hostile_fifo_name_in_a_question_writes_no_file(service: TransferService, wake: str) -> None:
    """The FIFO name of a question names the file of its answer."""
    send(service, RECORD)
    send(service, TransferMessage(kind=TransferMessageKind.ASK, transfer="gb.alpha.7.0.0", at="1", wake=wake), uid=BOB)

    root = Path(service.resources.acts.verdicts._folder)
    assert list(root.glob("verdicts/**/*")) == []
    assert not (root / "load").exists()
    assert sorted(os.listdir(root.parent)) == ["published", "spool", "state.db", "state.db-journal"]


def test_a_question_read_together_with_the_closed_message_is_answered_after_the_close(service: TransferService) -> None:
    send(service, RECORD)
    service.resources.inbox.put(
        TransferMessage(kind=TransferMessageKind.ASK, transfer="gb.alpha.7.0.0", at="3", wake="f1")
    )
    service.resources.inbox.put(
        TransferMessage(kind=TransferMessageKind.CLOSED, transfer=NAME, at="2", outcome=TransferOutcome.REQUEUE)
    )
    service.run_poller_round()

    reply = published_file_formats.read_verdict_or_reply(answer_path(service))
    assert reply.transfer == "gb.alpha.7.0.2"


def answer_path(service: TransferService) -> str:
    folder = service.resources.acts.verdicts._folder
    return published_file_formats.answer_path_for_starter("f1", ALICE, folder)


def test_the_folders_of_answers_cannot_be_listed_by_other_people(service: TransferService) -> None:
    """The name of an answer is the name of the starter's FIFO."""
    old = Path(verdicts(service, BOB))
    old.mkdir(parents=True)
    service.load_stored_state()
    send(service, TransferMessage(kind=TransferMessageKind.ASK, transfer="gb.alpha.9.0.0", at="1", wake="f1"))

    modes = [oct(Path(verdicts(service, uid)).stat().st_mode & 0o777) for uid in (ALICE, BOB)]
    assert modes == ["0o711", "0o711"]


def test_each_person_has_a_limited_number_of_answers(service: TransferService) -> None:
    for number in range(LIMIT + 5):
        service.resources.inbox.put(
            TransferMessage(kind=TransferMessageKind.ASK, transfer=f"gb.alpha.{number}.0.0", at="1", wake=f"f{number}")
        )
    service.run_poller_round()

    assert len(os.listdir(verdicts(service, ALICE))) == LIMIT


def test_unfetched_answers_are_swept_unless_their_starter_waits(service: TransferService) -> None:
    send(service, TransferMessage(kind=TransferMessageKind.ASK, transfer="gb.alpha.9.0.0", at="1", wake="f1"))
    path, sweep = answer_path(service), service.resources.acts.verdicts.sweep_unread_verdicts
    left = []
    for waiting, before_s in (((), os.stat(path).st_mtime), (("f1",), time.time() + 1), ((), time.time() + 1)):
        sweep(frozenset(waiting), before_s)
        left.append(os.path.exists(path))

    assert left == [True, True, False]


def test_a_temporary_file_of_a_killed_writer_is_swept(service: TransferService) -> None:
    left = Path(service.resources.acts.verdicts._folder, ".0")
    kept = left.with_name("load")
    left.touch()
    kept.touch()
    service.resources.acts.verdicts.sweep_unread_verdicts(frozenset(), time.time() + 1)

    assert (left.exists(), kept.exists()) == (False, True)


def test_open_transfers_of_one_person_are_limited_and_further_records_wait(service: TransferService) -> None:
    def open_of_bob() -> set[str]:
        return {name for name, uid in service.ledger.open if uid == BOB}

    for number in range(LIMIT + 5):
        service.resources.inbox.put(RECORD.with_changes(transfer=f"gb.alpha.{number}.0.1"), BOB)
    service.run_poller_round()
    send(service, RECORD)

    first = open_of_bob()
    assert len(first) == LIMIT // 2
    assert (NAME, ALICE) in service.ledger.open
    send(service, TransferMessage(kind=TransferMessageKind.CLOSED, transfer=min(first), at="1"), uid=BOB)
    service.run_poller_round()
    assert len(open_of_bob()) == LIMIT // 2
    assert len(open_of_bob() - first) == 1


def test_a_waiting_record_is_replaced_by_a_later_record_of_its_starter(service: TransferService) -> None:
    others = [RECORD.with_changes(transfer=f"gb.alpha.{job}.0.1") for job in range(100, 100 + LIMIT // 2)]
    send(service, *others)
    send(service, RECORD.with_changes(phase=StarterPhase.HELD), RECORD.with_changes(at="1767225601.000"))
    send(service, TransferMessage(kind=TransferMessageKind.CLOSED, transfer=others[0].transfer, at=RECORD.at))
    service.run_poller_round()

    assert service.ledger.open[NAME, ALICE].phase == StarterPhase.RELEASED


def test_a_limited_number_of_messages_waits_for_the_record(service: TransferService) -> None:
    ended = TransferMessage(
        kind=TransferMessageKind.ENDED, transfer=NAME, at="1", remote_id="40", outcome="exit", exit_status="0"
    )
    send(service, ended)
    for number in range(PREMATURE_OF_UID + 50):
        service.resources.inbox.put(ended.with_changes(transfer=f"gb.alpha.{number + 8}.0.1"), BOB)
    service.run_poller_round()
    assert len(service.mail.premature) == PREMATURE_OF_UID + 1

    send(service, RECORD)

    assert service.ledger.open[NAME, ALICE].verdict == ended


@pytest.mark.parametrize("squat", [os.mkdir, lambda path: os.symlink("/", path)])
def test_a_folder_or_link_in_place_of_a_wake_fifo_is_harmless(
    service: TransferService, squat: Callable[[str], None]
) -> None:
    path = f"{service.resources.spool}/{spool.WAKE}/f0"
    squat(path)
    send(service, RECORD, TransferMessage(kind=TransferMessageKind.CLOSED, transfer=NAME, at="2"))

    assert service.ledger.open == {}


@given(
    st.lists(
        st.dictionaries(st.sampled_from(KEYS), st.binary(max_size=40).map(lambda raw: raw.decode("latin-1"))),
        max_size=4,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
def test_no_message_content_stops_the_poller(service: TransferService, contents: list[dict[str, str]]) -> None:
    for kind in ("RECORD", "INTENT", "ENDED", "CLOSED", "ASK"):
        for values in contents:
            message = TransferMessage(
                **(vars(RECORD) | values | {"kind": getattr(TransferMessageKind, kind), "transfer": NAME})
            )
            if len(encode_transfer_message(message)) <= 4096:
                send(service, message, uid=BOB)

    assert isinstance(service.situations.gather_inputs(()), TransferSituation)


def test_slow_acts_of_one_owner_delay_no_other_owner() -> None:
    never = threading.Event()
    workers = OwnerThreadPools()
    for _ in range(50):
        workers.run_call_in_thread("bob", lambda event: event.wait(60), never)

    done = workers.run_call_in_thread("alice", lambda word: word, "done")

    assert done.result(timeout=5) == "done"
    never.set()


def test_idle_threads_of_owners_are_ended() -> None:
    workers = OwnerThreadPools()
    for number in range(50):
        workers.run_call_in_thread(f"user{number}", str, number).result(timeout=5)
    workers.run_call_in_thread("alice", str, 1).result(timeout=5)

    assert len(workers._threads) <= 2
