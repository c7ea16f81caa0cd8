"""The attacker bob uses every right of an ordinary user; alice's jobs are not affected."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gridbridge.decisions.transfer.transfers_in_job_lists import MOST_UNPROVED
from tests.lab.configured import configured
from tests.lab.delta import FAR
from tests.lab.grid import Grid

pytestmark = pytest.mark.lab

HOST = "alpha-master"
HOME = "/var/lib/gridbridge"
SPOOL = "/var/spool/gridbridge"
LATENCY_S = 5.0
ARRIVAL_S = 2.0
SLOTS = 4  # of beta
MOST_LINES = 4200  # of the log: 4000 an hour about what home has not proved, and some of what is refused

LOCKER = """
import fcntl, os, sys, time
ends = []
for base in ("/var/lib/gridbridge", "/var/spool/gridbridge", "/opt/gridbridge", "/etc/gridbridge"):
    for folder, _, names in os.walk(base):
        for name in [".", *names]:
            for flags in (os.O_RDWR, os.O_RDONLY):
                try:
                    end = os.open(f"{folder}/{name}", flags | os.O_NONBLOCK)
                except OSError:
                    continue
                ends.append(end)
                for lock in (fcntl.LOCK_EX, fcntl.LOCK_SH):
                    try:
                        fcntl.flock(end, lock | fcntl.LOCK_NB)
                        fcntl.lockf(end, lock | fcntl.LOCK_NB)
                    except OSError:
                        pass
                if len(ends) > 1000:
                    break
print(len(ends), flush=True)
time.sleep(120)
"""

FLOOD = """
import os, sys
spool = "/var/spool/gridbridge"
text = open(sys.argv[1], "rb").read()
for number in range(int(sys.argv[2])):
    end = os.open(f"{spool}/m.flood{number}", os.O_WRONLY | os.O_CREAT)
    os.write(end, text.replace(b".999.", b".%d." % (900000 + number)))
    os.close(end)
for number in range(300):
    os.mkdir(f"{spool}/m.folder{number}")
    open(f"{spool}/m.folder{number}/x", "w").close()
    os.mkfifo(f"{spool}/m.fifo{number}")
    os.symlink("/etc/shadow", f"{spool}/m.link{number}")
    os.mkfifo(f"{spool}/wake/flood{number}")
    os.mkdir(f"{spool}/wake/folder{number}")
"""


TOML = "/etc/gridbridge/gridbridge.toml"
HERS = "/run/hers"  # the folder of programs that tell who ran them
STRANGE = f"""set -e
cp -p {TOML} /root/kept.toml
mkdir {HERS} && cd {HERS}
install -m 666 /dev/null ran
cat >qconf <<'END'
#!/bin/sh
id -u >>{HERS}/ran
exec /usr/lib/gridengine/"${{0##*/}}" "$@"
END
chmod 755 qconf
for name in qstat qsub qping qacct qalter qdel; do ln qconf $name; done
chown -R alice {HERS}
"""
OBEY = f"""
cp -p /root/kept.toml {TOML}
sed -i 's|^#*binaries = "/usr/lib/gridengine"|binaries = "{HERS}"|' {TOML}
"""
BACK = f"""
chown root:root /etc/gridbridge; chmod 755 /etc/gridbridge
rm {TOML}; cp -p /root/kept.toml {TOML}
"""
STRANGERS = {  # what makes a gridbridge.toml a stranger's
    "the file": f"chown alice {TOML}",
    "its mode": f"chmod 0666 {TOML}",
    "its folder": "chmod 0777 /etc/gridbridge",
    "its folder's owner": "chown alice /etc/gridbridge",
    "what it leads to": f"mv {TOML} {HERS}/toml && ln -s {HERS}/toml {TOML}",
}
OBEYING = (  # what root runs that reads it
    "gridbridge setup host",
    "gridbridge setup transfer beta",
    "gridbridge setup transfer beta --remove",
    "gridbridge check",
    "gridbridge explain --to beta -- -b y true",
    "qacct_remote -j 1",
    "qalter_remote -p 0 1",
    "qdel_remote 1",
    "gridbridge-as-user delete m.1",
)


@contextmanager
def running(grid: Grid, program: str, name: str) -> Iterator[str]:
    """Run a program as bob until the end of the block; yield its first line of output."""
    grid.sh(HOST, f"cat >/tmp/{name}.py <<'END'\n{program}\nEND", user="bob")
    run = f"setsid python3 /tmp/{name}.py >/tmp/{name}.out 2>&1 </dev/null & echo $!"
    pid = grid.sh(HOST, run, user="bob").strip()
    try:
        yield grid.until(lambda: grid.sh(HOST, f"cat /tmp/{name}.out"), f"bob's {name}")
    finally:
        grid.on(HOST, "kill", "-9", pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A job of alice that runs at beta until file `path` exists."""

    job: str
    path: str

    @property
    def name(self) -> str:
        return f"gb.alpha.{self.job}.0.1"


def record(grid: Grid, name: str) -> dict[str, object]:
    """Return the published entry of an open transfer; empty if there is none."""
    rows = json.loads(grid.sh(HOST, f"cat {HOME}/published/transfers.json"))["transfers"]
    return next((row for row in rows if row["transfer"] == name), {})


def hold_until_file(path: str) -> str:
    return f"while [ ! -e {path} ]; do sleep 0.1; done; date +%s.%N >{path}.end; exit 3\n"


def end_latency_s(grid: Grid, one: Running) -> float:
    """End a remote job; return the delay until the local job has ended."""
    grid.sh(HOST, f"touch {one.path}", user="alice")
    grid.until(lambda: one.job not in grid.states(), f"{one.job} to end", 60)
    gone_at = time.time()
    return gone_at - float(grid.sh(HOST, f"cat {one.path}.end"))


def running_transfers(grid: Grid, count: int) -> tuple[Running, ...]:
    paths = grid.sh(HOST, "mktemp -u /home/alice/go.XXXXXX; " * count, user="alice").split()
    sent = tuple(Running(job=grid.transfer("-N", "hers", script=hold_until_file(path)), path=path) for path in paths)
    for one in sent:
        grid.until(lambda n=one.name: str(record(grid, n).get("remote_state")) == "r", f"{one.job} to run at beta")
    return sent


@pytest.fixture(scope="module")
def hers(grid: Grid) -> Iterator[Iterator[Running]]:
    """Yield jobs of alice that were sent together; beta keeps a free slot."""
    sent = running_transfers(grid, SLOTS - 1)
    yield iter(sent)
    grid.sh(HOST, f"touch {' '.join(one.path for one in sent)}", user="alice")


@pytest.fixture
def running_job(grid: Grid, hers: Iterator[Running]) -> Running:
    open_ones = (one for one in hers if one.job in grid.states())
    return next(open_ones, None) or running_transfers(grid, 1)[0]


REACH = {
    "list the spool": "ls {spool}",
    "list the FIFOs": "ls {spool}/wake",
    "read the state": "cat {home}/state.db",
    "list her answers": "ls {home}/published/verdicts/10001",
    "lock the poller's lock": "flock -n {home}/poller.lock true",
    "write a verdict": "touch {home}/published/verdicts/x",
    "write load values": "echo 0 >{home}/published/load",
    "replace load values": "mv -f /etc/hostname {home}/published/load",
    "write a queue's route": "echo 0 >{home}/published/queues/transfer-beta",
    "rename the spool": "mv {spool} {spool}2",
    "replace the FIFOs' folder": "mv {spool}/wake {spool}/wake2",
    "delete her message": "rm -f {spool}/{hers}",
    "alter her message": "echo x >>{spool}/{hers}",
    "replace her message": "ln -s /dev/null {spool}/x$$; mv -fT {spool}/x$$ {spool}/{hers}",
    "squat her message": "set -C; : >{spool}/{hers}",
    "link her message": "ln {spool}/{hers} {spool}/m.x$$",
    "delete her FIFO": "rm -f {spool}/wake/{fifo}",
    "replace her FIFO": "mkfifo {spool}/wake/x$$; mv -f {spool}/wake/x$$ {spool}/wake/{fifo}",
    "be the service": "sudo -n /opt/gridbridge/bin/gridbridge-as-user delete {hers}",
}


def test_an_attacker_can_neither_read_nor_change_the_files_of_a_transfer(grid: Grid, running_job: Running) -> None:
    """Bob knows the file names, although he can't list them.

    He can't link alice's files, because Debian's hosts set fs.protected_hardlinks (proc(5)).
    """
    Path("/proc/sys/fs/protected_hardlinks").write_text("1")
    hers, fifo = grid.sh(
        HOST, f"cd {SPOOL}; f=$(grep -l {running_job.name} m.*); echo $f; sed -n s/wake=//p $f"
    ).split()
    words = {"spool": SPOOL, "home": HOME, "hers": hers, "fifo": fifo}
    script = "".join(
        f'( {attack.format(**words)} ) >/dev/null 2>&1 && echo "{what}"\n' for what, attack in REACH.items()
    )

    assert grid.sh(HOST, script + "true", user="bob") == ""
    assert end_latency_s(grid, running_job) < LATENCY_S
    assert grid.accounting(running_job.job)["exit_status"] == "3"


def test_forged_messages_about_another_users_transfer_are_ignored(grid: Grid, running_job: Running) -> None:
    name = running_job.name
    remote = str(record(grid, name)["remote_id"])
    head = f"transfer={name}\\nat=1767225600\\nremote_id={remote}\\n"
    forgeries = (
        "kind=record\\nremote=beta\\nqueue=transfer-beta\\nphase=released\\nwake=bobs\\n",
        "kind=record\\nremote=omega\\nqueue=transfer-beta\\nphase=released\\n",
        "kind=ended\\noutcome=exit\\nexit_status=0\\n",
        "kind=intent\\ndesired=dead\\n",
        "kind=closed\\noutcome=exit\\n",
        "kind=ask\\nwake=../10001/" + name + "\\n",
    )
    for number, text in enumerate(forgeries):
        line = f"umask 022; printf '{head}{text}' >{SPOOL}/m.forged{number}"
        grid.sh(HOST, line, user="bob")
    grid.until(lambda: "forged" not in grid.sh(HOST, f"ls {SPOOL}"), "the forgeries to be read")

    assert record(grid, name)["remote_state"] == "r"
    assert end_latency_s(grid, running_job) < LATENCY_S
    assert grid.accounting(running_job.job)["exit_status"] == "3"


def lines_for(running: Running, remote: str) -> str:
    """Return a resource request of bob with a forged accounting record of alice's job."""
    head = f"all.q:beta-n1:alice:alice:hers:{remote}:{running.name}:0:{3 * '1767225600:'}"
    usage = "0:9:1:1.0:1.0:1.0:" + "0:" * 14
    line = f"{head}{usage}NONE:defaultdepartment:NONE:1:0:2.0:0.0:0.0:NONE:0.0:NONE:0.0:0:0"
    return f"arch=lx-amd64|x\n{line}\nz"


def test_a_forged_record_within_another_accounting_record_is_not_read(grid: Grid, running_job: Running) -> None:
    """Grid Engine writes a job's requests into its accounting unescaped."""
    name = running_job.name
    remote = str(record(grid, name)["remote_id"])
    file = f"{HOME}/published/readings.json"
    asks = ("-b", "y", "-o", "/dev/null", "-j", "y", "-l", lines_for(running_job, remote))

    def skipped() -> int:
        readings = json.loads(grid.sh(HOST, f"cat {file}"))["readings"]
        return int(next(one["skipped"] for one in readings if one["cluster"] == "beta"))

    before = skipped()
    grid.cell("beta", "qsub", *asks, "true", user="bob")
    grid.until(lambda: skipped() > before, "the service to read his record", 60)

    assert end_latency_s(grid, running_job) < LATENCY_S
    assert grid.accounting(running_job.job)["exit_status"] == "3"
    told = grid.until(
        lambda: grid.on(HOST, "qacct_remote", "-j", running_job.job, "--json", user="alice").out, "her account"
    )
    ends = [one["exit_status"] for one in json.loads(told)["tasks"][0]["remote"]]
    assert 9 not in ends


ATTEMPTS = """
import os, sys
job, spool = sys.argv[1], "/var/spool/gridbridge"
text = (
    "kind=record\\ntransfer=gb.alpha.%s.0.%d\\nat=1767225600\\nremote=beta\\nqueue=transfer-beta\\n"
    "phase=submitting\\nwake=his%d\\nreason=please call 555-1234\\n"
)
for number in range(99, 499):
    with open(f"{spool}/m.try{number}", "w") as message:
        message.write(text % (job, number, number))
"""


def test_an_attackers_messages_about_another_users_job_are_not_shown(grid: Grid, running_job: Running) -> None:
    grid.sh(HOST, f"cat >/tmp/tries.py <<'END'\n{ATTEMPTS}\nEND", user="bob")
    for job in (running_job.job, "999998"):
        grid.sh(HOST, f"umask 022; python3 /tmp/tries.py {job}", user="bob")
        grid.until(lambda j=job: kept(grid, f"name like 'gb.alpha.{j}.0.%' and owner='bob'") >= 400, "his")
    grid.until(lambda: '"bob"' not in shown(grid), "home to be asked of his jobs", 30)
    why, hers, used, none = (
        grid.on(HOST, *argv)
        for argv in (
            ("gridbridge", "why", running_job.job),
            ("qstat_remote", "-j", running_job.job),
            ("qacct_remote", "-j", running_job.job),
            ("gridbridge", "why", "999998"),
        )
    )
    made_up = grid.sh(HOST, f"find {HOME}/published -name '999998*'")
    end_latency_s(grid, running_job)
    grid.sh(HOST, f"cd {SPOOL} && find . -ignore_readdir_race -user bob -type f -delete")

    for told in (why, hers, used):
        assert "bob" not in told.out
        assert "555-1234" not in told.out
    assert f"job {running_job.job} of alice is at beta" in why.out
    assert f"{running_job.name}, sent at" in hers.out
    assert len(why.out.splitlines()) < 60
    assert (none.status, none.out) == (1, "")
    assert made_up == ""


def kept(grid: Grid, which: str) -> int:
    """Return how many transfers in the state file match an SQL condition."""
    state = "sqlite3.connect('file:/var/lib/gridbridge/state.db?mode=ro', uri=True)"
    count = f'execute("select count(*) from transfers where {which}").fetchone()[0]'
    return int(grid.sh(HOST, f"python3 - <<'END'\nimport sqlite3\nprint({state}.{count})\nEND"))


def shown(grid: Grid) -> str:
    return grid.sh(HOST, f"cat {HOME}/published/transfers.json")


FORGED = (
    "printf 'kind=record\\ntransfer=gb.alpha.99990%d.0.1\\nat=1767225600\\nremote=beta\\n"
    "queue=transfer-beta\\nphase=submitting\\nwake=bobs%d\\ncause=unreached\\n"
    f"reason=tried in vain: please call 555-1234\\n' $n $n >{SPOOL}/m.call$n"
)


def test_an_attackers_failed_jobs_close_no_queue(grid: Grid) -> None:
    """Neither reports of invented jobs nor failures of bob's own jobs close the queue."""
    grid.sh(HOST, f"umask 022; for n in 1 2 3 4 5 6; do {FORGED}; done", user="bob")
    jobs = [grid.transfer("-S", "/bin/nosuchshell", "-o", "/dev/null", user="bob", script="true\n") for _ in range(6)]
    grid.until(lambda: all("E" in grid.states().get(job, "") for job in jobs), "his jobs to fail", 90)
    for job in jobs:
        grid.cell("alpha", "qdel", job, user="root")
    told = grid.on(HOST, "gridbridge", "status").out
    known = json.loads(grid.sh(HOST, f"cat {HOME}/published/breakers.json || echo '{{}}'"))
    grid.sh(HOST, f"cd {SPOOL} && find . -ignore_readdir_race -user bob -type f -delete")

    assert grid.is_open()
    assert "555-1234" not in told
    assert [one["failed"] for one in known.get("breakers", []) if one["failed"]] == []
    assert [one["times"] for one in known.get("breakers", []) if one["times"]] == []


def test_an_attackers_locks_and_open_files_delay_no_job(grid: Grid) -> None:
    """A new poller starts too, while bob holds every file that he can open."""
    with running(grid, LOCKER, "locker") as count:
        assert int(count) > 20
        poller = grid.sh(HOST, "pgrep -f gridbridge.transfer.poller.program").split()
        grid.on(HOST, "kill", "-9", *poller)
        (one,) = running_transfers(grid, 1)

        assert end_latency_s(grid, one) < LATENCY_S
        assert grid.sh(HOST, "pgrep -f gridbridge.transfer.poller.program").split() != poller


@pytest.mark.long
@pytest.mark.parametrize("many", [4000, 20000])
def test_a_flood_of_messages_delays_no_other_users_job(grid: Grid, running_job: Running, many: int) -> None:
    clear = ("find", SPOOL, "-ignore_readdir_race", "-user", "bob", "-delete")
    text = "kind=record\\ntransfer=gb.alpha.999.0.1\\nat=1767225600\\nremote=beta\\n"
    text += "queue=transfer-beta\\nphase=submitting\\nwake=flood1\\n"
    grid.sh(HOST, f"umask 022; printf '{text}' >/tmp/one", user="bob")
    grid.sh(HOST, f"cat >/tmp/flood.py <<'END'\n{FLOOD}\nEND", user="bob")
    before = grid.logged("gb.alpha.90").count("\n")
    try:
        grid.sh(HOST, f"umask 022; python3 /tmp/flood.py /tmp/one {many}", user="bob")
        latencies = [end_latency_s(grid, one) for one in (running_job, *running_transfers(grid, 1))]
        told = grid.logged("gb.alpha.90").count("\n") - before
    finally:  # what the service deletes meanwhile is gone before it is read
        grid.until(lambda: grid.on(HOST, *clear).status == 0, "his files to be deleted")

    assert max(latencies) < LATENCY_S, latencies
    assert kept(grid, "name like 'gb.alpha.90____.0.1' and owner='bob'") <= 2 * MOST_UNPROVED
    assert told < MOST_LINES


PLANT = """for n in $(seq {first} {last}); do
    d=/tmp/$n.1.{queue}
    mkdir -m 777 $d && cd $d && mkdir -m 777 .gridbridge || continue
    printf '#!/bin/sh\\necho his' >.gridbridge/date
    chmod 755 .gridbridge/date
    touch .gridbridge/dead
    mkfifo -m 666 .gridbridge.log .gridbridge/log
    touch -d 2030-01-01 .gridbridge
done"""
PLANTED = 12  # numbers that he guesses


def test_an_attackers_prepared_tmpdir_is_not_used_by_a_job(grid: Grid) -> None:
    """Job numbers are easily guessed, and execd uses an existing TMPDIR."""
    places = (("alpha", "transfer-beta", HOST), *(("beta", "all.q", f"beta-n{n}") for n in "12"))
    for cluster, queue, host in places:
        first = int(grid.submit("-h", cluster=cluster, script="true\n")) + 1
        plant = PLANT.format(first=first, last=first + PLANTED, queue=queue)
        grid.sh(host, plant, user="bob")
    out = grid.sh("alpha-master", "mktemp -u /home/alice/planted.XXXXXX", user="alice").strip()
    job = grid.transfer("-j", "y", "-o", out, script="date +%Y\necho $TMPDIR\nexit 3\n")
    status = grid.accounting(job)["exit_status"]
    year, tmpdir = grid.sh(HOST, f"cat {out}", user="alice").split()
    grid.cell("alpha", "qdel", "-u", "alice", user="root")
    grid.cell("beta", "qdel", "-u", "alice", user="root")
    for host in (HOST, "beta-n1", "beta-n2"):
        grid.sh(host, "rm -rf /tmp/*.1.transfer-beta /tmp/*.1.all.q")

    assert (status, year.isdigit()) == ("3", True)
    assert tmpdir in plant.replace("$n", tmpdir.split("/")[-1].split(".")[0])


def test_a_full_quota_affects_only_its_user(grid: Grid) -> None:
    """A file size limit stands for a quota. Each of bob's messages is written whole or not at all."""
    send = (
        "from gridbridge.model.transfer_messages_in_spool import TransferMessage;"
        "from gridbridge.state import spool;"
        "message = TransferMessage(kind='record', transfer='gb.alpha.1.0.1', at='1');"
        "spool.send_spool_message(message)"
    )
    python = "/opt/gridbridge/venv/bin/python3 -I -c"
    line = f'trap "" XFSZ; ulimit -f 0; {python} "{send}"'
    done = grid.on(HOST, "sh", "-c", line, user="bob")

    assert done.status == 1
    assert re.search(r"StateError: /var/spool/gridbridge/m\.\w+: File too large", done.err), done
    assert grid.sh(HOST, f"find {SPOOL} -user bob -type f") == ""


@pytest.mark.long
def test_records_reach_the_state_file_within_two_seconds(grid: Grid, running_job: Running) -> None:
    query = (
        "import sqlite3; rows = sqlite3.connect('file:/var/lib/gridbridge/state.db?mode=ro',"
        f" uri=True).execute('select at, text from events where name = \\'{running_job.name}\\'');"
        "print(*rows, sep='\\n')"
    )
    mtime = f"cd {SPOOL}; stat -c %.Y $(grep -l {running_job.name} m.*)"
    sent_at = float(grid.sh(HOST, mtime))
    rows = grid.sh(HOST, f'python3 -c "{query}"')
    end_latency_s(grid, running_job)

    assert "released" in rows
    stamp = re.search(r"\('?([^',]+)'?, 'submitted to beta as \d+, released'", rows)
    assert stamp, rows
    seen_at = float(grid.sh(HOST, f"date -ud '{stamp[1]}' +%s.%N"))
    assert 0 <= seen_at - sent_at < ARRIVAL_S


@pytest.fixture(scope="module")
def strange(grid: Grid) -> Iterator[None]:
    """Install programs of alice that record which user runs them."""
    grid.sh(HOST, STRANGE)
    yield
    grid.sh(HOST, f"rm -rf {HERS} /root/kept.toml")
    grid.require_ready()


@pytest.mark.usefixtures("strange")
def test_neither_root_nor_the_service_runs_programs_named_by_another_users_file(grid: Grid) -> None:
    """Root and the service run programs named in gridbridge.toml, so they check the owner of the file."""
    refused = len(grid.logged("event=misconfigured").splitlines())
    try:
        grid.sh(HOST, f"{OBEY}{STRANGERS['the file']}")
        told = {program: grid.on(HOST, *program.split()) for program in OBEYING}
        grid.until(
            lambda: len(grid.logged("event=misconfigured").splitlines()) > refused, "the service to refuse the file"
        )
        ran = grid.sh(HOST, f"cat {HERS}/ran")
    finally:
        grid.sh(HOST, BACK)

    assert ran == ""
    for program, done in told.items():
        words = done.out if program == "gridbridge check" else done.err
        assert (done.status, "Traceback" in done.err) == (2, False), (program, done)
        assert f"chown root {TOML}" in words, (program, done)
    assert told["gridbridge setup host"].err.count("\n") == 1


@pytest.mark.usefixtures("strange")
@pytest.mark.parametrize("how", STRANGERS.values(), ids=STRANGERS.keys())
def test_root_uses_no_configuration_that_another_user_could_have_written(grid: Grid, how: str) -> None:
    try:
        grid.sh(HOST, f"{OBEY}{how}")
        done = grid.on(HOST, "gridbridge", "setup", "transfer", "beta")
        ran = grid.sh(HOST, f"cat {HERS}/ran")
    finally:
        grid.sh(HOST, BACK)

    assert (done.status, done.out, done.err.count("\n"), ran) == (2, "", 1, "")
    assert f"others could have written {TOML}: " in done.err
    assert re.search(r"Check the file, then run: (chown( -h)? root|chmod go-w) /[a-z/.]+$", done.err)


SCRATCH = "/scratch/gridbridge"  # of delta's hosts: one filesystem there
PLANTS = "cd {place} && for n in $(seq {first} {last}); do mkdir -m 777 gb.alpha.$n.0.1; done"
SHARE = f"""mkdir -p {SCRATCH} /home/.scratch && chmod 1777 /home/.scratch
mount --bind /home/.scratch {SCRATCH}"""


@pytest.fixture
def scratch(grid: Grid) -> Iterator[None]:
    """Give delta's hosts a shared folder in which every user may create files."""
    with configured(grid, f's|^ssh = .delta-master.$|&\\nstage_dir = "{SCRATCH}"|'):
        for host in ("delta-master", "delta-n1"):
            grid.sh(host, SHARE)
        yield
        for host in ("delta-master", "delta-n1"):
            grid.sh(host, f"umount {SCRATCH}")
        grid.sh(FAR, "rm -rf /home/.scratch")


@pytest.mark.usefixtures("scratch", "open_to_delta")
@pytest.mark.long
def test_folders_planted_in_a_shared_stage_dir_stop_no_job(grid: Grid) -> None:
    """While bob holds alice's folder in stage_dir, her files are staged in her home."""
    options = ("-q", "transfer-delta", "-cwd", "-j", "y", "-ac", "stage_in=")
    held = grid.submit("-h", script="true\n")
    first = int(held) + 1
    plants = PLANTS.format(place=SCRATCH, first=first, last=first + PLANTED)
    grid.sh(FAR, f"{plants}; mkdir {SCRATCH}/al_delta", user="bo_delta")
    places, statuses = [], []
    for name in ("taken", "own"):
        grid.sh(HOST, f"rm -f {name}", user="alice")
        job = grid.submit(*options, "-o", name, script="pwd; exit 3\n")
        statuses.append(grid.accounting(job, limit_s=120)["exit_status"].split()[0])
        places.append(grid.sh(HOST, f"cat {name}", user="alice").strip())
        grid.sh(FAR, f"rmdir {SCRATCH}/al_delta 2>/dev/null || :", user="bo_delta")
    hers = plants.replace(SCRATCH, f"{SCRATCH}/al_delta")
    again = grid.on(FAR, "sh", "-c", hers, user="bo_delta")
    seen = grid.sh(FAR, f"stat -c '%U %a' {SCRATCH}/al_delta; ls {SCRATCH}/al_delta")
    grid.cell("alpha", "qdel", held, user="root")

    assert statuses == ["3", "3"]
    assert places[0].startswith("/home/al_delta/.gridbridge/stage/gb.alpha.")
    assert places[1].startswith(f"{SCRATCH}/al_delta/gb.alpha.")
    assert (again.status != 0, seen) == (True, "al_delta 700\n")


@pytest.mark.usefixtures("scratch", "open_to_delta")
@pytest.mark.long
def test_a_group_writable_stage_dir_is_not_used_until_it_is_sticky(grid: Grid) -> None:
    """Alice's job waits for an administrator to run the command that `why`, `check` and `setup` print."""
    mend = f"chmod +t {SCRATCH}"
    grid.sh(FAR, f"chgrp $(id -gn al_delta) {SCRATCH} && chmod 0775 {SCRATCH}")
    options = ("-q", "transfer-delta", "-cwd", "-j", "y", "-o", "loose")
    job = grid.submit(*options, script="exit 3\n")
    grid.until(lambda: mend in grid.on(HOST, "gridbridge", "why", job).out, "why to tell the line")
    items = json.loads(grid.on(HOST, "gridbridge", "check", "--json").out)["items"]
    setup = grid.on(HOST, "gridbridge", "setup", "transfer", "delta")
    made = grid.sh(FAR, f"ls {SCRATCH}")
    grid.sh(FAR, mend)
    end = grid.accounting(job, limit_s=120)

    (found,) = [one for one in items if one["name"] == "delta: stage_dir"]
    assert (found["state"], found["commands"], found["where"]) == ("broken", [mend], FAR)
    assert mend in setup.err
    assert (made, end["exit_status"].split()[0]) == ("", "3")
