"""The claim on a remote job: the holder of the claim, home or job, runs the task.

A record names a claim as `KIND.TOKEN`. With `file` the side that first creates the file TOKEN in the shared
spool holds the claim. A job script is readable by everybody, so a script has only the first half of the token.
The second half is in the claim key, a file that only the job's owner can read. With `grant` home holds the
claim until the state file gives the claim to the job.

The starter chooses the guard before its first act and writes the guard into its record.
"""

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from collections.abc import Collection


FILE, GRANT = "file", "grant"
HOME, JOB = "home", "job"  # the two possible holders of a claim
FENCED = "fenced"  # the job ended because the holder of the claim was unreadable
MAX_TOKEN = 64
FOLDER = "claims"  # folder of claim files below the spool
NOT_SERVICES = "not the service's own; `gridbridge setup host` makes it"  # the claims folder
KEY = ".key"  # suffix of a claim key's file name


def split_claim(claim: str) -> tuple[str, str]:
    """Split a claim into kind and token; both are empty without a claim."""
    kind, _, token = claim.partition(".")
    return kind, token


def claim_file_name(claim: str, uid: int) -> str:
    """Return the name of a claim's file, which the owner's uid reserves."""
    return f"{uid}.{split_claim(claim)[1]}"


def claim_key_file(claim: str, uid: int) -> tuple[str, str]:
    """Return a claim key file's name and contents, the second half of the claim's token."""
    token = split_claim(claim)[1]
    half = len(token) // 2
    return f"{uid}.{token[:half]}{KEY}", token[half:]


def is_valid_claim_name(text: str) -> bool:
    """Say whether a text is a valid claim; its token becomes part of paths."""
    kind, token = split_claim(text)
    return kind in (FILE, GRANT) and token.isascii() and token.isalnum() and len(token) <= MAX_TOKEN


def does_claim_need_home_grant(claim: str) -> bool:
    """Say whether home holds a claim until home grants the claim to the remote job."""
    return split_claim(claim)[0] == GRANT


REMOTE = "remote"
AT_HOME = (REMOTE, "false")
ANY = ("", "*")
OPERATORS = frozenset("*?[]!&|()")  # operators of queue expressions (sge_types(1))

Pairs = tuple[tuple[str, str], ...]


class HomeStartGuard:
    """The kind of guard on a home task: none, a far start time, or a user hold."""

    NONE = "none"  # no guard: the task fits only transfer queues
    START = "start"  # a far start time of the whole job (qalter -a), never of a single task
    HOLD = "hold"  # a user hold on the task


def choose_home_start_guard(hard: Pairs, queues: str, transfer_queues: "Collection[str]", is_array: bool) -> str:
    """Return the kind of guard for a task with the given resource requests and queues."""
    if asks_for_remote(hard) or does_list_name_only_queues(queues, transfer_queues):
        return HomeStartGuard.NONE
    return HomeStartGuard.HOLD if is_array else HomeStartGuard.START


def asks_for_remote(hard: Pairs) -> bool:
    """Say whether a job requests `remote=true` and so never runs at home."""
    return any(name == REMOTE and is_true_remote_value(value) for name, value in hard)


def asks_for_home(hard: Pairs) -> bool:
    """Say whether a job requests `remote=false` and so stays at home."""
    return any(name == REMOTE and not is_true_remote_value(value) for name, value in hard)


def drop_remote_request(hard: Pairs) -> Pairs:
    """Return a job's resource requests without resource `remote`."""
    return tuple(pair for pair in hard if pair[0] != REMOTE)


def restrict_request_to_home(hard: Pairs) -> Pairs:
    """Add `remote=false` to a job's resource requests, so that only home queues fit."""
    return (*drop_remote_request(hard), AT_HOME)


def is_true_remote_value(value: str) -> bool:
    """Say whether a requested BOOL is true; an empty value is true (complex(5))."""
    return value.lower() not in ("false", "0")


def does_list_name_only_queues(queues: str, named: "Collection[str]") -> bool:
    """Say whether a queue list names only the queues in `named` and has no pattern."""
    return bool(queues) and all(word.partition("@")[0] in named for word in queues.split(","))


def may_queue_list_include(queues: str, name: str) -> bool:
    """Say whether a queue list may include a queue by the queue's name or by a pattern."""
    names = (word.partition("@")[0] for word in queues.split(","))
    return any(word in (name, *ANY) or not OPERATORS.isdisjoint(word) for word in names)
