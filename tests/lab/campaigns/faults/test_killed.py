"""The helper that submits to OAR as the owner is killed at each step; each task runs once all the same."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.campaigns import runner
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, at_gamma, killed, ledger, submit, until_state
from tests.lab.gamma import ACCOUNT, FAR
from tests.lab.grid import Done, Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

AS_USER = "gridbridge.privileged.as_user"
SEND = {
    "intended": "privileged/campaign_owner_cluster_calls.py:submit_held_array",
    "submitted there": "batch/oar/job_submission_and_control.py:_parse_oarsub_answer",
    "the answer is lost": "campaigns/store/root_ledger.py:record_job_id_of_array",
    "noted": "privileged/send_arrays.py:release_submitted_arrays",
    "released there": "batch/oar/job_submission_and_control.py:release_arrays",
    "not told": "privileged/as_user_array_arguments.py:printed_result_line",
}
DELETE = {
    "asked": "privileged/campaign_owner_cluster_calls.py:release_or_delete_array",
    "looked at": "batch/oar/job_submission_and_control.py:delete_array",
    "not told": "privileged/as_user_array_verbs.py:print_and_exit",
}
FILES = "privileged/as_user_array,privileged/campaign_,privileged/earlier_attempts,privileged/send_arrays,"
FILES += "privileged/as_user_refusals_and_user_switch,campaigns/store/root_ledger,shell/ssh,"
FILES += "batch/oar/job_submission_and_control"
LONG_S = 600
EACH, LINES = 7, 1000  # of the lines to which a sender comes in these, which are fewer
FOLDER = "~/killed"
TASKS = len(SEND) + len(DELETE)
RUN = f"sh -c 'echo $CIGRI_JOB_ID >>ran; [ $1 -lt {len(SEND)} -o -e go ] || sleep 600' sh"


@pytest.fixture(scope="module")
def brought(site: Grid) -> Iterator[int]:
    """Return a campaign without sent tasks; the runner is stopped.

    The tasks run until a test deletes them.
    """
    with bring(site, RUN, TASKS) as number:
        yield number


@contextmanager
def bring(grid: Grid, exec_file: str, tasks: int) -> Iterator[int]:
    grid.sh(FAR, f"rm -rf {FOLDER} && mkdir {FOLDER}", user=ACCOUNT)
    grid.sh(HOST, "gridbridge drain gamma --reason tests")
    try:
        known = {"name": "killed", "type": "normal", "exec_file": exec_file, "walltime": "0:15"}
        places = {"exec_directory": FOLDER, "clusters": {"gamma": {}}}
        number = submit(grid, {**known, **places, "nb_jobs": tasks})
        runner.stop(grid)
    finally:
        grid.sh(HOST, "gridbridge undrain gamma")
    assert [] == ledger(grid, number)
    yield number
    runner.start(grid)
    grid.sh(FAR, f"rm -rf {FOLDER}", user=ACCOUNT)


def once_more(grid: Grid, *words: str) -> Done:
    program = ("sudo", "-n", "/opt/gridbridge/bin/gridbridge-as-user")
    return grid.on(HOST, "runuser", "-u", "gridbridge", "--", *program, *words, timeout_s=100)


def array(number: int, place: int) -> tuple[str, ...]:
    """Return the helper's arguments for an array of one task.

    The number of the array is the task's number plus 1.
    """
    return ("send-arrays", f"c.{number}", "gamma", str(place + 1), f"{place}:1")


def send(grid: Grid, number: int, place: int, where: str) -> str:
    """Submit an array by two calls of the helper, and kill the first call; return the array's id."""
    assert killed(grid, where, AS_USER, *array(number, place)), where
    done = once_more(grid, *array(number, place))
    status, job, why = done.out.split(" ", 2)
    assert ("0", "") == (status, why.strip()), done
    return job


def test_an_array_is_at_oar_once_wherever_its_submission_is_killed(site: Grid, brought: int) -> None:
    jobs = [send(site, brought, place, where) for place, where in enumerate(SEND.values())]
    site.until(lambda: len(SEND) <= len(ran(site)), "the tasks to run", CAMPAIGN_S)

    assert len(SEND) == len({*jobs})
    assert Counter({f"{brought}.{place}": 1 for place in range(len(SEND))}) == Counter(ran(site))
    site.until_none(lambda: at_gamma(site, brought), "gamma to have none more", CAMPAIGN_S)


def ran(grid: Grid) -> list[str]:
    return grid.sh(FAR, f"cat {FOLDER}/ran 2>/dev/null; :", user=ACCOUNT).split()


@pytest.mark.long
def test_an_array_is_deleted_wherever_its_deletion_is_killed(site: Grid, brought: int) -> None:
    for place, where in enumerate(DELETE.values(), start=len(SEND)):
        done = once_more(site, *array(brought, place))
        assert done.out.startswith("0 "), done
        words = ("delete-array", f"c.{brought}", "gamma", str(place + 1))
        assert killed(site, where, AS_USER, *words), where
        assert 0 == once_more(site, *words).status
    site.until_none(lambda: at_gamma(site, brought), "gamma to have none of it", CAMPAIGN_S)


@pytest.mark.long
def test_the_runner_finds_out_which_tasks_were_sent_and_which_ran(site: Grid, brought: int) -> None:
    """A deleted task may be sent again, but no task that ran."""
    site.sh(FAR, f"touch {FOLDER}/go", user=ACCOUNT)
    runner.start(site)
    found = until_state(site, brought, "terminated")
    times = Counter(ran(site))

    assert TASKS == found["ended"]
    assert {1} == {times[f"{brought}.{place}"] for place in range(len(SEND))}


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_an_array_is_at_oar_once_at_whatever_line_its_submission_is_killed(site: Grid) -> None:
    """The kill comes at each seventh line, in any of the helper's processes."""
    places = LINES // EACH
    with bring(site, "sh -c 'echo $CIGRI_JOB_ID >>ran'", places) as number:
        for place in range(places):
            asked = array(number, place)
            if not killed(site, f"{FILES}:{1 + EACH * place}", AS_USER, *asked):
                break
            done = once_more(site, *asked)
            assert done.out.startswith("0 "), (place, done)
        site.until(lambda: len(ran(site)) > place, "the tasks to run", LONG_S)
        site.until_none(lambda: at_gamma(site, number), "gamma to have none more", CAMPAIGN_S)
        times = Counter(ran(site))
        runner.start(site)
        site.on(HOST, "griddel", str(number), user="alice", timeout_s=200)

    assert place > 10
    assert Counter({f"{number}.{one}": 1 for one in range(place + 1)}) == times
