"""Complete campaign cycles at a site without a cluster of its own."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.campaigns.runner.campaign_situation_gatherer import CampaignSituationGatherer
from gridbridge.campaigns.runner.cycle_result_recorders import CampaignStatisticsRecorder
from gridbridge.campaigns.runner.plan_execution_and_root_ledger import CampaignPlanExecutor
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import FileServerLimitRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.config import configuration_file
from gridbridge.decisions.campaigns import campaign_cycle_planning as rules
from gridbridge.model.campaigns.campaign import CampaignArray, CampaignState
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_index_and_attempt_texts import FIRST_PROLOGUE_TASK
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.job_and_queue_states import JobState, JobStateFact
from gridbridge.model.jobs_and_accounting import ClusterArrayLimits, JobEnd
from gridbridge.shell.clock import Clock
from gridbridge.state import drains
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import made_campaign, made_snapshot
from tests.builders.programs import write_program
from tests.campaigns.runner.fake_clusters import Grid

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FILE = '[site]\ncluster = "alpha"\n' + "".join(
    f"[cluster.{name}]\nqmaster_port = 6444\nexecd_port = 6445\n" for name in ("beta", "gamma")
)
SLOTS = 4
WISH = JdlSettingsAtCluster(exec_file="run", is_besteffort=False)


class Cells(Grid):
    def delete_array_tasks(self, array: CampaignArray, places: tuple[range, ...]) -> None:
        self.told.append(f"end {array.number} {[*places[0]]}")


class Site:
    def __init__(self, database: StateFile, ran: str, more: str = "") -> None:
        self.policy = configuration_file.parse_configuration("FILE", f"{FILE}{more}".encode())
        self.campaigns = CampaignRows(database)
        self.grid, self.now = Cells(), NOON
        self.clock = Clock(lambda: self.now.timestamp(), lambda: 0.0)
        self.updator = CampaignSituationGatherer(self.policy, database, self.clock, ran=ran)
        known = vars(self.updator.end_finder)
        known["_query_task_ends"], known["_accounting_delays_by_cluster"] = (
            self._ends,
            lambda names: dict.fromkeys(names, 0.0),
        )
        vars(self.updator._asking)["fetch_snapshots"] = self._answers
        self.silent: set[str] = set()
        self.end: JobEnd | None = None  # of every task
        self.hanging: dict[str, ClusterJobListRow] = {}  # by cluster
        self.limits: dict[str, ClusterArrayLimits] = {}
        vars(self.updator._limits)["limits_of_clusters"] = lambda _: self.limits
        act = CampaignPlanExecutor(
            database, CampaignStatisticsRecorder(database), self.clock, self.policy.failures, self.grid
        )
        self.do = act.execute_plan

    def _answers(self, clusters: Iterable[str], *_: object) -> dict[str, ClusterSnapshot]:
        queue = QueueInstanceStatus(name="all.q@n1", slots_used=0, slots_reserved=0, slots_total=SLOTS)
        jobs = {name: {row.job_id: (row,)} for name, row in self.hanging.items()}
        facts = {"taken_at": self.now, "queues": (queue,), "free_slots": SLOTS}
        return {
            name: made_snapshot(cluster=name, jobs=jobs.get(name, {}), **facts)
            for name in clusters
            if name not in self.silent
        }

    def _ends(self, asked: Mapping[CampaignArray, object], _: object) -> dict[CampaignArray, dict[int, JobEnd]]:
        """Let the first task of each array fail and its other tasks succeed."""
        return {
            array: {
                place: self.end or JobEnd(exit_status=int(1 == place < array.size), wallclock_s=5.0)
                for place in range(1, array.size + 1)
            }
            for array in asked
        }

    def bring(
        self,
        tasks: int,
        type_: CampaignType = CampaignType.DEFAULT,
        *,
        is_idempotent: bool = False,
        wish: JdlSettingsAtCluster = WISH,
    ) -> None:
        clusters = dict.fromkeys(("beta", "gamma"), wish)
        jdl = Jdl(name="away", type=type_, clusters=clusters, is_idempotent=is_idempotent)
        self.campaigns.insert_campaign(made_campaign(jdl=jdl, tasks=tasks, submitted_at=NOON), "token")

    def run_cycles(self, number: int = 1) -> None:
        for _ in range(number):
            self.do(rules.plan_campaign_cycle(self.updator.gather_situation()))

    def sent(self) -> list[list[str]]:
        return [told.split()[2:] for told in self.grid.told if told.startswith("submit")]

    def counts(self) -> tuple[CampaignState, int, int]:
        found = self.campaigns.find_campaign(1)
        assert found
        return found.state, found.ended, found.failed


def listed(job_id: int, places: range, fact: str) -> ClusterJobListRow:
    known = {"name": "campaign.1", "owner": "alice", "since": NOON}
    return ClusterJobListRow(job_id=job_id, tasks=(places,), state=JobState([fact]), **known)  # type: ignore[arg-type]


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Iterator[Site]:
    database = StateFile.open(f"sqlite:///{tmp_path}/state.db")
    yield Site(database, str(tmp_path / "runner.ran"))
    database.close()


def test_a_campaign_runs_to_its_end_without_a_local_cluster(site: Site) -> None:
    site.bring(2 * SLOTS)
    assert site.policy.home_cluster_section is None

    site.run_cycles(3)

    assert {cluster for cluster, _ in site.sent()} == {"beta", "gamma"}
    assert site.campaigns.query_open_arrays() == ()
    assert site.counts() == (CampaignState.TERMINATED, 2 * SLOTS, 2)


def test_a_test_campaign_sends_one_task_to_each_cluster(site: Site) -> None:
    """Gamma answers late, and beta gets no second task meanwhile."""
    site.bring(2, CampaignType.TEST)
    site.silent = {"gamma"}
    site.run_cycles(3)
    before = site.counts()
    site.silent.clear()
    site.run_cycles(3)

    assert site.sent() == [["beta", "0:1"], ["gamma", "1:1"]]
    assert before[:2] == (CampaignState.IN_TREATMENT, 1)
    assert site.counts()[:2] == (CampaignState.TERMINATED, 2)


def test_a_slow_last_task_is_copied_and_deleted_after_the_copy_succeeded(site: Site) -> None:
    """A task that runs long at beta gets a copy at gamma, and counts once."""
    site.bring(2 * SLOTS, is_idempotent=True)
    site.run_cycles()
    site.hanging["beta"] = listed(71, range(SLOTS, SLOTS + 1), JobStateFact.RUNNING)
    site.now += timedelta(hours=1)
    site.run_cycles(4)

    told = [one for one in site.grid.told if not one.startswith("release")]
    assert told[2:4] == ["submit 3 gamma 3:2", f"end 1 {[SLOTS]}"]
    assert site.counts() == (CampaignState.TERMINATED, 2 * SLOTS, 2)


def test_a_task_that_always_loses_its_host_fails_after_its_retries(site: Site) -> None:
    """Earlier attempts at all clusters count."""
    site.bring(1)
    site.end = JobEnd(reason="failed 100")
    site.run_cycles(9)

    times = site.policy.failures.site_fault + 1
    assert site.sent() == [[("beta", "gamma")[n % 2], f"0:{n + 1}"] for n in range(times)]
    assert site.counts() == (CampaignState.TERMINATED, 1, 1)


@pytest.mark.parametrize(("stress", "drained"), [("0.8", set()), ("0.1", {"beta"})])
def test_a_stressed_or_drained_cluster_gets_no_task_and_arrays_stay_below_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stress: str, drained: set[str]
) -> None:
    script = write_program(tmp_path / "stress", f"#!/bin/sh\necho {stress}\n")
    monkeypatch.setattr(drains, "list_drained_clusters", lambda: frozenset(drained))
    database = StateFile.open(f"sqlite:///{tmp_path}/state.db")
    asked = f'[campaigns.beta]\nstress_script = "{script}"\n'
    site = Site(database, str(tmp_path / "runner.ran"), asked)
    site.limits = {"gamma": ClusterArrayLimits(tasks=3)}
    site.bring(2 * SLOTS)

    site.run_cycles()
    database.close()

    assert site.sent() == [["gamma", "0:1,1:1,2:1"], ["gamma", "3:1"]]


def test_the_limit_of_a_file_server_goes_on_after_a_restart(tmp_path: Path) -> None:
    """The file server is idle, so the limit grows by an eighth in each cycle, until no load is reported."""
    load, number = write_program(tmp_path / "load", f"#!/bin/sh\ncat {tmp_path}/number\n"), tmp_path / "number"
    number.write_text("0\n")
    database = StateFile.open(f"sqlite:///{tmp_path}/state.db")
    area = f'[storage.home]\nclusters = {{ beta = "/h", gamma = "/h" }}\nload_command = "{load}"\nload_step = 2\n'
    cycles = []
    for cycle in range(6):
        site = Site(database, str(tmp_path / "runner.ran"), area)
        site.now += timedelta(seconds=15 * cycle)
        if cycle:
            site.hanging = {"beta": listed(71, range(1, 3), JobStateFact.RUNNING)}
        else:
            site.bring(2 * SLOTS)
        if cycle == 4:
            number.unlink()
        site.run_cycles()
        cycles += FileServerLimitRows(database).read_file_server_limits()
    database.close()

    assert [limit.limit for limit in cycles] == pytest.approx([2, 2.25, 2.53, 2.85, 2.85, 2.85], abs=0.01)
    assert [(limit.tasks, limit.load) for limit in cycles] == [(2, 0.0)] * 4 + [(2, None)] * 2


def test_semi_best_effort_tasks_are_ordinary_arrays_up_to_the_share_of_their_cluster(tmp_path: Path) -> None:
    database = StateFile.open(f"sqlite:///{tmp_path}/state.db")
    shares = "[campaigns.beta]\nsemi_share = 0.5\n[campaigns.gamma]\nsemi_share = 0\n"
    site = Site(database, str(tmp_path / "runner.ran"), shares)
    site.bring(2 * SLOTS, wish=replace(WISH, is_semi_besteffort=True))

    site.run_cycles()
    arrays = site.campaigns.arrays_of_campaign(1)
    database.close()

    assert [(array.cluster, array.size, array.is_ordinary) for array in arrays] == [
        ("beta", SLOTS // 2, True),
        ("beta", SLOTS // 2, False),
        ("gamma", SLOTS, False),
    ]


def test_each_cluster_runs_the_prologue_first_and_the_epilogue_last(site: Site) -> None:
    """Neither prologue nor epilogue counts as a task."""
    site.bring(2 * SLOTS, wish=replace(WISH, prologue="make", epilogue="clean"))
    site.run_cycles(9)

    sent = site.sent()
    first, last = FIRST_PROLOGUE_TASK, FIRST_PROLOGUE_TASK + 1  # of beta; gamma's follow
    steps = [[f"{each + more}:1" for more in (0, 2)] for each in (first, last)]
    assert [sorted(each[1] for each in some) for some in (sent[:2], sent[-2:])] == steps
    assert [[each[0] for each in sent[at : at + 2]] for at in (0, 2, 4)] == [["beta", "gamma"]] * 3
    assert len(sent) == 6
    assert site.counts() == (CampaignState.TERMINATED, 2 * SLOTS, 2)


def test_waiting_tasks_reserve_their_slots(site: Site) -> None:
    """Otherwise each cycle would send as many tasks again."""
    site.bring(9 * SLOTS)
    site.run_cycles()
    for name, job_id in (("beta", 71), ("gamma", 72)):
        site.hanging[name] = listed(job_id, range(1, SLOTS + 1), JobStateFact.WAITING)
    assert [cluster for cluster, _ in site.sent()] == ["beta", "gamma"]
    before = [*site.grid.told]
    site.run_cycles()

    assert site.grid.told == before


def test_a_silent_cluster_is_an_event_with_its_error(site: Site) -> None:
    site.bring(SLOTS)
    site.silent = {"gamma"}
    site.updator._asking.troubles = {"gamma": "ssh: no route to host"}

    site.run_cycles()

    (event,) = EventAndSuccessRecordRows(site.campaigns.database).query_open_events()
    assert (event.code, event.cluster, event.why) == (*(CampaignEventCode.GET_JOBS, "gamma"), "ssh: no route to host")
