"""A person's records of datasets, and the original files, in folders that only this person can write.

NAME.json describes a dataset; NAME.sums has checksums (`sha256sum -z`). A file that another account owns or can write
is not read. A symlink is read as its target, because copies follow symlinks. An original is never changed.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import MAXYEAR, MINYEAR, datetime
from typing import Any

from cattrs import Converter

from gridbridge.errors import GridbridgeError, ParseError, StateError, StorageAreaUnusable
from gridbridge.model.rebalance import datasets
from gridbridge.model.rebalance.datasets import Dataset, DatasetReplica, ServiceReplicaActInOwnerFile, Sums
from gridbridge.rebalance.replicas.object_store_programs import ObjectStoreForAccount
from gridbridge.rebalance.replicas.storage_area_shell_scripts import (
    StorageAreaForAccount,
    possible_folders_of_account_in_area,
)
from gridbridge.shell import rsync, safe_files
from gridbridge.shell.program_lock_file import MomentaryProgramLock

RECORD, SUMS, RELAY, OBJECTS, LOCK, DONE = ".json", ".sums", ".relay", ".objects", ".lock", ".done"
MOST_DONE = 100  # maximal number of recorded actions on a dataset
MOST_BYTES = 1 << 20  # maximal size of a record in bytes
MOST_SUMS = 1 << 28  # maximal size of a checksum file in bytes, enough for two million files
NO_RECORD = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class OwnerDatasetRecords:
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def dataset_names(self) -> list[str]:
        """Return the sorted names of the owner's datasets."""
        records = (name for name in safe_files.list_folder_or_empty(self._folder) if name.endswith(RECORD))
        return sorted(filter(datasets.DATASET_NAME.holds, (name.removesuffix(RECORD) for name in records)))

    def has_dataset(self, name: str) -> bool:
        """Say whether a dataset exists; raise StateError if the folder can't be read."""
        return _does_path_exist(self._visible_dataset_file_path(name, RECORD))

    def is_dataset_gone(self, name: str) -> bool:
        """Say whether a dataset certainly does not exist; raise StateError for an unreadable folder.

        The folder stays open during the check, so that a home that is unmounted in the meantime does not look empty.
        """
        try:
            end = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise StateError(f"{self._folder}: {error.strerror}") from error
        try:
            if os.fstat(end).st_uid != os.geteuid():
                raise StateError(f"{self._folder}: the folder belongs to another account")
            return not _does_path_exist(f"{name}{RECORD}", end)
        finally:
            os.close(end)

    def load_dataset(self, name: str) -> Dataset:
        """Load a dataset's record; raise GridbridgeError for an unknown dataset, StateError for a bad record."""
        path = self._visible_dataset_file_path(name, RECORD)
        try:
            data, _ = safe_files.read_file_only_owner_writes(path, MOST_BYTES, os.geteuid())
            return decode_dataset_record(name, json.loads(data))
        except FileNotFoundError as error:
            names = ", ".join(self.dataset_names()) or "none"
            raise GridbridgeError(f"{name}: no dataset of yours; your datasets: {names}") from error
        except NO_RECORD as error:
            raise StateError(f"{path}: invalid record of a dataset; remove this file ({error!r})") from error

    def load_checksums(self, dataset: Dataset) -> dict[str, str]:
        """Return the checksums of a dataset's files; raise StateError if the record contradicts them."""
        path = self._visible_dataset_file_path(dataset.name, SUMS)
        try:
            data, _ = safe_files.read_file_only_owner_writes(path, MOST_SUMS, os.geteuid())
        except FileNotFoundError as error:
            raise StateError(f"{path}: no such file; drop and add the dataset again") from error
        if hashlib.sha256(data).hexdigest() != dataset.sha256:
            raise StateError(f"{path}: not the checksums of {dataset.name}; drop and add the dataset again")
        try:
            return datasets.parse_sha256sum_output(data)
        except ParseError as error:
            raise StateError(f"{path}: {error}") from error

    def save_dataset(self, dataset: Dataset, sums: Sums | None = None) -> None:
        """Store a dataset's record, and a new dataset's checksums; raise StateError for too many checksums."""
        if sums is not None:
            text = datasets.format_as_sha256sum_output(sums)
            if len(text) > MOST_SUMS:
                raise StateError(
                    f"{dataset.name}: the checksums of {len(sums)} files take more than {MOST_SUMS >> 20} MiB;"
                    " expected several datasets of fewer files"
                )
            safe_files.replace_file_atomically(self._visible_dataset_file_path(dataset.name, SUMS), text, 0o600)
        record = json.dumps(encode_dataset_record(dataset)).encode()
        safe_files.replace_file_atomically(self._visible_dataset_file_path(dataset.name, RECORD), record, 0o600)

    def delete_dataset_record(self, name: str) -> None:
        """Delete the record of a dataset, and then its list of checksums; the original stays."""
        for path in (
            self._visible_dataset_file_path(name, RECORD),
            self._visible_dataset_file_path(name, SUMS),
            self._hidden_dataset_file_path(name, DONE),
        ):
            safe_files.remove_file(path)
        self.remove_relay_folder(name)

    def is_dataset_locked(self, name: str) -> bool:
        """Say whether a command is working on a dataset."""
        if not os.path.lexists(self._hidden_dataset_file_path(name, LOCK)):
            return False
        with MomentaryProgramLock(self._hidden_dataset_file_path(name, LOCK)) as is_ours:
            return not is_ours

    def record_action_of_service(self, name: str, newest: ServiceReplicaActInOwnerFile) -> None:
        """Record an action of the service on a dataset; delete all but the newest records of actions."""
        outcomes = [*self.actions_of_service(name), newest][-MOST_DONE:]
        rows = "".join(f"{json.dumps(_CONVERTER.unstructure(outcome))}\n" for outcome in outcomes)
        safe_files.replace_file_atomically(self._hidden_dataset_file_path(name, DONE), rows.encode(), 0o600)

    def actions_of_service(self, name: str) -> list[ServiceReplicaActInOwnerFile]:
        """Return the service's actions on a dataset, the newest last."""
        path = self._hidden_dataset_file_path(name, DONE)
        try:
            data, _ = safe_files.read_file_only_owner_writes(path, MOST_BYTES, os.geteuid())
            rows = map(json.loads, data.splitlines())
            return [ServiceReplicaActInOwnerFile(**row | {"at": _parse_time_with_zone(row["at"])}) for row in rows]
        except FileNotFoundError:
            return []
        except NO_RECORD as error:
            raise StateError(f"{path}: invalid list of the service's actions; remove this file ({error!r})") from error

    def relay_folder(self, name: str) -> str:
        """Return the local folder through which files go from one ssh cluster to another."""
        return self._hidden_dataset_file_path(name, RELAY)

    def objects_folder(self, name: str, storage: str) -> str:
        """Return the local folder for a dataset's files on their way to or from an object store."""
        return f"{self._hidden_dataset_file_path(name, OBJECTS)}/{storage}"

    def remove_relay_folder(self, name: str) -> None:
        """Remove the local folders in which failed copies left files."""
        rsync.remove_folder_tree(self.relay_folder(name))
        self.remove_objects_folders(name)

    def remove_objects_folders(self, name: str) -> None:
        """Remove the local folders for a dataset's files on their way to or from object stores."""
        if os.path.lexists(path := self._hidden_dataset_file_path(name, OBJECTS)):
            rsync.remove_folder_tree(path)

    @contextmanager
    def lock_dataset(self, name: str) -> Iterator[None]:
        """Lock a dataset; raise GridbridgeError while another command works on the dataset."""
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            safe_files.forbid_others_to_write(self._folder)
        except OSError as error:
            raise StateError(f"{self._folder}: {error.strerror}") from error
        with MomentaryProgramLock(self._hidden_dataset_file_path(name, LOCK)) as is_ours:
            if not is_ours:
                raise GridbridgeError(f"{name}: another command of yours works on this dataset; wait for its end")
            yield

    @contextmanager
    def reserve_copy_slot_in_area(self, storage: str, most: int) -> Iterator[None]:
        """Reserve one of `most` simultaneous copies into an area; raise StorageAreaUnusable if none is free."""
        with ExitStack() as stack:
            paths = (f"{self._folder}/.into.{storage}.{number}" for number in range(most))
            if not any(stack.enter_context(_lock_or_ignore_release_errors(path)) for path in paths):
                raise StorageAreaUnusable(f"{most} of your copies into this area run; copies_at_once allows no more")
            yield

    def _visible_dataset_file_path(self, name: str, kind: str) -> str:
        return f"{self._folder}/{name}{kind}"

    def _hidden_dataset_file_path(self, name: str, kind: str) -> str:
        return f"{self._folder}/.{name}{kind}"


def _does_path_exist(path: str, folder: int | None = None) -> bool:
    """Say whether a path exists; raise StateError if the path can't be checked."""
    try:
        os.lstat(path, dir_fd=folder)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    return True


@contextmanager
def _lock_or_ignore_release_errors(path: str) -> Iterator[bool]:
    held = MomentaryProgramLock(path)
    is_ours = held.__enter__()
    try:
        yield is_ours
    finally:
        with suppress(OSError):
            held.__exit__()


def encode_dataset_record(dataset: Dataset) -> dict[str, Any]:
    record: dict[str, Any] = _CONVERTER.unstructure(dataset)
    return record


def decode_dataset_record(name: str, record: dict[str, Any]) -> Dataset:
    """Parse a dataset's record; an invalid record raises one of NO_RECORD."""
    if record["name"] != name:
        raise ValueError(f"this is the record of dataset {record['name']!r}")
    for model, row in ((Dataset, record), *((DatasetReplica, row) for row in record["replicas"])):
        if missing := [field.name for field in fields(model) if field.name not in row]:
            raise KeyError(*missing)
    return _CONVERTER.structure(record, Dataset)


def _parse_time_with_zone(text: str) -> datetime:
    """Parse a time; raise ValueError for a time without zone, or in years whose conversion may overflow."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or not MINYEAR < moment.year < MAXYEAR:
        raise ValueError(f"{text}: a time without a zone, or out of range")
    return moment


_CONVERTER = Converter(detailed_validation=False)
_CONVERTER.register_structure_hook(datetime, lambda text, _: _parse_time_with_zone(text))
_CONVERTER.register_unstructure_hook(datetime, datetime.isoformat)

RIGHT = "expected a readable file or folder of your own"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetOriginalFiles:
    """The files of a dataset's original, with names relative to `top`, and their checksums."""

    top: str
    is_tree: bool
    size_bytes: int
    sums: dict[str, str]


def dataset_top_folder(path: str, *, is_tree: bool) -> str:
    """Return the folder to which the file names of a dataset are relative."""
    return path if is_tree else os.path.dirname(path)


def checksum_original_files(path: str) -> DatasetOriginalFiles:
    """Return the checksums of a dataset's original files; raise GridbridgeError for an unreadable file."""
    try:
        facts = os.stat(path)
        is_tree = stat.S_ISDIR(facts.st_mode)
        if facts.st_uid != os.geteuid():
            raise GridbridgeError(f"{path}: owned by another account; {RIGHT}")
        top = dataset_top_folder(path, is_tree=is_tree)
        if is_tree and os.path.lexists(mark := f"{top}/{datasets.REPLICA_MARK}"):
            raise GridbridgeError(f"{mark}: this file marks the folder as a replica of a dataset; {RIGHT}")
        names = sorted(_file_names_below_folder(path)) if is_tree else [os.path.basename(path)]
        if not names:
            raise GridbridgeError(f"{path}: the folder has no file; {RIGHT}")
        read = {name: _checksum_and_size_of_file(f"{top}/{name}") for name in names}
    except OSError as error:
        raise GridbridgeError(f"{error.filename or path}: {error.strerror}; {RIGHT}") from error
    sums = {name: digest for name, (digest, _) in read.items()}
    return DatasetOriginalFiles(top=top, is_tree=is_tree, size_bytes=sum(size for _, size in read.values()), sums=sums)


def require_original_outside_areas(path: str, areas: Iterable[StorageAreaForAccount | ObjectStoreForAccount]) -> None:
    """Raise GridbridgeError if a dataset's original lies in a folder of replicas, or contains one."""
    real = os.path.realpath(path)
    for area in (area for area in areas if isinstance(area, StorageAreaForAccount)):
        folders = map(os.path.realpath, possible_folders_of_account_in_area(area) if area.login is None else ())
        if any(os.path.commonpath((real, folder)) in (real, folder) for folder in folders):
            raise GridbridgeError(
                f"{path}: storage area {area.name} keeps replicas in {area.account_folder_path}; expected an original"
                " that neither lies in this folder nor contains this folder"
            )


def files_match_checksums(path: str, sums: Sums) -> bool:
    """Say whether a path has exactly the files with the given checksums."""
    try:
        return checksum_original_files(path).sums == sums
    except GridbridgeError:
        return False


def _file_names_below_folder(top: str) -> Iterator[str]:
    """Yield the names of all files below a folder; raise GridbridgeError for a symlink to a parent."""
    # a stack, because Python limits recursion: folders, each with the (device, inode) of all its parent folders
    pending: list[tuple[str, tuple[tuple[int, int], ...]]] = [("", ())]
    while pending:
        below, above = pending.pop()
        facts = os.stat(f"{top}/{below}")
        folder_id = (facts.st_dev, facts.st_ino)
        if folder_id in above:
            raise GridbridgeError(f"{top}/{below}: a symlink to a folder above; {RIGHT}")
        for entry in os.listdir(f"{top}/{below}"):
            name = f"{below}/{entry}" if below else entry
            if os.path.isdir(f"{top}/{name}"):
                pending.append((name, (*above, folder_id)))
            else:
                yield name


def _checksum_and_size_of_file(path: str) -> tuple[str, int]:
    read = safe_files.checksum_regular_file(path)
    if read is None:
        raise GridbridgeError(f"{path}: neither a file nor a folder; {RIGHT}")
    return read
