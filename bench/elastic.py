"""Cost of a round of policy demand in a big cell, against bare lxml reading the same document.

Both read a `qstat -u '*' -xml -f -r` of 10,000 hosts, of which half are busy, and 100,000 waiting
arrays of ten tasks in 200 shapes, made of rows that Grid Engine 8.1.9 printed (tests/golden). Ours
reads `qhost -xml -F` of these hosts as well, and decides. Each runs in fresh processes in turn,
and its fastest run counts.

Usage: .venv/bin/python -m bench.elastic [--json FILE] [--jobs N] [--hosts N]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from lxml import etree

from bench.brief import judged, sized

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "gridengine-8.1.9"
NOW = datetime(2026, 11, 23, 22, tzinfo=UTC)
TASKS = 10  # of a job
SHAPES = 200
REPEATS = sized(3, 1)
MOST_RATIO = 4.0  # of bare lxml's time
MOST_PEAK_MB = 300.0
MOST_GROWTH = 2.4  # of the time for half as much
QUEUE, JOB, HOST = b"    <Queue-List>\n", b'    <job_list state="pending">\n', b" <host name="
END_OF_QUEUE, END_OF_JOB, END_OF_HOST = b"    </Queue-List>\n", b"    </job_list>\n", b" </host>\n"
MEMORY = b"   <resourcevalue name='h_vmem' dominance='hc'>64.000G</resourcevalue>\n"
LAYOUT = {
    "complexes": {
        "h_vmem": {"shortcut": "h_vmem", "relation": "<=", "consumable": "YES", "default": "0"},
        "arch": {"shortcut": "a", "relation": "=="},
    },
    "environments": {"smp": {"allocation_rule": "$pe_slots", "slots": 99999999}},
    "hostgroups": {"@allhosts": []},
    "queues": {"all.q": {"hostlist": "@allhosts", "pe_list": "smp"}},
}


def row_of(text: bytes, start: bytes, end: bytes, having: bytes = b"") -> bytes:
    """Return the first row of a golden document that contains these words."""
    rows = (start + one.partition(end)[0] + end for one in text.split(start)[1:])
    return next(one for one in rows if having in one)


def make_qstat(jobs: int, hosts: int) -> bytes:
    """Return the qstat document of a cell with every second host full, and its waiting jobs."""
    golden = (GOLDEN / "cell.xml").read_bytes()
    queue = row_of((GOLDEN / "idle.xml").read_bytes(), QUEUE, END_OF_QUEUE, b"all.q@")
    job = row_of(golden, JOB, END_OF_JOB, b"<requested_pe")
    parts = [b"<?xml version='1.0'?>\n<job_info>\n  <queue_info>\n"]
    parts.extend(_queue_row(queue, number) for number in range(hosts))
    parts.append(b"  </queue_info>\n  <job_info>\n")
    parts.extend(_job_row(job, number) for number in range(jobs))
    parts.append(b"  </job_info>\n</job_info>\n")
    return b"".join(parts)


def _queue_row(row: bytes, number: int) -> bytes:
    name = row.partition(b"<name>")[2].partition(b"</name>")[0]
    total = row.partition(b"<slots_total>")[2].partition(b"</slots_total>")[0]
    used = total if number % 2 else b"0"
    named = row.replace(name, b"all.q@node%05d" % number)
    return named.replace(b"<slots_used>0<", b"<slots_used>%s<" % used)


def _job_row(row: bytes, number: int) -> bytes:
    """Return a job of one of the shapes: a number of slots, and how much memory each takes."""
    slots, memory = 1 + number % 2, 1 + number // 2 % (SHAPES // 2)
    numbered = row.replace(b"number>13<", b"number>%d<" % (1_000_000 + number))
    wide = numbered.replace(b"<slots>2<", b"<slots>%d<" % slots)
    asked = b'      <hard_request name="h_vmem" resource_contribution="0.0">%dM</hard_request>\n'
    array = b"      <tasks>1-%d:1</tasks>\n" % TASKS
    return wide.replace(END_OF_JOB, asked % (memory * 10) + array + END_OF_JOB)


def make_qhost(hosts: int) -> bytes:
    """Return the qhost document of the hosts, each with its memory."""
    golden = (GOLDEN / "hosts.xml").read_bytes()
    row = row_of(golden, HOST, END_OF_HOST, b"'alpha-n1'").replace(END_OF_HOST, MEMORY + END_OF_HOST)
    head = golden.partition(HOST)[0]
    names = (b"'node%05d'" % number for number in range(hosts))
    return head + b"".join(row.replace(b"'alpha-n1'", one) for one in names) + b"</qhost>\n"


def read_bare(folder: Path) -> int:
    """Turn each row into a dict and drop it; return the number of rows."""
    count, data = 0, (folder / "qstat.xml").read_bytes()
    for _, element in etree.iterparse(BytesIO(data), tag=("job_list", "Queue-List")):
        row = {child.tag: child.text for child in element}
        count += "JB_job_number" in row
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]
    return count


def plan(folder: Path) -> int:
    """Decide as `gridbridge balance plan --from FOLDER` does; return the number of tasks of demand."""
    from gridbridge.elastic.balancer import balance_situation_sources, balancer_round_decision
    from gridbridge.model.config_key_descriptions import QueueDefaultRequests
    from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection, NodePoolSection

    pools = {
        "small": NodePoolSection(slots=4, resources=QueueDefaultRequests(h_vmem="16G"), price=1, limit=5000),
        "large": NodePoolSection(slots=64, resources=QueueDefaultRequests(h_vmem="256G"), price=20),
    }
    seen = balance_situation_sources.load_saved_balance_situation(str(folder))
    found = balancer_round_decision.decide_balance_plan(
        seen, BalanceSection(max_nodes=100_000), DemandPolicySection(), pools
    )
    assert found.add, found.verdict
    return found.figures.tasks // TASKS


READERS: dict[str, Callable[[Path], int]] = {"bare lxml": read_bare, "plan": plan}


def measure(reader: str, folder: Path) -> dict[str, float]:
    """Run a reader once in this process; VmHWM is its own peak memory, unlike ru_maxrss."""
    begun = time.process_time()
    jobs = READERS[reader](folder)
    seconds = time.process_time() - begun
    status = Path("/proc/self/status").read_text()
    peak_kb = int(status.split("VmHWM:")[1].split()[0])
    return {"seconds": seconds, "peak_mb": peak_kb / 1024, "jobs": jobs}


def run_all(folder: Path) -> dict[str, dict[str, float]]:
    """Measure each reader REPEATS times in turn; keep the fastest run and the highest peak."""
    runs: dict[str, list[dict[str, float]]] = {reader: [] for reader in READERS}
    for reader in [*READERS] * REPEATS:
        argv = (sys.executable, "-m", "bench.elastic", "--child", reader, str(folder))
        runs[reader].append(json.loads(subprocess.check_output(argv)))
    return {
        reader: {
            "seconds": min(run["seconds"] for run in measured),
            "peak_mb": max(run["peak_mb"] for run in measured),
            "jobs": measured[0]["jobs"],
        }
        for reader, measured in runs.items()
    }


def of_size(jobs: int, hosts: int) -> dict[str, dict[str, float]]:
    """Measure a cell of a given size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "qstat.xml").write_bytes(make_qstat(jobs, hosts))
        (folder / "qhost.xml").write_bytes(make_qhost(hosts))
        (folder / "qconf.json").write_text(json.dumps(LAYOUT))
        (folder / "state.json").write_text(json.dumps({"now": NOW.isoformat()}))
        return run_all(folder)


def find_misses(whole: dict[str, dict[str, float]], half: dict[str, float], jobs: int) -> list[str]:
    """Return the names of the missed targets."""
    bare, ours = whole["bare lxml"], whole["plan"]
    ours["ratio"] = ours["seconds"] / bare["seconds"]
    ours["growth"] = ours["seconds"] / half["seconds"]
    counts = {
        f"bare lxml: {bare['jobs']:.0f} jobs, not {jobs}": bare["jobs"] == jobs,
        f"plan: {ours['jobs']:.0f} jobs, not {jobs}": ours["jobs"] == jobs,
    }
    checks = {
        f"plan: {ours['ratio']:.2f} > {MOST_RATIO} times": ours["ratio"] <= MOST_RATIO,
        f"plan: {ours['peak_mb']:.0f} > {MOST_PEAK_MB:.0f} MB": ours["peak_mb"] <= MOST_PEAK_MB,
        f"plan: {ours['growth']:.2f} > {MOST_GROWTH} times half of it": ours["growth"] <= MOST_GROWTH,
    }
    missed = [miss for miss, is_met in checks.items() if not is_met]
    return [miss for miss, is_met in counts.items() if not is_met] + judged(missed)


def show(result: dict[str, dict[str, float]]) -> None:
    """Print the table."""
    print(f"{'':<12}{'CPU s':>8}{'times':>7}{'of half':>9}{'peak MB':>9}{'jobs':>8}")
    for reader, row in result.items():
        times, growth = (f"{row[key]:.2f}" if key in row else "" for key in ("ratio", "growth"))
        sizes = f"{row['peak_mb']:>9.0f}{row['jobs']:>8.0f}"
        print(f"{reader:<12}{row['seconds']:>8.2f}{times:>7}{growth:>9}{sizes}")


def main() -> int:
    """Measure, print, and return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--jobs", type=int, default=sized(100_000, 5_000))
    parser.add_argument("--hosts", type=int, default=sized(10_000, 500))
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child[0], Path(options.child[1]))))
        return 0
    half = of_size(options.jobs // 2, options.hosts // 2)
    whole = of_size(options.jobs, options.hosts)
    misses = find_misses(whole, half["plan"], options.jobs)
    show(whole)
    if options.json:
        options.json.write_text(json.dumps({"rows": whole, "missed": misses}))
    for miss in misses:
        print(f"missed: {miss}", file=sys.stderr)
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
