"""What the service asks of a cell: one query for everything, and one for a job that ended."""

import re
import time
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from gridbridge.batch.gridengine import client_commands, qconf
from gridbridge.batch.gridengine.accounting_file import records, records_of
from gridbridge.batch.gridengine.job_end import settled, settled_or_future
from gridbridge.batch.gridengine.parse import parse_job_detail, parse_status
from gridbridge.batch.gridengine.submit import call
from gridbridge.errors import ConflictingEnds
from gridbridge.model.accounting import AccountingRecord
from gridbridge.model.job import ArrayEndQuery, ArrayLimits, FutureJobEnd, JobDetail, JobEnd
from gridbridge.model.qconf_attributes import QconfSettings, is_transfer_queue
from gridbridge.model.route import GridEngineCell
from gridbridge.model.site.setup_findings import ComplexRow
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.vocabulary import NO_RULE, ClusterVocabulary
from gridbridge.shell.runner import LIST_BYTES, CompletedProgram

ENVIRONMENT = re.compile(r"[^\s,=\[\]]+")  # a word of pe_list, hosts among them (queue_conf(5))
FLUSH_TIME = "00:00:15"  # where a cell has none of its own
LIMITS = ("max_aj_tasks", "max_aj_instances", "max_u_jobs", "max_jobs")
NOT_REQUESTABLE = "NO"  # complex(5); FORCED can be asked for, too
STRINGS = ("STRING", "CSTRING", "RESTRING", "HOST")  # types that are compared with expressions

Ends = dict[int, JobEnd | FutureJobEnd | None]  # by place; None: they are several


def snapshot(
    cell: GridEngineCell,
    cluster: str,
    job_ids: Collection[int],
    transfer_queues: Container[str] = (),
    uncounted: Collection[int] = (),
) -> tuple[ClusterSnapshot, float]:
    """Return the cluster as it is, with the jobs of these ids, and how many seconds it took.

    Its time is the one before the question. Raises CommandFailed or ParseError when the cell
    gave no whole answer: nothing is known then.
    """
    taken_at, began = datetime.now(UTC), time.monotonic()
    answer = _ask(cell, client_commands.status(cell)).checked()
    took_s = time.monotonic() - began
    snapshot = parse_status(
        answer.stdout,
        cluster=cluster,
        taken_at=taken_at,
        job_ids=job_ids,
        transfer_queues=transfer_queues,
        uncounted=uncounted,
        zone=UTC,
    )
    return snapshot, took_s


def end(cell: GridEngineCell, job_id: int, account: str) -> JobEnd | None:
    """Return how the job of this id and account ended for good; None while nothing tells it.

    Raises Disputed when its records tell several ends.
    qacct does not tell the parts of a parallel job from the whole, which is accounted for last.
    """
    ours = [record for record in records(cell, job_id) if record.account == account]
    whole = ours[-1:] if all(record.pe not in ("", "NONE") for record in ours) else ours
    end, is_disputed = settled(whole, datetime.now(UTC))
    if is_disputed:
        raise ConflictingEnds(f"two records of job {job_id} disagree on how {account} ended")
    return end


def ends_of(cell: GridEngineCell, arrays: Sequence[ArrayEndQuery]) -> dict[str, Ends]:
    """Return how tasks of arrays ended that did, by the arrays' accounts and their places.

    None for a task whose records tell several ends: somebody may have forged one.
    Where the accounting file is not where 8.1.9 has it, qacct is asked for each array, too.
    """
    records, is_read = records_of(cell, arrays)
    by_array = dict[str, list[AccountingRecord]]()
    for record in records:
        by_array.setdefault(record.account, []).append(record)
    for array in () if is_read else arrays:
        by_array.setdefault(array.account, []).extend(_by_qacct(cell, array))
    return {account: _ends(array_records) for account, array_records in by_array.items()}


def _by_qacct(cell: GridEngineCell, array: ArrayEndQuery) -> list[AccountingRecord]:
    return [record for record in records(cell, array.job_id) if record.account == array.account]


def _ends(records: Iterable[AccountingRecord]) -> Ends:
    now, by_task = datetime.now(UTC), dict[int, list[AccountingRecord]]()
    for record in records:
        by_task.setdefault(record.task, []).append(record)
    ends = {task: settled_or_future(task_records, now) for task, task_records in by_task.items()}
    return {task: end for task, (end, is_disputed) in ends.items() if end or is_disputed}


def living_of(cell: GridEngineCell, arrays: Mapping[int, str]) -> dict[int, frozenset[int]]:
    """Return the places of arrays that have begun and not ended, of those that qmaster knows.

    qstat -j does not tell which of the others wait.
    """
    answer = _ask(cell, client_commands.detail(cell, ",".join(map(str, arrays)))).checked()
    return {
        detail.job_id: frozenset(detail.begun)
        for detail in parse_job_detail(answer.stdout)
        if arrays.get(detail.job_id) == detail.account
    }


def array_limits(cell: GridEngineCell) -> ArrayLimits:
    """Return what arrays may be there (sge_conf(5), max_aj_tasks and those after it)."""
    settings = qconf.settings(show(cell, "-sconf"))
    limits = {
        name: int(settings.get(name, "")) for name in LIMITS if settings.get(name, "").isdigit()
    }
    of_array = (limits.get(name, 0) for name in ("max_aj_tasks", "max_aj_instances"))
    return ArrayLimits(
        tasks=min(filter(None, of_array), default=0),
        of_person=limits.get("max_u_jobs", 0),
        of_all=limits.get("max_jobs", 0),
        told_within_s=_flush_s(settings.get("reporting_params", "")),
    )


def _flush_s(reporting: str) -> float:
    """Return after how long records are written (sge_conf(5), accounting_flush_time)."""
    settings = dict(word.partition("=")[::2] for word in reporting.split())
    usual = settings.get("flush_time", FLUSH_TIME)
    hours, minutes, seconds = ([*settings.get("accounting_flush_time", usual).split(":"), "", ""])[
        :3
    ]
    if not all(part.isdigit() for part in (hours, minutes, seconds)):
        return _flush_s("")
    return 3600.0 * int(hours) + 60.0 * int(minutes) + int(seconds)


def details(cell: GridEngineCell, job_id: int) -> tuple[JobDetail, ...]:
    """Return what qmaster knows of a job, nothing when it does not know it."""
    answer = _ask(cell, client_commands.detail(cell, str(job_id)))
    return parse_job_detail(answer.checked().stdout)


def vocabulary(cell: GridEngineCell) -> ClusterVocabulary:
    """Return the names of what a job may ask for there."""
    table = qconf.complexes(show(cell, "-sc")).values()
    requestable = [row for row in table if row.requestable != NOT_REQUESTABLE]
    environments = frozenset(names(cell, "-spl"))
    return ClusterVocabulary(
        resource=_names(requestable),
        string=_names(row for row in requestable if row.type in STRINGS),
        pe=environments,
        project=frozenset(names(cell, "-sprjl")),
        queue=frozenset(names(cell, "-sql")),
        rule=frozenset(_rules(cell, environments)) or frozenset({NO_RULE}),
    )


def _names(rows: Iterable[ComplexRow]) -> frozenset[str]:
    """Return the names and shortcuts of resources."""
    return frozenset(name for row in rows for name in (row.name, row.shortcut))


def _rules(cell: GridEngineCell, environments: frozenset[str]) -> Iterator[str]:
    """Give NAME=RULE for each of these parallel environments in own queues (sge_pe(5))."""
    own = (queue for queue in queue_settings(cell) if not is_transfer_queue(queue))
    listed = {name for queue in own for name in ENVIRONMENT.findall(queue.get("pe_list", ""))}
    for name in sorted(listed & environments):
        environment = qconf.settings(show(cell, "-sp", name))
        if environment.get("slots", "0") != "0":
            yield f"{name}={environment.get('allocation_rule', '')}"


def show(cell: GridEngineCell, *options: str) -> bytes:
    """Return what qconf shows of an object."""
    return call(cell, qconf.show(cell, *options)).checked().stdout


def queue_settings(cell: GridEngineCell) -> tuple[QconfSettings, ...]:
    """Return every queue's configuration, by one call; of a cell without queues by two."""
    answer = call(cell, qconf.show(cell, "-sq", "*"))
    if answer.status and not names(cell, "-sql"):
        return ()
    shown = map(qconf.settings, answer.checked().stdout.split(b"\n\n"))
    return tuple(settings for settings in shown if "qname" in settings)


def names(cell: GridEngineCell, option: str) -> tuple[str, ...]:
    """Return a list's names; an empty list is exit status 1 and a sentence."""
    answer = call(cell, qconf.show(cell, option))
    message = answer.stdout + answer.stderr
    if message.startswith(b"no ") and b"defined" in message:
        return ()
    return qconf.names(answer.checked().stdout)


def _ask(cell: GridEngineCell, argv: client_commands.Argv) -> CompletedProgram:
    """Ask in UTC: the clients print local times without their zone."""
    return call(cell, argv, zone="UTC", most_bytes=LIST_BYTES)
