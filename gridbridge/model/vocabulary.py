"""The names that a cluster offers: what a job may ask for there, as published lines.

The service asks the cluster for them now and then. Hot programs load this module when a job asks
for something: it would be no use to submit what the cluster does not offer.
"""

from gridbridge.model import lines

ANY = "*"  # among the names of a kind: every name may be asked for


class Vocabulary:
    """The names that a cluster knows, of each kind."""

    __slots__ = KINDS = ("resource", "pe", "project", "queue", "node")

    resource: frozenset[str]  # resources that can be requested, with their shortcuts
    pe: frozenset[str]
    project: frozenset[str]
    queue: frozenset[str]
    node: frozenset[str]  # of OAR: those that run jobs or can be woken

    def __init__(self, **names: frozenset[str]) -> None:
        for kind in self.KINDS:
            setattr(self, kind, names.get(kind, frozenset()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and encode(self) == encode(other)


def encode(vocabulary: Vocabulary) -> bytes:
    """Write a vocabulary as it is published: `KIND=NAME NAME ...`, a line a kind."""
    return lines.encode(
        {kind: " ".join(sorted(getattr(vocabulary, kind))) for kind in Vocabulary.KINDS}
    )


def decode(data: bytes) -> Vocabulary:
    """Read a published vocabulary; ParseError for anything that encode would not have written."""
    read = lines.decode(data, Vocabulary.KINDS) if data else {}
    return Vocabulary(**{kind: frozenset(names.split()) for kind, names in read.items()})
