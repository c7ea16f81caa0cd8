"""Which properties of hosts a campaign's tasks ask for at a cluster, as the service keeps them.

`mem>=2000,gpu=YES` is two. OAR takes each as a condition of `oarsub -p`, Grid Engine as one of
`qsub -l`. Hot programs load this module.
"""

RELATIONS = "<>="  # what a relation is made of


def wanted(text: str) -> tuple[tuple[str, str], ...]:
    """Return the names, each with its relation unless that is `=`, and their values."""
    return tuple(_pair(one) for one in text.split(",") if one)


def _pair(text: str) -> tuple[str, str]:
    at = min((text.index(each) for each in RELATIONS if each in text), default=len(text))
    value = text[at:].lstrip(RELATIONS)
    relation = text[at : len(text) - len(value)]
    return text[:at] + ("" if relation == "=" else relation), value
