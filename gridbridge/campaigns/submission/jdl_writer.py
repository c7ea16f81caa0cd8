"""A campaign as a JDL again, in the words in which it can be submitted."""

from collections.abc import Iterable, Iterator

from gridbridge.campaigns.submission.jdl_values import BEST_EFFORT
from gridbridge.model.campaigns.host_properties import ALL, Pair, either, wanted
from gridbridge.model.campaigns.jdl import AtCluster, Jdl
from gridbridge.model.request import VALUELESS, WORDS, relation_of

STEPS = ("prologue", "epilogue")  # each with a walltime of its own


def as_jdl(jdl: Jdl, parameters: Iterable[str]) -> dict[str, object]:
    """Return what `load` reads as the same campaign."""
    known: dict[str, object] = {"name": jdl.name}
    if jdl.is_idempotent:
        known["idempotent"] = True
    if jdl.outputs:
        known["outputs"] = list(jdl.outputs)
    if jdl.datasets:
        known["datasets"] = {
            name: {"path": one.path, "replicas": one.replicas} for name, one in jdl.datasets.items()
        }
    if not jdl.may_move:
        known["rebalance"] = False
    known["clusters"] = {name: dict(_said(one)) for name, one in jdl.clusters.items()}
    return known | {"params": list(parameters)}


def _said(one: AtCluster) -> Iterator[tuple[str, object]]:
    """Give the keys of a cluster; what is empty was not asked for."""
    yield "exec_file", one.exec_file
    yield "resources", _levels(one)
    yield "walltime", _clock(one.walltime_s)
    yield "type", BEST_EFFORT[0] if one.is_besteffort else "normal"
    texts = {
        "exec_directory": one.exec_directory,
        "project": one.project,
        "queue": one.queue,
        "pe": one.environment,
        "properties": _conditions(one.properties),
        "max_jobs": one.max_jobs,
    }
    yield from ((key, value) for key, value in texts.items() if value)
    for key in STEPS:
        if lines := getattr(one, key):
            yield key, lines.split("\n")
            yield f"{key}_walltime", _clock(getattr(one, f"{key}_walltime_s"))


def _clock(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _levels(one: AtCluster) -> str:
    return (
        f"/nodes={one.nodes}/core={one.slots // one.nodes}" if one.nodes else f"/core={one.slots}"
    )


def _conditions(text: str) -> str:
    """Write the clauses with commas between, which bind less than OR, so that none needs ( )."""
    return ", ".join(map(_clause, text.split(ALL))) if text else ""


def _clause(text: str) -> str:
    some = (*either(text), wanted(text))[0]
    return " OR ".join(map(_condition, some))


def _condition(pair: Pair) -> str:
    name, value = pair
    bare, relation = relation_of(name)
    words = f"{bare} {WORDS.get(relation, relation)}"
    return words if relation in VALUELESS else f"{words} '{value}'"
