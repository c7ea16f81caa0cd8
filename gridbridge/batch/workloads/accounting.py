"""Reads the tasks to replay from a cell's accounting file: accounting(5)."""

from collections.abc import Iterable, Iterator

from gridbridge.model.accounting import RESCHEDULED, waited_s
from gridbridge.model.elastic.replayed import LeftOut, Ran

FIELDS = 45  # at least: the category may itself hold colons
OWNER, NAME, SLOTS = 3, 4, 34
TIMES = slice(8, 12)  # submitted, started, ended, failed
PE_TASK = -4
MILLISECONDS = 10**11  # a larger number counts them, as Univa's records do


def read(lines: Iterable[bytes]) -> Iterator[tuple[int, Ran | LeftOut | None]]:
    """Give the number of each line with its task, or why it is none; None for no record.

    One that never started, was put back to run again, or is a part of a parallel task is none.
    """
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith(b"#"):
            yield number, _read(line)


def _read(line: bytes) -> Ran | LeftOut | None:
    fields = line.rstrip(b"\r\n").split(b":")
    if len(fields) < FIELDS:
        return None
    try:
        submitted, started, ended, failed = map(int, fields[TIMES])
        slots = int(fields[SLOTS])
    except ValueError:
        return None
    if fields[PE_TASK] != b"NONE":
        return LeftOut.PART
    if failed in RESCHEDULED:
        return LeftOut.PUT_BACK
    submitted_s, started_s, ended_s = (_seconds(one) for one in (submitted, started, ended))
    if started_s <= 0 < submitted_s:
        return LeftOut.NEVER_STARTED
    wait_s = waited_s(submitted_s, started_s, ended_s)
    if slots < 1 or wait_s is None:
        return None
    return Ran(
        submitted_s=submitted_s,
        run_s=ended_s - started_s,
        slots=slots,
        waited_s=wait_s,
        owner=fields[OWNER].decode("utf-8", "replace"),
        name=fields[NAME].decode("utf-8", "replace"),
    )


def _seconds(told: int) -> float:
    return told / 1000 if told > MILLISECONDS else float(told)
