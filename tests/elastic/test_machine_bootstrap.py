"""The bootstrap of a new machine."""

import os
import shutil
import subprocess
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
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    words, path = ("/bin/sh", "-c", text, "execd", "/", "c"), f"{programs}:/usr/bin:/bin"

    with named("sge_execd"):
        subprocess.run(words, env={"PATH": path}, check=False, capture_output=True)

    assert begun.exists()
