"""How a transfer queue's set-up is removed.

Things that bear our names are removed by name. Shared settings get the value that they had, as
it was written down when they were changed, if nobody has changed them since; and only with the
last transfer queue.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gridbridge.decisions.site.setup.complexes import REMOTE
from gridbridge.decisions.site.setup.host import SENSOR
from gridbridge.decisions.site.setup.people import taken_back
from gridbridge.model.site.setup import (
    CellSetup,
    Edit,
    SetupWorld,
    Undo,
    Verb,
    is_transfer,
    is_true,
    pairs,
    same_host,
    words,
)

VALUE = re.compile("gb_[a-z0-9_]+_(up|pending|free)")  # a load value of a remote cluster
VALUES_S = 110  # two load report times of Grid Engine's default, and some


def removal(world: SetupWorld, former: Iterable[Undo]) -> tuple[Edit, ...]:
    """Return the edits in order; the queue goes first, and refuses while jobs are in it."""
    others = [
        name
        for name, queue in world.home.queues.items()
        if is_transfer(queue) and name != world.wanted.queue
    ]
    shared = () if others else (*_remote(world), *_restored(world, former))
    values = _values(world, others)
    queue = (*_queue(world), *taken_back(world))
    return (*queue, *_sensor(world, others), *_damping(world), *shared, *values)


def _queue(world: SetupWorld) -> Iterator[Edit]:
    wanted = world.wanted
    if wanted.queue in world.home.queues:
        yield Edit(verb=Verb.DROP_QUEUE, cell=wanted.home, name=wanted.queue)


def _sensor(world: SetupWorld, others: list[str]) -> Iterator[Edit]:
    """Take the sensor away unless another transfer queue of that host needs it.

    execd notices a changed configuration, and not one that is gone. So the sensor is taken off the
    list first, then a wait lets its values go, and a configuration that is empty is deleted last.
    """
    wanted = world.wanted
    hosts = (each for name in others for each in words(world.home.queues[name]["hostlist"]))
    own = (world.home.host or {}).get("load_sensor", "")
    if not own or any(same_host(wanted.host, host) for host in hosts):
        return
    kept = [each for each in words(own) if each != SENSOR]
    setting = Edit(verb=Verb.SET_HOST, cell=wanted.home, name=wanted.host, attribute="load_sensor")
    if SENSOR in words(own):
        yield replace(setting, value=",".join(kept) or "none")
        yield _await_no_values(world)
    if kept == list(words(world.home.common.get("load_sensor", ""))):
        yield replace(setting, verb=Verb.DROP_HOST)


def _await_no_values(world: SetupWorld) -> Edit:
    """Return a wait: a resource can't be removed while a host reports it."""
    wanted = world.wanted
    reported = f"qconf -se {wanted.host} | grep -q ' gb_[a-z0-9_]*=\\|,gb_[a-z0-9_]*='"
    line = f"timeout {VALUES_S} sh -c {shlex.quote(f'while {reported}; do sleep 1; done')}"
    return Edit(verb=Verb.SHELL, cell=wanted.home, value=line)


def _damping(world: SetupWorld) -> Iterator[Edit]:
    name = f"{world.wanted.prefix}_pending"
    if _is_needed(name, world):
        return
    found = world.home.scheduler.get("job_load_adjustments", "NONE")
    listed = pairs(found)
    if name in listed:
        kept = ",".join(f"{key}={value}" for key, value in listed.items() if key != name)
        yield Edit(
            verb=Verb.SET_SCHEDULER,
            cell=world.wanted.home,
            attribute="job_load_adjustments",
            value=kept or "NONE",
        )


def _remote(world: SetupWorld) -> Iterator[Edit]:
    """Take `remote` from the queues and then from the table."""
    for name, queue in world.home.queues.items():
        found = pairs(queue.get("complex_values", "")).get(REMOTE)
        if found is not None and not is_true(found):
            yield Edit(
                verb=Verb.DROP,
                cell=world.wanted.home,
                kind="queue",
                name=name,
                attribute="complex_values",
                value=f"{REMOTE}={found}",
            )
    if REMOTE in world.home.complexes:
        yield Edit(verb=Verb.DROP_COMPLEX, cell=world.wanted.home, name=REMOTE)


def _values(world: SetupWorld, others: list[str]) -> Iterator[Edit]:
    """Take the load values of all clusters away with the last transfer queue.

    A resource can't be removed while a host reports it, and the sensor reports those of a queue
    until its section is out of gridbridge.toml, which comes last.
    """
    ours = (name for name in world.home.complexes if VALUE.fullmatch(name))
    for name in () if others else ours:
        if not _is_needed(name, world):
            yield Edit(verb=Verb.DROP_COMPLEX, cell=world.wanted.home, name=name)


def _is_needed(value: str, world: SetupWorld) -> bool:
    """Say whether another queue's threshold has a load value."""
    others = (queue for name, queue in world.home.queues.items() if name != world.wanted.queue)
    return any(value in pairs(queue.get("load_thresholds", "")) for queue in others)


def _restored(world: SetupWorld, former: Iterable[Undo]) -> Iterator[Edit]:
    cells = {world.wanted.home: world.home, world.wanted.remote: world.away}
    for each in reversed(list(former)):
        cell = cells.get(each.done.cell)
        if cell and each.done.attribute != "load_sensor" and _is_ours(each.done, cell):
            yield each.undo


def _is_ours(done: Edit, cell: CellSetup) -> bool:
    """Say whether a shared setting still has the value that was given to it."""
    if done.verb == Verb.SET_SCHEDULER:
        return cell.scheduler.get(done.attribute) == done.value
    if done.verb == Verb.SET_HOST:
        return (cell.host or {}).get(done.attribute) == done.value
    lists = {"operator": cell.operators, "submit": cell.submit_hosts, "admin": cell.admin_hosts}
    return any(same_host(done.name, name) for name in lists.get(done.kind, ()))
