"""The bootstrap of a new machine, and the scripts in conf/bootstrap run on test files."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from gridbridge.elastic.machine_bootstrap import NewMachineBootstrap
from gridbridge.errors import ConfigError
from gridbridge.model.elastic.balancer_config_sections import MachineBootstrapSection
from gridbridge.model.elastic.elastic_nodes import MachineToJoinCell
from gridbridge.model.transfer_route import GridEngineCellAccess
from tests.builders.programs import write_program
from tests.docs.console import ROOT

CONF = Path(__file__).parents[2] / "conf"
NOBODY = 65534
NODE = MachineToJoinCell(name="alpha-n7", address="127.0.0.1")
CELL = GridEngineCellAccess(root="/", cell="c", qmaster_port="1", execd_port="2", binaries="", timeout_s=5)


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
        preparing.run_bootstrap_steps(NODE, ())
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
def hosts(tmp_path: Path) -> Path:
    """Return a hosts file in which one node name has two addresses, as cloud-init writes it."""
    path = tmp_path / "hosts"
    path.write_text(BEFORE)
    return path


def test_each_node_name_is_in_the_hosts_file_once(hosts: Path) -> None:
    """Grid Engine uses the first address of a name, and a host on 127.0.1.1 never reports."""
    told = "10.0.0.5 alpha-n5\n10.0.0.6 alpha-n6\n10.0.0.1 alpha-master\n"
    done("names", told, "/etc/hosts", hosts)
    once = hosts.read_text()
    done("names", told, "/etc/hosts", hosts)

    kept = "127.0.0.1 localhost\n# 10.0.0.9 alpha-n5\n\n127.0.1.1 alpha-n5.local \n"
    assert f"{kept}10.0.0.7\tother\n{told}" == once == hosts.read_text()


def test_without_names_the_hosts_file_is_unchanged(hosts: Path) -> None:
    done("names", "", "/etc/hosts", hosts)

    assert BEFORE == hosts.read_text()


def test_the_hosts_file_is_readable_for_all_despite_a_narrow_umask(hosts: Path) -> None:
    done("names", "10.0.0.8 alpha-n8\n", "/etc/hosts", hosts, umask=0o077)

    assert 0o644 == os.stat(hosts).st_mode & 0o777


def test_folders_above_a_mount_point_are_accessible_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mount").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    table, folder = tmp_path / "fstab", tmp_path / "export"
    done("mounts", f"server:/home {folder}/home nfs\n", "/etc/fstab", table, umask=0o077)

    assert f"server:/home {folder}/home nfs\n" == table.read_text()
    assert 0o755 == os.stat(folder).st_mode & 0o777


def test_many_names_are_written_within_the_time_limit_of_a_step(hosts: Path) -> None:
    told = "".join(f"10.1.{at // 250}.{at % 250} host{at}\n" for at in range(5000))
    began = time.monotonic()
    done("names", told, "/etc/hosts", hosts)

    assert hosts.read_text().endswith(told)
    assert time.monotonic() - began < 10
