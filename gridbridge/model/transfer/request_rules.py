"""The rules that translate a job's request for a remote cluster, as values.

The service publishes those of a queue as lines of `KIND/NAME/KEY=value`, so that a starter
reads no configuration file. Hot programs load this module when a queue has a mapping.
"""

from gridbridge.errors import ParseError
from gridbridge.model import amounts, key_value_lines

ANY = "*"  # the name of the rule for all that have no rule of their own


class MappingRule:
    """What becomes of one resource, parallel environment, project or queue."""

    to: str  # its name there; empty: the same
    scale: str  # a number: so many times the amount
    unit: str  # the unit of the amount there (model.amounts); empty: unchanged
    relation: str  # of a property of OAR: how its value compares to the amount
    default: str  # asked for when the job does not; in the words of home
    drop: str  # yes: not asked for there
    require: str  # yes: a job has to ask for it
    spread: str  # of a parallel environment: how its slots lie on OAR's nodes; empty: on one
    reject: str  # why a job that asks for it can't go there

    def __init__(self, **values: str) -> None:
        for key in KEYS:
            setattr(self, key, values.get(key, ""))

    def __eq__(self, rule: object) -> bool:
        return isinstance(rule, MappingRule) and vars(self) == vars(rule)

    def __repr__(self) -> str:
        set_ones = ", ".join(f"{key}={value!r}" for key, value in vars(self).items() if value)
        return f"Rule({set_ones})"


PE_SLOTS, ROUND_ROBIN, FILL_UP = SPREADS = ("pe_slots", "round_robin", "fill_up")
RELATIONS = ("", "=", ">=", "<=", ">", "<")
KEYS = tuple(MappingRule.__annotations__)
RESOURCE, PE, PROJECT, QUEUE, TYPE = KINDS = ("resource", "pe", "project", "queue", "type")
EVERY_JOB = ""  # the name of the rule that tells the queue of jobs that ask for none


class RequestMapping:
    """The rules of one remote cluster, by kind and by the name at home."""

    def __init__(self, rules: dict[tuple[str, str], MappingRule]) -> None:
        self.rules = rules

    def __eq__(self, mapping: object) -> bool:
        return isinstance(mapping, RequestMapping) and self.rules == mapping.rules

    def rule(self, kind: str, name: str) -> MappingRule | None:
        """Return the rule for a name, or the one for all names."""
        return self.rules.get((kind, name)) or self.rules.get((kind, ANY))

    @property
    def is_closed(self) -> bool:
        """Whether only resources with a rule can be asked for, by hard requests: as at OAR."""
        return (RESOURCE, ANY) in self.rules

    def of(self, kind: str) -> tuple[tuple[str, MappingRule], ...]:
        """Return the rules of a kind in the order of the file."""
        return tuple(
            (name, rule) for (rule_kind, name), rule in self.rules.items() if rule_kind == kind
        )


def is_fixed_slots_per_node(spread: str) -> bool:
    """Say whether it is a number of slots on each node (sge_pe(5), allocation_rule)."""
    return spread.isascii() and spread.isdecimal() and len(spread) < 8 and int(spread) > 0


def encode_mapping(mapping: RequestMapping) -> bytes:
    """Write a mapping as it is published."""
    return key_value_lines.encode_lines(
        {
            f"{kind}/{name}/{key}": value
            for (kind, name), rule in mapping.rules.items()
            for key, value in vars(rule).items()
        }
    )


def _is_right(key: str, value: str) -> bool:
    """Say whether a value can be used as it is."""
    if key == "unit":
        return value in amounts.UNITS
    if key == "relation":
        return value in RELATIONS
    return key != "scale" or value.replace(".", "").replace("e-", "").isdecimal()


def decode_mapping(data: bytes) -> RequestMapping:
    """Read a published mapping; ParseError for anything that encode would not have written."""
    read: dict[tuple[str, str], dict[str, str]] = {}
    for path, value in key_value_lines.decode_lines(data, None).items():
        kind, _, rule_path = path.partition("/")
        name, slash, key = rule_path.rpartition("/")
        if kind not in KINDS or not slash or key not in KEYS or not _is_right(key, value):
            raise ParseError(f"{path[:40]!r} is no rule of a mapping")
        read.setdefault((kind, name), {})[key] = value
    return RequestMapping(
        {kind_and_name: MappingRule(**values) for kind_and_name, values in read.items()}
    )
