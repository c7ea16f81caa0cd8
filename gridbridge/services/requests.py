"""What a job is submitted with at its remote cluster: its request, in the words of that.

Starters load this module, and it the decision, when their queue has a mapping; `gridbridge
explain` asks the same.
"""

from collections.abc import Container, Iterator

from gridbridge.batch.gridengine.commands import OWN_QUEUES
from gridbridge.batch.gridengine.request import Request
from gridbridge.decisions.mapping import Asked, translate
from gridbridge.model.mapping import Mapping
from gridbridge.model.places import is_place


def translated(
    request: Request, parallel: str, rules: Mapping, remote: str, own_queues: Container[str]
) -> tuple[str, Asked]:
    """Bring a request, as it was made at home, into the words of `remote`.

    `own_queues` are the transfer queues, which no rule is about. Changes the request in place;
    returns its parallel environment with the slots, `smp 4`, and what was asked for in all.
    Raises Unmappable when the job can't go there.
    """
    pe, _, slots = parallel.partition(" ")
    asked = Asked(
        hard=tuple(pair for pair in request.hard if not is_place(pair[0])),
        soft=tuple(pair for pair in request.soft if not is_place(pair[0])),
        pe=pe,
        slots=int(slots or 1),
        project=request.project,
        queues=tuple(name for name in _queues(request) if name not in own_queues),
    )
    there = translate(asked, rules, remote)
    request.hard, request.soft = there.hard, there.soft
    request.project, request.targets = there.project, ",".join(there.queues)
    return (f"{there.pe} {there.slots}" if there.pe else ""), there


def _queues(request: Request) -> Iterator[str]:
    """Give the queues that a job asked for, without hosts, whether it is pinned now or not."""
    own = dict(request.context).get(OWN_QUEUES)
    for name in request.queues.split(",") if own is None else own.split():
        queue = name.partition("@")[0]
        if queue not in ("", "*"):
            yield queue
