"""Two small Grid Engine cells of real executables, and a task in a transfer queue of one.

The clients keep each job's state letters in a file, so that what was asked shows. They say what
8.1.9 says (tests/lab holds the real ones against the same code).
"""

import os
from pathlib import Path

from gridbridge.model import transfer_route
from gridbridge.model.transfer_messages_in_spool import (
    TransferMessage,
    TransferMessageKind,
    decode_transfer_message,
    encode_transfer_message,
)
from gridbridge.model.transfer_route import TransferRoute
from gridbridge.transfer.starter.local_task import LocalTask
from gridbridge.transfer.starter.starter import DueStarterStep
from tests.builders.programs import write_program
from tests.messages import decode_in_place

TRANSFER = "gb.alpha.7.0.1"
UNDEFER = "-a 197001020000.00 -dc gridbridge_start,gridbridge_job 7"  # what lets the task start again
CLIENT = Path(__file__).with_name("cell_client").read_text()
DETAIL = """<JB_job_number>7</JB_job_number><JB_owner>alice</JB_owner>
<JB_hard_resource_list><CE_name>h_rt</CE_name><CE_stringval>{h_rt}</CE_stringval></JB_hard_resource_list>
"""
CONFIG = "handle_as_binary=1\nno_shell=0\ncwd=/home/alice\npe=none\npe_slots=1\n"


class Place:
    """One task of job 7 at alpha, whose transfer queue leads to beta."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("alpha", "beta", "bin", "spool/wake", "published/queues", "active", "tmp"):
            (folder / name).mkdir(parents=True)
        for name in ("qsub", "qstat", "qalter", "qmod", "qdel", "qconf"):
            write_program(folder / "bin" / name, CLIENT)
        self.home(letters="r")
        self.limits()
        (folder / "published/queues/transfer-beta").write_bytes(transfer_route.encode_transfer_route(self._route()))
        (folder / "active/config").write_text(CONFIG)
        (folder / "active/environment").write_text("JOB_ID=7\n")
        (folder / "tmp/.gridbridge").mkdir()

    def task(self, **env: str) -> LocalTask:
        """Return the local task as a new process reads it."""
        known = {
            "JOB_ID": "7",
            "JOB_NAME": "sim",
            "JOB_SCRIPT": "true",
            "SGE_TASK_ID": "undefined",
            "QUEUE": "transfer-beta",
            "HOSTNAME": "alpha-master",
            "TMPDIR": f"{self.folder}/tmp",
            "SGE_JOB_SPOOL_DIR": f"{self.folder}/active",
            "SGE_STARTER_SHELL_PATH": "/bin/sh",
            "SGE_STDIN_PATH": "/dev/null",
            "SGE_STDOUT_PATH": "/dev/null",
            "SGE_STDERR_PATH": "/dev/null",
        }
        return LocalTask(known | env, f"{self.folder}/spool", f"{self.folder}/published")

    def step(self, noted: str = "", **env: str) -> str:
        """Run the due step, as the starter's shell does."""
        return DueStarterStep(self.task(**env), noted, ("true",)).run_due_step()

    def home(self, letters: str) -> None:
        """Set the state letters of the local job; no letters: unlisted."""
        job = self.folder / "alpha/7"
        job.write_text(letters) if letters else job.unlink(missing_ok=True)

    def limits(self, job: str = "INFINITY", queue: str = "INFINITY") -> None:
        (self.folder / "alpha/detail").write_text(DETAIL.format(h_rt=job))
        (self.folder / "alpha/queue").write_text(f"qname transfer-beta\nh_rt  {queue}\n")

    def asks(self, xml: str) -> None:
        (self.folder / "alpha/detail").write_text(f"{DETAIL.partition('<JB_hard')[0]}{xml}")

    def leads(self, queue: str, remote: str) -> None:
        path = self.folder / "published/queues" / queue
        path.write_bytes(transfer_route.encode_transfer_route(self._route(remote)))

    def answer(self, wake: str, **known: str) -> None:
        """Answer a starter's question with this transfer."""
        path = Path(self.task().verdict_path(wake))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            encode_transfer_message(TransferMessage(kind=TransferMessageKind.RECORD, transfer=TRANSFER, **known))
        )

    def unable(self) -> None:
        """Make every home queue unable to run the job."""
        (self.folder / "alpha/unable").touch()

    def ran_for(self, seconds: float) -> None:
        """Set the start of the local job to this number of seconds ago."""
        config = self.folder / "active/config"
        began = os.stat(self.folder).st_ctime - seconds
        os.utime(config, (began, began))

    def down(self, cluster: str, is_down: bool = True) -> None:
        """Stop or start a cluster's qmaster."""
        mark = self.folder / cluster / "down"
        mark.touch() if is_down else mark.unlink()

    def away(self) -> str | None:
        """Return the state letters of the remote job, None when there is none."""
        job = self.folder / "beta/41"
        return job.read_text().strip() if job.exists() else None

    def start_away(self) -> None:
        (self.folder / "beta/41").write_text("r")

    def begin_anew(self, owner: str = "", transfer: str = "") -> None:
        """Give the remote job's number to another job, of this owner or transfer."""
        for name, value in (("owner", owner), ("name", transfer)):
            if value:
                (self.folder / "beta" / name).write_text(value)

    def calls(self, words: str) -> list[str]:
        path = self.folder / "calls"
        return [line for line in path.read_text().splitlines() if words in line] if path.exists() else []

    def sent(self, kind: str) -> list[TransferMessage]:
        spool = self.folder / "spool"
        found = [decode_transfer_message(path.read_bytes()) for path in spool.glob("m.*")]
        found += [decode_in_place(path.read_bytes()) for path in spool.glob("w.*")]
        return [message for message in found if message.kind == kind]

    def decide(self, name: str = TRANSFER, **verdict: str) -> None:
        """Publish a job end or a request for a transfer."""
        path = Path(self.task().verdict_path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            encode_transfer_message(TransferMessage(kind=TransferMessageKind.ENDED, transfer=name, **verdict))
        )

    def retract(self) -> None:
        """Remove the published job end, as the poller does for a closed transfer."""
        Path(self.task().verdict_path(TRANSFER)).unlink()

    def change_record(self, **values: str) -> None:
        record = self.task().read_transfer_note()
        assert record
        self.task().report_transfer_to_service_and_save(record.with_changes(**values))

    def forget(self, note: str) -> None:
        """Remove a note of the task, as if a step was killed before it wrote the note."""
        (self.folder / "tmp/.gridbridge" / note).unlink()

    def _route(self, remote: str = "beta") -> TransferRoute:
        sides = {
            f"{side}_{key}": value
            for side, cell in (("local", "alpha"), ("remote", remote))
            for key, value in (("root", "/"), ("cell", cell), ("binaries", f"{self.folder}/bin"), ("timeout_s", "5"))
        }
        return TransferRoute(cluster="alpha", remote=remote, **sides)
