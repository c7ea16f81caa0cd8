"""Counts the tasks of a campaign that their owner cancelled apart from those that failed."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the count."""
    count = sa.Column("cancelled", sa.BigInteger, nullable=False, server_default="0")
    op.add_column("campaigns", count)
