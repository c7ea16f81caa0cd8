"""Findings about a transfer queue's set-up, and the edits of its removal.

The rules are those of the Transfer Queues how-to (2002), corrected where Grid Engine 8.1.9 differs.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gridbridge.decisions.site.sge_configuration_findings import (
    SENSOR,
    sge_scheduler_findings,
    transfer_host_sge_conf_findings,
)
from gridbridge.decisions.site.transfer_queue_findings import transfer_queue_findings
from gridbridge.decisions.site.transfer_queue_prerequisites import (
    REMOTE,
    complex_definition_findings,
    home_and_remote_rights_findings,
    remote_complex_value_findings,
    transfer_user_list_findings,
    user_list_removal_edits,
)
from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.qconf_attribute_parser import (
    is_transfer_queue,
    is_true_in_qconf,
    parse_qconf_pairs,
    parse_qconf_pairs_by_host,
    parse_qconf_words,
)
from gridbridge.model.site.setup_findings_and_edits import (
    CellQconfSettings,
    CheckFinding,
    SetupEdit,
    SetupEditVerb,
    SharedSettingUndo,
    TransferSetupSituation,
)
from gridbridge.model.transfer.transfer_queue_load_values import PENDING, load_value_complex_attribute


def transfer_setup_findings(situation: TransferSetupSituation) -> tuple[CheckFinding, ...]:
    """Return all findings about a transfer queue; findings about the queue itself come last, so that it opens last."""
    return (
        *home_and_remote_rights_findings(situation),
        *complex_definition_findings(situation),
        *remote_complex_value_findings(situation),
        *sge_scheduler_findings(situation),
        *transfer_host_sge_conf_findings(situation),
        *transfer_user_list_findings(situation),
        *transfer_queue_findings(situation),
    )


VALUE = re.compile("gb_[a-z0-9_]+_(up|pending|free)")  # names of the load values that describe a remote cluster
VALUES_S = 110  # wait until load values expire: longer than two default load report times


def transfer_queue_removal_edits(
    situation: TransferSetupSituation, former: Iterable[SharedSettingUndo]
) -> tuple[SetupEdit, ...]:
    """Return the edits that remove a transfer queue.

    The first edit deletes the queue, because qconf refuses to delete a queue with jobs.
    """
    request, queues = situation.wanted, situation.home.queues
    other_queues = [name for name, queue in queues.items() if is_transfer_queue(queue) and name != request.queue]
    shared = (
        ()
        if other_queues
        else (*_remote_complex_removal_edits(situation), *_former_setting_restore_edits(situation, former))
    )
    drop = SetupEdit(verb=SetupEditVerb.DROP_QUEUE, cell=request.home, name=request.queue)
    return (
        *((drop,) if request.queue in queues else ()),
        *user_list_removal_edits(situation),
        *_load_sensor_removal_edits(situation, other_queues),
        *_load_adjustment_removal_edits(situation),
        *shared,
        *_load_value_removal_edits(situation, other_queues),
    )


def _load_sensor_removal_edits(situation: TransferSetupSituation, other_queues: list[str]) -> Iterator[SetupEdit]:
    """Remove the load sensor unless another transfer queue of the host needs the sensor.

    execd does not notice a deleted host configuration. So the sensor first leaves the list of sensors, and its
    load values expire; only then is a redundant configuration deleted.
    """
    request = situation.wanted
    hosts = (host for name in other_queues for host in parse_qconf_words(situation.home.queues[name]["hostlist"]))
    own = (situation.home.host or {}).get("load_sensor", "")
    if not own or any(is_same_host(request.host, host) for host in hosts):
        return
    other_sensors = [sensor for sensor in parse_qconf_words(own) if sensor != SENSOR]
    setting = SetupEdit(verb=SetupEditVerb.SET_HOST, cell=request.home, name=request.host, attribute="load_sensor")
    is_set = SENSOR in parse_qconf_words(own)
    if is_set:
        yield replace(setting, value=",".join(other_sensors) or "none")
    if is_set or _are_load_values_reported(situation):  # an interrupted removal has not awaited their end
        reported = f"qconf -se {request.host} | grep -q ' gb_[a-z0-9_]*=\\|,gb_[a-z0-9_]*='"
        line = f"timeout {VALUES_S} sh -c {shlex.quote(f'while {reported}; do sleep 1; done')}"
        name = f"wait up to {VALUES_S} s until the load values have expired"
        yield SetupEdit(verb=SetupEditVerb.SHELL, cell=request.home, name=name, value=line)
    if other_sensors == list(parse_qconf_words(situation.home.common.get("load_sensor", ""))):
        yield replace(setting, verb=SetupEditVerb.DROP_HOST)


def _are_load_values_reported(situation: TransferSetupSituation) -> bool:
    host = situation.home.exec_hosts.get(situation.wanted.host, {})
    return any(VALUE.fullmatch(name) for name in parse_qconf_pairs(host.get("load_values", "")))


def _load_adjustment_removal_edits(situation: TransferSetupSituation) -> Iterator[SetupEdit]:
    name, attribute = load_value_complex_attribute(situation.wanted.remote, PENDING), "job_load_adjustments"
    listed = parse_qconf_pairs(situation.home.scheduler.get(attribute, "NONE"))
    if name in listed and not _does_other_queue_need_load_value(name, situation):
        rest = ",".join(f"{key}={value}" for key, value in listed.items() if key != name) or "NONE"
        cell = situation.wanted.home
        yield SetupEdit(verb=SetupEditVerb.SET_SCHEDULER, cell=cell, attribute=attribute, value=rest)


def _remote_complex_removal_edits(situation: TransferSetupSituation) -> Iterator[SetupEdit]:
    for name, queue in situation.home.queues.items():
        for where, values in parse_qconf_pairs_by_host(queue.get("complex_values", "")):
            if REMOTE in values and not is_true_in_qconf(values[REMOTE]):
                value, cell = f"{REMOTE}={values[REMOTE]}", situation.wanted.home
                yield SetupEdit.queue_attribute_edit(
                    SetupEditVerb.DROP, cell, f"{name}{where}", "complex_values", value
                )
    if REMOTE in situation.home.complexes:
        yield SetupEdit(verb=SetupEditVerb.DROP_COMPLEX, cell=situation.wanted.home, name=REMOTE)


def _load_value_removal_edits(situation: TransferSetupSituation, other_queues: list[str]) -> Iterator[SetupEdit]:
    """Remove the complexes of load values together with the last transfer queue.

    Grid Engine can't remove a complex that a host reports. The load sensor reports a queue's values until the
    queue's section has left gridbridge.toml.
    """
    ours = (name for name in situation.home.complexes if VALUE.fullmatch(name))
    for name in () if other_queues else ours:
        if not _does_other_queue_need_load_value(name, situation):
            yield SetupEdit(verb=SetupEditVerb.DROP_COMPLEX, cell=situation.wanted.home, name=name)


def _does_other_queue_need_load_value(value: str, situation: TransferSetupSituation) -> bool:
    other_queues = (queue for name, queue in situation.home.queues.items() if name != situation.wanted.queue)
    return any(value in parse_qconf_pairs(queue.get("load_thresholds", "")) for queue in other_queues)


def _former_setting_restore_edits(
    situation: TransferSetupSituation, former: Iterable[SharedSettingUndo]
) -> Iterator[SetupEdit]:
    cells = {situation.wanted.home: situation.home, situation.wanted.remote: situation.away}
    for setting in reversed(list(former)):
        cell = cells.get(setting.done.cell)
        if cell and setting.done.attribute != "load_sensor" and _is_cell_setting_as_setup_made(setting.done, cell):
            yield setting.undo


def _is_cell_setting_as_setup_made(edit: SetupEdit, cell: CellQconfSettings) -> bool:
    if edit.verb == SetupEditVerb.SET_SCHEDULER:
        return cell.scheduler.get(edit.attribute) == edit.value
    if edit.verb == SetupEditVerb.SET_HOST:
        return (cell.host or {}).get(edit.attribute) == edit.value
    lists = {"operator": cell.operators, "submit": cell.submit_hosts, "admin": cell.admin_hosts}
    return any(is_same_host(edit.name, name) for name in lists.get(edit.kind, ()))
