"""Writes a campaign as a JDL that can be submitted again."""

from collections.abc import Iterable, Iterator

from gridbridge.campaigns.submission.jdl_values import BEST_EFFORT
from gridbridge.model.campaigns.host_properties import (
    ALL,
    Pair,
    parse_alternative_properties,
    parse_required_properties,
)
from gridbridge.model.campaigns.jdl import AtCluster, Jdl
from gridbridge.model.request import VALUELESS, WORDS, split_relation

STEPS = ("prologue", "epilogue")  # each has its own walltime


def write_jdl(jdl: Jdl, parameters: Iterable[str]) -> dict[str, object]:
    """Return a campaign as a JDL's table; `parse_jdl` reads the same campaign from it."""
    table: dict[str, object] = {"name": jdl.name}
    if jdl.is_idempotent:
        table["idempotent"] = True
    if jdl.outputs:
        table["outputs"] = list(jdl.outputs)
    if jdl.datasets:
        table["datasets"] = {
            name: {"path": dataset.path, "replicas": dataset.replicas}
            for name, dataset in jdl.datasets.items()
        }
    if not jdl.may_move:
        table["rebalance"] = False
    table["clusters"] = {
        name: dict(_cluster_keys(cluster)) for name, cluster in jdl.clusters.items()
    }
    return table | {"params": list(parameters)}


def _cluster_keys(cluster: AtCluster) -> Iterator[tuple[str, object]]:
    """Yield the keys of a cluster, without empty values."""
    yield "exec_file", cluster.exec_file
    yield "resources", _levels(cluster)
    yield "walltime", _clock(cluster.walltime_s)
    yield "type", BEST_EFFORT[0] if cluster.is_besteffort else "normal"
    texts = {
        "exec_directory": cluster.exec_directory,
        "project": cluster.project,
        "queue": cluster.queue,
        "pe": cluster.environment,
        "properties": _conditions(cluster.properties),
        "max_jobs": cluster.max_jobs,
    }
    yield from ((key, value) for key, value in texts.items() if value)
    for key in STEPS:
        if lines := getattr(cluster, key):
            yield key, lines.split("\n")
            yield f"{key}_walltime", _clock(getattr(cluster, f"{key}_walltime_s"))


def _clock(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _levels(cluster: AtCluster) -> str:
    return (
        f"/nodes={cluster.nodes}/core={cluster.slots // cluster.nodes}"
        if cluster.nodes
        else f"/core={cluster.slots}"
    )


def _conditions(text: str) -> str:
    """Join clauses with commas, which bind less than OR, so no parentheses are needed."""
    return ", ".join(map(_clause, text.split(ALL))) if text else ""


def _clause(text: str) -> str:
    conditions = (*parse_alternative_properties(text), parse_required_properties(text))[0]
    return " OR ".join(map(_condition, conditions))


def _condition(pair: Pair) -> str:
    name, value = pair
    bare, relation = split_relation(name)
    words = f"{bare} {WORDS.get(relation, relation)}"
    return words if relation in VALUELESS else f"{words} '{value}'"
