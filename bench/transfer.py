"""Cost of a transfer, against the plainest shell starter in the same run (needs the lab, root).

How each row is measured:

* CPU of a transfer: accounting's ru_utime + ru_stime of the local job (the shepherd's wait4() of
  the starter and of everything that it waited for: shell, Python steps, Grid Engine clients; the
  queue has the plain epilog meanwhile, as the other one writes its own figures there), of the
  epilog that a queue has by default, remote_usage, and of the remote job (wrapper and its
  commands), less what a `true` submitted to beta directly needs, plus the poller's share: its CPU
  during the transfers, less what it needs in the same time while the plain starter's jobs run,
  over their number. Meanwhile it asks for states alone, not for names (vocabulary_s), and its
  first transfer is not counted. One transfer at a time; means, since accounting counts in ms. The
  baseline is the local accounting of the same job whose plain starter ends once it has submitted.
* a waiting transfer: PSS of the starter's process tree (smaps_rollup), the first of them alone;
  CPU of those of 200, reaped children included, over a minute.
* status queries: a counting program in place of beta's qstat, for the poller and every starter,
  over six intervals from one query on.
* end: each job's last command writes the time; a watch asks qstat ten times a second when the
  local job is gone. The jobs end one after the other, not in step with the poller.
* acceptance: 200 jobs wait in a disabled queue; from its enabling to the last recorded remote id
  (for ours: in the state file, for the plain one: in its own file).
* by ssh: bench/ssh.py.

Usage: .venv/bin/python -m bench.transfer [--json FILE] [--quick]
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median

from bench import replicas, ssh, staging
from bench.brief import sized
from bench.rows import QUICK, Row, Size, show
from bench.site import FOLDER, HOST, PLAIN, Site, Usage, is_possible

SLOTS = sized(200, 40)
INTERVAL_S = 5.0  # conf/gridbridge.toml, [poller] interval_s
INTERVALS = sized(6, 2)
MOST_USAGE_S = 0.005  # for each transfer, more than the epilog without remote_usage
WAITING = "sleep 100000\n"

Part = Callable[[Site, Size], list[Row]]


def cpu(site: Site, size: Size) -> list[Row]:
    """Measure the CPU of one transfer, part by part."""
    pid = site.poller()
    ours, busy = site.spent(pid, lambda: _many(site, size.transfers))
    until = ("-v", "PLAIN_UNTIL=submitted")
    plain, idle = site.spent(pid, lambda: _many(site, size.transfers, *until, queue=PLAIN))
    direct = [site.direct(script="true\n") for _ in range(size.transfers)]
    remote = [remote for _, remote, _ in site.recorded(ours)]
    starter_s = fmean(map(site.cpu_s, ours))
    epilog_s, plain_epilog_s = site.epilog_s("usage"), site.epilog_s("epilog")
    plain_s = fmean(map(site.cpu_s, plain))
    job_s = fmean(site.cpu_s(job, "beta") for job in direct)
    wrapper_s = fmean(site.cpu_s(job, "beta") for job in remote) - job_s
    poller_s = (busy.cpu_s - idle.cpu_s / idle.passed_s * busy.passed_s) / size.transfers
    return [
        Row(
            what="CPU of one transfer, by default",
            measured=(starter_s + epilog_s + wrapper_s + poller_s) * 1000,
            unit="ms",
            limit=6 * plain_s * 1000,
            baseline=plain_s * 1000,
        ),
        Row(what="  of it the starter", measured=starter_s * 1000, unit="ms"),
        Row(
            what="  of it the epilog, remote_usage",
            measured=epilog_s * 1000,
            unit="ms",
            limit=(plain_epilog_s + MOST_USAGE_S) * 1000,
            baseline=plain_epilog_s * 1000,
        ),
        Row(what="  of it the remote wrapper", measured=wrapper_s * 1000, unit="ms"),
        Row(what="  of it the poller", measured=poller_s * 1000, unit="ms"),
        Row(
            what="  with remote_usage = false",
            measured=(starter_s + plain_epilog_s + wrapper_s + poller_s) * 1000,
            unit="ms",
            baseline=plain_s * 1000,
        ),
    ]


def _many(site: Site, count: int, *options: str, queue: str = "transfer-beta") -> list[str]:
    return [site.whole(*options, script="true\n", queue=queue) for _ in range(count)]


def _rate(site: Site, pids: list[int], how_long_s: float) -> float:
    """Return the mean share of a core that a process and its descendants take."""
    before, begun = site.usage(pids), time.monotonic()
    time.sleep(how_long_s)
    after, passed_s = site.usage(pids), time.monotonic() - begun
    return sum(after[pid].cpu_s - before[pid].cpu_s for pid in pids) / len(pids) / passed_s


def waiting(site: Site, size: Size) -> list[Row]:
    """Measure waiting transfers, and how often beta is queried meanwhile."""
    first = site.submit(script=WAITING)
    jobs = [first]
    try:
        (alone,) = _asleep(site, 1).values()
        queries = _queries(site)
        jobs.append(site.submit("-t", f"1-{SLOTS - 1}", script=WAITING))
        starters = _asleep(site, SLOTS)
        share = _rate(site, list(starters), size.wait_s)
        many = _queries(site)
    finally:
        site.grid.on(HOST, "qdel", *jobs)
        site.gone(jobs)
    mean_kb = sum(usage.pss_kb for usage in starters.values()) / len(starters)
    return [
        Row(what="memory of a waiting transfer", measured=alone.pss_kb / 1024, unit="MB", limit=1),
        Row(what=f"memory of each of {SLOTS}", measured=mean_kb / 1024, unit="MB", limit=1),
        Row(what="CPU of a waiting transfer", measured=share * 100, unit="% core", limit=0.1),
        Row(
            what=f"status queries, {SLOTS} transfers",
            measured=many / INTERVALS,
            unit="/interval",
            limit=queries / INTERVALS,
            baseline=queries / INTERVALS,
        ),
    ]


def _asleep(site: Site, count: int) -> dict[int, Usage]:
    """Wait until so many starters have finished their first step; return their usage."""

    def look() -> dict[int, Usage]:
        ready = "ls /tmp/*/.gridbridge/record 2>/dev/null | xargs -r grep -l phase=released | wc -l"
        if int(site.grid.sh(HOST, ready)) < count or len(pids := site.starters()) != count:
            return {}
        return site.usage(pids)

    return site.grid.until(look, f"{count} transfers to wait", 180)


def _queries(site: Site) -> int:
    """Count the status queries of six intervals, starting just after a query."""
    known = site.calls()
    site.grid.until(lambda: site.calls() > known, "the next query")
    known = site.calls()
    time.sleep((INTERVALS + 0.5) * INTERVAL_S)
    return site.calls() - known


def ends(site: Site, size: Size) -> list[Row]:
    """Measure the delay from a remote job's last command to the local job's end."""
    ours = _ends(site, size.ends, "transfer-beta")
    plain = _ends(site, size.plain_ends, PLAIN)
    return [Row(what="end, median", measured=ours, unit="s", limit=2.5, baseline=plain)]


def _ends(site: Site, count: int, queue: str) -> float:
    jobs = {}
    for number in range(count):
        script = f"sleep {5 + number * 1.3}\ndate +%s.%N >{FOLDER}/{queue}.{number}\n"
        jobs[site.submit(script=script, queue=queue)] = f"{queue}.{number}"
    gone = site.gone(list(jobs))
    return median(gone[job] - site.written(name) for job, name in jobs.items())


def acceptance(site: Site, _: Size) -> list[Row]:
    """Measure how fast 200 short jobs are accepted, and that all arrive."""
    job, begun = _flood(site, "transfer-beta")
    times = [at for _, _, at in site.recorded([job])]
    arrived = sum(each["exit_status"].split()[0] == "0" for each in site.grid.records(job))
    ours = len(times) / (max(times) - begun)
    job, begun = _flood(site, PLAIN)
    listing = site.grid.sh(HOST, f"find {FOLDER}/accepted -name '{job}.*' -printf '%T@\\n'")
    stamps = [float(line) for line in listing.split()]
    plain = len(stamps) / (max(stamps) - begun)
    return [
        Row(
            what=f"acceptance of {SLOTS} jobs",
            measured=ours,
            unit="/s",
            limit=plain / 2,
            baseline=plain,
            needs_whole=True,
            is_least=True,
        ),
        Row(what="of them arrived", measured=arrived, unit="jobs", limit=SLOTS, is_least=True),
    ]


def _flood(site: Site, queue: str) -> tuple[str, float]:
    """Send 200 jobs at once; return the jobs, and the time at which their queue was opened."""
    site.grid.sh(HOST, f"qmod -d {queue}")
    job = site.submit("-t", f"1-{SLOTS}", script="true\n", queue=queue)
    begun = float(site.grid.sh(HOST, f"date +%s.%N; qmod -e {queue} >/dev/null"))
    site.gone([job])
    site.grid.until(lambda: len(site.grid.records(job)) >= SLOTS, f"{SLOTS} records of {job}")
    return job, begun


def counted(site: Site, size: Size) -> list[Row]:
    """Measure waiting transfers while beta's qstat is counted."""
    with site.counting():
        return waiting(site, size)


def quiet(part: Part) -> Part:
    """Measure a part while the poller queries states only."""

    def measured(site: Site, size: Size) -> list[Row]:
        with site.quiet():
            return part(site, size)

    return measured


PARTS: dict[str, Part] = {
    "cpu": quiet(cpu),
    "ends": ends,
    "acceptance": acceptance,
    "waiting": counted,
    "ssh": quiet(ssh.cpu),
    "ssh-at-once": ssh.acceptance,
    "staging": staging.rate,
    "replicas": replicas.rate,
}


def main() -> int:
    """Measure, print, and return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, for trying out")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    options = parser.parse_args()
    if not is_possible():
        sys.exit("bench.transfer: needs root and the lab (make lab)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the lab is left as it was
    site, size = Site(), QUICK if options.quick else Size()
    rows: list[Row] = []
    with site.arranged():
        for part in options.parts or PARTS:
            print(f"measuring {part}", file=sys.stderr)  # all of them take half an hour
            rows += PARTS[part](site, size)
    missed = [row.what for row in rows if not row.is_met]
    if options.json:
        content = {"rows": [asdict(row) for row in rows], "missed": missed}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    show(rows)
    for what in missed:
        print(f"missed: {what}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
