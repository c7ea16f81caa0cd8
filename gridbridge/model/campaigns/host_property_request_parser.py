"""Parses host properties that a campaign requests at a cluster, such as `mem>=2000,gpu=YES;gpu=2`.

A comma joins conditions (one `qsub -l` for each, or one `oarsub -p` for all); `;` separates alternatives.
Keep imports few: programs that start often load this module.
"""

from gridbridge.model.job_request import RELATIONS

ALL, ANY = ",", ";"  # separators of conditions and of alternatives

Pair = tuple[str, str]


def parse_required_host_properties(text: str) -> tuple[Pair, ...]:
    """Return the conditions without alternatives as pairs (name, value), each pair once.

    A relation other than `=` is part of the name: (`mem>=`, `2000`) or (`gpu`, `YES`).
    """
    conditions = dict.fromkeys(text.split(ALL))
    return tuple(_parse_host_property(condition) for condition in conditions if condition and ANY not in condition)


def parse_alternative_host_properties(text: str) -> tuple[tuple[Pair, ...], ...]:
    """Return each condition that has alternatives, as a tuple of alternatives (name, value)."""
    clauses = (clause.split(ANY) for clause in text.split(ALL) if ANY in clause)
    return tuple(tuple(map(_parse_host_property, clause)) for clause in clauses)


def _parse_host_property(text: str) -> Pair:
    at = min((text.index(sign) for sign in RELATIONS if sign in text), default=len(text))
    value = text[at:].lstrip(RELATIONS)
    relation = text[at : len(text) - len(value)]
    return text[:at] + ("" if relation == "=" else relation), value
