"""gridbridge-as-root: the balancer's verbs, and the check of every argument."""

import os
import shlex
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.errors import FileWritableByOthers
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.privileged import as_root, hosts_file_block
from gridbridge.privileged.as_root import AsRootRequestRefusal, NameLookupFailure
from gridbridge.privileged.hosts_file_block import BEGIN, END, HostsFile

CONF = Path(__file__).parents[2] / "conf"
OTHERS = "127.0.0.1 localhost\n10.0.0.1 master m # not alpha-n7\n"
ONE = f"{OTHERS}{BEGIN}\n10.0.0.7 alpha-n7\n{END}\n"


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_text(OTHERS)
    return path


def ask(hosts: Path, *words: str, path: Path = Path(CONFIG)) -> None:
    as_root.perform_as_root_request(words, HostsFile(str(hosts), f"{hosts.parent}/lock"), str(path))


def test_name_and_unname_change_only_our_block_of_the_hosts_file(hosts: Path) -> None:
    told = []
    for words in (
        ("name", "alpha-n7", "10.0.0.7"),
        ("name", "alpha-n7", "10.0.0.7"),
        ("unname", "alpha-n7"),
        ("unname", "alpha-n7"),
    ):
        ask(hosts, *words)
        told.append(hosts.read_text())

    assert [ONE, ONE, OTHERS, OTHERS] == told


@pytest.mark.parametrize(
    "others", ["# page\x0c10.0.0.9 b\n", "10.0.0.1 master\r\n", "# a\u20282\x0b3\n", "\n\n# b\n\n", ""]
)
def test_other_lines_of_the_hosts_file_stay_unchanged(hosts: Path, others: str) -> None:
    hosts.write_bytes(others.encode())

    ask(hosts, "name", "alpha-n7", "10.0.0.7")
    assert hosts.read_bytes().startswith(others.encode())
    ask(hosts, "unname", "alpha-n7")
    assert hosts.read_bytes() == others.encode()


@pytest.mark.parametrize("new", [("alpha-n7", "10.0.0.8"), ("alpha-n8", "10.0.0.7")])
def test_a_name_or_address_has_only_one_line(hosts: Path, new: tuple[str, str]) -> None:
    """A qmaster admits no host whose address resolves to another name."""
    hosts.write_text(ONE)

    ask(hosts, "name", *new)
    assert hosts.read_text() == f"{OTHERS}{BEGIN}\n{new[1]} {new[0]}\n{END}\n"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("run", "alpha-n7"),
        ("name", "alpha-n7"),
        ("name", "alpha-n7", "10.0.0.7", "more"),
        ("name", "alpha n7", "10.0.0.7"),
        ("name", "a\n10.0.0.1", "10.0.0.7"),
        ("name", "-x", "10.0.0.7"),
        ("name", "a" * 254, "10.0.0.7"),
        ("name", "localhost", "10.0.0.7"),
        ("name", "alpha-n7", "10.0.0.7 master"),
        ("name", "alpha-n7", "10.0.0"),
        ("name", "master", "10.0.0.7"),
        ("name", "MASTER", "10.0.0.7"),
        ("name", "Localhost", "10.0.0.7"),
        ("name", "alpha-n7", "127.0.0.9"),
        ("name", "alpha-n7", "0.0.0.0"),
        ("name", "alpha-n7", "224.0.0.1"),
        ("name", "alpha-n7", "::ffff:127.0.0.1"),
        ("name", "alpha-n7", "fe80::1%eth0"),
        ("name", "alpha-n7", f"fe80::1%x\n{END}\n10.0.0.9 storage\n# x"),
        ("name", "alpha-n7", "10.0.0.1"),
        ("unname", "../hosts"),
        ("export", "alpha-n7;reboot"),
        ("export",),
    ],
)
def test_wrong_arguments_of_as_root_change_nothing(hosts: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(AsRootRequestRefusal):
        ask(hosts, *words)

    assert hosts.read_text() == OTHERS


@pytest.mark.parametrize(
    ("host", "leads", "is_named"),
    [
        ("alpha-n7", "192.0.2.1", True),  # what the balancer calls its nodes
        ("big", "192.0.2.1", False),
        ("big", "10.0.0.7", True),
        ("alpha-nfs", "192.0.2.1", False),
    ],
)
def test_no_name_of_another_machine_is_reassigned(
    host: str, leads: str, is_named: bool, hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stolen account could otherwise let the master mount a folder from its own machine."""
    settings = hosts.parent / "gridbridge.toml"
    settings.write_text('[site]\ncluster = "alpha"\n')
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [(0, 0, 0, "", (leads, 0))])

    refusal = nullcontext() if is_named else pytest.raises(AsRootRequestRefusal)
    with refusal:
        ask(hosts, "name", host, "10.0.0.7", path=settings)

    assert (f"10.0.0.7 {host}\n" in hosts.read_text()) == is_named


@pytest.mark.parametrize(
    "error",
    [
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
        socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure in name resolution"),
        socket.gaierror(socket.EAI_SYSTEM, "System error"),
        OSError(16, "Device or resource busy"),
    ],
    ids=["again", "fail", "system", "busy"],
)
@pytest.mark.parametrize("silent", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def test_no_name_is_assigned_while_the_name_service_is_silent(
    hosts: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, silent: int
) -> None:
    def lookup(host: str, port: None, family: int) -> list[object]:
        assert (host, port) == ("big", None)
        raise error if family == silent else socket.gaierror(socket.EAI_NODATA, "no address")

    monkeypatch.setattr(as_root.socket, "getaddrinfo", lookup)
    with pytest.raises(NameLookupFailure, match=f"big: no name service says .*{error.strerror}"):
        ask(hosts, "name", "big", "10.0.0.7")

    assert hosts.read_text() == OTHERS


@pytest.mark.parametrize("errno", [socket.EAI_NONAME, socket.EAI_NODATA])
def test_a_name_unknown_to_the_name_service_is_assigned(
    hosts: Path, monkeypatch: pytest.MonkeyPatch, errno: int
) -> None:
    unknown = socket.gaierror(errno, "Name or service not known")
    monkeypatch.setattr(as_root.socket, "getaddrinfo", Mock(side_effect=unknown))
    ask(hosts, "name", "big", "10.0.0.7")

    assert "10.0.0.7 big\n" in hosts.read_text()


SERVER = """
import socket, struct, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("ready", flush=True)
while True:
    asked, asker = server.recvfrom(4096)
    if code := 3 if b"invalid" in asked else int(sys.argv[1]):
        head = struct.pack(">HHHHH", 0x8580 | code, 1, 0, 0, 0)
        server.sendto(asked[:2] + head + asked[12 : asked.index(b"\\0", 12) + 5], asker)
"""
ASK = """
import resource, socket, sys
from gridbridge.privileged import as_root, hosts_file_block
held = []
if sys.argv[1] == "hold":
    for port in range(40000, 40011):
        for family in (socket.AF_INET, socket.AF_INET6):
            held.append(socket.socket(family, socket.SOCK_DGRAM))
            if family == socket.AF_INET6:
                held[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            held[-1].bind(("", port))
if sys.argv[1] == "files":
    "x".encode("idna")
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
def ask(*_):
    try:
        print("nobody's" if not as_root._look_up_host_addresses("fileserver") else "somebody's")
    except as_root.NameLookupFailure as error:
        print("not known")
as_root.perform_as_root_request, sys.argv = ask, sys.argv[:1]
as_root.main()
"""
MAIN = """
import atexit, os
from gridbridge.privileged import as_root, hosts_file_block
atexit.register(lambda: print(dict(os.environ)))
as_root.main()
"""
OURS = """
set -e
mount --make-rprivate /
mount --bind {0}/resolv.conf /etc/resolv.conf
mount --bind {0}/nsswitch.conf /etc/nsswitch.conf
mount --bind {0}/hosts /etc/hosts
ip link set lo up
echo 40000 40010 >/proc/sys/net/ipv4/ip_local_port_range
if [ -n "$2" ]; then
    mkfifo {0}/ready.$$
    {1} {0}/server.py "$2" >{0}/ready.$$ &
    read -r _ <{0}/ready.$$
fi
{1} {0}/ask.py "$1"
[ -z "$2" ] || kill $!
"""


def test_as_root_clears_its_environment_first() -> None:
    argv, environment = (sys.executable, "-c", MAIN, "name"), os.environ | {"HOSTALIASES": "/x"}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "{}\n")


@pytest.mark.skipif(os.getuid() != 0, reason="a network of its own needs root")
@pytest.mark.parametrize(
    ("trouble", "answer", "told"),
    [
        ("", "3", "nobody's"),  # no such name
        ("", "2", "not known"),  # its server failed
        ("", "5", "not known"),  # refused
        ("", "0", "not known"),  # silent
        ("", "", "not known"),  # nobody listens there
        ("hold", "3", "not known"),  # all ports are held
        ("files", "0", "not known"),
        ("files", "3", "nobody's"),  # the caller's limit of files is lifted
    ],
)
def test_a_real_resolver_tells_an_unknown_name_from_a_failure(
    tmp_path: Path, trouble: str, answer: str, told: str
) -> None:
    """The test runs in its own network and mount namespace; HOSTALIASES tries to redirect the name."""
    files = {
        "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
        "nsswitch.conf": "hosts: files dns\n",
        "hosts": "127.0.0.1 localhost\n",
        "aliases": "fileserver nobody.invalid\n",
        "server.py": SERVER,
        "ask.py": ASK,
        "all.sh": OURS.format(shlex.quote(str(tmp_path)), shlex.quote(sys.executable)),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["unshare", "-mn", "sh", str(tmp_path / "all.sh"), trouble, answer],
        env={**os.environ, "HOSTALIASES": str(tmp_path / "aliases")},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )

    assert done.stdout == f"{told}\n"


def test_a_name_in_our_block_may_get_another_address(hosts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [(0, 0, 0, "", ("10.0.0.7", 0))])
    hosts.write_text(ONE.replace("7 alpha-n7", "7 big"))

    ask(hosts, "name", "big", "10.0.0.8")
    assert "10.0.0.8 big\n" in hosts.read_text()


def test_the_lock_of_the_hosts_file_is_private(hosts: Path, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch(0o644)

    hosts_file_block.replace_hosts_block_locked(HostsFile(str(hosts), str(lock)), lambda _, block: block)

    assert lock.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("half", [f"{BEGIN}\n", f"{END}\n", f"{END}\n{BEGIN}\n"])
def test_an_incomplete_block_is_refused(hosts: Path, half: str) -> None:
    hosts.write_text(OTHERS + half)

    with pytest.raises(AsRootRequestRefusal, match=r"block|before"):
        ask(hosts, "unname", "alpha-n7")
    assert hosts.read_text() == OTHERS + half


def test_the_export_program_gets_only_the_host_name(hosts: Path, tmp_path: Path) -> None:
    program, settings = tmp_path / "export", tmp_path / "gridbridge.toml"
    program.write_text(f'#!/bin/sh\necho "$#" "$@" >{tmp_path}/told\n')
    program.chmod(0o755)
    settings.write_text(f'[site]\ncluster = "a"\n[bootstrap]\nexport = "{program}"\n')

    for verb in ("export", "unexport"):
        ask(hosts, verb, "alpha-n7", path=settings)
    assert (tmp_path / "told").read_text() == "1 alpha-n7\n"
    program.chmod(0o777)
    with pytest.raises(FileWritableByOthers):
        ask(hosts, "export", "alpha-n7", path=settings)


def test_sudoers_allows_only_these_verbs_to_the_balancer_account() -> None:
    lines = (CONF / "sudoers" / "gridbridge-admin").read_text().splitlines()
    (rule,) = [line for line in lines if not line.startswith("#")]
    who, _, commands = rule.partition(" ALL=(root) NOPASSWD: ")

    assert who == "gridbridge-admin"
    assert commands.split(", ") == [
        f"/opt/gridbridge/bin/gridbridge-as-root {verb} *" for verb in ("name", "unname", "export", "unexport", "node")
    ]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("reboot", "gamma-n1"),
        ("halt",),
        ("halt", "gamma-n1", "more"),
        ("halt", "-r"),
        ("halt", "--sql"),
        ("drain", "a b"),
        ("tag", "gamma-n1", "x' OR 1=1"),
        ("tag", "gamma-n1", "a=b"),
        ("owns", "gamma-n1"),
    ],
)
def test_only_known_words_about_one_oar_node_are_accepted(tmp_path: Path, words: tuple[str, ...]) -> None:
    """OAR copies its arguments into SQL."""
    conf = tmp_path / "oar.conf"
    conf.write_text("DB_TYPE=Pg\n")
    with pytest.raises(as_root.AsRootRequestRefusal):
        as_root.set_or_tag_oar_node_as_root(words, str(conf))


def test_no_node_is_halted_where_oar_saves_energy_itself(tmp_path: Path) -> None:
    conf = tmp_path / "oar.conf"
    conf.write_text('ENERGY_SAVING_INTERNAL="yes"\n')
    for words in (("owns",), ("drain", "gamma-n1"), ("halt", "gamma-n1")):
        with pytest.raises(as_root.AsRootRequestRefusal, match="OAR itself halts and wakes nodes"):
            as_root.set_or_tag_oar_node_as_root(words, str(conf))
    conf.write_text('ENERGY_SAVING_INTERNAL="no"\n')

    as_root.set_or_tag_oar_node_as_root(("owns",), str(conf))
