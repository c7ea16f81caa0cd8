"""Contract for arrays: what campaigns need from every batch system."""

import itertools

import pytest

from gridbridge.batch.campaign_array_script import CampaignArrayScriptTask, write_campaign_array_script
from gridbridge.decisions.campaigns.task_attempt_outcomes import classify_job_end
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.job_request import JobRequest
from gridbridge.model.jobs_and_accounting import ArrayEndQuery, ClusterArrayLimits, JobEnd
from tests.contract.conftest import EMBEDDED
from tests.contract.far import UNKNOWN, Far
from tests.contract.waiting import until

pytestmark = pytest.mark.timeout(600)

AT_ONCE = 1  # tests at once in a cluster of the lab, so that all tasks of a test can run at once
HOUR = JobRequest(hard=(("h_rt", "3600"),))
WAITING = "until [ -e go ]; do sleep 0.05; done"
PLACE_ENDS = 'sh -c "exit $1" sh'

numbers = itertools.count()


def array(far: Far, parameters: list[str], *, run: str = PLACE_ENDS, **options: object) -> str:
    """Submit a held array with one task for each parameter; return the array's id.

    Each task gets a new number, because equal attempts would write the same files.
    """
    settings = {
        "campaign": "7",
        "cluster": "far",
        "user": far.reach.person,
        "slots": "1",
        "walltime": "01:00:00",
        "walltime_s": "3600",
        "directory": far.reach.folder,
        "exec": run,
        "outputs": "",
    }
    tasks = tuple(CampaignArrayScriptTask(next(numbers), 1, (words,)) for words in parameters)
    name = str(options.pop("name", "") or new_name(far))
    asked = {"request": HOUR, "tasks": len(tasks), "cwd": "", **options}
    return far.submit(write_campaign_array_script(settings, tasks), name=name, **asked)


def new_name(far: Far) -> str:
    return f"gc.contract.{far.new_name().split('.')[2]}.{far.new_name().split('.')[3]}"


def release(far: Far, job: str) -> None:
    far.hot("release_arrays", (job,), "campaign.7")


def ends(far: Far, job: str, count: int) -> dict[int, JobEnd]:
    def enough() -> dict[int, JobEnd] | None:
        found = told(far, job)
        return found if len(found) >= count else None

    return until(enough, f"{count} tasks of {job} to end", 90, far.reach.pause_s)


def told(far: Far, job: str) -> dict[int, JobEnd]:
    return told_of(far, job).get(far.accounts[job], {})


def told_of(far: Far, *jobs: str, account: str = "") -> dict[str, dict[int, JobEnd]]:
    owners = ((int(job), account or far.accounts[job]) for job in jobs)
    asked = (ArrayEndQuery(job_id=job, account=owner, places=range(1, 9)) for job, owner in owners)
    found: dict[str, dict[int, JobEnd]] = far.cold("query_array_ends", tuple(asked))
    return {account: ends for account, ends in found.items() if ends}


def lives(far: Far, job: str, account: str = "") -> frozenset[int] | None:
    """Return the indices of an array's live tasks; the query also names an unknown array."""
    asked = {int(job): account or far.accounts[job], int(UNKNOWN): "gc.another.1.2"}
    found: dict[int, frozenset[int]] = far.cold("query_begun_indices", asked)
    assert int(UNKNOWN) not in found
    return found.get(int(job))


def listed(far: Far, job: str) -> list[int]:
    name = far.accounts[job]
    found = far.hot("query_live_indices", {job: name, UNKNOWN: name})
    assert found[UNKNOWN] == ()
    return sorted(place for some in found[job] for place in some)


def places(far: Far, job: str) -> list[int]:
    rows = far.snapshot(job).jobs.get(int(job), ())
    return sorted(place for row in rows for some in row.tasks for place in some)


def test_each_task_of_an_array_ends_with_its_own_exit_status(far: Far) -> None:
    job = array(far, ["0", "7", "66", "0"])
    listed = places(far, job)
    release(far, job)
    told = ends(far, job, 4)

    assert listed == [1, 2, 3, 4]
    assert {place: end.exit_status for place, end in told.items()} == {1: 0, 2: 7, 3: 66, 4: 0}
    assert all(end.wallclock_s is not None for end in told.values())
    assert told_of(far, job, account="gc.another.1.1") == {}


def test_array_limits_are_known_and_permit_these_tests(far: Far) -> None:
    told = far.cold("query_array_limits")

    assert isinstance(told, ClusterArrayLimits)
    assert min(told.tasks, told.of_person, told.of_all) >= 0
    assert told.tasks == 0 or told.tasks > 9


def test_ends_of_several_arrays_are_one_query(far: Far) -> None:
    first, second, held = array(far, ["3"]), array(far, ["0", "5"]), array(far, ["0"])
    release(far, first)
    release(far, second)
    ends(far, first, 1)
    ends(far, second, 2)
    told = told_of(far, first, second, held)
    far.hot("delete_array", held)

    assert {account: {place: end.exit_status for place, end in found.items()} for account, found in told.items()} == {
        far.accounts[first]: {1: 3},
        far.accounts[second]: {1: 0, 2: 5},
    }


def test_a_held_array_is_found_by_its_name_until_its_release(far: Far) -> None:
    name = new_name(far)
    first = array(far, ["0", "0"], name=name)
    second = array(far, ["0", "0"], name=name)
    person = far.reach.person
    found = (far.hot("find_held_job", name, person), far.hot("find_duplicate_arrays", name, person, first))
    rows = far.snapshot(first).jobs[int(first)]
    held = listed(far, first)
    release(far, first)
    ends(far, first, 2)
    left = far.hot("find_held_job", name, person)
    far.hot("delete_array", second)

    assert (found, left) == ((first, [second]), second)
    assert all(row.state.is_held for row in rows)
    assert held == [1, 2]
    until(lambda: not far.hot("find_held_job", name, person), "the second array to be deleted")


def test_an_arrays_owner_and_live_tasks_are_known_while_a_task_lives(far: Far) -> None:
    job = array(far, ["0", "1"], run=f'sh -c "[ $1 = 0 ] || {WAITING}" sh')
    release(far, job)
    ends(far, job, 1)
    whose = far.hot("query_owner_and_account", job)
    until(lambda: begun(far, job, 2), "the second task to run")
    living, others = lives(far, job), lives(far, job, "gc.another.1.1")
    there = listed(far, job)
    far.reach.sh("touch go")
    ends(far, job, 2)

    assert whose == (far.reach.person, far.accounts[job])
    assert (living, others) == ({2}, None)
    assert there == [2]
    until(lambda: not listed(far, job), "no task of the array to be listed")
    until(lambda: lives(far, job) is None, "the array to have no live task")
    assert far.hot("query_owner_and_account", UNKNOWN) == ("", "")


def test_a_deleted_array_ends_with_its_processes(far: Far) -> None:
    job = array(far, ["0"] * 2, run=f"echo ran >>ran; {WAITING} #")
    release(far, job)
    until(lambda: far.read("ran").count("ran") == 2, "both tasks to run")
    far.hot("delete_array", job)
    far.hot("delete_array", job)
    until(lambda: not places(far, job), "both tasks to be gone")
    far.hot("delete_array", job)
    outcomes = {classify_job_end(end, 3600) for end in ends(far, job, 2).values()}

    assert outcomes <= {TaskAttemptOutcome.CANCELLED, TaskAttemptOutcome.SIGNAL}


def test_only_tasks_at_the_given_indices_are_deleted(far: Far) -> None:
    job = array(far, ["0"] * 3, run=f"{WAITING}; exit 3 #")
    release(far, job)
    until(lambda: places(far, job) == [1, 2, 3], "all tasks to be listed")
    until(lambda: begun(far, job, 2), "the second task to run")
    far.hot("delete_array_tasks", job, far.accounts[job], "1,3")
    until(lambda: places(far, job) == [2], "two tasks to be gone", 90)
    far.reach.sh("touch go")
    until(lambda: not places(far, job), "the second task to end")

    assert until(lambda: told(far, job).get(2), "the end of the task", 90).exit_status == 3


def test_waiting_tasks_are_held_and_running_tasks_continue(far: Far) -> None:
    every = range(1, far.slots + 4)
    job = array(far, ["0"] * len(every), run=f"{WAITING} #")
    release(far, job)
    full = until(lambda: len(all_begun(far, job, every)) == far.slots, "slots to be used", 90)
    running = all_begun(far, job, every)
    gone, later = [place for place in every if place not in running][:2]
    wanted = tuple(range(one, one + 1) for one in (running[0], gone, later))
    name = far.accounts[job]
    held = [place for some in far.hot("hold_array_tasks", job, name, wanted) for place in some]
    far.hot("delete_array_tasks", job, name, str(gone))
    far.hot("release_array_tasks", job, wanted)
    far.reach.sh("touch go")
    ended = ends(far, job, len(every) - 1)

    assert full
    assert {gone, later} <= {*held}
    assert running[0] not in held
    assert all(ended[place].exit_status == 0 for place in every if place != gone)


def all_begun(far: Far, job: str, places: range) -> list[int]:
    return [place for place in places if begun(far, job, place)]


def begun(far: Far, job: str, place: int) -> bool:
    found = far.snapshot(job).find_job_list_row(int(job), place)
    return bool(found and found.state.has_begun)


@pytest.mark.parametrize("far", [EMBEDDED], indirect=True)
def test_a_task_is_killed_after_its_walltime(far: Far) -> None:
    """The lab's campaigns test the walltimes of Grid Engine and OAR."""
    job = array(far, ["0"], run="sleep 100 #", request=JobRequest(hard=(("h_rt", "1"),)))
    release(far, job)

    assert classify_job_end(ends(far, job, 1)[1], 1) is TaskAttemptOutcome.WALLTIME


@pytest.mark.parametrize("far", [EMBEDDED], indirect=True)
def test_best_effort_tasks_are_preempted_for_an_ordinary_job(far: Far) -> None:
    request = JobRequest(hard=(("h_rt", "3600"),), types=("besteffort",))
    job = array(far, ["0"] * (far.slots + 2), run=f"{WAITING} #", request=request)
    release(far, job)
    until(lambda: not far.snapshot().besteffort_slots, "every slot to have a task")
    free_for_others = far.snapshot().free_slots
    ordinary = far.start("echo ran >>ran\n", slots=2)
    end = far.end(ordinary)
    far.reach.sh("touch go")
    outcomes = [classify_job_end(one, 3600) for one in ends(far, job, far.slots + 2).values()]

    assert (end.exit_status, free_for_others) == (0, far.slots)
    assert outcomes.count(TaskAttemptOutcome.PREEMPTED) == 2
    assert outcomes.count(TaskAttemptOutcome.SUCCESS) == far.slots
