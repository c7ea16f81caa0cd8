"""Cost of a transfer by ssh, against a bare `ssh HOST qsub` in the same run.

How each row is measured:

* CPU: as for a transfer without ssh (bench/transfer.py), at home alone: the local job's
  accounting, its epilog and the poller's share, which is its CPU during the transfers less that
  of an idle time as long. The clients of ssh that a starter left behind are counted one by one, in
  transfers of their own. The baseline is the CPU of OpenSSH's client for one `ssh HOST qsub`.
* acceptance: 50 jobs wait in a disabled queue; from its enabling to the last recorded remote id.
  The baseline starts 50 `ssh HOST qsub` at once, each tried again after a pause as a starter's
  until it is through: sshd drops connections when more than ten are not yet in (MaxStartups).
"""

import time
from statistics import fmean

from bench.brief import sized
from bench.rows import Row, Size
from bench.site import HOST, Site

QUEUE = "transfer-delta"
AT_ONCE = sized(50, 10)  # slots of the queue, tools/lab-site
JOB = ("-o", "/dev/null", "-j", "y")

# Run `ssh HOST qsub` so many times, so many at once; print the CPU seconds of one and the
# seconds from the first to the last that was through; the pause is the starter's (step_answers.py)
BARE = """
import json, os, random, resource, subprocess, sys, threading, time
count, at_once = map(int, sys.argv[1:])
variables = ("SGE_ROOT=/var/lib/gridengine", "SGE_CELL=delta", "SGE_QMASTER_PORT=6444")
job = ("-terse", "-o", "/dev/null", "-j", "y", "-b", "y", "true")
argv = ("ssh", "-o", "BatchMode=yes", "-l", "al_delta", "delta-master", "env", *variables)
argv += ("SGE_EXECD_PORT=6445", "/usr/lib/gridengine/qsub", *job)
def submit():
    tries = 0
    while subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True).returncode:
        tries += 1
        longest_s = min(60, 5 * 2 ** min(tries, 8))
        time.sleep(longest_s // 2 + random.randrange(256) * longest_s // 512 + 1)
def some():
    for _ in range(count // at_once):
        submit()
begun = time.monotonic()
threads = [threading.Thread(target=some) for _ in range(at_once)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
passed_s = time.monotonic() - begun
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([(used.ru_utime + used.ru_stime) / count, passed_s]))
"""


def cpu(site: Site, size: Size) -> list[Row]:
    """Measure the CPU of one transfer by ssh at home."""
    pid = site.poller()
    jobs, busy = site.spent(pid, lambda: _jobs(site, size.transfers))
    _, idle = site.spent(pid, lambda: time.sleep(busy.passed_s))
    bare_s, _ = _bare(site, size.transfers, at_once=1)
    starter_s = fmean(map(site.cpu_s, jobs)) + site.epilog_s("usage")
    clients_s = _clients(site, size.transfers)
    poller_s = (busy.cpu_s - idle.cpu_s) / size.transfers
    return [
        Row(
            what="CPU of one transfer by ssh",
            measured=(starter_s + clients_s + poller_s) * 1000,
            unit="ms",
            limit=2 * bare_s * 1000,
            baseline=bare_s * 1000,
        ),
        Row(what="  of it the clients of ssh", measured=clients_s * 1000, unit="ms"),
        Row(what="  of it the poller", measured=poller_s * 1000, unit="ms"),
    ]


def acceptance(site: Site, _: Size) -> list[Row]:
    """Measure how long 50 jobs take to be accepted by ssh, all at once."""
    site.grid.sh(HOST, f"qmod -d {QUEUE}")
    job = site.submit("-t", f"1-{AT_ONCE}", *JOB, script="true\n", queue=QUEUE)
    begun = float(site.grid.sh(HOST, f"date +%s.%N; qmod -e {QUEUE} >/dev/null"))
    site.gone([job])
    times = [at for _, _, at in site.recorded([job])]
    _, bare_s = _bare(site, AT_ONCE, at_once=AT_ONCE)
    return [
        Row(
            what=f"{AT_ONCE} at once accepted by ssh",
            measured=max(times) - begun,
            unit="s",
            limit=1.5 * bare_s,
            baseline=bare_s,
            needs_whole=True,
        ),
        Row(what="  of them accepted", measured=len(times), unit="jobs", limit=AT_ONCE, is_least=True),
    ]


def _clients(site: Site, count: int) -> float:
    """Return the CPU seconds of the ssh clients that one transfer's starter runs."""
    with site.timing() as spent_s:
        _jobs(site, count)
        return spent_s() / count


def _jobs(site: Site, count: int) -> list[str]:
    return [site.whole(*JOB, script="true\n", queue=QUEUE) for _ in range(count)]


def _bare(site: Site, count: int, at_once: int) -> tuple[float, float]:
    """Return the CPU seconds of one bare submission by ssh, and the seconds for all."""
    found = site.run(BARE, str(count), str(at_once), user="alice")
    assert isinstance(found, list)
    cpu_s, passed_s = map(float, found)
    return cpu_s, passed_s
