"""What is done in a storage area, as oneself: measured, checked, made ready, put in place, removed.

Each account has a folder of its own in an area. A file in it says whose area it is, and each
replica has a folder NAME in it. The account's folder has the account's name; if somebody else made
that name first, a random word follows the name, so that nobody keeps another out of an area. A copy
grows as `.NAME.part` and is renamed when it is whole. A file in the copy says that it is ours, so
that nothing else is taken for a copy. The same lines of sh run here and by ssh.
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

from gridbridge.errors import CommandFailed, NotReached, StorageAway, StorageUnusable
from gridbridge.model.rebalance.datasets import REPLICA_MARK, Dataset, read_sums
from gridbridge.model.rebalance.storage_areas import MeasuredArea
from gridbridge.model.route import BARE, SshLogin
from gridbridge.shell import remote_stage_folder, ssh
from gridbridge.shell.runner import LIST_BYTES

LEAST_HASH_S, HASHED_PER_S = 600.0, 10_000_000  # bytes; a slower disk counts as one that hangs
A_FILE_S = 0.02  # to find and open it, by a file server that is far and busy
REMOVAL_S = COUNT_S = 600.0  # of a folder with very many files
MISSING, STRANGE, UNMOUNTED, OCCUPIED, SHARED = 77, 78, 74, 79, 80  # exit statuses
A_CALL = 100  # files
AREA_MARK = ".gridbridge.area"  # in an account's folder: the area's name
WORD = "????????-????-????-????-????????????"  # of proc(5), sys/kernel/random/uuid
# Copies that start at the same moment may make several folders. The folder with the oldest mark
# counts, for every copy has seen that folder.
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
# What the record has is ours, and so is what says that it is of this dataset: of its name and, but
# for replicas of long ago, its content. What tells another content is another record's, whatever
# ours has. Else a name with a dot is ours when it is empty, too: a kill may come before the mark is
# made, and after it is removed.
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
# Another copy may make the folder at the same moment; its mark is there whole, or not at all.
PREPARE = f"""umask 077
{OWN}
if [ "$7" != known ]; then
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
{MAY_GO}
may_go "$own/$4" && is_spare "$own/.$4.old" && is_spare "$own/.$4.part" || exit {OCCUPIED}
own=$own/.$4.part
[ -e "$own" ] || [ -L "$own" ] || mkdir -- "$own" || exit
{IS_OURS}
[ "$(judged "$own")" = ours ] || echo "$name $content" >"$own/{REPLICA_MARK}"
"""
# The mark goes last: of what a kill leaves is still known whose it is.
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


# By area: copies of a round that begin together make the account's folder one after the other, for
# the marks of two may be of the same moment.
_FIRST: dict[str, Lock] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageArea:
    """A storage area as one person reaches it."""

    name: str
    cluster: str
    path: str
    account: str  # there
    login: SshLogin | None  # None: it is seen here
    timeout_s: float
    max_bytes: int = 0
    bwlimit_kib_per_s: int = 0
    copies_at_once: int = 1
    is_drained: bool = False  # or its cluster is: it gets no replica
    word: str = ""  # behind the account's name in the folder's name (`located`)

    @property
    def own(self) -> str:
        """The folder of the account."""
        return f"{self.path}/{self.account}{self.word}"

    def replica(self, name: str) -> str:
        """Return the folder of a replica."""
        return f"{self.own}/{name}"

    def part(self, name: str) -> str:
        """Return the folder of one that is being copied."""
        return f"{self.own}/.{name}.part"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaContent:
    """What a replica has."""

    size_bytes: int
    sums: dict[str, str]


def located(area: StorageArea) -> StorageArea:
    """Return the area with the actual name of the account's folder."""
    answer = _ask(area, WHERE, (), area.timeout_s).decode("utf-8", "surrogateescape")
    name = answer.rpartition("/")[2]
    word = name.removeprefix(area.account)
    if name == word or not (word == "" or fnmatchcase(word, f".{WORD}")):
        raise StorageUnusable(f"{area.path}: {answer[:80]!r} is no folder of {area.account}")
    return replace(area, word=word)


def own_folders(area: StorageArea) -> list[str]:
    """Return the folders of an area on this host that are, or would be, the account's."""
    paths = [area.own, *glob(f"{escape(area.own)}.{WORD}")]
    return [path for path in paths if not os.path.lexists(path) or _is_own(path)]


def _is_own(path: str) -> bool:
    facts = os.lstat(path)
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()


def measure(area: StorageArea) -> MeasuredArea:
    """Look how large an area is and what is free there for its account.

    Whatever is wrong is told in the answer. What the account has there is counted, as long as it
    takes, only where `max_bytes` limits it and the area answers.
    """
    measured = _measured(area, MEASURE)
    if not area.max_bytes:
        return measured
    measured, used = _counted(measured, area, USED)
    return replace(measured, free_bytes=min(measured.free_bytes, max(area.max_bytes - used, 0)))


def measure_begun(area: StorageArea, name: str) -> MeasuredArea:
    """Look as well how much there is of a copy of a dataset that was begun there."""
    measured, begun = _counted(measure(area), area, BEGUN, name)
    return replace(measured, begun_bytes=begun)


def measure_all(area: StorageArea) -> MeasuredArea:
    """Do the same for whoever has replicas there: no account's folder or most counts."""
    return _measured(area, MEASURE_ALL)


def _measured(area: StorageArea, script: str) -> MeasuredArea:
    try:
        words = _ask(area, script, (), area.timeout_s).split()
        block, blocks, free = map(int, words[:3])
    except (StorageUnusable, ValueError) as error:
        return MeasuredArea(storage=area.name, cluster=area.cluster, fault=str(error))
    return MeasuredArea(
        storage=area.name,
        cluster=area.cluster,
        size_bytes=block * blocks,
        free_bytes=block * free,
        is_read_only=words[3:] != [b"yes"],
    )


def _counted(
    measured: MeasuredArea, area: StorageArea, script: str, *arguments: str
) -> tuple[MeasuredArea, int]:
    """Count bytes in an area that answers; what is wrong is told in what was measured."""
    if measured.fault:
        return measured, 0
    try:
        return measured, int(_ask(area, script, arguments, COUNT_S))
    except (StorageUnusable, ValueError) as error:
        return replace(measured, fault=str(error)), 0


def check(area: StorageArea, name: str, dataset: Dataset) -> ReplicaContent:
    """Read all of a replica; StorageUnusable when it is not there or can't be read.

    StorageAway where it can't be reached, or we had a folder and have none: nobody knows, then. A
    disk that hangs is told from one that is slow by a short question before.
    """
    _ask(area, ANSWER, (), area.timeout_s)
    data = _ask(area, CHECK, (name,), _reading_s(dataset))
    size, _, sums = data.partition(b"\n")
    return ReplicaContent(size_bytes=int(size), sums=read_sums(sums))


def _reading_s(dataset: Dataset) -> float:
    """Return how long reading it may take: by its bytes, and small files by their number."""
    return max(LEAST_HASH_S, dataset.size_bytes / HASHED_PER_S + dataset.files * A_FILE_S)


def prepare(area: StorageArea, dataset: Dataset, *, is_known: bool) -> None:
    """Make the folder in which a copy grows; what came earlier stays.

    Where there is a replica by its record, what has its name is that. With `is_known` the account
    has had its folder there, and no other one is made.
    """
    held, history = _held(area, dataset), "known" if is_known else "new"
    with nullcontext() if is_known else _FIRST.setdefault(area.name, Lock()):
        _ask(area, PREPARE, (dataset.name, dataset.sha256, held, history), area.timeout_s)


def clean(area: StorageArea, name: str, wrong: list[str]) -> None:
    """Remove files from a growing copy that are not of the dataset, or not as they should be."""
    for first in range(0, len(wrong), A_CALL):
        paths = (f"./{path}" for path in wrong[first : first + A_CALL])
        _ask(area, CLEAN, (name, *paths), area.timeout_s)


def finish(area: StorageArea, dataset: Dataset) -> None:
    """Put a whole copy in its place, instead of the replica that was there."""
    _ask(area, FINISH, (dataset.name, dataset.sha256, _held(area, dataset)), REMOVAL_S)


def drop(area: StorageArea, dataset: Dataset) -> None:
    """Remove a replica with what was left of copies; one that is gone is removed."""
    _ask(area, DROP, (dataset.name, dataset.sha256, _held(area, dataset)), REMOVAL_S)


def sweep(area: StorageArea, dataset: Dataset) -> None:
    """Remove what was left of copies; what is a replica by its record stays."""
    held = "begun" if area.name in dataset.storages else "new"
    _ask(area, DROP, (dataset.name, dataset.sha256, held), REMOVAL_S)


def _held(area: StorageArea, dataset: Dataset) -> str:
    return "held" if area.name in dataset.storages else "new"


def _ask(area: StorageArea, script: str, arguments: tuple[str, ...], timeout_s: float) -> bytes:
    argv = ("/bin/sh", "-c", script, "sh", area.path, area.account, area.name, *arguments)
    with explaining_failures(area):
        answer = ssh.run(area.login, argv, dict(BARE), timeout_s, most_bytes=LIST_BYTES)
        return answer.checked().stdout


@contextmanager
def explaining_failures(area: StorageArea) -> Iterator[None]:
    """Say in a line why something could not be done in an area."""
    try:
        yield
    except CommandFailed as error:
        mark = f"{area.own}/{AREA_MARK}"
        explanations = {
            remote_stage_folder.MISSING: f"{area.path}: no such folder",
            remote_stage_folder.LOOSE: f"{area.path}: others may write there, and it is not sticky",
            remote_stage_folder.TAKEN: (
                f"{area.own}: it, or the replica in it, is somebody else's or a link"
            ),
            UNMOUNTED: f"{area.own}: gone; is its filesystem mounted there?",
            MISSING: "it is gone",
            STRANGE: "it has something that is neither a file nor a folder",
            OCCUPIED: f"{area.own}: something of its name is there that is no replica of it; move"
            " that, or give the dataset another name",
            SHARED: f"{area.own}: it is in another area as well, which {mark} names, and two areas"
            " in one place are refused; if that area has another name now:"
            f" echo {area.name} >{shlex.quote(mark)}",
        }
        unusable = StorageAway if _is_away(error) else StorageUnusable
        raise unusable(explanations.get(error.status or 0) or error.words) from error


def _is_away(error: CommandFailed) -> bool:
    """Say whether nobody knows what is there: it could not be reached, or no answer came."""
    is_unanswered = error.status is None or error.status < 0
    return (
        is_unanswered
        or isinstance(error, NotReached)
        or error.status in (UNMOUNTED, remote_stage_folder.MISSING)
    )
