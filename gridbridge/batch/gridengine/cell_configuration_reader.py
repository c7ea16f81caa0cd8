"""Reads a cell's queues, hosts, resources and access lists with qconf(1), as one JSON table.

In a table written by hand, an attribute is the text that qconf(1) prints, a number, or a list.
Reserved slots come from qrstat(1), because qstat shows only reservations that have begun.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from gridbridge.batch.gridengine import qconf_parser_and_edits, qstat_xml_parser
from gridbridge.batch.gridengine.job_submission_and_control import query_deferred_jobs, query_job_xml, run_client
from gridbridge.batch.gridengine.status import (
    query_all_queue_settings,
    query_qconf_names,
    query_qconf_object,
    query_qconf_object_settings,
)
from gridbridge.errors import CommandFailed, ParseError
from gridbridge.model.elastic.grid_engine_cell import (
    ACCESS,
    ARCH,
    GROUP,
    LIMITS,
    MEMORY,
    CellConfiguration,
    CellResourceDefinition,
    ConsumableKind,
    GridEngineUserList,
    ParallelEnvironment,
    ParallelSlotDistribution,
    RequestedValueComparison,
    parse_access_lists,
    parse_cell_queue,
)
from gridbridge.model.qconf_attribute_parser import parse_qconf_words
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from gridbridge.shell.program_runs import LIST_BYTES

Texts: TypeAlias = Mapping[str, str]
Tables: TypeAlias = Mapping[str, Texts]

COMPLEXES, ENVIRONMENTS, GROUPS = "complexes", "environments", "hostgroups"
QUEUES, DEFERRED, CAPS, PROMISED = "queues", "deferred", "concurrency", "reservations"
USER_LISTS, PROJECTS, JOB_GROUPS, CHECKPOINTS = "userlists", "projects", "groups", "checkpoints"
OF_ACCESS = (USER_LISTS, PROJECTS, JOB_GROUPS, CHECKPOINTS)
KEYS = (COMPLEXES, ENVIRONMENTS, GROUPS, QUEUES, DEFERRED, CAPS, PROMISED, *OF_ACCESS)
SPREADS = {
    "$pe_slots": ParallelSlotDistribution.ONE_HOST,
    "$fill_up": ParallelSlotDistribution.ANY_HOSTS,
    "$round_robin": ParallelSlotDistribution.ANY_HOSTS,
}
COMPLEX_KEYS = ("shortcut", "relation", "requestable", "consumable", "default")
ACL = "ACL"  # type of user lists that grant access to queues (access_list(5))
RELATIONS = {relation.value: relation for relation in RequestedValueComparison}
COUNTED = {"YES": ConsumableKind.BY_SLOT, "JOB": ConsumableKind.BY_JOB}
ATTRIBUTES = ("hostlist", "pe_list", "qtype", "complex_values", *LIMITS, *MEMORY, *ACCESS)
MOST_ARRAYS, AT_ONCE = 1000, 100  # the task limits of at most this many arrays are queried: in total, and in one query
MOST_JUDGED = 1000  # group and checkpointing environment are queried for at most this many jobs
ROW_ENDS, HAS_TASKS = b"</job_list>", b"<tasks>"
NUMBER = re.compile(rb"<JB_job_number>(\d+)</JB_job_number>")
WAITS = re.compile(rb"<state>R?qw</state>")
ARRAY = re.compile(rb"<JB_job_number>(\d+)</JB_job_number>.*<tasks>([\d:,-]+)</tasks>", re.S)
REQUEST = re.compile(rb'<(?:def_)?hard_request name="([^"<>]+)"')


def query_cell_configuration(cell: GridEngineCellAccessSettings, qstat: bytes) -> bytes:
    """Query a cell's configuration as a JSON table; raise CommandFailed or ParseError if a call fails."""
    complexes = qconf_parser_and_edits.parse_complex_table(query_qconf_object(cell, "-sc"))
    queues = {settings["qname"]: settings for settings in query_all_queue_settings(cell)}
    table = {
        COMPLEXES: {name: {key: str(getattr(row, key)) for key in COMPLEX_KEYS} for name, row in complexes.items()},
        ENVIRONMENTS: {
            name: query_qconf_object_settings(cell, "-sp", name) for name in query_qconf_names(cell, "-spl")
        },
        GROUPS: {
            name: query_qconf_object_settings(cell, "-shgrp", name).get("hostlist", "")
            for name in query_qconf_names(cell, "-shgrpl")
        },
        QUEUES: {
            name: {key: settings[key] for key in ATTRIBUTES if key in settings} for name, settings in queues.items()
        },
        DEFERRED: sorted(query_deferred_jobs(cell)),
        CAPS: {str(job): most for job, most in sorted(_query_array_concurrency_limits(cell, qstat).items())},
        PROMISED: dict(query_advance_reserved_slots(cell)),
    }
    table |= _query_job_identities(cell, _cell_configuration_of_table(table), qstat)
    return f"{json.dumps(table, indent=1, sort_keys=True)}\n".encode()


def _query_job_identities(
    cell: GridEngineCellAccessSettings, laid_out: CellConfiguration, qstat: bytes
) -> dict[str, object]:
    """Query the project, group and checkpointing environment of each job, if an access list names any of them."""
    accesses, answers = laid_out.all_access_lists, dict[str, object]()
    names_groups = False
    if lists := sorted({name for access in accesses for name in (*access.users, *access.barred_users)}):
        user_lists = {name: query_qconf_object_settings(cell, "-su", name) for name in lists}
        shown = ("type", "entries")
        answers[USER_LISTS] = {n: {key: user_list.get(key, "") for key in shown} for n, user_list in user_lists.items()}
        names_groups = any(GROUP in user_list.get("entries", "") for user_list in user_lists.values())
    if any(access.depends_on_job_project for access in accesses):
        answers[PROJECTS] = _query_projects_by_job(cell)
    if names_groups or query_qconf_names(cell, "-sckptl"):
        judged = _query_job_groups_and_checkpointing(cell, qstat)
        answers[JOB_GROUPS] = {str(job): group for job, (group, _) in judged.items() if group}
        answers[CHECKPOINTS] = {str(job): name for job, (_, name) in judged.items() if name}
    return answers


def _query_job_groups_and_checkpointing(cell: GridEngineCellAccessSettings, qstat: bytes) -> dict[int, tuple[str, str]]:
    rows = (row for row in qstat.split(ROW_ENDS) if WAITS.search(row))
    numbers = dict.fromkeys(number[1].decode() for row in rows if (number := NUMBER.search(row)))
    judgements = dict[int, tuple[str, str]]()
    for xml in _query_job_details_in_portions(cell, list(numbers)[:MOST_JUDGED]):
        judgements |= qstat_xml_parser.parse_unix_groups_and_ckpts(xml)
    return judgements


def _query_job_details_in_portions(cell: GridEngineCellAccessSettings, jobs: Sequence[str]) -> Iterator[bytes]:
    for start in range(0, len(jobs), AT_ONCE):
        yield query_job_xml(cell, ",".join(jobs[start : start + AT_ONCE]))


def _query_projects_by_job(cell: GridEngineCellAccessSettings) -> dict[str, str]:
    argv = (f"{cell.binaries}/qstat", "-s", "p", "-u", "*", "-ext", "-xml")
    answer = run_client(cell, argv, most_bytes=LIST_BYTES).require_success().stdout
    return qstat_xml_parser.parse_projects_of_jobs(answer)


def _query_array_concurrency_limits(cell: GridEngineCellAccessSettings, qstat: bytes) -> dict[int, int]:
    jobs, caps = list(map(str, waiting_arrays_in_qstat(qstat)[:MOST_ARRAYS])), dict[int, int]()
    for xml in _query_job_details_in_portions(cell, jobs):
        caps |= qstat_xml_parser.parse_array_concurrency_limits(xml)
    return caps


def waiting_arrays_in_qstat(qstat: bytes) -> list[int]:
    """Return the arrays that have several waiting tasks; the array with the most waiting tasks comes first."""
    task_counts = dict[int, int]()
    for row in qstat.split(ROW_ENDS):
        if HAS_TASKS in row and WAITS.search(row) and (match := ARRAY.search(row)):
            tasks = qstat_xml_parser.count_tasks_in_ranges(match[2].decode())
            if tasks > 1:
                task_counts[int(match[1])] = task_counts.get(int(match[1]), 0) + tasks
    return sorted(task_counts, key=lambda job: (-task_counts[job], job))


def host_resources_to_query(qstat: bytes, qconf_table: bytes) -> tuple[str, ...]:
    """Return the names of the resources that qhost must show: consumables, requested resources and the architecture."""
    named = {name.decode("utf-8", "replace") for name in REQUEST.findall(qstat)}
    used = {
        resource.name
        for resource in parse_cell_configuration(qconf_table).resources.values()
        if resource.counted != ConsumableKind.NO
    }
    return tuple(sorted(named | used | {ARCH}))


def parse_cell_configuration(data: bytes) -> CellConfiguration:
    """Parse a saved configuration table; a ParseError names the invalid key."""
    if not data:
        return CellConfiguration()
    try:
        table = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not JSON: {error}") from error
    if not isinstance(table, dict):
        raise _invalid_value_error("configuration", table, f"a table with {', '.join(KEYS)}")
    if strange := [key for key in table if key not in KEYS]:
        raise ParseError(f"{strange[0]}: unknown key; expected {', '.join(KEYS)}")
    return _cell_configuration_of_table(table)


def _cell_configuration_of_table(table: Mapping[str, object]) -> CellConfiguration:
    rows = _require_tables(table, COMPLEXES)
    resources = [_resource_definition(name, row) for name, row in rows.items()]
    short = {resource.shortcut: resource for resource in resources if resource.shortcut}
    groups = _require_texts(table.get(GROUPS, {}), GROUPS)
    members = {name: parse_qconf_words(text) for name, text in groups.items()}
    expanded = {name: _expand_host_group(name, members, ()) for name in members}
    return CellConfiguration(
        resources=short | {resource.name: resource for resource in resources},
        environments={n: _parallel_environment(n, row) for n, row in _require_tables(table, ENVIRONMENTS).items()},
        groups={
            name: frozenset(entry for entry in entries if not _is_host_group(entry))
            for name, entries in expanded.items()
        },
        parts={name: frozenset(filter(_is_host_group, entries)) for name, entries in expanded.items()},
        queues={name: parse_cell_queue(name, settings) for name, settings in _require_tables(table, QUEUES).items()},
        deferred=frozenset(_require_number_list(table.get(DEFERRED, []), DEFERRED)),
        caps={
            _parse_whole_number(job, CAPS): _parse_whole_number(most, f"{CAPS}.{job}")
            for job, most in _require_texts(table.get(CAPS, {}), CAPS).items()
        },
        promised={
            name: _parse_whole_number(slots, f"{PROMISED}.{name}")
            for name, slots in _require_texts(table.get(PROMISED, {}), PROMISED).items()
        },
        user_lists={n: _parse_user_list(row) for n, row in _require_tables(table, USER_LISTS).items()},
        projects=_texts_by_job(table, PROJECTS) if PROJECTS in table else None,
        owners_groups=_texts_by_job(table, JOB_GROUPS),
        checkpoints=_texts_by_job(table, CHECKPOINTS),
    )


def _expand_host_group(name: str, groups: Mapping[str, tuple[str, ...]], above: Iterable[str]) -> frozenset[str]:
    members, around = set[str](), (*above, name)
    for member in (member for member in groups.get(name, ()) if member not in around):
        members.add(member)
        if _is_host_group(member):
            members |= _expand_host_group(member, groups, around)
    return frozenset(members)


def _is_host_group(name: str) -> bool:
    return name.startswith("@")


def _resource_definition(name: str, row: Texts) -> CellResourceDefinition:
    return CellResourceDefinition(
        name=name,
        shortcut=row.get("shortcut", ""),
        relation=RELATIONS.get(row.get("relation", ""), RequestedValueComparison.AT_MOST),
        counted=COUNTED.get(row.get("consumable", "NO").upper(), ConsumableKind.NO),
        is_forced=row.get("requestable", "YES").upper() == "FORCED",
        default=row.get("default", "0"),
    )


def _parallel_environment(name: str, settings: Texts) -> ParallelEnvironment:
    rule = settings.get("allocation_rule", "")
    slots = _parse_whole_number(settings.get("slots", "0"), f"{ENVIRONMENTS}.{name}.slots")
    is_fixed = rule.isascii() and rule.isdecimal()
    return ParallelEnvironment(
        name=name,
        spread=ParallelSlotDistribution.FIXED if is_fixed else SPREADS.get(rule, ParallelSlotDistribution.UNKNOWN),
        per_host=max(1, int(rule)) if is_fixed else 0,
        slots=slots,
        access=parse_access_lists(settings),
    )


def _require_tables(table: Mapping[str, object], key: str) -> Tables:
    tables = table.get(key, {})
    if not isinstance(tables, dict):
        raise _invalid_value_error(key, tables, "a table of tables")
    return {name: _require_texts(texts, f"{key}.{name}") for name, texts in tables.items()}


def _require_texts(table: object, where: str) -> dict[str, str]:
    if not isinstance(table, dict):
        raise _invalid_value_error(where, table, "a table of texts")
    return {key: _require_text(text, f"{where}.{key}") for key, text in table.items()}


def _require_text(text: object, where: str) -> str:
    if isinstance(text, list):
        return " ".join(_require_text(part, where) for part in text)
    if isinstance(text, str | int | float):
        return str(text)
    raise _invalid_value_error(where, text, "a text, a number, or a list of texts and numbers")


def _require_number_list(numbers: object, where: str) -> list[int]:
    if not isinstance(numbers, list):
        raise _invalid_value_error(where, numbers, "a list of numbers")
    return [_parse_whole_number(str(number), where) for number in numbers]


def _parse_user_list(settings: Texts) -> GridEngineUserList:
    is_access = ACL in parse_qconf_words(settings.get("type", ACL).upper())
    return GridEngineUserList(entries=parse_qconf_words(settings.get("entries", "")), is_access=is_access)


def _texts_by_job(table: Mapping[str, object], key: str) -> dict[int, str]:
    return {_parse_whole_number(job, key): text for job, text in _require_texts(table.get(key, {}), key).items()}


def _parse_whole_number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise _invalid_value_error(where, text, "a whole number")
    return int(text)


def _invalid_value_error(where: str, content: object, right: str) -> ParseError:
    return ParseError(f"{where}: {json.dumps(content)[:60]}; expected {right}")


RESERVATIONS_AT_ONCE = 100
NO_PROGRAM = 127
GONE = b"do not exist"  # message of qrstat if all queried reservations have ended


def query_advance_reserved_slots(cell: GridEngineCellAccessSettings) -> Mapping[str, int]:
    """Return the reserved slots of each queue instance; empty if the cell has no program qrstat."""
    program = f"{cell.binaries}/qrstat"
    try:
        listed = run_client(cell, (program, "-u", "*", "-xml"))
    except CommandFailed as error:
        if error.status == NO_PROGRAM:
            return {}
        raise
    ids = [
        element.text or ""
        for element in qstat_xml_parser.parse_short_xml(listed.require_success().stdout, "qrstat").iterfind(
            "ar_summary/id"
        )
    ]
    slots = Counter[str]()
    for start in range(0, len(ids), RESERVATIONS_AT_ONCE):
        portion = ",".join(ids[start : start + RESERVATIONS_AT_ONCE])
        answer = run_client(cell, (program, "-ar", portion, "-xml"))
        if answer.status and GONE in answer.stdout + answer.stderr:
            continue
        slots.update(parse_advance_reserved_slots(answer.require_success().stdout))
    return dict(slots)


def parse_advance_reserved_slots(data: bytes) -> Mapping[str, int]:
    """Parse the output of `qrstat -ar IDS -xml`; raise ParseError for other output."""
    slots = Counter[str]()
    for element in qstat_xml_parser.parse_short_xml(data, "qrstat").iterfind(
        "ar_summary/granted_slots_list/granted_slots"
    ):
        slots[element.get("queue_instance", "")] += int(element.get("slots", "0"))
    return slots
