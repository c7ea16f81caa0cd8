"""What a job is submitted with at its remote cluster: its request, in the words of that.

Starters load this module, and it the decision, when their queue has a mapping; `gridbridge
explain` asks the same.
"""

from gridbridge.batch.gridengine.request import Request, is_place
from gridbridge.decisions.mapping import Asked, translate
from gridbridge.model import mapping


def translated(request: Request, parallel: str, rules: bytes, remote: str) -> tuple[str, Asked]:
    """Bring a request, as it was made at home, into the words of `remote`.

    Changes the request in place; returns its parallel environment with the slots, `smp 4`, and
    what was asked for in all. Raises Unmappable when the job can't go there.
    """
    pe, _, slots = parallel.partition(" ")
    asked = Asked(
        hard=tuple(pair for pair in request.hard if not is_place(pair[0])),
        soft=tuple(pair for pair in request.soft if not is_place(pair[0])),
        pe=pe,
        slots=int(slots or 1),
        project=request.project,
        queues=tuple(name.partition("@")[0] for name in request.queues.split(",") if name),
    )
    there = translate(asked, mapping.decode(rules), remote)
    request.hard, request.soft = there.hard, there.soft
    request.project, request.targets = there.project, ",".join(there.queues)
    return (f"{there.pe} {there.slots}" if there.pe else ""), there
