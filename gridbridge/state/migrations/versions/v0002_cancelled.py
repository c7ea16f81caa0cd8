"""Add a campaign's count of tasks that its owner cancelled, apart from failed tasks."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column `cancelled`."""
    count = sa.Column("cancelled", sa.BigInteger, nullable=False, server_default="0")
    op.add_column("campaigns", count)
