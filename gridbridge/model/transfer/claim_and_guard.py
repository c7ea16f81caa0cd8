"""Name the claim that decides where a task runs, and choose the guard of the home task.

A claim's name is `KIND.TOKEN`. Kind `file`: the side that first creates the file TOKEN in the shared spool runs
the task. Everybody can read a job script, so half of TOKEN is in a key file that only the owner can read.
Kind `grant`: home holds the claim until the service gives it to the remote job.
"""

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from collections.abc import Collection


FILE, GRANT = "file", "grant"
HOME, JOB = "home", "job"  # the two possible holders of a claim
FENCED = "fenced"  # the remote job ended because it was unknown which side had the right to run the task
MAX_TOKEN = 64
CLAIMS_FOLDER = "claims"
CLAIMS_FOLDER_NOT_OWNED_BY_SERVICE = "not owned by the service; `gridbridge setup host` makes the folder"
CLAIM_KEY_SUFFIX = ".key"


def split_claim_name(claim: str) -> tuple[str, str]:
    """Split a claim's name into kind and token; both are empty for an empty name."""
    kind, _, token = claim.partition(".")
    return kind, token


def claim_file_name(claim: str, uid: int) -> str:
    """Return the name of the file by which one side claims a task; the name begins with the owner's uid."""
    return f"{uid}.{split_claim_name(claim)[1]}"


def claim_key_file_name_and_contents(claim: str, uid: int) -> tuple[str, str]:
    """Return name and contents of the file with the secret half of a claim's token."""
    token = split_claim_name(claim)[1]
    half = len(token) // 2
    return f"{uid}.{token[:half]}{CLAIM_KEY_SUFFIX}", token[half:]


def is_valid_claim_name(text: str) -> bool:
    """Say whether a text is a valid claim name; the token of a valid name is safe in a path."""
    kind, token = split_claim_name(text)
    return kind in (FILE, GRANT) and token.isascii() and token.isalnum() and len(token) <= MAX_TOKEN


def does_claim_need_home_grant(claim: str) -> bool:
    """Say whether a claim's remote job needs a grant (permission) from home before it runs."""
    return split_claim_name(claim)[0] == GRANT


REMOTE = "remote"
AT_HOME = (REMOTE, "false")
ANY = ("", "*")
OPERATORS = frozenset("*?[]!&|()")  # operators in a list of queues (sge_types(1))

Pairs = tuple[tuple[str, str], ...]


class HomeStartGuard:
    """What keeps a task from starting at home while its remote job may run."""

    NONE = "none"  # no guard, because the task fits only transfer queues
    START = "start"  # a start time far in the future, for a whole job (qalter -a)
    HOLD = "hold"  # a user hold on the task


def choose_home_start_guard(hard: Pairs, queues: str, transfer_queues: "Collection[str]", is_array: bool) -> str:
    if does_job_request_remote(hard) or does_list_name_only_queues(queues, transfer_queues):
        return HomeStartGuard.NONE
    return HomeStartGuard.HOLD if is_array else HomeStartGuard.START


def does_job_request_remote(hard: Pairs) -> bool:
    """Say whether a job requests `remote=true` and so never runs at home."""
    return any(name == REMOTE and is_true_remote_value(value) for name, value in hard)


def does_job_request_home(hard: Pairs) -> bool:
    """Say whether a job requests `remote=false` and so stays at home."""
    return any(name == REMOTE and not is_true_remote_value(value) for name, value in hard)


def drop_remote_request(hard: Pairs) -> Pairs:
    return tuple(pair for pair in hard if pair[0] != REMOTE)


def restrict_request_to_home(hard: Pairs) -> Pairs:
    """Return a job's resource requests with `remote=false`, which excludes all transfer queues."""
    return (*drop_remote_request(hard), AT_HOME)


def is_true_remote_value(value: str) -> bool:
    """Say whether the value of a requested BOOL resource is true; an empty value is true (complex(5))."""
    return value.lower() not in ("false", "0")


def does_list_name_only_queues(queues: str, queue_names: "Collection[str]") -> bool:
    """Say whether a job's queue list has only queue names from `queue_names`, and no pattern."""
    return bool(queues) and all(word.partition("@")[0] in queue_names for word in queues.split(","))


def may_queue_list_include(queues: str, name: str) -> bool:
    """Say whether a job's queue list names a queue or has a pattern that may match the queue."""
    names = (word.partition("@")[0] for word in queues.split(","))
    return any(word in (name, *ANY) or not OPERATORS.isdisjoint(word) for word in names)
