"""Paths and formats of published files that starters, load sensors and epilogs read.

Only the service account can write the files. Everybody can read them: they have nothing that `qstat` hides.
"""

import os

from gridbridge.errors import ParseError, StateError, UnconfiguredTransferQueue
from gridbridge.model import transfer_messages_in_spool, transfer_route
from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.model.transfer_messages_in_spool import TransferMessage
from gridbridge.model.transfer_route import TransferRoute
from gridbridge.shell import safe_files

TYPE_CHECKING = False  # importing typing would be slow
if TYPE_CHECKING:
    from gridbridge.model.job_request import JobSpec

SERVICE = "service.json"
JOBS = "jobs"
TOLD = "told"  # folder of job histories without a verified owner; each uid has a subfolder
ACCOUNTING = "accounting"  # folder of the usage of remote jobs
USAGE = "usage"  # folder of usage that epilogs add to home's accounting; each user has a subfolder
FETCHED = ("verdicts", USAGE)  # folders of files that only programs of one job read, and only once
JOBS_A_FOLDER = 1000  # largest number of jobs in a subfolder; a site may have a million files
LATEST_S = 32503680000  # the year 3000; the comparison with this time also refuses NaN
WORDS_MAX_BYTES = 64 << 20  # largest size in bytes; high, because the names that a cluster offers include its hosts
LOAD_MAX_BYTES = 4096  # PIPE_BUF, so that the sensor can write all values in one piece


def published_route_path(queue: str, published: str = PUBLISHED) -> str:
    return f"{published}/queues/{queue}"


def request_mapping_path(queue: str, published: str = PUBLISHED) -> str:
    return f"{published}/mappings/{queue}"


def offered_names_path(cluster: str, published: str = PUBLISHED) -> str:
    return f"{published}/vocabularies/{cluster}"


def non_forwarding_queues_path(cluster: str, published: str = PUBLISHED) -> str:
    return f"{published}/stays/{cluster}"


def transfer_verdict_path(transfer: str, uid: int, published: str = PUBLISHED) -> str:
    return f"{published}/verdicts/{uid}/{transfer}"


def answer_path_for_starter(wake: str, uid: int, published: str = PUBLISHED) -> str:
    """Return the path of the answer to a starter's ASK message; the file is named like the starter's FIFO."""
    return f"{published}/verdicts/{uid}/{wake}"


def verified_job_history_path(local: str, published: str = PUBLISHED) -> str:
    """Return the history path of a local job or task (12 or 12.3) whose owner is verified."""
    return f"{published}/{JOBS}/{local}.json"


def unverified_history_path(local: str, uid: int | str, published: str = PUBLISHED) -> str:
    """Return the history path of a job or task that user `uid` claims to own."""
    return f"{published}/{TOLD}/{uid}/{local}.json"


def remote_usage_path(job: int, task: int, published: str = PUBLISHED) -> str:
    name = f"{job}.{task}" if task else str(job)
    return f"{published}/{ACCOUNTING}/{job // JOBS_A_FOLDER}/{name}.json"


def root_epilog_usage_path(local: str, owner: str, published: str = PUBLISHED) -> str:
    """Return the path of the usage that root's epilog (sge-methods/usage) adds to the accounting at home."""
    return f"{published}/{USAGE}/{owner}/{local}"


def load_values_path(published: str = PUBLISHED) -> str:
    return f"{published}/load"


def read_published_route(queue: str, published: str = PUBLISHED) -> TransferRoute:
    """Read a transfer queue's published route; raise UnconfiguredTransferQueue if no route is published."""
    data = _read_published_file_or_none(published_route_path(queue, published), 65536)
    if data is None:
        raise UnconfiguredTransferQueue(f"queue {queue} leads to no cluster; expected a section [queue.{queue}]")
    return transfer_route.decode_transfer_route(data)


def may_queue_get_route_soon(queue: str, published: str, configuration: str) -> bool:
    """Say whether a queue has a route, or gridbridge.toml is newer than service.json."""
    if os.path.exists(published_route_path(queue, published)):
        return True
    try:
        shown, written = os.stat(f"{published}/{SERVICE}"), os.stat(configuration)
    except OSError:
        return False
    return written.st_ctime_ns >= shown.st_mtime_ns


def read_request_mapping(queue: str, published: str = PUBLISHED) -> bytes:
    """Read a queue's rules that translate job requests; raise StateError if the file is missing."""
    path = request_mapping_path(queue, published)
    if (rules := _read_published_file_or_none(path)) is None:
        raise StateError(f"{path}: missing; the poller publishes this file")
    return rules


def read_offered_names(cluster: str, published: str = PUBLISHED) -> bytes | None:
    return _read_published_file_or_none(offered_names_path(cluster, published))


def read_non_forwarding_queues(cluster: str, published: str = PUBLISHED) -> bytes | None:
    return _read_published_file_or_none(non_forwarding_queues_path(cluster, published))


def exclude_forwarding_queues(spec: "JobSpec", remote: str, published: str = PUBLISHED) -> "JobSpec":
    """Exclude a remote job from queues that lead to a third cluster."""
    data = read_non_forwarding_queues(remote, published)
    if not data:
        return spec
    from gridbridge.model import names_offered_by_cluster  # few jobs need this

    queues = names_offered_by_cluster.decode_non_forwarding_queues(data)
    return spec.with_changes(request=queues.restrict_request(spec.request))


def _read_published_file_or_none(path: str, most_bytes: int = WORDS_MAX_BYTES) -> bytes | None:
    try:
        return safe_files.read_file_only_owner_writes(path, most_bytes)[0]
    except FileNotFoundError:
        return None


def list_queues_with_routes(published: str = PUBLISHED) -> tuple[str, ...]:
    names = os.listdir(f"{published}/queues")
    return tuple(name for name in names if not name.startswith(safe_files.TEMPORARY))


def remove_routes_of_other_queues(queues: frozenset[str], published: str = PUBLISHED) -> None:
    """Remove the published routes and mappings of all queues except `queues`."""
    for folder in (f"{published}/queues", f"{published}/mappings"):
        for queue in os.listdir(folder) if os.path.isdir(folder) else ():
            if queue not in queues:
                safe_files.remove_file(f"{folder}/{queue}")


def read_verdict_or_reply(path: str) -> TransferMessage | None:
    data = _read_published_file_or_none(path, transfer_messages_in_spool.MAX_BYTES)
    return None if data is None else transfer_messages_in_spool.decode_transfer_message(data)


def count_verdicts_and_replies(uid: int, published: str = PUBLISHED) -> int:
    try:
        return len(os.listdir(f"{published}/verdicts/{uid}"))
    except FileNotFoundError:
        return 0


def set_verdict_folder_modes(mode: int, published: str = PUBLISHED) -> None:
    around = f"{published}/verdicts"
    for uid in safe_files.list_folder_or_empty(around):
        os.chmod(f"{around}/{uid}", mode)


def remove_unfetched_published_files(open_transfers: frozenset[str], until: float, published: str = PUBLISHED) -> int:
    """Remove old files of ended transfers and old unfinished files; return the number of files."""
    removed = 0
    for folder, folders, names in os.walk(published):
        if folder == published and ACCOUNTING in folders:
            folders.remove(ACCOUNTING)  # skipped, because old files in this large folder are removed elsewhere
        is_fetched = folder.startswith(tuple(f"{published}/{subfolder}/" for subfolder in FETCHED))
        for name in names:
            is_left = is_fetched and name not in open_transfers
            path = f"{folder}/{name}"
            if (is_left or name.startswith(safe_files.TEMPORARY)) and os.lstat(path).st_mtime < until:
                safe_files.remove_file(path)
                removed += 1
    return removed


def read_load_values_and_freshness(
    path: str, now: float, owner: int | None = None
) -> tuple[dict[str, str], float, bool]:
    """Return the load values, their maximum age in seconds, and whether they are fresh."""
    from gridbridge.decisions.transfer.transfer_queue_closing import are_load_values_fresh  # only the sensor calls this

    taken_at, stale_s, values = parse_load_values_file(path, owner)
    return values, stale_s, bool(values) and are_load_values_fresh(now - taken_at, stale_s)


def parse_load_values_file(path: str, owner: int | None = None) -> tuple[float, float, dict[str, str]]:
    """Return the time of the load values, their maximum age in seconds, and the values themselves."""
    data, _ = safe_files.read_file_only_owner_writes(path, LOAD_MAX_BYTES, owner)
    head, newline, body = data.decode("ascii", "replace").partition("\n")
    try:
        taken_at, stale_s = map(float, head.split())
    except ValueError as error:
        raise ParseError(f"{path}: the first line is not a time and a limit") from error
    if not 0 <= taken_at <= LATEST_S or not 0 <= stale_s <= LATEST_S:
        raise ParseError(f"{path}: the first line has an impossible time")
    if not newline or not data.endswith(b"\n"):
        raise ParseError(f"{path}: cut short")
    rows = (line.partition("=") for line in body.splitlines())
    return taken_at, stale_s, {name: value for name, _, value in rows}


def encode_load_values(taken_at: float, stale_s: float, values: dict[str, str]) -> bytes:
    """Encode load values: a line with time and maximum age, then a line `name=value` for each value."""
    return f"{taken_at:.3f} {stale_s:g}\n".encode() + transfer_messages_in_spool.encode_key_value_lines(values)
