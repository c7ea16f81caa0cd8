"""Cost of a cycle's reading of sent tasks, beside the same with a tenth of the tasks.

Arrays of 1000 run, and their cluster lists each task. Of one array a tenth has ended; that is what
there is to find. The baseline reads each attempt of each array. Times are of CPU, the fastest of
some, so that nothing else on the machine counts.
"""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.bag import NOON, campaign
from bench.brief import sized
from bench.rows import Row
from gridbridge.campaigns.runner.campaign_situation_gatherer import CampaignSituationGatherer
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.decisions.campaigns.task_attempt_outcomes import MissingAttemptOutcomeDecider
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignArray
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.job_and_queue_states import JobState, JobStateFact
from gridbridge.model.jobs_and_accounting import JobEnd
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import Policy
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile

SIZE, FEW, MANY, RUNS = (1000, sized(10, 1), sized(100, 10), sized(5, 2))  # tasks of an array, arrays, looks
MOST_S = 1.0  # of a cycle's decisions altogether
RUNNING = JobState([JobStateFact.RUNNING])


def rows() -> list[Row]:
    """Measure the reading."""
    with TemporaryDirectory(dir="/var/tmp") as name:  # /tmp may be memory
        few_s, _ = _measured(f"{name}/few.db", FEW)
        many_s, plain_s = _measured(f"{name}/many.db", MANY)
    tasks = SIZE * MANY
    return [
        Row(what=f"a look at {tasks} tasks that run", measured=many_s, unit="s CPU", limit=MOST_S,
            baseline=plain_s, needs_whole=True),
        Row(what="  at a tenth of them", measured=few_s, unit="s CPU"),
    ]  # fmt: skip


def _measured(path: str, arrays: int) -> tuple[float, float]:
    database = StateFile.open(f"sqlite:///{Path(path)}")
    campaigns = CampaignRows(database)
    campaigns.insert_campaign(campaign(SIZE * arrays), "token")
    for _ in range(arrays):
        array = campaigns.create_array(1, "beta", SIZE, NOON)
        assert array
        campaigns.set_array_state(array, ArraySubmissionState.RELEASED, array.number)
    policy = Policy(site=SiteSection(cluster="alpha"), clusters={}, queues={})
    updator = CampaignSituationGatherer(policy, database, Clock())
    sent, answers = campaigns.query_open_arrays(), {"beta": _listed(arrays)}
    ends = {place: JobEnd(exit_status=0) for place in range(1, 101)}
    vars(updator.end_finder)["_query_task_ends"] = lambda asked, _: dict.fromkeys(asked, ends)
    vars(updator.end_finder)["_accounting_delays_by_cluster"] = lambda clusters: dict.fromkeys(clusters, 0.0)
    judge = MissingAttemptOutcomeDecider(campaigns.unfinished_campaigns(), (), {}, policy.runner.forgotten_s)

    def look() -> None:
        updator.end_finder.missing.load_missing_tasks()
        ended, _ = updator.end_finder.find_ended_attempts(sent, answers, judge)
        assert len(ended) == SIZE // 10

    found = _fastest(look), _fastest(lambda: _read(campaigns, sent))
    database.close()
    return found


def _read(campaigns: CampaignRows, sent: tuple[CampaignArray, ...]) -> None:
    for array in sent:
        campaigns.unfinished_attempts(array)


def _listed(arrays: int) -> ClusterSnapshot:
    """Return a list row for each task; of the first array the first tenth has ended."""
    jobs = {
        number: tuple(
            ClusterJobListRow(job_id=number, name="n", owner="a", state=RUNNING, tasks=(range(n, n + 1),))
            for n in range(1 + SIZE // 10 * (number == 1), SIZE + 1)
        )
        for number in range(1, arrays + 1)
    }
    known = {"taken_at": NOON, "queues": (), "pending": 0, "free_slots": 0}
    return ClusterSnapshot(cluster="beta", jobs=jobs, **known)  # type: ignore[arg-type]


def _fastest(work: Callable[[], None]) -> float:
    times = []
    for _ in range(RUNS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)
