"""Who may do what: the service account as operator, the transfer host as submit and admin host.

The host sends its users' jobs to both cells and the service alters and deletes them there; only
an admin host may change a cell's set-up (sge_conf(5), qconf(1) -as, -ah, -ao).
"""

from gridbridge.model.site.setup import (
    CellSetup,
    Edit,
    Finding,
    SetupWorld,
    State,
    Undo,
    Verb,
    same_host,
)


def right_findings(world: SetupWorld) -> tuple[Finding, ...]:
    """Judge the rights in both cells."""
    wanted = world.wanted
    home = _in_cell(wanted.home, world.home, world)
    if not wanted.has_operators:
        return home
    if wanted.far_account:
        return (_by_ssh(world), *home)
    return (*_in_cell(wanted.remote, world.away, world), *home)


def _by_ssh(world: SetupWorld) -> Finding:
    """Judge what the service may do where the clients run on the cluster's own host.

    Another domain's set-up belongs to its administrators. Without this right everything works,
    except that a held job which no transfer knows stays there, held.
    """
    wanted, account = world.wanted, world.wanted.far_account
    item = f"{wanted.remote}: operator {account}"
    if account in (*world.away.operators, *world.away.managers):
        return Finding(item=item, state=State.OK, found="yes")
    return Finding(
        item=item,
        state=State.WARNING,
        found="no: held jobs of nobody can't be deleted there",
        right="yes",
        hint=f"ask an administrator of {wanted.remote} for: qconf -ao {account}",
    )


def _in_cell(cluster: str, cell: CellSetup, world: SetupWorld) -> tuple[Finding, ...]:
    account, host = world.wanted.service_account, world.wanted.host
    may_operate = account in (*cell.operators, *cell.managers)
    is_admin = any(same_host(host, name) for name in cell.admin_hosts)
    is_submit = any(same_host(host, name) for name in cell.submit_hosts)
    where = "" if is_admin else cell.master
    return (
        _right(cluster, "admin", host, is_admin, where),
        _right(cluster, "submit", host, is_submit, where),
        _right(cluster, "operator", account, may_operate, where),
    )


def _right(cluster: str, kind: str, name: str, holds: bool, where: str) -> Finding:
    title = kind if kind == "operator" else f"{kind} host"
    item = f"{cluster}: {title} {name}"
    if holds:
        return Finding(item=item, state=State.OK, found="yes")
    admit = Edit(verb=Verb.ADMIT, cell=cluster, kind=kind, name=name)
    dismiss = Edit(verb=Verb.DISMISS, cell=cluster, kind=kind, name=name)
    return Finding(
        item=item,
        state=State.BROKEN,
        found="no",
        right="yes",
        mend=(admit,),
        undo=(Undo(done=admit, undo=dismiss),),
        where=where,
    )
