"""Runs sh scripts in a storage area: measure the area; verify, prepare, install and remove replicas.

Each account has a folder in the area, named after the account, with a random word if somebody else took the name. A
mark file in the account's folder names the area. A mark file in a subfolder shows that the subfolder is a replica. An
unfinished copy is called `.NAME.part`, and gets its final name when it is complete.
"""

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import escape, glob
from threading import Lock

from gridbridge.errors import CommandFailed, HostNotReached, StorageAreaUnreachable, StorageAreaUnusable
from gridbridge.model.rebalance.datasets import REPLICA_MARK, Dataset, parse_sha256sum_output
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea
from gridbridge.model.transfer_route import BARE, SshLogin
from gridbridge.shell import remote_stage_folder, ssh
from gridbridge.shell.program_runs import LIST_BYTES

# shortest time limit of a check; slowest expected reading, in bytes per second
LEAST_HASH_S, HASHED_PER_S = 600.0, 10_000_000
A_FILE_S = 0.02  # time to open a file on a distant, busy file server
REMOVAL_S = COUNT_S = 600.0  # time limits for a folder with very many files
MISSING, STRANGE, UNMOUNTED, OCCUPIED, SHARED = 77, 78, 74, 79, 80  # exit statuses of the scripts
A_CALL = 100  # largest number of files in one remote command
AREA_MARK = ".gridbridge.area"  # file with the area's name, in each account's folder
WORD = "????????-????-????-????-????????????"  # pattern of a UUID from /proc/sys/kernel/random/uuid
# If two copies of one account start at the same time, each copy may make a folder for the account.
# Then both copies use the folder with the oldest mark file, because both find this folder.
OWN = f"""place=$1
{remote_stage_folder.JUDGE}
is_own() {{ [ -d "$own" ] && [ -O "$own" ] && [ ! -L "$own" ]; }}
find_own() {{
    found='' own=$1
    is_own || for own in "$1".{WORD}; do
        is_own && [ -s "$own/{AREA_MARK}" ] || continue
        [ -n "$found" ] && [ ! "$own/{AREA_MARK}" -ot "$found/{AREA_MARK}" ] || found=$own
    done
    own=${{found:-$1}} mark=${{found:-$1}}/{AREA_MARK}
}}
find_own "$place/$2"
"""
WHERE = f"""{OWN}
printf '%s' "$own"
"""
IS_OURS = f"is_own || exit {remote_stage_folder.TAKEN}\n"
KNOWN = f"""[ -e "$own" ] || [ -L "$own" ] || exit {UNMOUNTED}
{IS_OURS}
[ -s "$mark" ] || exit {UNMOUNTED}
[ "$(cat -- "$mark")" = "$3" ] || exit {SHARED}
"""
# A folder belongs to the dataset if the owner's record lists the folder, or if the folder's mark file has the
# dataset's name and content (old mark files: only the name).
# A folder whose mark file has other content never belongs to the dataset.
# A hidden empty folder belongs to the dataset, because a kill may come before the mark file is written or after it is
# removed.
MAY_GO = f"""name=$4 content=$5 held=$6
judged() {{
    case $([ -L "$1" ] || cat -- "$1/{REPLICA_MARK}" 2>/dev/null) in
    "$name" | "$name $content") echo ours ;;
    "$name "*) echo others ;;
    esac
}}
may_go() {{
    [ -e "$1" ] || [ -L "$1" ] || return 0
    case $(judged "$1") in
    ours) ;;
    others) return 1 ;;
    *) [ "$held" = held ] ;;
    esac
}}
is_bare() {{
    [ ! -L "$1" ] && [ "$(judged "$1")" != others ] &&
        [ -z "$(ls -A -I {REPLICA_MARK} -- "$1")" ]
}}
is_spare() {{ may_go "$1" || is_bare "$1"; }}
"""
MEASURE = f"""{OWN}
is_own || own=$place/
[ -w "$own" ] && writable=yes || writable=no
echo "$(stat -f -c '%S %b %a' -- "$own") $writable"
"""
USED = f"""{OWN}
is_own || {{ echo 0; exit; }}
du -s -B1 -- "$own" | cut -f1
"""
OF_IT = f"""of_it() {{ find . -type f ! -path ./{REPLICA_MARK} "$@"; }}
of_it -printf '%s\\n' | awk '{{ n += $1 }} END {{ printf "%.0f\\n", n }}'
"""
BEGUN = f"""{OWN}
own=$own/.$4.part
is_own || {{ echo 0; exit; }}
cd -- "$own" || exit
{OF_IT}
"""
MEASURE_ALL = f"""place=$1
{remote_stage_folder.JUDGE}
case ,$(findmnt -n -o OPTIONS -T "$place/"), in
*,ro,*) writable=no ;;
*) writable=yes ;;
esac
echo "$(stat -f -c '%S %b %a' -- "$place/") $writable"
"""
ANSWER = f"""{OWN}
{KNOWN}
stat -f -- "$own" >/dev/null
"""
CHECK = f"""{OWN}
{KNOWN}
[ -e "$own/$4" ] || exit {MISSING}
own=$own/$4
{IS_OURS}
cd -- "$own" || exit
[ -z "$(find . ! -type f ! -type d -print | head -c 1)" ] || exit {STRANGE}
{OF_IT}
of_it -print0 | xargs -0 -r sha256sum -z --
"""
# Another copy may create the folder at the same moment; the mark file appears whole or not at all.
MAKE_OWN = f"""if [ "$history" != known ]; then
    [ -e "$own" ] || [ -L "$own" ] || mkdir -- "$own" || [ -d "$own" ] || exit
    if ! is_own; then
        read -r word </proc/sys/kernel/random/uuid && own=$own.$word && mkdir -- "$own" || exit
    fi
    made=$own mark=$own/{AREA_MARK}
    [ -s "$mark" ] || {{ echo "$3" >"$mark.$$" && mv -f -- "$mark.$$" "$mark"; }} || exit
    find_own "$place/$2"
    [ "$own" = "$made" ] || rm -rf -- "$made"
fi
{KNOWN}
"""
PREPARE = f"""umask 077
{OWN}
history=$7
{MAKE_OWN}
{MAY_GO}
may_go "$own/$4" && is_spare "$own/.$4.old" && is_spare "$own/.$4.part" || exit {OCCUPIED}
own=$own/.$4.part
[ -e "$own" ] || [ -L "$own" ] || mkdir -- "$own" || exit
{IS_OURS}
[ "$(judged "$own")" = ours ] || echo "$name $content" >"$own/{REPLICA_MARK}"
"""
# The mark file names the dataset. It is removed last, so that files which a killed removal has left can be identified.
REMOVE = f"""emptied() {{
    find "$1" -mindepth 1 -maxdepth 1 ! -name {REPLICA_MARK} -exec rm -rf -- {{}} + &&
        rm -rf -- "$1"
}}
removed() {{
    [ ! -e "$1" ] || emptied "$1" 2>/dev/null || {{ chmod -R u+rwx -- "$1" && emptied "$1"; }}
}}
"""
FINISH = f"""{OWN}
{REMOVE}
{KNOWN}
{MAY_GO}
cd -- "$own" || exit
may_go "./$4" && is_spare "./.$4.old" || exit {OCCUPIED}
removed "./.$4.old" && sync -f -- "./.$4.part" || exit
[ ! -e "./$4" ] || mv -T -- "./$4" "./.$4.old" || exit
mv -T -- "./.$4.part" "./$4" || exit
removed "./.$4.old"
"""
CLEAN = f"""{OWN}
{KNOWN}
cd -- "$own/.$4.part" || exit
shift 4
rm -f -- "$@"
"""
DROP = f"""{OWN}
{REMOVE}
{KNOWN}
{MAY_GO}
cd -- "$own" || exit
for each in "./.$4.part" "./.$4.old"; do
    ! is_spare "$each" || removed "$each" || exit
done
[ "$held" != begun ] || exit 0
! may_go "./$4" || [ ! -e "./$4" ] || mv -T -- "./$4" "./.$4.old" || exit
! is_spare "./.$4.old" || removed "./.$4.old"
"""


# Each area has a lock, so that copies of a round create the account's folder one after the other:
# two mark files that are made at the same moment would be equally old.
_FIRST: dict[str, Lock] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageAreaForAccount:
    name: str
    clusters: tuple[str, ...]  # the clusters that see the area
    path: str
    account: str
    login: SshLogin | None  # None: the area is mounted on this host
    timeout_s: float
    max_bytes: int = 0
    bwlimit_kib_per_s: int = 0
    copies_at_once: int = 1
    is_drained: bool = False  # whether the area or its cluster is drained, and so gets no new replicas
    word: str = ""  # suffix of the account's folder: empty, or a dot and a UUID

    @property
    def account_folder_path(self) -> str:
        return f"{self.path}/{self.account}{self.word}"


def storage_area_with_account_folder(area: StorageAreaForAccount) -> StorageAreaForAccount:
    """Return the area with the actual name of the account's folder."""
    answer = run_script_in_area(area, WHERE, (), area.timeout_s).decode("utf-8", "surrogateescape")
    name = answer.rpartition("/")[2]
    word = name.removeprefix(area.account)
    if name == word or not (word == "" or fnmatchcase(word, f".{WORD}")):
        raise StorageAreaUnusable(f"{area.path}: {answer[:80]!r} is no folder of {area.account}")
    return replace(area, word=word)


def possible_folders_of_account_in_area(area: StorageAreaForAccount) -> list[str]:
    """Return the local paths at which the account's folder may be; other accounts' folders are left out."""

    def is_own_or_missing(path: str) -> bool:
        facts = os.lstat(path) if os.path.lexists(path) else None
        return not facts or (stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid())

    return [*filter(is_own_or_missing, (area.account_folder_path, *glob(f"{escape(area.account_folder_path)}.{WORD}")))]


def measure_area_for_account(area: StorageAreaForAccount) -> MeasuredStorageArea:
    """Measure a storage area and, if `max_bytes` limits it, the account's usage; faults are part of the result."""
    measured = _run_measuring_script(area, MEASURE)
    if not area.max_bytes:
        return measured
    measured, used = _run_byte_counting_script(measured, area, USED)
    return replace(measured, free_bytes=min(measured.free_bytes, max(area.max_bytes - used, 0)))


def measure_area_and_begun_copy(area: StorageAreaForAccount, name: str) -> MeasuredStorageArea:
    """Measure a storage area, and the bytes of a dataset's unfinished copy in the area."""
    measured, begun = _run_byte_counting_script(measure_area_for_account(area), area, BEGUN, name)
    return replace(measured, begun_bytes=begun)


def measure_whole_area(area: StorageAreaForAccount) -> MeasuredStorageArea:
    """Measure a whole area's size and free space; ignore accounts' folders and limits."""
    return _run_measuring_script(area, MEASURE_ALL)


def _run_measuring_script(area: StorageAreaForAccount, script: str) -> MeasuredStorageArea:
    try:
        words = run_script_in_area(area, script, (), area.timeout_s).split()
        block, blocks, free = map(int, words[:3])
    except (StorageAreaUnusable, ValueError) as error:
        return MeasuredStorageArea(storage=area.name, clusters=area.clusters, fault=str(error))
    return MeasuredStorageArea(
        storage=area.name,
        clusters=area.clusters,
        size_bytes=block * blocks,
        free_bytes=block * free,
        is_read_only=words[3:] != [b"yes"],
    )


def _run_byte_counting_script(
    measured: MeasuredStorageArea, area: StorageAreaForAccount, script: str, *arguments: str
) -> tuple[MeasuredStorageArea, int]:
    if measured.fault:
        return measured, 0
    try:
        return measured, int(run_script_in_area(area, script, arguments, COUNT_S))
    except (StorageAreaUnusable, ValueError) as error:
        return replace(measured, fault=str(error)), 0


def checksum_replica(area: StorageAreaForAccount, name: str, dataset: Dataset) -> tuple[int, dict[str, str]]:
    """Read a replica; return its bytes and checksums.

    Raises StorageAreaUnreachable if the area or the account's folder is missing or its disk hangs, and
    StorageAreaUnusable if the replica is missing.
    """
    run_script_in_area(area, ANSWER, (), area.timeout_s)
    hash_s = max(LEAST_HASH_S, dataset.size_bytes / HASHED_PER_S + dataset.files * A_FILE_S)
    size, _, sums = run_script_in_area(area, CHECK, (name,), hash_s).partition(b"\n")
    return int(size), parse_sha256sum_output(sums)


def prepare_new_replica_folder(area: StorageAreaForAccount, dataset: Dataset, *, is_known: bool) -> None:
    """Create the folder for a new replica, or use the folder of an unfinished copy.

    If the owner's record has a replica in the area, an existing folder named after the dataset is this replica.
    With `is_known` the account's folder must exist already.
    """
    history = "known" if is_known else "new"
    with nullcontext() if is_known else _FIRST.setdefault(area.name, Lock()):
        run_script_in_area(area, PREPARE, (*_dataset_script_arguments(area, dataset), history), area.timeout_s)


def remove_wrong_copied_files(area: StorageAreaForAccount, name: str, wrong_files: list[str]) -> None:
    """Remove damaged files, and files that the dataset does not have, from an unfinished copy."""
    for first in range(0, len(wrong_files), A_CALL):
        paths = (f"./{path}" for path in wrong_files[first : first + A_CALL])
        run_script_in_area(area, CLEAN, (name, *paths), area.timeout_s)


def install_finished_replica(area: StorageAreaForAccount, dataset: Dataset) -> None:
    """Rename a whole copy to its final name; the copy replaces an old replica."""
    run_script_in_area(area, FINISH, _dataset_script_arguments(area, dataset), REMOVAL_S)


def remove_replica(area: StorageAreaForAccount, dataset: Dataset, *, is_kept: bool = False) -> None:
    """Remove unfinished copies and, unless `is_kept`, also the replica; a missing replica is no error."""
    run_script_in_area(area, DROP, _dataset_script_arguments(area, dataset, "begun" if is_kept else "held"), REMOVAL_S)


def _dataset_script_arguments(
    area: StorageAreaForAccount, dataset: Dataset, word_for_replica: str = "held"
) -> tuple[str, str, str]:
    return dataset.name, dataset.sha256, word_for_replica if area.name in dataset.areas_with_replica else "new"


def run_script_in_area(area: StorageAreaForAccount, script: str, arguments: tuple[str, ...], timeout_s: float) -> bytes:
    argv = ("/bin/sh", "-c", script, "sh", area.path, area.account, area.name, *arguments)
    with convert_storage_script_errors(area):
        answer = ssh.run_over_ssh(area.login, argv, dict(BARE), timeout_s, most_bytes=LIST_BYTES)
        return answer.require_success().stdout


@contextmanager
def convert_storage_script_errors(area: StorageAreaForAccount) -> Iterator[None]:
    """Turn a failed script's exit status into StorageAreaUnusable with a one-line reason."""
    try:
        yield
    except CommandFailed as error:
        folder = area.account_folder_path
        mark = f"{folder}/{AREA_MARK}"
        explanations = {
            remote_stage_folder.MISSING: f"{area.path}: no such folder",
            remote_stage_folder.LOOSE: f"{area.path}: other accounts may write here, and the folder is not sticky",
            remote_stage_folder.TAKEN: (
                f"{folder}: this folder, or the replica inside, is a link or belongs to another account"
            ),
            UNMOUNTED: f"{folder}: the folder is gone; is the filesystem mounted?",
            MISSING: "the replica is gone",
            STRANGE: "the replica contains something that is neither a file nor a folder",
            OCCUPIED: f"{folder}: a file or folder here has the dataset's name, but is no replica; move"
            " this file or folder, or give the dataset another name",
            SHARED: f"{folder}: the folder belongs to another storage area, as {mark} says;"
            f" expected one area in each place. If the area was renamed to {area.name}, run:"
            f" echo {area.name} >{shlex.quote(mark)}",
        }
        # if an area was not reached, not mounted or silent, the state of its replicas is unknown
        is_away = error.status in (None, UNMOUNTED, remote_stage_folder.MISSING) or isinstance(error, HostNotReached)
        unusable = StorageAreaUnreachable if is_away or (error.status or 0) < 0 else StorageAreaUnusable
        raise unusable(explanations.get(error.status or 0) or error.failure_in_words) from error
