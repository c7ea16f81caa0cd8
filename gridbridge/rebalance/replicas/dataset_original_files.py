"""Read the original files of a dataset as its owner, and compute their checksums.

Symlinks count as their targets, because copies follow them. The original is never changed.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gridbridge.errors import GridbridgeError
from gridbridge.model.rebalance.datasets import REPLICA_MARK, Sums
from gridbridge.rebalance.replicas.storage_area_access import StorageAreaForAccount, list_account_folders_in_area

Above = tuple[tuple[int, int], ...]  # (device, inode) of each parent folder
RIGHT = "expected a readable file or folder of your own"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetOriginalFiles:
    """The files of an original, with names relative to `top`, and their checksums."""

    top: str
    is_tree: bool
    size_bytes: int
    sums: dict[str, str]


def dataset_top_folder(path: str, *, is_tree: bool) -> str:
    """Return the folder to which the file names of a dataset are relative."""
    return path if is_tree else os.path.dirname(path)


def checksum_original_files(path: str) -> DatasetOriginalFiles:
    """Read all files of an original and return their checksums.

    Raises GridbridgeError for a file that can't be read.
    """
    try:
        return _survey(path)
    except OSError as error:
        raise GridbridgeError(f"{error.filename or path}: {error.strerror}; {RIGHT}") from error


def require_original_outside_areas(path: str, areas: Iterable[StorageAreaForAccount]) -> None:
    """Raise GridbridgeError for an original inside or around a folder of replicas."""
    real = os.path.realpath(path)
    for area in areas:
        if area.login is None and any(_meet(real, own) for own in list_account_folders_in_area(area)):
            raise GridbridgeError(
                f"{path}: {area.name} keeps replicas in {area.own}; expected an original"
                " that lies neither there nor around it"
            )


def _meet(real: str, own: str) -> bool:
    own = os.path.realpath(own)
    return os.path.commonpath((real, own)) in (real, own)


def files_match_checksums(path: str, sums: Sums) -> bool:
    """Say whether a path has exactly the files of these checksums."""
    try:
        return checksum_original_files(path).sums == sums
    except GridbridgeError:
        return False


def _survey(path: str) -> DatasetOriginalFiles:
    facts = os.stat(path)
    is_tree = stat.S_ISDIR(facts.st_mode)
    if facts.st_uid != os.geteuid():
        raise GridbridgeError(f"{path}: it is somebody else's; {RIGHT}")
    top = dataset_top_folder(path, is_tree=is_tree)
    if is_tree and os.path.lexists(mark := f"{top}/{REPLICA_MARK}"):
        raise GridbridgeError(f"{mark}: it makes that folder a replica of a dataset; {RIGHT}")
    names = sorted(_names(path)) if is_tree else [os.path.basename(path)]
    if not names:
        raise GridbridgeError(f"{path}: it has no file; {RIGHT}")
    read = {name: _read(f"{top}/{name}") for name in names}
    sums = {name: digest for name, (digest, _) in read.items()}
    return DatasetOriginalFiles(top=top, is_tree=is_tree, size_bytes=sum(size for _, size in read.values()), sums=sums)


def _names(top: str) -> Iterator[str]:
    """Yield the names of all files; GridbridgeError for a symlink to a folder above itself."""
    pending: list[tuple[str, Above]] = [("", ())]  # folders may nest deeper than Python recurses
    while pending:
        below, above = pending.pop()
        facts = os.stat(f"{top}/{below}")
        folder_id = (facts.st_dev, facts.st_ino)
        if folder_id in above:
            raise GridbridgeError(f"{top}/{below}: it leads to a folder that holds it; {RIGHT}")
        for entry in os.listdir(f"{top}/{below}"):
            name = f"{below}/{entry}" if below else entry
            if os.path.isdir(f"{top}/{name}"):
                pending.append((name, (*above, folder_id)))
            else:
                yield name


def _read(path: str) -> tuple[str, int]:
    """Return the checksum and the size of a file."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise GridbridgeError(f"{path}: neither a file nor a folder; {RIGHT}")
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return digest, file.tell()
