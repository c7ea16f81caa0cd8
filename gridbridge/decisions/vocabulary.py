"""Whether a cluster knows what a job asks for there, by the words that it last told.

A hard request that nobody there knows refuses the job before anything is submitted; a soft one,
for which Grid Engine would refuse the whole job as well, is left out with a note.
"""

from gridbridge.decisions.mapping import Asked
from gridbridge.errors import Unmappable
from gridbridge.model.vocabulary import Vocabulary

WILD = frozenset("*?[")


def understood(asked: Asked, known: Vocabulary, remote: str) -> Asked:
    """Return what can be asked for at `remote`; Unmappable for what it does not know.

    A parallel environment may be a pattern, as in `qsub -pe 'mpi*' 4`.
    """
    for name, _ in asked.hard:
        _require(name in known.resource, remote, f"resource {name}")
    _require(not asked.pe or _is_pe(asked.pe, known), remote, f"parallel environment {asked.pe}")
    is_project = not asked.project or asked.project in known.project
    _require(is_project, remote, f"project {asked.project}")
    for name in asked.queues:
        _require(name in known.queue, remote, f"queue {name}")
    unknown = tuple(pair for pair in asked.soft if pair[0] not in known.resource)
    return Asked(
        hard=asked.hard,
        soft=tuple(pair for pair in asked.soft if pair not in unknown),
        pe=asked.pe,
        slots=asked.slots,
        project=asked.project,
        queues=asked.queues,
        notes=(*asked.notes, *(_left_out(*pair, remote) for pair in unknown)),
    )


def _left_out(name: str, value: str, remote: str) -> str:
    return f"soft request {name}={value} left out: {remote} has no resource {name}"


def _is_pe(name: str, known: Vocabulary) -> bool:
    if WILD.isdisjoint(name):
        return name in known.pe
    from fnmatch import fnmatchcase  # 5 ms; a starter has the one that was granted

    return any(fnmatchcase(each, name) for each in known.pe)


def _require(is_known: bool, remote: str, what: str) -> None:
    if not is_known:
        raise Unmappable(f"{remote} has no {what}")
