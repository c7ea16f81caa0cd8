"""Recovery of campaign rows from root's ledger, in portions, even after a kill between two portions."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import CampaignTaskRows, TaskDeletionMarkRows
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.decisions.campaigns.ledger_recovery_rules import plan_recovery_from_root_ledger
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignArray, RootLedgerArray, TaskAttemptOutcome
from gridbridge.model.campaigns.task_deletions_and_preemptions import NikitaDeletionReason, TaskDeletionMark
from gridbridge.state.campaign_tables import ATTEMPTS
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import NOON, made_campaign

TASKS, AN_ARRAY = 40, 4
LEDGER = (  # tasks 0, 5 and 7 were submitted twice; task 8 has a speculative copy
    *(
        RootLedgerArray(
            number=number,
            cluster="beta",
            tasks=tuple((task, 1) for task in range(AN_ARRAY * number - 4, AN_ARRAY * number)),
            job_id=70 + number,
        )
        for number in range(1, 6)
    ),
    RootLedgerArray(number=6, cluster="gamma", tasks=((5, 2), (7, 2), (0, 2)), job_id=76),
    RootLedgerArray(number=7, cluster="gamma", tasks=((8, 2),), job_id=77, is_of_copies=True),
)
KNOWN = {each for one in LEDGER for each in one.tasks}


class Restored:
    """An old backup of the state file, with one array from before the backup and two from afterwards."""

    def __init__(self, folder: Path) -> None:
        database = StateFile.open(f"sqlite:///{folder}/state.db")
        self.database, self.campaigns = database, CampaignRows(database)
        self.tries = TaskAttemptRows(database, self.campaigns)
        self.campaigns.insert_campaign(made_campaign("beta", "gamma", tasks=TASKS), "token")
        for cluster, tasks in (("beta", AN_ARRAY), ("gamma", 6), ("beta", 20)):
            self.campaigns.create_array(1, cluster, tasks, NOON)
        self.campaigns.set_array_state(self.array(1), ArraySubmissionState.RELEASED, 71)

    def array(self, number: int) -> CampaignArray:
        return next(one for one in self.campaigns.arrays_of_campaign(1) if one.number == number)

    def take_over(self, refused: CampaignArray, portions: int = 99) -> int:
        """Recover lost arrays, until a kill after `portions` portions; return the number of all portions."""
        found = plan_recovery_from_root_ledger(
            1, self.tries.query_campaign_for_ledger_recovery(1), LEDGER, NOON, refused=refused, most=AN_ARRAY
        )
        for one in found[:portions]:
            self.tries.import_arrays_from_root_ledger(one)
        return len(found)

    def waiting(self) -> list[tuple[int, int]]:
        return sorted(
            (task, one.attempt)
            for one in self.campaigns.list_unsent_tasks(1)
            for task in range(one.first, one.last + 1)
        )

    def sent(self) -> set[tuple[object, ...]]:
        names = ("task", "attempt", "array", "place", "outcome")
        rows = self.database.rows(ATTEMPTS.select())
        return {tuple(row[name] for name in names) for row in rows}


@pytest.fixture(name="restored")
def _restored(tmp_path: Path) -> Iterator[Restored]:
    one = Restored(tmp_path)
    yield one
    one.database.close()


def test_all_lost_attempts_are_recovered_from_roots_ledger(restored: Restored) -> None:
    """Each task waits, or has one pending attempt, or has a pending attempt with its speculative copy."""
    portions = restored.take_over(restored.array(2))

    pending = [(task, attempt) for task, attempt, *_, how in restored.sent() if how == "pending"]
    assert portions > AN_ARRAY
    known = sorted(one.number for one in restored.campaigns.arrays_of_campaign(1))
    assert known == [one.number for one in LEDGER]
    assert restored.waiting() == [(task, 1) for task in range(20, TASKS)]
    again = {5: 2, 7: 2, 0: 2}
    assert sorted(pending) == sorted([*((task, again.get(task, 1)) for task in range(20)), (8, 2)])


@pytest.mark.parametrize("portions", range(1, 7))
def test_a_recovery_that_was_killed_between_two_portions_can_be_continued(
    restored: Restored, tmp_path: Path, portions: int
) -> None:
    """Tasks whose attempts are still lost wait; the ledger refuses these attempts again for any array."""
    (tmp_path / "whole").mkdir()
    whole = Restored(tmp_path / "whole")
    whole.take_over(whole.array(2))

    assert portions < restored.take_over(restored.array(2), portions)
    pending = {task for task, *_, how in restored.sent() if how == TaskAttemptOutcome.PENDING}
    there = {task for task, _ in restored.waiting()} | pending
    assert there == {*range(TASKS)}
    anew = restored.campaigns.create_array(1, "beta", 5, NOON)
    assert {one[:2] for one in restored.sent() if one[2] == anew.number} & KNOWN
    restored.take_over(anew)
    assert (restored.sent(), restored.waiting()) == (whole.sent(), whole.waiting())


def test_a_recovered_attempt_of_an_ended_task_is_not_counted_twice(restored: Restored) -> None:
    first, second, *_ = restored.campaigns.unfinished_attempts(restored.array(1))
    ended = [
        replace(one, outcome=outcome)
        for one, outcome in ((first, TaskAttemptOutcome.PROGRAM_ERROR), (second, TaskAttemptOutcome.SUCCESS))
    ]
    restored.campaigns.record_attempt_ends(ended)
    restored.campaigns.add_to_task_counts(1, 2, 1)

    restored.take_over(restored.array(2))

    found = restored.campaigns.find_campaign(1)
    assert (found.ended, found.failed) == (1, 0)


def test_a_recovered_attempt_of_a_cancelled_task_is_marked_for_deletion(restored: Restored) -> None:
    """The owner cancelled the task while the state file listed the task as waiting."""
    undone = plan_recovery_from_root_ledger(1, restored.tries.query_campaign_for_ledger_recovery(1), (LEDGER[0],), NOON)
    for one in undone:
        restored.tries.import_arrays_from_root_ledger(one)
    assert CampaignTaskRows(restored.database).cancel_waiting_task(1, 6)

    restored.take_over(restored.array(1))

    found = restored.campaigns.find_campaign(1)
    assert (found.ended, found.failed) == (0, 0)
    known = next(one for one in LEDGER if (6, 1) in one.tasks)
    place = known.tasks.index((6, 1)) + 1
    marks = TaskDeletionMarkRows(restored.database).deletion_marks()
    assert {place: TaskDeletionMark(wiped_for=NikitaDeletionReason.UNWANTED)} == marks[1, known.number]
    assert (6, 1, known.number, place, TaskAttemptOutcome.PENDING) in restored.sent()
