"""Which properties of hosts a campaign's tasks ask for at a cluster, as the service keeps them.

`mem>=2000,gpu=YES;gpu=2` is two conditions, of which the second has two ways to hold. OAR takes
them as the condition of `oarsub -p`, Grid Engine each as one of `qsub -l`. Hot programs load this
module.
"""

from gridbridge.model.request import RELATIONS

ALL, ANY = ",", ";"  # between what has to hold, and between the ways in which it may

Pair = tuple[str, str]


def wanted(text: str) -> tuple[Pair, ...]:
    """Return the names, each with its relation unless that is `=`, and their values; each once."""
    conditions = dict.fromkeys(text.split(ALL))
    return tuple(_pair(condition) for condition in conditions if condition and ANY not in condition)


def either(text: str) -> tuple[tuple[Pair, ...], ...]:
    """Return what may hold in several ways, each as its pairs."""
    clauses = (clause.split(ANY) for clause in text.split(ALL) if ANY in clause)
    return tuple(tuple(map(_pair, clause)) for clause in clauses)


def _pair(text: str) -> Pair:
    at = min((text.index(sign) for sign in RELATIONS if sign in text), default=len(text))
    value = text[at:].lstrip(RELATIONS)
    relation = text[at : len(text) - len(value)]
    return text[:at] + ("" if relation == "=" else relation), value
