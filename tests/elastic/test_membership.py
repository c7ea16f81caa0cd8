"""How a host joins a cell and leaves a cell, and the scripts in conf/bootstrap run on test files."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from threading import Barrier, BrokenBarrierError

import pytest

from gridbridge.batch.gridengine import host_membership
from gridbridge.batch.gridengine.execution_hosts import HostQueueInstance
from gridbridge.batch.gridengine.host_membership import GridEngineHostMembership
from gridbridge.batch.gridengine.machine_bootstrap import NewMachineBootstrap
from gridbridge.errors import ConfigError, NewHostInNoQueue, NewMachineAddressInUse, TasksOnLostHost
from gridbridge.model.elastic.balancer_config_sections import MachineBootstrapSection
from gridbridge.model.elastic.elastic_nodes import HostJoinStep, MachineToJoinCell
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from tests.builders.programs import write_program
from tests.docs.console import ROOT

PORTS = {"qmaster_port": "1", "execd_port": "2"}
CELL = GridEngineCellAccessSettings(root="/", cell="c", binaries="", timeout_s=5, **PORTS)


class Hosts:
    """A fake of batch.gridengine.execution_hosts that has one host and records calls."""

    def __init__(self, *instances: HostQueueInstance) -> None:
        self.there = instances
        self.done: list[str] = []

    def query_host_queue_instances(self, *_: object) -> tuple[HostQueueInstance, ...]:
        return self.there

    def list_execution_hosts(self, *_: object) -> tuple[str, ...]:
        return ("n1",)

    def is_execd_up(self, *_: object) -> bool:
        return True

    def set_queue_slots(self, _: object, host: str, queue: str, slots: int) -> None:
        self.done.append(f"{queue}@{host} {slots}")

    def place_host_last_in_queues(self, _: object, host: str, queues: tuple[str, ...]) -> None:
        self.done.append(f"{' '.join(queues)} @{host} after the others")

    def enable_host_queues(self, _: object, host: str, closed: frozenset[str]) -> tuple[str, ...]:
        self.done.append(f"open {host}")
        return tuple(one.queue for one in self.there if one.queue in closed)

    def reschedule_instance_tasks(self, _: object, host: str, queue: str) -> None:
        self.done.append(f"put back {queue}@{host}")

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


USUAL = HostQueueInstance(queue="all.q", slots=2, is_used=False, is_disabled=True)
BEST_EFFORT = replace(USUAL, queue="gb-be1", is_best_effort=True)
PREPARING = NewMachineBootstrap(settings=MachineBootstrapSection(), cell=CELL)
SITE = GridEngineHostMembership(cell=CELL, preparing=PREPARING, root=lambda *_: None)
N1 = MachineToJoinCell(name="n1", address="10.0.0.9", slots=4)


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """Put a fake cell with a usual queue in place of the cell of SITE."""
    hosts = Hosts(USUAL)
    monkeypatch.setattr(host_membership, "execution_hosts", hosts)
    monkeypatch.setattr(host_membership, "resolve_host_address", lambda _: "10.0.0.9")
    return hosts


@pytest.mark.parametrize(
    ("instances", "queues", "expected"),
    [
        ((USUAL, BEST_EFFORT), (), ["all.q@n1 4", "open n1"]),
        ((USUAL, BEST_EFFORT), ("long.q",), ["long.q@n1 4", "open n1"]),
        ((BEST_EFFORT,), (), ["open n1"]),
    ],
)
def test_a_new_host_gets_its_slots_in_each_queue(
    hosts: Hosts, instances: tuple[HostQueueInstance, ...], queues: tuple[str, ...], expected: list[str]
) -> None:
    """A pool without queues uses the queues of the host groups, except best-effort queues."""
    hosts.there = instances

    assert SITE.join_host_to_cluster(replace(N1, queues=queues)) is HostJoinStep.JOINED
    assert hosts.done == expected


def test_a_host_filled_last_is_placed_in_the_queues_before_it_is_opened(hosts: Hosts) -> None:
    hosts.there = (USUAL, replace(USUAL, queue="long.q"))
    SITE.join_host_to_cluster(replace(N1, is_filled_last=True))

    expected = ["all.q@n1 4", "long.q@n1 4", "all.q long.q @n1 after the others", "open n1"]
    assert hosts.done == expected


def test_parallel_joins_place_hosts_in_queues_one_after_the_other(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second host must see the sequence number of the first."""
    meet = Barrier(2)

    def place_host_last_in_queues(_: object, host: str, queues: tuple[str, ...]) -> None:
        with suppress(BrokenBarrierError):
            meet.wait(0.2)
            hosts.done.append(f"{queues}@{host} with another")

    monkeypatch.setattr(hosts, "place_host_last_in_queues", place_host_last_in_queues)
    monkeypatch.setattr(hosts, "list_execution_hosts", lambda *_: ("n1", "n2"))
    nodes = [replace(N1, name=name, is_filled_last=True) for name in ("n1", "n2")]
    with ThreadPoolExecutor(2) as threads:
        done = list(threads.map(SITE.join_host_to_cluster, nodes))

    assert done == [HostJoinStep.JOINED] * 2
    assert not [one for one in hosts.done if "another" in one]


@pytest.mark.parametrize("joins", [False, True], ids=["both leave", "one joins"])
def test_queues_are_changed_for_one_host_at_a_time(hosts: Hosts, monkeypatch: pytest.MonkeyPatch, joins: bool) -> None:
    """Grid Engine rewrites whole queues when a host leaves, and would lose a parallel change."""
    meet = Barrier(2)

    def change(*_: object) -> None:
        with suppress(BrokenBarrierError):
            meet.wait(0.2)
            hosts.done.append("with another")

    for name in ("leave_queues", "set_slots"):
        monkeypatch.setattr(hosts, name, change)
    monkeypatch.setattr(GridEngineHostMembership, "_empty_host_or_say_what_is_in_use", lambda *_, **__: "")
    with ThreadPoolExecutor(2) as threads:
        ends = [threads.submit(SITE.remove_host, "n2", is_dead=True)]
        ends.append(
            threads.submit(SITE.join_host_to_cluster, N1)
            if joins
            else threads.submit(SITE.remove_host, "n3", is_dead=True)
        )
    assert [one.exception() for one in ends] == [None, None]
    assert "with another" not in hosts.done


def test_a_new_host_in_no_queue_is_an_error(hosts: Hosts) -> None:
    hosts.there = ()

    with pytest.raises(NewHostInNoQueue, match=r"^n1 is in no queue: .* has n1 or @a or @b$"):
        SITE.join_host_to_cluster(replace(N1, hostgroups=("@a", "@b")))


@pytest.mark.parametrize("taken", ["n2", "n2.site", "nfs1", socket.gethostname()])
def test_a_machine_with_the_address_of_another_host_is_not_prepared(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, taken: str
) -> None:
    """A wrong machine list must not lead to a login on the file server or the master."""
    (tmp_path / "mounts").write_text("# of the site\nnfs1:/home /home nfs defaults 0 0\n")
    monkeypatch.setattr(hosts, "list_execution_hosts", lambda *_: ("n2", "n2.site"))
    done = list[tuple[object, ...]]()
    settings = MachineBootstrapSection(steps="mounts", mounts=str(tmp_path / "mounts"))
    cell = replace(
        SITE, preparing=NewMachineBootstrap(settings=settings, cell=CELL), root=lambda *words: done.append(words)
    )
    monkeypatch.setattr(host_membership, "resolve_host_address", {taken: "10.0.0.9"}.get)

    with pytest.raises(NewMachineAddressInUse):
        cell.join_host_to_cluster(N1)
    assert (done, hosts.done) == ([], [])


def test_a_machine_may_have_the_address_of_a_silent_host(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clouds reuse the addresses of deleted machines."""
    monkeypatch.setattr(hosts, "list_execution_hosts", lambda *_: ("n2",))
    monkeypatch.setattr(hosts, "is_execd_up", lambda *_: False)
    monkeypatch.setattr(host_membership, "resolve_host_address", {"n1": "10.0.0.9", "n2": "10.0.0.9"}.get)

    assert SITE.join_host_to_cluster(N1) is HostJoinStep.ADMITTED


def test_a_disabled_queue_stays_closed_on_a_new_host(hosts: Hosts) -> None:
    closed = frozenset(("all.q", "long.q"))

    assert SITE.join_host_to_cluster(replace(N1, closed=closed)) is HostJoinStep.CLOSED


def test_the_error_about_a_lost_host_names_only_the_tasks_on_the_host(hosts: Hosts) -> None:
    """Other tasks of the same arrays run on other hosts."""
    tasks = ("61", "62.3", "61")  # a parallel job has a row for each queue
    hosts.there = (replace(USUAL, is_used=True, tasks=tasks),)

    with pytest.raises(TasksOnLostHost, match=r"^n1 is gone with tasks 61 62\.3: `qdel -f 61 62\.3` ends"):
        SITE.remove_host("n1", is_dead=True)
    assert hosts.done == ["put back all.q@n1"]


def test_rescheduled_tasks_of_a_lost_host_do_not_delay_its_removal(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.there = (replace(USUAL, is_used=True, tasks=("62.3",)),)
    monkeypatch.setattr(hosts, "reschedule_instance_tasks", lambda *_: setattr(hosts, "there", ()))

    assert SITE.remove_host("n1", is_dead=True) == ""


@pytest.mark.parametrize(
    ("granted", "is_idle"),
    [({"all.q@n1": 1}, False), ({"all.q@n1.site": 2}, False), ({"all.q@n11": 1}, True), ({}, True)],
)
def test_a_host_with_reserved_slots_is_not_idle(
    hosts: Hosts, granted: dict[str, int], is_idle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reservation may begin later."""
    monkeypatch.setattr(host_membership.cell_configuration_reader, "query_advance_reserved_slots", lambda _: granted)

    assert SITE.check_host_before_removal("n1").is_idle is is_idle


QCONF = """#!/bin/sh
echo "$*" >>"$0.log"
case $1 in
-sel) [ -e "$0.gone" ] && echo "no execution host defined" || echo n1 ;;
-de) [ -e "$0.named" ] && echo 'Host object "n1" is still referenced in "@site"' && exit 1
    touch "$0.gone" ;;
-shgrpl) echo "no host group defined" ;;
-sh | -ss) echo master ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return the programs' folder of a cell with one idle host; its qconf records calls."""
    for name, text in (("qconf", QCONF), ("qstat", "#!/bin/sh\nexit 1\n")):
        write_program(tmp_path / name, text)
    return tmp_path


def leave(programs: Path, *, is_dead: bool = False) -> tuple[str, list[str]]:
    cell = GridEngineCellAccessSettings(root=str(programs), cell="c", binaries=str(programs), timeout_s=30, **PORTS)
    site = replace(SITE, cell=cell)
    told = site.remove_host("n1", is_dead=is_dead)
    calls = (programs / "qconf.log").read_text().splitlines()
    return told, [one for one in calls if not one.startswith("-s")]


@pytest.mark.parametrize(("is_dead", "calls"), [(False, ["-ke n1", "-de n1"]), (True, ["-de n1"])])
def test_the_daemon_of_a_living_host_is_stopped_before_the_removal(
    programs: Path, is_dead: bool, calls: list[str]
) -> None:
    """A running daemon registers its host again (qconf(1), -ke)."""
    assert leave(programs, is_dead=is_dead) == ("", calls)


def test_an_object_that_refers_to_the_host_is_reported_with_a_command(programs: Path) -> None:
    (programs / "qconf.named").touch()

    told, _ = leave(programs)

    why = 'Host object "n1" is still referenced in "@site"; `qconf -de n1` shows this message'
    assert told == why


def test_best_effort_tasks_that_do_not_end_are_reported_with_a_command(hosts: Hosts) -> None:
    hosts.there = (replace(BEST_EFFORT, is_used=True, tasks=("61",)),)

    told = SITE.remove_host("n1", is_dead=False)

    why = "slots are in use in gb-be1: `qstat -u '*' -s rs -q '*@n1'` shows the tasks"
    assert told == why


CONF = Path(__file__).parents[2] / "conf"
NOBODY = 65534
NEW = MachineToJoinCell(name="alpha-n7", address="127.0.0.1")


@contextmanager
def named(name: str) -> Iterator[None]:
    line = f"printf {name} >/proc/$$/comm && echo done && read -r end"
    somebody = NOBODY if os.geteuid() == 0 else None
    argv = ("/bin/sh", "-c", line)
    with subprocess.Popen(argv, user=somebody, cwd="/", stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"done\n"
        yield


def said(preparing: NewMachineBootstrap) -> str:
    with pytest.raises(ConfigError) as told:
        preparing.run_bootstrap_steps(NEW, ())
    return str(told.value)


def test_a_missing_or_binary_file_is_reported_with_its_configuration_key(tmp_path: Path) -> None:
    mounts = tmp_path / "fstab"
    settings = MachineBootstrapSection(steps="mounts", mounts=str(mounts))
    preparing = NewMachineBootstrap(settings=settings, cell=CELL)

    assert f"[bootstrap] mounts: {mounts}: No such file or directory" == said(preparing)
    mounts.write_bytes(b"\xff")
    assert f"[bootstrap] mounts: {mounts}: no UTF-8" == said(preparing)


def test_a_process_of_another_user_named_like_the_daemon_is_ignored(tmp_path: Path) -> None:
    begun, programs = tmp_path / "begun", tmp_path / "bin"
    programs.mkdir()
    text = (CONF / "bootstrap" / "execd").read_text()
    text = text.replace("/etc/init.d/gridengine-exec start", f"touch {begun}")
    beside = f'exec {shutil.which("pgrep")} -P {os.getpid()} "$@"'  # no daemons of this machine
    for name, line in (("pgrep", beside), ("sed", "exit 0"), ("install", "exit 0")):
        write_program(programs / name, f"#!/bin/sh\n{line}\n")
    words, path = ("/bin/sh", "-c", text, "execd", "/", "c"), f"{programs}:/usr/bin:/bin"

    with named("sge_execd"):
        subprocess.run(words, env={"PATH": path}, check=False, capture_output=True)

    assert begun.exists()


BEFORE = """\
127.0.0.1 localhost
# 10.0.0.9 alpha-n5

127.0.1.1 alpha-n5.local alpha-n5
127.0.1.2 alpha-n6
10.0.0.5 alpha-n5
10.0.0.7\tother
"""


def done(step: str, told: str, place: str, path: Path, umask: int = 0o022) -> None:
    text = (ROOT / "conf/bootstrap" / step).read_text().replace(place, str(path))
    call = ("sh", "-c", text, step)
    subprocess.run(call, input=told.encode(), check=True, umask=umask, timeout=60)


@pytest.fixture
def hosts_file(tmp_path: Path) -> Path:
    """Return a hosts file in which one node name has two addresses, as cloud-init writes it."""
    path = tmp_path / "hosts"
    path.write_text(BEFORE)
    return path


def test_each_node_name_is_in_the_hosts_file_once(hosts_file: Path) -> None:
    """Grid Engine uses the first address of a name, and a host on 127.0.1.1 never reports."""
    told = "10.0.0.5 alpha-n5\n10.0.0.6 alpha-n6\n10.0.0.1 alpha-master\n"
    done("names", told, "/etc/hosts", hosts_file)
    once = hosts_file.read_text()
    done("names", told, "/etc/hosts", hosts_file)

    kept = "127.0.0.1 localhost\n# 10.0.0.9 alpha-n5\n\n127.0.1.1 alpha-n5.local \n"
    assert f"{kept}10.0.0.7\tother\n{told}" == once == hosts_file.read_text()


def test_without_names_the_hosts_file_is_unchanged(hosts_file: Path) -> None:
    done("names", "", "/etc/hosts", hosts_file)

    assert BEFORE == hosts_file.read_text()


def test_the_hosts_file_is_readable_for_all_despite_a_narrow_umask(hosts_file: Path) -> None:
    done("names", "10.0.0.8 alpha-n8\n", "/etc/hosts", hosts_file, umask=0o077)

    assert 0o644 == os.stat(hosts_file).st_mode & 0o777


def test_folders_above_a_mount_point_are_accessible_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mount").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    table, folder = tmp_path / "fstab", tmp_path / "export"
    done("mounts", f"server:/home {folder}/home nfs\n", "/etc/fstab", table, umask=0o077)

    assert f"server:/home {folder}/home nfs\n" == table.read_text()
    assert 0o755 == os.stat(folder).st_mode & 0o777


def test_many_names_are_written_within_the_time_limit_of_a_step(hosts_file: Path) -> None:
    told = "".join(f"10.1.{at // 250}.{at % 250} host{at}\n" for at in range(5000))
    began = time.monotonic()
    done("names", told, "/etc/hosts", hosts_file)

    assert hosts_file.read_text().endswith(told)
    assert time.monotonic() - began < 10
