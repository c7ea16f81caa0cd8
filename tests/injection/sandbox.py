"""A private machine for one process tree: gridbridge's folders, two fake cells, and one job."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

from gridbridge.model import transfer_messages_in_spool
from gridbridge.model.fixed_paths import CONFIG, HOME, PUBLISHED, SPOOL
from gridbridge.model.transfer import claim_and_guard
from gridbridge.model.transfer_messages_in_spool import TransferMessage
from gridbridge.model.transfer_route import TransferRoute, encode_transfer_route
from gridbridge.shell import safe_files
from gridbridge.state import published_file_formats
from gridbridge.state.spool import MARK, MESSAGE
from tests.builders.programs import write_program

QUEUE = "transfer-beta"
JOB, NAME = 7, "gb.alpha.7.0.1"
CLIENTS = ("qsub", "qalter", "qstat", "qdel", "qmod", "qacct", "qconf")
CELLS = Path("/opt/cells")
TASK = Path("/opt/task")
CLONE_NEWNS = 0x00020000  # of unshare(2); os.unshare is newer than our Python
STEADY = Path("/opt/steady")  # where a state file that needs no migration waits

CONFIGURATION = f"""
[site]
cluster = "alpha"
[cluster.alpha]
qmaster_port = 1
execd_port = 2
binaries = "{CELLS}/alpha/bin"
[cluster.beta]
qmaster_port = 3
execd_port = 4
binaries = "{CELLS}/beta/bin"
[queue.{QUEUE}]
cluster = "beta"
pending_limit = 10
slots = 10
[poller]
spool_interval_s = 0.1
"""
AS_USER = f"""#!/bin/sh
# stands for gridbridge-as-user, which does nothing as root
id=$(sed -n 's/^remote_id=//p' "{SPOOL}/$2")
name=$(sed -n 's/^transfer=//p' "{SPOOL}/$2")
[ -n "$id" ] || id=$(cd {CELLS}/beta/jobs && grep -lx "$name" */account | cut -d/ -f1)
[ -z "$id" ] || [ ! -d {CELLS}/beta/jobs/$id ] || {CELLS}/beta/bin/qdel "$id"
"""


def mount() -> None:
    """Cover the folders that gridbridge uses, in a mount namespace of the test."""
    _leave_the_mounts_of_the_machine()
    for folder in ("/opt", "/var/lib", "/var/spool"):
        subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    for part in ("over", "work"):
        Path("/opt", part).mkdir()
    layers = "lowerdir=/etc,upperdir=/opt/over,workdir=/opt/work"
    subprocess.run(["mount", "-t", "overlay", "-o", layers, "none", "/etc"], check=True)
    Path(CONFIG).parent.mkdir(exist_ok=True)
    Path(CONFIG).write_text(CONFIGURATION)
    as_user = Path("/opt/gridbridge/bin/gridbridge-as-user")
    as_user.parent.mkdir(parents=True)
    write_program(as_user, AS_USER)
    write_program(Path("/opt/sudo"), '#!/bin/sh\nshift\nexec "$@"\n')


def _leave_the_mounts_of_the_machine() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare(2) of the mounts failed")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def reset() -> None:
    """Restore the start: a running local job in the transfer queue, and no remote job."""
    for folder in (CELLS, TASK, Path(HOME), Path(SPOOL)):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in (Path(PUBLISHED, "queues"), Path(SPOOL, "wake"), TASK / ".gridbridge"):
        folder.mkdir(parents=True)
    for cluster in ("alpha", "beta"):
        _make_cell(CELLS / cluster)
    if STEADY.exists():
        shutil.copy(STEADY, f"{HOME}/state.db")
    put_job("alpha", str(JOB), name="sleep", account="sge", state="r")
    config = ("cwd=/tmp", "handle_as_binary=0", "no_shell=0", "pe=none", "pe_slots=1")
    (TASK / "config").write_text("\n".join((*config, "h_rt=INFINITY", "")))
    (TASK / "environment").write_text("HOME=/root\n")
    (TASK / "script").write_text("exit 0\n")
    safe_files.replace_file_atomically(
        published_file_formats.published_route_path(QUEUE), encode_transfer_route(a_route())
    )


def _make_cell(folder: Path) -> None:
    (folder / "bin").mkdir(parents=True)
    for part in ("jobs", "numbers", "accounting"):
        (folder / part).mkdir()
        (folder / part).chmod(0o777)
    for client in CLIENTS:
        shutil.copy(Path(__file__).with_name("fake_cell"), folder / "bin" / client)


def put_job(cluster: str, number: str, *, name: str, account: str, state: str) -> None:
    folder = CELLS / cluster / "jobs" / number
    folder.mkdir()
    for key, value in (("name", name), ("account", account), ("owner", "root"), ("state", state)):
        (folder / key).write_text(f"{value}\n")


def job(cluster: str, number: str) -> tuple[str, str]:
    """Return a job's name and state letters; a leading `a` means a start time in 2035."""
    folder = CELLS / cluster / "jobs" / number
    marks = (("h", "held"), ("a", "deferred"))
    kept = "".join(letter for letter, mark in marks if (folder / mark).exists())
    return (folder / "name").read_text().strip(), kept + (folder / "state").read_text().strip()


def jobs(cluster: str) -> list[str]:
    return sorted(os.listdir(CELLS / cluster / "jobs"))


def environment() -> dict[str, str]:
    return {
        "JOB_ID": str(JOB),
        "JOB_NAME": "sleep",
        "SGE_TASK_ID": "undefined",
        "QUEUE": QUEUE,
        "SGE_JOB_SPOOL_DIR": str(TASK),
        "TMPDIR": str(TASK),
        "JOB_SCRIPT": str(TASK / "script"),
        "SGE_STARTER_SHELL_PATH": "/bin/sh",
        "SGE_STARTER_SHELL_START_MODE": "posix_compliant",
        **dict.fromkeys(("SGE_STDIN_PATH", "SGE_STDOUT_PATH", "SGE_STDERR_PATH"), "/dev/null"),
    }


def a_route() -> TransferRoute:
    sides = {}
    for side, cluster in (("local", "alpha"), ("remote", "beta")):
        values = {"root": "/", "cell": cluster, "qmaster_port": "1", "execd_port": "2"}
        values |= {"binaries": f"{CELLS}/{cluster}/bin", "timeout_s": "15"}
        sides |= {f"{side}_{key}": value for key, value in values.items()}
    return TransferRoute(cluster="alpha", remote="beta", **sides)


def claim_by_file() -> None:
    """Publish a route by which new jobs are submitted with a claim by file."""
    Path(SPOOL, claim_and_guard.CLAIMS_FOLDER).mkdir(exist_ok=True)
    route = a_route()
    route.remote_claim, route.remote_spool = claim_and_guard.FILE, SPOOL
    safe_files.replace_file_atomically(published_file_formats.published_route_path(QUEUE), encode_transfer_route(route))


def claims() -> list[str]:
    folder = Path(SPOOL, claim_and_guard.CLAIMS_FOLDER)
    made = [path for path in folder.iterdir() if path.suffix != claim_and_guard.CLAIM_KEY_SUFFIX]
    return [claim_and_guard.HOME if path.is_symlink() else claim_and_guard.JOB for path in made]


def messages() -> list[TransferMessage]:
    names = [name for name in os.listdir(SPOOL) if name.startswith(MESSAGE) and name != MARK]
    return [transfer_messages_in_spool.decode_transfer_message(Path(SPOOL, name).read_bytes()) for name in names]
