"""How best-effort queues are removed: their tasks make way first, and run elsewhere."""

import shlex
from collections.abc import Iterator

from gridbridge.decisions.site.besteffort.besteffort_findings import RULE_NAME
from gridbridge.decisions.site.besteffort.queue_blocks import own_queues, subordinate_lists
from gridbridge.model.attributes import is_besteffort, pairs
from gridbridge.model.places import BEST_EFFORT
from gridbridge.model.site.besteffort_cell import BestEffortCell
from gridbridge.model.site.setup_findings import EditVerb, SetupEdit

GONE_S = 60  # a task has 10 s, and Grid Engine some to account for it


def removal(cluster: str, cell: BestEffortCell) -> Iterator[SetupEdit]:
    """Give the edits in order; what others made of the same names stays."""
    queues = own_queues(cell)
    for name in queues:
        yield SetupEdit(verb=EditVerb.SUSPEND, cell=cluster, name=name)
    if queues:
        yield SetupEdit(verb=EditVerb.SHELL, cell=cluster, value=_await_none(queues))
    yield from _subordination(cluster, cell, queues)
    for name in queues:
        yield SetupEdit(verb=EditVerb.DROP_QUEUE, cell=cluster, name=name)
    for name, text in cell.quotas.items():
        if RULE_NAME in " ".join(text.split()):
            yield SetupEdit(verb=EditVerb.INCLUDE, cell=cluster, name=name, attribute=RULE_NAME)
    other_queues = (queue for name, queue in cell.queues.items() if name not in queues)
    if BEST_EFFORT in cell.complexes and not any(map(is_besteffort, other_queues)):
        yield SetupEdit(verb=EditVerb.DROP_COMPLEX, cell=cluster, name=BEST_EFFORT)


def _await_none(queues: tuple[str, ...]) -> str:
    listed = f"qstat -s rs -u '*' -q {','.join(queues)} | grep -q ."
    return f"timeout {GONE_S} sh -c {shlex.quote(f'while {listed}; do sleep 1; done')}"


def _subordination(
    cluster: str, cell: BestEffortCell, queues: tuple[str, ...]
) -> Iterator[SetupEdit]:
    for queue, settings in cell.queues.items():
        for where, subordinates in subordinate_lists(settings).items():
            listed = [f"{name}={n}" for name, n in pairs(subordinates).items() if name in queues]
            if listed:
                yield SetupEdit(
                    verb=EditVerb.DROP,
                    cell=cluster,
                    kind="queue",
                    name=f"{queue}@{where}" if where else queue,
                    attribute="subordinate_list",
                    value=",".join(listed),
                )
