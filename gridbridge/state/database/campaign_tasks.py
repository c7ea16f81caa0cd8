"""The tasks of campaigns as people see them: each by its last attempt."""

from sqlalchemy import and_, bindparam, func, select

from gridbridge.model.campaigns.campaign import Outcome
from gridbridge.model.campaigns.task import ShownTask
from gridbridge.state.database.campaigns import ARRAYS, ATTEMPTS, WAITING
from gridbridge.state.database.core import Database

_SENT = (
    select(
        ATTEMPTS.c.task.label("number"),
        *(ATTEMPTS.c[name] for name in ("attempt", "outcome", "place")),
        *(ATTEMPTS.c[name] for name in ("exit_status", "wallclock_s")),
        *(ARRAYS.c[name] for name in ("cluster", "job_id")),
    )
    .join(
        ARRAYS,
        and_(ARRAYS.c.campaign == ATTEMPTS.c.campaign, ARRAYS.c.number == ATTEMPTS.c.array),
    )
    .where(
        ATTEMPTS.c.campaign == bindparam("of_campaign"),
        ATTEMPTS.c.task.between(bindparam("low"), bindparam("high")),
    )
    .order_by(ATTEMPTS.c.task, ATTEMPTS.c.attempt)
)
_AGAIN = select(WAITING.c.first, WAITING.c.last).where(
    WAITING.c.campaign == bindparam("of_campaign"),
    WAITING.c.attempt > 1,
    WAITING.c.first <= bindparam("high"),
    WAITING.c.last >= bindparam("low"),
)
_LAST = select(func.max(ATTEMPTS.c.task).label("task")).where(
    ATTEMPTS.c.campaign == bindparam("of_campaign")
)


class CampaignTasks:
    """What is kept of single tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def sent(self, campaign: int, low: int, high: int) -> tuple[ShownTask, ...]:
        """Return the tasks between two numbers that were ever sent, by number."""
        of = {"of_campaign": campaign, "low": low, "high": high}
        again = {
            task
            for row in self._database.rows(_AGAIN, **of)
            for task in range(max(low, row["first"]), min(high, row["last"]) + 1)
        }
        found = {row["number"]: dict(row) for row in self._database.rows(_SENT, **of)}
        return tuple(
            ShownTask(**row | {"outcome": Outcome(row["outcome"]), "is_waiting": number in again})
            for number, row in found.items()
        )

    def last(self, campaign: int) -> int:
        """Return the highest number of a task that was ever sent; -1 for none."""
        (row,) = self._database.rows(_LAST, of_campaign=campaign)
        return -1 if row["task"] is None else int(row["task"])
