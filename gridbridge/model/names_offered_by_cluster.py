"""Names of a cluster's resources, queues and other objects; jobs with unknown names are not submitted."""

from gridbridge.model import light_dataclass, transfer_messages_in_spool

TYPE_CHECKING = False  # saves the import of typing, which is slow
if TYPE_CHECKING:
    from gridbridge.model.job_request import JobRequest

ANY = "*"  # stands for all names of one kind of object
NO_RULE = "="  # the only rule of a cluster without parallel environments
ON_ONE_HOST = "$pe_slots"  # allocation_rule by which a job gets all its slots on one host (sge_pe(5))


class NamesOfferedByCluster:
    __slots__ = KINDS = ("resource", "string", "pe", "project", "queue", "node", "rule")

    resource: frozenset[str]  # long and short names of the resources that jobs may request
    string: frozenset[str]  # names of the resources whose values are texts; ANY: unknown
    pe: frozenset[str]
    project: frozenset[str]
    queue: frozenset[str]
    node: frozenset[str]  # names of OAR nodes that can be used: switched on, or in standby
    rule: frozenset[str]  # `NAME=RULE` for each parallel environment; ANY: unknown

    def __init__(self, **names: frozenset[str]) -> None:
        for kind in self.KINDS:
            setattr(self, kind, names.get(kind, frozenset()))
        self.rule = self.rule or frozenset({ANY})
        self.string = self.string or frozenset({ANY})

    def __eq__(self, vocabulary: object) -> bool:
        return isinstance(vocabulary, NamesOfferedByCluster) and encode_offered_names(self) == encode_offered_names(
            vocabulary
        )

    def find_parallel_environment(self, nodes: int, slots: int) -> str:
        """Return a parallel environment with `slots` slots on each node; '' if no environment fits, ANY if all fit."""
        if ANY in self.rule or not nodes or nodes * slots == 1:
            return ANY
        names = dict(word.split("=", 1)[::-1] for word in sorted(self.rule, reverse=True))
        on_one = names.get(ON_ONE_HOST, "") if nodes == 1 else ""
        return on_one or names.get(str(slots), "")


def encode_offered_names(vocabulary: NamesOfferedByCluster) -> bytes:
    """Encode the names that a cluster offers as lines `KIND=NAME NAME ...`."""
    return transfer_messages_in_spool.encode_key_value_lines(
        {kind: " ".join(sorted(getattr(vocabulary, kind))) for kind in NamesOfferedByCluster.KINDS}
    )


def decode_offered_names(data: bytes) -> NamesOfferedByCluster:
    """Decode the names that a cluster offers; raise ParseError for invalid lines."""
    read = transfer_messages_in_spool.decode_key_value_lines(data, NamesOfferedByCluster.KINDS) if data else {}
    return NamesOfferedByCluster(**{kind: frozenset(names.split()) for kind, names in read.items()})


def missing_parallel_env_reason(nodes: int, slots: int) -> str:
    rule = f"{ON_ONE_HOST} or {slots}" if nodes == 1 else str(slots)
    return f"no parallel environment with allocation_rule {rule} (slots a host: {slots})"


@light_dataclass(kw_only=True)
class NonForwardingQueues:
    """The queues of a remote cluster that send no jobs on to another cluster."""

    queues: str  # names of the queues, separated by commas
    all_say: str = ""  # yes: every queue in `queues` accepts `-l remote=false`

    def __eq__(self, local_queues: object) -> bool:
        return isinstance(local_queues, NonForwardingQueues) and vars(self) == vars(local_queues)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(queues={self.queues!r}, all_say={self.all_say!r})"

    def restrict_request(self, request: "JobRequest") -> "JobRequest":
        targets, stays = self.restrict_remote_queues(request.targets)
        return request.with_changes(targets=targets, stays=stays)

    def restrict_remote_queues(self, targets: str) -> tuple[str, bool]:
        """Return the queues for a remote job, and whether the job must request `remote=false`.

        Empty `targets` stand for any queue. If no target is in `queues`, returns `targets` unchanged.
        """
        names = self.queues.split(",")
        words = targets.split(",") if targets else names
        local = [word for word in words if word.partition("@")[0] in names]
        if not local:
            return targets, False
        if self.all_say:
            return targets, True
        return ",".join(local), False

    def restrict_request_or_none(self, request: "JobRequest") -> "JobRequest | None":
        """Restrict a request to queues that send no jobs on to another cluster; None if no queue is left.

        A request with a pattern of queue names gets `remote=false`, because a pattern can't be compared.
        """
        words = request.targets.split(",") if request.targets else self.queues.split(",")
        local = [word for word in words if word.partition("@")[0] in self.queues.split(",")]
        if self.all_say and (local or any(map(_is_queue_name_pattern, words))):
            return request.with_changes(stays=True)
        return request.with_changes(targets=",".join(local)) if local else None


def _is_queue_name_pattern(name: str) -> bool:
    """Say whether a queue name is a pattern that may match several queues (sge_types(1), wc_queue_list)."""
    return not set("*?[]!&|()").isdisjoint(name)


def encode_non_forwarding_queues(queues: NonForwardingQueues) -> bytes:
    return transfer_messages_in_spool.encode_key_value_lines(vars(queues))


def decode_non_forwarding_queues(data: bytes) -> NonForwardingQueues:
    """Decode a cluster's non-forwarding queues; raise ParseError for invalid lines."""
    return NonForwardingQueues(
        **{"queues": "", **transfer_messages_in_spool.decode_key_value_lines(data, ("queues", "all_say"))}
    )
