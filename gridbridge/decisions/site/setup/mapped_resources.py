"""Resources that the mapping names: the queue needs a value of each, or jobs never go there.

A request is looked up on the queue, its host and `global`; with a value nowhere the job waits for
ever (complex(5)). The queue promises the largest value there is; the remote cluster knows what it
has. A FORCED resource keeps all other jobs away, so only the administrator gives it a value.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from gridbridge.model.attributes import Settings, pairs, varying
from gridbridge.model.request import is_place
from gridbridge.model.site.setup_findings import (
    CheckFinding,
    ComplexRow,
    EditVerb,
    FindingState,
    SetupEdit,
    SetupSituation,
)

ASKABLE = "YES"
MOST: Mapping[str, str] = MappingProxyType(
    {"INT": "9999999", "DOUBLE": "9999999", "MEMORY": "9999T", "TIME": "99999:00:00"}
)


def promised(situation: SetupSituation) -> tuple[str, ...]:
    """Return `name=value` for what a new queue promises of the mapping's resources."""
    rows = _needed(situation, {})
    return tuple(f"{row.name}={value}" for row in rows if (value := _most(row)))


def request_findings(situation: SetupSituation, queue: Settings) -> Iterator[CheckFinding]:
    """Judge what the queue, its host and `global` say of the mapping's resources."""
    for row in _needed(situation, queue):
        yield _missing(row, situation, queue)
    for name, value in pairs(_values_on_host(situation, queue)).items():
        if name in situation.wanted.resources:
            item = f"queue {situation.wanted.queue}: resource {name}"
            yield CheckFinding(item=item, state=FindingState.OK, found=f"{name}={value}")


def _needed(situation: SetupSituation, queue: Settings) -> Iterator[ComplexRow]:
    """Give the resources that can be asked for and have no value where the queue is."""
    present = {*queue, *pairs(_values_on_host(situation, queue))}
    for host in situation.home.exec_hosts.values():
        present |= pairs(host.get("complex_values", "")).keys()
        present |= pairs(host.get("load_values", "")).keys()
    for name in situation.wanted.resources:
        row = situation.home.complexes.get(name)
        if row and row.requestable == ASKABLE and name not in present and not is_place(name):
            yield row


def _values_on_host(situation: SetupSituation, queue: Settings) -> str:
    """Return the queue's complex_values on its host, from the host itself or its groups."""
    values = varying(queue.get("complex_values", ""))
    groups = {where for where, _ in values.others if where.startswith("@")}
    return values.on(situation.wanted.host, groups)


def _most(row: ComplexRow) -> str:
    """Return the value that suits every request, empty where there is none."""
    if row.type == "BOOL":
        return "TRUE"
    if row.type in MOST:
        return {"<=": MOST[row.type], ">=": "0"}.get(row.relation, "")
    return ""


def _missing(row: ComplexRow, situation: SetupSituation, queue: Settings) -> CheckFinding:
    request, value = situation.wanted, _most(row)
    own = [where for where, _ in varying(queue.get("complex_values", "")).others]
    name = f"{request.queue}@{request.host}" if request.host in own else request.queue
    edit = SetupEdit(
        verb=EditVerb.MERGE,
        cell=request.home,
        kind="queue",
        name=name,
        attribute="complex_values",
        value=f"{row.name}={value}",
    )
    return CheckFinding(
        item=f"queue {request.queue}: resource {row.name}",
        state=FindingState.WARNING,
        found=f"no value: a job that asks for {row.name} is never sent to {request.remote}",
        right=f"{row.name}={value}" if value else "the values that jobs may ask for",
        mend=(edit,) if value else (),
        hint="" if value else f"qconf -mattr queue complex_values {row.name}=... {name}",
    )
