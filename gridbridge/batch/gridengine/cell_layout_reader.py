"""How a cell is laid out, as a table in JSON of what its programs print, and as values.

The table is what `gridbridge balance snapshot` saves, so it can be made by hand as well: of every
attribute the text that qconf(1) prints, or a number, or a list.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from gridbridge.batch.gridengine import client_commands, qconf
from gridbridge.batch.gridengine.membership import reservations
from gridbridge.batch.gridengine.parse import count_tasks, parse_caps, parse_judged, take_rows
from gridbridge.batch.gridengine.status import names, queue_settings, show
from gridbridge.batch.gridengine.submit import call, deferred, detail
from gridbridge.errors import ParseError
from gridbridge.model.attributes import words
from gridbridge.model.elastic.access import ACCESS, GROUP, UserList, access_of
from gridbridge.model.elastic.cell_layout import (
    ARCH,
    LIMITS,
    MEMORY,
    CellLayout,
    CellResource,
    ConsumableKind,
    ParallelEnvironment,
    ResourceRelation,
    SlotSpread,
    queue_of,
)
from gridbridge.model.route import GridEngineCell
from gridbridge.model.site.setup_findings import ComplexRow
from gridbridge.shell.runner import LIST_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lxml.etree import _Element

Texts: TypeAlias = Mapping[str, str]
Tables: TypeAlias = Mapping[str, Texts]

COMPLEXES, ENVIRONMENTS, GROUPS = "complexes", "environments", "hostgroups"
QUEUES, DEFERRED, CAPS, PROMISED = "queues", "deferred", "concurrency", "reservations"
USER_LISTS, PROJECTS, JOB_GROUPS, CHECKPOINTS = "userlists", "projects", "groups", "checkpoints"
OF_ACCESS = (USER_LISTS, PROJECTS, JOB_GROUPS, CHECKPOINTS)
KEYS = (COMPLEXES, ENVIRONMENTS, GROUPS, QUEUES, DEFERRED, CAPS, PROMISED, *OF_ACCESS)
SPREADS = {
    "$pe_slots": SlotSpread.ONE_HOST,
    "$fill_up": SlotSpread.ANY_HOSTS,
    "$round_robin": SlotSpread.ANY_HOSTS,
}
ACL = "ACL"  # in the type of a list that queues look at (access_list(5))
COUNTED = {"YES": ConsumableKind.BY_SLOT, "JOB": ConsumableKind.BY_JOB}
ATTRIBUTES = ("hostlist", "pe_list", "qtype", "complex_values", *LIMITS, *MEMORY, *ACCESS)
MOST_ARRAYS, AT_ONCE = 1000, 100  # whose number of tasks at once is asked for; in a call
MOST_JUDGED = 1000  # jobs whose group and checkpointing environment are asked for
ROW_ENDS, HAS_TASKS = b"</job_list>", b"<tasks>"
NUMBER = re.compile(rb"<JB_job_number>(\d+)</JB_job_number>")
WAITS = re.compile(rb"<state>R?qw</state>")
ARRAY = re.compile(rb"<JB_job_number>(\d+)</JB_job_number>.*<tasks>([\d:,-]+)</tasks>", re.S)
REQUEST = re.compile(rb'<(?:def_)?hard_request name="([^"<>]+)"')


def printed(cell: GridEngineCell, qstat: bytes) -> bytes:
    """Return the table of a cell: a call for each host group and environment, and five more.

    A call more for each hundred arrays that wait in what qstat has printed, for each hundred
    advance reservations, and for each user list that a queue or environment names. Raises
    CommandFailed when one is not answered, and ParseError.
    """
    complexes = qconf.complexes(show(cell, "-sc"))
    queues = {one["qname"]: one for one in queue_settings(cell)}
    table = {
        COMPLEXES: {name: _row_told(row) for name, row in complexes.items()},
        ENVIRONMENTS: {name: _told(cell, "-sp", name) for name in names(cell, "-spl")},
        GROUPS: {
            name: _told(cell, "-shgrp", name).get("hostlist", "") for name in names(cell, "-shgrpl")
        },
        QUEUES: {
            name: {key: one[key] for key in ATTRIBUTES if key in one}
            for name, one in queues.items()
        },
        DEFERRED: sorted(deferred(cell)),
        CAPS: _asked_caps(cell, qstat),
        PROMISED: dict(reservations.granted(cell)),
    }
    table |= _asked_access(cell, _layout(table), qstat)
    return f"{json.dumps(table, indent=1, sort_keys=True)}\n".encode()


def _asked_access(cell: GridEngineCell, laid_out: CellLayout, qstat: bytes) -> dict[str, object]:
    """Ask for what lists of queues and environments judge jobs by, if there are any.

    The groups and checkpointing environments of jobs are in `qstat -j` alone.
    """
    accesses, found = laid_out.accesses, dict[str, object]()
    names_groups = False
    if lists := sorted({name for one in accesses for name in (*one.users, *one.barred_users)}):
        told = {name: _told(cell, "-su", name) for name in lists}
        shown = ("type", "entries")
        found[USER_LISTS] = {n: {key: one.get(key, "") for key in shown} for n, one in told.items()}
        names_groups = any(GROUP in one.get("entries", "") for one in told.values())
    if any(one.names_projects for one in accesses):
        found[PROJECTS] = _projects(cell)
    if names_groups or names(cell, "-sckptl"):
        judged = _judged(cell, qstat)
        found[JOB_GROUPS] = {str(job): group for job, (group, _) in judged.items() if group}
        found[CHECKPOINTS] = {str(job): name for job, (_, name) in judged.items() if name}
    return found


def _judged(cell: GridEngineCell, qstat: bytes) -> dict[int, tuple[str, str]]:
    """Ask for the groups and checkpointing environments of the first jobs that wait."""
    rows = (row for row in qstat.split(ROW_ENDS) if WAITS.search(row))
    numbers = dict.fromkeys(number[1].decode() for row in rows if (number := NUMBER.search(row)))
    jobs, found = tuple(numbers)[:MOST_JUDGED], dict[int, tuple[str, str]]()
    for start in range(0, len(jobs), AT_ONCE):
        found |= parse_judged(detail(cell, ",".join(jobs[start : start + AT_ONCE])))
    return found


def _projects(cell: GridEngineCell) -> dict[str, str]:
    """Return the projects of waiting jobs; `qstat` without -ext does not show them."""
    found = dict[str, str]()

    def take(row: "_Element") -> None:
        if project := row.findtext("JB_project"):
            found[row.findtext("JB_job_number", "")] = project

    answer = call(cell, client_commands.projects(cell), most_bytes=LIST_BYTES)
    take_rows(answer.checked().stdout, take)
    return found


def _asked_caps(cell: GridEngineCell, qstat: bytes) -> dict[str, int]:
    jobs, found = arrays(qstat)[:MOST_ARRAYS], dict[int, int]()
    for start in range(0, len(jobs), AT_ONCE):
        found |= parse_caps(detail(cell, ",".join(map(str, jobs[start : start + AT_ONCE]))))
    return {str(job): most for job, most in sorted(found.items())}


def arrays(qstat: bytes) -> list[int]:
    """Return the arrays of which more than one task waits for a place, the largest first.

    `qstat -xml` tells of none how many tasks may run at once.
    """
    found = dict[int, int]()
    for row in qstat.split(ROW_ENDS):
        if HAS_TASKS in row and WAITS.search(row) and (told := ARRAY.search(row)):
            tasks = count_tasks(told[2].decode())
            if tasks > 1:
                found[int(told[1])] = found.get(int(told[1]), 0) + tasks
    return sorted(found, key=lambda job: (-found[job], job))


def asked(qstat: bytes, qconf_table: bytes) -> tuple[str, ...]:
    """Return which resources hosts are asked for: consumables, and what jobs ask for.

    Each host that reports has an architecture, so what else it does not show, it does not have.
    """
    named = {one.decode("utf-8", "replace") for one in REQUEST.findall(qstat)}
    used = {
        one.name for one in read(qconf_table).resources.values() if one.counted != ConsumableKind.NO
    }
    return tuple(sorted(named | used | {ARCH}))


def read(data: bytes) -> CellLayout:
    """Read a table; ParseError names the key that is wrong. An empty one tells nothing."""
    if not data:
        return CellLayout()
    try:
        table = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"no JSON: {error}") from error
    if not isinstance(table, dict):
        raise _wrong("it", table, f"a table with {', '.join(KEYS)}")
    if strange := [key for key in table if key not in KEYS]:
        raise ParseError(f"{strange[0]}: unknown; known are {', '.join(KEYS)}")
    return _layout(table)


def _layout(table: Mapping[str, object]) -> CellLayout:
    rows = _tables(table, COMPLEXES)
    resources = [_resource(name, one) for name, one in rows.items()]
    short = {one.shortcut: one for one in resources if one.shortcut}
    groups = _texts(table.get(GROUPS, {}), GROUPS)
    members = {name: words(text) for name, text in groups.items()}
    found = {name: _members(name, members, ()) for name in members}
    return CellLayout(
        resources=short | {one.name: one for one in resources},
        environments={n: _environment(n, one) for n, one in _tables(table, ENVIRONMENTS).items()},
        groups={
            name: frozenset(one for one in some if not _is_group(one))
            for name, some in found.items()
        },
        parts={name: frozenset(filter(_is_group, some)) for name, some in found.items()},
        queues={
            name: queue_of(name, settings) for name, settings in _tables(table, QUEUES).items()
        },
        deferred=frozenset(_numbers(table.get(DEFERRED, []), DEFERRED)),
        caps=_caps(table.get(CAPS, {})),
        promised=_promised(table.get(PROMISED, {})),
        user_lists={n: _user_list(one) for n, one in _tables(table, USER_LISTS).items()},
        projects=_by_job(table, PROJECTS) if PROJECTS in table else None,
        owners_groups=_by_job(table, JOB_GROUPS),
        checkpoints=_by_job(table, CHECKPOINTS),
    )


def _members(
    name: str, groups: Mapping[str, tuple[str, ...]], above: Iterable[str]
) -> frozenset[str]:
    """Return what is in a group: hosts, groups, and what is in those; not a group in itself."""
    found, around = set[str](), (*above, name)
    for one in (one for one in groups.get(name, ()) if one not in around):
        found.add(one)
        if _is_group(one):
            found |= _members(one, groups, around)
    return frozenset(found)


def _is_group(name: str) -> bool:
    return name.startswith("@")


def _resource(name: str, row: Texts) -> CellResource:
    relation = row.get("relation", "<=")
    return CellResource(
        name=name,
        shortcut=row.get("shortcut", ""),
        relation=ResourceRelation(relation)
        if relation in {one.value for one in ResourceRelation}
        else ResourceRelation.AT_MOST,
        counted=COUNTED.get(row.get("consumable", "NO").upper(), ConsumableKind.NO),
        is_forced=row.get("requestable", "YES").upper() == "FORCED",
        default=row.get("default", "0"),
    )


def _environment(name: str, told: Texts) -> ParallelEnvironment:
    rule = told.get("allocation_rule", "")
    slots = _number(told.get("slots", "0"), f"{ENVIRONMENTS}.{name}.slots")
    if rule.isascii() and rule.isdecimal():
        fixed = max(1, int(rule))
        return ParallelEnvironment(
            name=name, spread=SlotSpread.FIXED, per_host=fixed, slots=slots, access=access_of(told)
        )
    return ParallelEnvironment(
        name=name,
        spread=SPREADS.get(rule, SlotSpread.UNKNOWN),
        slots=slots,
        access=access_of(told),
    )


def _row_told(row: ComplexRow) -> dict[str, str]:
    keys = ("shortcut", "relation", "requestable", "consumable", "default")
    return {key: str(getattr(row, key)) for key in keys}


def _told(cell: GridEngineCell, showing: str, name: str) -> dict[str, str]:
    return dict(qconf.settings(show(cell, showing, name)))


def _tables(table: Mapping[str, object], key: str) -> Tables:
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise _wrong(key, found, "a table of tables by their names")
    return {name: _texts(one, f"{key}.{name}") for name, one in found.items()}


def _texts(told: object, where: str) -> dict[str, str]:
    if not isinstance(told, dict):
        raise _wrong(where, told, "a table of texts")
    return {key: _text(one, f"{where}.{key}") for key, one in told.items()}


def _text(told: object, where: str) -> str:
    if isinstance(told, list):
        return " ".join(_text(one, where) for one in told)
    if isinstance(told, str | int | float):
        return str(told)
    raise _wrong(where, told, "a text, a number or a list of them")


def _numbers(told: object, where: str) -> list[int]:
    if not isinstance(told, list):
        raise _wrong(where, told, "a list of numbers")
    return [_number(str(one), where) for one in told]


def _caps(told: object) -> dict[int, int]:
    texts = _texts(told, CAPS)
    return {_number(job, CAPS): _number(most, f"{CAPS}.{job}") for job, most in texts.items()}


def _user_list(told: Texts) -> UserList:
    is_access = ACL in words(told.get("type", ACL).upper())
    return UserList(entries=words(told.get("entries", "")), is_access=is_access)


def _by_job(table: Mapping[str, object], key: str) -> dict[int, str]:
    return {_number(job, key): text for job, text in _texts(table.get(key, {}), key).items()}


def _promised(told: object) -> dict[str, int]:
    texts = _texts(told, PROMISED)
    return {name: _number(slots, f"{PROMISED}.{name}") for name, slots in texts.items()}


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise _wrong(where, text, "a whole number")
    return int(text)


def _wrong(where: str, told: object, right: str) -> ParseError:
    return ParseError(f"{where}: {json.dumps(told)[:60]}; expected {right}")
