"""What rebalancing has done of late."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """Make its table."""
    op.create_table(
        "rebalance_notes",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
    )
