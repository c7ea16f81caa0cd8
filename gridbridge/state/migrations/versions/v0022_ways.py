"""For which local jobs tasks of campaigns ended."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

KEY = ("campaign", "array", "place")


def upgrade() -> None:
    """Make a table of it."""
    key = [sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False) for name in KEY]
    op.create_table(
        "campaign_ways",
        *key,
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("job", sa.BigInteger, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("lacked", sa.Text, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
    )
    op.create_index("ix_campaign_ways_at", "campaign_ways", ["at"])
