"""Contract for jobs: what transfers need from every batch system."""

import pytest

from gridbridge.batch.batch_submission_outcome import JobSubmissionOutcome
from gridbridge.batch.remote_job_script_writer import RemoteJobScriptValues, ShellStartMode, write_remote_job_script
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.job_and_queue_states import UNSEEN
from gridbridge.model.job_request import JobRequest
from gridbridge.model.transfer_messages_in_spool import TransferMessage
from tests.contract.conftest import NOT_OAR, OAR, SEVERAL_PEOPLES
from tests.contract.far import UNKNOWN, Far
from tests.contract.waiting import stays, until
from tests.messages import decode_in_place
from tests.states import job_state

pytestmark = pytest.mark.timeout(600)

AT_ONCE = 4  # tests at once in a cluster of the lab
HELD = job_state("hqw")
TICKING = "while :; do echo . >>ticks; sleep 0.05; done\n"
ASKS_TOO_MUCH = JobRequest(hard=(("nonesuch", "1"),))


def ticks(far: Far) -> int:
    return len(far.read("ticks"))


def until_ticking(far: Far) -> None:
    before = ticks(far)
    until(lambda: ticks(far) > before, "the job to continue")


def test_a_held_job_waits_while_a_later_job_runs(far: Far) -> None:
    held = far.submit("echo ran >>held\n")
    far.end(far.start("exit 0\n"))

    assert (far.state(held), far.read("held")) == (HELD, "")


@pytest.mark.parametrize("far", NOT_OAR, indirect=True)
def test_a_released_job_runs_once_under_its_final_name(far: Far) -> None:
    job = far.submit('echo "$JOB_NAME $JOB_ID" >>ran\n')
    far.hot("rename_and_release", job, "real")
    end = far.end(job)

    assert (end.exit_status, far.read("ran")) == (0, f"real {job}\n")
    far.until_gone(job)


def test_exit_statuses_and_signals_are_accounted(far: Far) -> None:
    """The wrapper reports 199 and 200 by signals 63 and 64."""
    scripts = {f"exit {status}\n": (status, None) for status in (0, 1, 7, 137, 199, 255)}
    scripts |= {f"ulimit -c 0; kill -{number} $$\n": (None, number) for number in (6, 9, 15, 63, 64)}
    jobs = dict(zip(far.start_all(scripts), scripts.values(), strict=True))
    ends = far.ends(jobs)

    assert {job: (end.exit_status, end.signal) for job, end in ends.items()} == jobs
    assert all(end.host for end in ends.values())


@pytest.mark.parametrize("far", NOT_OAR, indirect=True)
def test_the_usage_of_a_job_is_accounted(far: Far) -> None:
    script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; head -c 300000 /dev/zero >file; sync file\n"
    end = far.end(far.start(script))

    assert 0.01 < end.user_s + end.system_s < 30
    assert 500 < end.max_rss_kb < 100_000
    assert 290 < end.written_kb < 10_000


@pytest.mark.parametrize("far", OAR, indirect=True)
def test_an_oar_job_runs_under_the_transfers_name_without_cpu_usage(far: Far) -> None:
    job = far.start('echo "$JOB_NAME $JOB_ID" >>ran\n')
    end = far.end(job)

    assert (end.exit_status, far.read("ran")) == (0, f"{far.accounts[job]} {job}\n")
    assert (end.user_s, end.system_s) == (None, None)
    assert end.wallclock_s is not None
    assert 0 <= end.wallclock_s < 60


def test_a_jobs_end_is_returned_only_for_its_account_and_after_its_end(far: Far) -> None:
    job = far.start("until [ -e go ]; do sleep 0.05; done\n")
    far.until_running(job)
    before = far.maybe_end(job)
    far.reach.sh("touch go")
    far.end(job)

    assert (before, far.cold("query_job_end", int(job), "gb.another.1.0.1")) == (None, None)


def test_a_submission_is_found_by_its_name_until_its_release(far: Far) -> None:
    name = far.new_name()
    first = far.submit("exit 0\n", name=name)
    far.submit("exit 0\n", name=name)
    mine = far.hot("find_held_job", name, far.reach.person)
    nobodys = far.hot("find_held_job", name, "nobody")
    for job in list(far.accounts):
        far.hot("rename_and_release", job, "work")

    assert (mine, nobodys, far.hot("find_held_job", name, far.reach.person)) == (first, "", "")


@pytest.mark.parametrize("far", SEVERAL_PEOPLES, indirect=True)
def test_another_users_submission_of_the_same_name_is_not_found(far: Far) -> None:
    assert far.others
    name = far.new_name()
    theirs = Far(far.others)
    job = theirs.submit("exit 0\n", name=name)
    try:
        assert far.hot("find_held_job", name, far.reach.person) == ""
        assert far.hot("query_owner_and_account", job) == (far.others.person, name)
    finally:
        theirs.delete_all()


def test_a_jobs_owner_and_account_are_known_while_it_is_listed(far: Far) -> None:
    job = far.submit("exit 0\n")

    assert far.hot("query_owner_and_account", job) == (far.reach.person, far.accounts[job])
    assert far.hot("query_owner_and_account", UNKNOWN) == ("", "")


def test_a_waiting_job_is_held_and_released(far: Far) -> None:
    job = far.submit("exit 3\n")
    far.hot("hold_job", job)
    held = far.state(job)
    far.hot("release_job", job)

    assert (held, far.end(job).exit_status) == (HELD, 3)


@pytest.mark.parametrize("verb", ["hold_job", "release_job"])
def test_holding_a_missing_job_is_an_error(far: Far, verb: str) -> None:
    with pytest.raises(CommandFailed, match="exist"):
        far.hot(verb, UNKNOWN)


def test_a_suspended_job_makes_no_progress_until_it_is_resumed(far: Far) -> None:
    job = far.start(TICKING)
    until_ticking(far)
    far.hot("suspend_or_hold_job", job)
    until(lambda: stays(lambda: ticks(far)), "the job to stop")
    suspended = far.state(job)
    far.hot("resume_or_release_job", job)
    until_ticking(far)

    assert suspended.is_suspended
    assert suspended.is_by_hand
    until(lambda: far.state(job) == job_state("r"), "the job to be listed as running")


def test_a_job_suspended_twice_is_resumed_once(far: Far) -> None:
    job = far.start(TICKING)
    until_ticking(far)
    far.hot("suspend_or_hold_job", job)
    far.hot("suspend_or_hold_job", job)
    until(lambda: far.state(job).is_suspended, "the job to be listed as suspended")
    far.hot("resume_or_release_job", job)

    until_ticking(far)


def test_a_suspended_waiting_job_does_not_start(far: Far) -> None:
    job = far.submit("exit 0\n")
    far.hot("suspend_or_hold_job", job)
    far.end(far.start("exit 0\n"))
    waited = far.state(job)
    far.hot("resume_or_release_job", job)

    assert (waited, far.end(job).exit_status) == (HELD, 0)


def test_a_waiting_job_is_deleted(far: Far) -> None:
    job = far.submit("echo ran >>ran\n")
    far.hot("delete_job", job)
    far.until_gone(job)
    far.end(far.start("exit 0\n"))

    assert (far.read("ran"), far.maybe_end(job)) == ("", None)


@pytest.mark.parametrize("is_suspended", [False, True], ids=["running", "suspended"])
def test_a_started_job_is_deleted_with_all_its_processes(far: Far, is_suspended: bool) -> None:
    job = far.start(f"(trap '' TERM HUP; {TICKING}) & wait\n")
    until_ticking(far)
    if is_suspended:
        far.hot("suspend_or_hold_job", job)
    far.hot("delete_job", job)
    far.hot("delete_job", job)
    end = far.end(job)
    far.until_gone(job)

    assert (end.exit_status, end.signal) == (None, 9)
    until(lambda: stays(lambda: ticks(far)), "the job's processes to end")


def test_an_ended_job_can_be_deleted_suspended_and_resumed_without_error(far: Far) -> None:
    job = far.start("exit 5\n")
    far.end(job)
    far.until_gone(job)
    for verb in ("delete_job", "delete_job", "suspend_or_hold_job", "resume_or_release_job"):
        far.hot(verb, job)

    assert far.end(job).exit_status == 5


def test_an_unknown_job_has_no_state_details_or_end(far: Far) -> None:
    far.hot("delete_job", UNKNOWN)

    assert (far.state(UNKNOWN), far.cold("query_job_details", int(UNKNOWN))) == (UNSEEN, ())
    assert far.cold("query_job_end", int(UNKNOWN), "gb.contract.1.0.1") is None


@pytest.mark.parametrize("tasks", [0, 1, 3], ids=["a job", "an array of one", "an array"])
def test_a_request_that_the_cluster_cannot_satisfy_is_refused(far: Far, tasks: int) -> None:
    answer = far.answer("exit 0\n", request=ASKS_TOO_MUCH, tasks=tasks)

    assert (answer.result, "nonesuch" in answer.reason) == (JobSubmissionOutcome.REFUSED, True)


def test_an_unreachable_cluster_accepts_no_job_and_reports_no_state(far: Far) -> None:
    away = Far(far.reach.out_of_reach())

    assert away.answer("exit 0\n").result == JobSubmissionOutcome.LATER
    for ask in (lambda: away.state("1"), away.snapshot, lambda: away.hot("delete_job", "1")):
        with pytest.raises(GridbridgeError):
            ask()


def test_a_wrapped_job_reports_its_end_in_the_spool(far: Far) -> None:
    far.reach.sh("mkdir spool")
    name = far.new_name()
    job = far.start(write_remote_job_script(wrapped(far, name)), name=name)
    end = far.end(job)
    message = told(far)

    assert (end.exit_status, far.read("out")) == (199, "a b|it's $HOME|\n")
    assert (message.transfer, message.remote_id) == (name, job)
    assert (message.outcome, message.exit_status, message.host) == ("exit", "99", end.host)


def told(far: Far) -> TransferMessage:
    data = until(lambda: far.read("spool/w.*"), "the message of the wrapper")
    return decode_in_place(data.encode())


def wrapped(far: Far, name: str) -> RemoteJobScriptValues:
    return RemoteJobScriptValues(
        transfer=name,
        spool=f"{far.reach.folder}/spool",
        name="12",
        start=ShellStartMode.POSIX,
        shell="/bin/sh",
        login=False,
        arguments=("a b",),
        environment=(("VALUE", "it's $HOME"), ("PATH", "/usr/bin:/bin")),
        script=b'echo "$1|$VALUE|"; exit 99\n',
        stdout=f"{far.reach.folder}/out",
        stderr=f"{far.reach.folder}/out",
    )


def test_a_signal_ends_the_wrapped_job_and_its_wrapper(far: Far) -> None:
    far.reach.sh("mkdir spool")
    name = far.new_name()
    job = wrapped(far, name)
    job.script = b"kill -TERM $$\n"
    end = far.end(far.start(write_remote_job_script(job), name=name))

    message = told(far)
    assert (message.outcome, message.signal, end.signal) == ("signal", "15", 15)


@pytest.mark.parametrize("far", NOT_OAR, indirect=True)
def test_a_job_name_is_kept_unchanged(far: Far) -> None:
    names = ["-x", "it's", 'a"b', "$(x);&|", "%41", "=", "x" * 200]
    jobs = [far.submit('printf "%s" "$JOB_NAME" >"name.$JOB_ID"\n') for _ in names]
    for job, name in zip(jobs, names, strict=True):
        far.hot("rename_and_release", job, name)
    for job in jobs:
        far.end(job)

    assert [far.read(f"name.{job}") for job in jobs] == names


def test_a_working_directory_is_used_unchanged(far: Far) -> None:
    paths = [f"{far.reach.folder}/{folder}" for folder in ("a b", "it's", "-x", "grün", "%s\\n")]
    for path in paths:
        far.reach.sh(f'mkdir -- "$(printf %b "{octal(path)}")"')
    jobs = [far.start("pwd >here\n", cwd=path) for path in paths]
    for job in jobs:
        far.end(job)

    assert sorted(far.reach.sh("cat ./*/here").splitlines()) == sorted(paths)


def octal(text: str) -> str:
    return "".join(f"\\\\0{byte:03o}" for byte in text.encode())
