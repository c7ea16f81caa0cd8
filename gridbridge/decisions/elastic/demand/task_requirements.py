"""Translate the requests of waiting tasks into requirements on hosts, by complex(5), sge_pe(5) and sge_types(1)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from gridbridge.errors import ParseError
from gridbridge.model import grid_engine_amounts
from gridbridge.model.elastic.grid_engine_cell import (
    ANYBODY,
    CellConfiguration,
    CellResourceDefinition,
    ConsumableKind,
    JobAccessIdentity,
    ParallelEnvironment,
    ParallelSlotDistribution,
    RequestedValueComparison,
    TaskResourceRequests,
)
from gridbridge.model.job_request import HOSTNAME, QNAME

TOKEN = re.compile(r"[!&|()]|[^!&|()]+")
DOMAIN = re.compile(r"\.[^!&|()]*")
MOST = 200  # limit of operators and patterns in an expression, because each level needs a recursive call


def request_expression_matches(expression: str, names: Iterable[str]) -> bool:
    """Say whether an expression matches any of the names, ignoring case.

    `!` binds tightest, then `&`, then `|`. An expression that Grid Engine cannot parse matches nothing.
    """
    tokens = TOKEN.findall(expression.lower().replace(" ", ""))
    if not 0 < len(tokens) <= MOST:
        return False
    try:
        is_match = _match_request_expression(tokens, tuple(name.lower() for name in names))
    except (IndexError, ValueError):
        return False
    return is_match and not tokens


def drop_domains_from_expression(expression: str, host: str) -> str:
    """Remove domains from an expression for a host without a domain, as ignore_fqdn of bootstrap(5) does."""
    return expression if "." in host else DOMAIN.sub("", expression)


def _match_request_expression(tokens: list[str], names: tuple[str, ...], operators: str = "|&") -> bool:
    """Parse and remove an expression of `operators` (loosest first) at the start of `tokens`; say if it matches."""
    if not operators:
        return _match_request_expression_term(tokens, names)
    is_match = _match_request_expression(tokens, names, operators[1:])
    while tokens[:1] == [operators[0]]:
        del tokens[0]
        is_next = _match_request_expression(tokens, names, operators[1:])
        is_match = is_match or is_next if operators[0] == "|" else is_match and is_next
    return is_match


def _match_request_expression_term(tokens: list[str], names: tuple[str, ...]) -> bool:
    first = tokens.pop(0)
    if first == "!":
        return not _match_request_expression_term(tokens, names)
    if first in ("&", "|", ")"):
        raise ValueError(first)
    if first != "(":
        return any(fnmatchcase(name, first) for name in names)
    is_match = _match_request_expression(tokens, names)
    if tokens.pop(0) != ")":
        raise ValueError(first)
    return is_match


TRUE, EXCLUSIVE = ("true", "1"), RequestedValueComparison.EXCLUSIVE
PLACES = {
    name: CellResourceDefinition(name=name, relation=RequestedValueComparison.EQUAL) for name in (HOSTNAME, QNAME)
}
BEYOND = 1e290  # no host has this amount, so no node is added for a job that requests `nan`


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredHostValue:
    name: str
    relation: RequestedValueComparison
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandTaskRequirement:
    slots: int = 1  # slots of one piece, which is the part of a task on one host
    pieces: int = 1
    is_apart: bool = False  # whether each piece of a task needs a different host
    is_exclusive: bool = False
    is_on_all: bool = False
    amounts: tuple[tuple[str, float], ...] = ()  # requested consumables per piece
    # default amounts of consumables per piece, on hosts that have the consumable
    usual: tuple[tuple[str, float], ...] = ()
    values: tuple[RequiredHostValue, ...] = ()
    queues: tuple[str, ...] = ()  # allowed queues; empty: every queue
    pe: str = ""  # requested parallel environment, maybe with wildcards
    environments: frozenset[str] = frozenset()  # allowed parallel environments
    asked: frozenset[str] = frozenset()
    identity: JobAccessIdentity = ANYBODY
    # further parts of the task, which start at the same time
    also: tuple["DemandTaskRequirement", ...] = ()

    @property
    def part_requirements(self) -> tuple["DemandTaskRequirement", ...]:
        """All parts of a task, which start at the same time, each with its own pieces."""
        return (replace(self, also=()), *self.also) if self.also else (self,)

    @property
    def total_task_pieces(self) -> int:
        return self.pieces + sum(part.pieces for part in self.also)

    @property
    def slots_of_all_parts(self) -> int:
        return sum(part.slots * part.pieces for part in (self, *self.also))

    @property
    def qname_queue_expressions(self) -> tuple[str, ...]:
        """The queue expressions of -l qname, all of which a queue must match."""
        return tuple(requirement.value for requirement in self.values if requirement.name == QNAME)


def requirement_of_task_requests(
    shape: TaskResourceRequests, layout: CellConfiguration, widest: int
) -> DemandTaskRequirement:
    """Return what a task with the given requests needs; `widest` has the slots of the largest host.

    If the allocation rule is unknown, a task that fits on one host is placed on one host. Without -r, qstat shows
    a job's slots, but no parallel environment.
    """
    if shape.groups:  # exclusive parts come first, then parts with many slots
        parts = [requirement_of_task_requests(group, layout, widest) for group in shape.groups]
        first, *others = sorted(parts, key=lambda need: (not need.is_exclusive, -need.slots))
        return replace(first, is_on_all=any(need.is_on_all for need in parts), also=tuple(others))
    known = {**PLACES, **layout.resources}  # hostname and qname are known even without the cell's list
    long_names = [(layout.full_resource_name(name), text) for name, text in shape.requests]
    requested = [(known[name], text) for name, text in long_names if name in known]
    values = [(resource, text) for resource, text in requested if resource.counted is ConsumableKind.NO]
    environments = [
        pe
        for pe in _parallel_environments_admitting_task(shape, layout)
        if _can_parallel_environment_split_slots(pe, shape)
    ]
    slots, pieces, is_apart = _split_task_slots_into_pieces(shape, environments, widest)
    names = frozenset(resource.name for resource, _ in requested)
    all_resources = {resource.name: resource for resource in layout.resources.values()}.values()
    unrequested = [(resource, resource.default) for resource in all_resources if resource.name not in names]
    return DemandTaskRequirement(
        slots=slots,
        pieces=pieces,
        is_apart=is_apart,
        is_exclusive=any(resource.relation is EXCLUSIVE and text.lower() in TRUE for resource, text in requested),
        is_on_all=shape.is_on_all,
        amounts=_consumables_per_task_piece(requested, slots, pieces),
        usual=tuple(amount for amount in _consumables_per_task_piece(unrequested, slots, pieces) if amount[1] > 0),
        values=tuple(
            RequiredHostValue(name=resource.name, relation=resource.relation, value=text)
            for resource, text in values
            if resource.relation is not EXCLUSIVE
        ),
        queues=shape.queues,
        pe=shape.pe,
        environments=frozenset(environment.name for environment in environments),
        asked=names,
        identity=shape.identity,
    )


def parallel_environment_unable_to_split(
    shape: TaskResourceRequests, layout: CellConfiguration
) -> ParallelEnvironment | None:
    """Return a parallel environment that admits a task but can't split its slots; None if another can."""
    environments = _parallel_environments_admitting_task(shape, layout)
    can_any = any(_can_parallel_environment_split_slots(environment, shape) for environment in environments)
    return None if can_any else next(iter(environments), None)


def parallel_environment_refusing_job(shape: TaskResourceRequests, layout: CellConfiguration) -> tuple[str, str]:
    """Return an environment that refuses the job, and why; empty texts if any environment admits the job."""
    named = _requested_parallel_environments(shape.pe, layout)
    if not named or _parallel_environments_admitting_task(shape, layout):
        return "", ""
    return named[0].name, named[0].access.refused_user_or_project(shape.identity, layout.user_lists)


def _can_parallel_environment_split_slots(environment: ParallelEnvironment, shape: TaskResourceRequests) -> bool:
    """Say whether a parallel environment can give a task its slots; a slot range is assumed to fit."""
    return (
        environment.spread is not ParallelSlotDistribution.FIXED
        or shape.is_range
        or shape.slots % environment.per_host == 0
    )


def _parallel_environments_admitting_task(
    shape: TaskResourceRequests, layout: CellConfiguration
) -> list[ParallelEnvironment]:
    matching = _requested_parallel_environments(shape.pe, layout)
    return [pe for pe in matching if not pe.access.refused_user_or_project(shape.identity, layout.user_lists)]


def _requested_parallel_environments(pe: str, layout: CellConfiguration) -> list[ParallelEnvironment]:
    return [environment for name, environment in sorted(layout.environments.items()) if pe and fnmatchcase(name, pe)]


def _split_task_slots_into_pieces(
    shape: TaskResourceRequests, environments: list[ParallelEnvironment], widest: int
) -> tuple[int, int, bool]:
    """Return the slots of a piece, the number of pieces, and whether pieces need different hosts."""
    if not shape.pe and shape.slots == 1:
        return 1, 1, False
    rule = environments[0] if environments else ParallelEnvironment(name=shape.pe)
    if rule.spread is ParallelSlotDistribution.FIXED:
        return rule.per_host, -(-shape.slots // rule.per_host), True
    is_whole = rule.spread is ParallelSlotDistribution.UNKNOWN and shape.slots <= widest
    if rule.spread is ParallelSlotDistribution.ONE_HOST or is_whole:
        return shape.slots, 1, False
    return 1, shape.slots, False


def _consumables_per_task_piece(
    requested: Iterable[tuple[CellResourceDefinition, str]], slots: int, pieces: int
) -> tuple[tuple[str, float], ...]:
    """Return the consumables of one piece of a task; amounts for the whole job are divided evenly."""
    amounts = list[tuple[str, float]]()
    for resource, text in requested:
        if resource.counted is ConsumableKind.NO or resource.relation is EXCLUSIVE:
            continue
        times = float(slots) if resource.counted is ConsumableKind.BY_SLOT else 1 / pieces
        amounts.append((resource.name, parse_amount_or_default(text, BEYOND) * times))
    return tuple(sorted(amounts))


def parse_amount_or_default(text: str, default: float = 0.0) -> float:
    try:
        return grid_engine_amounts.parse_grid_engine_amount(text)
    except ParseError:
        return default


def host_value_meets_requirement(requirement: RequiredHostValue, text: str) -> bool:
    """Say whether the value of a host meets a requirement, which may be an expression such as `!lx-x86`."""
    relation = requirement.relation
    if relation in (RequestedValueComparison.EQUAL, RequestedValueComparison.OTHER):
        return _does_host_value_match_request(requirement.value, text) == (relation is RequestedValueComparison.EQUAL)
    amount, has = parse_amount_or_default(requirement.value, BEYOND), parse_amount_or_default(text)
    if grid_engine_amounts.is_unlimited_grid_engine_amount(text):
        return relation in (RequestedValueComparison.AT_MOST, RequestedValueComparison.LESS)
    if relation is RequestedValueComparison.AT_MOST:
        return amount <= has
    if relation is RequestedValueComparison.AT_LEAST:
        return amount >= has
    return amount < has if relation is RequestedValueComparison.LESS else amount > has


def _does_host_value_match_request(pattern: str, text: str) -> bool:
    if request_expression_matches(pattern, (text,)):
        return True
    try:
        return _parse_number_or_bool(pattern) == _parse_number_or_bool(text)
    except ParseError:
        return False


def _parse_number_or_bool(text: str) -> float:
    word = text.lower()
    return float(word == "true") if word in ("true", "false") else grid_engine_amounts.parse_grid_engine_amount(text)
