"""The names that a cluster offers: what a job may ask for there, as published lines.

The service asks the cluster for them now and then. Hot programs load this module when a job asks
for something, for it would be no use to submit what the cluster does not offer, and where a queue
there would send the job on.
"""

from gridbridge.model import key_value_lines

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from gridbridge.model.request import JobRequest

ANY = "*"  # among the names of a kind: every name may be asked for
NO_RULE = "="  # of a cluster whose queues have no parallel environment
ON_ONE_HOST = "$pe_slots"  # allocation_rule (sge_pe(5)); a number means slots on each host


class ClusterVocabulary:
    """The names that a cluster knows, of each kind."""

    __slots__ = KINDS = ("resource", "string", "pe", "project", "queue", "node", "rule")

    resource: frozenset[str]  # resources that can be requested, with their shortcuts
    string: frozenset[str]  # those of them that are strings; ANY: unknown
    pe: frozenset[str]
    project: frozenset[str]
    queue: frozenset[str]
    node: frozenset[str]  # of OAR: those that run jobs, can be woken or come back soon
    rule: frozenset[str]  # NAME=RULE of the environments in its queues; ANY: unknown

    def __init__(self, **names: frozenset[str]) -> None:
        for kind in self.KINDS:
            setattr(self, kind, names.get(kind, frozenset()))
        self.rule = self.rule or frozenset({ANY})
        self.string = self.string or frozenset({ANY})

    def __eq__(self, vocabulary: object) -> bool:
        return isinstance(vocabulary, ClusterVocabulary) and encode_vocabulary(
            self
        ) == encode_vocabulary(vocabulary)

    def environment(self, nodes: int, slots: int) -> str:
        """Return a parallel environment that puts so many slots on each node; empty for none.

        ANY if no environment is needed for that, or if the rules are unknown.
        """
        if ANY in self.rule or not nodes or nodes * slots == 1:
            return ANY
        names = dict(word.split("=", 1)[::-1] for word in sorted(self.rule, reverse=True))
        on_one = names.get(ON_ONE_HOST, "") if nodes == 1 else ""
        return on_one or names.get(str(slots), "")


def encode_vocabulary(vocabulary: ClusterVocabulary) -> bytes:
    """Write a vocabulary as it is published: `KIND=NAME NAME ...`, a line a kind."""
    return key_value_lines.encode_lines(
        {kind: " ".join(sorted(getattr(vocabulary, kind))) for kind in ClusterVocabulary.KINDS}
    )


def decode_vocabulary(data: bytes) -> ClusterVocabulary:
    """Read a published vocabulary; ParseError for anything that encode would not have written."""
    read = key_value_lines.decode_lines(data, ClusterVocabulary.KINDS) if data else {}
    return ClusterVocabulary(**{kind: frozenset(names.split()) for kind, names in read.items()})


def missing_environment_reason(nodes: int, slots: int) -> str:
    """Say which parallel environment a cluster lacks."""
    rule = f"{ON_ONE_HOST} or {slots}" if nodes == 1 else str(slots)
    return f"no parallel environment with allocation_rule {rule}, as {slots} a host need"


class LocalOnlyQueues:
    """The queues of another cluster that send no jobs on, and whether all of them say so."""

    queues: str  # their names, with commas
    all_say: str  # yes: `-l remote=false` finds each of them

    def __init__(self, *, queues: str, all_say: str = "") -> None:
        self.queues = queues
        self.all_say = all_say

    def __eq__(self, local_queues: object) -> bool:
        return isinstance(local_queues, LocalOnlyQueues) and vars(self) == vars(local_queues)

    def __repr__(self) -> str:
        return f"LocalQueues(queues={self.queues!r}, all_say={self.all_say!r})"

    def keep(self, request: "JobRequest") -> "JobRequest":
        """Keep a job there: have it ask for those queues."""
        targets, stays = self.kept(request.targets)
        return request.but(targets=targets, stays=stays)

    def kept(self, targets: str) -> tuple[str, bool]:
        """Return the queues to ask for, and whether to ask for `remote=false`.

        `targets` are those that a mapping names, empty for any. Where none of them is known to
        send nothing away, they are asked for as they are.
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
        """Return a request that no other queue is given; None where all that it names are others.

        With `remote=false` a pattern is no danger; without it the names have to be known.
        """
        words = request.targets.split(",") if request.targets else self.queues.split(",")
        local = [word for word in words if word.partition("@")[0] in self.queues.split(",")]
        if self.all_say and (local or any(map(_is_pattern, words))):
            return request.but(stays=True)
        return request.but(targets=",".join(local)) if local else None


def _is_pattern(name: str) -> bool:
    """Say whether it may stand for several queues (sge_types(1), wc_queue_list)."""
    return not set("*?[]!&|()").isdisjoint(name)


def encode_local_queues(queues: LocalOnlyQueues) -> bytes:
    """Write them as they are published."""
    return key_value_lines.encode_lines(vars(queues))


def decode_local_queues(data: bytes) -> LocalOnlyQueues:
    """Read what is published; ParseError for anything else."""
    return LocalOnlyQueues(
        **{"queues": "", **key_value_lines.decode_lines(data, ("queues", "all_say"))}
    )
