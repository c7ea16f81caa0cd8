"""Delta as the tests of its transfer queue see it: its jobs, files and ssh connections."""

import json
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.lab.away import once, why
from tests.lab.grid import Grid, between

HOME, FAR = "alpha-master", "delta-master"
ACCOUNT = "al_delta"
ACCOUNTS = {"alice": ACCOUNT, "bob": "bo_delta"}
QUEUE = "transfer-delta"
STAGE = ".gridbridge/stage"
RAN = 'echo "$JOB_ID" >>ran\n'
SLOTS, MANY_SLOTS = 2, 40
LONG_S = 120  # a retry comes after a minute at most, and a command gives up after 15 s


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    failed: str
    exit_status: str
    left: tuple[str, ...]


def until_open(grid: Grid) -> None:
    grid.until(lambda: grid.is_open(queue=QUEUE), f"{QUEUE} to be open")


def many_slots(grid: Grid) -> AbstractContextManager[None]:
    return between(lambda slots: grid.sh(FAR, f"qconf -rattr queue slots {slots} all.q"), MANY_SLOTS, SLOTS)


def submit(grid: Grid, script: str, *options: str, name: str = "away", user: str = "alice") -> str:
    return grid.submit("-q", QUEUE, "-N", name, *options, user=user, script=script)


def far_jobs(grid: Grid) -> list[str]:
    return grid.sh(FAR, "qstat -u '*'").splitlines()[2:]


def far_jobs_of(grid: Grid, job: str) -> list[str]:
    """Return the account lines of delta's jobs that stand for a local job, whatever their names."""
    out = grid.on(FAR, "qstat", "-j", "*").out.splitlines()
    return [row for row in out if row.startswith("account:") and f" gb.alpha.{job}." in row]


def far_states(grid: Grid) -> dict[str, str]:
    """Return the state letters of delta's jobs by job name; qstat shows ten letters of a name."""
    return {row.split()[2]: row.split()[4] for row in far_jobs(grid)}


def until_far(grid: Grid, name: str, letters: str) -> None:
    """Wait until delta's job of that name has this state; with an empty state, until it is not listed."""
    grid.until(lambda: far_states(grid).get(name, "") == letters, f"{name} there to be {letters!r}")


def far_read(grid: Grid, name: str, user: str = "alice") -> str:
    """Return a file of a delta account's home; empty when the file does not exist."""
    return grid.sh(FAR, f"cat {name} 2>/dev/null || :", user=ACCOUNTS[user])


def far_records(grid: Grid, job: str) -> list[str]:
    out = grid.on(FAR, "qacct", "-j").out.splitlines()
    return [row for row in out if row.startswith("account") and f"gb.alpha.{job}." in row]


def staged(grid: Grid, user: str = "alice") -> list[str]:
    return grid.sh(FAR, f"ls {STAGE} 2>/dev/null || :", user=ACCOUNTS[user]).split()


def ends(grid: Grid, jobs: Collection[str], limit_s: float = LONG_S) -> dict[str, End]:
    """Wait for the ends of jobs without tasks; record which folders each job has at delta at its end."""
    found: dict[str, End] = {}

    def look() -> bool:
        live = grid.states()
        over = [job for job in jobs if job not in live and job not in found]
        records = {job: last for job in over for last in grid.records(job)}
        folders = [folder for user in ACCOUNTS for folder in staged(grid, user)] if records else []
        found.update({job: _end(job, last, folders) for job, last in records.items()})
        return len(found) == len(jobs)

    try:
        grid.until(look, "all to end", limit_s)
    except AssertionError as error:
        raise AssertionError(f"{error}; left: {set(jobs) - set(found)}") from error
    return found


def _end(job: str, record: dict[str, str], folders: list[str]) -> End:
    return End(
        failed=record["failed"].split()[0],
        exit_status=record["exit_status"].split()[0],
        left=tuple(folder for folder in folders if folder.startswith(f"gb.alpha.{job}.")),
    )


def until_ended_once(grid: Grid, job: str, user: str = "alice") -> None:
    """Wait for the end at home of a RAN job; assert that it ran once and left no file at delta."""
    record = grid.accounting(job, limit_s=LONG_S)

    assert (record["failed"].split()[0], record["exit_status"]) == ("0", "0")
    assert job in once(far_read(grid, "ran", user).split())
    assert len(far_records(grid, job)) == 1
    grid.until(lambda: not far_jobs_of(grid, job), "delta to have no job of it")


def until_told(grid: Grid, job: str, words: str, user: str = "alice") -> None:
    grid.until(lambda: words in why(grid, job, user), f"why {job} to tell {words!r}")


def sessions(grid: Grid, account: str = "gb_delta") -> list[str]:
    """Return the sshd processes that serve an account, by default the service's."""
    return grid.on(FAR, "pgrep", "-f", f"^sshd: {account}@").out.split()


def connections(grid: Grid) -> list[str]:
    told = grid.sh(HOME, f"ss -Htn state established dst {FAR}:22").splitlines()
    return [line.split()[2].rpartition(":")[2] for line in told]


def answered_at(grid: Grid) -> str:
    path = "/var/lib/gridbridge/published/clusters/delta.json"
    told: str = json.loads(grid.sh(HOME, f"cat {path}"))["taken_at"]
    return told


def newly_asked(grid: Grid, asked: list[str]) -> int:
    """Add the time of delta's last answer to `asked` if it is new; return the number of times."""
    if (at := answered_at(grid)) != asked[-1]:
        asked.append(at)
    return len(asked)


def empty(grid: Grid) -> None:
    grid.sh(HOME, "qdel -u '*'; :")
    grid.until(lambda: not grid.states(), "home to be empty", LONG_S)
    grid.sh(FAR, "qdel -u '*'; :")
    grid.until(lambda: not far_jobs(grid), "delta to be empty")
