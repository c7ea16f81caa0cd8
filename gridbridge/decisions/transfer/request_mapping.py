"""Translate a job's request at home into a remote cluster's request, by the cluster's mapping rules.

Unknown soft requests are omitted with a note, because Grid Engine refuses jobs with them.
"""

from gridbridge.errors import ParseError, UnmappableRequest
from gridbridge.model import grid_engine_amounts, light_dataclass
from gridbridge.model.job_request import (
    JobRequest,
    format_sql_condition_for_people,
    resource_long_name,
    split_property_and_sql_relation,
)
from gridbridge.model.names_offered_by_cluster import ANY, NamesOfferedByCluster
from gridbridge.model.transfer import request_mapping_rules
from gridbridge.model.transfer.request_mapping_rules import RequestMapping, RequestMappingRule

ORDER_RELATIONS = (">=", "<=", ">", "<")  # SQL relations that compare numbers
Pairs = tuple[tuple[str, str], ...]


@light_dataclass(kw_only=True)
class MappableJobRequest:
    hard: Pairs = ()
    soft: Pairs = ()
    pe: str = ""  # parallel environment; empty: a serial job
    slots: int = 1
    project: str = ""
    queues: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # one text for each omitted soft request
    spread: str = ""  # placement of the slots on OAR's nodes; empty: all slots on one node
    types: tuple[str, ...] = ()

    def but(self, **changed: object) -> "MappableJobRequest":
        """Return a copy of the request with some fields replaced."""
        return MappableJobRequest(**vars(self) | changed)

    def __eq__(self, request: object) -> bool:
        return all(getattr(self, key) == getattr(request, key, None) for key in MappableJobRequest.__annotations__)


def map_request_to_remote_cluster(
    request: MappableJobRequest, mapping: RequestMapping, remote: str
) -> MappableJobRequest:
    """Translate a job's request; raise UnmappableRequest if no rule allows the request."""
    hard = tuple(pair for resource in request.hard for pair in _map_hard_resource(*resource, mapping, remote))
    notes: list[str] = []
    pe, slots, spread = _map_parallel_environment(request, mapping, remote)
    return MappableJobRequest(
        hard=_add_default_resources(_merge_requests_of_one_resource(hard), request, mapping, remote),
        soft=tuple(pair for resource in request.soft for pair in _map_soft_resource(*resource, mapping, remote, notes)),
        pe=pe,
        slots=slots,
        project=_map_project(request.project, mapping, remote),
        queues=_map_requested_queues(request.queues, mapping, remote),
        notes=tuple(notes),
        spread=spread,
        types=tuple(rule.to for _, rule in mapping.rules_of_kind(request_mapping_rules.TYPE)),
    )


def _add_default_resources(mapped: Pairs, request: MappableJobRequest, mapping: RequestMapping, remote: str) -> Pairs:
    """Add default amounts of resources that a job does not request; INFINITY counts as no request."""
    is_unlimited = grid_engine_amounts.is_unlimited_grid_engine_amount
    names = {resource_long_name(name) for name, value in request.hard if not is_unlimited(value)}
    rules = mapping.rules_of_kind(request_mapping_rules.RESOURCE)
    missing = [(name, rule) for name, rule in rules if resource_long_name(name) not in names]
    for name, rule in missing:
        if rule.require:
            raise UnmappableRequest(f"{remote} requires a hard request for {name}; expected qsub -l {name}=VALUE")
    defaults = [_convert_resource_request(name, rule.default, rule) for name, rule in missing if rule.default]
    names_mapped = {resource_long_name(name) for name, _ in mapped}
    more = (pair for pairs in defaults for pair in pairs)
    return mapped + tuple(pair for pair in more if resource_long_name(pair[0]) not in names_mapped)


def _merge_requests_of_one_resource(hard: Pairs) -> Pairs:
    most: dict[str, tuple[str, str]] = {}
    for name, value in hard:
        first_name, before = most.get(resource_long_name(name), (name, value))
        try:
            larger = value if before == value else max(before, value, key=_parse_amount_or_infinity)
        except ParseError as error:
            raise UnmappableRequest(f"{name} is requested as both {before!r} and {value!r}") from error
        most[resource_long_name(name)] = first_name, larger
    return tuple(most.values())


def _parse_amount_or_infinity(value: str) -> float:
    is_unlimited = grid_engine_amounts.is_unlimited_grid_engine_amount(value)
    return float("inf") if is_unlimited else grid_engine_amounts.parse_grid_engine_amount(value)


def _map_hard_resource(name: str, value: str, mapping: RequestMapping, remote: str) -> Pairs:
    rule = mapping.find_rule(request_mapping_rules.RESOURCE, name) or RequestMappingRule()
    if rule.reject:
        raise UnmappableRequest(f"{remote} has no {name}: {rule.reject}")
    return () if rule.drop else _convert_resource_request(name, value, rule)


def _map_soft_resource(name: str, value: str, mapping: RequestMapping, remote: str, notes: list[str]) -> Pairs:
    try:
        mapped = _map_hard_resource(name, value, mapping, remote)
        if mapped and mapping.allows_only_mapped_requests:
            raise UnmappableRequest(f"{remote} accepts no soft requests")
        return mapped
    except UnmappableRequest as error:
        notes.append(f"soft request {name}={value} left out: {error}")
        return ()


def _convert_resource_request(name: str, value: str, rule: RequestMappingRule) -> Pairs:
    """Return a resource request in the remote cluster's name and unit; empty for an unlimited amount."""
    target = (rule.to or name) + rule.relation
    is_ordered = rule.relation in ORDER_RELATIONS
    if grid_engine_amounts.is_unlimited_grid_engine_amount(value) and (rule.scale or rule.unit or is_ordered):
        return ()
    if not rule.scale and not rule.unit:
        return ((target, _convert_amount_to_plain_number(value) if is_ordered else value),)
    try:
        number = grid_engine_amounts.parse_grid_engine_amount(value) * float(rule.scale or 1)
    except ParseError as error:
        raise UnmappableRequest(f"{name}: {error}") from error
    amount = grid_engine_amounts.format_grid_engine_amount(number, rule.unit)
    return ((target, grid_engine_amounts.strip_memory_unit(amount) if rule.relation else amount),)


def _convert_amount_to_plain_number(value: str) -> str:
    """Convert a memory amount to bytes, or a time to seconds; return other text unchanged."""
    if ":" not in value and value[-1:] not in grid_engine_amounts.MULTIPLIERS:
        return value
    try:
        return grid_engine_amounts.format_grid_engine_amount(grid_engine_amounts.parse_grid_engine_amount(value), "")
    except ParseError:
        return value


def _map_parallel_environment(
    request: MappableJobRequest, mapping: RequestMapping, remote: str
) -> tuple[str, int, str]:
    if not request.pe:
        return "", request.slots, ""
    rule = mapping.find_rule(request_mapping_rules.PE, request.pe) or RequestMappingRule()
    if rule.reject:
        raise UnmappableRequest(f"{remote} has no parallel environment {request.pe}: {rule.reject}")
    slots = grid_engine_amounts.ceil_despite_rounding_error(request.slots * float(rule.scale or 1))
    return rule.to or request.pe, slots, rule.spread


def _map_project(project: str, mapping: RequestMapping, remote: str) -> str:
    """Return the project at the remote cluster; the rule `*` also covers jobs without a project."""
    rule = mapping.find_rule(request_mapping_rules.PROJECT, project) or RequestMappingRule()
    if rule.reject:
        of_project = f"of project {project}" if project else "without a project"
        raise UnmappableRequest(f"{remote} takes no job {of_project}: {rule.reject}")
    return "" if rule.drop else rule.to or project


def _map_requested_queues(queues: tuple[str, ...], mapping: RequestMapping, remote: str) -> tuple[str, ...]:
    """Return the remote queues that mapping rules give; if no rule gives any, the default queue or none."""
    rules = [(name, rule) for name in queues if (rule := mapping.find_rule(request_mapping_rules.QUEUE, name))]
    for name, rule in rules:
        if rule.reject:
            raise UnmappableRequest(f"{remote} has no equivalent of queue {name}: {rule.reject}")
    usual = mapping.rules.get((request_mapping_rules.QUEUE, request_mapping_rules.EVERY_JOB), RequestMappingRule()).to
    asked_for = tuple(dict.fromkeys(rule.to for _, rule in rules if rule.to))
    return asked_for or ((usual,) if usual else ())


Groups = tuple[tuple[int, int], ...]  # pairs (nodes, slots on each node); 0 nodes: any free nodes
ONE_NODE: Groups = ()  # all slots on one node


def spread_slots_over_nodes(slots: int, spread: str, nodes: int) -> Groups:
    """Place slots on `nodes` OAR nodes (0: unknown); return pairs (number of nodes, slots on each node)."""
    if request_mapping_rules.is_fixed_slots_per_node(spread):
        full, remainder = divmod(slots, int(spread))
        return _drop_empty_node_groups((full, int(spread)), (1, remainder))
    if spread == request_mapping_rules.ROUND_ROBIN:
        used = min(slots, nodes or slots)
        per_node, more = divmod(slots, used)
        return _drop_empty_node_groups((used, per_node), (more, 1))
    return ((0, slots),) if spread == request_mapping_rules.FILL_UP else ONE_NODE


def _drop_empty_node_groups(*pairs: tuple[int, int]) -> Groups:
    return tuple(pair for pair in pairs if all(pair))


PE_PATTERN_CHARACTERS = frozenset("*?[")
LEVEL = "/"


def drop_unoffered_soft_requests(
    request: MappableJobRequest, vocabulary: NamesOfferedByCluster, remote: str
) -> MappableJobRequest:
    """Return a job's request without the soft resources that the remote cluster lacks.

    Raises UnmappableRequest if the cluster lacks a hard resource, queue, project or parallel environment.
    """
    hard = (_resource_name_without_relation(resource) for resource, _ in request.hard)
    missing = [f"resource {name}" for name in hard if not _is_name_offered(name, vocabulary.resource)]
    missing += list_names_not_offered(vocabulary, pe=request.pe, project=request.project)
    missing += [f"queue {name}" for name in request.queues if not _is_name_offered(name, vocabulary.queue)]
    if missing:
        raise UnmappableRequest(f"{remote} has no {missing[0]}")
    named = ((pair, _resource_name_without_relation(pair[0])) for pair in request.soft)
    unknown = tuple(pair for pair, name in named if not _is_name_offered(name, vocabulary.resource))
    left_out = (f"soft request {name}={value} left out: {remote} has no resource {name}" for name, value in unknown)
    soft = tuple(pair for pair in request.soft if pair not in unknown)
    return request.but(soft=soft, notes=(*request.notes, *left_out))


def list_names_not_offered(
    vocabulary: NamesOfferedByCluster, *, pe: str = "", project: str = "", queue: str = ""
) -> tuple[str, ...]:
    """Return the requested names that a cluster does not have, each with its kind, such as queue."""
    offers = (
        (f"parallel environment {pe}", not pe or _is_parallel_environment_offered(pe, vocabulary)),
        (f"project {project}", not project or _is_name_offered(project, vocabulary.project)),
        (f"queue {queue}", not queue or _is_name_offered(queue, vocabulary.queue)),
    )
    return tuple(name for name, is_there in offers if not is_there)


def conditions_sge_cannot_express(vocabulary: NamesOfferedByCluster, request: JobRequest) -> tuple[str, ...]:
    """Return a request's conditions on numbers, which Grid Engine lacks: its conditions are for texts (complex(5))."""

    def is_numeric_resource_request(pair: tuple[str, str]) -> bool:
        bare = split_property_and_sql_relation(pair[0])[0]
        return _is_name_offered(bare, vocabulary.resource) and not _is_name_offered(bare, vocabulary.string)

    split = [(pair, *split_property_and_sql_relation(pair[0])) for pair in request.hard]
    names = [name for _, name, _ in split]
    conditions = [pair for pair, name, how in split if how != "=" or names.count(name) > 1]
    conditions += [pair for clause in request.either for pair in clause]
    return tuple(
        dict.fromkeys(
            format_sql_condition_for_people(*pair) for pair in conditions if is_numeric_resource_request(pair)
        )
    )


def _is_parallel_environment_offered(name: str, vocabulary: NamesOfferedByCluster) -> bool:
    if PE_PATTERN_CHARACTERS.isdisjoint(name) or ANY in vocabulary.pe:
        return _is_name_offered(name, vocabulary.pe)
    from fnmatch import fnmatchcase  # this import takes 5 ms, and few requests have a pattern

    return any(fnmatchcase(environment, name) for environment in vocabulary.pe)


def _resource_name_without_relation(name: str) -> str:
    bare = split_property_and_sql_relation(name)[0].removeprefix(LEVEL)
    return bare if bare == name else bare.lower()


def _is_name_offered(name: str, names: frozenset[str]) -> bool:
    return name in names or ANY in names
