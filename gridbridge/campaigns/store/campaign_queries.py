"""SQL queries on campaigns, their arrays, attempts and waiting tasks."""

from dataclasses import fields

from sqlalchemy import and_, bindparam, delete, exists, func, or_, select, update

from gridbridge.model.campaigns.campaign import Campaign, CampaignState, TaskAttemptOutcome, WaitingTaskRange
from gridbridge.model.campaigns.task_attempt_ranges import FIRST_PROLOGUE_TASK
from gridbridge.state.database.campaign_tables import (
    ARRAY,
    ARRAYS,
    ATTEMPTS,
    CAMPAIGNS,
    DONE,
    IS_GOING,
    IS_OPEN,
    WAITING,
)

ENDING = ("outcome", "exit_status", "wallclock_s", "is_overrun")  # columns set at an attempt's end

CAMPAIGN = tuple(CAMPAIGNS.c[field.name] for field in fields(Campaign))
ATTEMPT = tuple(ATTEMPTS.c)
BY_NUMBER = select(*CAMPAIGN).order_by(CAMPAIGNS.c.number)
BRIEFLY = select(*(column for column in CAMPAIGN if column.name != "jdl")).order_by(CAMPAIGNS.c.number)
JDLS = select(CAMPAIGNS.c.number, CAMPAIGNS.c.jdl).where(CAMPAIGNS.c.number.in_(bindparam("numbers", expanding=True)))
ONE = BY_NUMBER.where(CAMPAIGNS.c.number == bindparam("number"))
BY_TOKEN = BY_NUMBER.where(CAMPAIGNS.c.token == bindparam("token"))
UNFINISHED = BY_NUMBER.where(or_(IS_GOING, CAMPAIGNS.c.number.in_(select(ARRAYS.c.campaign).where(IS_OPEN))))
ONE_UNFINISHED = select(CAMPAIGNS.c.number).where(
    CAMPAIGNS.c.number == bindparam("number"),
    or_(IS_GOING, exists(select(ARRAYS.c.number).where(ARRAYS.c.campaign == bindparam("number"), IS_OPEN))),
)
OPEN_ARRAYS = select(*ARRAY).where(IS_OPEN).order_by(ARRAYS.c.campaign, ARRAYS.c.number)
OF_ARRAY = and_(ATTEMPTS.c.campaign == bindparam("of_campaign"), ATTEMPTS.c.array == bindparam("of_array"))
PENDING = select(*ATTEMPT).where(OF_ARRAY, ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING).order_by(ATTEMPTS.c.place)
RAN = (
    TaskAttemptOutcome.SUCCESS,
    TaskAttemptOutcome.PROGRAM_ERROR,
    TaskAttemptOutcome.SIGNAL,
    TaskAttemptOutcome.WALLTIME,
)
DURATIONS = (
    select(ARRAYS.c.cluster, ATTEMPTS.c.wallclock_s)
    .join_from(ATTEMPTS, ARRAYS, and_(ATTEMPTS.c.campaign == ARRAYS.c.campaign, ATTEMPTS.c.array == ARRAYS.c.number))
    .where(
        ATTEMPTS.c.campaign == bindparam("campaign"),
        # `+ 0` keeps SQLite from a range scan of the key, so that it reads the last arrays first
        ATTEMPTS.c.task + 0 < FIRST_PROLOGUE_TASK,
        ATTEMPTS.c.outcome.in_(RAN),
        ATTEMPTS.c.wallclock_s.is_not(None),
    )
    .order_by(ATTEMPTS.c.array.desc())
    .limit(600)
)
ENDED = (
    update(ATTEMPTS)
    .where(*(ATTEMPTS.c[key] == bindparam(f"of_{key}") for key in ("campaign", "task", "attempt")))
    .values({key: bindparam(f"of_{key}") for key in ENDING})
)
WAITING_COUNTS = select(WAITING.c.campaign, func.sum(WAITING.c.last - WAITING.c.first + 1).label("tasks")).group_by(
    WAITING.c.campaign
)
KEPT_OFF = (
    select(
        WAITING.c.campaign,
        WAITING.c.avoid,
        WAITING.c.never,
        func.sum(WAITING.c.last - WAITING.c.first + 1).label("tasks"),
    )
    .where(or_(WAITING.c.avoid != "", WAITING.c.never != ""))
    .group_by(WAITING.c.campaign, WAITING.c.avoid, WAITING.c.never)
    .order_by(WAITING.c.campaign, WAITING.c.avoid, WAITING.c.never)
)
NEXT_WAITING = (
    select(*(WAITING.c[field.name] for field in fields(WaitingTaskRange)))
    .where(WAITING.c.campaign == bindparam("campaign"))
    .order_by(WAITING.c.priority.desc(), WAITING.c.first)
)
TAKEN = delete(WAITING).where(WAITING.c.campaign == bindparam("of_campaign"), WAITING.c.first == bindparam("of_first"))
OF_CAMPAIGN = select(*ARRAY).where(ARRAYS.c.campaign == bindparam("campaign"))
UNNOTED = (
    select(CAMPAIGNS.c.number)
    .where(
        CAMPAIGNS.c.ended_at.is_not(None),
        CAMPAIGNS.c.state.in_((CampaignState.TERMINATED, CampaignState.CANCELLED)),
        ~CAMPAIGNS.c.is_end_noted,
    )
    .order_by(CAMPAIGNS.c.number)
)
IS_DONE = select(DONE.c.campaign).where(DONE.c.token == bindparam("token"), DONE.c.campaign == bindparam("campaign"))
ENDED_BEFORE = (
    select(CAMPAIGNS.c.number)
    .where(CAMPAIGNS.c.ended_at < bindparam("moment"), CAMPAIGNS.c.state != CampaignState.PURGED)
    .order_by(CAMPAIGNS.c.ended_at, CAMPAIGNS.c.number)
)
LAST_NUMBER = select(func.max(CAMPAIGNS.c.number).label("number"))
LAST_ARRAY = select(func.max(ARRAYS.c.number).label("number")).where(ARRAYS.c.campaign == bindparam("campaign"))
