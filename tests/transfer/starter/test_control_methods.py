"""The suspend, resume and terminate methods and the epilog, and the starter's next step."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, TransferMessageKind, TransferOutcome
from gridbridge.transfer.starter import control_methods, starter, task_notes
from tests.builders.programs import write_program
from tests.contract.waiting import until
from tests.transfer.starter.cells import CLIENT, Place

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def shell(place: Place) -> Iterator[subprocess.Popen[bytes]]:
    """Return a process group in place of a starter that does not react."""
    sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
    (place.folder / "active/job_pid").write_text(f"{sleeper.pid}\n")
    yield sleeper
    sleeper.kill()
    sleeper.wait()


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_methods, "PATIENCE_S", 0.1)


@pytest.mark.parametrize(
    ("is_early", "has_started", "expected"),
    [(False, True, ("hs", "r")), (False, False, ("hqw", "qw")), (True, False, ("hqw", "qw"))],
    ids=["running", "waiting", "suspended before its submission"],
)
def test_suspend_and_resume_at_home_reach_the_remote_job(
    place: Place, is_early: bool, has_started: bool, expected: tuple[str, str]
) -> None:
    if not is_early:
        place.step()
    if has_started:
        place.start_away()
    control_methods.note_local_job_suspended(place.task())
    place.step()
    place.step()
    suspended = place.away()
    control_methods.note_local_job_resumed(place.task())
    place.step()

    assert (suspended, place.away()) == expected


def test_a_suspension_that_the_remote_cluster_did_not_answer_is_repeated(place: Place) -> None:
    place.step()
    place.start_away()
    place.down("beta")
    control_methods.note_local_job_suspended(place.task())
    with pytest.raises(control_methods.GridbridgeError):
        place.step()

    place.down("beta", is_down=False)
    place.step()

    assert place.away() == "hs"


def carries(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    """Call `meanwhile` while the inputs of a job are copied."""
    monkeypatch.setattr(
        "gridbridge.transfer.starter.remote_job_state_match._copy_declared_inputs", lambda _: meanwhile() or True
    )


def test_a_job_suspended_while_its_inputs_are_copied_stays_held_until_it_is_resumed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    carries(monkeypatch, lambda: control_methods.note_local_job_suspended(place.task()))
    answer = place.step()
    released = place.calls("qalter -N")
    monkeypatch.undo()
    place.step()
    held = place.away()
    control_methods.note_local_job_resumed(place.task())
    place.step()

    assert (answer.split()[0], released, held, place.away()) == ("wait", [], "hqw", "qw")


def test_a_job_resumed_while_its_inputs_are_copied_is_released(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def suspend_and_resume() -> None:
        control_methods.note_local_job_suspended(place.task())
        task_notes.note_method_intent(
            place.task().private, DesiredLocalJobState.RUNNING, task_notes.boot_clock_sort_key(-1)
        )

    carries(monkeypatch, suspend_and_resume)
    place.step()

    assert place.away() == "qw"


def test_a_job_suspended_during_its_release_is_held_by_the_same_step(place: Place) -> None:
    qalter = place.folder / "bin/qalter"
    key = task_notes.boot_clock_sort_key()[0]
    note = f"{place.task().private}/asked.{key}.7.suspended"
    qalter.write_text(CLIENT.replace("\n", f'\n[ "$1" != -N ] || : >{note}\n', 1))

    place.step()

    assert place.away() == "hqw"


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "only its limit passed"])
def test_no_job_is_released_while_a_terminate_method_queries_a_slow_home(
    place: Place, shell: subprocess.Popen[bytes], is_deleted: bool
) -> None:
    place.limits(job="100")
    place.ran_for(110)
    place.home("dr" if is_deleted else "r")
    qstat, gate = place.folder / "bin/qstat", place.folder / "gate"
    os.mkfifo(gate)
    is_asked = f'case "$SGE_CELL $1" in "alpha -j") ;; alpha*) read -r _ <{gate} ;; esac'
    qstat.write_text(CLIENT.replace("\n", f"\n{is_asked}\n", 1))
    with ThreadPoolExecutor(1) as methods, gate.open("r+b", buffering=0) as home:
        method = methods.submit(control_methods.terminate_local_job, place.task())
        until(lambda: task_notes.is_termination_check_running(place.task().private), "home to be asked", 10, 0.01)
        answer = place.step()
        released = place.calls("qalter -N")
        home.write(b"\n")
        method.result(10)

    assert (answer.split()[:2], released) == (["again", "1"], [])
    after = place.step().split()[0]
    assert (after, place.away()) == (("signal", None) if is_deleted else ("wait", "qw"))


def test_the_note_of_an_ended_terminate_method_delays_no_release(place: Place) -> None:
    start, pid = task_notes.process_start_ticks_and_pid(os.getpid())
    for name in (f"doubt.{start - 1}.{pid}", f"doubt.{start}.{2**22 + 1}"):
        (place.folder / "tmp/.gridbridge" / name).touch()

    place.step()

    assert place.away() == "qw"


@pytest.mark.parametrize(
    "later",
    [control_methods.note_local_job_suspended, control_methods.note_local_job_resumed],
    ids=["suspend", "resume"],
)
def test_a_deletion_overrides_later_suspend_and_resume_methods(
    place: Place, shell: subprocess.Popen[bytes], later: Callable[..., None]
) -> None:
    place.step()
    place.home("dr")

    control_methods.terminate_local_job(place.task())
    later(place.task())

    assert place.step() == f"signal {signal.SIGKILL.value}"
    assert place.away() is None


@pytest.mark.parametrize("can_note", [True, False], ids=["with a note", "without notes"])
def test_the_terminate_method_kills_a_starter_that_does_not_end(
    place: Place, shell: subprocess.Popen[bytes], can_note: bool
) -> None:
    place.home("dr")
    if not can_note:
        (place.folder / "tmp/.gridbridge").rmdir()

    control_methods.terminate_local_job(place.task())

    assert shell.wait(5) == -signal.SIGKILL
    assert not can_note or place.task().was_local_job_deleted()


@pytest.mark.parametrize(
    ("letters", "job", "queue", "dies"),
    [
        ("r", "100", "INFINITY", False),
        ("r", "0:1:40", "INFINITY", False),
        ("r", "INFINITY", "100", False),
        ("r", "INFINITY", "9:0:0,[alpha-master=100]", False),
        ("hr", "100", "INFINITY", False),
        ("dr", "100", "INFINITY", True),
        ("", "100", "INFINITY", True),
        ("Rq", "100", "INFINITY", True),
        ("r", "200", "INFINITY", True),
        ("r", "INFINITY", "INFINITY", True),
        (None, "100", "INFINITY", False),
        (None, "200", "INFINITY", True),
    ],
    ids=[
        *("only its own limit passed", "limit as a clock", "only its queue's limit passed", "limit of the host"),
        *("held by us", "deleted too", "removed by force", "rescheduled", "limit not reached", "no limit"),
        *("home is silent", "home is silent, limit not reached"),
    ],
)
def test_a_passed_local_h_rt_alone_does_not_delete_the_job(
    place: Place, shell: subprocess.Popen[bytes], letters: str | None, job: str, queue: str, dies: bool
) -> None:
    place.limits(job=job, queue=queue)
    place.step()
    place.home(letters) if letters is not None else place.down("alpha")
    place.ran_for(110)

    control_methods.terminate_local_job(place.task())

    assert place.task().was_local_job_deleted() == dies
    assert len(place.sent(TransferMessageKind.SPARED)) == (not dies)


@pytest.mark.parametrize(
    ("letters", "restarted", "answer"),
    [
        ("Rq", "0", "exit 99"),
        ("hRq", "0", "exit 99"),
        ("Rt", "0", "exit 99"),
        ("Rr", "0", "exit 99"),
        ("Rr", "1", "exit 99"),
        ("dRr", "0", "signal 9"),
        ("dr", "0", "signal 9"),
        ("", "0", "signal 9"),
        ("r", "0", "signal 9"),
    ],
    ids=[
        *("it waits again", "guarded", "it was dispatched anew", "it counts as running anew", "for the second time"),
        *("put back, then deleted", "deleted", "deleted by force", "killed with its host's execd"),
    ],
)
def test_only_a_rescheduled_task_ends_with_exit_status_99(
    place: Place, shell: subprocess.Popen[bytes], letters: str, restarted: str, answer: str
) -> None:
    """Grid Engine may take the end of the first run for the end of the second run."""
    place.step()
    place.home(letters)

    control_methods.terminate_local_job(place.task(RESTARTED=restarted))

    assert place.step() == answer
    assert place.away() is None


def test_a_task_that_still_asks_for_its_transfer_sends_no_intent(place: Place, shell: subprocess.Popen[bytes]) -> None:
    place.step(RESTARTED="1")
    place.home("dr")

    control_methods.terminate_local_job(place.task(RESTARTED="1"))

    assert place.task().was_local_job_deleted()
    assert (len(place.sent(TransferMessageKind.ASK)), place.sent(TransferMessageKind.INTENT)) == (1, [])


def test_a_deletion_after_rescheduling_ends_the_task_as_killed(place: Place, shell: subprocess.Popen[bytes]) -> None:
    place.step()

    place.home("Rq")
    control_methods.terminate_local_job(place.task())
    place.home("dRq")
    control_methods.terminate_local_job(place.task())

    assert place.step() == "signal 9"


def test_the_terminate_method_of_a_rescheduled_task_kills_the_slow_step_before_the_starter(
    place: Place, shell: subprocess.Popen[bytes]
) -> None:
    begun = place.folder / "step"
    step = f"sleep 60 & echo >{begun}; wait $!; exit 99"
    with subprocess.Popen(["sh", "-c", step], start_new_session=True) as slow:
        until(begun.exists, "the step")
        (place.folder / "active/job_pid").write_text(f"{slow.pid}\n")
        place.home("Rq")

        control_methods.terminate_local_job(place.task())

        assert slow.wait(5) == 99


@pytest.mark.parametrize(
    ("record", "request_"),
    [
        ({}, ""),
        ({"remote_id": "", "phase": "submitting"}, ""),
        ({"stage": ".gridbridge/stage/x"}, TransferOutcome.RECALL),
        ({"stage": ".gridbridge/stage/x"}, TransferOutcome.AGREE),
    ],
    ids=["by its id", "without recorded id", "in spite of a recall request", "in spite of a suspension request"],
)
def test_the_epilog_of_a_killed_starter_deletes_the_remote_job(
    place: Place, record: dict[str, str], request_: str
) -> None:
    place.step()
    place.change_record(**record)
    if request_:
        place.decide(outcome=request_)

    control_methods.delete_job_of_killed_starter(place.task())

    assert place.away() is None
    assert [message.desired for message in place.sent(TransferMessageKind.INTENT)] == [DesiredLocalJobState.DEAD]


@pytest.mark.parametrize("change", [{"owner": "bob"}, {"transfer": "gb.alpha.9.0.1"}])
def test_a_different_job_under_the_same_remote_id_is_not_deleted(
    place: Place, shell: subprocess.Popen[bytes], change: dict[str, str]
) -> None:
    """Job numbers of a cluster may begin anew while a transfer is open."""
    place.step()
    place.start_away()
    place.begin_anew(**change)
    place.home("dr")

    with pytest.raises(control_methods.GridbridgeError, match="job 41 of beta: owned by"):
        control_methods.delete_job_of_killed_starter(place.task())
    control_methods.terminate_local_job(place.task())

    assert place.step() == f"signal {signal.SIGKILL.value}"
    assert (place.away(), place.calls("qdel")) == ("r", [])


@pytest.mark.parametrize(("is_listed", "calls"), [(True, ["qstat", "qdel"]), (False, ["qstat"])])
def test_a_deletion_needs_one_query_and_at_most_one_qdel(place: Place, is_listed: bool, calls: list[str]) -> None:
    """The terminate method leaves time for two requests; an unlisted job is not deleted."""
    place.step()
    if not is_listed:
        (place.folder / "beta/41").unlink()
    place.task().note_intent(DesiredLocalJobState.DEAD)
    before = len(place.calls("beta"))

    place.step()

    assert [call.split()[1] for call in place.calls("beta")[before:]] == calls


@pytest.mark.parametrize(
    ("letters", "method"),
    [
        ("r", control_methods.note_local_job_suspended),
        ("hs", control_methods.note_local_job_resumed),
        ("hqw", control_methods.note_local_job_resumed),
    ],
    ids=["suspend", "resume", "release"],
)
def test_a_different_job_under_the_same_remote_id_is_not_changed(
    place: Place, letters: str, method: Callable[..., None]
) -> None:
    if letters == "hqw":
        control_methods.note_local_job_suspended(place.task())
    place.step()
    (place.folder / "beta/41").write_text(letters)
    place.begin_anew(transfer="gb.alpha.9.0.1")
    method(place.task())

    with pytest.raises(control_methods.GridbridgeError, match=r"; expected \w+, account .gb\.alpha\.7\.0\.1"):
        place.step()

    assert place.away() == letters


def test_the_epilog_leaves_the_deletion_to_the_poller_if_the_cluster_is_silent(place: Place) -> None:
    place.step()
    place.down("beta")

    with pytest.raises(control_methods.GridbridgeError):
        control_methods.delete_job_of_killed_starter(place.task())

    assert [message.desired for message in place.sent(TransferMessageKind.INTENT)] == [DesiredLocalJobState.DEAD]


@pytest.mark.parametrize("stage", ["", ".gridbridge/stage/x"], ids=["closed", "output files to come"])
def test_the_epilog_of_an_ended_job_does_nothing(place: Place, stage: str) -> None:
    """The poller removes the remote folder of a job whose output files are not home."""
    place.step()
    place.change_record(stage=stage)
    place.decide(outcome="exit", exit_status="0")
    if not stage:
        place.step()

    control_methods.delete_job_of_killed_starter(place.task())

    assert (place.calls("qdel"), place.sent(TransferMessageKind.INTENT)) == ([], [])


@pytest.mark.parametrize("name", ["suspend", "resume", "terminate"])
def test_a_queue_method_works_before_the_starter_and_in_any_environment(
    place: Place, shell: subprocess.Popen[bytes], name: str
) -> None:
    """A terminate method without Python kills the job itself."""
    python = write_program(place.folder / "python", '#!/bin/sh\necho "$@" >>"$TMPDIR/ran"\nexit 1\n')
    (place.folder / "tmp/.gridbridge").rmdir()
    os.mkfifo(place.folder / "tmp/.gridbridge.log")
    os.mkfifo(place.folder / "tmp/.gridbridge")
    text = (ROOT / "sge-methods" / name).read_text()
    script = text.replace("/opt/gridbridge/venv/bin/python3", str(python))

    env = place.task().env | {"PATH": "/nowhere"}
    subprocess.run(["/bin/dash", "-c", script], env=env, check=True)

    assert (place.folder / "tmp/ran").read_text().endswith(f" {name}\n")
    assert (name == "terminate") == (_dies(shell))


def _dies(shell: subprocess.Popen[bytes]) -> bool:
    try:
        return shell.wait(0.5) == -signal.SIGKILL
    except subprocess.TimeoutExpired:
        return False


def dead_folder(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)
    (path / "dead").touch()


@pytest.mark.parametrize(
    "plant", [dead_folder, os.mkfifo, lambda path: path.symlink_to("/etc")], ids=["dir", "fifo", "link"]
)
def test_files_in_tmpdir_from_before_the_job_are_no_notes(place: Place, plant: Callable[[Path], None]) -> None:
    """Anybody may create TMPDIR before execd does."""
    notes, tmpdir = place.folder / "tmp/.gridbridge", place.folder / "tmp"
    notes.rmdir()
    tmpdir.chmod(0o777)
    plant(notes)
    place.task().open_notes_folder()

    assert not place.task().was_local_job_deleted()
    assert not notes.is_symlink()
    assert (tmpdir.stat().st_mode & 0o777, notes.stat().st_mode & 0o777) == (0o755, 0o700)


def test_notes_of_the_job_owner_stay(place: Place) -> None:
    place.task().note_intent(DesiredLocalJobState.DEAD)
    place.task().open_notes_folder()

    assert place.task().was_local_job_deleted()


def test_a_tmpdir_that_is_a_link_ends_the_starter_with_exit_status_100(place: Place) -> None:
    (place.folder / "tmp").rename(place.folder / "elsewhere")
    (place.folder / "tmp").symlink_to("elsewhere")

    assert starter.end_without_notes_folder(place.task()) == "exit 100"
    assert f"{place.folder}/tmp: not a folder of uid" in (place.folder / "active/error").read_text()
