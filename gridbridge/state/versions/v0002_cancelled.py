"""Migration: each campaign gets a number of tasks that the owner cancelled, apart from failed tasks."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add column `cancelled` to the table of campaigns."""
    count = sa.Column("cancelled", sa.BigInteger, nullable=False, server_default="0")
    op.add_column("campaigns", count)
