"""sge-methods/finish ends exited jobs in the shell; sge-methods/usage replaces only values in the shepherd's file."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.model.transfer_messages_in_spool import (
    TransferMessage,
    TransferMessageKind,
    decode_transfer_message,
    encode_transfer_message,
)
from gridbridge.state import published_file_formats, published_files
from tests.builders.programs import write_program
from tests.messages import decode_in_place

EPILOG = Path(__file__).parents[3] / "sge-methods" / "usage"
LOG = "/var/log/gridbridge-usage.log"
METHODS = "/opt/gridbridge/sge-methods"
ME = pwd.getpwuid(os.getuid())
USAGE, REMOTE = (Path(__file__).with_name(f"usage_of_{job}").read_text() for job in ("starter", "remote_job"))
TOLD = {"ru_wallclock": "60", "ru_utime": "77.5", "ru_stime": "1.25", "ru_maxrss": "204800"}


class Job:
    """Execd's folder of a job that began a minute ago, and the published usage."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.folder = folder / "12.1"
        self.folder.mkdir()
        self.shown = str(folder / "published")
        self.usage = self.folder / "usage"
        self.usage.write_text(USAGE)
        self.private = folder / "tmp" / ".gridbridge"
        self.private.mkdir(parents=True)
        (self.private / "closed").write_text("kind=closed\n")
        self.configure()

    def configure(self, *more: str, task: int = 0) -> None:
        tmpdir = self.private.parent
        known = f"tmpdir={tmpdir}\njob_owner={ME.pw_name}\njob_id=12\nja_task_id={task}"
        config = self.folder / "config"
        config.write_text("".join(f"{line}\n" for line in ("priority=0", known, *more)))
        began_s = config.stat().st_mtime - 60
        os.utime(config, (began_s, began_s))

    def publish(self, data: bytes | None = None, task: int = 0, owner: str = ME.pw_name) -> Path:
        local = f"12.{task}" if task else "12"
        path = published_file_formats.root_epilog_usage_path(local, owner, self.shown)
        told = "".join(f"{name}={value}\n" for name, value in TOLD.items()).encode()
        published_files.publish_file(path, told if data is None else data)
        return Path(path)

    def account(self, *shell: str) -> str:
        """Run the epilog as the shepherd does, and return the usage file."""
        text = EPILOG.read_text().replace(PUBLISHED, self.shown).replace(LOG, f"{self.root}/log")
        epilog = self.root / "epilog"
        epilog.write_text(text.replace(METHODS, str(self.root)))
        argv = shell or ("/bin/sh", "-p")
        run = 'cd "$1" && shift && "$@"; exit $?'
        command = ("/bin/sh", "-c", run, "shepherd", self.folder, *argv, epilog)
        ran = subprocess.run(command, cwd="/", check=False, capture_output=True, text=True)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
        return self.usage.read_text()

    def log(self) -> str:
        path = self.root / "log"
        return path.read_text() if path.exists() else ""

    def left(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.mark.parametrize("shell", [("/bin/sh", "-p"), ("/bin/bash", "-p")], ids=["dash", "bash"])
def test_the_root_epilog_replaces_usage_of_the_starter_by_remote_usage(job: Job, shell: tuple[str, str]) -> None:
    job.publish()

    assert job.account(*shell) == REMOTE
    assert (job.log(), job.left()) == ("", {"config", "usage"})


def test_the_root_epilog_starts_no_python() -> None:
    assert "python" not in EPILOG.read_text()


def test_each_array_task_has_its_own_usage(job: Job) -> None:
    """8.1.9 writes no `job_is_array` into its config: a job without array has task 0."""
    job.configure(task=3)
    job.publish(b"ru_utime=1\n")
    job.publish(task=3)
    assert job.account() == REMOTE

    job.configure("job_is_array=0", task=1)
    job.publish()
    assert job.account() == REMOTE


def test_usage_without_remote_value_stays(job: Job) -> None:
    job.publish(b"ru_utime=77.5\nru_stime=\n")

    assert job.account() == USAGE.replace("ru_utime=0.041", "ru_utime=77.5")


@pytest.mark.parametrize(
    "data",
    [b"", b"ru_utime=77", b"ru_utime\n", b"ru_utime=1;id\n", b"exit_status=0\n", b"\0\xff\n"],
    ids=["empty", "a cut end", "no value", "no number", "another name", "no text"],
)
def test_an_invalid_usage_file_changes_nothing(job: Job, data: bytes) -> None:
    job.publish(data)

    assert (job.account(), job.log()) == (USAGE, "")


@pytest.mark.parametrize(
    ("owner", "age_s"), [("nobody", 0), (ME.pw_name, 3600), ("", 0)], ids=["another owner", "an earlier run", "none"]
)
def test_only_a_usage_file_of_the_job_and_its_owner_is_used(job: Job, owner: str, age_s: float) -> None:
    if owner:
        path = job.publish(owner=owner)
        written_s = path.stat().st_mtime - age_s
        os.utime(path, (written_s, written_s))

    assert (job.account(), job.log()) == (USAGE, "")


@pytest.mark.parametrize("name", ["job_owner=root", "job_id=13", "ja_task_id=1", "job_id="])
def test_an_injected_line_in_the_config_file_stops_the_epilog(job: Job, name: str) -> None:
    """`qsub -wd` injects such a line by a path that contains a newline."""
    job.publish()
    job.configure("cwd=/home/alice", name)

    assert job.account() == USAGE
    assert "config: " in job.log()


def test_a_link_in_place_of_the_usage_file_of_execd_is_not_followed(job: Job, tmp_path: Path) -> None:
    job.publish()
    (tmp_path / "victim").write_text(USAGE)
    job.usage.unlink()
    job.usage.symlink_to(tmp_path / "victim")
    job.account()

    assert (tmp_path / "victim").read_text() == USAGE


def test_a_link_in_place_of_the_published_usage_is_not_followed(job: Job, tmp_path: Path) -> None:
    path = job.publish()
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")

    assert job.account() == USAGE


def test_a_missing_usage_file_of_execd_is_not_created(job: Job) -> None:
    job.publish()
    job.usage.unlink()
    with pytest.raises(FileNotFoundError):
        job.account()

    assert job.left() == {"config"}
    assert "usage: not there" in job.log()


def test_an_epilog_killed_while_writing_leaves_the_usage_file_unchanged(job: Job) -> None:
    job.publish()
    (job.folder / "usage.new").write_text("half of i")

    assert job.account() == USAGE


def test_the_epilog_of_the_owner_runs_after_a_killed_starter(job: Job, tmp_path: Path) -> None:
    """An empty `closed` note counts as missing."""
    job.publish()
    (job.private / "closed").write_text("")
    own = tmp_path / "epilog.ran"
    fake = write_program(tmp_path / "setpriv", f'#!/bin/sh\necho "$TMPDIR $*" >{own}\n')
    text = EPILOG.read_text().replace("setpriv --reuid", f"{fake} --reuid")
    (tmp_path / "usage").write_text(text.replace(PUBLISHED, job.shown).replace(LOG, f"{job.root}/log"))
    run = f"cd {job.folder} && /bin/sh -p {tmp_path}/usage; exit $?"
    subprocess.run(("/bin/sh", "-c", run), check=True)

    assert job.usage.read_text() == REMOTE
    assert own.read_text() == (
        f"{job.private.parent} --reuid {ME.pw_name} --regid {ME.pw_gid} --init-groups "
        f"--inh-caps=-all {METHODS}/epilog\n"
    )


FINISH = Path(__file__).parents[3] / "sge-methods" / "finish"
NAME = "gb.alpha.7.0.1"
LEFT_TO_PYTHON = 77


def end(folder: Path, verdict: TransferMessage, note: str = "", wake: str = "wake") -> int:
    (folder / "wake").mkdir()
    (folder / NAME).write_bytes(encode_transfer_message(verdict))
    if note:
        (folder / note).touch()
    names = f"private={folder} fifo={folder}/{wake}/x verdict={folder}/{NAME} wanted="
    argv = ("/bin/sh", "-c", f"{names}; . '{FINISH}'; exit {LEFT_TO_PYTHON}")
    return subprocess.run(argv, check=False, capture_output=True).returncode


def told(folder: Path) -> list[TransferMessage]:
    return [decode_in_place(path.read_bytes()) for path in folder.glob("w.*")]


def test_the_finish_shell_reports_and_notes_a_normal_exit(tmp_path: Path) -> None:
    status = end(tmp_path, TransferMessage(transfer=NAME, outcome="exit", exit_status="7", at="12.5"))

    closed = TransferMessage(kind=TransferMessageKind.CLOSED, transfer=NAME, wake="x", outcome="exit", exit_status="7")
    assert (7, [closed], closed) == (
        status,
        told(tmp_path),
        decode_transfer_message((tmp_path / "closed").read_bytes()),
    )


@pytest.mark.parametrize(
    "verdict",
    [
        TransferMessage(outcome="exit", exit_status="99"),
        TransferMessage(outcome="exit", exit_status="100"),
        TransferMessage(outcome="exit"),
        TransferMessage(outcome="exit", exit_status="1; true"),
        TransferMessage(outcome="signal", signal="9"),
        TransferMessage(outcome="error", reason="why=exit"),
        TransferMessage(outcome="requeue"),
    ],
    ids=repr,
)
def test_the_finish_shell_leaves_every_other_end_to_python(verdict: TransferMessage, tmp_path: Path) -> None:
    assert (end(tmp_path, verdict), told(tmp_path)) == (LEFT_TO_PYTHON, [])


@pytest.mark.parametrize(
    ("note", "wake"), [*((note, "wake") for note in ("intent", "dead", "stage", "warned")), ("", "none/wake")]
)
def test_the_finish_shell_leaves_a_job_with_pending_notes_or_without_spool_to_python(
    note: str, wake: str, tmp_path: Path
) -> None:
    verdict = TransferMessage(outcome="exit", exit_status="0", at="1")

    assert (end(tmp_path, verdict, note, wake), told(tmp_path)) == (LEFT_TO_PYTHON, [])
