"""Define the mapping rules, which translate a job's request at home into one for a remote cluster."""

from gridbridge.errors import ParseError
from gridbridge.model import grid_engine_amounts, transfer_messages_in_spool

ANY = "*"  # name of the rule for all names that have no rule of their own


class RequestMappingRule:
    to: str  # name at the remote cluster; empty: the name at home
    scale: str  # number by which the requested amount is multiplied
    unit: str  # unit of the amount at the remote cluster; empty: the unit at home
    relation: str  # SQL operator, such as >=, between an OAR property and the requested amount
    default: str  # amount, in the unit at home, for jobs that do not request the resource
    drop: str  # yes: the remote job does not request the resource
    require: str  # yes: a job must request the resource
    spread: str  # placement of the slots on OAR's nodes; empty: all slots on one node
    reject: str  # why jobs with this request are refused; empty: not refused

    def __init__(self, **values: str) -> None:
        for key in KEYS:
            setattr(self, key, values.get(key, ""))

    def __eq__(self, rule: object) -> bool:
        return isinstance(rule, RequestMappingRule) and vars(self) == vars(rule)


PE_SLOTS, ROUND_ROBIN, FILL_UP = SPREADS = ("pe_slots", "round_robin", "fill_up")
RELATIONS = ("", "=", ">=", "<=", ">", "<")
KEYS = tuple(RequestMappingRule.__annotations__)
RESOURCE, PE, PROJECT, QUEUE, TYPE = KINDS = ("resource", "pe", "project", "queue", "type")
EVERY_JOB = ""  # name of the queue rule for jobs that request no queue (qsub -q)

MappingRules = dict[tuple[str, str], RequestMappingRule]  # {(kind, name at home): rule}


class RequestMapping:
    """All mapping rules of one remote cluster, by kind (such as resource) and name at home."""

    def __init__(self, rules: MappingRules) -> None:
        self.rules = rules

    def __eq__(self, mapping: object) -> bool:
        return isinstance(mapping, RequestMapping) and self.rules == mapping.rules

    def find_rule(self, kind: str, name: str) -> RequestMappingRule | None:
        """Return the rule for a name at home, else the kind's rule `*`, else None."""
        return self.rules.get((kind, name)) or self.rules.get((kind, ANY))

    @property
    def allows_only_mapped_requests(self) -> bool:
        """Whether jobs may request only mapped resources, and only by hard requests; True for OAR."""
        return (RESOURCE, ANY) in self.rules

    def rules_of_kind(self, kind: str) -> tuple[tuple[str, RequestMappingRule], ...]:
        """Return the mapping rules of one kind with their names, in the order of gridbridge.toml."""
        return tuple((name, rule) for (rule_kind, name), rule in self.rules.items() if rule_kind == kind)


def is_fixed_slots_per_node(spread: str) -> bool:
    """Say whether a rule's `spread` is a number: the slots that a job gets on each node (sge_pe(5))."""
    return spread.isascii() and spread.isdecimal() and len(spread) < 8 and int(spread) > 0


def encode_request_mapping(mapping: RequestMapping) -> bytes:
    return transfer_messages_in_spool.encode_key_value_lines(
        {
            f"{kind}/{name}/{key}": value
            for (kind, name), rule in mapping.rules.items()
            for key, value in vars(rule).items()
        }
    )


def decode_request_mapping(data: bytes) -> RequestMapping:
    """Decode published mapping rules; ParseError names the first invalid line."""
    words = {"unit": grid_engine_amounts.UNITS, "relation": RELATIONS}
    read: dict[tuple[str, str], dict[str, str]] = {}
    for path, value in transfer_messages_in_spool.decode_key_value_lines(data, None).items():
        kind, _, rule_path = path.partition("/")
        name, slash, key = rule_path.rpartition("/")
        is_right = value in words.get(key, (value,)) and (
            key != "scale" or value.replace(".", "").replace("e-", "").isdecimal()
        )
        if kind not in KINDS or not slash or key not in KEYS or not is_right:
            raise ParseError(f"{path[:40]!r} is no mapping rule")
        read.setdefault((kind, name), {})[key] = value
    return RequestMapping({kind_and_name: RequestMappingRule(**values) for kind_and_name, values in read.items()})
