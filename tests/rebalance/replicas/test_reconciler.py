"""Rounds about datasets: owners' processes make missing replicas, and no dataset is lost."""

import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.rebalance.datasets import ServiceReplicaAct, ServiceReplicaActInOwnerFile
from gridbridge.rebalance.mover import rebalance_decision_journal
from gridbridge.rebalance.mover.rebalance_plan_by_target import RebalanceTarget, RebalanceTargetKind
from gridbridge.rebalance.replica_act_and_move_tables import READ, MoveAndVerificationTimeRows, ReplicaActRows
from gridbridge.rebalance.replicas import delegated_datasets as letters
from gridbridge.rebalance.replicas import replica_reconciler
from gridbridge.rebalance.replicas.delegated_datasets import DatasetDelegationFile
from gridbridge.rebalance.replicas.replica_reconciler import LATE, QUIESCED, TAKEN, ReplicaReconciler
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_lock_file import MomentaryProgramLock
from gridbridge.state import published_json
from tests.rebalance.mover.areas import NAMES, Killed
from tests.rebalance.mover.desk import Desk


@pytest.fixture(name="desk")
def _desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def whole(desk: Desk, name: str = "reads") -> set[str]:
    return set(desk.served.verify_dataset(name).dataset.areas_with_whole_replica)


def carried(desk: Desk) -> tuple[ServiceReplicaAct, ...]:
    with desk.state_file() as database:
        return ReplicaActRows(database).all_acts()


def added(desk: Desk, wished: int = 2, *, is_later: bool = False) -> set[str]:
    desk.served.add_dataset("reads", desk.site.tree(), wished, is_later=is_later)
    return set() if is_later else whole(desk)


def noted(desk: Desk, *names: str) -> None:
    """Add datasets without replicas; the owner wants one replica of each."""
    tree = desk.site.tree()
    for name in names:
        desk.served.add_dataset(name, tree, 1, is_later=True)


def uneven(desk: Desk, full: str) -> None:
    desk.sizes = {name: (1000, 100 if name == full else 900) for name in NAMES}


def failing(desk: Desk, verb: str, why: str = "no answer") -> None:
    def fail(words: tuple[str, ...]) -> None:
        if words[0] == verb:
            raise GridbridgeError(why)

    desk.before = fail


def killed_round(desk: Desk, verb: str, *, is_after: bool = False) -> None:
    """Kill a round just before or just after an owner's process carries out a verb."""

    def die(words: tuple[str, ...]) -> None:
        if words[0] == verb:
            desk.before = lambda _: None
            if is_after:
                desk._call(*words)
            raise Killed

    desk.before = die
    with pytest.raises(Killed):
        desk.round()


def test_a_new_dataset_gets_one_replica_in_each_round(desk: Desk) -> None:
    added(desk, is_later=True)
    first, _ = desk.round()
    one = whole(desk)
    second, _ = desk.round()
    last, _ = desk.round()

    assert (len(one), len(whole(desk))) == (1, 2)
    assert [len(each.advice.moves) for each in (first, second, last)] == [1, 1, 0]


@pytest.mark.parametrize(
    ("rules", "days", "is_known"),
    [
        ({}, 29, True),
        ({}, 31, False),
        ({"host_rest_s": 60 * 86400.0}, 59, True),
        ({"replicated_rest_s": 86400.0}, 63, True),  # longer than the longest pause after repeated failures
        ({"replicated_rest_s": 86400.0}, 65, False),
    ],
)
def test_records_of_actions_are_kept_for_30_days_and_at_least_for_the_longest_pause(
    desk: Desk, rules: dict[str, float], days: int, is_known: bool
) -> None:
    desk.rules = replace(desk.rules, **rules)
    at = desk.clock.now() - timedelta(days=days)
    old = ServiceReplicaAct(token="x", dataset="al/other", target="a", source="", size_bytes=1, began_at=at)
    with desk.state_file() as database:
        ReplicaActRows(database).record_act_begins([replace(old, ended_at=at)])

    desk.round()

    assert bool(carried(desk)) == is_known


def test_a_dry_run_plans_and_neither_acts_nor_records(desk: Desk) -> None:
    added(desk)
    desk.round()
    desk.asked.clear()
    hurt = min(whole(desk))
    (desk.site.replica(hurt, "reads") / "a.txt").write_text("x")
    desk.served.verify_dataset("reads")
    planned, _ = desk.round(is_dry=True)

    assert [one.target for one in planned.advice.moves] == [hurt]
    assert {words[0] for words in desk.asked} == {"look"}
    assert carried(desk) == ()


@pytest.mark.parametrize("what", ["an area", "its cluster"])
def test_a_drained_area_is_emptied_without_a_moment_of_too_few_replicas(desk: Desk, what: str) -> None:
    before = added(desk)
    left = min(before)
    desk.drained = {left} if what == "an area" else {left.partition("-")[0]}
    copies, fewest = [desk.site.replica(name, "reads") / "a.txt" for name in NAMES], []
    desk.before = lambda words: fewest.append(sum(map(Path.exists, copies))) if words[0] != "look" else None
    _, keeper = desk.round()

    assert whole(desk) == set(NAMES) - {left}
    assert not desk.site.replica(left, "reads").exists()
    assert min(fewest) >= 2
    assert len(keeper.checked.moves) == 1


@pytest.mark.parametrize("verb", ["copy", "drop"])
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_a_killed_round_is_continued_by_the_next_round(desk: Desk, verb: str, is_after: bool) -> None:
    """An action that ended after the kill counts as success; after a failure the area would get no copy for a while."""
    left = min(added(desk))
    desk.drained = {left}
    killed_round(desk, verb, is_after=is_after)
    open_rows = [one for one in carried(desk) if one.ended_at is None]
    _, keeper = desk.round()

    assert len(open_rows) == 1
    assert whole(desk) == set(NAMES) - {left}
    assert not desk.site.replica(left, "reads").exists()
    assert [one for one in carried(desk) if one.ended_at is None] == []
    if is_after:
        assert (carried(desk)[0].why, keeper.checked.dropped) == ("", ())


def test_a_begun_removal_is_continued_after_a_round_in_which_the_dataset_was_unreadable(desk: Desk) -> None:
    left = min(added(desk))
    desk.drained = {left}
    killed_round(desk, "drop")
    desk.drained = set()
    record = Path(desk.site.folder, "records/reads.json")
    was = record.read_text()
    record.write_text("?")
    with pytest.MonkeyPatch.context() as away:
        let = [DatasetDelegationFile(uid=1000, owner="al", file="u.1000/data.reads", dataset="reads")]
        away.setattr(letters, "list_dataset_delegations", lambda: let)
        desk.round()
    record.write_text(was)
    desk.round()

    assert whole(desk) == set(NAMES) - {left}
    assert not desk.site.replica(left, "reads").exists()


def test_after_a_copy_into_a_full_area_the_next_round_chooses_another_area(desk: Desk) -> None:
    added(desk, 1, is_later=True)
    desk.rules = replace(desk.rules, replicated_rest_s=900.0)
    real = desk.site.carrier
    full: list[str] = []

    def fill(*words: object) -> None:
        area = str(words[1])
        if not full:
            full.append(area)
            raise CommandFailed(("rsync",), 11, stderr=b"No space left on device")
        real(*words)  # type: ignore[arg-type]

    desk.site.carrier = fill  # type: ignore[assignment]
    _, keeper = desk.round()
    desk.round()

    assert [one.reason for one in keeper.checked.dropped] == ["No space left on device"]
    (there,) = whole(desk)
    assert there != keeper.checked.dropped[0].target


def test_a_copy_with_wrong_checksums_in_two_attempts_is_no_replica(desk: Desk) -> None:
    added(desk, 1, is_later=True)
    real = desk.site.carrier

    def spoil(*words: object) -> None:
        real.spoils = {"a.txt"}
        real(*words)  # type: ignore[arg-type]

    desk.site.carrier = spoil  # type: ignore[assignment]
    _, keeper = desk.round()

    assert "the copied files differ from the dataset" in keeper.checked.dropped[0].reason
    assert whole(desk) == set()


def test_a_damaged_replica_in_a_missing_area_is_replaced_in_another_area(desk: Desk) -> None:
    before = added(desk)
    away = min(before)
    (desk.site.replica(away, "reads") / "a.txt").write_text("x")
    desk.served.verify_dataset("reads")
    path = Path(desk.site.areas[away].path)
    path.rename(f"{path}.away")
    desk.served.verify_dataset("reads")
    desk.round()

    assert whole(desk) == set(NAMES) - {away}


@pytest.mark.parametrize(
    ("path", "is_made_anew"),
    [("path", False), ("account_folder_path", False), ("account_folder_path", True)],
    ids=["no area", "no folder of the owner", "an empty folder of the owner"],
)
def test_no_replica_is_copied_because_of_an_unmounted_filesystem(desk: Desk, path: str, is_made_anew: bool) -> None:
    """The mount point may still exist, and may contain an empty folder of the owner."""
    before = added(desk)
    away = min(before)
    own = Path(getattr(desk.site.areas[away], path))
    own.rename(f"{own}.away")
    if is_made_anew:
        own.mkdir()
    planned = [desk.round()[0] for _ in range(2)]
    unread = {one.storage: one for one in desk.served.list_datasets()[0].replicas}
    if is_made_anew:
        own.rmdir()
    Path(f"{own}.away").rename(own)
    desk.site.carrier.carried = []
    planned += [desk.round()[0] for _ in range(2)]

    assert [one.advice.moves for one in planned] == [()] * 4
    assert {name for name, one in unread.items() if one.is_whole_now} == before - {away}
    assert (path != "path") or (unread[away].is_whole, unread[away].is_away) == (True, True)
    assert (path != "path") or "no such folder" in unread[away].why
    assert desk.site.carrier.carried == []
    assert whole(desk) == before


def test_the_replicas_of_an_unmounted_filesystem_are_replaced_once_the_area_is_drained(desk: Desk) -> None:
    before = added(desk)
    away = min(before)
    own = Path(desk.site.areas[away].account_folder_path)
    own.rename(f"{own}.away")
    desk.round()  # this round verifies the replicas
    desk.drained = {away}
    desk.round()
    desk.round()
    last, _ = desk.round()

    assert whole(desk) == set(NAMES) - {away}
    assert last.advice.moves == ()
    assert desk.did("drop") == []


def test_a_failed_removal_after_a_successful_copy_is_tried_again(desk: Desk) -> None:
    (left,) = added(desk, 1)
    uneven(desk, left)
    failing(desk, "drop")
    _, first = desk.round()
    _, second = desk.round()
    was_whole, desk.before = whole(desk), lambda _: None
    desk.round()
    there = whole(desk)
    last, _ = desk.round()

    assert [one.reason for one in first.checked.dropped] == ["no answer"]
    assert [(one.target, one.reason) for one in second.checked.dropped] == [("", "no answer")]
    assert len(was_whole) == 2
    assert there == was_whole - {left}
    assert last.advice.moves == ()
    assert len(desk.did("copy")) == 1


def test_a_pending_removal_is_recorded_as_long_as_its_dataset_exists(desk: Desk) -> None:
    """Records about removed datasets would otherwise fill the state file."""
    (left,) = added(desk, 1)
    with desk.state_file() as database:
        notes, now = MoveAndVerificationTimeRows(database), desk.clock.now()
        for dataset in ("al/reads", "al/gone"):
            notes.record_replica_to_remove(dataset, left, now - timedelta(days=31))
        desk.round()
        found = notes.replicas_to_remove()

    assert found == {("al/reads", left)}


def test_a_pending_removal_ends_when_the_owner_removes_the_replica(desk: Desk) -> None:
    (left,) = added(desk, 1)
    uneven(desk, left)
    failing(desk, "drop")
    desk.round()
    desk.served.drop_dataset_or_replica("reads", left)
    desk.round()
    desk.served.replicate_dataset("reads", left)
    desk.before = lambda _: None
    desk.round()

    assert left in whole(desk)
    assert len(whole(desk)) == 2


def test_a_copy_into_an_area_with_a_whole_replica_is_refused(desk: Desk) -> None:
    (here,) = added(desk, 1)
    desk.served.records.save_dataset(replace(desk.served.records.load_dataset("reads"), wished=2))
    done = desk._call("copy", "u.1000/data.reads", here)

    assert done.status == 1
    assert b"the area has a whole replica: the copy is not needed" in done.stdout


def test_a_surplus_copy_is_refused_and_not_recorded_as_an_action(desk: Desk) -> None:
    added(desk, 1)
    (first,) = whole(desk)
    second = desk.served.replicate_dataset("reads", next(one for one in NAMES if one != first)).dataset
    target = next(one for one in NAMES if one not in second.areas_with_whole_replica)
    done = desk._call("copy", "u.1000/data.reads", target, first)
    uneven(desk, first)
    planned, _ = desk.round()

    assert done.status == 1
    assert b"the copy is not needed" in done.stdout
    assert planned.advice.moves == ()
    assert whole(desk) == set(second.areas_with_whole_replica)
    assert desk.served.records.actions_of_service("reads") == []


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_round_tells_the_measured_areas_even_during_a_pause_and_publishes_them(
    desk: Desk, tmp_path: Path, *, is_paused: bool
) -> None:
    full = NAMES[0]
    uneven(desk, full)
    desk.drained = {full}
    if is_paused:
        quiesce(desk)
    desk.round()
    desk.round(is_dry=True)

    (told,) = desk.told_areas
    assert {area.storage: area.free_bytes for area in told.areas} == {n: 100 if n == full else 900 for n in NAMES}
    assert told.drained == (full,)
    published_json.publish_storage_areas(told, str(tmp_path))
    assert published_json.read_published_storage_areas(str(tmp_path)) == told


def test_no_further_action_begins_after_a_pause_in_the_middle_of_a_round(desk: Desk) -> None:
    desk.rules = replace(desk.rules, copies_at_once=1)
    noted(desk, "first", "second")
    desk.before = lambda words: quiesce(desk) if words[0] == "copy" else None
    _, keeper = desk.round()

    assert [one.job for one in keeper.checked.moves] == ["al/first"]
    assert [(one.job, one.reason) for one in keeper.checked.dropped] == [("al/second", QUIESCED)]
    assert [one.dataset for one in carried(desk)] == ["al/first"]


def quiesce(desk: Desk) -> None:
    with desk.state_file() as database:
        MoveAndVerificationTimeRows(database).record_pause_of_moves(desk.clock.now())


def test_a_round_begins_no_action_after_an_hour_and_the_next_round_continues(desk: Desk) -> None:
    """Otherwise new datasets would wait for all copies of other owners."""
    desk.rules = replace(desk.rules, copies_at_once=1)
    gone_s = [0.0]
    noted(desk, "first", "second")

    def carry_for_long(words: tuple[str, ...]) -> None:
        gone_s[0] += 4000.0 if words[0] == "copy" else 0.0

    desk.before = carry_for_long
    desk.clock = Clock(steady=lambda: gone_s[0])
    _, keeper = desk.round()
    was_begun = [one.dataset for one in carried(desk)]
    desk.round()

    assert [(one.job, one.reason) for one in keeper.checked.dropped] == [("al/second", LATE)]
    assert was_begun == ["al/first"]
    assert len(whole(desk, "second")) == 1


@pytest.mark.parametrize(
    ("at_once", "owner", "begun"),
    [(2, "al", 1), (1, "al", 0), (1, "zoe", 1)],
    ids=["more go at once", "all is one owner's", "another owner has one more"],
)
def test_a_copy_that_takes_longer_than_an_hour_does_not_delay_the_next_round(
    desk: Desk, at_once: int, owner: str, begun: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next round leaves the running copy alone and counts the copy in its limits."""
    desk.owners["second"] = owner
    monkeypatch.setattr(replica_reconciler, "LOOK_S", 0.02)
    desk.rules = replace(desk.rules, copies_at_once=at_once)
    tree, gone_s, goes_on = desk.site.tree(), [0.0], threading.Event()
    desk.served.add_dataset("first", tree, 1, is_later=True)

    def carry_for_long(words: tuple[str, ...]) -> None:
        if words[0] == "copy" and words[1].endswith("first"):
            gone_s[0] += 4000.0
            goes_on.wait(60)

    later: list[ReplicaReconciler] = []

    def let_go() -> bool:
        desk.served.add_dataset("second", tree, 1, is_later=True)
        with MomentaryProgramLock(desk.carrying, is_shared=True):
            later.append(desk.round()[1])
        goes_on.set()
        return True

    desk.before, desk.let_go = carry_for_long, let_go
    desk.clock = Clock(steady=lambda: gone_s[0])
    _, keeper = desk.round()

    second = carried(desk)[1:]
    assert [len(keeper.checked.moves), len(later[0].checked.moves)] == [1, begun]
    assert [one.reason for one in later[0].checked.dropped] == [TAKEN] * (1 - begun)
    assert [one.dataset for one in second] == [f"{owner}/second"] * begun
    assert len(desk.did("copy")) == 1 + begun
    assert len(whole(desk, "first")) == 1


def test_many_datasets_of_one_owner_are_copied_into_an_area_without_failure(desk: Desk) -> None:
    desk.drained = {"beta-disk", "gamma-disk"}
    noted(desk, *(f"many{number}" for number in range(6)))
    desk.before = lambda words: time.sleep(0.05) if words[0] == "copy" else None
    _, keeper = desk.round()

    assert len(keeper.checked.moves) == 6
    assert not keeper.checked.dropped


def test_replicas_are_verified_after_the_rounds_copies(desk: Desk) -> None:
    tree = desk.site.tree()
    for name in ("first", "second", "third"):
        desk.served.add_dataset(name, tree, 1)
    desk.served.add_dataset("lacking", tree, 1, is_later=True)
    desk.rules = replace(desk.rules, tasks_per_round=1)
    asked: list[str] = []

    def hang(words: tuple[str, ...]) -> None:
        if words[0] in ("copy", "verify"):
            asked.append(f"{words[0]} {words[1].rpartition('.')[2]}")
        if words[0] == "verify":
            raise GridbridgeError("not done within 86400.0 s")

    desk.before = hang
    for _ in range(3):
        desk.round()

    assert asked == ["copy lacking", "verify first", "verify second", "verify third"]


def test_a_failed_verification_is_repeated_after_an_hour(desk: Desk) -> None:
    added(desk)
    desk.rules = replace(desk.rules, verify_every_s=86400.0)
    now_s = [time.time() + 90000.0]
    desk.clock = Clock(lambda: now_s[0])
    failing(desk, "verify")
    desk.round()
    desk.before = lambda _: None
    tried = []
    for _ in range(5):
        now_s[0] += 1900.0
        desk.round()
        tried.append(len(desk.did("verify")))

    assert tried == [1, 2, 2, 2, 2]


def test_a_verification_time_in_the_future_does_not_delay_the_next_verification(desk: Desk) -> None:
    """The clock was wrong when the time was recorded."""
    added(desk)
    desk.rules = replace(desk.rules, verify_every_s=86400.0)
    year_ago_s = time.time() - 365 * 86400
    with desk.state_file() as database:
        MoveAndVerificationTimeRows(database).record_note_times(READ, ["al/reads"], Clock().now())
    desk.clock = Clock(lambda: year_ago_s)
    desk.round()

    assert len(desk.did("verify")) == 1


def test_no_replica_is_copied_while_rebalancing_is_paused(desk: Desk) -> None:
    added(desk, is_later=True)
    quiesce(desk)
    planned, _ = desk.round()

    assert planned.advice.moves == ()
    assert "quiesce --off" in planned.advice.sentence
    assert {words[0] for words in desk.asked} == {"look"}


@pytest.mark.parametrize("asked", [("host", NAMES[-1]), ("job", "al/reads")])
def test_no_area_and_no_dataset_is_balanced_before_a_drained_area_is_empty(desk: Desk, asked: tuple[str, str]) -> None:
    left = min(added(desk))
    desk.drained = {left}
    planned, _ = desk.round(RebalanceTarget(what=RebalanceTargetKind(asked[0]), name=asked[1]))

    expected = f"{left} is drained: run `gridbridge rebalance fail {left}` first"
    assert planned.advice.sentence == expected
    assert desk.did("copy") == desk.did("drop") == []


def test_replay_of_a_journalled_plan_about_datasets_gives_the_same_plan(desk: Desk) -> None:
    desk.round()
    added(desk, is_later=True)
    planned, keeper = desk.round(is_dry=True)
    entry = rebalance_decision_journal.rebalance_journal_entry(planned, keeper._asked, Clock().now())

    assert entry
    assert rebalance_decision_journal.replay_rebalance_decision(entry.inputs) == entry.inputs["actions"]


@pytest.mark.parametrize("verb", ["drop", "copy"])
def test_the_service_can_not_make_or_remove_replicas_against_the_owners_will(desk: Desk, verb: str) -> None:
    """The owner's process counts the whole replicas before each action."""
    before = added(desk)
    for storage in NAMES:
        desk._call(verb, "u.1000/data.reads", storage)

    assert whole(desk) == before


def test_the_service_acts_at_most_50_times_a_day_on_a_dataset(desk: Desk) -> None:
    before = added(desk, 1)
    (here,) = before
    there = next(name for name in NAMES if name != here)
    for _ in range(60):
        desk._call("copy", "u.1000/data.reads", there, here)
        desk._call("drop", "u.1000/data.reads", here)
        here, there = there, here

    assert len(desk.served.records.actions_of_service("reads")) == 50
    assert len(whole(desk)) == 1
    assert "in a day" in desk._call("copy", "u.1000/data.reads", there, here).stderr.decode()


def test_actions_with_a_future_time_do_not_count_in_the_daily_limit(desk: Desk) -> None:
    (here,) = added(desk, 1)
    there = next(name for name in NAMES if name != here)
    done = ServiceReplicaActInOwnerFile(at=Clock().now() + timedelta(days=365), target=there)
    for _ in range(50):
        desk.served.records.record_action_of_service("reads", done)

    assert desk._call("copy", "u.1000/data.reads", there, here).status == 0


def test_a_dataset_in_use_by_a_command_is_skipped(desk: Desk) -> None:
    added(desk, is_later=True)
    with desk.served.records.lock_dataset("reads"):
        planned, _ = desk.round()

    assert planned.advice.moves == ()
    assert "1 dataset: nothing to move" in planned.advice.sentence
