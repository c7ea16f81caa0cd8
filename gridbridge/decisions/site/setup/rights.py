"""Who may do what: the service account as operator, the transfer host as submit and admin host.

The host sends its users' jobs to both cells and the service alters and deletes them there; only
an admin host may change a cell's set-up (sge_conf(5), qconf(1) -as, -ah, -ao).
"""

from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.site.setup_findings import (
    CellSetup,
    CheckFinding,
    EditVerb,
    FindingState,
    SetupEdit,
    SetupSituation,
    SharedSettingUndo,
)


def right_findings(situation: SetupSituation) -> tuple[CheckFinding, ...]:
    """Judge the rights in both cells."""
    request = situation.wanted
    home = _in_cell(request.home, situation.home, situation)
    if not request.has_operators:
        return home
    if request.far_account:
        return (_by_ssh(situation), *home)
    return (*_in_cell(request.remote, situation.away, situation), *home)


def _by_ssh(situation: SetupSituation) -> CheckFinding:
    """Judge what the service may do where the clients run on the cluster's own host.

    Another domain's set-up belongs to its administrators. Without this right everything works,
    except that a held job which no transfer knows stays there, held.
    """
    request, account = situation.wanted, situation.wanted.far_account
    item = f"{request.remote}: operator {account}"
    if account in (*situation.away.operators, *situation.away.managers):
        return CheckFinding(item=item, state=FindingState.OK, found="yes")
    return CheckFinding(
        item=item,
        state=FindingState.WARNING,
        found="no: held jobs of nobody can't be deleted there",
        right="yes",
        hint=f"ask an administrator of {request.remote} for: qconf -ao {account}",
    )


def _in_cell(cluster: str, cell: CellSetup, situation: SetupSituation) -> tuple[CheckFinding, ...]:
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
        return CheckFinding(item=item, state=FindingState.OK, found="yes")
    admit = SetupEdit(verb=EditVerb.ADMIT, cell=cluster, kind=kind, name=name)
    dismiss = SetupEdit(verb=EditVerb.DISMISS, cell=cluster, kind=kind, name=name)
    return CheckFinding(
        item=item,
        state=FindingState.BROKEN,
        found="no",
        right="yes",
        mend=(admit,),
        undo=(SharedSettingUndo(done=admit, undo=dismiss),),
        where=where,
    )
