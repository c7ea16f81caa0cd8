"""Cost of reading a big cluster's `qstat -f -u '*' -xml`, against bare lxml.

Each row runs in fresh processes, alternately, and its fastest run counts: both read the same
document, made of the row that Grid Engine 8.1.9 printed for a waiting job (tests/golden).

Usage: .venv/bin/python -m bench.qstat_parse [--json] [--jobs N]
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
OWN = 200
REPEATS = sized(5, 2)
MOST_RATIO = 1.3  # of bare lxml's time
MOST_PEAK_MB = 60.0
END_OF_ROW = b"    </job_list>\n"
END_OF_LIST = b"  </job_info>\n</job_info>\n"


def make_document(jobs: int) -> bytes:
    """Fill the idle cluster with a plain waiting row; OWN rows, evenly spread, belong to gridbridge."""
    head = (GOLDEN / "idle.xml").read_bytes().removesuffix(END_OF_LIST)
    rows = (GOLDEN / "mixed.xml").read_bytes().split(b'    <job_list state="pending">')
    shape = next(row for row in rows if b"<JB_name>waiting<" in row)
    row = b'    <job_list state="pending">' + shape.partition(END_OF_ROW)[0] + END_OF_ROW
    job_id = row[row.index(b"number>") + 7 : row.index(b"</JB_job_number>")]
    every = max(1, jobs // OWN)
    return head + b"".join(_row(row, job_id, n, every) for n in range(jobs)) + END_OF_LIST


def _row(row: bytes, job_id: bytes, number: int, every: int) -> bytes:
    numbered = row.replace(b"number>" + job_id, b"number>%d" % (1_000_000 + number))
    name = b"gb.bench.%d.0.1" % number if number % every == 0 else b"someones-job-%d" % number
    return numbered.replace(b">waiting<", b">%s<" % name)


def read_bare(data: bytes) -> int:
    """Turn each row into a dict and drop it; return the number of rows."""
    count = 0
    for _, element in etree.iterparse(BytesIO(data), tag="job_list"):
        row = {child.tag: child.text for child in element}
        count += "JB_job_number" in row
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]
    return count


def read_ours(data: bytes) -> int:
    """Parse as the service does; return how many rows were kept."""
    from gridbridge.batch.gridengine.qstat_xml_parser import parse_cluster_snapshot

    snapshot = parse_cluster_snapshot(data, cluster="bench", taken_at=datetime.now(UTC))
    return sum(map(len, snapshot.jobs.values()))


READERS: dict[str, Callable[[bytes], int]] = {"bare lxml": read_bare, "parse_cluster_snapshot": read_ours}


def measure(reader: str, document: Path) -> dict[str, float]:
    """Read the document once in this process; VmHWM is its own peak memory, unlike ru_maxrss."""
    data = document.read_bytes()
    begun = time.perf_counter()
    rows = READERS[reader](data)
    seconds = time.perf_counter() - begun
    status = Path("/proc/self/status").read_text()
    peak_kb = int(status.split("VmHWM:")[1].split()[0])
    return {"seconds": seconds, "peak_mb": peak_kb / 1024, "rows": rows}


def run_all(document: Path) -> dict[str, dict[str, float]]:
    """Measure every reader REPEATS times in turn; keep the fastest run and the highest peak."""
    runs: dict[str, list[dict[str, float]]] = {reader: [] for reader in READERS}
    for reader in [*READERS] * REPEATS:
        argv = (sys.executable, "-m", "bench.qstat_parse", "--child", reader, str(document))
        runs[reader].append(json.loads(subprocess.check_output(argv)))
    return {
        reader: {
            "seconds": min(run["seconds"] for run in measured),
            "peak_mb": max(run["peak_mb"] for run in measured),
            "rows": measured[0]["rows"],
        }
        for reader, measured in runs.items()
    }


def find_misses(result: dict[str, dict[str, float]], jobs: int) -> list[str]:
    """Return the names of the rows that miss their target."""
    bare, ours = result["bare lxml"], result["parse_cluster_snapshot"]
    ours["ratio"] = ours["seconds"] / bare["seconds"]
    counts = {
        f"bare lxml: {bare['rows']} rows, not {jobs}": bare["rows"] == jobs,
        f"parse_cluster_snapshot: kept {ours['rows']} rows, not {OWN}": ours["rows"] == OWN,
    }
    checks = {
        f"parse_cluster_snapshot: {ours['ratio']:.2f} > {MOST_RATIO} times": ours["ratio"] <= MOST_RATIO,
        f"parse_cluster_snapshot: {ours['peak_mb']:.0f} > {MOST_PEAK_MB:.0f} MB": ours["peak_mb"] <= MOST_PEAK_MB,
    }
    missed = [miss for miss, is_met in checks.items() if not is_met]
    return [miss for miss, is_met in counts.items() if not is_met] + judged(missed)


def show(result: dict[str, dict[str, float]], megabytes: float) -> None:
    """Print the table."""
    print(f"{'reader':<14}{'seconds':>9}{'times':>7}{'peak MB':>9}{'rows':>8}")
    for reader, row in result.items():
        times = f"{row.get('ratio', 1.0):.2f}"
        print(f"{reader:<14}{row['seconds']:>9.3f}{times:>7}{row['peak_mb']:>9.1f}{row['rows']:>8}")
    print(f"document: {megabytes:.1f} MB, which either process holds in memory")


def main() -> int:
    """Measure, print, and return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--jobs", type=int, default=sized(100_000, 5_000))
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child[0], Path(options.child[1]))))
        return 0
    with tempfile.NamedTemporaryFile(suffix=".xml") as file:
        size = file.write(make_document(options.jobs))
        file.flush()
        result = run_all(Path(file.name))
    misses = find_misses(result, options.jobs)
    if options.json:
        print(json.dumps({"rows": result, "document_mb": size / 1e6, "missed": misses}))
    else:
        show(result, size / 1e6)
    for miss in misses:
        print(f"missed: {miss}", file=sys.stderr)
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
