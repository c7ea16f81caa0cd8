"""Owners of datasets take turns, and a wrong answer of one owner does not affect other owners."""

import json
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.batch import privileged_helper_calls
from gridbridge.errors import CommandFailed
from gridbridge.model.rebalance import published_rebalance_rounds
from gridbridge.model.rebalance.datasets import ServiceReplicaAct
from gridbridge.privileged import as_user_replica_verbs
from gridbridge.rebalance.replicas import delegated_datasets, replica_reconciler
from gridbridge.rebalance.replicas.delegated_datasets import DatasetDelegationFile
from gridbridge.rebalance.replicas.owner_fair_replica_queue import OwnerFairReplicaActQueue
from gridbridge.shell.program_runs import CompletedProgram
from tests.rebalance.mover.areas import dataset_row

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


def of(*names: str, target: str = "a") -> list[list[ServiceReplicaAct]]:
    return [[ServiceReplicaAct(dataset=name, target=target, began_at=NOON)] for name in names]


def turns_of(
    groups: list[list[ServiceReplicaAct]],
    before: Iterable[ServiceReplicaAct] = (),
    *,
    earlier: Iterable[list[ServiceReplicaAct]] = (),
    into: int = 9,
) -> OwnerFairReplicaActQueue:
    return OwnerFairReplicaActQueue(groups, before, earlier=earlier, most=4, into={"a": into})


def begun(turns: OwnerFairReplicaActQueue, most: int) -> list[str]:
    found = (turns.start_act_group_of_fairest_owner() for _ in range(most))
    return [group[0].dataset for group in found if group]


@pytest.mark.parametrize(
    ("datasets", "before", "earlier", "expected"),
    [
        ("al/1 al/2 al/3 al/4 zoe/1 zoe/2", "", "", "al/1 zoe/1 al/2 zoe/2"),
        ("al/1 al/2 al/3", "", "", "al/1 al/2 al/3"),
        ("al/2 zoe/1", "al/1", "", "zoe/1 al/2"),
        ("al/5 zoe/1 zoe/2", "", "al/1 al/2", "zoe/1 zoe/2 al/5"),
    ],
    ids=["equally", "all for a single owner", "the owner of the most recent action last", "with running actions"],
)
def test_the_running_actions_are_shared_between_the_owners(
    datasets: str, before: str, earlier: str, expected: str
) -> None:
    """Otherwise rounds that end early would serve only the owner with the first name."""
    (ended,) = of(before)
    turns = turns_of(of(*datasets.split()), ended if before else (), earlier=of(*earlier.split()))

    assert begun(turns, 4) == expected.split()


def test_after_an_ended_action_the_owner_with_the_fewest_actions_is_next() -> None:
    turns = turns_of(of("al/1", "al/2", "zoe/1", "zoe/2"))
    found = []
    while group := turns.start_act_group_of_fairest_owner():
        found.append(group)
        turns.end_act_group(group)

    assert [group[0].dataset for group in found] == ["al/1", "zoe/1", "al/2", "zoe/2"]


def test_an_owners_copies_into_an_area_stay_within_the_areas_limit() -> None:
    """The owner's process would refuse further copies, and a refused copy counts as a failure."""
    there = of("al/1", "al/2", "al/3", "zoe/1")
    turns = turns_of([*there, *of("al/4", target="b")], into=1)
    first = begun(turns, 4)
    turns.end_act_group(there[0])

    assert first == ["al/1", "zoe/1", "al/4"]
    assert begun(turns, 4) == ["al/2"]


def test_an_owner_with_the_highest_number_of_running_copies_begins_no_more() -> None:
    turns = turns_of(of("al/5", "zoe/1"), earlier=of("al/1", "al/2", "al/3", "al/4"))

    assert begun(turns, 4) == ["zoe/1"]
    assert turns.take_waiting_act_groups() == of("al/5")
    assert not turns


DEEP = "[" * 100_000


def let(name: str, uid: int = 1) -> DatasetDelegationFile:
    return DatasetDelegationFile(uid=uid, owner=f"p{uid}", file=f"u.{uid}/data.{name}", dataset=name)


@pytest.fixture(name="answering")
def _answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    def answer(texts: dict[str, str]) -> None:
        def call(*words: str, **_: object) -> CompletedProgram:
            text = texts[words[1].partition("/")[0]]
            return CompletedProgram(words, int(words[0] != "look"), text.encode(), b"")

        monkeypatch.setattr(privileged_helper_calls, "run_gridbridge_as_user", call)

    return answer


def row_checked_at(time: str) -> str:
    replica = {"storage": "a", "size_bytes": 1, "is_whole": 1, "checked_at": time, "why": ""}
    return json.dumps(dataset_row("x", replicas=[replica]))


@pytest.mark.parametrize(
    "wrong",
    [
        row_checked_at("2026-11-25"),
        row_checked_at("9999-12-31T23:59:59-12:00"),
        row_checked_at("0001-01-01T00:00:00+12:00"),
        json.dumps(dataset_row("x", size_bytes="HERE")).replace('"HERE"', "1e999"),
        json.dumps(dataset_row("x", size_bytes="HERE")).replace('"HERE"', "9" * 5000),
        json.dumps(dataset_row("x", wished="x")),
        json.dumps({"name": "x", "fault": {"deep": 1}}),
        DEEP,
    ],
    ids=[
        *("a time without its zone", "a time after all others", "a time before all others"),
        *("too large", "too many digits", "no number", "no dataset", "too deep"),
    ],
)
def test_a_wrong_answer_of_one_owner_does_not_hide_other_owners_datasets(
    answering: Callable[[dict[str, str]], None], caplog: pytest.LogCaptureFixture, wrong: str
) -> None:
    answering({"u.1": f"[{wrong}]", "u.2": json.dumps([dataset_row("y")])})

    found = delegated_datasets.query_owners_for_datasets([let("x"), let("y", 2)])

    assert [one.name for one in found] == ["p2/y"]
    assert "unread" in caplog.text


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (DEEP, "exit status 1"),
        (json.dumps({"refused": {"a": "it is\nfull\0\ud800"}}), "it is full\ufffd\ufffd"),
        (json.dumps({"refused": {"a": [["x"]]}}), "exit status 1"),
    ],
)
def test_the_reason_of_a_failed_copy_becomes_one_printable_line(
    answering: Callable[[dict[str, str]], None], answer: str, reason: str
) -> None:
    answering({"u.1": answer})

    assert delegated_datasets.copy_replica_as_owner(let("x"), "a", "") == reason


@pytest.mark.parametrize(
    ("status", "answer", "said", "why"),
    [
        (0, '{"done": true}', "", ""),
        (1, '{"done": false}', "", ""),
        (1, "", "Traceback ...\nRecursionError: too deep", "RecursionError: too deep"),
        (1, "", "not done within 21600.0 s", "not done within 21600.0 s"),
        (1, "[]", "", "exit status 1"),
        (1, '{"dataset": 3}', "", "exit status 1"),
        (0, "", "", "exit status 0"),
        (-9, '{"done": true}', "", "exit status -9"),
        (2, "", "reads: no dataset of yours", "reads: no dataset of yours"),
    ],
)
def test_a_dataset_counts_as_verified_only_if_the_owners_process_reports_success(
    monkeypatch: pytest.MonkeyPatch, status: int, answer: str, said: str, why: str
) -> None:
    done = CompletedProgram((), status, answer.encode(), said.encode())
    monkeypatch.setattr(privileged_helper_calls, "run_gridbridge_as_user", lambda *_, **__: done)

    assert delegated_datasets.verify_dataset_as_owner(let("reads")) == why


def test_a_limited_number_of_owners_is_queried_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results have the order of the owners."""
    lock, both = threading.Lock(), threading.Barrier(2, timeout=60)
    asked, most = [0], [0]

    def call(*words: str, **_: object) -> CompletedProgram:
        with lock:
            asked[0] += 1
            most[0] = max(most[0], asked[0])
        both.wait()
        with lock:
            asked[0] -= 1
        return CompletedProgram(words, 0, json.dumps([dataset_row("x")]).encode(), b"")

    monkeypatch.setattr(privileged_helper_calls, "run_gridbridge_as_user", call)
    found = delegated_datasets.query_owners_for_datasets([let("x", uid) for uid in range(1, 31)])

    assert [one.uid for one in found] == [*range(1, 31)]
    assert most[0] <= delegated_datasets.OWNERS_AT_ONCE


def test_an_owner_whose_process_does_not_answer_is_not_queried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def call(*words: str, **_: object) -> CompletedProgram:
        asked.append(words[1])
        if words[1].startswith("u.1/"):
            raise CommandFailed(words, None)
        rows = [dataset_row(one.rpartition(".")[2]) for one in words[1:]]
        return CompletedProgram(words, 0, json.dumps(rows).encode(), b"")

    monkeypatch.setattr(privileged_helper_calls, "run_gridbridge_as_user", call)
    every = [let(f"x{number:03}", uid) for uid in (1, 2) for number in range(120)]
    found = delegated_datasets.query_owners_for_datasets(every)

    assert sorted(asked) == ["u.1/data.x000", "u.2/data.x000", "u.2/data.x050", "u.2/data.x100"]
    assert [one.name for one in found] == [f"p2/x{number:03}" for number in range(120)]


def test_the_time_limits_of_actions_rounds_and_reports_fit_into_each_other() -> None:
    """Two terabytes are read once in six hours, and several times for a copy."""
    assert 86400 == as_user_replica_verbs.LONG_S < delegated_datasets.LONG_S
    begun, act = (timedelta(seconds=replica_reconciler.BEGINS_S), timedelta(seconds=delegated_datasets.LONG_S))
    assert begun + act < published_rebalance_rounds.LONGEST_ROUND[published_rebalance_rounds.RebalanceRoundKind.READING]
    assert begun + act < replica_reconciler.LONGEST
    assert begun < published_rebalance_rounds.LONGEST_ROUND[published_rebalance_rounds.RebalanceRoundKind.DATASETS]
