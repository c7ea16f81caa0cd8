"""Tests of deleting single tasks of an OAR array."""

import pytest

from gridbridge.batch.oar import submit
from gridbridge.model.transfer_route import OarServerAccess
from tests.batch.oar.test_arrays import noted
from tests.batch.oar.test_oar_output import shown

SERVER = OarServerAccess(timeout_s=15)
NAME = "gc.alpha.3.1"
JOBS = [
    shown(Job_Id=40, name=NAME, array_id=40, array_index=1, state="Running"),
    shown(Job_Id=42, name=NAME, array_id=40, array_index=2, state="Waiting"),
    shown(Job_Id=43, name=NAME, array_id=40, array_index=3, state="Waiting"),
    shown(Job_Id=44, name=NAME, array_id=40, array_index=4, state="Error"),
    shown(Job_Id=45, name="another", array_id=40, array_index=4, state="Waiting"),
]


@pytest.mark.parametrize(
    ("places", "about", "deleted"), [("2-4", "40 2 3", ("42", "43")), ("1", "40 1", ("40",)), ("1-3", "40 1 2 3", ())]
)
def test_only_live_tasks_at_the_given_indices_are_deleted(
    monkeypatch: pytest.MonkeyPatch, places: str, about: str, deleted: tuple[str, ...]
) -> None:
    calls = noted(monkeypatch, submit, *JOBS)
    submit.delete_array_tasks(SERVER, "40", NAME, places)

    (argv,) = calls[1:]
    assert argv[argv.index("/usr/bin/oardel") + 1 :] == (deleted or ("40", "42", "43"))
    assert argv[4:6] == ("delete_tasks", about)


def test_no_oardel_runs_if_no_task_at_the_indices_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = noted(monkeypatch, submit, *JOBS)
    submit.delete_array_tasks(SERVER, "40", NAME, "4,9")

    assert len(calls) == 1


def test_deleting_all_live_tasks_deletes_the_array_and_its_script(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = noted(monkeypatch, submit, *JOBS[:4])
    submit.delete_array_tasks(SERVER, "40", NAME, "1-3")

    (argv,) = calls[1:]
    assert argv[4:6] == ("delete_array", "40")
    assert argv[-2:] == ("--array", "40")
