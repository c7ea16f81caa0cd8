"""A submission whose answer was lost is found by its name, and only its owner's counts."""

from pathlib import Path

import pytest

from gridbridge.batch.gridengine.submit import find_held, state
from gridbridge.errors import ParseError
from gridbridge.model.route import Cell
from tests.states import job_state

NAME = "gb.alpha.8.0.1"
UNKNOWN = "<unknown_jobs><element/></unknown_jobs>"


def a_job(number: int, owner: str = "alice", account: str = NAME) -> str:
    return (
        f"<element><JB_job_number>{number}</JB_job_number><JB_owner>{owner}</JB_owner>"
        f"<JB_account>{account}</JB_account></element>"
    )


def a_cell(folder: Path, answer: str) -> Cell:
    """Return a cell whose qstat says this."""
    (folder / "answer").write_text(answer)
    qstat = folder / "qstat"
    qstat.write_text(f"#!/bin/sh\nexec cat {folder}/answer\n")
    qstat.chmod(0o755)
    return Cell(
        root="", cell="beta", qmaster_port="", execd_port="", binaries=str(folder), timeout_s=5
    )


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (UNKNOWN, ""),
        (a_job(12), "12"),
        (a_job(12) + a_job(9), "9"),
        (a_job(9, owner="bob") + a_job(12), "12"),
        (a_job(9, account="sge") + a_job(12), "12"),
        (a_job(9, owner="bob"), ""),
    ],
    ids=["none", "one", "the oldest", "not another's", "not without account", "only another's"],
)
def test_the_owners_oldest_job_of_that_name_is_meant(
    tmp_path: Path, answer: str, found: str
) -> None:
    assert find_held(a_cell(tmp_path, answer), NAME, "alice") == found


@pytest.mark.parametrize("answer", ["", "<detailed_job_info/>", "<JB_job_number>x"])
def test_half_an_answer_is_none(tmp_path: Path, answer: str) -> None:
    with pytest.raises(ParseError):
        find_held(a_cell(tmp_path, answer), NAME, "alice")


def a_row(tasks: str, state: str) -> str:
    return (
        f"<job_list><JB_job_number>12</JB_job_number><state>{state}</state>"
        f"<tasks>{tasks}</tasks></job_list>"
    )


@pytest.mark.parametrize(
    ("job", "letters"),
    [("12.3", "hRwq"), ("12.4", "r"), ("12.5", "hRwq"), ("12.6", ""), ("12", ""), ("13.3", "")],
)
def test_a_task_is_found_in_the_range_that_it_is_shown_in(
    tmp_path: Path, job: str, letters: str
) -> None:
    """Qstat shows tasks that wait together as 3-5:2; one that runs has a row of its own."""
    rows = a_row("1,3-5:2", "hRwq") + a_row("4", "r")
    far = a_cell(tmp_path, f"<job_info>{rows}</job_info>")

    assert state(far, job) == job_state(letters)
