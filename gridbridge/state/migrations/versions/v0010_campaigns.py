"""Campaigns, their arrays, and every attempt to run a task."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

COUNTED = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make their tables."""
    op.create_table(
        "campaigns",
        sa.Column("number", COUNTED, primary_key=True),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("uid",)),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("owner", "state")),
        sa.Column("submitted_at", sa.String(32), nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("tasks", "ended", "failed")),
        sa.Column("token", sa.Text, nullable=False, unique=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("digest", "jdl")),
    )
    op.create_table(
        "campaign_waiting",
        *_key("campaign", "first"),
        *(
            sa.Column(each, sa.BigInteger, nullable=False)
            for each in ("last", "attempt", "priority")
        ),
    )
    op.create_table(
        "campaign_arrays",
        *_key("campaign", "number"),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("cluster", "state")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("size", "job_id")),
        sa.Column("intended_at", sa.String(32), nullable=False),
    )
    op.create_index("campaign_arrays_state", "campaign_arrays", ["state"])
    op.create_table(
        "campaign_attempts",
        *_key("campaign", "task", "attempt"),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("array", "place")),
        sa.Column("outcome", sa.Text, nullable=False),
        *(sa.Column(name, sa.BigInteger) for name in ("exit_status", "wallclock_s")),
        sqlite_with_rowid=False,
    )
    op.create_index("campaign_attempts_array", "campaign_attempts", ["campaign", "array"])


def _key(*names: str) -> "list[sa.Column[int]]":
    return [sa.Column(each, sa.BigInteger, primary_key=True, autoincrement=False) for each in names]
