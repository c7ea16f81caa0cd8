"""Adds and removes execution hosts of a cell, and stores hosts' tags (qconf(1), qmod(1), qhost(1)).

The programs exit with 0 even if nothing changed, and with 1 for a repeated change; so changes are read back.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gridbridge.batch.gridengine import qconf_parser_and_edits
from gridbridge.batch.gridengine.cell_demand_reader import parse_qhost
from gridbridge.batch.gridengine.job_submission_and_control import run_client
from gridbridge.batch.gridengine.qstat_xml_parser import TRUE, Element, parse_short_xml
from gridbridge.batch.gridengine.sge_command_line_builders import host_queue_instances_argv
from gridbridge.batch.gridengine.status import (
    query_all_queue_settings,
    query_qconf_names,
    query_qconf_object,
    query_qconf_object_settings,
)
from gridbridge.errors import CommandFailed
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.qconf_attribute_parser import QconfValuesByHost, parse_qconf_values_by_host, parse_qconf_words
from gridbridge.model.site.setup_findings_and_edits import SetupEdit, SetupEditVerb
from gridbridge.model.transfer_route import GridEngineCellAccessSettings

LIMIT_S = 60.0
DISABLED = "d"  # state letter of a queue instance that qmod disabled; a calendar sets D
SUSPENDED = "s"  # state letter of a queue instance that qmod suspended; other queues set S, a calendar C
ATTRIBUTES = (  # attributes of an execution host (host_conf(5))
    *("load_scaling", "complex_values", "user_lists", "xuser_lists", "projects", "xprojects"),
    *("usage_scaling", "report_variables"),
)
REFERENCED = b"still referenced"
LARGEST_NUMBER = 2**31 - 1  # largest seq_no (queue_conf(5))
GROUP = "@"  # first character of host group names
NONE_LEFT = 1  # exit status of qstat if no queue instance matches -q
NO_QUEUES = frozenset[str]()
NOT_TOLD = "-"  # qhost's value for a host that reported no load


@dataclass(frozen=True, slots=True, kw_only=True)
class HostQueueInstance:
    queue: str
    slots: int
    is_used: bool  # whether a slot of the queue instance is used or reserved
    is_disabled: bool
    is_best_effort: bool = False
    is_suspended: bool = False
    tasks: tuple[str, ...] = ()  # ids of the running tasks, as JOB or JOB.TASK


def parse_host_queue_instances(data: bytes) -> tuple[HostQueueInstance, ...]:
    """Parse a host's queue instances; raise ParseError for any other output."""
    return tuple(_parse_queue_instance(element) for element in parse_short_xml(data).iterfind("queue_info/Queue-List"))


def _parse_queue_instance(element: Element) -> HostQueueInstance:
    used = [int(element.findtext(key) or 0) for key in ("slots_used", "slots_resv")]
    state = element.findtext("state") or ""
    values = {resource.get("name"): resource.text for resource in element.iterfind("resource")}
    return HostQueueInstance(
        queue=element.findtext("name", "").partition("@")[0],
        slots=int(element.findtext("slots_total") or 0),
        is_used=any(used) or element.find("job_list") is not None,
        is_disabled=DISABLED in state,
        is_best_effort=values.get(BEST_EFFORT) in TRUE,
        is_suspended=SUSPENDED in state,
        tasks=tuple(map(_task_id_for_qdel, element.iterfind("job_list"))),
    )


def _task_id_for_qdel(element: Element) -> str:
    """Return the name of a task for qdel: with only the array's id, qdel would delete all tasks."""
    job, task = element.findtext("JB_job_number", ""), element.findtext("tasks", "")
    return f"{job}.{task}" if task else job


def has_execd_reported_load(data: bytes, host: str) -> bool:
    loads = parse_short_xml(data, "qhost").xpath("host[@name=$host]/hostvalue[@name='load_avg']/text()", host=host)
    return bool(loads) and loads != [NOT_TOLD]


def query_host_queue_instances(cell: GridEngineCellAccessSettings, host: str) -> tuple[HostQueueInstance, ...]:
    answer = run_client(cell, host_queue_instances_argv(cell, [host]))
    if answer.status == NONE_LEFT and not (answer.stdout + answer.stderr).strip():
        return ()
    return parse_host_queue_instances(answer.require_success().stdout)


def is_execd_up(cell: GridEngineCellAccessSettings, host: str) -> bool:
    return has_execd_reported_load(run_client(cell, (f"{cell.binaries}/qhost", "-xml")).require_success().stdout, host)


def list_execution_hosts(cell: GridEngineCellAccessSettings) -> tuple[str, ...]:
    return query_qconf_names(cell, "-sel")


def add_execution_host(cell: GridEngineCellAccessSettings, host: str) -> None:
    """Add a host as administrative host and as execution host, so that its daemon can register."""
    if host not in query_qconf_names(cell, "-sh"):
        _run_qconf(cell, "-ah", host)
    if host not in list_execution_hosts(cell):
        lines = "".join(f"{name} NONE\n" for name in ATTRIBUTES)
        text = f"hostname {host}\n{lines}".encode()
        run_client(cell, qconf_parser_and_edits.qconf_command(cell, "-Ae", "/dev/stdin"), text).require_success()


def set_host_complex_values(cell: GridEngineCellAccessSettings, host: str, values: tuple[tuple[str, str], ...]) -> None:
    text = ",".join(f"{name}={value}" for name, value in values)
    if text and query_qconf_object_settings(cell, "-se", host).get("complex_values") != text:
        _run_qconf(cell, "-rattr", "exechost", "complex_values", text, host)


def add_host_to_group(cell: GridEngineCellAccessSettings, host: str, group: str) -> None:
    if host not in _query_host_group_members(cell, group):
        _run_qconf(cell, "-aattr", "hostgroup", "hostlist", host, group)


def add_host_to_queue(cell: GridEngineCellAccessSettings, host: str, queue: str) -> None:
    """Add a host by name to a queue, unless the queue already has the host."""
    if queue not in (instance.queue for instance in query_host_queue_instances(cell, host)):
        _run_qconf(cell, "-aattr", "queue", "hostlist", host, queue)


def set_queue_slots(cell: GridEngineCellAccessSettings, host: str, queue: str, slots: int) -> None:
    setting = query_qconf_object_settings(cell, "-sq", queue).get("slots", "")
    if (host, str(slots)) not in parse_qconf_values_by_host(setting).others:
        _run_qconf(cell, "-rattr", "queue", "slots", str(slots), f"{queue}@{host}")


def place_host_last_in_queues(cell: GridEngineCellAccessSettings, host: str, queues: Iterable[str]) -> None:
    """Give a host a high seq_no, so that jobs use the host last (queue_sort_method seqno); keep a seq_no of its own."""
    numbers = {
        settings["qname"]: parse_qconf_values_by_host(settings.get("seq_no", "0"))
        for settings in query_all_queue_settings(cell)
    }
    for queue in queues:
        own = numbers[queue]
        if host in (where for where, _ in own.others):
            continue
        other_numbers = (int(values.usual) for name, values in numbers.items() if name != queue)
        number = next_queue_seq_no(own, other_numbers)
        if number is not None:
            _run_qconf(cell, "-rattr", "queue", "seq_no", str(number), f"{queue}@{host}")


def next_queue_seq_no(own: QconfValuesByHost, other_numbers: Iterable[int]) -> int | None:
    """Return a seq_no that makes a host the last host of a queue; None if no seq_no is left.

    The seq_no is below the numbers of later queues; otherwise jobs would use those queues first. Several last hosts may
    share a seq_no.
    """
    numbers = [(name, int(number)) for name, number in own.others]
    groups = (number for name, number in numbers if name.startswith(GROUP))
    first = max((int(own.usual), *groups))
    last = min((number for number in other_numbers if number > first), default=LARGEST_NUMBER) - 1
    used = {number for _, number in numbers}
    free = next(number for number in itertools.count(first + 1) if number not in used)
    return min(free, last) if last > first else None


def disable_host_queues(cell: GridEngineCellAccessSettings, host: str) -> None:
    """Disable all queue instances of a host; raise CommandFailed if a queue instance stays enabled."""
    _enable_or_disable_host_queues(cell, host, "-d", is_disabled=True)


def enable_host_queues(
    cell: GridEngineCellAccessSettings, host: str, closed: frozenset[str] = NO_QUEUES
) -> tuple[str, ...]:
    """Enable a host's queue instances, except in the queues `closed`; return the queues of `closed` that stay disabled.

    Suspended best-effort instances are resumed first. Raises CommandFailed if an instance stays disabled.
    """
    queue_instances = query_host_queue_instances(cell, host)
    for instance in queue_instances:
        if instance.is_best_effort and instance.is_suspended:
            run_client(cell, (f"{cell.binaries}/qmod", "-usq", f"{instance.queue}@{host}")).require_success()
    _enable_or_disable_host_queues(cell, host, "-e", is_disabled=False, but=closed)
    return tuple(instance.queue for instance in queue_instances if instance.is_disabled and instance.queue in closed)


def _enable_or_disable_host_queues(
    cell: GridEngineCellAccessSettings, host: str, option: str, *, is_disabled: bool, but: frozenset[str] = NO_QUEUES
) -> None:

    def queues_in_wrong_state() -> list[str]:
        wrong_instances = (
            instance for instance in query_host_queue_instances(cell, host) if instance.is_disabled != is_disabled
        )
        return [instance.queue for instance in wrong_instances if instance.queue not in but]

    if not (queues := queues_in_wrong_state()):
        return
    targets = [f"{queue}@{host}" for queue in queues] if but else [f"*@{host}"]
    argv = (f"{cell.binaries}/qmod", option, *targets)
    answer = run_client(cell, argv).require_success()
    if queues_in_wrong_state():
        raise CommandFailed(argv, answer.status, b"", b"qmod did not change the state of a queue instance")


def suspend_queue_instance(cell: GridEngineCellAccessSettings, host: str, queue: str) -> None:
    """Suspend a queue instance, which preempts its tasks."""
    run_client(cell, (f"{cell.binaries}/qmod", "-sq", f"{queue}@{host}")).require_success()


def reschedule_instance_tasks(cell: GridEngineCellAccessSettings, host: str, queue: str) -> None:
    """Restart the rerunnable tasks of a queue instance on other hosts."""
    run_client(cell, (f"{cell.binaries}/qmod", "-rq", f"{queue}@{host}"))


def remove_host_from_queues(cell: GridEngineCellAccessSettings, host: str) -> None:
    """Remove a host from all queues: first the host's settings, then the host's name."""
    for queue in query_all_queue_settings(cell):
        if any(where == host for value in queue.values() for where, _ in parse_qconf_values_by_host(value).others):
            _run_qconf(cell, "-purge", "queue", "*", f"{queue['qname']}@{host}")
        if host in parse_qconf_words(queue.get("hostlist", "")):
            _run_qconf(cell, "-dattr", "queue", "hostlist", host, queue["qname"])


def remove_host_from_groups(cell: GridEngineCellAccessSettings, host: str) -> None:
    for group in query_qconf_names(cell, "-shgrpl"):
        if host in _query_host_group_members(cell, group):
            _run_qconf(cell, "-dattr", "hostgroup", "hostlist", host, group)


def remove_admin_and_submit_host(cell: GridEngineCellAccessSettings, host: str) -> None:
    for listed, option in (("-sh", "-dh"), ("-ss", "-ds")):
        if host in query_qconf_names(cell, listed):
            _run_qconf(cell, option, host)


def stop_execd(cell: GridEngineCellAccessSettings, host: str) -> None:
    """Stop a host's execution daemon; a stopped daemon is no error."""
    run_client(cell, qconf_parser_and_edits.qconf_command(cell, "-ke", host))


def remove_execution_host(cell: GridEngineCellAccessSettings, host: str) -> str:
    """Remove an execution host; return a message if the host is still in use, else an empty text."""
    if host in list_execution_hosts(cell):
        answer = run_client(cell, qconf_parser_and_edits.qconf_command(cell, "-de", host))
        message = answer.stdout + answer.stderr
        if answer.status and REFERENCED in message:
            return " ".join(message.decode("utf-8", "replace").split())
        answer.require_success()
    if host in query_qconf_names(cell, "-sconfl"):
        _run_qconf(cell, "-dconf", host)
    return f"{host} is still an execution host" if host in list_execution_hosts(cell) else ""


def _query_host_group_members(cell: GridEngineCellAccessSettings, group: str) -> tuple[str, ...]:
    return parse_qconf_words(query_qconf_object_settings(cell, "-shgrp", group).get("hostlist", ""))


def _run_qconf(cell: GridEngineCellAccessSettings, *options: str) -> None:
    run_client(cell, qconf_parser_and_edits.qconf_command(cell, *options)).require_success()


NAME = "gb_tags"
BETWEEN = "+"  # separator of tags; a comma and = are special in complex_values
COMPLEX = f"{NAME} {NAME} RESTRING == NO NO NONE 0"
VALUES = "complex_values"


def query_host_tags(cell: GridEngineCellAccessSettings) -> Mapping[str, tuple[str, ...]]:
    """Return the tags of all hosts (complex gb_tags); a powered-off host keeps its tags, a deleted host loses them."""
    return parse_cell_host_tags(
        run_client(cell, (f"{cell.binaries}/qhost", "-F", NAME, "-xml")).require_success().stdout
    )


def parse_cell_host_tags(document: bytes) -> Mapping[str, tuple[str, ...]]:
    texts = ((host.name, dict(host.values).get(NAME, "")) for host in parse_qhost(document))
    return {name: tuple(text.split(BETWEEN)) for name, text in texts if text}


def replace_host_tags(cell: GridEngineCellAccessSettings, host: str, host_tags: tuple[str, ...]) -> None:
    """Replace all tags of a host; raise CommandFailed if the cell refuses the change."""
    complexes = qconf_parser_and_edits.parse_complex_table(query_qconf_object(cell, "-sc"))
    if NAME not in complexes:
        line = qconf_parser_and_edits.setup_edit_shell_line(
            SetupEdit(verb=SetupEditVerb.SET_COMPLEX, name=NAME, value=COMPLEX)
        )
        answer = run_client(
            cell, ("/bin/sh", "-c", f"{qconf_parser_and_edits.cell_environment_shell_line(cell)}; {line}")
        )
        if answer.status:
            raise CommandFailed(("qconf", "-Mc"), answer.status, answer.stdout, answer.stderr)
    if host_tags:
        options = ("-mattr", "exechost", VALUES, f"{NAME}={BETWEEN.join(host_tags)}", host)
        _run_qconf(cell, *options)
    elif host in query_host_tags(cell):
        _run_qconf(cell, "-dattr", "exechost", VALUES, NAME, host)
