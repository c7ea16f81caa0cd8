"""Run every fidelity row on both sides at once and collect the results of each."""

import base64
import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.lab.away import is_known
from tests.lab.grid import CELL, EXECD, Grid
from tests.lab.transfer.fidelity.rows import Row

HERE = Path(__file__).parent
CLUSTER = {"here": "beta", "away": "alpha"}
QUEUES = {
    "": {"here": (), "away": ("-l", "remote=true", "-q", "transfer-beta")},
    "unix": {"here": ("-q", "unix.q", "-l", "fidelity=true"), "away": ("-q", "transfer-unix")},
    "stdin": {"here": ("-q", "stdin.q", "-l", "fidelity=true"), "away": ("-q", "transfer-stdin")},
}
MODES = {"unix": "unix_behavior", "stdin": "script_from_stdin"}
LIMIT_S = 180

TOTALS = ("Total", "WALLCLOCK")  # qacct's own last lines

Record = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that a job wrote; a large file's content is replaced by its SHA-256."""

    mode: str
    size: int
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    side: str
    folder: str
    submitted: tuple[int, str, str]
    job: str
    remote_ids: tuple[str, ...]
    end: str
    reason: str
    files: dict[str, File]
    mails: tuple[str, ...]
    accounting: tuple[Record, ...]


Results = dict[str, tuple[Side, Side]]


def run_rows(grid: Grid, rows: tuple[Row, ...]) -> Results:
    """Submit all rows, wait, and collect the results; restore the lab's configuration afterwards."""
    root = f"/home/alice/fidelity-{os.urandom(4).hex()}"
    with extra_objects(grid):
        grid.sh("alpha-master", f"mkdir {root}", user="alice")
        source = (HERE / "probe.py").read_text()
        grid.on("alpha-master", "tee", f"{root}/probe.py", user="alice", stdin=source)
        with ThreadPoolExecutor() as pool:
            answers = dict(zip(CLUSTER, pool.map(lambda side: submit(grid, root, side, rows), CLUSTER), strict=True))
        jobs = {side: [last_id(each) for each in answers[side]] for side in CLUSTER}
        ends = wait(grid, root, rows, jobs)
        for side, cluster in CLUSTER.items():
            over = {job for row, job in zip(rows, jobs[side], strict=True) if not ends[side, row.name]}
            grid.until(lambda c=cluster, o=over: has_accounts(grid, c, o), f"accounting of {side}", 20)
        return gather(grid, root, rows, answers, jobs, ends)


def submit(grid: Grid, root: str, side: str, rows: tuple[Row, ...]) -> list[tuple[int, str, str]]:
    cluster = CLUSTER[side]
    cell = dict(item.split("=") for item in (f"SGE_CELL={cluster}", CELL[cluster], EXECD[cluster]))
    cases = [case(root, side, row) for row in rows]
    program = (HERE / "submit.py").read_text()
    done = grid.on(
        "alpha-master",
        *("env", "-u", "SGE_CLUSTER_NAME", "/usr/bin/python3", "-I", "-c", program),
        user="alice",
        stdin=json.dumps([cell, cases]),
        timeout_s=120,
    )
    assert done.status == 0, done.err
    return [tuple(answer) for answer in json.loads(done.out)]


def case(root: str, side: str, row: Row) -> dict[str, object]:
    folder = f"{root}/{side}/{row.name}"
    words = {
        "@PROBE@": f"/usr/bin/python3 -I {root}/probe.py {folder}",
        "@PROBEFILE@": f"{root}/probe.py",
        "@DIR@": folder,
        "@MAIL@": mailbox(folder),
    }

    def fill(text: str) -> str:
        for word, meaning in words.items():
            text = text.replace(word, meaning)
        return text

    argv = ("qsub", "-terse", *QUEUES[row.queue][side], *row.options, *row.command)
    return {
        "folder": folder,
        "before": fill(row.before),
        "script": fill(row.script),
        "environment": dict(row.environment),
        "argv": [fill(word) for word in argv],
    }


def mailbox(folder: str) -> str:
    return "-".join(folder.split("/")[-3:])


def last_id(answer: tuple[int, str, str]) -> str:
    status, out, _ = answer
    return "" if status else out.strip().splitlines()[-1].partition(".")[0]


def wait(grid: Grid, root: str, rows: tuple[Row, ...], jobs: dict[str, list[str]]) -> dict[tuple[str, str], str]:
    """Wait until every job is gone or in error state; carry out the rows' actions meanwhile."""
    acted: set[tuple[str, str]] = set()
    ends: dict[tuple[str, str], str] = {}

    def look() -> list[str]:
        live = []
        held = []
        ready = set(grid.sh("alpha-master", f"ls -d {root}/*/*/ready 2>/dev/null || :").split())
        for side, cluster in CLUSTER.items():
            states = grid.states(cluster)
            for row, job in zip(rows, jobs[side], strict=True):
                which = (side, row.name)
                letters = {text for key, text in states.items() if key.split(".")[0] == job}
                ends[which] = " ".join(sorted(letters))
                if letters == {"hRq"} and row.at_last:
                    held.append((cluster, *row.at_last, job))
                elif letters and not all("E" in text for text in letters):
                    live.append(f"{side} {row.name} {job} {letters}")
                folder = f"{root}/{side}/{row.name}"
                if row.then and f"{folder}/ready" in ready and which not in acted:
                    acted.add(which)
                    words = [word.replace("@DIR@", folder) for word in row.then]
                    grid.cell(cluster, *words, job, user="root")
        for words in held if not live else ():
            grid.cell(*words, user="root")
        return live + [" ".join(words) for words in held]

    with suppress(AssertionError):  # the ends of those that are left show what they wait for
        grid.until(lambda: not look(), "all jobs to end", LIMIT_S)
    return ends


def gather(
    grid: Grid,
    root: str,
    rows: tuple[Row, ...],
    answers: dict[str, list[tuple[int, str, str]]],
    jobs: dict[str, list[str]],
    ends: dict[tuple[str, str], str],
) -> Results:
    """Return the results of each row on both sides, and delete the remaining jobs."""
    program = (HERE / "collect.py").read_text()
    patterns = [f"{root}/*/**", f"/home/.mail/{root.split('/')[-1]}*/*", f"{root}-*.out"]
    done = grid.on("alpha-master", "/usr/bin/python3", "-I", "-c", program, *patterns, timeout_s=60)
    assert done.status == 0, done.err
    files = json.loads(done.out)
    records = {side: accounting(grid, cluster) for side, cluster in CLUSTER.items()}
    ids = remote_ids(grid)
    results: Results = {}
    for number, row in enumerate(rows):
        sides = []
        for side, cluster in CLUSTER.items():
            folder, job = f"{root}/{side}/{row.name}", jobs[side][number]
            end = ends[side, row.name]
            sides.append(
                Side(
                    side=side,
                    folder=folder,
                    submitted=answers[side][number],
                    job=job,
                    remote_ids=tuple(ids.get(job, ())) if side == "away" else (),
                    end=end,
                    reason=error_reason(grid, cluster, job) if end else "",
                    files=files_of(files, folder),
                    mails=mails_of(files, mailbox(folder)),
                    accounting=records_of(records[side], job),
                )
            )
        results[row.name] = (sides[0], sides[1])
    for side, cluster in CLUSTER.items():
        left = [jobs[side][n] for n, row in enumerate(rows) if ends[side, row.name]]
        if left:
            grid.cell(cluster, "qdel", ",".join(left), user="root")
    return results


def accounting(grid: Grid, cluster: str) -> list[Record]:
    blocks = grid.cell(cluster, "qacct", "-j", user="root").out.split("=" * 62)[1:]
    split = [[line.split(None, 1) for line in block.splitlines() if line] for block in blocks]
    records = [{words[0]: words[-1].strip() for words in rows if words[0] not in TOTALS} for rows in split]
    return [record for record in records if "jobnumber" in record]


def records_of(records: list[Record], job: str) -> tuple[Record, ...]:
    """Return a job's records; a loaded qmaster writes a requeued task's record several times."""
    mine = [record for record in records if record["jobnumber"] == job]
    return tuple({(r["taskid"], r["start_time"], r["failed"]): r for r in mine}.values())


def has_accounts(grid: Grid, cluster: str, jobs: set[str]) -> bool:
    """Say whether every ended job has its last record; `failed` 25 means that the job was rerun."""
    last = {record["jobnumber"]: record["failed"] for record in accounting(grid, cluster)}
    return all(not last.get(job, "25").startswith("25") for job in jobs - {""})


def remote_ids(grid: Grid) -> dict[str, list[str]]:
    """Return the remote ids of every local job, oldest first."""
    log = grid.sh("alpha-master", "cat /var/lib/gridbridge/poller.log")
    pattern = r"name=gb\.alpha\.(\d+)\.\d+\.\d+ text='submitted to beta as (\d+), "
    found: dict[str, list[str]] = {}
    for job, remote in dict.fromkeys(re.findall(pattern, log)):
        found.setdefault(job, []).append(remote)
    return found


def error_reason(grid: Grid, cluster: str, job: str) -> str:
    out = grid.cell(cluster, "qstat", "-j", job, user="root").out
    return "\n".join(line for line in out.splitlines() if "error reason" in line)


def files_of(files: dict[str, list[object]], folder: str) -> dict[str, File]:
    """Return a side's files by their path below its folder. Files of the home folder keep their own path."""
    mine = {}
    for path, facts in files.items():
        if path.startswith(folder + "/"):
            mine[path.removeprefix(folder + "/")] = file_of(facts)
        elif path == f"/home/alice/{mailbox(folder)}.out":
            mine[path] = file_of(facts)
    return mine


def file_of(facts: list[object]) -> File:
    mode, size, digest, content = facts
    text = base64.b64decode(str(content)).decode("latin-1") if content is not None else str(digest)
    return File(mode=str(mode), size=int(str(size)), content=text)


def mails_of(files: dict[str, list[object]], box: str) -> tuple[str, ...]:
    """Return the mails to a recipient, oldest first."""
    pattern = re.compile(rf"/home/\.mail/{re.escape(box)}(-2)?/")
    return tuple(file_of(files[path]).content for path in sorted(files) if pattern.match(path))


@contextmanager
def extra_objects(grid: Grid) -> Iterator[None]:
    program = (HERE / "site.sh").read_text()
    done = grid.on("alpha-master", "sh", "-s", "up", stdin=program)
    assert done.status == 0, done
    try:
        grid.until(lambda: is_open(grid), "the extra transfer queues to open", 60)
        is_told = partial(is_known, grid, "project", "fidelity")
        grid.until(is_told, "the service to know of beta's project", 60)
        yield
    finally:
        empty(grid)
        grid.on("alpha-master", "sh", "-s", "down", stdin=program)
        grid.require_ready()


def empty(grid: Grid) -> None:
    for cluster in CLUSTER.values():
        grid.cell(cluster, "qdel", "-u", "alice", user="root")
    with suppress(AssertionError):
        grid.until(lambda: not grid.states(), "alpha to be empty", 30)


def is_open(grid: Grid) -> bool:
    folder = "/var/lib/gridbridge/published/queues"
    return grid.on("alpha-master", "test", "-e", f"{folder}/transfer-stdin").status == 0
