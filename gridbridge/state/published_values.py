"""Published files: how the service speaks to people and to the hot programs.

World-readable, replaced by rename, owned by the service account, in a folder that only it can
write. Nothing in them is more than `qstat` would show anybody.
"""

import os

from gridbridge.errors import NoRoute, ParseError, StateError
from gridbridge.model import key_value_lines, message, route
from gridbridge.model.message import StarterMessage
from gridbridge.model.places import PUBLISHED
from gridbridge.model.route import TransferRoute
from gridbridge.shell import files

SERVICE = "service.json"  # what the service says of itself
JOBS = "jobs"  # the folder of the histories
TOLD = "told"  # histories that home's list has not proved, a folder for each person
ACCOUNTING = "accounting"  # the folder of what remote jobs used
USAGE = "usage"  # what epilogs account for here, in a folder for each person
FETCHED = ("verdicts", USAGE)  # folders of files that a job's own programs read once
JOBS_A_FOLDER = 1000  # below that one: a site keeps a million files
LATEST_S = 32503680000  # the year 3000; NaN is not below it either
WORDS_MAX_BYTES = 64 << 20  # a cluster has as many names as hosts, and more
LOAD_MAX_BYTES = 4096  # PIPE_BUF: the sensor passes it on in one write


def route_path(queue: str, published: str = PUBLISHED) -> str:
    """Return where a transfer queue's route is published."""
    return f"{published}/queues/{queue}"


def mapping_path(queue: str, published: str = PUBLISHED) -> str:
    """Return where the mapping of a transfer queue's requests is published, if it has one."""
    return f"{published}/mappings/{queue}"


def vocabulary_path(cluster: str, published: str = PUBLISHED) -> str:
    """Return where the names that a remote cluster offers are published."""
    return f"{published}/vocabularies/{cluster}"


def stay_path(cluster: str, published: str = PUBLISHED) -> str:
    """Return where the queues that keep jobs at a cluster are published, if one sends jobs on."""
    return f"{published}/stays/{cluster}"


def verdict_path(transfer: str, uid: int, published: str = PUBLISHED) -> str:
    """Return where the verdict on a person's transfer appears when there is one."""
    return f"{published}/verdicts/{uid}/{transfer}"


def reply_path(wake: str, uid: int, published: str = PUBLISHED) -> str:
    """Return where the answer to an ASK message appears, named by the asker's FIFO."""
    return f"{published}/verdicts/{uid}/{wake}"


def history_path(local: str, published: str = PUBLISHED) -> str:
    """Return where the history of a local job or task (12 or 12.3) lies."""
    return f"{published}/{JOBS}/{local}.json"


def told_path(local: str, uid: int | str, published: str = PUBLISHED) -> str:
    """Return the path of a person's history of a job or task that is not proved to be theirs."""
    return f"{published}/{TOLD}/{uid}/{local}.json"


def accounting_path(job: int, task: int, published: str = PUBLISHED) -> str:
    """Return where the usage of the remote jobs of a local job or task lies."""
    name = f"{job}.{task}" if task else str(job)
    return f"{published}/{ACCOUNTING}/{job // JOBS_A_FOLDER}/{name}.json"


def usage_path(local: str, owner: str, published: str = PUBLISHED) -> str:
    """Return the path of a remote job's usage for the root epilog (sge-methods/usage)."""
    return f"{published}/{USAGE}/{owner}/{local}"


def load_path(published: str = PUBLISHED) -> str:
    """Return where the load values lie."""
    return f"{published}/load"


def read_route(queue: str, published: str = PUBLISHED) -> TransferRoute:
    """Read a transfer queue's route; NoRoute when the poller does not publish one."""
    try:
        return route.decode(files.read(route_path(queue, published), 65536)[0])
    except FileNotFoundError as error:
        raise NoRoute(f"queue {queue} leads nowhere: it has no [queue.{queue}]") from error


def may_lead_soon(queue: str, published: str, configuration: str) -> bool:
    """Say whether a queue without a route may have one by now, or as soon as the service looks.

    It shows anew what it says of itself when it takes the configuration, or refuses it.
    """
    if os.path.exists(route_path(queue, published)):
        return True
    try:
        shown, written = os.stat(f"{published}/{SERVICE}"), os.stat(configuration)
    except OSError:
        return False
    return written.st_ctime_ns >= shown.st_mtime_ns


def read_mapping(queue: str, published: str = PUBLISHED) -> bytes:
    """Read how a queue's requests are translated, for model.mapping; StateError without it."""
    path = mapping_path(queue, published)
    try:
        return files.read(path, WORDS_MAX_BYTES)[0]
    except FileNotFoundError as error:
        raise StateError(f"{path}: not there; the poller publishes it") from error


def read_vocabulary(cluster: str, published: str = PUBLISHED) -> bytes | None:
    """Read the names that a cluster offers, for model.vocabulary; None while it has told none."""
    try:
        return files.read(vocabulary_path(cluster, published), WORDS_MAX_BYTES)[0]
    except FileNotFoundError:
        return None


def read_stay(cluster: str, published: str = PUBLISHED) -> bytes | None:
    """Read which queues keep jobs at a cluster, for model.stay; None where none have to."""
    try:
        return files.read(stay_path(cluster, published), WORDS_MAX_BYTES)[0]
    except FileNotFoundError:
        return None


def queues(published: str = PUBLISHED) -> tuple[str, ...]:
    """Return the transfer queues whose routes are published."""
    names = os.listdir(f"{published}/queues")
    return tuple(
        name for name in names if not name.startswith(files.TEMPORARY)
    )  # what is being written


def withdraw_routes(queues: frozenset[str], published: str = PUBLISHED) -> None:
    """Remove the routes of all queues but these, then their mappings."""
    for folder in (f"{published}/queues", f"{published}/mappings"):
        for queue in os.listdir(folder) if os.path.isdir(folder) else ():
            if queue not in queues:
                files.remove(f"{folder}/{queue}")


def read_message(path: str) -> StarterMessage | None:
    """Read a verdict or a reply; None while there is none."""
    try:
        return message.decode(files.read(path, message.MAX_BYTES)[0])
    except FileNotFoundError:
        return None


def count_verdicts(uid: int, published: str = PUBLISHED) -> int:
    """Return how many verdicts and replies a person has."""
    try:
        return len(os.listdir(f"{published}/verdicts/{uid}"))
    except FileNotFoundError:
        return 0


def hide_verdicts(mode: int, published: str = PUBLISHED) -> None:
    """Give each person's folder of verdicts and replies this mode."""
    around = f"{published}/verdicts"
    for uid in files.names(around):
        os.chmod(f"{around}/{uid}", mode)


def sweep(open_transfers: frozenset[str], until: float, published: str = PUBLISHED) -> int:
    """Remove files that nobody fetched or finished until that time; return how many.

    These are verdicts and replies without an open transfer, old usage, and unfinished files of
    killed writers.
    """
    removed = 0
    for folder, folders, names in os.walk(published):
        if folder == published and ACCOUNTING in folders:
            folders.remove(ACCOUNTING)  # large, and state.accounts sweeps it
        is_fetched = folder.startswith(tuple(f"{published}/{subfolder}/" for subfolder in FETCHED))
        for name in names:
            is_left = is_fetched and name not in open_transfers
            path = f"{folder}/{name}"
            if (is_left or name.startswith(files.TEMPORARY)) and os.lstat(path).st_mtime < until:
                files.remove(path)
                removed += 1
    return removed


def load(path: str, now: float, owner: int | None = None) -> tuple[dict[str, str], float, bool]:
    """Return the load values, how old they may be, and whether they are not older than that.

    A time in the future (somebody set the clock) is not fresh either. Raises ParseError for
    anything but what encode_load wrote.
    """
    taken_at, stale_s, values = read_load(path, owner)
    return values, stale_s, bool(values) and -1 <= now - taken_at <= stale_s


def read_load(path: str, owner: int | None = None) -> tuple[float, float, dict[str, str]]:
    """Return when the load values were taken, how old in seconds they may be, and the values."""
    data, _ = files.read(path, LOAD_MAX_BYTES, owner)
    head, newline, body = data.decode("ascii", "replace").partition("\n")
    try:
        taken_at, stale_s = map(float, head.split())
    except ValueError as error:
        raise ParseError(f"{path}: the first line is not a time and a limit") from error
    if not 0 <= taken_at <= LATEST_S or not 0 <= stale_s <= LATEST_S:
        raise ParseError(f"{path}: the first line has a time that can't be")
    if not newline or not data.endswith(b"\n"):
        raise ParseError(f"{path}: cut short")
    rows = (line.partition("=") for line in body.splitlines())
    return taken_at, stale_s, {name: value for name, _, value in rows}


def encode_load(taken_at: float, stale_s: float, values: dict[str, str]) -> bytes:
    """Write load values as they are published: time and limit, then `complex=value` lines."""
    return f"{taken_at:.3f} {stale_s:g}\n".encode() + key_value_lines.encode(values)
