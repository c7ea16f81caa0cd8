"""Saves in one file what a site can't make again, and puts it back: state files, ledger, campaign files, claims.

The ledger is packed after the state file, because gridbridge adopts what only the ledger has, but not the reverse.
Starters send the messages of running transfers again, so messages are not packed.
"""

import io
import json
import os
import re
import stat
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from gridbridge.errors import StateError
from gridbridge.model import fixed_paths
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import program_lock_file, safe_files
from gridbridge.shell.hung_poller_kill import find_poller_lock_holder
from gridbridge.shell.program_runs import run_with_file_as_input
from gridbridge.shell.program_startup import setpriv_command_prefix, version_with_commit
from gridbridge.state import sqlite_copies

SQLITE = "sqlite:///"
MANIFEST, STATE, BALANCER_STATE, LEDGER, SPOOL = "manifest.json", "state.db", "balancer-state.db", "ledger", "spool"
KEPT_IN_SPOOL = re.compile(r"claims/.+|campaigns/(?:c\.[\d.]+|given|tell\..+|u\.[^/]+/data\..+)")
LIMIT_S = 3600.0  # of copying or replacing a state file
MOST_BYTES = 1 << 40
SERVICE_LOCKS: Mapping[str, str] = MappingProxyType(
    {
        "gridbridge-poller": fixed_paths.LOCK,
        "gridbridge-runner": fixed_paths.RUNNER_LOCK,
        "gridbridge-nikita": fixed_paths.NIKITA_LOCK,
        "gridbridge rebalance": fixed_paths.REBALANCE_LOCK,
        "gridbridge data": fixed_paths.REPLICAS_LOCK,
        "a copy of a replica": fixed_paths.CARRYING_LOCK,
        "a check of replicas": fixed_paths.READING_LOCK,
    }
)
BALANCER_LOCKS: Mapping[str, str] = MappingProxyType({"gridbridge-balance": fixed_paths.BALANCE_LOCK})


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedStateFile:
    """A state file of this host, the account that owns it, and the locks of the programs that use it."""

    name: str  # in the backup
    path: str
    account: str
    locks: Mapping[str, str]

    def call_owner(self, verb: str, file: int | None = None) -> tuple[str, list[str]]:
        """Have the owner's process do a verb of sqlite_copies; return the file's schema and the stopped programs."""
        words = (*sqlite_copies.PROGRAM, verb, self.path, *self.locks.values())
        argv = (*setpriv_command_prefix(self.account), sys.executable, *words)
        environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        source = os.open(os.devnull, os.O_RDONLY) if file is None else os.dup(file)
        try:
            done = run_with_file_as_input(argv, environment, LIMIT_S, source)
        finally:
            os.close(source)
        if done.status:
            wrong = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise StateError(wrong or f"{self.path}: the copying process ended by signal {-done.status}")
        schema, *stopped = done.stdout.decode().splitlines()
        return schema, [program for program, lock in self.locks.items() if lock in stopped]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlaces:
    """State files and folders of this host that a backup has; a test has others."""

    state_files: tuple[SavedStateFile, ...]
    folders: Mapping[str, str] = field(
        default_factory=lambda: {SPOOL: fixed_paths.SPOOL, LEDGER: fixed_paths.LEDGER}  # in the order of packing
    )


def saved_places(policy: Policy) -> SavedPlaces:
    service, url = policy.site.service_account, policy.site.state
    files = [
        SavedStateFile(
            name=BALANCER_STATE,
            path=fixed_paths.BALANCE_STATE,
            account=fixed_paths.BALANCE_ACCOUNT,
            locks=BALANCER_LOCKS,
        )
    ]
    if url.startswith(SQLITE):
        path = url.removeprefix(SQLITE)
        files.append(SavedStateFile(name=STATE, path=path, account=service, locks=SERVICE_LOCKS))
    return SavedPlaces(state_files=tuple(files))


def pack_backup(target: str, places: SavedPlaces, site: str, at: datetime) -> list[str]:
    """Write a backup, readable for its owner only; return its parts as lines for a reader.

    A killed or failed backup leaves an existing `target` as it was.
    """
    part = f"{target}.part"
    safe_files.remove_file(part)
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
                schemas = {saved.name: _pack_state_file(archive, saved) for saved in places.state_files}
                counts = {name: _pack_folder(archive, name, folder) for name, folder in places.folders.items()}
                told = {"gridbridge": version_with_commit(), "site": site, "at": at.isoformat(), "schemas": schemas}
                _add_bytes(archive, MANIFEST, f"{json.dumps(told, indent=2)}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, target)
    except OSError as error:
        raise StateError(f"{target}: {error.strerror or error}") from error
    finally:
        safe_files.remove_file(part)
    files = [f"{name}: schema {schema}" for name, schema in schemas.items() if schema]
    return [*files, *(f"{name}: {count} files" for name, count in counts.items())]


def _pack_state_file(archive: tarfile.TarFile, saved: SavedStateFile) -> str:
    if not os.path.exists(saved.path):
        return ""
    schema, _ = saved.call_owner(sqlite_copies.COPYING)
    copy = f"{saved.path}{sqlite_copies.COPY}"
    try:
        end, facts = safe_files.open_file_only_owner_writes(copy, MOST_BYTES, os.stat(saved.path).st_uid)
        with open(end, "rb") as file:
            archive.addfile(_entry(saved.name, facts), file)
    finally:
        safe_files.remove_file(copy)
    return schema


def _pack_folder(archive: tarfile.TarFile, name: str, folder: str) -> int:
    count = 0
    for path in _kept_paths(name, folder):
        with suppress(FileNotFoundError):  # removed meanwhile
            facts = os.lstat(f"{folder}/{path}")
            entry = _entry(f"{name}/{path}", facts)
            if stat.S_ISLNK(facts.st_mode):
                entry.type, entry.size, entry.linkname = tarfile.SYMTYPE, 0, os.readlink(f"{folder}/{path}")
                archive.addfile(entry)
            elif stat.S_ISREG(facts.st_mode):
                data = _whole_lines(f"{folder}/{path}") if name == LEDGER else _whole_file(f"{folder}/{path}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
            count += 1
    return count


def _kept_paths(name: str, folder: str) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        for path in (os.path.relpath(f"{parent}/{each}", folder) for each in sorted(names)):
            if name != SPOOL or KEPT_IN_SPOOL.fullmatch(path):
                yield path


def _whole_file(path: str) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read()


def _whole_lines(path: str) -> bytes:
    """Return a ledger's lines without the one that root is writing."""
    lines, end, _ = _whole_file(path).rpartition(b"\n")
    return lines + end


def _entry(name: str, facts: os.stat_result) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = facts.st_size, int(facts.st_mtime), stat.S_IMODE(facts.st_mode)
    entry.uid, entry.gid = facts.st_uid, facts.st_gid
    return entry


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o600
    archive.addfile(entry, io.BytesIO(data))


def running_programs(places: SavedPlaces) -> dict[str, int]:
    """Return the programs that use the state files, each with its process, 0 if the process is not visible."""
    return {
        program: find_poller_lock_holder(path)
        for saved in places.state_files
        for program, path in saved.locks.items()
        if program_lock_file.is_lock_file_held(path)
    }


class OpenBackup:
    """A backup file that only its owner can write, opened for restoring."""

    def __init__(self, path: str) -> None:
        try:
            end, _ = safe_files.open_file_only_owner_writes(path, MOST_BYTES, os.geteuid())
            self._archive = tarfile.open(fileobj=open(end, "rb"), mode="r:gz")  # noqa: SIM115, the process ends soon
            self._members = {member.name: member for member in self._archive.getmembers()}
            self.manifest = json.loads(self._read(self._members[MANIFEST]))
            self.site, self.at = str(self.manifest["site"]), str(self.manifest["at"])
        except FileNotFoundError as error:
            raise StateError(f"{path}: no such file") from error
        except (tarfile.TarError, EOFError, OSError, KeyError, ValueError) as error:
            raise StateError(f"{path}: no whole backup of gridbridge") from error

    def _read(self, member: tarfile.TarInfo) -> bytes:
        file = self._archive.extractfile(member) if member.isreg() else None
        return file.read() if file else b""

    def has_lost_ledger(self, folder: str) -> bool:
        """Say whether the backup has a ledger and the folder has none at all."""
        return any(self._of_folder(LEDGER)) and not safe_files.list_folder_or_empty(folder)

    def missing_files(self, name: str, folder: str) -> list[str]:
        """Return the backup's files that a folder lacks."""
        return [path for path, _ in self._of_folder(name) if not os.path.lexists(f"{folder}/{path}")]

    def _of_folder(self, name: str) -> Iterator[tuple[str, tarfile.TarInfo]]:
        for path, member in self._members.items():
            if path.startswith(f"{name}/") and ".." not in path.split("/"):
                yield path.removeprefix(f"{name}/"), member

    def give_to_owner(self, saved: SavedStateFile, verb: str) -> list[str] | None:
        """Check a state file of the backup, or put it in its place; return stopped programs, None if it is missing."""
        member = self._members.get(saved.name)
        file = self._archive.extractfile(member) if member else None
        if file is None:
            return None
        with tempfile.TemporaryFile() as plain:
            while data := file.read(1 << 20):
                plain.write(data)
            plain.flush()
            os.lseek(plain.fileno(), 0, os.SEEK_SET)
            return saved.call_owner(verb, plain.fileno())[1]

    def put_missing_files(self, name: str, folder: str) -> int:
        """Write the files that a folder lacks, with their owners and modes; return their number."""
        paths = self.missing_files(name, folder)
        for path in paths:
            member = self._members[f"{name}/{path}"]
            try:
                _put_file(folder, path, member, self._read(member))
            except OSError as error:
                raise StateError(f"{folder}/{path}: {error.strerror}") from error
        return len(paths)


def _put_file(folder: str, path: str, entry: tarfile.TarInfo, data: bytes) -> None:
    """Put a file into a folder, without following links that people may have put on the way."""
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    *parents, name = path.split("/")
    try:
        for part in parents:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            os.close(parent)
            parent = below
        if entry.issym():
            os.symlink(entry.linkname, name, dir_fd=parent)
            os.chown(name, entry.uid, entry.gid, dir_fd=parent, follow_symlinks=False)
            return
        _write_and_rename(parent, name, entry, data)
    finally:
        os.close(parent)


def _write_and_rename(parent: int, name: str, entry: tarfile.TarInfo, data: bytes) -> None:
    beside = safe_files.random_file_name(safe_files.TEMPORARY)
    end = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=parent)
    try:
        with open(end, "wb") as file:
            file.write(data)
            file.flush()
            os.fchown(end, entry.uid, entry.gid)
            os.fchmod(end, entry.mode)
            os.fsync(end)
        os.rename(beside, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        os.unlink(beside, dir_fd=parent)
        raise
