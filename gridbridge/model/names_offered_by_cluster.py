"""The names that jobs may request at a cluster, as published lines.

The service queries each cluster for its names from time to time. Starters load this module for
a job with requests. Unknown names are refused before submission, and a job in a local-only queue is
never sent on.
"""

from gridbridge.model import transfer_message

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from gridbridge.model.job_request import JobRequest

ANY = "*"  # offered name that stands for every name of its kind
NO_RULE = "="  # the rule of a cluster whose queues have no parallel environment
ON_ONE_HOST = "$pe_slots"  # allocation_rule with all slots on one host (sge_pe(5))


class NamesOfferedByCluster:
    """The resources, queues and other names that jobs may request at a cluster, by kind."""

    __slots__ = KINDS = ("resource", "string", "pe", "project", "queue", "node", "rule")

    resource: frozenset[str]  # names and shortcuts of requestable resources
    string: frozenset[str]  # names of the resources with text values; ANY: unknown
    pe: frozenset[str]
    project: frozenset[str]
    queue: frozenset[str]
    node: frozenset[str]  # names of usable OAR nodes, also of nodes that can be powered on
    rule: frozenset[str]  # NAME=RULE for each parallel environment of a queue; ANY: unknown

    def __init__(self, **names: frozenset[str]) -> None:
        for kind in self.KINDS:
            setattr(self, kind, names.get(kind, frozenset()))
        self.rule = self.rule or frozenset({ANY})
        self.string = self.string or frozenset({ANY})

    def __eq__(self, vocabulary: object) -> bool:
        return isinstance(vocabulary, NamesOfferedByCluster) and encode_offered_names(self) == encode_offered_names(
            vocabulary
        )

    def environment(self, nodes: int, slots: int) -> str:
        """Return a parallel environment that gives `slots` slots on each node; '' for none.

        ANY means that no environment is needed, or that the rules are unknown.
        """
        if ANY in self.rule or not nodes or nodes * slots == 1:
            return ANY
        names = dict(word.split("=", 1)[::-1] for word in sorted(self.rule, reverse=True))
        on_one = names.get(ON_ONE_HOST, "") if nodes == 1 else ""
        return on_one or names.get(str(slots), "")


def encode_offered_names(vocabulary: NamesOfferedByCluster) -> bytes:
    """Encode a cluster's offered names: a line `KIND=NAME NAME ...` for each kind."""
    return transfer_message.encode_key_value_lines(
        {kind: " ".join(sorted(getattr(vocabulary, kind))) for kind in NamesOfferedByCluster.KINDS}
    )


def decode_offered_names(data: bytes) -> NamesOfferedByCluster:
    """Decode a cluster's published names; ParseError for invalid lines."""
    read = transfer_message.decode_key_value_lines(data, NamesOfferedByCluster.KINDS) if data else {}
    return NamesOfferedByCluster(**{kind: frozenset(names.split()) for kind, names in read.items()})


def missing_parallel_env_reason(nodes: int, slots: int) -> str:
    """Describe the parallel environment that a job needs and a cluster lacks."""
    rule = f"{ON_ONE_HOST} or {slots}" if nodes == 1 else str(slots)
    return f"no parallel environment with allocation_rule {rule}, as {slots} a host need"


class NonForwardingQueues:
    """The queues of a remote cluster that send no jobs on to a third cluster."""

    queues: str  # comma-separated queue names
    all_say: str  # yes: a job with `-l remote=false` fits each local-only queue

    def __init__(self, *, queues: str, all_say: str = "") -> None:
        self.queues = queues
        self.all_say = all_say

    def __eq__(self, local_queues: object) -> bool:
        return isinstance(local_queues, NonForwardingQueues) and vars(self) == vars(local_queues)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(queues={self.queues!r}, all_say={self.all_say!r})"

    def keep(self, request: "JobRequest") -> "JobRequest":
        """Restrict a remote job's request to queues that send no jobs on."""
        targets, stays = self.kept(request.targets)
        return request.but(targets=targets, stays=stays)

    def kept(self, targets: str) -> tuple[str, bool]:
        """Return the queues for a remote job, and whether to request `remote=false`.

        `targets` are the queues that a mapping names, '' for any queue. Targets without a known
        local-only queue are requested unchanged.
        """
        names = self.queues.split(",")
        words = targets.split(",") if targets else names
        local = [word for word in words if word.partition("@")[0] in names]
        if not local:
            return targets, False
        if self.all_say:
            return targets, True
        return ",".join(local), False

    def only(self, request: "JobRequest") -> "JobRequest | None":
        """Restrict a request to local-only queues; None if no local-only queue fits.

        `remote=false` makes patterns safe; without `remote=false` the queue names must be known.
        """
        words = request.targets.split(",") if request.targets else self.queues.split(",")
        local = [word for word in words if word.partition("@")[0] in self.queues.split(",")]
        if self.all_say and (local or any(map(_is_pattern, words))):
            return request.but(stays=True)
        return request.but(targets=",".join(local)) if local else None


def _is_pattern(name: str) -> bool:
    """Say whether a name may match several queues (sge_types(1), wc_queue_list)."""
    return not set("*?[]!&|()").isdisjoint(name)


def encode_non_forwarding_queues(queues: NonForwardingQueues) -> bytes:
    """Encode local-only queues for publication."""
    return transfer_message.encode_key_value_lines(vars(queues))


def decode_non_forwarding_queues(data: bytes) -> NonForwardingQueues:
    """Decode published local-only queues; ParseError for invalid lines."""
    return NonForwardingQueues(**{"queues": "", **transfer_message.decode_key_value_lines(data, ("queues", "all_say"))})
