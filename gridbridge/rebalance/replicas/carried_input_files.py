"""Copies of tasks' input files in a person's folder at a cluster, each named by its checksum.

The folder lies in a storage area that all nodes see, or in the person's home, where .gridbridge/inputs is a link to
the folder. A copy grows in a folder beside, and moves into the folder once its checksum is right.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field

from gridbridge.errors import StorageAreaUnusable
from gridbridge.model.campaigns.task_input_files import CARRIED_INPUTS, TaskInputFile
from gridbridge.rebalance.replicas import storage_area_shell_scripts
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import (
    FileCopyFunction,
    LocalOrSshFolder,
    copy_files_by_rsync,
)
from gridbridge.rebalance.replicas.storage_area_shell_scripts import (
    A_FILE_S,
    HASHED_PER_S,
    LEAST_HASH_S,
    MAKE_OWN,
    OWN,
    REMOVAL_S,
    StorageAreaForAccount,
)
from gridbridge.shell import remote_stage_folder, rsync
from gridbridge.shell.clock import Clock
from gridbridge.shell.rsync import RsyncLimitAndProgress

LINKS_A_CALL = 20  # largest number of paths, of up to 4096 bytes each, in one remote command
COPY_S = 3600.0  # time limit for copies of files of unknown size
FILES_A_CALL = 1000  # largest number of checksums in one remote command, whose length is limited
FIND_STORE = f"""umask 077
home=$(getent passwd "$(id -u)" | cut -d : -f 6)
store=$home/.gridbridge/carried
if [ -n "$1" ]; then
    {OWN}
    store=$own/.inputs
fi
"""
MAKE_PARENT = f"""if [ -n "$1" ]; then
    history=new
    {MAKE_OWN}
    store=$own/.inputs
else
    mkdir -p -- "$home/.gridbridge" || exit
fi
"""
# The modification time of a file shows its last use, because many filesystems record no reading.
OPEN = f"""{FIND_STORE}{MAKE_PARENT}
for folder in "$store" "$store.part"; do
    [ -e "$folder" ] || [ -L "$folder" ] || mkdir -- "$folder" || exit
    [ -d "$folder" ] && [ -O "$folder" ] && [ ! -L "$folder" ] || exit {remote_stage_folder.TAKEN}
done
link=$home/{CARRIED_INPUTS}
mkdir -p -- "${{link%/*}}" && ln -sfT -- "$store" "$link" || exit
find "$store.part" -type f -mtime +1 -delete
stat -f -c '%a %S' -- "$store" && printf '%s\n' "$store"
"""
LIST = f"""{FIND_STORE}
shift 3
[ -d "$store" ] || exit 0
cd -- "$store" || exit
print() {{ find "$@" -maxdepth 1 -type f -printf '%T@ %s %f\\n'; }}
if [ $# -gt 0 ]; then print -L "$@" 2>/dev/null || :; else print .; fi
"""
USE = f"""{FIND_STORE}
shift 3
cd -- "$store" || exit
touch -ch -- "$@"
"""
LINK = f"""{FIND_STORE}
shift 3
cd -- "$store" || exit
while [ $# -gt 1 ]; do
    if [ "$(sha256sum <"$2" 2>/dev/null | cut -c 1-64)" = "$1" ]; then ln -sfT -- "$2" "$1" && echo "$1" || exit; fi
    shift 2
done
"""
INSTALL = f"""{FIND_STORE}
shift 3
cd -- "$store.part" || exit
right=$(sha256sum -- "$@" 2>/dev/null | awk '$1 == $2 {{ print $2 }}')
if [ -n "$right" ]; then
    chmod 400 -- $right && touch -- $right && mv -f -t "$store" -- $right && sync -f -- "$store" || exit
    printf '%s\n' "$right"
fi
rm -f -- "$@"
"""
TAKE = f"""{FIND_STORE}
shift 3
cd -- "$home" || exit
while [ $# -gt 1 ]; do
    [ ! -f "$1" ] || cp --reflink=auto -- "$1" "$store.part/$2" 2>/dev/null || rm -f -- "$store.part/$2"
    shift 2
done
"""
TAKE_MADE = f"""{FIND_STORE}
shift 3
cd -- "$home" || exit
while [ $# -gt 1 ]; do
    part=$store.part/$2
    if [ -f "$1" ] && cp --reflink=auto -- "$1" "$part" && cmp -s -- "$1" "$part"; then
        chmod 400 -- "$part" && touch -- "$part" && mv -f -- "$part" "$store/$2" && echo "$2" || exit
    else
        rm -f -- "$part"
    fi 2>/dev/null
    shift 2
done
sync -f -- "$store"
"""
RENAME = f"""{FIND_STORE}
shift 3
cd -- "$store" || exit
while [ $# -gt 1 ]; do ln -f -- "$1" "$2" || exit; shift 2; done
"""
REMOVE = f"""{FIND_STORE}
shift 3
cd -- "$store" || exit
rm -f -- "$@"
"""
# gridbridge-as-user's lock prevents parallel carries of the same owner.
CLOSE = f"""{FIND_STORE}
if rmdir -- "$store" 2>/dev/null; then rm -rf -- "$store.part" "$home/{CARRIED_INPUTS}"; fi
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedInputFile:
    digest: str
    size_bytes: int
    last_use_s: float  # seconds since 1970


@dataclass(slots=True)
class CarriedInputFolder:
    """A person's folder of carried input files at one cluster."""

    area: StorageAreaForAccount  # an area without a path stands for the person's home
    links: str  # local folder for symlinks to the files that are copied
    copy: FileCopyFunction = copy_files_by_rsync
    clock: Clock = field(default_factory=Clock)
    is_unwanted: Callable[[], bool] = lambda: False  # says whether to end a copy, because the campaign has ended
    free_bytes: int = 0
    copied_bytes: int = 0
    copying_s: float = 0.0
    _path: str = ""

    def open_folder(self) -> None:
        """Make the folder if it is missing, and measure it; raise StorageAreaUnusable."""
        free, self._path, _ = self._run_script_at_cluster(OPEN, (), REMOVAL_S).split("\n")
        blocks, block_bytes = map(int, free.split())
        self.free_bytes = blocks * block_bytes
        if self.area.max_bytes:
            self.free_bytes = storage_area_shell_scripts.measure_area_for_account(self.area).free_bytes

    def list_files(self, digests: Iterable[str] | None = None) -> tuple[CarriedInputFile, ...]:
        """Return the folder's files, or the files and links with the given checksums; raise StorageAreaUnusable."""
        files = list[CarriedInputFile]()
        for names in ((),) if digests is None else _split_into_groups([*digests]):
            for line in self._run_script_at_cluster(LIST, names, REMOVAL_S).splitlines():
                with suppress(ValueError):
                    used, size, name = line.split(" ")
                    files.append(CarriedInputFile(digest=name, size_bytes=int(size), last_use_s=float(used)))
        return tuple(files)

    def record_use_of_files(self, digests: Iterable[str]) -> None:
        """Record that tasks use these files now, so that other files are removed first."""
        for names in _split_into_groups([*digests]):
            self._run_script_at_cluster(USE, names, REMOVAL_S)

    def link_replicas(self, paths: Mapping[str, str], size_bytes: int) -> set[str]:
        """Link replicas from {checksum: path}; return the checksums of the replicas with the right content."""
        linked = set[str]()
        hash_s = max(LEAST_HASH_S, size_bytes / HASHED_PER_S + len(paths) * A_FILE_S)
        for names in _split_into_groups([*paths], LINKS_A_CALL):
            words = tuple(word for name in names for word in (name, paths[name]))
            linked.update(self._run_script_at_cluster(LINK, words, hash_s).split())
        return linked

    def remove_files(self, digests: Iterable[str]) -> None:
        for names in _split_into_groups([*digests]):
            self._run_script_at_cluster(REMOVE, names, REMOVAL_S)

    def copy_files_within_cluster(self, files: Iterable[TaskInputFile], paths: Mapping[str, str]) -> set[str]:
        """Copy files from paths relative to the home at the cluster; return the checksums of the verified copies."""
        copied, sizes = set[str](), {file.digest: file.size_bytes for file in files}
        for digests in _split_into_groups([*sizes], LINKS_A_CALL):
            size_bytes = sum(sizes[digest] for digest in digests)
            limit_s = max(LEAST_HASH_S, size_bytes / HASHED_PER_S + len(digests) * A_FILE_S)
            self._run_script_at_cluster(
                TAKE, tuple(word for digest in digests for word in (paths[digest], digest)), limit_s
            )
            copied.update(self._run_script_at_cluster(INSTALL, digests, limit_s).split())
        return copied

    def copy_made_files(self, paths: Mapping[str, str]) -> set[str]:
        """Copy predecessors' files from {name: path relative to the home}; return the names of the copies."""
        copied = set[str]()
        for names in _split_into_groups([*paths], LINKS_A_CALL):
            words = tuple(word for name in names for word in (paths[name], name))
            copied.update(self._run_script_at_cluster(TAKE_MADE, words, COPY_S).split())
        return copied

    def rename_files(self, digests: Mapping[str, str], needed: Set[str]) -> None:
        """Rename copies from {name: checksum}; copies in `needed` keep the checksum as a second name."""
        renamed = {name: digest for name, digest in digests.items() if name != digest}
        for names in _split_into_groups([*renamed], FILES_A_CALL // 2):
            self._run_script_at_cluster(
                RENAME, tuple(word for name in names for word in (renamed[name], name)), REMOVAL_S
            )
        self.remove_files({*renamed.values()} - digests.keys() - needed)

    def remove_empty_folder(self) -> None:
        """Remove the folder, its parts and its link, unless the folder has files."""
        self._run_script_at_cluster(CLOSE, (), REMOVAL_S)

    def copy_files(self, files: Iterable[TaskInputFile]) -> set[str]:
        """Copy files; return the checksums of the files that have changed since gridsub read them.

        Raises CopyNoLongerWanted if `is_unwanted` ended the copy.
        """
        by_digest = {file.digest: file for file in files}
        changed = set[str]()
        target = LocalOrSshFolder(login=self.area.login, folder=f"{self._path}.part")
        limit = self.area.bwlimit_kib_per_s
        pace = RsyncLimitAndProgress(tell=lambda _: None, kib_per_s=limit, is_unwanted=self.is_unwanted)
        for digests in _split_into_groups(list(by_digest)):
            self._link_files(by_digest[digest] for digest in digests)
            size_bytes, began_s = sum(by_digest[digest].size_bytes for digest in digests), self.clock.steady_s()
            try:
                with storage_area_shell_scripts.convert_storage_script_errors(self.area):
                    self.copy(LocalOrSshFolder(login=None, folder=self.links), target, list(digests), pace)
            finally:
                rsync.remove_folder_tree(self.links)
            self.copying_s += self.clock.steady_s() - began_s
            self.copied_bytes += size_bytes
            hash_s = max(LEAST_HASH_S, size_bytes / HASHED_PER_S + len(digests) * A_FILE_S)
            changed.update({*digests}.difference(self._run_script_at_cluster(INSTALL, digests, hash_s).split()))
        return changed

    def _run_script_at_cluster(self, script: str, names: tuple[str, ...], limit_s: float) -> str:
        answer = storage_area_shell_scripts.run_script_in_area(self.area, script, names, limit_s)
        return answer.decode("utf-8", "surrogateescape")

    def _link_files(self, files: Iterable[TaskInputFile]) -> None:
        rsync.remove_folder_tree(self.links)
        os.makedirs(self.links, 0o700)
        for file in files:
            os.symlink(file.path, f"{self.links}/{file.digest}")


def _split_into_groups(digests: list[str], size: int = FILES_A_CALL) -> Iterator[tuple[str, ...]]:
    for first in range(0, len(digests), size):
        yield tuple(digests[first : first + size])


def choose_files_to_remove(
    present: Iterable[CarriedInputFile], needed: frozenset[str], kept_files: frozenset[str], lacking_bytes: int
) -> tuple[str, ...]:
    """Choose files to remove until `lacking_bytes` are free; raise StorageAreaUnusable if this is impossible.

    Files in `needed` stay. Files in `kept_files`, which waiting tasks of the owner need, are removed last. Otherwise
    the files whose last use is longest ago are removed first.
    """
    chosen: list[str] = []
    for file in sorted(present, key=lambda file: (file.digest in kept_files, file.last_use_s)):
        if lacking_bytes <= 0:
            break
        if file.digest not in needed:
            chosen.append(file.digest)
            lacking_bytes -= file.size_bytes
    if lacking_bytes > 0:
        raise StorageAreaUnusable(f"{lacking_bytes} bytes more than the storage area has for this account")
    return tuple(chosen)
