"""Checks what a transfer queue needs in both cells: rights, usersets and complexes (complex(5)).

Only an admin host may change a cell (qconf(1) -as, -ah, -ao). A job that requests a resource without any value
waits for ever, so `-l remote=false` needs remote=FALSE in every other queue.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.job_request import is_home_only_resource
from gridbridge.model.qconf_attribute_parser import (
    QconfSettings,
    is_transfer_queue,
    parse_qconf_pairs,
    parse_qconf_pairs_by_host,
    parse_qconf_values_by_host,
    parse_qconf_words,
    qconf_queue_value_by_host,
)
from gridbridge.model.site.setup_findings_and_edits import (
    CellQconfSettings,
    CheckFinding,
    QconfComplexRow,
    SetupEdit,
    SetupEditVerb,
    SharedSettingUndo,
    TransferQueuePlan,
    TransferSetupSituation,
)
from gridbridge.model.transfer.transfer_queue_load_values import FREE, PENDING, UP, load_value_complex_attribute


def home_and_remote_rights_findings(situation: TransferSetupSituation) -> tuple[CheckFinding, ...]:
    request = situation.wanted
    home = _cell_rights_findings(request.home, situation.home, situation)
    if not request.has_operators:
        return home
    if request.far_account:
        return (_remote_operator_right_finding(situation), *home)
    return (*_cell_rights_findings(request.remote, situation.away, situation), *home)


def _remote_operator_right_finding(situation: TransferSetupSituation) -> CheckFinding:
    """Check the service account's operator right at a remote cluster that is reached by ssh.

    Only the remote administrators can grant the right. Without it, held remote jobs that belong to no transfer are
    never deleted.
    """
    request, account = situation.wanted, situation.wanted.far_account
    item = f"{request.remote}: operator {account}"
    if account in (*situation.away.operators, *situation.away.managers):
        return CheckFinding.ok_finding(item, "yes")
    actual = "no: held remote jobs without a transfer can't be deleted"
    hint = f"ask an administrator of {request.remote} for: qconf -ao {account}"
    return CheckFinding.warning_finding(item, actual, "yes", hint=hint)


def _cell_rights_findings(
    cluster: str, cell: CellQconfSettings, situation: TransferSetupSituation
) -> tuple[CheckFinding, ...]:
    account, host = situation.wanted.service_account, situation.wanted.host
    is_admin = any(is_same_host(host, name) for name in cell.admin_hosts)
    is_submit = any(is_same_host(host, name) for name in cell.submit_hosts)
    where = "" if is_admin else cell.master
    return (
        _cell_access_right_finding(cluster, "admin", host, is_admin, where),
        _cell_access_right_finding(cluster, "submit", host, is_submit, where),
        _cell_access_right_finding(cluster, "operator", account, account in (*cell.operators, *cell.managers), where),
    )


def _cell_access_right_finding(cluster: str, kind: str, name: str, holds: bool, where: str) -> CheckFinding:
    item = f"{cluster}: {kind if kind == 'operator' else f'{kind} host'} {name}"
    if holds:
        return CheckFinding.ok_finding(item, "yes")
    admit = SetupEdit(verb=SetupEditVerb.ADMIT, cell=cluster, kind=kind, name=name)
    dismiss = SetupEdit(verb=SetupEditVerb.DISMISS, cell=cluster, kind=kind, name=name)
    finding = CheckFinding.fault_finding(item, "no", "yes", admit, where=where)
    return replace(finding, undo=(SharedSettingUndo(done=admit, undo=dismiss),))


USER_LISTS = "user_lists"


def transfer_user_list_findings(situation: TransferSetupSituation) -> Iterator[CheckFinding]:
    """Check the userset of users with a remote account, which must exist before the transfer queue."""
    request, listed = situation.wanted, set(situation.home.user_lists.get(situation.wanted.remote_users_userset, ()))
    if not request.people:
        return
    changes = (
        (SetupEditVerb.ALLOW, sorted({*request.people} - listed)),
        (SetupEditVerb.DISALLOW, sorted(listed - {*request.people})),
    )
    edits = (
        SetupEdit(verb=verb, cell=request.home, name=request.remote_users_userset, value=",".join(people))
        for verb, people in changes
        if people
    )
    actual, right = ",".join(sorted(listed)) or "missing", ",".join(sorted(request.people))
    yield CheckFinding.finding_by_condition(
        listed == {*request.people}, f"userset {request.remote_users_userset}", actual, right, *edits
    )


def queue_user_list_findings(situation: TransferSetupSituation, queue: QconfSettings) -> Iterator[CheckFinding]:
    """Check that the transfer queue's user_lists contain the userset on each host."""
    request, value = situation.wanted, queue.get(USER_LISTS, "NONE")
    item, is_wanted = f"queue {request.queue}: {USER_LISTS}", bool(request.people)
    lists_by_host = qconf_queue_value_by_host(value)
    wrong = [
        where
        for where, names in lists_by_host
        if (request.remote_users_userset in parse_qconf_words(names)) != is_wanted
    ]
    verb, right = (SetupEditVerb.MERGE, "with") if is_wanted else (SetupEditVerb.DROP, "without")
    edit = SetupEdit.queue_attribute_edit(verb, request.home, request.queue, USER_LISTS, request.remote_users_userset)
    right = f"{right} {request.remote_users_userset}"
    yield CheckFinding.finding_by_condition(not wrong, item, value, right, *edit.edits_for_each_host(wrong))


def user_list_removal_edits(situation: TransferSetupSituation) -> Iterator[SetupEdit]:
    """Remove a remote cluster's userset if no other queue uses the userset."""
    request = situation.wanted
    other_queues = (queue for name, queue in situation.home.queues.items() if name != request.queue)
    lists = (names for queue in other_queues for _, names in qconf_queue_value_by_host(queue.get(USER_LISTS, "")))
    is_needed = any(request.remote_users_userset in parse_qconf_words(names) for names in lists)
    if request.remote_users_userset in situation.home.user_lists and not is_needed:
        yield SetupEdit(verb=SetupEditVerb.DROP_LIST, cell=request.home, name=request.remote_users_userset)


REMOTE = "remote"
BOTH = ("YES", "FORCED")  # with FORCED, which a site may choose, only jobs that request `remote` are transferred


def complexes_of_transfer_queue(request: TransferQueuePlan) -> tuple[QconfComplexRow, ...]:
    """Return the complexes of a transfer queue: `remote` and three load values."""
    up, pending, free = (load_value_complex_attribute(request.remote, value) for value in (UP, PENDING, FREE))
    return (
        QconfComplexRow(name=REMOTE, shortcut=REMOTE, type="BOOL", relation="==", requestable="YES"),
        QconfComplexRow(name=up, shortcut=up, type="BOOL", relation="=="),
        QconfComplexRow(name=pending, shortcut=pending, type="INT", relation=">="),
        QconfComplexRow(name=free, shortcut=free, type="INT", relation="<="),
    )


def complex_definition_findings(situation: TransferSetupSituation) -> tuple[CheckFinding, ...]:
    """Check the complexes, because a complex with a wrong relation closes a transfer queue for ever."""
    rows = ((situation.home.complexes.get(row.name), row) for row in complexes_of_transfer_queue(situation.wanted))
    return tuple(
        grid_engine_complex_finding(situation.wanted.home, actual, row, _is_same_complex(actual, row))
        for actual, row in rows
    )


def grid_engine_complex_finding(
    cluster: str, actual: QconfComplexRow | None, right: QconfComplexRow, is_right: bool
) -> CheckFinding:
    edit = SetupEdit(verb=SetupEditVerb.SET_COMPLEX, cell=cluster, name=right.name, value=right.qconf_line)
    return CheckFinding.finding_by_condition(
        is_right, f"complex {right.name}", actual.qconf_line if actual else "missing", right.qconf_line, edit
    )


def _is_same_complex(actual: QconfComplexRow | None, right: QconfComplexRow) -> bool:
    if actual is None:
        return False
    may_ask = BOTH if right.requestable == "YES" else (right.requestable,)
    same = (actual.type, actual.relation, actual.consumable) == (right.type, right.relation, "NO")
    return same and actual.requestable in may_ask


def remote_complex_value_findings(situation: TransferSetupSituation) -> tuple[CheckFinding, ...]:
    """Check that all queues except transfer queues have remote=FALSE, and no host a value of `remote`.

    A value on a host or on `global` would contradict the transfer queue's value.
    """
    queues = (
        _home_queue_remote_complex_value_finding(name, values.get("complex_values", ""), situation)
        for name, values in situation.home.queues.items()
        if name != situation.wanted.queue and not is_transfer_queue(values)
    )
    return (*queues, *_host_remote_complex_value_findings(situation))


def _home_queue_remote_complex_value_finding(name: str, values: str, situation: TransferSetupSituation) -> CheckFinding:
    values_by_host = parse_qconf_pairs_by_host(values)
    lacking = [where for where, values_of_host in values_by_host if REMOTE not in values_of_host]
    if not lacking:
        return CheckFinding.ok_finding(f"queue {name}", f"remote={values_by_host[0][1][REMOTE]}")
    hosts = ", ".join(where[1:] for where in lacking if where)
    on = f" on {hosts}, whose own list replaces the default list" if lacking[0] else ""
    actual = f"no value of remote{on}: a job with `-l remote=false` would wait for ever"
    right = "complex_values remote=FALSE" + (f" on {hosts} too" if hosts else "")
    cell = situation.wanted.home
    edit = SetupEdit.queue_attribute_edit(SetupEditVerb.MERGE, cell, name, "complex_values", "remote=FALSE")
    return CheckFinding.fault_finding(f"queue {name}", actual, right, *edit.edits_for_each_host(lacking))


def _host_remote_complex_value_findings(situation: TransferSetupSituation) -> Iterator[CheckFinding]:
    for host, values in situation.home.exec_hosts.items():
        remote = parse_qconf_pairs(values.get("complex_values", "")).get(REMOTE)
        if remote is not None:
            edit = SetupEdit.queue_attribute_edit(
                SetupEditVerb.DROP, situation.wanted.home, host, "complex_values", f"remote={remote}"
            )
            actual = f"remote={remote}, which applies to all queues of the host"
            yield CheckFinding.fault_finding(
                f"host {host}", actual, "remote only on queues", replace(edit, kind="exechost")
            )


ASKABLE = "YES"
MOST: Mapping[str, str] = MappingProxyType(
    {"INT": "9999999", "DOUBLE": "9999999", "MEMORY": "9999T", "TIME": "99999:00:00"}
)


def new_queue_complex_values(situation: TransferSetupSituation) -> tuple[str, ...]:
    """Return the complex_values of a new transfer queue: a value for each resource of the mapping."""
    rows = _resources_without_value(situation, {})
    return tuple(f"{row.name}={value}" for row in rows if (value := _value_satisfying_all_requests(row)))


def mapped_resource_value_findings(situation: TransferSetupSituation, queue: QconfSettings) -> Iterator[CheckFinding]:
    for row in _resources_without_value(situation, queue):
        yield _missing_resource_value_finding(row, situation, queue)
    for name, value in parse_qconf_pairs(_complex_values_on_host(situation, queue)).items():
        if name in situation.wanted.resources:
            yield CheckFinding.ok_finding(f"queue {situation.wanted.queue}: resource {name}", f"{name}={value}")


def _resources_without_value(situation: TransferSetupSituation, queue: QconfSettings) -> Iterator[QconfComplexRow]:
    present = {*queue, *parse_qconf_pairs(_complex_values_on_host(situation, queue))}
    for host in situation.home.exec_hosts.values():
        present |= parse_qconf_pairs(host.get("complex_values", "")).keys()
        present |= parse_qconf_pairs(host.get("load_values", "")).keys()
    for name in situation.wanted.resources:
        row = situation.home.complexes.get(name)
        if row and row.requestable == ASKABLE and name not in present and not is_home_only_resource(name):
            yield row


def _complex_values_on_host(situation: TransferSetupSituation, queue: QconfSettings) -> str:
    values = parse_qconf_values_by_host(queue.get("complex_values", ""))
    groups = {where for where, _ in values.others if where.startswith("@")}
    return values.value_at_host(situation.wanted.host, groups)


def _value_satisfying_all_requests(row: QconfComplexRow) -> str:
    if row.type == "BOOL":
        return "TRUE"
    if row.type in MOST:
        return {"<=": MOST[row.type], ">=": "0"}.get(row.relation, "")
    return ""


def _missing_resource_value_finding(
    row: QconfComplexRow, situation: TransferSetupSituation, queue: QconfSettings
) -> CheckFinding:
    request, value = situation.wanted, _value_satisfying_all_requests(row)
    own = [where for where, _ in parse_qconf_values_by_host(queue.get("complex_values", "")).others]
    name = f"{request.queue}@{request.host}" if request.host in own else request.queue
    item = f"queue {request.queue}: resource {row.name}"
    actual = f"the queue has no value: a job that requests {row.name} is never sent to {request.remote}"
    if value:
        right = f"{row.name}={value}"
        edit = SetupEdit.queue_attribute_edit(SetupEditVerb.MERGE, request.home, name, "complex_values", right)
        return CheckFinding.warning_finding(item, actual, right, edit)
    hint = f"qconf -mattr queue complex_values {row.name}=... {name}"
    return CheckFinding.warning_finding(item, actual, "a value that jobs may request", hint=hint)
