"""A job that crosses to the other cluster has the same results as a job that runs at home."""

import pytest

from tests.lab.grid import Grid

pytestmark = pytest.mark.lab


def test_a_job_runs_on_beta_and_ends_at_home_as_it_ended_there(grid: Grid) -> None:
    job = grid.transfer("-N", "trip", script='echo "$1 on $HOSTNAME"; exit 7\n')

    record = grid.accounting(job)

    assert (record["exit_status"], record["failed"]) == ("7", "0")
    assert grid.sh("alpha-master", f"cat trip.o{job}", user="alice").endswith(("beta-n1\n", "beta-n2\n"))
    assert [grid.accounting(grid.remote_id(job), "beta")["account"]] == [f"gb.alpha.{job}.0.1"]


def test_each_task_of_an_array_is_one_remote_job(grid: Grid) -> None:
    job = grid.transfer("-N", "tasks", "-t", "1-5:2", script="exit $SGE_TASK_ID\n")

    records = grid.until(lambda: len(grid.records(job)) == 3 and grid.records(job), "three records")

    assert {(each["taskid"], each["exit_status"].split()[0]) for each in records} == {
        ("1", "1"),
        ("3", "3"),
        ("5", "5"),
    }
    assert len(grid.remote_ids(job)) == 3


def test_a_signal_is_the_same_signal_at_home(grid: Grid) -> None:
    record = grid.accounting(grid.transfer("-N", "sig", script="kill -TERM $$\n"))

    assert (record["failed"].split()[0], record["exit_status"].split()[0]) == ("100", "143")
