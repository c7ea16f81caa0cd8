"""The tables of campaigns, their parts, arrays and attempts, and of what waits.

Tasks that were never tried are ranges, so that a million of them is one row.
"""

from sqlalchemy import BigInteger, Boolean, Column, Index, Table, false

from gridbridge.state.database.columns import COUNTED, METADATA, Json, Moment, Words

CAMPAIGNS = Table(
    "campaigns",
    METADATA,
    Column("number", COUNTED, primary_key=True),
    Column("uid", BigInteger, nullable=False),
    Column("owner", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("submitted_at", Moment, nullable=False),
    Column("tasks", BigInteger, nullable=False),
    Column("ended", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("token", Words, nullable=False, unique=True),
    Column("digest", Words, nullable=False),
    Column("jdl", Json, nullable=False),
    Column("ended_at", Moment),
    Column("is_end_noted", Boolean, nullable=False, server_default=false()),  # by root's ledger
    Column("cancelled_by", Words, nullable=False, server_default=""),  # the request's token
)

WAITING = Table(
    "campaign_waiting",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("priority", BigInteger, nullable=False),
    Column("avoid", Words, nullable=False, server_default=""),  # clusters, a blank around each
)

PARTS = Table(
    "campaign_parts",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("tasks", BigInteger, nullable=False),
    Column("digest", Words, nullable=False),
    Column("token", Words, nullable=False, unique=True),
)

ARRAYS = Table(
    "campaign_arrays",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("intended_at", Moment, nullable=False),
    Column("is_repeated", Boolean, nullable=False, server_default=false()),
    Column("copies_beyond_s", BigInteger),  # of arrays of copies
    Index("campaign_arrays_state", "state"),
    Index("campaign_arrays_copies", "campaign", "copies_beyond_s"),
)

ATTEMPTS = Table(
    "campaign_attempts",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("array", BigInteger, nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("outcome", Words, nullable=False),
    Column("exit_status", BigInteger),
    Column("wallclock_s", BigInteger),
    Index("campaign_attempts_array", "campaign", "array"),
    sqlite_with_rowid=False,
)
