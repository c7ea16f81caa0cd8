"""Read the tasks to replay from a Grid Engine accounting file of any version."""

from collections.abc import Iterable, Iterator

from gridbridge.batch.gridengine.accounting_lines import (
    HEAD,
    JSON,
    NONE,
    TIMES,
    epoch_seconds,
    parse_accounting_line,
)
from gridbridge.errors import ParseError
from gridbridge.model.accounting import RESCHEDULED, queue_wait_s
from gridbridge.model.elastic.replay_outcome import ReplayExclusion, ReplayTask, WorkloadLineFault


def read_accounting_tasks(
    lines: Iterable[bytes],
) -> Iterator[tuple[int, ReplayTask | ReplayExclusion | WorkloadLineFault]]:
    """Yield each line's number with its task, or with the reason for skipping the line.

    Skipped are tasks that never started or were requeued, and parts of parallel tasks.
    """
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith(b"#"):
            yield number, _read(line)


def _read(line: bytes) -> ReplayTask | ReplayExclusion | WorkloadLineFault:
    try:
        fields = parse_accounting_line(line.rstrip(b"\r\n").decode("utf-8", "replace"))
    except ParseError:
        is_begun = HEAD.match(line) and not line.startswith(JSON)
        return WorkloadLineFault.FIELDS if is_begun else WorkloadLineFault.FORM
    try:
        submitted_s, started_s, ended_s = (epoch_seconds(fields[name]) for name in TIMES)
        slots, failed = int(fields["slots"]), int(fields["failed"])
    except ValueError:
        return WorkloadLineFault.FORM
    if fields["pe_taskid"] != NONE:
        return ReplayExclusion.PART
    if failed in RESCHEDULED:
        return ReplayExclusion.PUT_BACK
    if started_s <= 0:
        return ReplayExclusion.NEVER_STARTED
    wait_s = queue_wait_s(submitted_s, started_s, ended_s)
    if slots < 1:
        return WorkloadLineFault.SLOTS
    if wait_s is None:
        return WorkloadLineFault.END if ended_s < started_s else WorkloadLineFault.TIMES
    return ReplayTask(
        submitted_s=submitted_s,
        run_s=ended_s - started_s,
        slots=slots,
        waited_s=wait_s,
        owner=fields["owner"],
        name=fields["jobname"],
    )
