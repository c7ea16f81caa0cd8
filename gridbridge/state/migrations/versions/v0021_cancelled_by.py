"""Which request cancelled a campaign; of those before nobody knows."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Add that column."""
    op.add_column(
        "campaigns", sa.Column("cancelled_by", sa.Text, nullable=False, server_default="")
    )
