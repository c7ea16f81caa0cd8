"""Empty state files, transfers to store in them, a small disk, and other users."""

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_messages_in_spool import StarterPhase
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.remote_usage_and_cursor_rows import RemoteUsageAndCursorRows
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.builders.mounts import memory_mounted
from tests.state.postgresql import Server, serving
from tests.states import read_states

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SERVICE = 10000

AsUser = Callable[[int, Callable[[], Any]], Any]
Acting = Callable[[int], AbstractContextManager[None]]


def made_transfer(**values: Any) -> Transfer:
    """Return alice's released transfer to beta."""
    known = {
        "name": "gb.alpha.7.0.1",
        "uid": 1001,
        "owner": "alice",
        "remote": "beta",
        "queue": "transfer-beta",
        "phase": StarterPhase.RELEASED,
        "record": "/var/spool/gridbridge/m.0",
        "wake": "0",
        "rerun": "",
        "created_at": NOON,
        "updated_at": NOON,
    }
    return Transfer(**read_states(known | values))


@pytest.fixture
def a_transfer() -> Callable[..., Transfer]:
    return made_transfer


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.root)])
def state_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a URL of an empty state, once for SQLite and once for PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.db"
    server: Server = request.getfixturevalue("postgresql")
    return server.new()


@pytest.fixture
def database(state_url: str) -> Iterator[StateFile]:
    opened = StateFile.open(state_url)
    yield opened
    opened.close()


@pytest.fixture
def transfers(database: StateFile) -> TransferRows:
    return TransferRows(database)


@pytest.fixture
def accounting(database: StateFile) -> RemoteUsageAndCursorRows:
    return RemoteUsageAndCursorRows(database)


@pytest.fixture
def state_file(tmp_path: Path) -> Iterator[StateFile]:
    opened = StateFile.open(f"sqlite:///{tmp_path}/state.db")
    yield opened
    opened.close()


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Mount a filesystem of 1 MB."""
    with tempfile.TemporaryDirectory() as folder, memory_mounted(folder, "size=1m,mode=755"):
        yield Path(folder)


@pytest.fixture
def spool_folder() -> Iterator[Path]:
    """Make a spool owned by a service account, as an installation makes it."""
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    folder = base / "spool"
    for made in (folder, folder / "wake"):
        made.mkdir()
        made.chmod(0o1733)
        os.chown(made, SERVICE, SERVICE)
    yield folder
    shutil.rmtree(base)


@pytest.fixture
def as_user() -> AsUser:
    """Return a function that calls another function in a process of another user.

    It returns the result of the call, or raises the error of the call.
    """
    return _as_user


def _as_user(uid: int, act: Callable[[], Any]) -> Any:
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        _become_and_act(uid, act, into)
    os.close(into)
    with open(out, "rb") as answers:
        answer = pickle.load(answers)
    os.waitpid(child, 0)
    if isinstance(answer, Exception):
        raise answer
    return answer


def _become_and_act(uid: int, act: Callable[[], Any], into: int) -> None:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    try:
        answer = act()
    except Exception as error:
        answer = error
    os.write(into, pickle.dumps(answer))
    os._exit(0)


@pytest.fixture
def acting_as() -> Acting:
    """Return a context manager in which this process acts as another user."""
    return _acting_as


@contextmanager
def _acting_as(uid: int) -> Iterator[None]:
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
