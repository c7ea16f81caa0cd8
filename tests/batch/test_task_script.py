"""Tests of a campaign array's script, which really runs here."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from gridbridge.batch.campaign_array_script import (
    CampaignArrayScriptTask,
    write_campaign_array_script,
    write_further_tasks,
)
from gridbridge.decisions.wrapper_end_interpretation import MISSING_INPUT_SIGNAL
from gridbridge.model.campaigns.task_input_files import MADE_LATER, TaskInputFile
from tests.builders.programs import write_program
from tests.contract.waiting import until

SETTINGS = {
    "campaign": "12",
    "cluster": "beta",
    "user": "alice",
    "slots": "2",
    "walltime": "00:10:00",
    "walltime_s": "600",
    "directory": "$HOME/data",
}


NONE: Mapping[str, str] = {}
PREEMPT = Path(__file__).parents[2] / "sge-methods" / "preempt"


PLAIN = CampaignArrayScriptTask(0, 1, ())


def written(home: Path, *tasks: CampaignArrayScriptTask, **settings: str) -> tuple[Path, dict[str, str]]:
    (home / "data").mkdir(exist_ok=True)
    path = home / f"script.{time.monotonic_ns()}"
    path.write_bytes(write_campaign_array_script(SETTINGS | settings, tasks or (PLAIN,)))
    return path, {"PATH": os.environ["PATH"], "HOME": str(home), "SGE_TASK_ID": "1"}


def run(
    home: Path, command: str, *tasks: CampaignArrayScriptTask, settings: Mapping[str, str] = NONE, **variables: str
) -> int:
    path, environment = written(home, *tasks, **{"exec": command} | settings)
    program = ("env", "--default-signal", "/bin/sh", path)  # nohup would ignore some signals
    return subprocess.run(program, env=environment | variables, check=False, cwd="/").returncode


def output(home: Path, name: str) -> str:
    return (home / "data" / "campaign.12" / name).read_text()


def test_task_parameters_are_never_executed(tmp_path: Path) -> None:
    odd = ("x'; rm -rf /", "$(touch evil)", "`id`", 'a "b"', "", "--", "100%\\n")
    tasks = (CampaignArrayScriptTask(0, 1, ("other",)), CampaignArrayScriptTask(7, 2, odd))

    status = run(tmp_path, "printf '<%s>\\n'", *tasks, SGE_TASK_ID="2")

    assert status == 0
    assert output(tmp_path, "7.2.out") == "".join(f"<{word}>\n" for word in odd)
    assert not (tmp_path / "data" / "evil").exists()


def test_the_first_process_of_oar_may_write_what_a_task_used(tmp_path: Path) -> None:
    """Only task.sh knows the folder for this file."""
    link = tmp_path / "usage"

    run(tmp_path, "echo ${gb_usage-unset} #", CampaignArrayScriptTask(41, 2, ("north",)), gb_usage=str(link))
    link.write_text("9 5\n")

    assert (output(tmp_path, "41.2.out"), output(tmp_path, "41.2.usage")) == ("unset\n", "9 5\n")


def test_a_task_has_its_cigri_variables(tmp_path: Path) -> None:
    """OAR sets OAR_ARRAY_INDEX instead of SGE_TASK_ID."""
    task = CampaignArrayScriptTask(41, 1, ("north", "3"))

    run(tmp_path, "env; echo", task, SGE_TASK_ID="undefined", OAR_ARRAY_INDEX="1")

    shown = dict(line.partition("=")[::2] for line in output(tmp_path, "41.1.out").splitlines())
    assert {key: value for key, value in shown.items() if key.startswith("CIGRI")} == {
        "CIGRI_NODE_FILE": f"{tmp_path}/data/campaign.12/41.1.nodes",
        "CIGRI_NODEFILE": f"{tmp_path}/data/campaign.12/41.1.nodes",
        "CIGRI_CAMPAIGN_ID": "12",
        "CIGRI_CAMPAIGNID": "12",
        "CIGRI_JOB_ID": "12.41",
        "CIGRI_JOBID": "12.41",
        "CIGRI_JOB_NAME": "north",
        "CIGRI_JOBNAME": "north",
        "CIGRI_USER": "alice",
        "CIGRI_CLUSTER": "beta",
        "CIGRI_COPY": "0",
        "CIGRI_RESOURCES": "2",
        "CIGRI_WALLTIME": "00:10:00",
        "CIGRI_WALLTIME_SECONDS": "600",
        "CIGRI_WORKDIR": f"{tmp_path}/data",
        "CIGRI_WORKING_DIRECTORY": f"{tmp_path}/data",
    }


REPLACED = {99: 199, 100: 200, 199: -63, 200: -64}
KEPT = (0, 3, 66, 127, 128, 145, 146, 147, 148, 149, 150, 151, 156, 160, 183, 190)


@pytest.mark.parametrize(("ended", "told"), [*REPLACED.items(), *zip(KEPT, KEPT, strict=True)])
def test_exit_statuses_with_a_meaning_for_grid_engine_are_replaced(tmp_path: Path, ended: int, told: int) -> None:
    """99 would requeue the task, and 100 would put the task into error state; not every 128 + n is a signal."""
    assert run(tmp_path, f"exit {ended};") == told


@pytest.mark.parametrize("number", ["HUP", "INT", "QUIT", "SEGV", "KILL", "TERM", "USR2", "XCPU"])
@pytest.mark.parametrize("by", ["kill -%s $$;", "sh -c 'kill -%s $$'; exit $?;"])
def test_a_task_ends_by_the_signal_that_killed_its_program(tmp_path: Path, number: str, by: str) -> None:
    """A shell reports a signal as an exit status of 128 plus the signal."""
    status = run(tmp_path, by % number)

    assert status == -signal.Signals[f"SIG{number}"]


def test_no_program_runs_for_an_index_beyond_the_array_or_without_its_directory(tmp_path: Path) -> None:
    assert run(tmp_path, "touch ran;", SGE_TASK_ID="3") == 1
    assert not (tmp_path / "data" / "ran").exists()
    assert run(tmp_path, "true", settings={"directory": "/none"}) == -57


@pytest.mark.parametrize(
    ("command", "saved"),
    [
        ("touch began; sleep 60;", False),
        ("trap 'touch saved; exit 0' USR2; touch began; sleep 60 & wait; sh -c", True),
        ("trap '' USR2; touch began; sleep 60; true", False),
    ],
    ids=["that knows no checkpoint", "that saves its state", "that takes no notice"],
)
def test_a_preempted_task_gets_the_checkpoint_signal_and_never_succeeds(
    tmp_path: Path, command: str, saved: bool
) -> None:
    path, environment = written(tmp_path, exec=command)
    with subprocess.Popen(["/bin/sh", path], env=environment, start_new_session=True) as task:
        until(lambda: (tmp_path / "data" / "began").exists(), "the program to begin")
        (tmp_path / "job_pid").write_text(f"{task.pid}\n")
        variables = {"SGE_JOB_SPOOL_DIR": str(tmp_path), "SGE_ACCOUNT": "gc.alpha.12.1"}
        with subprocess.Popen([PREEMPT], env=variables) as method:
            assert task.wait(15) == -55
            assert method.wait(5) == 0
        with suppress(ProcessLookupError):
            os.killpg(task.pid, signal.SIGKILL)  # Grid Engine kills the remaining processes

    assert (tmp_path / "data" / "saved").exists() == saved


def test_a_task_preempted_before_its_program_starts_does_not_start(tmp_path: Path) -> None:
    status = run(tmp_path, "touch ran;", PATH=f"{tmp_path}:/usr/bin:/bin")

    assert status == 0
    (tmp_path / "data" / "ran").unlink()
    write_program(tmp_path / "mkdir", '#!/bin/sh\nkill -56 $PPID\nexec /bin/mkdir "$@"\n')

    status = run(tmp_path, "touch ran;", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert status == -55
    assert not (tmp_path / "data" / "ran").exists()


@pytest.mark.parametrize(
    ("file", "shown"),
    [("OAR_NODEFILE", "n1\nn1\nn2\n"), ("PE_HOSTFILE", "n1\nn1\nn2\n"), ("", "here\nhere\n")],
    ids=["OAR", "Grid Engine, parallel", "one host"],
)
def test_the_node_file_has_one_line_for_each_slot(tmp_path: Path, file: str, shown: str) -> None:
    lines = "n1\nn1\nn2\n" if file == "OAR_NODEFILE" else "n1 2 q@n1 UNDEFINED\nn2 1 q@n2 <NULL>\n"
    (tmp_path / "hosts").write_text(lines)
    told = {file: str(tmp_path / "hosts")} if file else {}

    run(tmp_path, 'cat "$CIGRI_NODE_FILE"; :', HOSTNAME="here", **told)

    assert output(tmp_path, "0.1.out") == shown
    left = {path.name for path in (tmp_path / "data/campaign.12").iterdir()}
    assert left == {"0.1.out", "0.1.err"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_ends_the_task_before_its_start(tmp_path: Path) -> None:
    path, environment = written(tmp_path, exec="true", slots="2")
    text = path.read_bytes()
    full = text.replace(b'nodes >"$gb_output.nodes"', b"nodes >|/dev/full")

    done = subprocess.run(["/bin/sh"], input=full, env=environment, check=False, timeout=20)

    assert full != text
    assert done.returncode == -59


def test_a_speculative_attempt_has_its_number_and_own_output(tmp_path: Path) -> None:
    task = CampaignArrayScriptTask(7, 3, ("north",))
    task.copy = 2

    run(tmp_path, 'echo "$CIGRI_COPY $CIGRI_JOB_ID"', task)

    assert output(tmp_path, "7.3.out") == "2 12.7 north\n"


def shared(home: Path) -> Path:
    (home / "data").mkdir()
    (home / "data").chmod(0o1777)
    return home / "data" / "campaign.12"


def planted(home: Path, kind: str) -> None:
    """Make a campaign folder that a task must not use."""
    folder = home / "data" / "campaign.12"
    if kind == "link":
        folder.symlink_to(home, target_is_directory=True)
        return
    folder.mkdir()
    folder.chmod({"open to all": 0o777, "open to a group": 0o775, "another's": 0o755}[kind])
    if kind == "another's":
        os.chown(folder, 1, 1)


ANOTHERS = pytest.param("another's", marks=pytest.mark.skipif(os.getuid() != 0, reason="two persons"))


@pytest.mark.parametrize("kind", ["link", "open to all", "open to a group", ANOTHERS])
@pytest.mark.parametrize("outputs", ["", "result"])
def test_a_task_writes_only_into_a_folder_of_its_account(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, outputs: str
) -> None:
    mine = tmp_path / "mine"
    mine.write_text("of value\n")
    folder = shared(tmp_path)
    planted(tmp_path, kind)
    for name in ("0.1.out", "0.1.err"):
        (folder / name).symlink_to(mine)

    assert run(tmp_path, "touch $HOME/ran;", settings={"outputs": outputs}) == -57
    assert mine.read_text() == "of value\n"
    assert not (tmp_path / "ran").exists()
    assert f"{folder}: expected a folder that only this account owns" in capfd.readouterr().err


def test_an_output_file_replaces_a_link_of_the_same_name(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("of value\n")
    folder = shared(tmp_path)
    folder.mkdir()
    for name in ("0.1.out", "0.1.err"):
        (folder / name).symlink_to(mine)

    assert run(tmp_path, "echo out; echo err >&2;") == 0

    assert mine.read_text() == "of value\n"
    assert output(tmp_path, "0.1.out") == "out\n"
    assert output(tmp_path, "0.1.err") == "err\n"


def test_task_output_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    assert run(tmp_path, "touch made;") == 0

    assert (tmp_path / "data" / "campaign.12").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "made").stat().st_mode & 0o777 == 0o644


def test_a_working_directory_may_be_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to("disk", target_is_directory=True)

    run(tmp_path, 'echo "$CIGRI_WORKDIR $PWD";')

    assert output(tmp_path, "0.1.out") == f"{tmp_path}/data {tmp_path}/data\n"


WRITES = 'sh -c \'mkdir sub; echo "$CIGRI_COPY" >result; echo "$PWD" >sub/log; cat ../../in >&2\' sh'


def attempt(home: Path, number: int, command: str = WRITES) -> int:
    (home / "data").mkdir(exist_ok=True)
    (home / "data" / "in").touch()
    task = CampaignArrayScriptTask(7, number, ("north",))
    task.copy = number - 1
    return run(home, command, task, settings={"outputs": "result sub/log"})


def test_the_first_successful_attempts_folder_becomes_the_tasks_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "campaign.12"

    assert (attempt(tmp_path, 1), attempt(tmp_path, 2)) == (0, 0)

    assert (folder / "7" / "result").read_text() == "0\n"
    assert (folder / "7" / "sub" / "log").read_text() == f"{folder}/7.1\n"
    assert sorted(os.listdir(folder)) == ["7", "7.1.err", "7.1.out", "7.2.err", "7.2.out"]


def test_the_folders_of_a_tasks_own_outputs_exist_when_the_task_begins(tmp_path: Path) -> None:
    task = CampaignArrayScriptTask(7, 1, ("north",))
    task.outputs = ("out/north.txt", "log")

    assert 0 == run(tmp_path, "sh -c 'echo >out/$0.txt; echo >log'", task, settings={"outputs": ""})

    assert ["log", "out"] == sorted(os.listdir(tmp_path / "data/campaign.12/7"))


@pytest.mark.parametrize(
    ("command", "status", "error"),
    [("touch result; exit 3; true", 3, ""), ("touch result; true", 1, "gridbridge: the task left no sub/log\n")],
)
def test_an_attempt_that_fails_or_lacks_an_output_is_not_published(
    tmp_path: Path, command: str, status: int, error: str
) -> None:
    folder = tmp_path / "data" / "campaign.12"

    assert attempt(tmp_path, 1, command) == status

    assert not (folder / "7").exists()
    assert (folder / "7.1" / "result").exists()
    assert (folder / "7.1.err").read_text() == error


def of_campaign(home: Path, token: str, command: str = "sh -c 'echo >result' sh") -> int:
    return run(home, command, CampaignArrayScriptTask(7, 1, ()), settings={"outputs": "result", "token": token})


def test_a_campaign_folder_of_another_campaign_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Two sites, or a new state file, may use the same campaign id."""
    folder = tmp_path / "data" / "campaign.12"
    assert of_campaign(tmp_path, "alpha.one", "sh -c 'echo first | tee result' sh") == 0

    assert of_campaign(tmp_path, "gamma.two") == -57

    assert output(tmp_path, "7/result") == output(tmp_path, "7.1.out") == "first\n"
    why = f"gridbridge: {folder}: folder of another campaign 12, alpha.one; move it away\n"
    assert capfd.readouterr().err == why
    assert of_campaign(tmp_path, "alpha.one") == 0
    folder.rename(tmp_path / "data" / "old")
    assert of_campaign(tmp_path, "gamma.two") == 0
    assert output(tmp_path, "7/result") == "\n"


def test_a_campaign_folder_without_token_is_adopted(tmp_path: Path) -> None:
    assert attempt(tmp_path, 1) == 0

    assert of_campaign(tmp_path, "alpha.one") == 0
    assert of_campaign(tmp_path, "gamma.two") == -57


def test_tasks_that_begin_at_once_share_the_campaign_folder(tmp_path: Path) -> None:
    tasks = tuple(CampaignArrayScriptTask(number, 1, ()) for number in range(16))
    path, environment = written(tmp_path, *tasks, exec="true", token="alpha.one")
    begun = [
        subprocess.Popen(["/bin/sh", path], env=environment | {"SGE_TASK_ID": str(place)}) for place in range(1, 17)
    ]

    assert [each.wait(30) for each in begun] == [0] * 16


def test_a_prologue_runs_as_one_script_in_the_campaigns_directory(tmp_path: Path) -> None:
    step = CampaignArrayScriptTask(990_000_000, 2, ("echo it\\'s $CIGRI_JOB_ID # first\ncd /\nmkdir here/x; exit 3",))
    step.label = "prologue"

    status = run(tmp_path, "sh -c", step, SGE_TASK_ID="undefined")

    assert status == 3
    assert output(tmp_path, "prologue.2.out") == "it's 12.prologue\n"


def _task_with_input(path: Path, digest: str = "d" * 64, name: str = "reads/a b's.fq") -> CampaignArrayScriptTask:
    task = CampaignArrayScriptTask(3, 1, ("word",))
    task.inputs = (TaskInputFile(name, str(path), len("ACGT"), digest), TaskInputFile("ref", str(path), 4, digest))
    return task


@pytest.mark.parametrize("carried", [False, True])
def test_input_files_are_linked_into_the_tasks_own_folder(tmp_path: Path, *, carried: bool) -> None:
    """A cluster that sees the files of the transfer host gets links to these, another to its carried copies."""
    original, copies = tmp_path / "it's odd $(id)", tmp_path / ".gridbridge/inputs"
    original.write_text("ACGT")
    copies.mkdir(parents=True)
    settings = {"carried": "/.gridbridge/inputs"} if carried else {"carried": ""}
    if carried:
        original.rename(copies / ("d" * 64))

    status = run(tmp_path, 'cat "reads/a b\'s.fq" ref; echo; echo', _task_with_input(original), settings=settings)

    assert (0, "ACGTACGT\nword\n") == (status, output(tmp_path, "3.1.out"))
    assert (tmp_path / "data/campaign.12/3/ref").is_symlink()


@pytest.mark.parametrize("content", [None, "ACG"], ids=["missing", "of any size"])
def test_a_task_starts_once_a_predecessor_has_made_its_input_file(tmp_path: Path, content: str | None) -> None:
    task, path = CampaignArrayScriptTask(3, 1, ("word",)), tmp_path / "original"
    task.inputs = (TaskInputFile("a", str(path), MADE_LATER, "d" * 64),)
    if content:
        path.write_text(content)

    status = run(tmp_path, "cat a; echo", task, settings={"carried": ""})

    assert (0 if content else -MISSING_INPUT_SIGNAL) == status
    if content:
        assert "ACGword\n" == output(tmp_path, "3.1.out")
    else:
        assert f"gridbridge: input a: {path}: missing or changed; expected a file\n" == output(tmp_path, "3.1.err")


@pytest.mark.parametrize("content", [None, "ACG"], ids=["missing", "changed"])
def test_a_task_without_its_input_file_does_not_start(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "original"
    if content:
        path.write_text(content)

    status = run(tmp_path, "touch ~/started", _task_with_input(path), settings={"carried": ""})

    assert -MISSING_INPUT_SIGNAL == status
    why = f"gridbridge: input reads/a b's.fq: {path}: missing or changed; expected a file of 4 bytes\n"
    assert (why, False) == (output(tmp_path, "3.1.err"), (tmp_path / "started").exists())


def group(
    home: Path, command: str, *tasks: CampaignArrayScriptTask, begin_s: int = 60, lanes: int = 1, wait_s: int = 0
) -> tuple[int, list[str]]:
    """Run a job with these tasks; return its status and the words of its record, without times."""
    (home / "data").mkdir(exist_ok=True)
    settings = SETTINGS | {"exec": command, "outputs": "", "array": "3", "group_s": str(begin_s), "lanes": str(lanes)}
    settings |= {"wait_s": str(wait_s)}
    path = home / f"script.{time.monotonic_ns()}"
    path.write_bytes(write_campaign_array_script(settings, tasks, len(tasks)))
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "SGE_TASK_ID": "1"}
    program = ("env", "--default-signal", "/bin/sh", path)
    status = subprocess.run(program, env=environment, check=False, cwd="/", start_new_session=True).returncode
    lines = map(str.split, output(home, "group.3.1").splitlines())
    return status, [" ".join((word, key, *rest)) for word, key, _, *rest in lines]


THREE = tuple(CampaignArrayScriptTask(number, 1, (f"name{number}", str(number))) for number in range(3))


def test_a_job_runs_its_tasks_one_after_another_and_records_each_end(tmp_path: Path) -> None:
    """Statuses that a shell reports for signals stay apart from equal exit statuses."""
    ends = "case $2 in 0) exit 150 ;; 1) kill -9 $$ ;; esac; echo $CIGRI_JOB_ID $CIGRI_JOB_NAME $CIGRI_WORKDIR #"

    status, record = group(tmp_path, ends, *THREE)

    ran = ["begin 0.1", "exit 0.1 150", "begin 1.1", "signal 1.1 9", "begin 2.1", "exit 2.1 0"]
    assert (status, record) == (0, ran)
    assert output(tmp_path, "2.1.out") == f"12.2 name2 {tmp_path}/data\n"


@pytest.mark.parametrize(
    ("command", "begin_s", "expected"),
    [
        ("kill -9 0 #", 60, (-9, ["begin 0.1"])),
        ("sleep 1.1 #", 1, (0, ["begin 0.1", "exit 0.1 0"])),
        ("kill -56 $(ps -o ppid= $PPID) #", 60, (-55, ["begin 0.1", "exit 0.1 0"])),
    ],
    ids=["killed", "no time", "preempted"],
)
def test_a_job_that_ends_early_begins_no_further_task(
    tmp_path: Path, command: str, begin_s: int, expected: tuple[int, list[str]]
) -> None:
    job = CampaignArrayScriptTask(0, 1, ()), CampaignArrayScriptTask(1, 1, ())

    assert expected == group(tmp_path, command, *job, begin_s=begin_s)


def test_a_job_that_its_cluster_starts_twice_runs_no_task_again(tmp_path: Path) -> None:
    group(tmp_path, "echo >>$HOME/ran #", *THREE)

    again, record = group(tmp_path, "echo >>$HOME/ran #", *THREE)

    assert (again, len(record)) == (-59, 6)
    assert (tmp_path / "ran").read_text() == "\n" * 3


def test_repeated_tasks_of_a_job_come_first(tmp_path: Path) -> None:
    """The first task of a job has the whole walltime."""
    _, record = group(tmp_path, "true #", CampaignArrayScriptTask(0, 1, ()), CampaignArrayScriptTask(5, 2, ()))

    assert record == ["begin 5.2", "exit 5.2 0", "begin 0.1", "exit 0.1 0"]


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_running_job_takes_further_tasks_once_and_only_its_own(tmp_path: Path, lanes: int) -> None:
    """The first task writes further tasks for this job, and for another; the job ends when no more tasks come."""
    further = tuple(CampaignArrayScriptTask(number, 1, (f"it's {number}",)) for number in (7, 8))
    (tmp_path / "further").write_bytes(write_further_tasks(further))
    give = 'case $1 in name0) cd $HOME/data/campaign.12; for n in 1.7 11.9; do cp ~/further "more.3.$n"; done ;; esac #'

    status, record = group(tmp_path, give, *THREE[:2], lanes=lanes, wait_s=1)

    assert (status, sorted(record)) == (
        0,
        sorted(f"{word}" for n in (0, 1, 7, 8) for word in (f"begin {n}.1", f"exit {n}.1 0")),
    )
    assert [path.name for path in (tmp_path / "data" / "campaign.12").glob("more*")] == ["more.3.11.9"]


def test_a_job_waits_for_no_further_task_once_its_time_is_over(tmp_path: Path) -> None:
    began_s = time.monotonic()

    _, record = group(tmp_path, "sleep 1.1 #", *THREE[:2], begin_s=1, wait_s=60)

    assert (len(record), time.monotonic() - began_s < 30) == (2, True)


def test_tasks_of_a_job_run_side_by_side(tmp_path: Path) -> None:
    """Each task waits until the other one of its pair runs; a job that is killed leaves both unfinished."""
    both = "touch $HOME/$2; until [ -e $HOME/$(($2 ^ 1)) ]; do sleep 0.05; done"
    four = (*THREE, CampaignArrayScriptTask(3, 1, ("name3", "3")))
    killed = f"{both}; case $2 in 2) sleep 0.3; kill -9 0 ;; 3) sleep 9 ;; esac #"

    status, record = group(tmp_path, killed, *four, lanes=2)

    begins = [f"begin {task}.1" for task in range(4)]
    assert (status, sorted(record)) == (-9, [*begins, "exit 0.1 0", "exit 1.1 0"])


def test_a_job_waits_for_its_tasks_side_by_side_though_a_signal_interrupts_it(tmp_path: Path) -> None:
    """The first shell has no further task when the signal arrives."""
    interrupts = "case $2 in 0) sleep 0.5; kill -USR2 $(ps -o sid= $$); sleep 0.5 ;; esac #"

    _, record = group(tmp_path, interrupts, *THREE[:2], lanes=2)

    assert sorted(record) == ["begin 0.1", "begin 1.1", "exit 0.1 0", "exit 1.1 0"]
