"""What is over is kept in mind until home has taken note of it, by whichever process."""

from datetime import timedelta
from pathlib import Path

from gridbridge.model.transfer.transfer import Listed
from gridbridge.services.transfer.unheard import Farewells
from gridbridge.state.database import Database
from tests.decisions.transfer.test_plan import NOON, VERDICT, a_row, a_snapshot, a_transfer

ENDED = a_transfer(verdict=VERDICT, closed_at=NOON, listed=Listed.YES)


def test_an_end_is_told_once_when_its_task_was_put_back(tmp_path: Path) -> None:
    database = Database.open(f"sqlite:///{tmp_path}/state.db")
    database.put(ENDED)
    farewells = Farewells(database)
    farewells.load(NOON + timedelta(minutes=1))
    put_back = a_snapshot("alpha", 1, a_row(7, "hRq"))

    assert farewells.jobs() == {7}
    assert farewells.hear(a_snapshot("alpha", 1, a_row(7, "hr"))) == ()
    assert [one.name for one in farewells.hear(put_back)] == [ENDED.name]
    assert (farewells.hear(put_back), farewells.jobs()) == ((), set())


def test_a_clock_that_is_set_back_does_not_delay_it(tmp_path: Path) -> None:
    farewells = Farewells(Database.open(f"sqlite:///{tmp_path}/state.db"))
    farewells.say(ENDED)

    farewells.move(timedelta(hours=-1))

    assert farewells.hear(a_snapshot("alpha", -3599, a_row(7, "hRq"))) != ()


def test_a_task_that_home_lists_no_more_is_forgotten(tmp_path: Path) -> None:
    farewells = Farewells(Database.open(f"sqlite:///{tmp_path}/state.db"))
    farewells.say(ENDED)

    assert farewells.hear(a_snapshot("alpha", 1)) == ()
    assert farewells.jobs() == set()
