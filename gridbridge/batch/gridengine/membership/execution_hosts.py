"""Makes a machine an execution host of a cell, and takes it out: qconf(1), qmod(1) and qhost(1).

Clients end with 0 where nothing was changed, and with 1 where it had been done before. So each
change is asked for only where it is missing, and is read back by whoever has to rely on it.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from gridbridge.batch.gridengine import client_commands, qconf
from gridbridge.batch.gridengine.client_commands import Argv
from gridbridge.batch.gridengine.parse import TRUE, whole
from gridbridge.batch.gridengine.status import names, queue_settings, show
from gridbridge.batch.gridengine.submit import call
from gridbridge.errors import CommandFailed
from gridbridge.model.places import BEST_EFFORT
from gridbridge.model.qconf_attributes import (
    QconfSettings,
    ValuesByHost,
    parse_values_by_host,
    parse_words,
)
from gridbridge.model.route import GridEngineCell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lxml.etree import _Element

LIMIT_S = 60.0  # of each call
DISABLED = "d"  # by hand; D is a calendar's
SUSPENDED = "s"  # by hand; S is by a subordinating queue, and C by a calendar
ATTRIBUTES = (  # host_conf(5)
    "load_scaling",
    "complex_values",
    "user_lists",
    "xuser_lists",
    "projects",
    "xprojects",
    "usage_scaling",
    "report_variables",
)
REFERENCED = b"still referenced"
LARGEST_NUMBER = 2**31 - 1  # seq_no, queue_conf(5)
GROUP = "@"  # what the names of host groups begin with
NONE_LEFT = 1  # qstat's exit status, without a word, where no queue instance fits (-q)
NO_QUEUES = frozenset[str]()
NOT_TOLD = "-"  # what qhost prints of a host whose daemon has not reported


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInstance:
    """A queue instance of one host."""

    queue: str
    slots: int
    is_used: bool  # by any job: running, starting or suspended, or it has reserved slots
    is_disabled: bool
    is_best_effort: bool = False
    is_suspended: bool = False
    tasks: tuple[str, ...] = ()  # that are there, as JOB or JOB.TASK


def instances_on(cell: GridEngineCell, host: str) -> Argv:
    """Show the queue instances of a host with the jobs that are there, in any state."""
    shown = ("-s", "rs", "-F", BEST_EFFORT, "-u", "*", "-xml", "-f")
    return (f"{cell.binaries}/qstat", *shown, "-q", _all_on(host))


def read_instances(data: bytes) -> tuple[HostInstance, ...]:
    """Read what qstat shows of a host; ParseError for anything else."""
    return tuple(_instance(element) for element in whole(data).iterfind("queue_info/Queue-List"))


def _instance(element: "_Element") -> HostInstance:
    used = [int(element.findtext(key) or 0) for key in ("slots_used", "slots_resv")]
    values = {resource.get("name"): resource.text for resource in element.iterfind("resource")}
    return HostInstance(
        queue=element.findtext("name", "").partition("@")[0],
        slots=int(element.findtext("slots_total") or 0),
        is_used=any(used) or element.find("job_list") is not None,
        is_disabled=DISABLED in (element.findtext("state") or ""),
        is_best_effort=values.get(BEST_EFFORT) in TRUE,
        is_suspended=SUSPENDED in (element.findtext("state") or ""),
        tasks=tuple(map(_task, element.iterfind("job_list"))),
    )


def _task(element: "_Element") -> str:
    """Return a task as qdel takes it: the number of an array alone is all of its tasks."""
    job, task = element.findtext("JB_job_number", ""), element.findtext("tasks", "")
    return f"{job}.{task}" if task else job


def has_reported(data: bytes, host: str) -> bool:
    """Read from `qhost -xml` whether a host's execution daemon has told of its load."""
    loads = whole(data, "qhost").xpath(
        "host[@name=$host]/hostvalue[@name='load_avg']/text()", host=host
    )
    return bool(loads) and loads != [NOT_TOLD]


def instances(cell: GridEngineCell, host: str) -> tuple[HostInstance, ...]:
    """Return the queue instances of a host; none where the cell has none, or no such host."""
    answer = call(cell, instances_on(cell, host))
    if answer.status == NONE_LEFT and not (answer.stdout + answer.stderr).strip():
        return ()
    return read_instances(answer.checked().stdout)


def is_up(cell: GridEngineCell, host: str) -> bool:
    """Say whether a host's execution daemon reports."""
    return has_reported(call(cell, client_commands.hosts(cell)).checked().stdout, host)


def admitted(cell: GridEngineCell) -> tuple[str, ...]:
    """Return the execution hosts."""
    return names(cell, "-sel")


def admit(cell: GridEngineCell, host: str) -> None:
    """Have the cell know a host, which may register then."""
    if host not in names(cell, "-sh"):
        _do(cell, "-ah", host)
    if host not in admitted(cell):
        lines = "".join(f"{name} NONE\n" for name in ATTRIBUTES)
        text = f"hostname {host}\n{lines}".encode()
        call(cell, qconf.show(cell, "-Ae", "/dev/stdin"), text).checked()


def set_resources(cell: GridEngineCell, host: str, values: tuple[tuple[str, str], ...]) -> None:
    """Give a host its complex_values."""
    text = ",".join(f"{name}={value}" for name, value in values)
    if text and qconf.settings(show(cell, "-se", host)).get("complex_values") != text:
        _do(cell, "-rattr", "exechost", "complex_values", text, host)


def join_group(cell: GridEngineCell, host: str, group: str) -> None:
    """Have a host in a host group."""
    if host not in _members(cell, group):
        _do(cell, "-aattr", "hostgroup", "hostlist", host, group)


def join_queue(cell: GridEngineCell, host: str, queue: str) -> None:
    """Have a host in a queue, by its own name if no group of the queue has it."""
    if queue not in (instance.queue for instance in instances(cell, host)):
        _do(cell, "-aattr", "queue", "hostlist", host, queue)


def set_slots(cell: GridEngineCell, host: str, queue: str, slots: int) -> None:
    """Give a queue its slots on a host."""
    setting = qconf.settings(show(cell, "-sq", queue)).get("slots", "")
    if (host, str(slots)) not in parse_values_by_host(setting).others:
        _do(cell, "-rattr", "queue", "slots", str(slots), f"{queue}@{host}")


def queue_up(cell: GridEngineCell, host: str, queues: Iterable[str]) -> None:
    """Have a host get jobs of its queues only when the hosts before it are full.

    That is so where the scheduler sorts by seq_no (queue_sort_method, sched_conf(5)). A host that
    has a number keeps it.
    """
    numbers = {
        settings["qname"]: parse_values_by_host(settings.get("seq_no", "0"))
        for settings in queue_settings(cell)
    }
    for queue in queues:
        own = numbers[queue]
        if host in (where for where, _ in own.others):
            continue
        other_numbers = (int(values.usual) for name, values in numbers.items() if name != queue)
        number = next_number(own, other_numbers)
        if number is not None:
            _do(cell, "-rattr", "queue", "seq_no", str(number), f"{queue}@{host}")


def next_number(own: ValuesByHost, other_numbers: Iterable[int]) -> int | None:
    """Return the lowest seq_no above a queue's own that no host has yet in that queue.

    It is above those of host groups, too. It stays below those of the queues that come later
    (others: what each usually has), or jobs would be offered to them before; the last hosts share
    one number. None where no room is left.
    """
    numbers = [(name, int(number)) for name, number in own.others]
    groups = (number for name, number in numbers if name.startswith(GROUP))
    first = max((int(own.usual), *groups))
    last = min((number for number in other_numbers if number > first), default=LARGEST_NUMBER) - 1
    used = {number for _, number in numbers}
    free = next(number for number in itertools.count(first + 1) if number not in used)
    return min(free, last) if last > first else None


def close(cell: GridEngineCell, host: str) -> None:
    """Disable all queue instances of a host; CommandFailed when one stays open."""
    _switch(cell, host, "-d", is_disabled=True)


def open_up(cell: GridEngineCell, host: str, closed: frozenset[str] = NO_QUEUES) -> tuple[str, ...]:
    """Enable all queue instances of a host; CommandFailed when one stays closed.

    Best-effort ones that were suspended to make way go on before. Those of `closed` queues stay as
    they are: return the queues of which that is so.
    """
    queue_instances = instances(cell, host)
    for instance in queue_instances:
        if instance.is_best_effort and instance.is_suspended:
            call(cell, (f"{cell.binaries}/qmod", "-usq", f"{instance.queue}@{host}")).checked()
    _switch(cell, host, "-e", is_disabled=False, but=closed)
    return tuple(
        instance.queue
        for instance in queue_instances
        if instance.is_disabled and instance.queue in closed
    )


def _switch(
    cell: GridEngineCell,
    host: str,
    option: str,
    *,
    is_disabled: bool,
    but: frozenset[str] = NO_QUEUES,
) -> None:
    """Enable or disable the queue instances of a host, but those of some queues."""

    def wrong() -> list[str]:
        wrong_instances = (
            instance for instance in instances(cell, host) if instance.is_disabled != is_disabled
        )
        return [instance.queue for instance in wrong_instances if instance.queue not in but]

    if not (queues := wrong()):
        return
    targets = [f"{queue}@{host}" for queue in queues] if but else [_all_on(host)]
    argv = (f"{cell.binaries}/qmod", option, *targets)
    answer = call(cell, argv).checked()
    if wrong():
        raise CommandFailed(argv, answer.status, b"", b"a queue instance is as it was before")


def suspend(cell: GridEngineCell, host: str, queue: str) -> None:
    """Suspend a queue instance that is not, and so have its tasks make way."""
    call(cell, (f"{cell.binaries}/qmod", "-sq", f"{queue}@{host}")).checked()


def put_back(cell: GridEngineCell, host: str, queue: str) -> None:
    """Have the tasks of a queue instance run elsewhere, if they are such as may run again."""
    call(cell, (f"{cell.binaries}/qmod", "-rq", f"{queue}@{host}"))


def leave_queues(cell: GridEngineCell, host: str) -> None:
    """Take a host out of every queue: its own values first, then its name."""
    for queue in queue_settings(cell):
        if _has_values(queue, host):
            _do(cell, "-purge", "queue", "*", f"{queue['qname']}@{host}")
        if host in parse_words(queue.get("hostlist", "")):
            _do(cell, "-dattr", "queue", "hostlist", host, queue["qname"])


def _has_values(queue: QconfSettings, host: str) -> bool:
    return any(
        where == host for value in queue.values() for where, _ in parse_values_by_host(value).others
    )


def leave_groups(cell: GridEngineCell, host: str) -> None:
    """Take a host out of every host group."""
    for group in names(cell, "-shgrpl"):
        if host in _members(cell, group):
            _do(cell, "-dattr", "hostgroup", "hostlist", host, group)


def dismiss(cell: GridEngineCell, host: str) -> None:
    """Let a host administer and submit no more."""
    for listed, option in (("-sh", "-dh"), ("-ss", "-ds")):
        if host in names(cell, listed):
            _do(cell, option, host)


def stop(cell: GridEngineCell, host: str) -> None:
    """Have a host's execution daemon end, if it runs: one that does not is no error."""
    call(cell, qconf.show(cell, "-ke", host))


def forget(cell: GridEngineCell, host: str) -> str:
    """Take a host off the execution hosts; return what in the cell still names it, empty: nothing.

    That is in qconf's words.
    """
    if host in admitted(cell):
        answer = call(cell, qconf.show(cell, "-de", host))
        message = answer.stdout + answer.stderr
        if answer.status and REFERENCED in message:
            return " ".join(message.decode("utf-8", "replace").split())
        answer.checked()
    if host in names(cell, "-sconfl"):
        _do(cell, "-dconf", host)
    return f"{host} is an execution host still" if host in admitted(cell) else ""


def _members(cell: GridEngineCell, group: str) -> tuple[str, ...]:
    return parse_words(qconf.settings(show(cell, "-shgrp", group)).get("hostlist", ""))


def _do(cell: GridEngineCell, *options: str) -> None:
    call(cell, qconf.show(cell, *options)).checked()


def _all_on(host: str) -> str:
    return f"*@{host}"
