"""What keeps a job from queues of another cluster that would send it on; a file for each cluster.

Hot programs load this module where another cluster has such a queue.
"""

from gridbridge.model import lines

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from gridbridge.model.request import Request


class LocalQueues:
    """The queues of another cluster that send no jobs on, and whether all of them say so."""

    queues: str  # their names, with commas
    all_say: str  # yes: `-l remote=false` finds each of them

    def __init__(self, *, queues: str, all_say: str = "") -> None:
        self.queues = queues
        self.all_say = all_say

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalQueues) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"LocalQueues(queues={self.queues!r}, all_say={self.all_say!r})"

    def keep(self, request: "Request") -> "Request":
        """Keep a job there: have it ask for those queues."""
        targets, stays = self.kept(request.targets)
        return request.but(targets=targets, stays=stays)

    def kept(self, targets: str) -> tuple[str, bool]:
        """Return the queues to ask for, and whether to ask for `remote=false`.

        `targets` are those that a mapping names, empty for any. Where none of them is known to
        send nothing away, they are asked for as they are.
        """
        names = self.queues.split(",")
        wanted = targets.split(",") if targets else names
        kept = [each for each in wanted if each.partition("@")[0] in names]
        if not kept:
            return targets, False
        if self.all_say:
            return targets, True
        return ",".join(kept), False


def encode(queues: LocalQueues) -> bytes:
    """Write it as it is published."""
    return lines.encode(vars(queues))


def decode(data: bytes) -> LocalQueues:
    """Read what is published; ParseError for anything else."""
    return LocalQueues(**{"queues": "", **lines.decode(data, ("queues", "all_say"))})
