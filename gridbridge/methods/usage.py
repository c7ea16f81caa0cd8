"""Put what the remote job used into the shepherd's `usage` file, which execd accounts for.

Run as root by sge-methods/usage, once for each job of a queue with remote_usage. It trusts the
shepherd's folder and what the service published, nothing of the job's owner. The shepherd has
written the file before it runs the epilog, and execd reads it afterwards (tried on 8.1.9).
"""

import json
import os
import pwd
import sys
import time

from gridbridge.batch.gridengine.request import read_config
from gridbridge.errors import GridbridgeError
from gridbridge.model.places import HOME, PUBLISHED
from gridbridge.shell import files
from gridbridge.state import published

LOG = "/var/log/gridbridge-usage.log"
MAX_BYTES = 1 << 20
SLACK_S = 2  # between two clocks' readings of one moment
FIELDS = {  # of `usage`, and what is published under which name
    "ru_wallclock": "wallclock_s",
    "ru_utime": "user_s",
    "ru_stime": "system_s",
    "ru_maxrss": "max_rss_kb",
}


def main() -> None:
    """Do it for the job with this folder; a failure is logged and changes nothing."""
    try:
        record(sys.argv[1])
    except (GridbridgeError, OSError, KeyError, ValueError) as error:
        with open(LOG, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(f"{time.time():.0f} {sys.argv[1:]}: {error!r}\n")


def record(folder: str, shown: str = PUBLISHED, service: str = HOME) -> None:
    """Write the remote usage into `folder`/usage, if this job's end came with one."""
    config = read_config(_read(f"{folder}/config", os.stat(folder).st_uid))
    owner = pwd.getpwnam(config["job_owner"])
    began_s = os.stat(f"{folder}/config").st_mtime  # execd writes it as it starts the job
    task = int(config["ja_task_id"]) if config.get("job_is_array") == "1" else 0
    path = published.accounting_path(int(config["job_id"]), task, shown)
    try:
        rows = json.loads(_read(path, os.stat(service).st_uid))["records"]
    except FileNotFoundError:
        return  # it ended here without an end there
    mine = [row for row in rows if row["mark"] == str(owner.pw_uid)]
    if mine and mine[-1]["ended_at"] >= _published(began_s - SLACK_S):
        _write(f"{folder}/usage", mine[-1])


def _write(path: str, row: "dict[str, float | None]") -> None:
    """Replace the figures that are known, in the file that the shepherd has made."""
    end = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        lines = os.read(end, MAX_BYTES).decode("ascii").splitlines()
        data = "".join(f"{_line(line, row)}\n" for line in lines).encode()
        os.pwrite(end, data, 0)
        os.ftruncate(end, len(data))
    finally:
        os.close(end)


def _line(line: str, row: "dict[str, float | None]") -> str:
    name = line.partition("=")[0]
    amount = row[FIELDS[name]] if name in FIELDS else None
    return line if amount is None else f"{name}={float(amount):g}"


def _read(path: str, owner: int) -> bytes:
    return files.read(path, MAX_BYTES, owner)[0]


def _published(seconds: float) -> str:
    """Write a time as published ones begin, ISO 8601 in UTC, to be compared as a text.

    Parsing theirs would cost as much as everything else here.
    """
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
