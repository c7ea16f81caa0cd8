"""Every item of the check is broken, reported, mended by the very command it printed, and well."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

MASTER = "alpha-master"
METHODS = "/opt/gridbridge/sge-methods"
TOML = "/etc/gridbridge/gridbridge.toml"
CELLS = """
PATH=$PATH:/usr/lib/gridengine; cd /tmp; export SGE_SINGLE_LINE=1
beta() { SGE_CELL=beta SGE_QMASTER_PORT=6454 SGE_EXECD_PORT=6455 "$@"; }
host() { echo "$1" >alpha-master; qconf -Mconf alpha-master; }
scheduler() { qconf -ssconf | sed "s/^$1 .*/$1 $2/" >s && qconf -Msconf s; }
complex() { qconf -sc | sed "/^$1 /d" >c && echo "$2" >>c && qconf -Mc c; }
queue() { qconf -rattr queue "$1" "$2" transfer-beta; }
"""
SENSOR = f"load_sensor {METHODS}/sensor"
BLIND = """
host 'load_sensor none'
while qconf -se alpha-master | grep -q gb_beta_up; do sleep 0.5; done
qconf -dconf alpha-master
echo 'load_sensor /opt/gridbridge/sge-methods/sensor' >alpha-master; qconf -Aconf alpha-master
"""  # an execd never notices its first configuration
FROZEN = """
pid=$(pgrep -u gridbridge -f services.poller); kill -STOP "$pid"
f=/var/lib/gridbridge/published/load
sed "1s/.*/$(($(date +%s) - 1000)) 30/" $f >$f.new; chown gridbridge: $f.new; mv $f.new $f
"""
FAILED = f"""
mv {METHODS}/starter {METHODS}/away
job=$(su alice -c 'PATH=$PATH:/usr/lib/gridengine qsub -terse -l remote=true -b y true')
n=0; until qstat -f -q transfer-beta | grep -q 'E$'; do sleep 0.5; n=$((n+1)); [ $n -lt 80 ]; done
qdel "$job"; mv {METHODS}/away {METHODS}/starter
"""
PROCEDURES = """
edit='s/^pe_name .*/pe_name loud/; s|^start_proc_args .*|start_proc_args /bin/true|'
qconf -sp smp | sed "$edit" >pe
qconf -Ap pe; beta qconf -Ap pe; qconf -aattr queue pe_list loud transfer-beta
"""

CASES = {
    "starter-not-executable": (f"program {METHODS}/starter", f"chmod 0700 {METHODS}/starter"),
    "methods-closed": (f"program {METHODS}/sensor", f"chmod 0700 {METHODS}"),
    "program-of-another": (f"program {METHODS}/epilog", f"chown alice {METHODS}/epilog"),
    "package-unreadable": ("programs run as a user", "chmod 0700 /opt/gridbridge/venv/lib"),
    "configuration-writable": (f"file {TOML}", f"chmod 0666 {TOML}"),
    "published-writable": (
        "folder /var/lib/gridbridge/published",
        "chmod 0777 /var/lib/gridbridge/published",
    ),
    "spool-listable": ("folder /var/spool/gridbridge", "chmod 1777 /var/spool/gridbridge"),
    "spool-of-another": ("folder /var/spool/gridbridge", "chown alice /var/spool/gridbridge"),
    "verdicts-a-link": (
        "folder /var/lib/gridbridge/published/verdicts",
        "cd /var/lib/gridbridge/published; rm -rf verdicts.wrong; mv verdicts aside;"
        " ln -s aside verdicts",
    ),
    "no-wake-folder": (
        "folder /var/spool/gridbridge/wake",
        "rm -rf /var/spool/gridbridge/wake",
    ),
    "no-sudoers": ("sudoers /etc/sudoers.d/gridbridge", "rm /etc/sudoers.d/gridbridge"),
    "sudoers-mode": ("sudoers /etc/sudoers.d/gridbridge", "chmod 0644 /etc/sudoers.d/gridbridge"),
    "sudoers-line": (
        "sudoers /etc/sudoers.d/gridbridge",
        "echo '# nothing' >/etc/sudoers.d/gridbridge",
    ),
    "state-readable": ("state file", "chmod 0644 /var/lib/gridbridge/state.db"),
    "poller-frozen": ("poller", FROZEN),
    "qmaster-down": ("beta: qmaster", "beta-master: labctl stop qmaster"),
    "beta-submit-host": ("beta: submit host alpha-master", "beta qconf -ds alpha-master"),
    "beta-admin-host": ("beta: admin host alpha-master", "beta-master: qconf -dh alpha-master"),
    "beta-operator": ("beta: operator gridbridge", "beta qconf -do gridbridge"),
    "alpha-submit-host": ("alpha: submit host alpha-master", "qconf -ds alpha-master"),
    "alpha-operator": ("alpha: operator gridbridge", "qconf -do gridbridge"),
    "remote-not-requestable": (
        "complex remote",
        "complex remote 'remote remote BOOL == NO NO 0 0'",
    ),
    "pending-relation": (
        "complex gb_beta_pending",
        "complex gb_beta_pending 'gb_beta_pending gb_beta_pending INT <= NO NO 0 0'",
    ),
    "no-free": (
        "complex gb_beta_free",
        "complex gb_beta_free 'gb_beta_free gb_beta_free INT >= NO NO 0 0'",
    ),
    "home-queue-without-remote": (
        "queue all.q",
        "qconf -dattr queue complex_values remote=FALSE all.q",
    ),
    "remote-on-global": (
        "host global",
        "qconf -aattr exechost complex_values remote=FALSE global",
    ),
    "queue-order": ("queue order", "scheduler queue_sort_method load"),
    "damping": ("damping", "scheduler job_load_adjustments np_load_avg=0.50"),
    "damping-time": ("damping time", "scheduler load_adjustment_decay_time 0:0:0"),
    "gid-range": ("gid_range", f"host '{SENSOR}\ngid_range 20000-20010'"),
    "report-time": ("load report time", f"host '{SENSOR}\nload_report_time 00:00:40'"),
    "no-sensor": ("load sensor", "host 'load_sensor none'"),
    "sensor-not-started": ("load values", BLIND),
    "thresholds": (
        "queue transfer-beta: load_thresholds",
        "queue load_thresholds np_load_avg=1.75",
    ),
    "not-rerunnable": ("queue transfer-beta: rerun", "queue rerun FALSE"),
    "slots": ("queue transfer-beta: slots", "queue slots 3"),
    "seq-no": ("queue transfer-beta: seq_no", "queue seq_no 0"),
    "no-starter": ("queue transfer-beta: starter_method", "queue starter_method NONE"),
    "no-terminate": ("queue transfer-beta: terminate_method", "queue terminate_method NONE"),
    "wall-clock-limit": ("queue transfer-beta: h_rt", "queue h_rt 1:0:0"),
    "queue-says-false": (
        "queue transfer-beta: remote",
        "qconf -mattr queue complex_values remote=FALSE transfer-beta",
    ),
    "pe-that-splits": (
        "queue transfer-beta: pe mpi",
        "qconf -aattr queue pe_list mpi transfer-beta",
    ),
    "pe-with-procedures": ("queue transfer-beta: pe loud", PROCEDURES),
    "pe-missing": ("queue transfer-beta: pe smp", "qconf -dattr queue pe_list smp transfer-beta"),
    "no-queue": ("queue transfer-beta", "qconf -dq transfer-beta"),
    "disabled": ("queue transfer-beta@alpha-master: state", "qmod -d transfer-beta"),
    "error-state": ("queue transfer-beta@alpha-master: state", FAILED),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The lab's site, checked and mended as its administrator would."""

    grid: Grid

    def check(self) -> dict[str, dict[str, Any]]:
        """Return every item of the check by its name."""
        done = self.grid.on(MASTER, "gridbridge", "check", "--json")
        assert done.status in (0, 1, 2), done
        report = json.loads(done.out)
        assert done.status == ["ok", "warning", "broken"].index(report["worst"])
        return {each["name"]: each for each in report["items"]}

    def wrong(self) -> dict[str, dict[str, Any]]:
        """Return the items that are not ok."""
        return {name: each for name, each in self.check().items() if each["state"] != "ok"}

    def sh(self, script: str, host: str = MASTER) -> str:
        """Run a script of root's."""
        return self.grid.sh(host, script)

    def settle(self) -> None:
        """Wait until nothing is wrong."""

        def is_well() -> bool:
            return not self.wrong()

        self.grid.until(is_well, "a check without findings", 60)


@pytest.fixture(scope="module")
def site(all_open: None) -> Iterator[Site]:
    site = Site(grid=Grid())
    site.sh("gridbridge setup host --apply && gridbridge setup transfer beta --apply")
    site.settle()
    yield site
    site.sh("gridbridge setup host --apply && gridbridge setup transfer beta --apply")
    site.settle()


@pytest.mark.parametrize(("item", "breaks"), CASES.values(), ids=CASES)
def test_what_is_broken_is_reported_and_mended_by_the_printed_command(
    item: str, breaks: str, site: Site
) -> None:
    host, _, script = breaks.partition(": ") if breaks.startswith("beta-") else (MASTER, "", breaks)
    site.sh(CELLS + script, host)

    def reported() -> dict[str, Any] | None:
        """Return the item with what mends it; an execd just started has yet to report."""
        found = site.wrong().get(item, {})
        return found if found.get("commands") else None

    found = site.grid.until(reported, f"{item} to be reported with what mends it", 100)
    for command in found["commands"]:
        site.sh(command, found["where"] or MASTER)
    site.sh(CELLS + "qconf -dp loud >/dev/null; beta qconf -dp loud >/dev/null; true")

    assert found["commands"]
    site.settle()


def test_an_ordinary_user_is_told_what_he_may_not_see_and_nothing_is_broken(site: Site) -> None:
    done = site.grid.on(MASTER, "gridbridge", "check", "--json", user="alice")

    wrong = [each for each in json.loads(done.out)["items"] if each["state"] != "ok"]
    assert done.status == 1
    assert {each["name"]: (each["state"], each["found"]) for each in wrong} == {
        "user": ("warning", "not root"),
        "sudoers /etc/sudoers.d/gridbridge": ("warning", "not visible to this user"),
    }


def test_an_ordinary_users_set_up_says_what_it_may_not_see(site: Site) -> None:
    done = site.grid.on(MASTER, "gridbridge", "setup", "host", user="alice")

    assert (done.status, done.out) == (2, "")
    assert done.err.endswith("not visible to this user; run it as root\n")


def test_a_missing_account_is_made_by_the_printed_command(site: Site) -> None:
    site.sh(
        f"cp -p {TOML} /tmp/kept;"
        f" sed -i '/^#service_account/s/.*/service_account = \"gbx\"/' {TOML}"
    )
    try:
        (command,) = site.check()["account gbx"]["commands"]
        site.sh(command)

        assert site.check()["account gbx"]["state"] == "ok"
    finally:
        site.sh(f"cp -p /tmp/kept {TOML}; userdel gbx")
    site.settle()


def test_a_configuration_without_queues_is_a_warning_that_setup_mends(site: Site) -> None:
    site.sh(f"cp -p {TOML} /tmp/kept; sed -i '/^.queue/,/^.poller/{{/^.poller/!d}}' {TOML}")
    try:
        (found,) = site.wrong().values()
        site.sh(*found["commands"])

        assert found["state"] == "warning"
        assert not site.wrong()
    finally:
        site.sh(f"cp -p /tmp/kept {TOML}; gridbridge setup transfer beta --apply")
    site.settle()


def test_a_spool_too_small_for_the_slots_is_a_warning_with_its_remedy(site: Site) -> None:
    few = "s/^#spool_files_per_uid.*/spool_files_per_uid = 799/"
    site.sh(f"cp -p {TOML} /tmp/kept; sed -i '{few}' {TOML}")
    try:
        (found,) = site.wrong().values()
        setup = site.grid.on(MASTER, "gridbridge", "setup", "transfer", "beta")
    finally:
        site.sh(f"cp -p /tmp/kept {TOML}")

    assert (found["state"], found["right"]) == ("warning", "1200 at least")
    assert "[poller]" in found["hint"]
    assert (setup.status, setup.err.count("\n")) == (0, 1)
    assert setup.err.startswith(f"warning: file {TOML}: spool_files_per_uid: 799, too few for 300")


def test_a_wrong_clock_is_a_warning(site: Site) -> None:
    site.sh("labctl stop qmaster && labctl start qmaster --faketime +2h", "beta-master")
    try:
        found = site.grid.until(lambda: site.wrong().get("beta: clock"), "beta's clock", 40)

        assert (found["state"], found["where"]) == ("warning", "beta-master")
        assert found["found"].startswith(("+71", "+72"))
    finally:
        site.sh("labctl restart qmaster", "beta-master")
    site.settle()


def test_an_untried_version_is_a_warning(site: Site) -> None:
    fake = '[ "$1" = -help ] \\&\\& { echo GE 6.2u5; exit; }; exec /usr/lib/gridengine/qconf "$@"'
    site.sh(
        "cp -as /usr/lib/gridengine /tmp/other && rm /tmp/other/qconf &&"
        f" printf '%s\\n' '#!/bin/sh' '{fake.replace(chr(92), '')}' >/tmp/other/qconf &&"
        f" chmod 755 /tmp/other/qconf && cp -p {TOML} /tmp/kept &&"
        f" sed -i '0,/^#binaries/s|^#binaries.*|binaries = \"/tmp/other\"|' {TOML}"
    )
    try:
        assert site.wrong()["alpha: version"]["found"] == "GE 6.2u5"
    finally:
        site.sh(f"cp -p /tmp/kept {TOML}; rm -r /tmp/other")
    site.settle()


def test_a_configuration_that_cannot_be_read_is_the_one_finding(site: Site) -> None:
    site.sh(f"cp -p {TOML} /tmp/kept; echo 'nonsense' >>{TOML}")
    try:
        found = site.check()
    finally:
        site.sh(f"cp -p /tmp/kept {TOML}")

    assert list(found) == [f"file {TOML}"]
