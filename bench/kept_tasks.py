"""Stored size of 1,000,000 ended tasks, and the time to show them.

The tasks of one campaign are sent and end as the runner notes it, in arrays of 1000. The sizes are
those of the state file and of what is published. Times are of CPU, so that nothing else on the
machine counts. The baseline of gridstat is the same command
where one task ended; that of the state is a line of comma-separated values for each task.
"""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.bag import NOON, campaign
from bench.brief import sized
from bench.rows import Row
from gridbridge.campaigns.runner.campaign_completion_forecasts import CampaignCompletionForecasts
from gridbridge.campaigns.runner.campaign_publication import CampaignPublisher
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignStatisticsRows
from gridbridge.campaigns.store.task_attempt_rows import SpeculativeAttemptRows, TaskAttemptRows
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignArray, TaskAttemptOutcome
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile

ARRAY = 1000
MOST_BYTES, MOST_S, MOST_TIMES = 300.0, 0.5, 1.2
RUNS = sized(5, 2)


def rows(tasks: int) -> list[Row]:
    """Measure sizes and times."""
    with TemporaryDirectory(dir="/var/tmp") as name:  # /tmp may be memory
        site = _Site(name, tasks)
        site.end(1)
        few_s = site.shown_s()
        site.end(tasks // 10 - 1)
        look_s = site.look_s()
        site.end(tasks - tasks // 10)
        size = site.size() / tasks
        plain = sum(len(f"{n},success,beta,1,0,60,{n // ARRAY},{n}\n") for n in range(tasks)) / tasks
        many_s, times = site.shown_s(), site.look_s() / look_s
    return [
        Row(what="state of an ended task", measured=size, unit="bytes", limit=MOST_BYTES,
            baseline=plain, needs_whole=True),
        Row(what="gridstat of all of them", measured=many_s, unit="s CPU", limit=MOST_S,
            baseline=few_s),
        Row(what="a cycle's look at the state file", measured=times, unit="times a tenth's",
            limit=MOST_TIMES, needs_whole=True),
    ]  # fmt: skip


class _Site:
    """A state file with one campaign, and its published files."""

    def __init__(self, folder: str, tasks: int) -> None:
        self._folder = folder
        os.mkdir(f"{folder}/published")
        self._database, clock = StateFile.open(f"sqlite:///{folder}/state.db"), Clock()
        self._campaigns = CampaignRows(self._database)
        forecasts = CampaignCompletionForecasts(self._campaigns, CampaignStatisticsRows(self._database), clock, 15.0)
        published = f"{folder}/published"
        self._publication = CampaignPublisher(self._database, self._campaigns, forecasts, clock, published)
        self._tries = TaskAttemptRows(self._database, self._campaigns)
        self._copies = SpeculativeAttemptRows(self._database, self._campaigns)
        self._number = self._campaigns.insert_campaign(campaign(tasks), "token")
        self._last: list[CampaignArray] = []

    def end(self, tasks: int) -> None:
        """Send further tasks and record their ends."""
        while tasks > 0:
            array = self._campaigns.create_array(self._number, "beta", min(ARRAY, tasks), NOON)
            assert array
            ended = tuple(
                replace(one, outcome=TaskAttemptOutcome.SUCCESS, exit_status=0, wallclock_s=60)
                for one in self._campaigns.unfinished_attempts(array)
            )
            with self._database.transaction():
                self._campaigns.record_attempt_ends(ended)
                self._campaigns.add_to_task_counts(self._number, len(ended), 0)
                self._campaigns.set_array_state(array, ArraySubmissionState.OVER, array.number)
            self._last = [array]
            self._publication.mark_campaigns_before_change([self._number])
            self._publication.publish_changed_tasks(ended)
            tasks -= len(ended)
        self._publication.publish_campaigns([])

    def size(self) -> int:
        """Return the bytes of the state file and of all that is published."""
        return sum(path.stat().st_size for path in Path(self._folder).rglob("*") if path.is_file())

    def look_s(self) -> float:
        """Return how long a cycle reads the state file, the fastest of some runs."""
        return min(self._look_once_s() for _ in range(RUNS))

    def _look_once_s(self) -> float:
        began = time.process_time()
        for _ in range(20):
            self._campaigns.unfinished_campaigns()
            self._campaigns.count_unsent_tasks()
            self._campaigns.query_open_arrays()
            self._campaigns.run_times_by_cluster(self._number)
            self._copies.competing_attempts([self._number])
            for array in self._last:
                self._tries.unfinished_indices(array)
        return time.process_time() - began

    def shown_s(self) -> float:
        """Return how long gridstat takes to show the campaign, the fastest of some runs."""
        return min(self._shown_once_s() for _ in range(RUNS))

    def _shown_once_s(self) -> float:
        argv = (f"{Path(sys.executable).parent}/gridstat", str(self._number), "--published",
                f"{self._folder}/published")  # fmt: skip
        child = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert not child.returncode
        return used.ru_utime + used.ru_stime
