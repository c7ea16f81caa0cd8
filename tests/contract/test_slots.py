"""Contract for slots: simultaneous jobs, and the counts of a snapshot."""

import pytest

from gridbridge.decisions.wrapper_end_interpretation import why_job_not_started
from gridbridge.model.job_and_queue_states import JobStateFact
from tests.contract.conftest import NOT_OAR, OAR
from tests.contract.far import Far
from tests.contract.waiting import until

pytestmark = pytest.mark.timeout(600)

AT_ONCE = 1  # tests at once in a cluster of the lab, because the tests count slots
WAITING = "until [ -e go ]; do sleep 0.05; done\n"


def test_jobs_run_once_each_within_the_slots(far: Far) -> None:
    script = f'echo "+ $JOB_ID" >>log\n{WAITING}sleep 0.3; echo "- $JOB_ID" >>log\n'
    jobs = far.start_all([script] * (2 * far.slots + 1))
    until(lambda: far.read("log").count("+") == far.slots, "every slot to have a job")
    far.reach.sh("touch go")
    far.ends(jobs)

    lines = far.read("log").splitlines()
    at_once = [sum(1 if line[0] == "+" else -1 for line in lines[:n]) for n in range(len(lines))]
    assert sorted(lines) == sorted(f"{sign} {job}" for sign in "+-" for job in jobs)
    assert 1 < max(at_once) <= far.slots


@pytest.mark.parametrize("pe", ["smp", ""], ids=["named", "any"])
def test_a_parallel_job_gets_all_its_slots(far: Far, pe: str) -> None:
    wide = far.start(f"echo $NSLOTS >nslots; {WAITING}", pe=pe, slots=2)
    far.until_running(wide)
    seen = far.snapshot(wide).find_job_list_row(int(wide))
    far.reach.sh("touch go")
    far.end(wide)

    assert (seen and seen.slots, far.read("nslots")) == (2, "2\n")


def test_a_snapshot_counts_pending_jobs_and_free_slots(far: Far) -> None:
    until(lambda: far.snapshot().free_slots == far.slots, "slots of ended jobs to be free")
    idle = far.snapshot()
    full = far.start_all([WAITING] * far.slots)
    for job in full:
        far.until_running(job)
    far.hot("suspend_or_hold_job", full[0])
    held = far.submit("exit 0\n")
    waiting = far.start_all(["exit 0\n"] * 2)
    until(lambda: far.snapshot().pending == 2, "two pending jobs to be counted")

    seen = far.snapshot(*full, *waiting)
    words = [rows[0].state.most_important_fact for rows in map(seen.jobs.get, map(int, full + waiting)) if rows]
    assert idle.pending == 0
    assert (seen.pending, seen.free_slots) == (2, 0)
    assert words == [JobStateFact.SUSPENDED, *[JobStateFact.RUNNING] * (far.slots - 1), *[JobStateFact.WAITING] * 2]
    assert seen.jobs[int(held)][0].state.is_held


def test_a_snapshot_has_requested_jobs_and_transfers(far: Far) -> None:
    ours = far.submit("exit 0\n")
    asked, other = far.start_all([WAITING] * 2)
    seen = far.snapshot(asked)

    (row,) = seen.jobs[int(ours)]
    assert set(seen.jobs) & {int(ours), int(asked), int(other)} == {int(ours), int(asked)}
    assert (row.name, row.owner) == (far.accounts[ours], far.reach.person)


@pytest.mark.parametrize("far", NOT_OAR, indirect=True)
def test_a_job_that_cannot_start_has_an_error_message(far: Far) -> None:
    broken = far.start("exit 0\n", cwd=f"{far.reach.folder}/nowhere")
    until(lambda: far.state(broken).is_error, "the job to be in error state")
    (detail,) = far.cold("query_job_details", int(broken))

    assert (detail.job_id, detail.account) == (int(broken), far.accounts[broken])
    assert any("nowhere" in error for error in detail.errors)
    assert far.snapshot().pending == 0


@pytest.mark.parametrize("far", OAR, indirect=True)
def test_an_oar_job_that_cannot_start_ends_with_the_wrappers_signal(far: Far) -> None:
    broken = far.start("exit 0\n", cwd=f"{far.reach.folder}/nowhere")

    why = why_job_not_started(far.end(broken))
    assert why
    assert why[1].startswith("can not change to its working directory on")
