"""Which request closed an event, so that one that comes again after a kill is known."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Add a column to events."""
    op.add_column(
        "campaign_events", sa.Column("closed_by", sa.Text, nullable=False, server_default="")
    )
