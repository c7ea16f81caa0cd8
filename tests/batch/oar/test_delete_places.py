"""Single tasks of an array are deleted as the jobs that they are."""

import json

import pytest

from gridbridge.batch.oar import submit
from gridbridge.batch.oar.commands import Argv
from gridbridge.model.route import OarServer
from gridbridge.shell.runner import Completed
from tests.batch.oar.test_parse import shown

SERVER = OarServer(timeout_s=15)
NAME = "gc.alpha.3.1"
JOBS = [
    shown(Job_Id=40, name=NAME, array_id=40, array_index=1, state="Running"),
    shown(Job_Id=42, name=NAME, array_id=40, array_index=2, state="Waiting"),
    shown(Job_Id=43, name=NAME, array_id=40, array_index=3, state="Waiting"),
    shown(Job_Id=44, name=NAME, array_id=40, array_index=4, state="Error"),
    shown(Job_Id=45, name="another", array_id=40, array_index=4, state="Waiting"),
]


@pytest.mark.parametrize(
    ("places", "deleted"), [("2-4", ("42", "43")), ("1", ("40",)), ("4,9", None)]
)
def test_those_at_the_places_that_live_are_deleted_and_nobody_elses(
    monkeypatch: pytest.MonkeyPatch, places: str, deleted: tuple[str, ...] | None
) -> None:
    """By their index in the array; its script stays for the others."""
    calls: list[Argv] = []

    def call(_server: OarServer, argv: Argv, _stdin: bytes = b"") -> Completed:
        calls.append(argv)
        told = json.dumps({str(one["Job_Id"]): one for one in JOBS})
        return Completed(argv, 0, told.encode(), b"")

    monkeypatch.setattr(submit, "call", call)

    submit.delete_places(SERVER, "40", NAME, places)

    found = [argv[argv.index("/usr/bin/oardel") + 1 :] for argv in calls[1:]]
    assert found == ([deleted] if deleted else [])
    assert not any("far.sh" in word for argv in calls for word in argv)
