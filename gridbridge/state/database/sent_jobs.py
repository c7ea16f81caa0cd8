"""Query the campaign arrays with possibly live tasks at a cluster."""

from dataclasses import fields

from sqlalchemy import and_, bindparam, or_, select

from gridbridge.model.campaigns.campaign import Array, ArrayState, CampaignState
from gridbridge.model.snapshot import SentJob
from gridbridge.state.database.campaign_tables import ARRAYS, CAMPAIGNS
from gridbridge.state.database.transaction import StateFile

ARRAY = tuple(ARRAYS.c[field.name] for field in fields(Array))
# `in_` and not `!= OVER`, so that an index finds the few open arrays.
IS_OPEN = ARRAYS.c.state.in_([state for state in ArrayState if state is not ArrayState.OVER])
IS_GOING = or_(
    CAMPAIGNS.c.state.in_((CampaignState.IN_TREATMENT, CampaignState.PAUSED)),
    and_(CAMPAIGNS.c.state == CampaignState.CANCELLED, CAMPAIGNS.c.ended_at.is_(None)),
)
SENT_TO = select(*ARRAY).where(
    ARRAYS.c.cluster == bindparam("cluster"), ARRAYS.c.job_id > 0, IS_OPEN
)
ANY = select(CAMPAIGNS.c.number).where(IS_GOING).limit(1)


def live_campaign_jobs_at(database: StateFile, cluster: str) -> SentJob:
    """Return the campaign jobs that may be alive at a cluster."""
    rows = database.rows(SENT_TO, cluster=cluster)
    return SentJob(
        jobs=frozenset(row["job_id"] for row in rows),
        released=frozenset(
            f"{row['campaign']}.{row['number']}"
            for row in rows
            if row["state"] == ArrayState.RELEASED
        ),
        is_watched=bool(rows or database.rows(ANY)),
    )
