"""The bootstrap scripts in conf/bootstrap, run on test files in place of a machine's files."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.docs.console import ROOT

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
