"""For how long the runner keeps others from writing the state file, at most.

The poller writes the same file. A cycle that has much to note does so in several transactions, and
so does the deletion of a large campaign. Times are of CPU; the baseline is the same for a tenth of
the tasks, which are fewer than a transaction takes.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory

from sqlalchemy import Connection

from bench.bag import NOON, campaign
from bench.rows import Row
from gridbridge.model.campaigns.campaign import Outcome
from gridbridge.model.campaigns.plan import Again, Plan
from gridbridge.model.campaigns.sections import Failures
from gridbridge.services.campaigns.actions import Actions
from gridbridge.services.campaigns.learnt import Learnt
from gridbridge.shell.clock import Clock
from gridbridge.state.database import Database
from gridbridge.state.database.campaign_tasks import CampaignTasks
from gridbridge.state.database.campaigns import Campaigns

TASKS = 100_000  # that end between two cycles, as after a cluster was away
AN_ARRAY = 10_000
MOST_S = 0.5


def rows() -> list[Row]:
    """Measure it for tasks that all run again, so that each is noted, sent once more and purged."""
    few, many = _held(TASKS // 10), _held(TASKS)
    return [
        Row(what=what, measured=many[what], unit="s CPU", limit=MOST_S, baseline=few[what])
        for what in many
    ]


class _Watched(Database):
    """A state file that knows its longest transaction."""

    longest_s = 0.0

    @contextmanager
    def _new(self) -> Iterator[Connection]:
        began = time.process_time()
        with super()._new() as connection:
            yield connection
        self.longest_s = max(self.longest_s, time.process_time() - began)

    def told(self) -> float:
        """Return the longest transaction since the last call, in seconds."""
        found, self.longest_s = self.longest_s, 0.0
        return found


def _held(tasks: int) -> dict[str, float]:
    with TemporaryDirectory(dir="/var/tmp") as folder:  # /tmp may be memory
        database = _Watched.open(f"sqlite:///{folder}/state.db")
        assert isinstance(database, _Watched)
        campaigns = Campaigns(database)
        number = campaigns.add(campaign(tasks), "token")
        _send(campaigns, number, tasks)
        first_s = database.told()
        _end(database, campaigns)
        ended_s = database.told()
        _send(campaigns, number, tasks)
        again_s = database.told()
        CampaignTasks(database).purge(number)
        purged_s = database.told()
    return {
        "state file held, tasks sent": first_s,
        "  ended": ended_s,
        "  sent again": again_s,
        "  purged": purged_s,
    }


def _send(campaigns: Campaigns, number: int, tasks: int) -> None:
    for _ in range(0, tasks, AN_ARRAY):
        assert campaigns.intend(number, "beta", AN_ARRAY, NOON)


def _end(database: Database, campaigns: Campaigns) -> None:
    """Note in one cycle that all that was sent has ended, and runs again."""
    sent = campaigns.open_arrays()
    ended = tuple(
        replace(one, outcome=Outcome.SITE_FAULT)
        for array in sent
        for one in campaigns.pending(array)
    )
    again = tuple(
        Again(campaign=one.campaign, task=one.task, attempt=one.attempt, outcome=one.outcome)
        for one in ended
    )
    plan = Plan(ended=ended, again=again, over=sent)
    Actions(database, Learnt(database), Clock(), Failures()).do(plan)
