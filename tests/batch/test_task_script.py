"""A task of an array gets its own parameters, by its place, and ends as its program did."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from gridbridge.batch.campaign_array_script import CampaignArrayScriptTask, write_campaign_array_script

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


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition."""
    for _ in range(500):
        if holds():
            return
        time.sleep(0.02)
    pytest.fail("it did not come")


PLAIN = CampaignArrayScriptTask(0, 1, ())


def written(home: Path, *tasks: CampaignArrayScriptTask, **settings: str) -> tuple[Path, dict[str, str]]:
    """Write the script of an array; return its path, and the environment of its first task."""
    (home / "data").mkdir(exist_ok=True)
    path = home / f"script.{time.monotonic_ns()}"
    path.write_bytes(write_campaign_array_script(SETTINGS | settings, tasks or (PLAIN,)))
    return path, {"PATH": os.environ["PATH"], "HOME": str(home), "SGE_TASK_ID": "1"}


def run(
    home: Path, command: str, *tasks: CampaignArrayScriptTask, settings: Mapping[str, str] = NONE, **variables: str
) -> int:
    """Run the script of an array as a task of it; return its exit status."""
    path, environment = written(home, *tasks, **{"exec": command} | settings)
    program = ("env", "--default-signal", "/bin/sh", path)  # nohup would have some ignored
    return subprocess.run(program, env=environment | variables, check=False, cwd="/").returncode


def output(home: Path, name: str) -> str:
    """Return what a task printed."""
    return (home / "data" / "campaign.12" / name).read_text()


def test_parameters_are_words_and_nothing_in_them_is_run(tmp_path: Path) -> None:
    """Whatever shell or SQL somebody writes there."""
    odd = ("x'; rm -rf /", "$(touch evil)", "`id`", 'a "b"', "", "--", "100%\\n")
    tasks = (CampaignArrayScriptTask(0, 1, ("other",)), CampaignArrayScriptTask(7, 2, odd))

    status = run(tmp_path, "printf '<%s>\\n'", *tasks, SGE_TASK_ID="2")

    assert status == 0
    assert output(tmp_path, "7.2.out") == "".join(f"<{word}>\n" for word in odd)
    assert not (tmp_path / "data" / "evil").exists()


def test_it_knows_what_it_is_on_either_batch_system(tmp_path: Path) -> None:
    """OAR counts the places of an array in another variable."""
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


@pytest.mark.parametrize(("ended", "told"), [(0, 0), (3, 3), (66, 66), (99, 199), (100, 200), (199, -63), (200, -64)])
def test_an_end_is_no_order_to_the_batch_system(tmp_path: Path, ended: int, told: int) -> None:
    """99 and 100 would have Grid Engine run the task again, or stop its queue."""
    assert run(tmp_path, f"exit {ended};") == told


@pytest.mark.parametrize("number", ["HUP", "INT", "QUIT", "SEGV", "KILL", "TERM", "USR2", "XCPU"])
@pytest.mark.parametrize("by", ["kill -%s $$;", "sh -c 'kill -%s $$'; exit $?;"])
def test_a_program_that_dies_by_a_signal_ends_its_task_by_it(tmp_path: Path, number: str, by: str) -> None:
    """Also where a shell told it as 128 more: both batch systems note which signal it was."""
    status = run(tmp_path, by % number)

    assert status == -signal.Signals[f"SIG{number}"]


@pytest.mark.parametrize("status", [127, 128, 145, 146, 147, 148, 149, 150, 151, 156, 160, 183, 190])
def test_an_exit_status_that_no_deadly_signal_has_stays_one(tmp_path: Path, status: int) -> None:
    """Those above would stop the wrapper or be ignored, and some of ours tell something else."""
    assert run(tmp_path, f"exit {status};") == status


def test_a_task_that_the_array_has_not_ends_without_its_program(tmp_path: Path) -> None:
    """A place beyond the last one is nobody's."""
    assert run(tmp_path, "touch ran;", SGE_TASK_ID="3") == 1
    assert not (tmp_path / "data" / "ran").exists()


@pytest.mark.parametrize(
    ("command", "saved"),
    [
        ("touch began; sleep 60;", False),
        ("trap 'touch saved; exit 0' USR2; touch began; sleep 60 & wait; sh -c", True),
        ("trap '' USR2; touch began; sleep 60; true", False),
    ],
    ids=["that knows no checkpoint", "that saves its state", "that takes no notice"],
)
def test_a_task_makes_way(tmp_path: Path, command: str, saved: bool) -> None:
    """It gets the checkpoint signal first, and its end is no success, whatever its program says."""
    path, environment = written(tmp_path, exec=command)
    with subprocess.Popen(["/bin/sh", path], env=environment, start_new_session=True) as task:
        until(lambda: (tmp_path / "data" / "began").exists())
        (tmp_path / "job_pid").write_text(f"{task.pid}\n")
        variables = {"SGE_JOB_SPOOL_DIR": str(tmp_path), "SGE_ACCOUNT": "gc.alpha.12.1"}
        with subprocess.Popen([PREEMPT], env=variables) as method:
            assert task.wait(15) == -55
            assert method.wait(5) == 0
        with suppress(ProcessLookupError):
            os.killpg(task.pid, signal.SIGKILL)  # as Grid Engine does with what is left

    assert (tmp_path / "data" / "saved").exists() == saved


def test_a_task_that_has_to_make_way_before_it_began_does_not_begin(tmp_path: Path) -> None:
    """Its program would get no checkpoint signal any more."""
    status = run(tmp_path, "touch ran;", PATH=f"{tmp_path}:/usr/bin:/bin")

    assert status == 0
    (tmp_path / "data" / "ran").unlink()
    (tmp_path / "mkdir").write_text('#!/bin/sh\nkill -56 $PPID\nexec /bin/mkdir "$@"\n')
    (tmp_path / "mkdir").chmod(0o755)

    status = run(tmp_path, "touch ran;", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert status == -55
    assert not (tmp_path / "data" / "ran").exists()


def test_a_folder_that_is_not_there_is_told_by_the_signal_of_transfers(tmp_path: Path) -> None:
    """57: it can not change to its working directory."""
    assert run(tmp_path, "true", settings={"directory": "/none"}) == -57


@pytest.mark.parametrize(
    ("file", "shown"),
    [("OAR_NODEFILE", "n1\nn1\nn2\n"), ("PE_HOSTFILE", "n1\nn1\nn2\n"), ("", "here\nhere\n")],
    ids=["OAR", "Grid Engine, parallel", "one host"],
)
def test_the_node_file_has_a_line_a_slot(tmp_path: Path, file: str, shown: str) -> None:
    """Whatever the batch system tells of hosts; nothing is left of it."""
    lines = "n1\nn1\nn2\n" if file == "OAR_NODEFILE" else "n1 2 q@n1 UNDEFINED\nn2 1 q@n2 <NULL>\n"
    (tmp_path / "hosts").write_text(lines)
    told = {file: str(tmp_path / "hosts")} if file else {}

    run(tmp_path, 'cat "$CIGRI_NODE_FILE"; :', HOSTNAME="here", **told)

    assert output(tmp_path, "0.1.out") == shown
    left = {path.name for path in (tmp_path / "data/campaign.12").iterdir()}
    assert left == {"0.1.out", "0.1.err"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_node_file_that_cannot_be_written_is_no_endless_loop(tmp_path: Path) -> None:
    """As on a full disk: the task does not begin, and it ends by the signal that says so."""
    path, environment = written(tmp_path, exec="true", slots="2")
    text = path.read_bytes()
    full = text.replace(b'nodes >"$gb_output.nodes"', b"nodes >|/dev/full")

    done = subprocess.run(["/bin/sh"], input=full, env=environment, check=False, timeout=20)

    assert full != text
    assert done.returncode == -59


def test_a_copy_knows_which_one_it_is(tmp_path: Path) -> None:
    """Its output is its own: the attempt is in the names."""
    task = CampaignArrayScriptTask(7, 3, ("north",))
    task.copy = 2

    run(tmp_path, 'echo "$CIGRI_COPY $CIGRI_JOB_ID"', task)

    assert output(tmp_path, "7.3.out") == "2 12.7 north\n"


def shared(home: Path) -> Path:
    """Make an exec_directory into which everybody may write; return the campaign's folder in it."""
    (home / "data").mkdir()
    (home / "data").chmod(0o1777)
    return home / "data" / "campaign.12"


def linked(home: Path, folder: Path) -> None:
    """Make the folder a link to one of the person's own."""
    folder.symlink_to(home, target_is_directory=True)


def open_to_all(home: Path, folder: Path) -> None:
    """Make a folder of the person's in which others can change names."""
    del home
    folder.mkdir()
    folder.chmod(0o777)


def open_to_a_group(home: Path, folder: Path) -> None:
    """Make such a folder for a group."""
    del home
    folder.mkdir()
    folder.chmod(0o775)


def of_another(home: Path, folder: Path) -> None:
    """Make another person's folder."""
    del home
    folder.mkdir()
    os.chown(folder, 1, 1)


PLANTED = [
    linked,
    open_to_all,
    open_to_a_group,
    pytest.param(of_another, marks=pytest.mark.skipif(os.getuid() != 0, reason="two persons")),
]


@pytest.mark.parametrize("plant", PLANTED)
@pytest.mark.parametrize("outputs", ["", "result"])
def test_nobody_has_a_task_write_into_a_file_of_its_owners(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], plant: Callable[[Path, Path], None], outputs: str
) -> None:
    """A campaign's folder is the account's own, and nobody else can write it, or nothing runs."""
    mine = tmp_path / "mine"
    mine.write_text("of value\n")
    folder = shared(tmp_path)
    plant(tmp_path, folder)
    for name in ("0.1.out", "0.1.err"):
        (folder / name).symlink_to(mine)

    assert run(tmp_path, "touch $HOME/ran;", settings={"outputs": outputs}) == -57
    assert mine.read_text() == "of value\n"
    assert not (tmp_path / "ran").exists()
    assert f"{folder}: expected a folder that only this account owns" in capfd.readouterr().err


def test_an_output_is_a_new_file(tmp_path: Path) -> None:
    """Also where the task's own program left a link of that name."""
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


def test_what_a_task_prints_is_its_owners_alone(tmp_path: Path) -> None:
    """Whatever may be read beside it; what the task itself makes is as its own programs say."""
    assert run(tmp_path, "touch made;") == 0

    assert (tmp_path / "data" / "campaign.12").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "made").stat().st_mode & 0o777 == 0o644


def test_a_directory_may_be_reached_through_a_link(tmp_path: Path) -> None:
    """The task sees the name that its owner wrote."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to("disk", target_is_directory=True)

    run(tmp_path, 'echo "$CIGRI_WORKDIR $PWD";')

    assert output(tmp_path, "0.1.out") == f"{tmp_path}/data {tmp_path}/data\n"


WRITES = 'sh -c \'mkdir sub; echo "$CIGRI_COPY" >result; echo "$PWD" >sub/log; cat ../../in >&2\' sh'


def attempt(home: Path, number: int, command: str = WRITES) -> int:
    """Run an attempt of task 7, which declares two outputs; return its exit status."""
    (home / "data").mkdir(exist_ok=True)
    (home / "data" / "in").touch()
    task = CampaignArrayScriptTask(7, number, ("north",))
    task.copy = number - 1
    return run(home, command, task, settings={"outputs": "result sub/log"})


def test_an_attempt_with_outputs_has_a_folder_of_its_own(tmp_path: Path) -> None:
    """It becomes the task's when it has succeeded."""
    folder = tmp_path / "data" / "campaign.12"

    assert attempt(tmp_path, 1) == 0

    assert (folder / "7" / "result").read_text() == "0\n"
    assert (folder / "7" / "sub" / "log").read_text() == f"{folder}/7.1\n"
    assert not (folder / "7.1").exists()


def test_the_first_success_is_put_into_place(tmp_path: Path) -> None:
    """Another attempt succeeds as well, and leaves nothing."""
    folder = tmp_path / "data" / "campaign.12"

    assert (attempt(tmp_path, 1), attempt(tmp_path, 2)) == (0, 0)

    assert (folder / "7" / "result").read_text() == "0\n"
    assert sorted(os.listdir(folder)) == ["7", "7.1.err", "7.1.out", "7.2.err", "7.2.out"]


@pytest.mark.parametrize(
    ("command", "status", "error"),
    [("touch result; exit 3; true", 3, ""), ("touch result; true", 1, "gridbridge: the task left no sub/log\n")],
)
def test_what_has_not_succeeded_is_not_put_into_place(tmp_path: Path, command: str, status: int, error: str) -> None:
    """Nor is what lacks an output that was declared: it has failed."""
    folder = tmp_path / "data" / "campaign.12"

    assert attempt(tmp_path, 1, command) == status

    assert not (folder / "7").exists()
    assert (folder / "7.1" / "result").exists()
    assert (folder / "7.1.err").read_text() == error


def of_campaign(home: Path, token: str, command: str = "sh -c 'echo >result' sh") -> int:
    """Run task 7 of a campaign 12, which declares an output; return its exit status."""
    return run(home, command, CampaignArrayScriptTask(7, 1, ()), settings={"outputs": "result", "token": token})


def test_a_folder_belongs_to_one_campaign(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Another site, or one that was made anew, gives the same numbers: its results are no old ones.

    The campaign that was first goes on there.
    """
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


def test_the_folder_of_a_campaign_that_began_before_folders_had_a_mark_goes_on(tmp_path: Path) -> None:
    """Nobody knows any more whose it is."""
    assert attempt(tmp_path, 1) == 0

    assert of_campaign(tmp_path, "alpha.one") == 0
    assert of_campaign(tmp_path, "gamma.two") == -57


def test_of_tasks_that_begin_at_once_all_find_their_folder(tmp_path: Path) -> None:
    tasks = tuple(CampaignArrayScriptTask(number, 1, ()) for number in range(16))
    path, environment = written(tmp_path, *tasks, exec="true", token="alpha.one")
    begun = [
        subprocess.Popen(["/bin/sh", path], env=environment | {"SGE_TASK_ID": str(place)}) for place in range(1, 17)
    ]

    assert [each.wait(30) for each in begun] == [0] * 16


def test_a_prologue_is_lines_of_sh_in_the_tasks_directory(tmp_path: Path) -> None:
    """Run as one script; it ends as its last line does, and is called so."""
    step = CampaignArrayScriptTask(990_000_000, 2, ("echo it\\'s $CIGRI_JOB_ID # first\ncd /\nmkdir here/x; exit 3",))
    step.label = "prologue"

    status = run(tmp_path, "sh -c", step, SGE_TASK_ID="undefined")

    assert status == 3
    assert output(tmp_path, "prologue.2.out") == "it's 12.prologue\n"
