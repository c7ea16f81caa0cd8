"""A command is relayed to another host by the caller's own ssh."""

from pathlib import Path

import pytest

from gridbridge.shell import ssh

RECORD = 'for word; do echo "<$word>"; done >"${0%/*}/words"; cat >"${0%/*}/stdin"'


def client(folder: Path, script: str = RECORD) -> str:
    path = folder / "ssh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_relayed_command_keeps_its_arguments_and_input(tmp_path: Path) -> None:
    status = ssh.run_by_callers_ssh(
        "login.b", ("gridstat", "it's $HOME", "-s"), b"a\0b", client(tmp_path, f"{RECORD}; exit 7")
    )

    words = (tmp_path / "words").read_text().splitlines()
    assert (status, words) == (7, ["<-T>", "<-->", "<login.b>", "<'gridstat' 'it'\\''s $HOME' '-s'>"])
    assert (tmp_path / "stdin").read_bytes() == b"a\0b"


def test_a_relay_host_may_have_a_port(tmp_path: Path) -> None:
    ssh.run_by_callers_ssh("login.b:2222", ("x",), b"", client(tmp_path))

    assert (tmp_path / "words").read_text().split()[:5] == ["<-T>", "<-p>", "<2222>", "<-->", "<login.b>"]


@pytest.mark.parametrize("name", ["nothing", "."])
def test_an_ssh_client_that_cannot_run_is_unreached(tmp_path: Path, name: str) -> None:
    assert ssh.run_by_callers_ssh("b", ("x",), b"", str(tmp_path / name)) == ssh.UNREACHED


@pytest.mark.parametrize(
    ("reads", "data", "status"),
    [
        ("", b"a", ssh.UNREACHED),
        ("head -c 1 >/dev/null", b"a", ssh.RELAY_FAILED),
        ("", b"", ssh.RELAY_FAILED),
        ("", None, ssh.RELAY_FAILED),
    ],
)
def test_unread_input_proves_that_the_relay_did_not_start(
    tmp_path: Path, reads: str, data: bytes | None, status: int
) -> None:
    """ssh(1) reads input after its session is open. Without input the start stays unknown."""
    path = client(tmp_path, f"{reads}\nexit 255")

    assert ssh.run_by_callers_ssh("b", ("x",), data, path) == status


def test_a_relay_to_a_closed_port_is_unreached() -> None:
    assert ssh.run_by_callers_ssh("127.0.0.1:1", ("x",), b"a") == ssh.UNREACHED


@pytest.mark.parametrize(
    ("script", "status", "files"),
    [
        ("mkdir out/0; echo b >out/0/b; echo done; exit 3", 3, {"said", "out/0/b"}),
        ("kill -9 $PPID", ssh.RELAY_FAILED, set()),
    ],
)
def test_files_written_by_a_relayed_command_are_fetched(
    tmp_path: Path, script: str, status: int, files: set[str]
) -> None:
    folder, spare = tmp_path / "here", tmp_path / "there"
    for each in (folder, spare):
        each.mkdir()
    runs_it = client(tmp_path, f'while [ "$1" != -- ]; do shift; done; export TMPDIR={spare}; eval "$3"')

    found = ssh.run_remotely_and_fetch_files("b", ("/bin/sh", "-c", script), str(folder), runs_it)

    there = {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
    assert (found, there) == (status, files)
    assert not list(spare.iterdir()) or status == ssh.RELAY_FAILED
