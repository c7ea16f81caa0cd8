"""Query and create speculative attempts of tasks."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import and_, bindparam, case, exists, func, select, tuple_

from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.model.campaigns.campaign import CampaignArray, TaskAttemptOutcome
from gridbridge.model.campaigns.speculation import CompetingAttempt, SpeculativeAttemptsAtCluster
from gridbridge.state.database.campaign_tables import ARRAYS, ATTEMPTS
from gridbridge.state.database.transaction import StateFile

_LIVE = ATTEMPTS.alias("live")
_ARRAY = tuple_(ATTEMPTS.c.campaign, ATTEMPTS.c.array)
_COPIED = (  # the query starts from arrays of speculative attempts, because they are few
    select(ATTEMPTS.c.campaign, ATTEMPTS.c.task)
    .where(
        _ARRAY.in_(
            select(ARRAYS.c.campaign, ARRAYS.c.number).where(
                ARRAYS.c.campaign.in_(bindparam("campaigns", expanding=True)), ARRAYS.c.copies_beyond_s.is_not(None)
            )
        ),
        exists().where(
            _LIVE.c.campaign == ATTEMPTS.c.campaign,
            _LIVE.c.task == ATTEMPTS.c.task,
            _LIVE.c.outcome == TaskAttemptOutcome.PENDING,
        ),
    )
    .distinct()
    .subquery("copied")
)
_RIVALS = (
    select(
        *(ATTEMPTS.c[name] for name in ("campaign", "task", "attempt", "array", "place")),
        ATTEMPTS.c.outcome,
        ARRAYS.c.cluster,
        ARRAYS.c.copies_beyond_s.is_not(None).label("is_copy"),
    )
    .join(_COPIED, and_(*(_COPIED.c[key] == ATTEMPTS.c[key] for key in ("campaign", "task"))))
    .join(ARRAYS, and_(ARRAYS.c.campaign == ATTEMPTS.c.campaign, ARRAYS.c.number == ATTEMPTS.c.array))
    .order_by(ATTEMPTS.c.campaign, ATTEMPTS.c.task, ATTEMPTS.c.attempt)
)
_NOW = (
    select(ATTEMPTS.c.task, func.max(ATTEMPTS.c.attempt).label("last"))
    .where(ATTEMPTS.c.campaign == bindparam("of_campaign"), ATTEMPTS.c.task.in_(bindparam("tasks", expanding=True)))
    .group_by(ATTEMPTS.c.task)
    .having(
        func.sum(case((ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING, 1), else_=0)) > 0,
        func.sum(case((ATTEMPTS.c.outcome == TaskAttemptOutcome.SUCCESS, 1), else_=0)) == 0,
    )
    .order_by(ATTEMPTS.c.task)
)


class SpeculativeAttemptRows:
    """Queries and creates speculative attempts of campaign tasks."""

    def __init__(self, database: StateFile, campaigns: CampaignRows) -> None:
        self._database = database
        self._campaigns = campaigns

    def rivals(self, campaigns: Iterable[int]) -> tuple[CompetingAttempt, ...]:
        """Return all attempts of tasks that have speculative and live attempts."""
        rows = map(dict, self._database.rows(_RIVALS, campaigns=list(campaigns)))
        return tuple(
            CompetingAttempt(**row | {"outcome": TaskAttemptOutcome(row["outcome"]), "is_copy": bool(row["is_copy"])})
            for row in rows
        )

    def intend(self, copies: SpeculativeAttemptsAtCluster, at: datetime) -> CampaignArray | None:
        """Create an array of speculative attempts of live tasks; None if none is live."""
        with self._database.transaction():
            of = {"of_campaign": copies.campaign, "tasks": list(copies.tasks)}
            rows = self._database.rows(_NOW, **of)
            attempts = [(row["task"], row["last"] + 1) for row in rows]
            if not attempts:
                return None
            return self._campaigns.add_array(copies.campaign, copies.cluster, attempts, at, copies.beyond_s)
