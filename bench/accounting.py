"""Cost of reading one new accounting record after a million others, against `qacct -j` (lab, root).

Both are measured inside alpha-master, on the same generated file, in one run:

* `qacct -j JOB -f FILE`, the fastest of five runs of the whole program;
* our reading on: a cell appends one record, and the service's own steps take it: the file is
  read from the cursor, record and cursor go into the state file in one transaction (with its
  fsync), and what people see is published. The fastest of a hundred such records, for the disk's
  flushes are most of what differs; their median is shown beside it. The first reading of the whole
  file, which happens once in the life of a site, is a row of its own.

Usage: .venv/bin/python -m bench.accounting [--json FILE] [--records N]
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from bench.brief import sized

ROOT = Path(__file__).resolve().parents[1]
HOST = "alpha-master"
PYTHON = ("/opt/gridbridge/venv/bin/python3", "-I")
FOLDER = "/var/tmp/gb-bench-accounting"
RECORDS = 1_000_000  # of which the target is
NEW = 100
RUNS = 5
LEAST_TIMES = 100.0  # less time than qacct
LIMIT_S = 1200
LINE = (
    "all.q:beta-n1:users:someone:job:{job}:{account}:0:1795212511:1795212511:1795212571:0:0:60:"
    "0.008915:0.003016:4796.000000:0:0:0:0:678:1:0:120.000000:16:0:0:0:16:14:NONE:"
    "defaultdepartment:NONE:1:0:0.011931:0.000000:0.000000:-U users -l h_rt=3600:0.000000:NONE:"
    "0.000000:NONE:0.000000:0:0\n"
)

# Runs inside the lab's host: argv is the folder, how many records and the line; prints JSON.
INSIDE = """
import json, os, subprocess, sys, time
from dataclasses import replace
from gridbridge.model.site_configuration import ClusterSection
from gridbridge.model.site_configuration import Policy
from gridbridge.model.site.site_section import SiteSection
from gridbridge.transfer.poller.remote_usage_records import RemoteUsageService
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher
from gridbridge.shell.clock import Clock
from gridbridge.transfer import remote_usage_and_cursor_rows as accounts
from gridbridge.state.state_file import StateFile

folder, count, line, new, runs = sys.argv[1], int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:])
path = f"{folder}/accounting"
with open(path, "w") as file:
    for job in range(1, count + 1):
        file.write(line.format(job=job, account="sge"))

def add(job):
    with open(path, "a") as file:
        file.write(line.format(job=job, account=f"gb.alpha.{job}.0.1"))

def qacct(job):
    began = time.perf_counter()
    argv = ("/usr/lib/gridengine/qacct", "-j", str(job), "-f", path)
    done = subprocess.run(argv, capture_output=True, check=True)
    assert f"jobnumber    {job}".encode() in done.stdout, done
    return time.perf_counter() - began

cluster = ClusterSection(qmaster_port=1, execd_port=2)
clusters = {"alpha": cluster, "beta": replace(cluster, accounting=path)}
policy = Policy(site=SiteSection(cluster="alpha"), clusters=clusters, queues={})
database = StateFile.open(f"sqlite:///{folder}/state.db")
clock = Clock()
views = TransferStatePublisher(policy, clock, f"{folder}/published")
os.makedirs(f"{folder}/published")
records = RemoteUsageService(policy=policy, database=database, views=views, clock=clock)
records.load_accounting_file_positions()
reader = records.readers["beta"]

def read_on():
    began = time.perf_counter()
    look = reader.read_new_lines()
    reader.cursor = look.cursor
    with database.transaction():
        records.store_accounting_reading(look)
    return time.perf_counter() - began, look

began = time.perf_counter()
while read_on()[1].is_more:
    pass
first_s = time.perf_counter() - began
ours = []
for job in range(count + 1, count + new + 1):
    add(job)
    ours.append(read_on()[0])
    usage = accounts.read_published_task_usage(f"{folder}/published", job, 0)
    assert usage.records[0].job_id == job
theirs = [qacct(count + new) for _ in range(runs)]
size = os.stat(path).st_size
print(json.dumps({"first_s": first_s, "ours": ours, "qacct": theirs, "bytes": size}))
"""


def measure(records: int) -> dict[str, float]:
    """Make the accounting file, measure both readers, and remove the file."""
    lab = (str(ROOT / "lab" / "lab"), "on", HOST, "--")
    subprocess.run([*lab, "sh", "-c", f"rm -rf {FOLDER} && mkdir {FOLDER}"], check=True)
    words = (FOLDER, str(records), LINE, str(NEW), str(RUNS))
    try:
        done = subprocess.run(
            [*lab, *PYTHON, "-c", INSIDE, *words], stdout=subprocess.PIPE, check=True, timeout=LIMIT_S
        )
    finally:
        subprocess.run([*lab, "rm", "-rf", FOLDER], check=True)
    told = json.loads(done.stdout)
    ours, theirs = min(told["ours"]), min(told["qacct"])
    return {
        "records": records,
        "megabytes": told["bytes"] / 1e6,
        "first_reading_s": told["first_s"],
        "one_record_s": ours,
        "one_record_median_s": median(told["ours"]),
        "one_record_slowest_s": max(told["ours"]),
        "qacct_s": theirs,
        "times_less": theirs / ours,
    }


def show(result: dict[str, float]) -> None:
    """Print the table."""
    print(f"{'one new record after':<28}{result['records']:>12.0f} ({result['megabytes']:.0f} MB)")
    print(f"{'qacct -j':<28}{result['qacct_s'] * 1000:>12.2f} ms")
    print(f"{'reading on':<28}{result['one_record_s'] * 1000:>12.2f} ms")
    print(f"{'reading on, median':<28}{result['one_record_median_s'] * 1000:>12.2f} ms")
    print(f"{'reading on, slowest':<28}{result['one_record_slowest_s'] * 1000:>12.2f} ms")
    print(f"{'less time than qacct':<28}{result['times_less']:>12.1f} times")
    print(f"{'the first reading of all':<28}{result['first_reading_s'] * 1000:>12.2f} ms, once")


def main() -> int:
    """Measure, print, and return 1 when the target is missed; a smaller file has no target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument("--records", type=int, default=sized(RECORDS, 50_000))
    options = parser.parse_args()
    began = time.monotonic()
    result = measure(options.records)
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(f"measured in {time.monotonic() - began:.0f} s")
    if options.records >= RECORDS and result["times_less"] < LEAST_TIMES:
        print(f"missed: {result['times_less']:.0f} < {LEAST_TIMES:.0f} times", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
