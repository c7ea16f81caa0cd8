"""Check a job's requested names against the names that a remote cluster offers.

An unknown hard request refuses the job before submission. An unknown soft request, for which Grid
Engine would refuse the whole job, is omitted with a note.
"""

from gridbridge.decisions.transfer.request_mapping import HomeOrRemoteRequest
from gridbridge.errors import UnmappableRequest
from gridbridge.model.job_request import JobRequest, format_sql_condition_for_people, split_property_and_sql_relation
from gridbridge.model.names_offered_by_cluster import ANY, NamesOfferedByCluster

WILD = frozenset("*?[")
LEVEL = "/"  # prefix of an OAR resource level


def drop_unoffered_soft_requests(
    request: HomeOrRemoteRequest, vocabulary: NamesOfferedByCluster, remote: str
) -> HomeOrRemoteRequest:
    """Return a job's request without soft resources that the remote cluster lacks.

    Raises UnmappableRequest for other unknown names. A parallel environment may be a pattern
    (`mpi*`). Names of OAR properties ignore case, as SQL does.
    """
    for name in (_bare(resource) for resource, _ in request.hard):
        _require(_is_in(name, vocabulary.resource), remote, f"resource {name}")
    _require(not request.pe or _is_pe(request.pe, vocabulary), remote, f"parallel environment {request.pe}")
    is_project = not request.project or _is_in(request.project, vocabulary.project)
    _require(is_project, remote, f"project {request.project}")
    for name in request.queues:
        _require(_is_in(name, vocabulary.queue), remote, f"queue {name}")
    unknown = tuple(pair for pair in request.soft if not _is_in(_bare(pair[0]), vocabulary.resource))
    return request.but(
        soft=tuple(pair for pair in request.soft if pair not in unknown),
        notes=(*request.notes, *(_left_out(*pair, remote) for pair in unknown)),
    )


def list_names_not_offered(
    vocabulary: NamesOfferedByCluster, *, pe: str = "", project: str = "", queue: str = ""
) -> tuple[str, ...]:
    """Return the requested names that a cluster does not offer, each with its kind."""
    offers = (
        (f"parallel environment {pe}", not pe or _is_pe(pe, vocabulary)),
        (f"project {project}", not project or _is_in(project, vocabulary.project)),
        (f"queue {queue}", not queue or _is_in(queue, vocabulary.queue)),
    )
    return tuple(name for name, is_there in offers if not is_there)


def conditions_sge_cannot_express(vocabulary: NamesOfferedByCluster, request: JobRequest) -> tuple[str, ...]:
    """Return conditions on numbers and booleans that Grid Engine can't express.

    Grid Engine compares only strings with an expression (complex(5)), so a number allows neither
    inequality nor alternatives.
    """
    split = [(pair, *split_property_and_sql_relation(pair[0])) for pair in request.hard]
    names = [name for _, name, _ in split]
    conditions = [pair for pair, name, how in split if how != "=" or names.count(name) > 1]
    conditions += [pair for clause in request.either for pair in clause]
    return tuple(
        dict.fromkeys(format_sql_condition_for_people(*pair) for pair in conditions if _is_number(pair[0], vocabulary))
    )


def _is_number(name: str, vocabulary: NamesOfferedByCluster) -> bool:
    bare = split_property_and_sql_relation(name)[0]
    return _is_in(bare, vocabulary.resource) and not _is_in(bare, vocabulary.string)


def _left_out(name: str, value: str, remote: str) -> str:
    return f"soft request {name}={value} left out: {remote} has no resource {name}"


def _is_pe(name: str, vocabulary: NamesOfferedByCluster) -> bool:
    if WILD.isdisjoint(name) or ANY in vocabulary.pe:
        return _is_in(name, vocabulary.pe)
    from fnmatch import fnmatchcase  # this import takes 5 ms and few requests have a pattern

    return any(fnmatchcase(environment, name) for environment in vocabulary.pe)


def _bare(name: str) -> str:
    bare = split_property_and_sql_relation(name)[0].removeprefix(LEVEL)
    return bare if bare == name else bare.lower()


def _is_in(name: str, names: frozenset[str]) -> bool:
    return name in names or ANY in names


def _require(is_known: bool, remote: str, name: str) -> None:
    if not is_known:
        raise UnmappableRequest(f"{remote} has no {name}")
