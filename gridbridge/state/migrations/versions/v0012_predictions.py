"""What is learnt about campaigns at clusters, their forecasts, and the tasks that are wiped."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Make their tables."""
    op.create_table(
        "campaign_ratios",
        _number("campaign", key=True),
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("ratio", sa.Float, nullable=False),
        _number("free"),
        _number("submitted"),
    )
    op.create_table(
        "campaign_ends",
        _number("campaign", key=True),
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("minute", sa.String(32), primary_key=True),
        _number("ended"),
    )
    op.create_table(
        "campaign_forecasts",
        _number("campaign", key=True),
        *(sa.Column(name, sa.String(32), nullable=False) for name in MOMENTS),
        sa.Column("ended_at", sa.String(32)),
    )
    op.create_table(
        "campaign_marks",
        *(_number(name, key=True) for name in ("campaign", "array", "place")),
        sa.Column("wiped_for", sa.Text, nullable=False),
        sa.Column("missing_since", sa.String(32)),
    )


MOMENTS = ("made_at", "p50_at", "p90_at")


def _number(name: str, *, key: bool = False) -> "sa.Column[int]":
    if key:
        return sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False)
    return sa.Column(name, sa.BigInteger, nullable=False)
