"""Keeps replicas of datasets in an object store: an object for each different content, then an object with the list."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from shutil import copyfile

from gridbridge.errors import StorageAreaUnreachable, StorageAreaUnusable
from gridbridge.model.rebalance.datasets import (
    Dataset,
    Sums,
    describe_checksum_differences,
    format_as_sha256sum_output,
    printable_file_name,
)
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea
from gridbridge.rebalance.replicas.object_store_programs import ObjectStoreForAccount, StoredObject
from gridbridge.shell import rsync, safe_files

CALLS_AT_ONCE = 4
ENDLESS_BYTES = 10**18  # free bytes of a store without max_bytes
ANY_PROGRAM_READS = re.compile("[A-Za-z0-9_.,+=@/-]+").fullmatch  # paths that need no quoting in any program


def measure_store(store: ObjectStoreForAccount, stored_bytes: int) -> MeasuredStorageArea:
    """Return a store's limits without calling its program; `stored_bytes` counts the account's replicas."""
    size_bytes = store.max_bytes or ENDLESS_BYTES
    free_bytes = max(0, size_bytes - stored_bytes)
    return MeasuredStorageArea(
        storage=store.name, clusters=(), size_bytes=size_bytes, free_bytes=free_bytes, is_store=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReplica:
    """A dataset's replica in an object store; `scratch` is a local folder for files in transit."""

    store: ObjectStoreForAccount
    dataset: Dataset
    sums: Sums
    scratch: str
    tell: Callable[[str], None] = lambda _: None

    def upload(self, folder: str) -> None:
        """Store the files of a local folder, read them back, and store the list last.

        Raises StorageAreaUnusable if an object is wrong after a second attempt.
        """
        with _empty_temporary_folder(self.scratch):
            names = {digest: name for name, digest in self.sums.items()}
            for _ in range(2):
                self._act_on_items_in_parallel(
                    lambda digest: self._store_file_unless_present(digest, f"{folder}/{names[digest]}"), names
                )
                _, found = self._checksum_objects()
                wrong = {digest for name, digest in self.sums.items() if found.get(name) != digest}
                if not wrong:
                    break
                self._act_on_items_in_parallel(lambda digest: self.store.remove(self.dataset.name, digest), wrong)
            if differences := describe_checksum_differences(self.sums, found):
                raise StorageAreaUnusable(f"the stored objects differ from the dataset: {differences}")
            self._store_list_of_files()

    def checksum(self) -> tuple[int, dict[str, str]]:
        """Return the replica's bytes and its files' checksums, which the store reports or which are read back.

        Raises StorageAreaUnusable for a missing or wrong list, StorageAreaUnreachable if the store does not answer.
        """
        with _empty_temporary_folder(self.scratch):
            self._require_list()
            return self._checksum_objects()

    def download(self, folder: str) -> None:
        """Bring all files into a local folder, and skip files that are there; raise StorageAreaUnusable."""
        with _empty_temporary_folder(self.scratch):
            numbers = {name: number for number, name in enumerate(self.sums)}
            self._act_on_items_in_parallel(
                lambda name: self._fetch_file(name, folder, f"{self.scratch}/{numbers[name]}"), self.sums
            )

    def remove(self) -> None:
        """Remove the list first and then all objects, so that a partly removed replica never seems whole."""
        self.store.remove(self.dataset.name, self.dataset.sha256)
        self._act_on_items_in_parallel(
            lambda digest: self.store.remove(self.dataset.name, digest), set(self.sums.values())
        )

    def _act_on_items_in_parallel(self, act: Callable[[str], object], items: Iterable[str]) -> None:
        """Act on several items in parallel; after an error, acts that have not begun are cancelled."""
        items = list(items)
        with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
            for number, _ in enumerate(pool.map(act, items), 1):
                self.tell(f"{number} of {len(items)}")

    def _store_file_unless_present(self, digest: str, path: str) -> None:
        """Store a file, unless the store has an object with its size and, if the store reports it, its checksum."""
        stored = self.store.stat(self.dataset.name, digest)
        try:
            size_bytes = os.stat(path).st_size
            if stored and stored.size_bytes == size_bytes and stored.digest in ("", digest):
                return
            self.store.put(self.dataset.name, digest, self._path_for_any_program(path, digest))
        except OSError as error:
            raise StorageAreaUnusable(f"{printable_file_name(path)}: {error.strerror}") from error

    def _path_for_any_program(self, path: str, digest: str) -> str:
        """Return a file's real path, or the path of a link or copy if the real path has unusual characters."""
        real = os.path.realpath(path)
        if ANY_PROGRAM_READS(real):
            return real
        plain = f"{self.scratch}/{digest}"
        with suppress(FileNotFoundError):
            os.unlink(plain)
        try:
            os.link(real, plain)
        except OSError:  # another filesystem, or another account's file
            copyfile(real, plain)
        return plain

    def _store_list_of_files(self) -> None:
        path = f"{self.scratch}/list"
        with open(path, "wb") as file:
            file.write(format_as_sha256sum_output(self.sums))
        self.store.put(self.dataset.name, self.dataset.sha256, path)
        self._require_list()

    def _require_list(self) -> None:
        """Raise StorageAreaUnusable if the replica's list of files is missing or wrong in the store."""
        stored = self._object_facts_with_checksum(self.dataset.sha256)
        if stored is None:
            raise StorageAreaUnusable("the replica's list of files is missing: the copy has not ended, or is removed")
        if stored.digest != self.dataset.sha256:
            raise StorageAreaUnusable("the replica's list of files is damaged")

    def _checksum_objects(self) -> tuple[int, dict[str, str]]:
        digests = list(dict.fromkeys(self.sums.values()))
        with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
            stored = dict(zip(digests, pool.map(self._object_facts_with_checksum, digests), strict=True))
        files = {name: object_ for name, digest in self.sums.items() if (object_ := stored[digest])}
        size_bytes = sum(file.size_bytes for file in files.values())
        found = {name: file.digest for name, file in files.items()}
        if found == self.sums and size_bytes != self.dataset.size_bytes:
            raise StorageAreaUnusable(f"the store reports {size_bytes} bytes; expected {self.dataset.size_bytes}")
        return size_bytes, found

    def _object_facts_with_checksum(self, digest: str) -> StoredObject | None:
        """Return an object's size and checksum; if the store reports no checksum, read the object back."""
        stored = self.store.stat(self.dataset.name, digest)
        if stored is None or stored.digest:
            return stored
        path = f"{self.scratch}/{digest}.read"
        try:
            if not self._fetch_whole_object(digest, path, stored.size_bytes):
                return None
            read, size_bytes = safe_files.checksum_regular_file(path) or ("", 0)
            return StoredObject(size_bytes=size_bytes, digest=read)
        except OSError as error:
            raise StorageAreaUnreachable(f"{self.store.program} get: {error.strerror}") from error
        finally:
            with suppress(OSError):
                os.unlink(path)

    def _fetch_whole_object(self, digest: str, path: str, size_bytes: int) -> bool:
        with suppress(FileNotFoundError):
            os.unlink(path)
        return self.store.get(self.dataset.name, digest, path, size_bytes)

    def _fetch_file(self, name: str, folder: str, path: str) -> None:
        digest, target, shown = self.sums[name], f"{folder}/{name}", printable_file_name(name)
        try:
            if os.path.isfile(target) and safe_files.checksum_regular_file(target) == (digest, os.stat(target).st_size):
                return
            stored = self.store.stat(self.dataset.name, digest)
            if stored is None or not self._fetch_whole_object(digest, path, stored.size_bytes):
                raise StorageAreaUnusable(f"{shown} is missing")
            if (safe_files.checksum_regular_file(path) or ("",))[0] != digest:
                raise StorageAreaUnusable(f"{shown} has another checksum")
            _make_parent_folders(folder, name)
            os.replace(path, target)
        except OSError as error:
            raise StorageAreaUnusable(f"{shown}: {error.strerror}") from error


def _make_parent_folders(folder: str, name: str) -> None:
    """Make the folders above a file; os.makedirs would fail for a thousand nested folders."""
    *parents, _ = name.split("/")
    path = folder
    for part in ("", *parents):
        path = f"{path}/{part}" if part else path
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)


@contextmanager
def _empty_temporary_folder(path: str) -> Iterator[None]:
    """Make an empty private folder, and remove the folder in the end; raise StorageAreaUnusable."""
    rsync.remove_folder_tree(path)
    try:
        os.makedirs(path, 0o700, exist_ok=True)
        yield
    except OSError as error:
        raise StorageAreaUnusable(f"{path}: {error.strerror}") from error
    finally:
        rsync.remove_folder_tree(path)
