"""A campaign over embedded clusters, run by a user without root: see docs/how-to/embedded.md."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest

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


def test_short_tasks_run_several_in_a_job_and_each_keeps_its_own_end(site: Campaigns) -> None:
    """Task 5 kills its whole job once: tasks that had ended stay ended, and tasks that had not begun are resent."""
    run = (
        "echo $CIGRI_JOB_ID >>/mnt/ran; case $1 in 3) exit 7 ;; 5) mkdir /mnt/killed && kill -9 0 ;; esac; echo did $1"
    )
    site.submit({"name": "short", "nb_jobs": 20, "exec_file": f"sh -c '{run}' sh", "type": "normal",
                 "temporal_grouping": True, "clusters": {"alpha": {}}})  # fmt: skip
    site.until_ended()
    outcomes = site.outcomes()
    jobs = int(site.sh("ls /mnt/campaign.1 | grep -c ^group"))
    ran = Counter(site.sh("cat /mnt/ran").split())
    site.sh(f"{BIN}/gridfetch 1 /mnt/out")

    states = {task: state for task, (state, _) in outcomes.items()}
    assert states == dict.fromkeys(map(str, range(20)), "success") | {"3": "program_error", "5": "signal"}
    assert ran == dict.fromkeys((f"1.{n}" for n in range(20)), 1)
    assert jobs < 6
    assert site.sh("cat /mnt/out/7.*.out") == "did 7\n"


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
    site.sh(f"{BIN}/gridbridge-runner")

    assert not before.startswith("(0,")
    assert site.sh(f'{asked} "{count}"').startswith("(0, 1)")
