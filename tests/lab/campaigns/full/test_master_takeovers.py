"""Runners on alpha-master and beta-master share PostgreSQL on gamma-master and three folders; each task runs once.

Each host's runner has mounts of its own, so that the lab's other services keep their files.
"""

import json
import time
from collections.abc import Iterator
from itertools import cycle, islice

import pytest

from tests.lab.campaigns.runner import PROGRAM
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(5400)]

HOSTS = ("alpha-master", "beta-master")
DATABASE = "gamma-master"
MOST_S = 30.0  # of a takeover
SHARED, OWN, RAN = "/home/.masters", "/var/tmp/master", "/home/alice/takeovers"
RULES = "/var/lib/postgresql/gridlab/pg_hba.conf"
SITE = (  # the ends of tasks come from the clusters' accounting, not by the spool, which is alpha's
    f'0,/^cluster = .*/s||&\\nstate = \\"postgresql://gridbridge@{DATABASE}/masters\\"\\nmaster_lease_s = 3|;'
    " /^spool_shared/d; /^push = /d;"
    " /^.runner.$/,/^.metascheduler.$/s/^#interval_s = .*/interval_s = 5\\ngroup_below_s = 0/"
)
FILES = f"""
rm -rf {SHARED} && mkdir -p {SHARED}/etc && install -d -m 700 {SHARED}/ledger
install -d -o gridbridge -g gridbridge {SHARED}/published
install -d -m 3733 -o gridbridge -g gridbridge {SHARED}/campaigns
sed "{SITE}" /etc/gridbridge/gridbridge.toml >{SHARED}/etc/gridbridge.toml
rm -rf {RAN} && install -d -o alice {RAN}
"""
MOUNTS = f"""
rm -rf {OWN} && install -d -o gridbridge -g gridbridge {OWN} {OWN}/home {OWN}/home/published
install -d -m 700 /var/lib/gridbridge-ledger
cat >{OWN}/mount <<'END'
mount --bind {SHARED}/etc /etc/gridbridge && mount --bind {OWN}/home /var/lib/gridbridge &&
mount --bind {SHARED}/published /var/lib/gridbridge/published &&
mount --bind {SHARED}/ledger /var/lib/gridbridge-ledger &&
mount --bind {SHARED}/campaigns /var/spool/gridbridge/campaigns && echo $$ >{OWN}/mounts && exec sleep infinity
END
setsid unshare --mount --propagation private sh {OWN}/mount >/dev/null 2>&1 </dev/null &
until [ -s {OWN}/mounts ]; do sleep 0.1; done
"""
INSIDE = f"nsenter --mount -t $(cat {OWN}/mounts)"
AS_SERVICE = "setpriv --reuid gridbridge --regid gridbridge --init-groups"
START = f"""
setsid sh -c 'echo $$ >{OWN}/pid; exec {INSIDE} {AS_SERVICE} {PROGRAM} --loop' >>{OWN}/log 2>&1 </dev/null &
"""
CLEAN = f"kill -KILL $(cat {OWN}/pid) $(cat {OWN}/mounts); rm -rf {OWN}; :"
SENDS = "pgrep -f '[g]ridbridge-as-user.* send-arrays' >/dev/null"
AS_POSTGRES = "cd / && runuser -u postgres -- psql -q"
RUN = "sh -c 'echo $CIGRI_JOB_ID >>ran.$CIGRI_CLUSTER; sleep 3'"


class Masters:
    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.leader, self.other = HOSTS
        self.took_s: list[float] = []

    def start(self, host: str) -> None:
        self.grid.sh(host, START)

    def count(self, host: str, event: str) -> int:
        return int(self.grid.on(host, "grep", "-c", f"event={event} program=runner", f"{OWN}/log").out or 0)

    def until_logged(self, host: str, event: str, times: int = 1) -> None:
        self.grid.until(lambda: self.count(host, event) >= times, f"{host} to log {event}", 120)

    def lose_leader(self, how: str) -> None:
        """Kill, stop or cut off the leader while it sends, until the other leads; then let the first return."""
        leads, deposed = self.count(self.other, "leads"), self.count(self.leader, "deposed")
        lose = "true" if how == "cut" else f"kill -{how} $(cat {OWN}/pid)"
        self.grid.sh(self.leader, f"for n in $(seq 900); do {SENDS} && break; sleep 0.02; done; {lose}")
        if how == "cut":
            self.grid.lab("net", self.leader, "cut")
        began_s = time.monotonic()
        self.until_logged(self.other, "leads", leads + 1)
        self.took_s.append(time.monotonic() - began_s)
        if how == "KILL":
            self.start(self.leader)
        else:
            self.grid.lab("net", self.leader, "heal") if how == "cut" else self.grid.sh(
                self.leader, f"kill -CONT $(cat {OWN}/pid)"
            )
            self.until_logged(self.leader, "deposed", deposed + 1)
        self.leader, self.other = self.other, self.leader

    def submit(self, tasks: int) -> None:
        jdl = {
            "name": "once",
            "exec_file": RUN,
            "exec_directory": RAN,
            "nb_jobs": tasks,
            "walltime": "0:10",
            "type": "normal",
        }
        argv = f"{INSIDE} runuser -u alice -- /opt/gridbridge/bin/gridsub -"
        clusters = {"clusters": {"alpha": {}, "beta": {}}}
        done = self.grid.on(
            HOSTS[0], "sh", "-c", f"cd /home/alice; {argv}", stdin=json.dumps(jdl | clusters), timeout_s=200
        )
        assert "CAMPAIGN_ID=1\n" in done.out, done

    def progress(self) -> tuple[str, int, int]:
        (campaign,) = json.loads(self.grid.sh(HOSTS[0], f"cat {SHARED}/published/campaigns.json"))["campaigns"]
        return campaign["state"], campaign["ended"], campaign["failed"]

    def runs(self) -> list[str]:
        return sorted(self.grid.sh(HOSTS[0], f"cat {RAN}/ran.*").split())


@pytest.fixture
def masters(grid: Grid) -> Iterator[Masters]:
    made = Masters(grid)
    grid.sh(DATABASE, f"grep -q ' masters ' {RULES} || echo 'host masters gridbridge 10.77.0.0/24 trust' >>{RULES}")
    roles = "DROP DATABASE IF EXISTS masters; DROP ROLE IF EXISTS gridbridge; CREATE ROLE gridbridge LOGIN"
    for words in (*roles.split(";"), "CREATE DATABASE masters OWNER gridbridge", "SELECT pg_reload_conf()"):
        grid.sh(DATABASE, f"{AS_POSTGRES} -c '{words}'")
    grid.sh(HOSTS[0], FILES)
    for host in HOSTS:
        grid.sh(host, MOUNTS)
        made.start(host)
        made.until_logged(host, "leads" if host == HOSTS[0] else "waits_for_lead")
    yield made
    for host in HOSTS:
        grid.lab("net", host, "heal")
        grid.sh(host, CLEAN)
    grid.sh(DATABASE, f"labctl start postgresql; {AS_POSTGRES} -c 'DROP DATABASE masters WITH (FORCE)'")
    grid.sh(HOSTS[0], f"rm -rf {SHARED} {RAN}")


@pytest.mark.parametrize(
    ("takeovers", "tasks"), [(2, 24), pytest.param(50, 500, marks=pytest.mark.long)], ids=["two", "fifty"]
)
def test_each_task_runs_once_although_leaders_are_lost_while_they_send(
    masters: Masters, takeovers: int, tasks: int
) -> None:
    masters.submit(tasks)
    for how in islice(cycle(("KILL", "STOP", "KILL", "STOP", "cut")), takeovers):
        masters.lose_leader(how)
    masters.grid.until(lambda: masters.progress()[0] != "in_treatment", "the campaign to end", 60.0 + 3 * tasks)

    print("takeovers in s:", *(f"{took_s:.1f}" for took_s in masters.took_s))  # noqa: T201 - docs/reference/figures.md
    assert masters.progress() == ("terminated", tasks, 0)
    assert masters.runs() == sorted(f"1.{task}" for task in range(tasks))
    assert max(masters.took_s) < MOST_S


@pytest.mark.long
def test_without_the_database_nothing_is_decided_and_then_work_goes_on(masters: Masters) -> None:
    grid = masters.grid
    masters.submit(48)
    grid.until(lambda: masters.progress()[1] > 0, "the first tasks to end", 120)
    grid.sh(DATABASE, "labctl stop postgresql")
    grid.until(lambda: min(masters.count(host, "lease_unknown") for host in HOSTS), "both masters to notice", 60)
    ledger = grid.sh(HOSTS[0], f"sleep 5; cat {SHARED}/ledger/c.1")
    grid.sh(HOSTS[0], "sleep 15")
    later = grid.sh(HOSTS[0], f"cat {SHARED}/ledger/c.1")
    grid.sh(DATABASE, "labctl start postgresql")
    grid.until(lambda: masters.progress()[0] != "in_treatment", "the campaign to end", 300)

    assert later == ledger
    assert masters.runs() == sorted(f"1.{task}" for task in range(48))
