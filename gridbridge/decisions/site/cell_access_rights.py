"""Rights of the service account and the transfer host in Grid Engine cells.

The transfer host submits users' jobs to both cells. The service account alters and deletes the
jobs. Only an admin host may change a cell's set-up (sge_conf(5), qconf(1) -as, -ah, -ao).
"""

from collections.abc import Iterator
from dataclasses import replace

from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.qconf_attributes import QconfSettings, parse_qconf_words, qconf_queue_value_by_host
from gridbridge.model.site.setup_findings_and_edits import (
    CellQconfSettings,
    CheckFinding,
    FindingSeverity,
    SetupEdit,
    SetupEditVerb,
    SharedSettingUndo,
    TransferSetupSituation,
)


def home_and_remote_rights_findings(situation: TransferSetupSituation) -> tuple[CheckFinding, ...]:
    """Check the rights of the service account and the transfer host in both cells."""
    request = situation.wanted
    home = _in_cell(request.home, situation.home, situation)
    if not request.has_operators:
        return home
    if request.far_account:
        return (_by_ssh(situation), *home)
    return (*_in_cell(request.remote, situation.away, situation), *home)


def _by_ssh(situation: TransferSetupSituation) -> CheckFinding:
    """Check the service account's operator right at a remote cluster reached by ssh.

    Only the remote cluster's administrators can grant the right. Without the right, a held remote
    job that belongs to no transfer is never deleted.
    """
    request, account = situation.wanted, situation.wanted.far_account
    item = f"{request.remote}: operator {account}"
    if account in (*situation.away.operators, *situation.away.managers):
        return CheckFinding(item=item, state=FindingSeverity.OK, found="yes")
    return CheckFinding(
        item=item,
        state=FindingSeverity.WARNING,
        found="no: held remote jobs without a transfer can't be deleted",
        right="yes",
        hint=f"ask an administrator of {request.remote} for: qconf -ao {account}",
    )


def _in_cell(cluster: str, cell: CellQconfSettings, situation: TransferSetupSituation) -> tuple[CheckFinding, ...]:
    account, host = situation.wanted.service_account, situation.wanted.host
    may_operate = account in (*cell.operators, *cell.managers)
    is_admin = any(is_same_host(host, name) for name in cell.admin_hosts)
    is_submit = any(is_same_host(host, name) for name in cell.submit_hosts)
    where = "" if is_admin else cell.master
    return (
        _right(cluster, "admin", host, is_admin, where),
        _right(cluster, "submit", host, is_submit, where),
        _right(cluster, "operator", account, may_operate, where),
    )


def _right(cluster: str, kind: str, name: str, holds: bool, where: str) -> CheckFinding:
    title = kind if kind == "operator" else f"{kind} host"
    item = f"{cluster}: {title} {name}"
    if holds:
        return CheckFinding(item=item, state=FindingSeverity.OK, found="yes")
    admit = SetupEdit(verb=SetupEditVerb.ADMIT, cell=cluster, kind=kind, name=name)
    dismiss = SetupEdit(verb=SetupEditVerb.DISMISS, cell=cluster, kind=kind, name=name)
    return CheckFinding(
        item=item,
        state=FindingSeverity.BROKEN,
        found="no",
        right="yes",
        mend=(admit,),
        undo=(SharedSettingUndo(done=admit, undo=dismiss),),
        where=where,
    )


USER_LISTS = "user_lists"


def transfer_user_list_findings(situation: TransferSetupSituation) -> Iterator[CheckFinding]:
    """Check the userset of remote users, which must exist before its queue."""
    request, listed = (situation.wanted, situation.home.user_lists.get(situation.wanted.people_list, ()))
    if not request.people:
        return
    missing = tuple(sorted(set(request.people) - set(listed)))
    surplus = tuple(sorted(set(listed) - set(request.people)))
    item, right = f"userset {request.people_list}", ",".join(sorted(request.people))
    actual = ",".join(sorted(listed)) or "missing"
    if not missing + surplus:
        yield CheckFinding(item=item, state=FindingSeverity.OK, found=actual)
        return
    changes = ((SetupEditVerb.ALLOW, missing), (SetupEditVerb.DISALLOW, surplus))
    mend = tuple(
        SetupEdit(verb=verb, cell=request.home, name=request.people_list, value=",".join(people))
        for verb, people in changes
        if people
    )
    yield CheckFinding(item=item, state=FindingSeverity.BROKEN, found=actual, right=right, mend=mend)


def queue_user_list_findings(situation: TransferSetupSituation, queue: QconfSettings) -> Iterator[CheckFinding]:
    """Check the transfer queue's user_lists on each host for the userset."""
    request, value = situation.wanted, queue.get(USER_LISTS, "NONE")
    item, is_wanted = f"queue {request.queue}: {USER_LISTS}", bool(request.people)
    lists_by_host = qconf_queue_value_by_host(value)
    wrong = [where for where, names in lists_by_host if (request.people_list in parse_qconf_words(names)) != is_wanted]
    if not wrong:
        yield CheckFinding(item=item, state=FindingSeverity.OK, found=value)
        return
    edit = SetupEdit(
        verb=SetupEditVerb.MERGE if is_wanted else SetupEditVerb.DROP,
        cell=request.home,
        kind="queue",
        name=request.queue,
        attribute=USER_LISTS,
        value=request.people_list,
    )
    right = f"{request.people_list} among them" if is_wanted else f"without {request.people_list}"
    yield CheckFinding(
        item=item,
        state=FindingSeverity.BROKEN,
        found=value,
        right=right,
        mend=tuple(replace(edit, name=f"{request.queue}{where}") for where in wrong),
    )


def user_list_removal_edits(situation: TransferSetupSituation) -> Iterator[SetupEdit]:
    """Remove a remote cluster's userset with the last queue that uses the userset."""
    request = situation.wanted
    other_queues = (queue for name, queue in situation.home.queues.items() if name != request.queue)
    lists = (names for queue in other_queues for _, names in qconf_queue_value_by_host(queue.get(USER_LISTS, "")))
    is_needed = any(request.people_list in parse_qconf_words(names) for names in lists)
    if request.people_list in situation.home.user_lists and not is_needed:
        yield SetupEdit(verb=SetupEditVerb.DROP_LIST, cell=request.home, name=request.people_list)
