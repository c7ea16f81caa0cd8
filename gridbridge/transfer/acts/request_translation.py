"""Translates a job's request into the words of its remote cluster.

Starters load this module, and with it the decisions, when their queue has a mapping or their job
asks for something; `gridbridge explain` asks the same.
"""

from collections.abc import Container, Iterator

from gridbridge.decisions.transfer.requests.offered_names import understood
from gridbridge.decisions.transfer.requests.request_mapping import MappedRequest, translate
from gridbridge.model import vocabulary
from gridbridge.model.places import PUBLISHED
from gridbridge.model.request import JobRequest, JobSpec, is_place
from gridbridge.model.route import TransferRoute
from gridbridge.model.transfer import request_rules
from gridbridge.model.transfer.request_rules import RequestMapping
from gridbridge.model.vocabulary import ClusterVocabulary
from gridbridge.state import published_values


def translated_for(
    queue: str, route: TransferRoute, spec: JobSpec, folder: str = PUBLISHED
) -> tuple[JobSpec, tuple[str, ...]]:
    """Bring a job into the words of a transfer queue's cluster, by what is published of it."""
    return translated(
        spec,
        request_rules.decode(published_values.read_mapping(queue, folder))
        if route.remote_mapped
        else RequestMapping({}),
        words_of(route.remote, folder),
        route.remote,
        published_values.queues(folder),
    )


def words_of(cluster: str, folder: str = PUBLISHED) -> ClusterVocabulary | None:
    """Return the names that a cluster offers, as last published; None while there are none."""
    published = published_values.read_vocabulary(cluster, folder)
    return None if published is None else vocabulary.decode(published)


def keep_there(spec: JobSpec, remote: str, folder: str = PUBLISHED) -> JobSpec:
    """Keep a job from the queues of a cluster that would send it on, where there are any."""
    published = published_values.read_stay(remote, folder)
    return (
        spec.but(request=vocabulary.decode_queues(published).keep(spec.request))
        if published
        else spec
    )


def translated(
    spec: JobSpec,
    rules: RequestMapping,
    offered: ClusterVocabulary | None,
    remote: str,
    own_queues: Container[str],
) -> tuple[JobSpec, tuple[str, ...]]:
    """Bring what a job asks for at home into the words of `remote`; say what is left out, and why.

    `offered` are those words, None while it has not told them; `own_queues` are the transfer
    queues, which no rule is about. Raises Unmappable when the job can't go there.
    """
    request = spec.request
    mapped = MappedRequest(
        hard=tuple(pair for pair in request.hard if not is_place(pair[0])),
        soft=tuple(pair for pair in request.soft if not is_place(pair[0])),
        pe=spec.pe,
        slots=spec.slots,
        project=request.project,
        queues=tuple(name for name in _queues(request) if name not in own_queues),
    )
    remote_request = translate(mapped, rules, remote)
    if offered is not None:
        remote_request = understood(remote_request, offered, remote)
    asks = request.but(
        hard=remote_request.hard,
        soft=remote_request.soft,
        project=remote_request.project,
        targets=",".join(remote_request.queues),
        types=remote_request.types,
        groups=_groups(remote_request, len(offered.node) if offered else 0),
    )
    return spec.but(request=asks, pe=remote_request.pe, slots=remote_request.slots), tuple(
        remote_request.notes
    )


def _groups(remote_request: MappedRequest, nodes: int) -> tuple[tuple[int, int], ...]:
    """Return how the slots lie on the nodes of a cluster, if a rule says so."""
    if not remote_request.spread:
        return ()
    from gridbridge.decisions.transfer.requests.slots_per_node import groups  # of few jobs

    return groups(remote_request.slots, remote_request.spread, nodes)


def _queues(request: JobRequest) -> Iterator[str]:
    """Give the queues that a job asked for, without hosts, whether it is pinned now or not."""
    for name in request.own_queues.split(","):
        queue = name.partition("@")[0]
        if queue not in ("", "*"):
            yield queue
