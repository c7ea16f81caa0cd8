"""The lab starts, works, fails on demand, and stops without a trace on the machine.

These tests start and stop the machine's one lab. Run them on a machine where no other daemon starts
meanwhile, or in a PID namespace whose first process reaps orphans:
`unshare --pid --fork --mount-proc sh -c 'pytest ...; exit $?'`.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
LAB = CHECKOUT / "lab" / "lab"
NAME = "-".join(["gridbridge-lab", *filter(None, [os.environ.get("GRIDLAB")])])
RUN = Path("/run") / NAME
TRACES = (RUN, Path(f"/run/{NAME}.lock"), Path("/var/lib") / NAME)

VOLATILE_SYSCTLS = (  # counters and random numbers, which change by themselves
    "kernel/random/",
    "kernel/ns_last_pid",
    "kernel/pty/nr",
    "kernel/keys/",
    "kernel/sched_domain/",
    "net/netfilter/nf_conntrack_count",
)

pytestmark = [
    pytest.mark.lab_lifecycle,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    etc: dict[str, str]
    packages: str
    mounts: tuple[str, ...]
    interfaces: tuple[str, ...]
    sysctls: dict[str, str]
    firewall: str
    processes: frozenset[tuple[int, str]]
    network_namespaces: frozenset[str]


def run_lab(
    *arguments: str, lab: Path = LAB, text: str = "", limit_s: float = 120.0
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(lab), *arguments], input=text, text=True, capture_output=True, timeout=limit_s, check=False
    )


def must(*arguments: str, lab: Path = LAB) -> str:
    answer = run_lab(*arguments, lab=lab)
    if answer.returncode != 0:
        pytest.fail(f"lab {' '.join(arguments)}: {answer.stdout}{answer.stderr}\n{logs(lab)}")
    return answer.stdout


def logs(lab: Path) -> str:
    return run_lab("logs", lab=lab).stdout[-4000:]


def wait_for(check: Callable[[], object], limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not (last := check()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {limit_s:.0f} s: {last!r}")
        time.sleep(0.05)


def tell(*command: str) -> str:
    """Return the output of a program of the machine; empty when it is not installed."""
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:  # gone meanwhile, or a setting that can only be written
        return ""


def files_of(folder: str) -> dict[str, str]:
    paths = (Path(parent) / name for parent, _, names in os.walk(folder) for name in names)
    return {
        str(path): str(path.readlink()) if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.is_symlink() or path.is_file()
    }


def sysctls() -> dict[str, str]:
    root = Path("/proc/sys")
    paths = (path for part in ("net", "kernel") for path in (root / part).rglob("*"))
    names = {str(path.relative_to(root)): path for path in paths if path.is_file()}
    return {name: read(path) for name, path in names.items() if not name.startswith(VOLATILE_SYSCTLS)}


def parents() -> dict[int, tuple[int, str]]:
    """Return the parent and start time of each process by its id, without kernel threads."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        fields = read(folder / "stat").rpartition(")")[2].split()
        if fields and fields[0] not in "ZX" and read(folder / "cmdline"):
            found[int(folder.name)] = (int(fields[1]), fields[19])
    return found


def network_namespaces() -> frozenset[str]:
    handles = (target(folder / "ns" / "net") for folder in Path("/proc").glob("[0-9]*"))
    named = frozenset(tell("ip", "netns", "list").split())
    return named | frozenset(filter(None, handles))


def target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:  # the process is gone, or not even root may look at it
        return ""


def look() -> Machine:
    return Machine(
        etc=files_of("/etc"),
        packages=tell("dpkg-query", "--show"),
        mounts=tuple(read(Path("/proc/self/mounts")).splitlines()),
        interfaces=tuple(sorted(os.listdir("/sys/class/net"))),
        sysctls=sysctls(),
        firewall=tell("nft", "list", "ruleset") + tell("iptables-save"),
        processes=frozenset((pid, started) for pid, (_, started) in parents().items()),
        network_namespaces=network_namespaces(),
    )


def leftovers(before: Machine) -> list[str]:
    """Return new processes, except children of processes that were running before."""
    now = parents()
    strangers = {pid for pid, _ in before.processes} - {1, os.getpid()}
    fresh = [pid for pid, (_, started) in now.items() if (pid, started) not in before.processes]
    return [f"{pid} {read(Path(f'/proc/{pid}/cmdline'))}" for pid in fresh if not strangers & set(ancestors(pid, now))]


def ancestors(pid: int, processes: dict[int, tuple[int, str]]) -> Iterator[int]:
    while pid in processes:
        pid = processes[pid][0]
        yield pid


def assert_untouched(before: Machine) -> None:
    wait_for(lambda: not leftovers(before))
    after = look()

    assert before.etc == after.etc
    assert before.packages == after.packages
    assert before.mounts == after.mounts
    assert before.interfaces == after.interfaces
    assert before.sysctls == after.sysctls
    assert before.firewall == after.firewall
    assert frozenset() == after.network_namespaces - before.network_namespaces
    assert [] == [str(path) for path in TRACES if path.exists()]


@pytest.fixture(scope="module")
def before() -> Iterator[Machine]:
    must("down")
    yield look()
    must("down")


@pytest.fixture
def lab(before: Machine) -> None:
    must("up")


def qsub(host: str, *arguments: str) -> str:
    options = ("-terse", "-b", "y", "-j", "y", "-o", "/dev/null")
    return must("on", host, "-u", "alice", "--", "qsub", *options, *arguments).strip()


def state(host: str, job: str) -> str:
    rows = must("on", host, "-u", "alice", "--", "qstat").splitlines()[2:]
    return next((row.split()[4] for row in rows if row.split()[0] == job), "")


@pytest.mark.usefixtures("lab")
class TestWorking:
    def test_a_second_up_changes_nothing(self) -> None:
        records = {path.name: path.read_text() for path in RUN.glob("host.*")}
        rows = must("up").splitlines()

        assert records == {path.name: path.read_text() for path in RUN.glob("host.*")}
        assert {"was on"} == {row.split(maxsplit=2)[2] for row in rows}

    def test_up_restarts_stopped_daemons_and_hosts(self) -> None:
        must("on", "alpha-n1", "--", "labctl", "kill", "execd")
        must("on", "gamma-master", "--", "labctl", "kill", "oar-server")
        must("on", "delta-master", "--", "labctl", "kill", "sshd")
        must("power", "beta-n2", "cut")
        must("power", "gamma-n2", "cut")
        os.kill(int((RUN / "provider").read_text().split()[0]), signal.SIGKILL)
        sick = run_lab("status").returncode
        must("up")

        assert (1, 0) == (sick, run_lab("status").returncode)

    @pytest.mark.parametrize("host", ["alpha-master", "beta-master"])
    def test_a_job_is_accounted_as_soon_as_it_has_ended(self, host: str) -> None:
        command = ("qsub", "-sync", "y", "-b", "y", "-o", "/dev/null", "-j", "y", "hostname")
        answer = must("on", host, "-u", "alice", "--", *command)
        record = must("on", host, "-u", "alice", "--", "qacct", "-j", answer.split()[2])

        assert "exit_status  0" in record

    @pytest.mark.parametrize(("host", "cell", "port"), [("alpha-master", "beta", 6454), ("beta-master", "alpha", 6444)])
    def test_a_transfer_host_reaches_both_cells(self, host: str, cell: str, port: int) -> None:
        other = ("env", f"SGE_CELL={cell}", f"SGE_QMASTER_PORT={port}", "qconf", "-sh")

        assert ["alpha-master", "beta-master"] == must("on", host, "-u", "bob", "--", *other).split()

    def test_mail_is_kept_where_both_clusters_see_it(self) -> None:
        job = qsub("beta-master", "-m", "e", "-M", "alice", "true")
        search = ["on", "alpha-n1", "--", "grep", "-l", f"Subject: Job {job} ", "-r", "/home/.mail"]

        wait_for(lambda: run_lab(*search).returncode == 0)

    def test_a_host_of_the_reserve_joins_within_seconds(self) -> None:
        must("power", "alpha-n3", "on")
        job = qsub("alpha-master", "-q", "all.q@alpha-n3", "sleep", "60")

        wait_for(lambda: state("alpha-master", job) == "r")
        must("on", "alpha-master", "-u", "alice", "--", "qdel", job)
        must("power", "alpha-n3", "off")


@pytest.mark.usefixtures("lab")
class TestOn:
    """`lab on` gives a clean login without a terminal."""

    @pytest.mark.smoke
    def test_streams_and_exit_status_pass(self) -> None:
        script = "cat; echo problem >&2; exit 37"
        answer = run_lab("on", "alpha-n1", "-u", "bob", "--", "sh", "-c", script, text="hello\n")

        assert (37, "hello\n", "problem\n") == (answer.returncode, answer.stdout, answer.stderr)

    def test_the_callers_environment_is_not_passed_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTHONPATH", "/tmp/mine")
        shown = must("on", "beta-n1", "-u", "alice", "--", "sh", "-c", "pwd; id -un; env")
        cwd, user, *variables = shown.splitlines()

        assert ("/home/alice", "alice") == (cwd, user)
        assert {
            *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "MANPATH", "PWD"),
            *("SGE_ROOT", "SGE_CELL", "SGE_CLUSTER_NAME", "SGE_QMASTER_PORT", "SGE_EXECD_PORT"),
        } == {variable.partition("=")[0] for variable in variables}

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            pytest.param(("alpha-n1", "--", "sh", "-c", "kill -9 $$"), 137, id="killed"),
            pytest.param(("alpha-n1", "--", "no-such-program"), 127, id="unknown command"),
            pytest.param(("alpha-n1", "--", "/etc/passwd"), 126, id="not executable"),
            pytest.param(("alpha-n1", "-u", "zoe", "--", "true"), 125, id="unknown user"),
            pytest.param(("alpha-n6", "--", "true"), 125, id="host is off"),
            pytest.param(("omega", "--", "true"), 2, id="unknown host"),
        ],
    )
    def test_exit_statuses_are_as_documented(self, arguments: tuple[str, ...], expected: int) -> None:
        assert expected == run_lab("on", *arguments).returncode

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["TERM", "KILL"])
    def test_killing_it_ends_the_command_and_its_children(self, number: signal.Signals) -> None:
        command = [str(LAB), "on", "alpha-n2", "--", "sh", "-c", "sleep 4711; true"]
        search = ["on", "alpha-n2", "--", "pgrep", "-x", "-f", "sleep 4711"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as running:
            wait_for(lambda: run_lab(*search).returncode == 0)
            running.send_signal(number)

        wait_for(lambda: run_lab(*search).returncode == 1)


@pytest.mark.usefixtures("lab")
class TestFaults:
    @pytest.mark.smoke
    def test_a_power_cut_ends_jobs_and_keeps_the_disk(self) -> None:
        job = qsub("alpha-master", "-q", "all.q@alpha-n1", "sleep", "4712")
        wait_for(lambda: state("alpha-master", job) == "r")
        must("on", "alpha-n1", "--", "touch", "/var/tmp/kept")
        must("power", "alpha-n1", "cut")
        alive = [pid for pid in parents() if "sleep\x004712" in read(Path(f"/proc/{pid}/cmdline"))]
        must("power", "alpha-n1", "on")

        assert [] == alive
        assert must("on", "alpha-n1", "--", "ls", "/var/tmp/kept")
        wait_for(lambda: state("alpha-master", job) == "")

    def test_a_cut_network_hangs_and_heals(self) -> None:
        """Connections hang instead of being refused, so that clients run into their timeouts."""
        ask = ("on", "beta-n1", "--", "timeout", "5", "qstat", "-f")
        must("net", "beta-master", "cut")
        hanging = run_lab(*ask).returncode
        must("net", "beta-master", "heal")

        assert (124, 0) == (hanging, run_lab(*ask).returncode)

    def test_a_slow_network_still_works(self) -> None:
        must("net", "beta-master", "slow")
        slow = run_lab("status")
        must("net", "beta-master", "heal")

        assert "slow" in slow.stdout

    @pytest.mark.parametrize(
        ("host", "daemon"),
        [
            ("beta-master", "qmaster"),
            ("gamma-master", "postgresql"),
            ("gamma-master", "oar-server"),
            ("gamma-n1", "oar-node"),
            ("delta-master", "sshd"),
        ],
    )
    def test_a_frozen_daemon_is_reported_and_thaws(self, host: str, daemon: str) -> None:
        must("on", host, "--", "labctl", "freeze", daemon)
        frozen = run_lab("on", host, "--", "labctl", "status", daemon)
        must("on", host, "--", "labctl", "thaw", daemon)

        assert (1, f"{daemon} frozen\n") == (frozen.returncode, frozen.stdout)
        assert f"{daemon} up\n" == must("on", host, "--", "labctl", "status", daemon)

    def test_a_master_that_is_switched_off_cleanly_comes_back(self) -> None:
        must("power", "gamma-master", "off")
        must("power", "gamma-master", "on")

        assert run_lab("status").returncode == 0

    @pytest.mark.parametrize("offset", ["+2h", "-1d"])
    def test_a_daemon_runs_under_a_false_clock(self, offset: str) -> None:
        must("on", "beta-n1", "--", "labctl", "restart", "execd", "--faketime", offset)
        status = run_lab("on", "beta-n1", "--", "labctl", "status")
        must("on", "beta-n1", "--", "labctl", "restart", "execd")

        assert "execd up\n" == status.stdout


def rent(lab: Path = LAB) -> None:
    command = ("on", "alpha-master", "--", "/opt/gridlab/power-node", "create")
    assert run_lab(*command, lab=lab, text='{"name": "rented"}').returncode == 0
    wait_for(lambda: "running" in must("nodes", lab=lab))


def test_there_are_nine_labs_and_no_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRIDLAB", "10")

    refused = run_lab("status")

    assert (2, "GRIDLAB='10': 2 to 9, or nothing") == (refused.returncode, refused.stderr.strip().removeprefix("lab: "))


def test_another_checkout_takes_the_lab_over(lab: None, tmp_path: Path) -> None:
    """The lock in /run names the owning checkout. The former owner's commands are refused with the reason."""
    shutil.copytree(CHECKOUT / "lab", tmp_path / "lab")
    other = tmp_path / "lab" / "lab"
    rent()
    said = must("up", "alpha", lab=other)
    rented = must("nodes", lab=other)
    rent(other)
    refused = run_lab("on", "alpha-n1", "--", "true")
    must("down", lab=other)

    assert f"taking the lab over from {CHECKOUT}" in said
    assert "rented" not in rented
    assert refused.returncode == 125
    assert f"the lab belongs to {tmp_path}" in refused.stderr


@pytest.mark.parametrize("moment", ["keeper", "provider", "host.alpha-n2", "host.gamma-master"])
def test_down_clears_up_after_an_up_that_was_killed(before: Machine, moment: str) -> None:
    must("down")
    with subprocess.Popen([str(LAB), "up"], stdout=subprocess.DEVNULL) as running:
        wait_for(lambda: (RUN / moment).exists(), limit_s=60)
        running.kill()
    must("down")

    assert_untouched(before)


def test_up_recovers_from_an_up_that_was_killed(before: Machine) -> None:
    must("down")
    with subprocess.Popen([str(LAB), "up"], stdout=subprocess.DEVNULL) as running:
        wait_for(lambda: (RUN / "host.alpha-master").exists(), limit_s=60)
        running.kill()
    must("up")

    assert run_lab("status").returncode == 0


@pytest.mark.smoke
def test_down_leaves_the_machine_as_it_was(before: Machine) -> None:
    must("up")
    rent()
    must("down")

    assert_untouched(before)
