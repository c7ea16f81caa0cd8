"""Runners of two hosts share a PostgreSQL database: one is killed or stopped while it sends, the other takes over."""

import time
from collections.abc import Iterator
from itertools import cycle, islice

import pytest

from tests.campaigns.runner.test_embedded_site import BIN, ENDED, Campaigns
from tests.state.postgresql import Server

pytestmark = [pytest.mark.apart, pytest.mark.root]

LEASE_S = 3
MOST_S = 30  # of a takeover
MASTERS = (
    f'/^cluster = "alpha"/s|$|\\nstate = "{{}}"\\nmaster_lease_s = {LEASE_S}|; s|^interval_s = 5|&\\ngroup_below_s = 0|'
)
# A host has the folders of the other hosts, and a name, locks and logs of its own.
HOST = """
mkdir -p /mnt/{0}/home/published && cat >/mnt/{0}/start <<'END'
hostname {0} && mount --bind /var/lib/gridbridge/published /mnt/{0}/home/published &&
mount --rbind /mnt/{0}/home /var/lib/gridbridge && {2}
exec unshare --user --map-user=$1 --map-group=$2 -- {1}/gridbridge-{3}
END
unshare --user --map-root-user --mount --uts sh /mnt/{0}/start $(id -u) $(id -g) >>/mnt/{0}/log 2>&1 &
echo $! >/mnt/{0}/pid
"""
ELSEWHERE = "mkdir -p -m 700 /mnt/ledger && mount --bind /mnt/ledger /var/lib/gridbridge-ledger &&"
SENDS = "pgrep -f '[s]end-arrays'"


class TwoMasters(Campaigns):
    def start(self, host: str, also: str = "") -> None:
        self.sh(HOST.format(host, BIN, also, "runner --loop"))

    def status_of(self, host: str, program: str, also: str = "") -> str:
        """Run a program on a host to its end; return its exit status."""
        return self.sh(f"{HOST.format(host, BIN, also, program)} wait $!; echo $?").strip()

    def signal(self, host: str, name: str) -> None:
        self.sh(f"kill -{name} $(cat /mnt/{host}/pid)")

    def until_logged(self, host: str, event: str, times: int = 1) -> None:
        self.until(f"[ $(grep -c event={event} /mnt/{host}/log) -ge {times} ]")

    def times_led(self, host: str) -> int:
        return int(self.sh(f"grep -c event=leads /mnt/{host}/log || true"))

    def lose_leader(self, leader: str, other: str, how: str) -> float:
        """Kill or stop the leader while it sends; return the seconds until the other leads. Then let it try again."""
        before, deposed = self.times_led(other), int(self.sh(f"grep -c event=deposed /mnt/{leader}/log || true"))
        self.until(f"{{ {SENDS} || {ENDED}; }} >/dev/null")
        self.signal(leader, how)
        began_s = time.monotonic()
        self.until_logged(other, "leads", before + 1)
        took_s = time.monotonic() - began_s
        if how == "STOP":
            self.signal(leader, "CONT")
            self.until_logged(leader, "deposed", deposed + 1)
        else:
            self.start(leader)
        return took_s

    def close(self) -> None:
        for host in ("a", "b"):
            self.type(f"kill -KILL $(cat /mnt/{host}/pid)")
        super().close()


@pytest.fixture
def masters(apart: tuple[str, ...], postgresql: Server) -> Iterator[TwoMasters]:
    made = TwoMasters(apart)
    made.sh(f"sed -i '{MASTERS.format(postgresql.new())}' /etc/gridbridge/gridbridge.toml")
    yield made
    made.close()


@pytest.mark.parametrize("takeovers", [2, pytest.param(20, marks=pytest.mark.long)])
def test_each_task_runs_once_although_leaders_die_and_hang_while_they_send(masters: TwoMasters, takeovers: int) -> None:
    tasks = 10 * takeovers
    masters.start("a")
    masters.until_logged("a", "leads")
    masters.start("b")
    masters.until_logged("b", "waits_for_lead")
    clusters: dict[str, object] = {"alpha": {}, "beta": {}}
    run = "echo $CIGRI_JOB_ID >>/mnt/ran; sleep 1 #"
    masters.submit({"name": "once", "nb_jobs": tasks, "exec_file": run, "type": "normal", "clusters": clusters})
    leader, other, took_s = "a", "b", []
    for how in islice(cycle(("STOP", "KILL")), takeovers):
        took_s.append(masters.lose_leader(leader, other, how))
        leader, other = other, leader
    deadline_s = time.monotonic() + 60 + 5 * tasks
    while masters.type(ENDED)[1] != "0":
        assert time.monotonic() < deadline_s, masters.sh("tail -n 30 /mnt/a/log /mnt/b/log")
        time.sleep(0.5)

    assert sorted(masters.sh("cat /mnt/ran").split()) == sorted(f"1.{task}" for task in range(tasks))
    assert set(masters.outcomes().values()) == {("success", 1)}
    assert max(took_s) < MOST_S


def test_a_program_ends_if_another_master_leads_or_the_ledger_is_not_shared(masters: TwoMasters) -> None:
    """Cron runs a program once. A copy of the ledger is not the ledger."""
    masters.start("a")
    masters.until_logged("a", "leads")
    statuses = [masters.status_of("b", program) for program in ("runner", "nikita")]
    statuses.append(masters.status_of("b", "runner --loop", ELSEWHERE))
    unshared = masters.sh("tail -n 1 /mnt/b/log")
    masters.sh("cp -a /var/lib/gridbridge-ledger/. /mnt/ledger/")
    statuses.append(masters.status_of("b", "runner --loop", ELSEWHERE))

    assert statuses == ["1", "0", "3", "3"]
    assert "another master leads: a" in masters.sh("cat /mnt/b/log")
    assert unshared.endswith(
        "gridbridge-runner: /var/lib/gridbridge-ledger: this is not the folder that the master of term 1 used;"
        " expected a filesystem that all masters share\n"
    )
    assert "Traceback" not in masters.sh("cat /mnt/b/log")
