"""What keeps a task that is put back from starting at home while a copy of it may live elsewhere.

Its starter chooses that before its first act and tells it in its record.
"""

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Collection

REMOTE = "remote"
AT_HOME = (REMOTE, "false")
ANY = ("", "*")
OPERATORS = frozenset("*?[]!&|()")  # of queue expressions (sge_types(1))

Pairs = tuple[tuple[str, str], ...]


class GuardKind:
    """The three guards."""

    NONE = "none"  # it can only come to a transfer queue, where its starter adopts the copy
    START = "start"  # the job's start time lies far ahead (qalter -a); of no single task
    HOLD = "hold"  # a user hold on the task


def choose_guard(
    hard: Pairs, queues: str, transfer_queues: "Collection[str]", is_array: bool
) -> str:
    """Return the guard of a task that asks for these resources and queues."""
    if asks_for_remote(hard) or names_only_queues(queues, transfer_queues):
        return GuardKind.NONE
    return GuardKind.HOLD if is_array else GuardKind.START


def asks_for_remote(hard: Pairs) -> bool:
    """Say whether a job asks to go away (`remote=true`)."""
    return any(name == REMOTE and is_true_remote_value(value) for name, value in hard)


def asks_for_home(hard: Pairs) -> bool:
    """Say whether a job asks to stay at home."""
    return any(name == REMOTE and not is_true_remote_value(value) for name, value in hard)


def drop_remote_request(hard: Pairs) -> Pairs:
    """Return the request without any `remote`."""
    return tuple(pair for pair in hard if pair[0] != REMOTE)


def restrict_to_home(hard: Pairs) -> Pairs:
    """Return a request for queues at home alone."""
    return (*drop_remote_request(hard), AT_HOME)


def is_true_remote_value(value: str) -> bool:
    """Read a BOOL that was asked for, which is true when no value was given (complex(5))."""
    return value.lower() not in ("false", "0")


def names_only_queues(queues: str, named: "Collection[str]") -> bool:
    """Say whether a list means these queues only; anything but a plain name may mean any."""
    return bool(queues) and all(word.partition("@")[0] in named for word in queues.split(","))


def may_include_queue(queues: str, name: str) -> bool:
    """Say whether a list of queues may mean this one: by its name, or by anything but a name."""
    names = (word.partition("@")[0] for word in queues.split(","))
    return any(word in (name, *ANY) or not OPERATORS.isdisjoint(word) for word in names)
