"""What a job is submitted with at its remote cluster: its request, in the words of that.

Starters load this module, and it the decisions, when their queue has a mapping or their job asks
for something; `gridbridge explain` asks the same.
"""

from collections.abc import Container, Iterator

from gridbridge.batch.gridengine.commands import OWN_QUEUES
from gridbridge.batch.gridengine.request import Request
from gridbridge.decisions.transfer.mapping import Asked, translate
from gridbridge.decisions.transfer.vocabulary import understood
from gridbridge.model.places import PUBLISHED, is_place
from gridbridge.model.route import Route
from gridbridge.model.transfer import mapping, onward, vocabulary
from gridbridge.model.transfer.mapping import Mapping
from gridbridge.model.transfer.vocabulary import Vocabulary
from gridbridge.state import published


def translated_for(
    queue: str, route: Route, request: Request, parallel: str, folder: str = PUBLISHED
) -> tuple[str, Asked]:
    """Bring a request into the words of a transfer queue's cluster, by what is published of it."""
    return translated(
        request,
        parallel,
        mapping.decode(published.read_mapping(queue, folder))
        if route.remote_mapped
        else Mapping({}),
        words_of(route.remote, folder),
        route.remote,
        published.queues(folder),
    )


def words_of(cluster: str, folder: str = PUBLISHED) -> Vocabulary | None:
    """Return the words that a cluster last told; None while it has told none."""
    told = published.read_vocabulary(cluster, folder)
    return None if told is None else vocabulary.decode(told)


def keep_there(request: Request, remote: str, folder: str = PUBLISHED) -> None:
    """Keep a job from the queues of a cluster that would send it on, where there are any."""
    if told := published.read_stay(remote, folder):
        onward.decode(told).keep(request)


def translated(
    request: Request,
    parallel: str,
    rules: Mapping,
    known: Vocabulary | None,
    remote: str,
    own_queues: Container[str],
) -> tuple[str, Asked]:
    """Bring a request, as it was made at home, into the words of `remote`.

    `known` are those words, None while it has not told them; `own_queues` are the transfer
    queues, which no rule is about. Changes the request in place; returns its parallel
    environment with the slots, `smp 4`, and what was asked for in all. Raises Unmappable when
    the job can't go there.
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
    if known is not None:
        there = understood(there, known, remote)
    request.hard, request.soft = there.hard, there.soft
    request.project, request.targets = there.project, ",".join(there.queues)
    request.types = there.types
    if there.spread:
        from gridbridge.decisions.transfer.spread import groups  # of few jobs

        request.groups = groups(there.slots, there.spread, len(known.node) if known else 0)
    return (f"{there.pe} {there.slots}" if there.pe else ""), there


def _queues(request: Request) -> Iterator[str]:
    """Give the queues that a job asked for, without hosts, whether it is pinned now or not."""
    own = dict(request.context).get(OWN_QUEUES)
    for name in request.queues.split(",") if own is None else own.split():
        queue = name.partition("@")[0]
        if queue not in ("", "*"):
            yield queue
