"""A claim or grant is in the state file before anybody acts on it."""

import os
import pwd
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.batch.gridengine.qstat_xml_parser import parse_cluster_snapshot
from gridbridge.model.cluster_snapshot import ClusterJobListRow
from gridbridge.model.transfer.claim_and_guard import CLAIMS_FOLDER, FENCED, HOME, JOB, claim_key_file_name_and_contents
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_messages_in_spool import (
    TransferFailureCause,
    TransferMessage,
    TransferMessageKind,
    TransferOutcome,
)
from gridbridge.model.transfer_route import SshLogin
from gridbridge.program.cluster_observer import ClusterQueryResult
from gridbridge.shell import ssh
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.spool_reader import MOST
from gridbridge.transfer.poller import poller_decision_journal as journalled
from gridbridge.transfer.poller import remote_job_claims
from gridbridge.transfer.poller.leftover_remote_job_removal import SWEEP_S
from gridbridge.transfer.poller.remote_job_claims import GRANTS
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.builders.qstat import job_list, queue_row, resource
from tests.states import job_state
from tests.transfer.poller.messages import NAME, RECORD
from tests.transfer.poller.test_transfer_round import Machine

WHY = "recalled from beta: it does not answer"
OF = f"{os.getuid()}.t0"
BY_FILE, BY_GRANT = RECORD.with_changes(claim="file.t0"), RECORD.with_changes(claim="grant.t0")


class Far(ssh.OpenSshClient):
    """A local folder as remote host, over a connection that can fail before or after a request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_cut = self.is_answer_lost = False
        self.seen: list[str] = []  # who had the claim in the state file when something was asked

    def run_ssh_request(
        self, login: SshLogin, _token: str, request: bytes, timeout_s: float, most_bytes: int = 0
    ) -> tuple[CompletedProgram, bool]:
        del login, most_bytes
        with closing(sqlite3.connect(self.folder.parent / "state.db")) as state:
            self.seen += [who for (who,) in state.execute("SELECT claimed FROM transfers")]
        if self.is_cut:
            return CompletedProgram(("ssh",), 255, b"", b"cut"), True
        argv = ("sh", "-c", ssh.FAR_SHELL)
        done = subprocess.run(argv, input=request, capture_output=True, cwd=self.folder, timeout=timeout_s, check=False)
        out = b"" if self.is_answer_lost else done.stdout
        return CompletedProgram(argv, done.returncode, out, done.stderr), False


@pytest.fixture
def machine(machine: Machine) -> Machine:
    (machine.spool / CLAIMS_FOLDER).mkdir()
    return machine


@pytest.fixture
def opened() -> Iterator[list[int]]:
    """Return a list of file descriptors that stay open until the test ends."""
    ends: list[int] = []
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture
def link(machine: Machine, tmp_path: Path) -> Iterator[Far]:
    """Make beta a cluster by ssh, with a home folder that jobs may enter."""
    folder = tmp_path / "far"
    folder.mkdir()
    folder.chmod(0o755)
    clusters = dict(machine.policy.clusters)
    clusters["beta"] = replace(clusters["beta"], ssh="far")
    machine.policy = replace(machine.policy, clusters=clusters)
    machine.restart()
    link = Far(folder)
    usual = ssh._carrier
    ssh.set_ssh_request_carrier(link)
    yield link
    ssh.set_ssh_request_carrier(usual)


def known(machine: Machine) -> Transfer:
    (one,) = TransferRows(machine.service.resources.database).open_transfers()
    return one


def sent(machine: Machine) -> None:
    """Wait until all sent grants have an answer."""
    for _, give in machine.service.claims._sent.values():
        give.exception(10)
    machine.service.run_poller_round()


def recall(machine: Machine) -> None:
    with machine.service.ledger.transaction():
        machine.service.claims.recall_task_by_claim(known(machine), WHY)


def granted(link: Far) -> list[str]:
    folder = link.folder / GRANTS
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_after_a_stopped_poller_continues_the_silence_of_clusters_starts_anew(machine: Machine) -> None:
    before = machine.service.situations.since_s
    machine.service.run_poller_round()
    unmoved = machine.service.situations.since_s
    machine.service.situations.looked_at_s -= 30
    machine.service.run_poller_round()

    assert unmoved == before
    assert before < machine.service.situations.since_s <= machine.service.situations.looked_at_s


JOBS = range(7, 10)


def a_record_of(job: int) -> TransferMessage:
    name, wake = f"gb.alpha.{job}.0.1", f"f{job}"
    return RECORD.with_changes(transfer=name, wake=wake, remote_id=str(job + 100), claim=f"file.t{job}")


def home_shows(machine: Machine, free_slots: int, besteffort_slots: int = 0) -> None:
    """Let home list all starters as running, and wait for the poller's checks."""
    me = pwd.getpwuid(os.getuid()).pw_name
    rows = {job: (ClusterJobListRow(job_id=job, name="x", owner=me, state=job_state("hr")),) for job in JOBS}
    now = datetime.now(UTC)
    besteffort = queue_row("gb-be.q@h", 0, besteffort_slots, resource("gb_besteffort", "1.000000"))
    document = job_list(queues=(queue_row("all.q@h", 0, free_slots), besteffort))
    shown = replace(parse_cluster_snapshot(document, cluster="alpha", taken_at=now), jobs=rows)
    machine.service.resources.observers["alpha"].next = ClusterQueryResult(cluster="alpha", snapshot=shown)
    machine.service.run_poller_round()
    for _, check in machine.service.recalls._checking.values():
        check.exception(10)
    machine.service.run_poller_round()


def test_a_recall_that_creates_the_claim_file_ends_the_transfer(machine: Machine) -> None:
    machine.send(BY_FILE)
    recall(machine)
    machine.restart()

    one = known(machine)
    assert (one.claimed, one.verdict.outcome, one.verdict.reason) == (HOME, TransferOutcome.REQUEUE, WHY)
    assert (machine.spool / CLAIMS_FOLDER / OF).is_symlink()


def test_the_claim_key_of_a_known_transfer_is_not_swept(machine: Machine) -> None:
    machine.send(BY_FILE)
    key = machine.spool / CLAIMS_FOLDER / claim_key_file_name_and_contents(BY_FILE.claim, os.getuid())[0]
    for path in (key, machine.spool / CLAIMS_FOLDER / "1.nobodys.key"):
        path.touch()
    sweeper = machine.service.claims
    sweeper._clock = Clock(wall=lambda: time.time() + 2 * remote_job_claims.MAX_AGE_S)
    sweeper.sweep_claim_files()

    assert [*(machine.spool / CLAIMS_FOLDER).iterdir()] == [key]


def test_a_sweep_handles_a_limited_number_of_foreign_claim_files_per_round(machine: Machine) -> None:
    for number in range(2 * MOST):
        (machine.spool / CLAIMS_FOLDER / f"1.nobodys{number}").touch()
    times_s = [0.0]
    sweeper = machine.service.sweeper
    sweeper.clock = Clock(steady=lambda: times_s[-1])
    sweeper.claims._clock = Clock(wall=lambda: time.time() + 2 * remote_job_claims.MAX_AGE_S)
    left = []
    for after_s in (1, 2, 10, 20):
        times_s.append(SWEEP_S + after_s)
        sweeper.sweep_old_data_if_due()
        left.append(len([*(machine.spool / CLAIMS_FOLDER).iterdir()]))

    assert left == [MOST, MOST, 0, 0]


@pytest.mark.parametrize(
    ("found", "claimed"),
    [("the job's claim", JOB), ("home's claim of a killed recall", HOME), ("no claims folder", "")],
    ids=str,
)
def test_a_recall_goes_by_the_claim_file_that_exists(machine: Machine, found: str, claimed: str) -> None:
    machine.send(BY_FILE)
    claims = machine.spool / CLAIMS_FOLDER
    if claimed == JOB:
        (claims / OF).touch()
    elif claimed == HOME:
        remote_job_claims.claim_task_for_home(OF, os.getuid(), str(machine.spool))
        machine.restart()
    else:
        claims.rmdir()
    recall(machine)

    assert known(machine).claimed == claimed
    assert (known(machine).verdict is None) == (claimed != HOME)


@pytest.fixture(name="waiting")
def _waiting(machine: Machine, opened: list[int]) -> Machine:
    """Return the machine with tasks that have waited at beta for an hour."""
    machine.service.resources.acts.tasks.require_home_queue = lambda _: None  # type: ignore[method-assign]
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    for job in JOBS:
        wake = machine.spool / "wake" / f"f{job}"
        os.mkfifo(wake)
        opened.append(os.open(wake, os.O_RDWR))
        machine.send(a_record_of(job))
    with machine.service.ledger.transaction():
        for one in tuple(machine.service.ledger.open_transfers()):
            waits = one.with_changes(created_at=long_ago, seen_at=long_ago, remote_state=job_state("qw"))
            machine.service.ledger.store_transfer(waits)
    machine.service.situations.since_s -= 3600
    return machine


def called_home(machine: Machine) -> list[str]:
    return [one.name for one in machine.service.ledger.open_transfers() if one.claimed == HOME]


def test_slots_for_preemptible_tasks_are_not_free_for_recalls(waiting: Machine) -> None:
    for _ in range(6):
        home_shows(waiting, free_slots=0, besteffort_slots=9)
    before = called_home(waiting)
    for _ in range(6):
        home_shows(waiting, free_slots=1, besteffort_slots=9)

    assert (before, len(called_home(waiting))) == ([], 1)


def test_no_more_tasks_are_recalled_than_slots_are_free(waiting: Machine) -> None:
    """The slot of a recalled task is listed as free until the task is home."""
    machine = waiting
    for _ in range(6):
        home_shows(machine, free_slots=1)

    assert len(called_home(machine)) == 1
    kept = DecisionJournal(machine.service.resources.database).last_decisions(99)
    recalls = [one.inputs for one in kept if one.program == journalled.RECALL_PROGRAM]
    assert recalls
    assert all(journalled.replay_recalls(one) == one["actions"] for one in recalls)


def test_claim_files_are_removed_once_the_remote_job_is_gone(machine: Machine) -> None:
    machine.send(BY_FILE)
    key = machine.spool / CLAIMS_FOLDER / claim_key_file_name_and_contents(BY_FILE.claim, os.getuid())[0]
    key.touch()
    recall(machine)
    machine.send(RECORD.with_changes(kind=TransferMessageKind.CLOSED, outcome=TransferOutcome.REQUEUE, reason=WHY))
    machine.answer("qw")
    kept = list((machine.spool / CLAIMS_FOLDER).iterdir())
    machine.settle()
    machine.answer("")

    assert (len(kept), list((machine.spool / CLAIMS_FOLDER).iterdir())) == (2, [])


def test_a_restarted_poller_sends_the_grant_that_was_stored_but_not_sent(machine: Machine, link: Far) -> None:
    machine.send(BY_GRANT)
    machine.answer("qw")
    TransferRows(machine.service.resources.database).insert_or_update_transfer(known(machine).with_changes(claimed=JOB))
    machine.restart()
    machine.service.run_poller_round()
    sent(machine)

    assert granted(link) == [OF]


def test_a_started_remote_job_gets_one_grant_which_is_stored_first(machine: Machine, link: Far) -> None:
    machine.send(BY_GRANT)
    machine.answer("qw")
    before = known(machine).claimed
    machine.answer("r")
    sent(machine)

    assert (before, known(machine).claimed, granted(link)) == ("", JOB, [OF])
    assert (link.seen, machine.service.claims._due["beta"]) == ([JOB], {})


def test_a_granted_job_is_not_recalled_even_if_the_grant_may_be_lost(machine: Machine, link: Far) -> None:
    link.is_cut = True
    machine.send(BY_GRANT)
    machine.answer("r")
    sent(machine)
    recall(machine)

    assert (known(machine).claimed, known(machine).verdict, granted(link)) == (JOB, None, [])


def test_a_recalled_job_gets_no_grant(machine: Machine, link: Far) -> None:
    machine.send(BY_GRANT)
    machine.answer("qw")
    recall(machine)
    machine.answer("r")
    machine.restart()
    machine.answer("r")

    assert (known(machine).claimed, granted(link)) == (HOME, [])


@pytest.mark.parametrize("trouble", ["is_cut", "is_answer_lost"])
def test_a_grant_is_sent_again_until_the_cluster_confirms_the_grant(machine: Machine, link: Far, trouble: str) -> None:
    setattr(link, trouble, True)
    machine.send(BY_GRANT)
    machine.answer("r")
    sent(machine)
    waits = dict(machine.service.claims._due["beta"])
    setattr(link, trouble, False)
    machine.restart()
    machine.service.run_poller_round()
    sent(machine)

    assert (len(waits), machine.service.claims._due["beta"], granted(link)) == (1, {}, [OF])


def test_a_remote_home_folder_without_search_permission_is_logged(
    machine: Machine, link: Far, caplog: pytest.LogCaptureFixture
) -> None:
    link.folder.chmod(0o700)
    machine.send(BY_GRANT)
    machine.answer("r")
    sent(machine)

    assert granted(link) == []
    assert "event=failed act=grant cluster=beta" in caplog.text
    assert "has to let jobs pass" in caplog.text


def test_a_grant_file_is_removed_once_the_remote_job_is_gone(machine: Machine, link: Far) -> None:
    machine.send(BY_GRANT)
    machine.answer("r")
    sent(machine)
    machine.send(RECORD.with_changes(kind=TransferMessageKind.CLOSED, outcome=TransferOutcome.EXIT, exit_status="0"))
    machine.answer("")
    for gone in machine.service.claims._removing.values():
        gone.exception(10)
    machine.answer("")

    assert (granted(link), machine.service.ledger.ended) == ([], {})


def test_the_third_fenced_attempt_of_a_task_enters_the_error_state(machine: Machine) -> None:
    end = TransferMessage(outcome=TransferOutcome.REQUEUE, claim=FENCED, cause=TransferFailureCause.UNGRANTED)
    outcomes = []
    for attempt in (1, 2, 3):
        name = NAME.removesuffix("1") + str(attempt)
        machine.send(BY_GRANT.with_changes(transfer=name, wake=f"f{attempt}"))
        told = machine.service.claims.limit_fenced_attempts(known(machine), end)
        outcomes.append(told.outcome)
        closed = TransferMessage(kind=TransferMessageKind.CLOSED, at=RECORD.at, transfer=name, outcome=told.outcome)
        machine.send(closed.with_changes(cause=told.cause))

    assert outcomes == [TransferOutcome.REQUEUE, TransferOutcome.REQUEUE, TransferOutcome.ERROR]


def test_a_job_that_may_not_have_seen_its_grant_is_noted_in_the_history(machine: Machine, link: Far) -> None:
    del link
    machine.send(BY_GRANT)
    machine.answer("r")
    end = TransferMessage(outcome=TransferOutcome.EXIT, exit_status="99", wallclock_s="603")
    with machine.service.ledger.transaction():
        told = machine.service.claims.limit_fenced_attempts(known(machine), end)

    assert told is end
    assert "the grant may be unseen" in " ".join(
        event.text for event in TransferRows(machine.service.resources.database).events_of_transfer(NAME, os.getuid())
    )
