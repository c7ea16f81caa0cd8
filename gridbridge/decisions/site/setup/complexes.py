"""The resources of a set-up: `remote`, and the load values that the sensor reports (complex(5)).

A request is looked up on the queue, its host and `global`, and a resource without a value
anywhere makes the job pend for ever. So `-l remote=false` works only when every other queue
says FALSE; and a value on a host or on `global` would contradict the transfer queue's.
"""

from collections.abc import Iterator

from gridbridge.model.attributes import is_transfer, lists, pairs
from gridbridge.model.site.setup_findings import (
    CellSetup,
    CheckFinding,
    ComplexRow,
    EditVerb,
    FindingState,
    QueueRequest,
    SetupEdit,
    SetupSituation,
)

REMOTE = "remote"
BOTH = ("YES", "FORCED")  # FORCED is a site's own choice: only jobs that ask for it are sent away


def wanted_complexes(request: QueueRequest) -> tuple[ComplexRow, ...]:
    """Return the resources that a transfer queue needs."""
    prefix = request.prefix
    return (
        ComplexRow(name=REMOTE, shortcut=REMOTE, type="BOOL", relation="==", requestable="YES"),
        ComplexRow(name=f"{prefix}_up", shortcut=f"{prefix}_up", type="BOOL", relation="=="),
        ComplexRow(
            name=f"{prefix}_pending", shortcut=f"{prefix}_pending", type="INT", relation=">="
        ),
        ComplexRow(name=f"{prefix}_free", shortcut=f"{prefix}_free", type="INT", relation="<="),
    )


def complex_findings(situation: SetupSituation) -> tuple[CheckFinding, ...]:
    """Judge each resource's type and relation: a wrong relation closes a queue for ever."""
    rows = wanted_complexes(situation.wanted)
    return tuple(_complex(row, situation.home, situation.wanted.home) for row in rows)


def _complex(right: ComplexRow, cell: CellSetup, cluster: str) -> CheckFinding:
    item, actual = f"complex {right.name}", cell.complexes.get(right.name)
    if actual and _fits(actual, right):
        return CheckFinding(item=item, state=FindingState.OK, found=actual.row)
    edit = SetupEdit(verb=EditVerb.SET_COMPLEX, cell=cluster, name=right.name, value=right.row)
    return CheckFinding(
        item=item,
        state=FindingState.BROKEN,
        found=actual.row if actual else "missing",
        right=right.row,
        mend=(edit,),
    )


def _fits(actual: ComplexRow, right: ComplexRow) -> bool:
    may_ask = BOTH if right.requestable == "YES" else (right.requestable,)
    same = (actual.type, actual.relation, actual.consumable) == (right.type, right.relation, "NO")
    return same and actual.requestable in may_ask


def remote_findings(situation: SetupSituation) -> tuple[CheckFinding, ...]:
    """Judge what the other queues, the host and `global` say of `remote`."""
    queues = (
        _home_queue(name, values.get("complex_values", ""), situation)
        for name, values in situation.home.queues.items()
        if name != situation.wanted.queue and not is_transfer(values)
    )
    return (*queues, *_contradictions(situation))


def _home_queue(name: str, values: str, situation: SetupSituation) -> CheckFinding:
    values_by_host = lists(values)
    lacking = [where for where, values_of_host in values_by_host if REMOTE not in values_of_host]
    if not lacking:
        return CheckFinding(
            item=f"queue {name}",
            state=FindingState.OK,
            found=f"remote={values_by_host[0][1][REMOTE]}",
        )
    hosts = ", ".join(where[1:] for where in lacking if where)
    on = f" on {hosts}, whose list takes the place of the usual one" if lacking[0] else ""
    return CheckFinding(
        item=f"queue {name}",
        state=FindingState.BROKEN,
        found=f"no value of remote{on}: `-l remote=false` would wait for ever",
        right="complex_values remote=FALSE" + (f" on {hosts} too" if hosts else ""),
        mend=tuple(_no_remote(f"{name}{where}", situation) for where in lacking),
    )


def _no_remote(queue: str, situation: SetupSituation) -> SetupEdit:
    return SetupEdit(
        verb=EditVerb.MERGE,
        cell=situation.wanted.home,
        kind="queue",
        name=queue,
        attribute="complex_values",
        value="remote=FALSE",
    )


def _contradictions(situation: SetupSituation) -> Iterator[CheckFinding]:
    for host, values in situation.home.exec_hosts.items():
        remote = pairs(values.get("complex_values", "")).get(REMOTE)
        if remote is None:
            continue
        edit = SetupEdit(
            verb=EditVerb.DROP,
            cell=situation.wanted.home,
            kind="exechost",
            name=host,
            attribute="complex_values",
            value=f"remote={remote}",
        )
        yield CheckFinding(
            item=f"host {host}",
            state=FindingState.BROKEN,
            found=f"remote={remote}, which holds for its queues too",
            right="remote on queues alone",
            mend=(edit,),
        )
