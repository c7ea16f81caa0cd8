"""A campaign over embedded clusters, run by a user without root: see docs/how-to/embedded.md."""

import json
from collections.abc import Iterator

import pytest

from gridbridge.model.fixed_paths import LEDGER
from tests.apart import PYTHON, Apart

pytestmark = pytest.mark.apart

BIN = f"{PYTHON} -I /opt/gridbridge/venv/bin"
GAMMA = '[cluster.gamma]\nkind = "embedded"\nfolder = "/mnt/gamma"\n'
QUICK = "[runner]\ninterval_s = 5\n"
ENDS = 'sh -c "case $1$CIGRI_CLUSTER in 1*) exit 7 ;; 4gamma) sleep 60 ;; esac; echo did $1" sh'
EMBEDDED = f"{PYTHON} -I -m gridbridge.batch.embedded"
AS_USER = f"{PYTHON} -I -m gridbridge.privileged.as_user"
HANG = (
    'import os, sqlite3, time; db = sqlite3.connect("/mnt/alpha/jobs.db", isolation_level=None);'
    ' db.execute("BEGIN EXCLUSIVE"); open("/mnt/hangs", "w");'
    '\nwhile os.path.exists("/mnt/hangs"): time.sleep(0.05)'
)
ENDED = f"{BIN}/gridstat 1 | grep -q ' Te* *[0-9]'"
UNTIL = "until [ -e /mnt/go ]; do sleep 0.1; done"


class Campaigns(Apart):
    """Embedded clusters alpha, beta and gamma with two slots each, and a runner that the test starts."""

    def __init__(self, become: tuple[str, ...]) -> None:
        super().__init__(become)
        self.sh("cp /opt/gridbridge/conf/embedded.toml /etc/gridbridge/gridbridge.toml")
        self.sh(f"cat >>/etc/gridbridge/gridbridge.toml <<'END'\n{GAMMA}{QUICK}END")
        for name in ("alpha", "beta", "gamma"):
            self.embedded(name, "create --slots=2")

    def embedded(self, cluster: str, words: str) -> str:
        return self.sh(f"{EMBEDDED} /mnt/{cluster} {words}")

    def submit(self, jdl: dict[str, object]) -> None:
        """Submit a campaign, and wait until its file is in the inbox."""
        asked = json.dumps({"exec_directory": "/mnt", "walltime": "0:10", **jdl})
        self.sh(f"{BIN}/gridsub - <<'END' >/mnt/told & \n{asked}\nEND\n")
        self.until("ls -R /var/spool/gridbridge/campaigns | grep -q '^new'")

    def until(self, look: str) -> None:
        self.sh(f"for n in $(seq 600); do {look} && exit; sleep 0.1; done; exit 1")

    def cycle(self) -> str:
        return self.sh(f"{BIN}/gridbridge-runner")

    def cycles(self, look: str) -> None:
        last = self.sh(
            f"for n in $(seq 40); do {BIN}/gridbridge-runner; {look} && echo seen && exit;"
            f" sleep 0.3; done; {BIN}/gridstat 1 -f"
        )
        assert last.endswith("seen\n"), last

    def until_ended(self) -> None:
        self.cycles(ENDED)

    def outcomes(self) -> dict[str, tuple[str, int]]:
        told = json.loads(self.sh(f"{BIN}/gridstat 1 -f -d"))
        return {str(one["task"]): (one["state"], one["attempt"]) for one in told["jobs"]}


@pytest.fixture
def site(apart: tuple[str, ...]) -> Iterator[Campaigns]:
    made = Campaigns(apart)
    yield made
    made.close()


def test_a_campaign_runs_each_task_once_and_its_output_is_fetched(site: Campaigns) -> None:
    clusters = {"alpha": {}, "beta": {}, "gamma": {"walltime": "0:0:2"}}
    run = f"echo $CIGRI_JOB_ID >>/mnt/ran; {ENDS}"
    jdl = {"name": "ends", "nb_jobs": 8, "exec_file": run, "type": "normal", "clusters": clusters}
    site.submit(jdl)
    site.until_ended()
    outcomes = site.outcomes()
    ran = site.sh("sort /mnt/ran").split()

    assert outcomes == {str(n): ("success", 1) for n in range(8)} | {"1": ("program_error", 1), "4": ("success", 2)}
    assert ran == sorted([*(f"1.{n}" for n in range(8)), "1.4"])
    assert "CAMPAIGN_ID=1" in site.sh("cat /mnt/told")
    site.sh(f"{BIN}/gridfetch 1 /mnt/out")
    assert site.sh("cat /mnt/out/0.1.out") == "did 0\n"


def test_a_preempted_task_is_retried_and_a_hanging_cluster_loses_no_task(site: Campaigns) -> None:
    run = f"echo $CIGRI_JOB_ID >>/mnt/ran; {UNTIL} #"
    clusters: dict[str, object] = {"alpha": {}, "beta": {}}
    site.submit({"name": "way", "nb_jobs": 4, "exec_file": run, "clusters": clusters})
    site.cycles("[ $(wc -l </mnt/ran) = 4 ]")
    local = site.embedded("beta", "submit --name=local <<'END'\nsleep 1\nEND").strip()
    site.until(f"{EMBEDDED} /mnt/beta ended {local} | grep -q exit")
    site.sh(f"{PYTHON} -I -c '{HANG}' &")
    site.until("[ -e /mnt/hangs ]")
    site.cycles(f"{BIN}/gridevents -g | grep -q GET_JOBS")  # an earlier snapshot may still be used
    events = site.sh(f"{BIN}/gridevents -g")
    site.sh("rm /mnt/hangs; touch /mnt/go")
    site.until_ended()

    assert "GET_JOBS" in events
    assert sorted(site.outcomes().values()) == [*[("success", 1)] * 3, ("success", 2)]
    assert len(site.sh("cat /mnt/ran").split()) == 5


@pytest.mark.twin
def test_a_personal_ledger_refuses_repeated_attempts_and_changed_files(site: Campaigns) -> None:
    site.submit({"name": "once", "nb_jobs": 2, "exec_file": "true", "clusters": {"alpha": {}}})
    site.until_ended()
    again, _ = site.type(f"{AS_USER} send-arrays c.1 alpha 99 0:1")
    site.sh("cd /var/spool/gridbridge/campaigns && sed s/true/false/ c.1 >n && cat n >c.1")
    told, changed = site.type(f"{AS_USER} send-arrays c.1 alpha 99 0:2")

    assert again.startswith("5 0 ")
    assert changed == "2"
    assert "the file has changed since" in told


@pytest.mark.twin
def test_no_attempt_is_submitted_while_an_earlier_attempt_is_alive(site: Campaigns) -> None:
    site.submit({"name": "one", "nb_jobs": 1, "exec_file": f"echo >>/mnt/ran; {UNTIL} #",
                 "clusters": {"alpha": {}, "beta": {}}})  # fmt: skip
    site.cycles("[ -s /mnt/ran ]")
    early, _ = site.type(f"{AS_USER} send-arrays c.1 beta 98 0:2")
    twice, _ = site.type(f"{AS_USER} send-arrays c.1 beta 98 0:2,0:3")
    site.sh("touch /mnt/go")
    site.until_ended()
    late, _ = site.type(f"{AS_USER} send-arrays c.1 beta 99 0:2")

    assert late.startswith("8 0 ")
    assert "the campaign has ended" in late
    assert early.startswith("75 0 an earlier attempt of a task is still at alpha, in array 1")
    assert twice.startswith("75 0 ")


@pytest.mark.twin
def test_only_the_owner_reopens_an_ended_campaign(site: Campaigns) -> None:
    site.submit({"name": "one", "nb_jobs": 2, "exec_file": "test -e /mnt/go #", "clusters":
                 {"alpha": {}}})  # fmt: skip
    site.until_ended()
    _, by_itself = site.type(f"{AS_USER} take-up c.1 0123456789abcdef0123456789abcdef")
    sent, _ = site.type(f"{AS_USER} send-arrays c.1 alpha 99 0:2")
    site.sh(f"touch /mnt/go; {BIN}/gridevents -r -c 1 >/mnt/closed &")
    site.until("ls -R /var/spool/gridbridge/campaigns | grep -q '^ask'")
    site.until_ended()

    assert by_itself == "2"
    assert "the campaign has ended" in sent
    assert site.outcomes() == {"0": ("success", 2), "1": ("success", 2)}
    assert site.sh(f"grep -c -e ^end -e ^taken-up {LEDGER}/c.1") == "3\n"


@pytest.mark.twin
def test_a_cancelled_campaign_leaves_no_job_at_its_cluster(site: Campaigns) -> None:
    """While root's ledger is missing, the campaign stays open."""
    site.submit({"name": "gone", "nb_jobs": 9, "exec_file": f"echo >>/mnt/ran; {UNTIL} #",
                 "clusters": {"alpha": {}}})  # fmt: skip
    site.cycles("[ $(wc -l </mnt/ran) = 2 ]")
    site.sh(f"{BIN}/griddel 1 &")
    site.until("ls -R /var/spool/gridbridge/campaigns | grep -q '^ask'")
    site.sh(f"mv {LEDGER}/c.1 /mnt/c.1")
    site.cycles(f"{BIN}/gridevents 1 | grep -q NO_LEDGER")
    why, events = (site.sh(f"{BIN}/{each} 1") for each in ("gridbridge why", "gridevents"))
    listed = site.embedded("alpha", "list")
    site.sh(f"mv /mnt/c.1 {LEDGER}/c.1")
    site.cycles(f"! {EMBEDDED} /mnt/alpha list | grep -q ^id")
    site.cycles(f'[ -z "$({BIN}/gridevents 1 | tail -n +2)" ]')

    assert "the campaign is being cancelled: tasks at alpha have not ended yet" in why
    assert f"root can't read {LEDGER}/c.1, or that file lacks arrays at alpha" in events
    assert "id" in listed
    assert " C " in site.sh(f"{BIN}/gridstat 1")


@pytest.mark.twin
def test_nikita_executes_a_cancellation_while_the_runner_is_stopped(site: Campaigns) -> None:
    site.submit({"name": "gone", "nb_jobs": 2, "exec_file": f"echo >>/mnt/ran; {UNTIL} #",
                 "clusters": {"alpha": {}}})  # fmt: skip
    site.cycles("[ $(wc -l </mnt/ran) = 2 ]")
    site.sh(f"{BIN}/griddel 1 >/mnt/killed 2>&1 &")
    site.until("ls -R /var/spool/gridbridge/campaigns | grep -q '^ask'")
    said = site.sh(f"{BIN}/gridbridge-nikita")
    site.until(f"! {EMBEDDED} /mnt/alpha list | grep -q ^id")
    site.cycle()

    assert said == "wiped: 2 tasks of campaign 1 at alpha, which their owner cancelled\n"
    assert " C " in site.sh(f"{BIN}/gridstat 1")


@pytest.mark.twin
def test_tasks_at_a_removed_cluster_are_reported_and_retried(site: Campaigns) -> None:
    run = f"echo $CIGRI_JOB_ID >>/mnt/ran; {UNTIL} #"
    clusters: dict[str, object] = {"alpha": {}, "gamma": {}}
    site.submit({"name": "left", "nb_jobs": 4, "exec_file": run, "clusters": clusters})
    site.cycles("[ $(wc -l </mnt/ran) = 4 ]")
    site.sh("sed -i '/cluster.gamma/,/folder/d' /etc/gridbridge/gridbridge.toml; touch /mnt/go")
    site.cycles(f"{BIN}/gridstat 1 -f | grep -c success | grep -q 2")
    told = site.sh(f"{BIN}/gridevents -g; {BIN}/gridbridge why 1; {BIN}/gridstat 1")
    site.sh(f"{BIN}/gridevents -e $({BIN}/gridevents -g | awk '/DROPPED/ {{print $1}}') -r &")
    site.until("ls -R /var/spool/gridbridge/campaigns | grep -q '^ask'")
    site.until_ended()
    outcomes = sorted(site.outcomes().values())

    assert told.count("gridbridge.toml has no [cluster.gamma] any more") == 2
    assert " Re " in told
    assert outcomes == [("success", 1), ("success", 1), ("success", 2), ("success", 2)]


@pytest.mark.twin
def test_two_runners_submit_no_task_twice(site: Campaigns) -> None:
    runner = f"{BIN}/gridbridge-runner"
    site.submit({"name": "once", "nb_jobs": 12, "exec_file": "echo $CIGRI_JOB_ID >>/mnt/ran #",
                 "type": "normal", "clusters": {"alpha": {}, "beta": {}}})  # fmt: skip
    site.sh(f"{runner} --loop 2>/mnt/log & echo $! >/mnt/first")
    site.until("grep -q CAMPAIGN_ID /mnt/told")
    second = site.type(runner)
    site.sh("kill $(cat /mnt/first)")
    site.until("! kill -0 $(cat /mnt/first) 2>/dev/null")
    at_once = f"for n in 1 2 3; do {runner} >>/mnt/said 2>&1 & done; wait"
    site.sh(f"for n in $(seq 20); do {at_once}; {ENDED} && exit; done; exit 1")

    assert second == ("gridbridge-runner: another instance runs\n", "1")
    assert site.sh("sort -t. -k2n /mnt/ran").split() == [f"1.{n}" for n in range(12)]
    assert "another instance runs" in site.sh("cat /mnt/said")


def test_shell_and_sql_code_in_names_and_parameters_is_not_executed(site: Campaigns) -> None:
    odd = "x'; DROP TABLE campaigns; -- $(touch /mnt/evil) `touch /mnt/evil` | touch /mnt/evil"
    site.submit({"name": odd, "params": [f'a "{odd}"', "b ; touch /mnt/evil"],
                 "exec_file": "sh -c 'printf \"%s\\n\" \"$2\" >>/mnt/ran' sh",
                 "clusters": {"alpha": {}}})  # fmt: skip
    site.until_ended()
    (told,) = json.loads(site.sh(f"{BIN}/gridstat 1 --json"))

    assert (told["name"], told["ended"], told["failed"]) == (odd, 2, 0)
    assert sorted(site.sh("cat /mnt/ran").splitlines()) == [";", odd]
    assert site.type("ls /mnt/evil")[1] != "0"


@pytest.mark.twin
def test_old_decisions_are_deleted_without_a_poller(site: Campaigns) -> None:
    old = "INSERT INTO decisions (at, program, sentence, inputs)"
    old += " SELECT '2020' || substr(at, 5), program, 'of old', inputs FROM decisions"
    count = "SELECT sum(sentence = 'of old'), count(*) > 0 FROM decisions"
    asked = f"{PYTHON} -I -c 'import sqlite3, sys; db = sqlite3.connect(sys.argv[1]);"
    asked += " print(*db.execute(sys.argv[2]).fetchall()); db.commit()' /var/lib/gridbridge/state.db"
    site.submit({"name": "one", "nb_jobs": 1, "exec_file": "true", "clusters": {"alpha": {}}})
    site.until_ended()
    site.sh(f'{asked} "{old}"')
    before = site.sh(f'{asked} "{count}"')
    site.cycle()

    assert not before.startswith("(0,")
    assert site.sh(f'{asked} "{count}"').startswith("(0, 1)")
