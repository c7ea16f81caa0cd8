"""Where a waiting task overran its walltime, so that it does not go there again."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Add a column to what waits."""
    op.add_column(
        "campaign_waiting", sa.Column("never", sa.Text, nullable=False, server_default="")
    )
