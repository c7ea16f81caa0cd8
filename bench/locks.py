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
from gridbridge.model.campaigns.jobratio import Law, Prediction, Terms
from gridbridge.model.campaigns.plan import Again, Plan
from gridbridge.model.campaigns.sections import Failures
from gridbridge.model.campaigns.wiping import Missed, Wipe, WipedFor
from gridbridge.services.campaigns.actions import Actions
from gridbridge.services.campaigns.observations import Observations
from gridbridge.shell.clock import Clock
from gridbridge.state.database import Database
from gridbridge.state.database.campaign_tasks import CampaignTasks
from gridbridge.state.database.campaigns import Campaigns
from gridbridge.state.database.marks import Marks

TASKS = 100_000  # that end between two cycles, as after a cluster was away
AN_ARRAY = 10_000
CAMPAIGNS, CLUSTERS = 200, 50  # as bench/cycle.py has them
MOST_S = 0.5
TERMS = Terms(old=1.0, slots=1.0, max_slots=9, free=9, submitted=1, running=1, waiting=0, allowed=1)


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
        _wipe(database, number, tasks // 10)
        wiped_s = database.told()
        CampaignTasks(database).purge(number)
        purged_s = database.told()
    return {
        "state file held, tasks sent": first_s,
        "  ended": ended_s,
        "  sent again": again_s,
        "  wiped and spared, a tenth of them": wiped_s,
        "  purged": purged_s,
    }


def _send(campaigns: Campaigns, number: int, tasks: int) -> None:
    for _ in range(0, tasks, AN_ARRAY):
        assert campaigns.intend(number, "beta", AN_ARRAY, NOON)


def _end(database: Database, campaigns: Campaigns) -> None:
    """Note in one cycle that all that was sent has ended, and runs again.

    Before that none of it was listed for a while; and there is a job ratio of many campaigns.
    """
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
    missed = tuple(
        Missed(campaign=one.campaign, array=one.array, place=one.place, since=NOON) for one in ended
    )
    predicted = tuple(
        Prediction(
            campaign=number, cluster=f"c{at}", law=Law.MEASURED, terms=TERMS, ratio=1.0, submitted=1
        )
        for number in range(1, CAMPAIGNS + 1)
        for at in range(CLUSTERS)
    )
    actions = Actions(database, Observations(database), Clock(), Failures())
    actions.do(Plan(missed=missed))
    actions.do(Plan(ended=ended, again=again, over=sent, predicted=predicted))


def _wipe(database: Database, number: int, tasks: int) -> None:
    """Mark waiting tasks as nikita does before it deletes them, and take the marks off again."""
    marks, wiped_for = Marks(database), WipedFor.OVERFLOW
    array = Campaigns(database).open_arrays()[-1]
    wipe = Wipe(
        campaign=number,
        array=array.number,
        cluster=array.cluster,
        places=(range(1, tasks + 1),),
        wiped_for=wiped_for,
    )
    marks.put(wipe)
    marks.tidy()
    assert len(marks.all()[number, array.number]) == tasks
    marks.remove(wipe)
