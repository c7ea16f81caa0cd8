"""A PostgreSQL server for tests, from unpacked packages, in a temporary folder, reached by a socket only."""

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.packages import unpack

PACKAGES = ("postgresql-15", "libicu72", "libldap-2.5-0", "libsasl2-2", "libxml2")
NOBODY = 65534  # the server refuses to run as root
LIMIT_S = 60.0
QUIET = {"listen_addresses": "", "fsync": "off", "jit": "off", "unix_socket_permissions": "0700"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    folder: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, database: str) -> str:
        """Return a database's URL as in key `state` of gridbridge.toml."""
        return f"postgresql://gridbridge@/{database}?host={self.folder}"

    def new(self) -> str:
        name = f"state{next(self.numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def disconnect(self, url: str) -> None:
        """End every connection to a database, as a restart of the server would."""
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        with psycopg.connect(self.url("postgres")) as connection:
            connection.execute(end, (url.partition("?")[0].rpartition("/")[2],))

    def answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def serving() -> Iterator[Server]:
    """Run a PostgreSQL server; stop the server and remove its files at the end."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        root = unpack(folder, *PACKAGES)
        os.chown(folder, NOBODY, NOBODY)
        with _running(folder, root):
            yield Server(folder=folder)
    finally:
        shutil.rmtree(folder)


@contextmanager
def _running(folder: Path, root: Path) -> Iterator[None]:
    (programs,) = root.glob("usr/lib/postgresql/*/bin")
    libraries = ":".join(str(path) for path in root.glob("usr/lib/*-linux-gnu"))
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "LD_LIBRARY_PATH": libraries}
    data = folder / "data"
    make = ("-D", data, "-A", "trust", "-U", "gridbridge", "-E", "UTF8", "--no-sync")
    start = ("-D", data, "-k", folder, *(f"--{name}={value}" for name, value in QUIET.items()))
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "env": environment, "cwd": "/"}
    with open(folder / "log", "wb") as log:
        subprocess.run((programs / "initdb", *make), stdout=log, stderr=log, check=True, **who)
        server = subprocess.Popen((programs / "postgres", *start), stderr=log, **who)
    try:
        _await_answer(Server(folder=folder), server)
        yield
    finally:
        server.send_signal(signal.SIGINT)  # fast shutdown: disconnects clients
        server.wait(LIMIT_S)


def _await_answer(server: Server, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + LIMIT_S
    while not server.answers():
        log = (server.folder / "log").read_text()
        assert process.poll() is None, log
        assert time.monotonic() < deadline, log
        time.sleep(0.1)
