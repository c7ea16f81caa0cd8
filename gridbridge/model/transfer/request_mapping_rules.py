"""The rules that translate a job's request for a remote cluster, as values.

The service publishes a queue's rules as lines of `KIND/NAME/KEY=value`, so that a starter reads no
configuration file. Starters load this module only for a queue with a mapping.
"""

from gridbridge.errors import ParseError
from gridbridge.model import grid_engine_amounts, transfer_message

ANY = "*"  # name of the mapping rule for all names without a rule of their own


class RequestMappingRule:
    """The rule for one resource, parallel environment, project, queue or job type."""

    to: str  # name at the remote cluster; empty: same as at home
    scale: str  # number by which the requested amount is multiplied
    unit: str  # unit of the amount at the remote cluster; empty: same as at home
    relation: str  # SQL relation between an OAR property and the amount, such as >=
    default: str  # request for jobs that do not request the resource, in home units
    drop: str  # yes: the resource is not requested at the remote cluster
    require: str  # yes: a job must request the resource
    spread: str  # spread of the slots over OAR's nodes; empty: all slots on one node
    reject: str  # reason for which jobs with this request are refused

    def __init__(self, **values: str) -> None:
        for key in KEYS:
            setattr(self, key, values.get(key, ""))

    def __eq__(self, rule: object) -> bool:
        return isinstance(rule, RequestMappingRule) and vars(self) == vars(rule)

    def __repr__(self) -> str:
        set_ones = ", ".join(f"{key}={value!r}" for key, value in vars(self).items() if value)
        return f"{type(self).__name__}({set_ones})"


PE_SLOTS, ROUND_ROBIN, FILL_UP = SPREADS = ("pe_slots", "round_robin", "fill_up")
RELATIONS = ("", "=", ">=", "<=", ">", "<")
KEYS = tuple(RequestMappingRule.__annotations__)
RESOURCE, PE, PROJECT, QUEUE, TYPE = KINDS = ("resource", "pe", "project", "queue", "type")
EVERY_JOB = ""  # name of the mapping rule for the queue of jobs without -q


class RequestMapping:
    """The mapping rules of one remote cluster by kind, such as resource, and home name."""

    def __init__(self, rules: dict[tuple[str, str], RequestMappingRule]) -> None:
        self.rules = rules

    def __eq__(self, mapping: object) -> bool:
        return isinstance(mapping, RequestMapping) and self.rules == mapping.rules

    def rule(self, kind: str, name: str) -> RequestMappingRule | None:
        """Return a kind's mapping rule for a home name, else the kind's rule `*`, else None."""
        return self.rules.get((kind, name)) or self.rules.get((kind, ANY))

    @property
    def is_closed(self) -> bool:
        """Whether jobs may request only mapped resources, as hard requests, as at OAR."""
        return (RESOURCE, ANY) in self.rules

    def of(self, kind: str) -> tuple[tuple[str, RequestMappingRule], ...]:
        """Return the mapping rules of a kind in the order of gridbridge.toml."""
        return tuple((name, rule) for (rule_kind, name), rule in self.rules.items() if rule_kind == kind)


def is_fixed_slots_per_node(spread: str) -> bool:
    """Say whether a spread is a fixed number of slots on each node (sge_pe(5))."""
    return spread.isascii() and spread.isdecimal() and len(spread) < 8 and int(spread) > 0


def encode_request_mapping(mapping: RequestMapping) -> bytes:
    """Encode the mapping rules of a remote cluster for publication."""
    return transfer_message.encode_key_value_lines(
        {
            f"{kind}/{name}/{key}": value
            for (kind, name), rule in mapping.rules.items()
            for key, value in vars(rule).items()
        }
    )


def _is_right(key: str, value: str) -> bool:
    """Say whether a key of a published mapping rule has a valid value."""
    if key == "unit":
        return value in grid_engine_amounts.UNITS
    if key == "relation":
        return value in RELATIONS
    return key != "scale" or value.replace(".", "").replace("e-", "").isdecimal()


def decode_request_mapping(data: bytes) -> RequestMapping:
    """Decode published mapping rules; ParseError for invalid lines."""
    read: dict[tuple[str, str], dict[str, str]] = {}
    for path, value in transfer_message.decode_key_value_lines(data, None).items():
        kind, _, rule_path = path.partition("/")
        name, slash, key = rule_path.rpartition("/")
        if kind not in KINDS or not slash or key not in KEYS or not _is_right(key, value):
            raise ParseError(f"{path[:40]!r} is no rule of a mapping")
        read.setdefault((kind, name), {})[key] = value
    return RequestMapping({kind_and_name: RequestMappingRule(**values) for kind_and_name, values in read.items()})
