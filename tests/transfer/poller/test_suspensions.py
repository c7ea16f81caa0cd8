"""The poller asks starters to follow a suspension that their methods missed."""

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.model.site_configuration import ClusterKind
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    TransferMessage,
    TransferMessageKind,
    TransferOutcome,
)
from gridbridge.state.published_file_formats import read_verdict_or_reply, transfer_verdict_path
from gridbridge.transfer.poller import home_start_guard_and_suspension_repair as repair
from tests.transfer.poller.messages import NAME, RECORD
from tests.transfer.poller.test_transfer_round import Machine

SUSPENDED = RECORD.with_changes(kind=TransferMessageKind.INTENT, desired=DesiredLocalJobState.SUSPENDED)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Return a poller with a transfer whose starter sleeps."""
    machine = Machine(tmp_path)
    wake = machine.spool / f"wake/{RECORD.wake}"
    os.mkfifo(wake)
    sleeper = os.open(wake, os.O_RDWR | os.O_NONBLOCK)
    machine.send(RECORD)
    yield machine
    machine.service.shut_down()
    os.close(sleeper)


def shown(machine: Machine) -> TransferMessage | None:
    folder = str(machine.folder / "published")
    return read_verdict_or_reply(transfer_verdict_path(NAME, os.getuid(), folder))


def disagree(machine: Machine, answers: int = 2) -> None:
    """Send a suspend intent, while that many job lists of home show the job as running."""
    machine.send(SUSPENDED)
    for _ in range(answers):
        machine.list_job("alpha", "hr")


def test_a_suspension_mismatch_is_reported_to_the_starter_after_two_home_job_lists(machine: Machine) -> None:
    disagree(machine, answers=1)
    machine.list_job("beta", "hs")
    once = shown(machine)
    machine.list_job("alpha", "hr")

    wish = shown(machine)
    assert once is None
    assert (wish.outcome, wish.desired) == (TransferOutcome.AGREE, DesiredLocalJobState.RUNNING)


def test_a_mismatch_that_vanished_once_needs_two_more_home_job_lists(machine: Machine) -> None:
    disagree(machine, answers=1)
    machine.list_job("alpha", "hs")
    machine.list_job("alpha", "hr")

    assert shown(machine) is None


@pytest.mark.parametrize(
    ("news", "status"),
    [
        (SUSPENDED.with_changes(desired=DesiredLocalJobState.RUNNING), None),
        (RECORD.with_changes(kind=TransferMessageKind.ENDED, outcome=TransferOutcome.EXIT, exit_status="3"), "3"),
    ],
    ids=["the starter follows", "the job has ended"],
)
def test_the_request_is_removed_once_the_starter_follows_or_the_job_has_ended(
    machine: Machine, news: TransferMessage, status: str | None
) -> None:
    disagree(machine)
    machine.send(news)
    machine.list_job("alpha", "hr")

    verdict = shown(machine)
    assert (verdict.exit_status if verdict else None) == status


def test_a_recall_request_is_not_removed_as_a_suspension_request(machine: Machine) -> None:
    disagree(machine)
    recalled = TransferMessage(transfer=NAME, outcome=TransferOutcome.RECALL)
    machine.service.recalls.transfers_being_recalled = lambda: {(NAME, os.getuid())}  # type: ignore[method-assign]
    path = Path(transfer_verdict_path(NAME, os.getuid(), str(machine.folder / "published")))
    path.write_text("outcome=recall\n")
    machine.list_job("alpha", "hr")

    assert shown(machine) == recalled.with_changes(transfer="")


class Hours:
    def __init__(self, machine: Machine) -> None:
        self.now_s = 0.0
        service = machine.service
        service.suspensions = repair.SuspensionReconciler(
            machine.policy, service.ledger, service.resources.acts.verdicts, lambda: self.now_s
        )


def test_an_ignored_suspension_request_is_repeated_after_growing_pauses_with_one_warning(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    hours = Hours(machine)
    disagree(machine)
    told = [0.0]
    while hours.now_s < 4 * repair.LONGEST_SUSPENSION_REQUEST_PAUSE_S:
        before = shown(machine)
        hours.now_s += repair.FIRST_SUSPENSION_REQUEST_PAUSE_S
        machine.list_job("alpha", "hr")
        if shown(machine) != before:
            told.append(hours.now_s)

    pauses = [after - before for before, after in itertools.pairwise(told)]
    assert pauses[:3] == [
        repair.FIRST_SUSPENSION_REQUEST_PAUSE_S,
        2 * repair.FIRST_SUSPENSION_REQUEST_PAUSE_S,
        4 * repair.FIRST_SUSPENSION_REQUEST_PAUSE_S,
    ]
    assert pauses[-1] == repair.LONGEST_SUSPENSION_REQUEST_PAUSE_S
    assert caplog.text.count(repair.UNHEEDED_SUSPENSION_WARNING) == 1


def test_a_different_suspension_request_is_sent_at_once(machine: Machine) -> None:
    hours = Hours(machine)
    disagree(machine)
    hours.now_s += repair.FIRST_SUSPENSION_REQUEST_PAUSE_S
    machine.list_job("alpha", "hr")
    machine.send(SUSPENDED.with_changes(desired=DesiredLocalJobState.RUNNING))
    for _ in range(2):
        machine.list_job("alpha", "hs")

    wish = shown(machine)
    assert wish.desired == DesiredLocalJobState.SUSPENDED


def test_a_clock_change_or_a_restart_begins_a_new_count_of_home_job_lists(machine: Machine) -> None:
    disagree(machine, answers=1)
    machine.set_clock(-60)
    machine.list_job("alpha", "hr")
    after_change = shown(machine)
    machine.restart()
    machine.list_job("alpha", "hr")
    after_restart = shown(machine)
    machine.list_job("alpha", "hr")

    assert after_change is after_restart is None
    assert shown(machine)


def test_only_a_cluster_kind_that_shows_suspensions_is_compared(machine: Machine) -> None:
    clusters = machine.policy.clusters
    beta = replace(clusters["beta"], kind=ClusterKind.OAR)
    policy = replace(machine.policy, clusters=clusters | {"beta": beta})
    machine.service.suspensions.use_changed_configuration(policy)
    machine.send(SUSPENDED)
    for _ in range(2):
        machine.list_job("alpha", "hs")
        machine.list_job("beta", "r")
    machine.list_job("alpha", "hs")

    assert shown(machine) is None
