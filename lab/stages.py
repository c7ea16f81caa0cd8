"""Where the demo's campaign plays: the lab, as alice and bob, or embedded clusters, as oneself."""

import os
import pwd
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from grids import EMBEDDED, FOLDERS, LAB, PYTHON, SITE

CLUSTERS = ("alpha", "beta", "gamma")
HOST, BETA, GAMMA = "alpha-master", "beta-master", "gamma-master"
PICTURE = Path(__file__).resolve().parent.parent / ".build" / "campaign.png"
TOML, KEPT = "/etc/gridbridge/gridbridge.toml", "/etc/gridbridge/gridbridge.toml.demo"
SETUP = "gridbridge setup besteffort beta"
PROGRAM = "/opt/gridbridge/bin/gridbridge-runner"
FIND = f"pgrep -u gridbridge -of '{PROGRAM} --loop'"
STOP = f"for n in 1 2 3 4 5 6 7 8 9 10; do {FIND} | xargs -r kill || break; sleep 0.5; done"
LOG = "/var/lib/gridbridge/runner.log"
START = f"setsid runuser -u gridbridge -- {PROGRAM} --loop >>{LOG} 2>&1 </dev/null &"
TO_GAMMA = "unreachable $(getent hosts gamma-master | cut -d ' ' -f 1)"
CUT, HEAL = f"ip route add {TO_GAMMA}", f"ip route del {TO_GAMMA}"
PARALLEL = "qsub -terse -pe smp 2 -b y sleep 15"
ORDINARY = "qsub -terse -q all.q -t 1-2 -b y sleep 20"
OAR_JOB = "oarsub -l nodes=1,walltime=0:2:0 'sleep 20'"
LAB_NEXT = """
The lab and its campaign runner stay up. Go on by hand:
  lab/lab on alpha-master -u alice -- gridstat {number} -f
  lab/lab on alpha-master -u alice -- gridsub --array 1-100 -l h_rt=300 -- sleep 5
  lab/lab on alpha-master -u alice -- gridstat --watch"""
FOLDERS_NEXT = """
The clusters and all that gridbridge had are gone again. docs/tutorials/campaign.md shows such a
campaign by hand; as root, make demo does the same over two Grid Engine clusters and one of OAR."""
BIN = f"{PYTHON} -I /opt/gridbridge/venv/bin"
OWN_SLOTS = {"alpha": 4, "beta": 6, "gamma": 4}
HANG = """
import os, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
print("it hangs", flush=True)
while os.getppid() != 1:
    time.sleep(0.1)
"""


class Stage(Protocol):
    """Three clusters, a campaign runner, somebody with a campaign and somebody with other jobs."""

    person: str
    other: str
    directory: str  # where tasks run
    files: str  # the folder of the files that tasks read, and of their results
    read_words: str  # who sees these files
    their_files: str  # what gamma's tasks read
    cut_words: str  # what is told when gamma goes
    late: str  # what to tell of a campaign that goes on
    next: str  # what to tell at the end

    @contextmanager
    def quick_cycles(self, may_wait: Mapping[str, int]) -> Iterator[None]:
        """Have best-effort tasks make way at beta, a cycle each 5 s, and let more tasks wait."""
        ...

    def run(self, script: str, stdin: str = "") -> str:
        """Run a script as the person, `$BIN gridsub` and the like in it, and return its output."""
        ...

    def fill(self) -> None:
        """Submit ordinary jobs of the other person at alpha and gamma."""
        ...

    def submit_wide(self) -> str:
        """Submit the other person's job of two slots at beta; return its number."""
        ...

    def has_begun(self, job: str) -> bool:
        """Say whether that job runs, or has run."""
        ...

    def cut(self) -> None:
        """Let gamma answer no more."""
        ...

    def heal(self) -> None:
        """Let it answer again."""
        ...

    def picture(self, number: int) -> Path:
        """Have gridstat draw the campaign; return the file, on this machine."""
        ...


class LabStage:
    """The lab: Grid Engine's alpha and beta, OAR's gamma."""

    person, other, directory, next = "alice", "bob", "~", LAB_NEXT
    files = "/home/alice/demo"
    read_words = "alpha and beta see the files, gamma gets copies before its tasks start"
    their_files = "the files copied there"
    cut_words = "gamma can't be reached any more"
    late = "`gridstat {number}` shows the others"

    @contextmanager
    def quick_cycles(self, may_wait: Mapping[str, int]) -> Iterator[None]:
        """Change the lab's configuration, and put it back."""
        keep(KEPT)
        sh(f"{STOP}; {SETUP} --apply")
        try:
            new = _quick(sh(f"cat {TOML}"), may_wait)
            sh(f"cat >{TOML}.new && mv {TOML}.new {TOML}; {START}", stdin=new)
            yield
        finally:
            sh(f"{HEAL} 2>/dev/null; {STOP}; mv {KEPT} {TOML}; {SETUP} --remove --apply; {START}")

    def run(self, script: str, stdin: str = "") -> str:
        """Run it as alice on the transfer host."""
        return sh(f"BIN=; {script}", user="alice", stdin=stdin)

    def fill(self) -> None:
        """Submit by qsub and oarsub."""
        sh(ORDINARY, user="bob")
        sh(OAR_JOB, host=GAMMA, user="bo_gamma")

    def submit_wide(self) -> str:
        """Submit by qsub."""
        return sh(PARALLEL, host=BETA, user="bob").strip()

    def has_begun(self, job: str) -> bool:
        """Ask qstat."""
        rows = (line.split() for line in sh("qstat -u bob", host=BETA).splitlines())
        return job not in [row[0] for row in rows if row and (len(row) < 5 or row[4] == "qw")]

    def cut(self) -> None:
        """Leave alpha's host without a way there."""
        sh(CUT)

    def heal(self) -> None:
        """Give it the way back."""
        sh(HEAL)

    def picture(self, number: int) -> Path:
        """Draw it there and bring the file to this machine."""
        name = f"/tmp/demo-{number}.png"
        sh(f"gridstat {number} --plot {name}", user="alice")
        return fetched(f"{name} && rm {name}", PICTURE.name)


class FoldersStage:
    """Three embedded clusters, all one's own (docs/how-to/embedded.md)."""

    other, directory, next = "somebody", FOLDERS, FOLDERS_NEXT
    files = f"{FOLDERS}/demo"
    read_words = "all three clusters see the files"
    their_files = "their files"
    cut_words = "gamma answers no more: its database hangs"
    late = "the others are gone with the clusters"

    def __init__(self) -> None:
        """Make the clusters that are not there; the runner comes with the cycles."""
        self.person = pwd.getpwuid(os.getuid()).pw_name
        self._hung: subprocess.Popen[str] | None = None
        for name, slots in OWN_SLOTS.items():
            _embedded(name, "create", f"--slots={slots}")

    @contextmanager
    def quick_cycles(self, may_wait: Mapping[str, int]) -> Iterator[None]:
        """Write the site's configuration and start the runner."""
        gamma = f'[cluster.gamma]\nkind = "embedded"\nfolder = "{FOLDERS}/gamma"\n'
        quick = f"{gamma}command_timeout_s = 3\n[runner]\ninterval_s = 5\n"
        Path(TOML).write_text(_quick(Path(SITE).read_text() + quick, may_wait))
        with open(f"{FOLDERS}/runner.log", "wb") as log:
            argv = (*BIN.split()[:-1], f"{BIN.split()[-1]}/gridbridge-runner", "--loop")
            runner = subprocess.Popen(argv, stdout=log, stderr=log, cwd="/")
        try:
            yield
        finally:
            self.heal()
            runner.terminate()
            runner.wait(30)

    def run(self, script: str, stdin: str = "") -> str:
        """Run it here."""
        argv = ("sh", "-c", re.sub(r"\$BIN (\w+)", rf"{BIN}/\1", script))
        return _output(argv, stdin.encode()).decode()

    def fill(self) -> None:
        """Submit by the clusters' program."""
        for name in ("alpha", "gamma"):
            _embedded(name, "submit", "--name=ordinary", "--slots=2", stdin="sleep 20\n")

    def submit_wide(self) -> str:
        """Submit by beta's program."""
        return _embedded("beta", "submit", "--name=wide", "--slots=2", stdin="sleep 15\n").strip()

    def has_begun(self, job: str) -> bool:
        """Ask beta's program."""
        return "\nstate=qw\n" not in _embedded("beta", "list", f"--job={job}")

    def cut(self) -> None:
        """Keep everybody from its database, as a disk does that hangs."""
        argv = (PYTHON, "-I", "-c", HANG, f"{FOLDERS}/gamma/jobs.db")
        self._hung = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self._hung.stdout
        self._hung.stdout.readline()

    def heal(self) -> None:
        """Let go of it."""
        if self._hung:
            self._hung.kill()
            self._hung.communicate()
            self._hung = None

    def picture(self, number: int) -> Path:
        """Draw it in the checkout, or where one may write."""
        picture = PICTURE
        with suppress(OSError):
            picture.parent.mkdir(exist_ok=True)
        if not os.access(picture.parent, os.W_OK):
            picture = Path(tempfile.mkdtemp(prefix="gridbridge-demo.")) / picture.name
        caches = f"MPLCONFIGDIR={FOLDERS} XDG_CACHE_HOME={FOLDERS}"
        self.run(f"{caches} $BIN gridstat {number} --plot {picture}")
        return picture


def _quick(toml: str, may_wait: Mapping[str, int]) -> str:
    toml = re.sub(r"(?ms)^(\[runner\]$.*?)^#?interval_s = \S+", r"\1interval_s = 5", toml, count=1)
    toml = re.sub(r"(?m)^\[campaigns\.\w+\]\n", "", re.sub(r"(?m)^flood_rate = .*\n", "", toml))
    return toml + "".join(f"\n[campaigns.{name}]\nflood_rate = {rate}\n" for name, rate in may_wait.items())


def _embedded(cluster: str, *words: str, stdin: str = "") -> str:
    return _output((*EMBEDDED, f"{FOLDERS}/{cluster}", *words), stdin.encode()).decode()


def concluded(what: str, wrong: Sequence[str], begun: float, *lines: str) -> int:
    """Tell what was wrong of what was played since then; return the exit status."""
    for line in wrong:
        print(f"WRONG: {line}")
    print(f"{what}, {len(wrong)} wrong, {time.monotonic() - begun:.0f} s", *lines, sep="\n")
    return 1 if wrong else 0


def keep(kept: str) -> None:
    """Keep the site's gridbridge.toml; what a killed demo has kept is put back first."""
    sh(f"[ ! -e {kept} ] || mv {kept} {TOML}; cp -p {TOML} {kept}")


def fetched(there: str, name: str) -> Path:
    """Bring a picture from the transfer host to this machine, under a name."""
    picture = PICTURE.with_name(name)
    picture.parent.mkdir(exist_ok=True)
    picture.write_bytes(run(HOST, "root", f"cat {there}", b""))
    return picture


def sh(script: str, *, host: str = HOST, user: str = "root", stdin: str = "") -> str:
    """Run a script on a host of the lab; return its output."""
    return run(host, user, script, stdin.encode()).decode()


def run(host: str, user: str, script: str, stdin: bytes) -> bytes:
    """Run a script on a host of the lab; return its output, whatever it is."""
    return _output((LAB, "on", host, "-u", user, "--", "sh", "-c", script), stdin)


def _output(argv: Sequence[str], stdin: bytes) -> bytes:
    done = subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, timeout=120, check=False)
    sys.stdout.flush()
    return done.stdout
