"""The rules that translate a job's request for a remote cluster, as values.

The service publishes a queue's rules as lines of `KIND/NAME/KEY=value`, so that a starter reads no
configuration file. Hot programs load this module only for a queue with a mapping.
"""

from gridbridge.errors import ParseError
from gridbridge.model import grid_engine_amounts, key_value_lines

ANY = "*"  # the rule name for all names without a rule of their own


class RequestMappingRule:
    """The rule for one resource, parallel environment, project, queue or job type."""

    to: str  # the remote name; empty: the same name
    scale: str  # the factor of the amount, a number
    unit: str  # the amount's remote unit (model.grid_engine_amounts); empty: unchanged
    relation: str  # the SQL relation of an OAR property to the amount
    default: str  # the value for jobs without this request, in home units
    drop: str  # yes: not requested at the remote cluster
    require: str  # yes: a job must request the resource
    spread: str  # the spread of slots over OAR's nodes; empty: all on one node
    reject: str  # why jobs with this request are refused

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
EVERY_JOB = ""  # the rule name for the remote queue of jobs without -q


class RequestMapping:
    """The mapping rules of one remote cluster, by kind and by home name."""

    def __init__(self, rules: dict[tuple[str, str], RequestMappingRule]) -> None:
        self.rules = rules

    def __eq__(self, mapping: object) -> bool:
        return isinstance(mapping, RequestMapping) and self.rules == mapping.rules

    def rule(self, kind: str, name: str) -> RequestMappingRule | None:
        """Return the rule for a name, else the kind's rule for all names, else None."""
        return self.rules.get((kind, name)) or self.rules.get((kind, ANY))

    @property
    def is_closed(self) -> bool:
        """Whether only mapped resources can be requested, and only hard, as at OAR."""
        return (RESOURCE, ANY) in self.rules

    def of(self, kind: str) -> tuple[tuple[str, RequestMappingRule], ...]:
        """Return the rules of a kind in the order of gridbridge.toml."""
        return tuple(
            (name, rule) for (rule_kind, name), rule in self.rules.items() if rule_kind == kind
        )


def is_fixed_slots_per_node(spread: str) -> bool:
    """Say whether a spread is a number of slots a node (sge_pe(5), allocation_rule)."""
    return spread.isascii() and spread.isdecimal() and len(spread) < 8 and int(spread) > 0


def encode_request_mapping(mapping: RequestMapping) -> bytes:
    """Encode a mapping for publication."""
    return key_value_lines.encode_key_value_lines(
        {
            f"{kind}/{name}/{key}": value
            for (kind, name), rule in mapping.rules.items()
            for key, value in vars(rule).items()
        }
    )


def _is_right(key: str, value: str) -> bool:
    """Say whether the value of a published rule's key is valid."""
    if key == "unit":
        return value in grid_engine_amounts.UNITS
    if key == "relation":
        return value in RELATIONS
    return key != "scale" or value.replace(".", "").replace("e-", "").isdecimal()


def decode_request_mapping(data: bytes) -> RequestMapping:
    """Decode a published mapping; ParseError for invalid lines."""
    read: dict[tuple[str, str], dict[str, str]] = {}
    for path, value in key_value_lines.decode_key_value_lines(data, None).items():
        kind, _, rule_path = path.partition("/")
        name, slash, key = rule_path.rpartition("/")
        if kind not in KINDS or not slash or key not in KEYS or not _is_right(key, value):
            raise ParseError(f"{path[:40]!r} is no rule of a mapping")
        read.setdefault((kind, name), {})[key] = value
    return RequestMapping(
        {kind_and_name: RequestMappingRule(**values) for kind_and_name, values in read.items()}
    )
