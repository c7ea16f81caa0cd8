"""What a campaign does once at a cluster: its prologue before all tasks there, its epilogue after.

Each is an array of one task, whose number no task of a campaign has: so root's ledger knows its
attempts as those of tasks. Hot programs load this module.
"""

from gridbridge.errors import ParseError

PROLOGUE, EPILOGUE = STEPS = ("prologue", "epilogue")
FIRST = 990_000_000  # beyond the number of any task

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Iterable


def is_step(task: int) -> bool:
    """Say whether this number is that of a prologue or an epilogue."""
    return task >= FIRST


def number_of(step: str, cluster: str, clusters: "Iterable[str]") -> int:
    """Return the number of a step at one of a campaign's clusters."""
    return FIRST + 2 * sorted(clusters).index(cluster) + STEPS.index(step)


def step_of(task: int, clusters: "Iterable[str]") -> tuple[str, str]:
    """Return which step a number is, and at which cluster; ParseError where there is none."""
    names, (at, step) = sorted(clusters), divmod(task - FIRST, 2)
    if not 0 <= at < len(names):
        raise ParseError(f"{task} is no step of a campaign at {len(names)} clusters")
    return STEPS[step], names[at]
