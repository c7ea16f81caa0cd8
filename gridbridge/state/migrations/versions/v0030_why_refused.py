"""Why a cluster takes nothing of a campaign, in the words of who refused."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Add a column to events."""
    op.add_column("campaign_events", sa.Column("why", sa.Text, nullable=False, server_default=""))
