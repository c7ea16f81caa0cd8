"""How a transfer queue's set-up is removed.

Things that bear our names are removed by name. Shared settings get the value that they had, as
it was written down when they were changed, if nobody has changed them since; and only with the
last transfer queue.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gridbridge.decisions.site.setup.allowed_users import taken_back
from gridbridge.decisions.site.setup.complexes import REMOTE
from gridbridge.decisions.site.setup.execution_host import SENSOR
from gridbridge.model.attributes import is_transfer, is_true, lists, pairs, words
from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.site.setup_findings import (
    CellSetup,
    EditVerb,
    SetupEdit,
    SetupSituation,
    SharedSettingUndo,
)

VALUE = re.compile("gb_[a-z0-9_]+_(up|pending|free)")  # a load value of a remote cluster
VALUES_S = 110  # two load report times of Grid Engine's default, and some


def removal(
    situation: SetupSituation, former: Iterable[SharedSettingUndo]
) -> tuple[SetupEdit, ...]:
    """Return the edits in order; the queue goes first, and refuses while jobs are in it."""
    other_queues = [
        name
        for name, queue in situation.home.queues.items()
        if is_transfer(queue) and name != situation.wanted.queue
    ]
    shared = () if other_queues else (*_remote(situation), *_restored(situation, former))
    values = _values(situation, other_queues)
    queue = (*_queue(situation), *taken_back(situation))
    return (*queue, *_sensor(situation, other_queues), *_damping(situation), *shared, *values)


def _queue(situation: SetupSituation) -> Iterator[SetupEdit]:
    request = situation.wanted
    if request.queue in situation.home.queues:
        yield SetupEdit(verb=EditVerb.DROP_QUEUE, cell=request.home, name=request.queue)


def _sensor(situation: SetupSituation, other_queues: list[str]) -> Iterator[SetupEdit]:
    """Take the sensor away unless another transfer queue of that host needs it.

    execd notices a changed configuration, and not one that is gone. So the sensor is taken off the
    list first, then a wait lets its values go, and a configuration that is empty is deleted last.
    """
    request = situation.wanted
    hosts = (
        host for name in other_queues for host in words(situation.home.queues[name]["hostlist"])
    )
    own = (situation.home.host or {}).get("load_sensor", "")
    if not own or any(is_same_host(request.host, host) for host in hosts):
        return
    other_sensors = [sensor for sensor in words(own) if sensor != SENSOR]
    setting = SetupEdit(
        verb=EditVerb.SET_HOST, cell=request.home, name=request.host, attribute="load_sensor"
    )
    if SENSOR in words(own):
        yield replace(setting, value=",".join(other_sensors) or "none")
        yield _await_no_values(situation)
    if other_sensors == list(words(situation.home.common.get("load_sensor", ""))):
        yield replace(setting, verb=EditVerb.DROP_HOST)


def _await_no_values(situation: SetupSituation) -> SetupEdit:
    """Return a wait: a resource can't be removed while a host reports it."""
    request = situation.wanted
    reported = f"qconf -se {request.host} | grep -q ' gb_[a-z0-9_]*=\\|,gb_[a-z0-9_]*='"
    line = f"timeout {VALUES_S} sh -c {shlex.quote(f'while {reported}; do sleep 1; done')}"
    return SetupEdit(verb=EditVerb.SHELL, cell=request.home, value=line)


def _damping(situation: SetupSituation) -> Iterator[SetupEdit]:
    name = f"{situation.wanted.prefix}_pending"
    if _is_needed(name, situation):
        return
    adjustments = situation.home.scheduler.get("job_load_adjustments", "NONE")
    listed = pairs(adjustments)
    if name in listed:
        other_adjustments = ",".join(
            f"{key}={value}" for key, value in listed.items() if key != name
        )
        yield SetupEdit(
            verb=EditVerb.SET_SCHEDULER,
            cell=situation.wanted.home,
            attribute="job_load_adjustments",
            value=other_adjustments or "NONE",
        )


def _remote(situation: SetupSituation) -> Iterator[SetupEdit]:
    """Take `remote` from the queues and then from the table."""
    for name, queue in situation.home.queues.items():
        for where, values in lists(queue.get("complex_values", "")):
            remote = values.get(REMOTE)
            if remote is not None and not is_true(remote):
                yield SetupEdit(
                    verb=EditVerb.DROP,
                    cell=situation.wanted.home,
                    kind="queue",
                    name=f"{name}{where}",
                    attribute="complex_values",
                    value=f"{REMOTE}={remote}",
                )
    if REMOTE in situation.home.complexes:
        yield SetupEdit(verb=EditVerb.DROP_COMPLEX, cell=situation.wanted.home, name=REMOTE)


def _values(situation: SetupSituation, other_queues: list[str]) -> Iterator[SetupEdit]:
    """Take the load values of all clusters away with the last transfer queue.

    A resource can't be removed while a host reports it, and the sensor reports those of a queue
    until its section is out of gridbridge.toml, which comes last.
    """
    ours = (name for name in situation.home.complexes if VALUE.fullmatch(name))
    for name in () if other_queues else ours:
        if not _is_needed(name, situation):
            yield SetupEdit(verb=EditVerb.DROP_COMPLEX, cell=situation.wanted.home, name=name)


def _is_needed(value: str, situation: SetupSituation) -> bool:
    """Say whether another queue's threshold has a load value."""
    other_queues = (
        queue for name, queue in situation.home.queues.items() if name != situation.wanted.queue
    )
    return any(value in pairs(queue.get("load_thresholds", "")) for queue in other_queues)


def _restored(
    situation: SetupSituation, former: Iterable[SharedSettingUndo]
) -> Iterator[SetupEdit]:
    cells = {situation.wanted.home: situation.home, situation.wanted.remote: situation.away}
    for setting in reversed(list(former)):
        cell = cells.get(setting.done.cell)
        if cell and setting.done.attribute != "load_sensor" and _is_ours(setting.done, cell):
            yield setting.undo


def _is_ours(edit: SetupEdit, cell: CellSetup) -> bool:
    """Say whether a shared setting still has the value that was given to it."""
    if edit.verb == EditVerb.SET_SCHEDULER:
        return cell.scheduler.get(edit.attribute) == edit.value
    if edit.verb == EditVerb.SET_HOST:
        return (cell.host or {}).get(edit.attribute) == edit.value
    lists = {"operator": cell.operators, "submit": cell.submit_hosts, "admin": cell.admin_hosts}
    return any(is_same_host(edit.name, name) for name in lists.get(edit.kind, ()))
