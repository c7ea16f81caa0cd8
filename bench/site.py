"""The lab's set-up for bench/transfer.py, made before the measurements and removed afterwards.

A queue `plain-beta` whose starter is bench/plain-starter.sh, more slots at beta, and on demand
a `qstat` for beta that counts who calls it. The small programs here run inside alpha-master.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.lab.grid import Grid

HOST = "alpha-master"
FOLDER = "/home/alice/gb-bench"  # alice's, seen by the hosts of both clusters
CALLS = f"{FOLDER}/calls"
BINARIES = "/opt/gb-bench-binaries"
CONFIG = "/etc/gridbridge/gridbridge.toml"
BETA_SLOTS = 50  # a host; its gid_range lets 100 jobs run
METHODS = "/opt/gridbridge/sge-methods"
POLLER = "gridbridge.transfer.poller.program"
PLAIN = "plain-beta"  # the queue of the plain starter

T = TypeVar("T")

# Put a qstat that notes its calls in the place of beta's clients.
COUNTING = f"""
set -e
mkdir -p {BINARIES}
ln -sf /usr/lib/gridengine/* {BINARIES}/
rm {BINARIES}/qstat
cat >{BINARIES}/qstat <<'END'
#!/bin/sh
echo $$ >>{CALLS}
exec /usr/lib/gridengine/qstat "$@"
END
chmod 755 {BINARIES}/qstat
: >{CALLS}
chmod 666 {CALLS}
cp -p {CONFIG} {CONFIG}.bench
sed -i '/^.cluster.beta.$/a binaries = "{BINARIES}"' {CONFIG}
"""

# Have the poller ask no cluster for its names: with them a question needs ten times the CPU, so two
# phases of a measurement that have one of these more or less can't be compared.
QUIET = f"""
cp -p {CONFIG} {CONFIG}.bench
sed -i 's/^vocabulary_s = .*/vocabulary_s = 86400/' {CONFIG}
grep -q '^vocabulary_s = 86400' {CONFIG}
"""

# Put an ssh in the place of OpenSSH's that notes the CPU seconds of each call. A starter's step
# does not wait for the client whose connection it closes, so no accounting has these.
TIMED = f"""
set -e
: >{CALLS}
chmod 666 {CALLS}
cat >{FOLDER}/ssh <<'END'
#!/usr/bin/python3 -ISEs
import os, sys
child = os.posix_spawn("{FOLDER}/openssh", ["ssh", *sys.argv[1:]], os.environ)
os.closerange(0, 3)
_, status, used = os.wait4(child, 0)
notes = os.open("{CALLS}", os.O_WRONLY | os.O_APPEND)
os.write(notes, b"%f\\n" % (used.ru_utime + used.ru_stime))
os._exit(os.waitstatus_to_exitcode(status))
END
chmod 755 {FOLDER}/ssh
cp -p /usr/bin/ssh {FOLDER}/openssh
mount --bind {FOLDER}/ssh /usr/bin/ssh
"""

# Make a queue like transfer-beta with the plain starter.
PLAIN_QUEUE = f"""
set -e
none='suspend_method|resume_method|terminate_method|epilog|load_thresholds|complex_values'
qconf -sq transfer-beta | sed -E "
    s/^($none) .*/\\1 NONE/
    s/^qname .*/qname plain-beta/
    s#^starter_method .*#starter_method {FOLDER}/starter#" >/tmp/plain-queue
qconf -Aq /tmp/plain-queue
rm /tmp/plain-queue
"""

# Print when each job of argv was first seen to be gone.
WATCH = """
import json, subprocess, sys, time
left, gone = set(sys.argv[1:]), {}
while left:
    argv = ("/usr/lib/gridengine/qstat", "-u", "*")
    rows = subprocess.run(argv, capture_output=True, check=True, text=True).stdout.splitlines()
    now = time.time()
    for job in left - {row.split()[0] for row in rows if row.strip()}:
        gone[job] = now
        left.discard(job)
    time.sleep(0.1)
print(json.dumps(gone))
"""

# Print the remote id of each local job of argv and when the service had recorded it.
RECORDED = """
import datetime, json, sqlite3, sys
state = sqlite3.connect("/var/lib/gridbridge/state.db", timeout=30)
query = "select job, min(remote_id), min(at) from transfers join events using (name, uid)"
query += " where text like 'submitted to % as %' group by name"
rows = [row for row in state.execute(query) if str(row[0]) in sys.argv[1:]]
stamp = lambda at: datetime.datetime.fromisoformat(at).timestamp()
print(json.dumps([[str(job), str(remote), stamp(at)] for job, remote, at in rows]))
"""

# Run an epilog, argv[1], as after a usual end, 20 times; print the CPU seconds of one. Our working
# directory is that of a job's shepherd, and the service has published what the remote job used.
EPILOG = """
import json, os, pathlib, resource, shutil, subprocess, sys, tempfile
root = pathlib.Path(tempfile.mkdtemp())
root.chmod(0o755)
notes = root / ".gridbridge"
notes.mkdir()
for name in ("record", "closed"):
    (notes / name).write_text("kind=closed")
os.chdir(root)
limits = "".join(f"limit_{number}=INFINITY\\n" for number in range(90))
known = f"tmpdir={root}\\njob_owner=alice\\njob_id=999999999\\nja_task_id=0\\n"
pathlib.Path("config").write_text(limits + known)
figures = "ru_wallclock=1\\nru_utime=0.5\\nru_stime=0.25\\nru_maxrss=9000\\n"
pathlib.Path("usage").write_text(figures + "ru_minflt=0\\n" * 18)
used = pathlib.Path("/var/lib/gridbridge/published/usage/alice/999999999")
used.parent.mkdir(parents=True, exist_ok=True)
for folder in (used.parent, used.parent.parent):
    shutil.chown(folder, "gridbridge")
used.write_text(figures.replace("0.5", "77.5"))
env = {"TMPDIR": str(root), "PATH": "/usr/bin:/bin"}
for _ in range(20):
    subprocess.run([sys.argv[1]], env=env, check=True)
used.unlink()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([(used.ru_utime + used.ru_stime) / 20, pathlib.Path("usage").read_text()]))
shutil.rmtree(root)
"""

# For each pid of argv: CPU seconds and PSS of its tree now. Reaped children count for the CPU.
TREE = """
import json, os, pathlib, sys
children, cpu = {}, {}
for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
    try:
        fields = path.read_text().rpartition(")")[2].split()
    except OSError:
        continue
    children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    cpu[int(path.parent.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
def tree(pid):
    return [pid] + [each for child in children.get(pid, []) for each in tree(child)]
def pss(pid):
    try:
        rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(int(row.split()[1]) for row in rollup.splitlines() if row.startswith("Pss:"))
found = {}
for top in map(int, sys.argv[1:]):
    pids = tree(top)
    found[top] = {"cpu_s": sum(cpu.get(pid, 0) for pid in pids), "pss_kb": sum(map(pss, pids))}
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The resource usage of a process tree at one moment."""

    cpu_s: float
    pss_kb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The CPU time of a process between two moments."""

    cpu_s: float
    passed_s: float


class Site:
    """The lab during a measurement."""

    def __init__(self) -> None:
        self.grid = Grid()

    @contextmanager
    def arranged(self) -> Iterator[None]:
        """Make the plain queue and more slots at beta; remove both afterwards."""
        self.grid.require_ready()
        slots = self._beta("qconf", "-sq", "all.q").split("\nslots ", 1)[1].split()[0]
        self.grid.on(HOST, "qconf", "-dq", "plain-beta")  # of a run that was killed
        self._make_folder()
        self._make_queue()
        self._set_epilog("epilog")  # the other one accounts here for what the remote job used
        self._beta("qconf", "-rattr", "queue", "slots", str(BETA_SLOTS), "all.q")
        self.grid.switch_back("-d")  # it would try, and mark, what waits at beta
        try:
            yield
        finally:
            self._set_epilog("usage", "root@")
            self.grid.switch_back("-e")
            self._beta("qconf", "-rattr", "queue", "slots", slots, "all.q")
            self.grid.sh(HOST, f"qconf -dq plain-beta; rm -rf {FOLDER}")

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Record every `qstat` that gridbridge runs for beta in CALLS."""
        with self._configured(COUNTING):
            yield
        self.grid.sh(HOST, f"rm -rf {BINARIES}")

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Have the poller query states only; its first transfer fills the caches."""
        with self._configured(QUIET):
            self.whole(script="true\n")
            yield

    @contextmanager
    def _configured(self, script: str) -> Iterator[None]:
        """Run the poller with a gridbridge.toml that a script has changed; keep the original."""
        self.grid.sh(HOST, script)
        self._restart_poller()
        try:
            yield
        finally:
            self.grid.sh(HOST, f"mv {CONFIG}.bench {CONFIG}")
            self._restart_poller()

    @contextmanager
    def timing(self) -> Iterator[Callable[[], float]]:
        """Record the CPU time of every `ssh` on the transfer host; yield a function that returns the sum."""
        self.grid.sh(HOST, TIMED)
        try:
            yield lambda: sum(map(float, self.grid.sh(HOST, f"cat {CALLS}").split()))
        finally:
            self.grid.sh(HOST, "umount /usr/bin/ssh")

    def submit(self, *options: str, script: str, queue: str = "transfer-beta") -> str:
        """Submit a local job of alice's to one of the queues."""
        places = ("-q", queue) + (("-l", "remote=true") if queue != PLAIN else ())
        return self.grid.submit(*places, "-o", "/dev/null", "-j", "y", *options, script=script)

    def whole(self, *options: str, script: str, queue: str = "transfer-beta") -> str:
        """Run one job from submission to end."""
        job = self.submit(*options, script=script, queue=queue)
        self.gone([job])
        return job

    def spent(self, pid: int, work: Callable[[], T]) -> tuple[T, Spent]:
        """Call a function; return its result and the CPU time of a process meanwhile."""
        before, begun = self.usage([pid])[pid].cpu_s, time.monotonic()
        done = work()
        passed_s = time.monotonic() - begun
        return done, Spent(cpu_s=self.usage([pid])[pid].cpu_s - before, passed_s=passed_s)

    def direct(self, *, script: str) -> str:
        """Submit a job of alice's to beta itself."""
        return self.grid.submit("-o", "/dev/null", "-j", "y", cluster="beta", script=script)

    def run(self, program: str, *arguments: str, user: str = "root") -> object:
        """Run a small Python program and return its output."""
        argv = ("/usr/bin/python3", "-I", "-", *arguments)
        done = self.grid.on(HOST, *argv, stdin=program, user=user, timeout_s=600)
        assert done.status == 0, f"{arguments}: {done}"
        return json.loads(done.out)

    def gone(self, jobs: list[str]) -> dict[str, float]:
        """Wait until no job is listed; return the time at which each was first missing."""
        found = self.run(WATCH, *jobs)
        assert isinstance(found, dict)
        return found

    def recorded(self, jobs: list[str]) -> list[tuple[str, str, float]]:
        """Return (local job, remote job, time) of each transfer whose remote id is recorded."""
        found = self.run(RECORDED, *jobs)
        assert isinstance(found, list)
        return [(job, remote, at) for job, remote, at in found]

    def cpu_s(self, job: str, cluster: str = "alpha") -> float:
        """Return the accounted CPU time: the shepherd's wait4() for the job and its children."""
        record = self.grid.accounting(job, cluster)
        return sum(float(record[key].rstrip("s").split()[0]) for key in ("ru_utime", "ru_stime"))

    def epilog_s(self, name: str) -> float:
        """Return the CPU of a queue's epilog, `usage` or `epilog`, which accounting leaves out."""
        found = self.run(EPILOG, f"{METHODS}/{name}")
        assert isinstance(found, list)
        cpu_s, usage = found
        assert ("ru_utime=77.5" in usage) == (name == "usage"), usage
        return float(cpu_s)

    def poller(self) -> int:
        """Wait until a poller runs and return its process id."""
        return self.grid.until(self._poller, "a poller")

    def starters(self) -> list[int]:
        """Return the process ids of all starters' shells."""
        found = self.grid.on(HOST, "pgrep", "-f", "^/bin/sh /opt/gridbridge/sge-methods/starter ")
        return list(map(int, found.out.split()))

    def usage(self, pids: list[int]) -> dict[int, Usage]:
        """Return the usage of each process and its descendants."""
        found = self.run(TREE, *map(str, pids))
        assert isinstance(found, dict)
        return {int(pid): Usage(**values) for pid, values in found.items()}

    def calls(self) -> int:
        """Return how many times beta's qstat was called."""
        return len(self.grid.sh(HOST, f"cat {CALLS}").splitlines())

    def written(self, name: str) -> float:
        """Wait for a file that a job writes into FOLDER, and return the time in the file."""
        path = f"{FOLDER}/{name}"
        found = self.grid.until(lambda: self.grid.on(HOST, "cat", path).out.strip(), f"{path} to be written", 120)
        return float(found)

    def _make_folder(self) -> None:
        starter = (Path(__file__).parent / "plain-starter.sh").read_text()
        script = f"mkdir -p {FOLDER}/accepted && cat >{FOLDER}/starter && chmod 755 {FOLDER}/starter"
        done = self.grid.on(HOST, "sh", "-c", script, user="alice", stdin=starter)
        assert done.status == 0, done

    def _set_epilog(self, name: str, whose: str = "") -> None:
        path = f"{whose}{METHODS}/{name}"
        for queue in ("transfer-beta", "transfer-delta"):
            self.grid.sh(HOST, f"qconf -rattr queue epilog {path} {queue}")

    def _make_queue(self) -> None:
        self.grid.sh(HOST, PLAIN_QUEUE)

    def _restart_poller(self) -> None:
        old = self.poller()
        self.grid.sh(HOST, f"kill {old}")
        self.grid.until(lambda: self._poller() not in (0, old), "the sensor to start a poller")
        self.grid.require_ready()

    def _poller(self) -> int:
        found = self.grid.on(HOST, "pgrep", "-o", "-u", "gridbridge", "-f", POLLER).out.split()
        return int(found[0]) if found else 0

    def _beta(self, *argv: str) -> str:
        done = self.grid.cell("beta", *argv, user="root")
        assert done.status == 0, done
        return done.out


def is_possible() -> bool:
    """Say whether a lab is possible here: it needs root."""
    return os.getuid() == 0
