"""Faults of the site, one for each check item, and the rounds in which they are made and repaired.

The faults of a round do not affect each other: all are made at once, reported at once, and each is
repaired by the commands that the check printed for it; afterwards the check finds no problem.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tests.lab.grid import Grid

MASTER = "alpha-master"
TOML = "/etc/gridbridge/gridbridge.toml"
METHODS = "/opt/gridbridge/sge-methods"
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
pid=$(pgrep -o -u gridbridge -f transfer.poller.program); kill -STOP "$pid"
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
TIDY = f"""
qconf -dp loud >/dev/null; beta qconf -dp loud >/dev/null
sed -i '/resource.colour/,$d' {TOML}
if qconf -sc | grep -q ^colour; then
    qconf -dattr queue complex_values colour=0 transfer-beta
    qconf -sc | sed '/^colour /d' >c && qconf -Mc c
fi
true
"""

Break = tuple[str, str]  # the item, and the script that breaks it; `beta-master: ` before it: there
Item = Mapping[str, Any]

ROUNDS: tuple[Mapping[str, Break], ...] = (
    {
        "starter-not-executable": (f"program {METHODS}/starter", f"chmod 0700 {METHODS}/starter"),
        "program-of-another": (f"program {METHODS}/epilog", f"chown alice {METHODS}/epilog"),
        "package-writable": (
            "folder /opt/gridbridge/venv",
            "chmod 0666 /opt/gridbridge/venv/lib/python3*/site-packages/gridbridge/errors.py",
        ),
        "methods-writable": (f"folder {METHODS}", f"chmod 0777 {METHODS}"),
        "published-writable": ("folder /var/lib/gridbridge/published", "chmod 0777 /var/lib/gridbridge/published"),
        "spool-listable": ("folder /var/spool/gridbridge", "chmod 1777 /var/spool/gridbridge"),
        "no-wake-folder": ("folder /var/spool/gridbridge/wake", "rm -rf /var/spool/gridbridge/wake"),
        "sudoers-mode": ("sudoers /etc/sudoers.d/gridbridge", "chmod 0644 /etc/sudoers.d/gridbridge"),
        "state-readable": ("state file", "chmod 0644 /var/lib/gridbridge/state.db"),
        "alpha-submit-host": ("alpha: submit host alpha-master", "qconf -ds alpha-master"),
        "alpha-operator": ("alpha: operator gridbridge", "qconf -do gridbridge"),
        "beta-operator": ("beta: operator gridbridge", "beta qconf -do gridbridge"),
        "remote-not-requestable": ("complex remote", "complex remote 'remote remote BOOL == NO NO 0 0'"),
        "pending-relation": (
            "complex gb_beta_pending",
            "complex gb_beta_pending 'gb_beta_pending gb_beta_pending INT <= NO NO 0 0'",
        ),
        "no-free": ("complex gb_beta_free", "complex gb_beta_free 'gb_beta_free gb_beta_free INT >= NO NO 0 0'"),
        "home-queue-without-remote": ("queue all.q", "qconf -dattr queue complex_values remote=FALSE all.q"),
        "remote-on-global": ("host global", "qconf -aattr exechost complex_values remote=FALSE global"),
        "queue-order": ("queue order", "scheduler queue_sort_method load"),
        "damping-time": ("damping time", "scheduler load_adjustment_decay_time 0:0:0"),
        "gid-range": ("gid_range", f"host '{SENSOR}\ngid_range 20000-20219'"),  # beta's alone
        "resource-nowhere": (
            "queue transfer-beta: resource colour",
            "complex colour 'colour colour INT <= YES NO 0 0';"
            f" printf '[map.beta.resource.colour]\nto = \"x\"\n' >>{TOML}",
        ),
        "thresholds": ("queue transfer-beta: load_thresholds", "queue load_thresholds np_load_avg=1.75"),
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
        "pe-that-splits": ("queue transfer-beta: pe mpi", "qconf -aattr queue pe_list mpi transfer-beta"),
        "pe-missing": ("queue transfer-beta: pe smp", "qconf -dattr queue pe_list smp transfer-beta"),
    },
    {
        "damping": ("damping", "scheduler job_load_adjustments np_load_avg=0.50"),
        "methods-closed": (f"program {METHODS}/sensor", f"chmod 0700 {METHODS}"),
        "spool-of-another": ("folder /var/spool/gridbridge", "chown alice /var/spool/gridbridge"),
        "verdicts-a-link": (
            "folder /var/lib/gridbridge/published/verdicts",
            "cd /var/lib/gridbridge/published; rm -rf verdicts.wrong; mv verdicts aside; ln -s aside verdicts",
        ),
        "report-time": ("load report time", f"host '{SENSOR}\nload_report_time 00:00:40'"),
        "sudoers-line": ("sudoers /etc/sudoers.d/gridbridge", "echo '# nothing' >/etc/sudoers.d/gridbridge"),
        "pe-with-procedures": ("queue transfer-beta: pe loud", PROCEDURES),
        "person-missing": ("userset gb_delta_users", "qconf -du bob gb_delta_users"),
        "open-to-all": ("queue transfer-gamma: user_lists", "qconf -rattr queue user_lists NONE transfer-gamma"),
        "disabled": ("queue transfer-beta@alpha-master: state", "qmod -d transfer-beta"),
        "beta-submit-host": ("beta: submit host alpha-master", "beta qconf -ds alpha-master"),
    },
    {
        "sudoers-grants-more": (
            "sudoers /etc/sudoers.d/gridbridge",
            "echo 'gridbridge ALL=(root) NOPASSWD: /bin/true' >>/etc/sudoers.d/gridbridge",
        ),
        "package-unreadable": ("programs run as a user", "chmod 0700 /opt/gridbridge/venv/lib"),
        "no-sensor": ("load sensor", "host 'load_sensor none'"),
        "beta-admin-host": ("beta: admin host alpha-master", "beta-master: qconf -dh alpha-master"),
    },
    {"sensor-not-started": ("load values", BLIND)},
    {
        "no-sudoers": ("sudoers /etc/sudoers.d/gridbridge", "rm /etc/sudoers.d/gridbridge"),
        "error-state": ("queue transfer-beta@alpha-master: state", FAILED),
    },
    {"poller-frozen": ("poller", FROZEN), "qmaster-down": ("beta: qmaster", "beta-master: labctl stop qmaster")},
    {  # root looks no further
        "configuration-of-another": (
            f"file {TOML}",
            f"chown alice {TOML}; chmod 0666 {TOML}; chmod 0777 /etc/gridbridge",
        )
    },
    {"no-queue": ("queue transfer-beta", "qconf -dq transfer-beta")},
)
NAMES = tuple(name for breaks in ROUNDS for name in breaks)
SLOW = ("sensor-not-started", "poller-frozen", "qmaster-down", "no-queue")
ITEMS = frozenset(item for breaks in ROUNDS for item, _ in breaks.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    item: str
    reported: Item  # with the commands that mend it; empty if it was not reported
    left: Mapping[str, Item]  # what was wrong in the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The lab's site, checked and repaired as its administrator would."""

    grid: Grid

    def check(self) -> dict[str, dict[str, Any]]:
        done = self.grid.on(MASTER, "gridbridge", "check", "--json")
        report = json.loads(done.out)
        broken = [item for item in report["items"] if item["state"] == "broken"]
        is_silent = bool(broken) and all(item["is_unanswered"] for item in broken)
        assert done.status == (75 if is_silent else ["ok", "warning", "broken"].index(report["worst"])), done
        return {each["name"]: each for each in report["items"]}

    def wrong(self) -> dict[str, dict[str, Any]]:
        found = self.check().items()
        return {name: each for name, each in found if each["state"] not in ("ok", "note")}

    def sh(self, script: str, host: str = MASTER) -> str:
        return self.grid.sh(host, script)

    def only_finding(self) -> Item:
        """Return the only problem, once the service uses the present configuration."""
        self.grid.until(lambda: len(self.wrong()) == 1, "a single finding", 30)
        (found,) = self.wrong().values()
        return found

    def settle(self) -> None:
        self.grid.until(lambda: not self.wrong(), "a check without findings", 60)

    @contextmanager
    def changed(self, script: str, undo: str = "true") -> Iterator[None]:
        """Change the site by a script; restore gridbridge.toml, and the rest by another script, afterwards."""
        self.sh(f"cp -p {TOML} /tmp/kept")
        try:
            self.sh(script)
            yield
        finally:
            self.sh(f"cp -p /tmp/kept {TOML}; {undo}")
        self.settle()


class Played:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._outcomes: dict[str, Outcome] = {}
        self._played: set[str] = set()

    def outcome(self, name: str) -> Outcome:
        """Return the outcome of a fault; for a retried test, make the fault again and alone."""
        breaks = next(breaks for breaks in ROUNDS if name in breaks)
        if name not in self._played:
            self._played |= breaks.keys()
            self._outcomes |= play(self._site, breaks)
        elif name not in self._outcomes:
            return play(self._site, {name: breaks[name]})[name]
        return self._outcomes.pop(name)


def play(site: Site, breaks: Mapping[str, Break]) -> dict[str, Outcome]:
    for _, script in breaks.values():
        _break(site, script)
    reported = _reported(site, {item for item, _ in breaks.values()})
    for found in reported.values():
        for command in found["commands"]:
            site.sh(command, found["where"] or MASTER)
    site.sh(f"{CELLS}{TIDY}")
    left = _left(site)
    return {
        name: Outcome(item=item, reported=reported.get(item, MappingProxyType({})), left=left)
        for name, (item, _) in breaks.items()
    }


def _break(site: Site, script: str) -> None:
    """Run the commands that make a fault; raise no error if a command fails."""
    host, _, there = script.partition(": ") if script.startswith("beta-") else (MASTER, "", script)
    site.grid.on(host, "sh", "-c", CELLS + there)


def _reported(site: Site, items: set[str]) -> dict[str, Item]:
    found: dict[str, Item] = {}

    def is_complete() -> bool:
        wrong = site.wrong()
        found.update({name: wrong[name] for name in items & wrong.keys() if wrong[name]["commands"]})
        return found.keys() == items

    with suppress(AssertionError):  # the test of what is missing tells
        site.grid.until(is_complete, f"{items} to be reported with what mends them", 100)
    return found


def _left(site: Site) -> dict[str, Item]:
    """Wait for a check without problems; return the problems that remain after the time limit."""
    try:
        site.settle()
    except AssertionError:
        return dict(site.wrong())
    return {}
